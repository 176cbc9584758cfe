"""The answer to a job, from what its handler returned or raised."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import traceback
from types import TracebackType
from typing import Any, Dict, Optional

from ._basics import Default, frame, log, shown, text_of
from ._errors import Cancelled, CheckpointTooLarge, Failure, HandlerNotFound, InvalidArgs, Release, Retry, StepsChanged
from ._jobs import AnyJob

OWN = (CheckpointTooLarge, HandlerNotFound, InvalidArgs, StepsChanged)
"""The failures that this library raises."""
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def settle(job: AnyJob, error: BaseException) -> BaseException:
    """What the backend is told about the end of a handler, cancelled or not."""
    if isinstance(error, asyncio.CancelledError) and job.cancel_reason is not None:
        error = Cancelled(job.cancel_reason)
    if isinstance(error, Cancelled) and error.reason == "timeout":
        return Retry("the job took longer than it may", code="timeout", type="Timeout")
    return Release(error.reason) if isinstance(error, Cancelled) else error


def answer(job: AnyJob, result: Any, error: Optional[BaseException], default: Default) -> bytes:
    """The frame that answers the job. Its type and the job's id come first, for ojs-init reads
    these of any line."""
    if error is None:
        return _ack(job, result, default)
    if isinstance(error, Release):
        fields: Dict[str, Any] = {"type": "release", "job_id": job.id}
        fields.update({"reason": text_of(error.reason)} if error.reason is not None else {})
        fields.update({"after_ms": math.ceil(error.after * 1000)} if error.after else {})
        return frame(fields, errors="replace")
    described = describe(error)
    # A Retry or Discard of the handler's own has no mistake to look for; ojs-init logs its words.
    if not isinstance(error, Failure) or isinstance(error, OWN) or error.__cause__ is not None:
        has_more = described["retryable"] and "max_attempts" in job.envelope and not job.is_last_attempt
        level = logging.WARNING if has_more else logging.ERROR
        stack = None if isinstance(error, OWN) else (type(error), error, own_trace(error))
        log.log(level, "job %s (%s) failed: %s", shown(job.id), shown(job.type, 200), shown(error, 200), exc_info=stack)
    fields = {"type": "fail", "job_id": job.id, "error": described}
    try:
        return frame(fields, default, errors="replace")
    except (TypeError, ValueError, RecursionError):
        log.warning("job %s: the details of a %s are not JSON and are left out", shown(job.id), type(error).__name__)
        described.pop("details", None)
        return frame(fields, text_of, errors="replace")


def _ack(job: AnyJob, result: Any, default: Default) -> bytes:
    fields: Dict[str, Any] = {"type": "ack", "job_id": job.id}
    try:
        return frame(fields if result is None else {**fields, "result": result}, default)
    except Exception as error:  # Among them those of the program's own json_default.
        kind, why = type(result).__name__, type(error).__name__
        log.error("job %s is done without its result: a %s that is not JSON (%s)", shown(job.id), kind, why)
        return frame(fields)


def describe(error: BaseException) -> Dict[str, Any]:
    """The failure, as the backend gets it."""
    origin: Optional[BaseException] = error
    message = f"the handler called sys.exit({error.code!r})" if isinstance(error, SystemExit) else text_of(error)
    described: Dict[str, Any] = {"code": "handler_error", "retryable": True}
    kind: Optional[str] = None
    if isinstance(error, Failure):
        origin, kind = error.__cause__, error.type
        message = error.message or text_of(origin or error)
        described.update(code=error.code, retryable=error.retryable)
        details = error.details
        if isinstance(error, Retry) and error.after is not None:
            details = {**(details or {}), "retry_after_ms": round(error.after * 1000)}
        described.update({"details": details} if details else {})
    name = kind or type(origin or error).__name__
    described.update(type=name, message=message or name)
    if origin is not None:
        frames = reversed(traceback.extract_tb(own_trace(origin)))
        described["backtrace"] = [f"{each.filename}:{each.lineno} in {each.name}" for each in frames]
    return described


def own_trace(error: BaseException) -> Optional[TracebackType]:
    """The traceback without this library's call of the handler."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace
