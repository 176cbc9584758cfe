"""The one answer that each job gets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from typing import Any, Callable, Optional, Tuple

from . import _ending
from ._base import Base, J
from ._describe import describe
from ._errors import Cancelled, ConnectionLost, Discard, Failure, Release, Retry
from ._jobs import AnyJob
from ._json import clean, dump, make_frame, object_of
from ._limits import REMEMBERED_ANSWERS
from ._log import log
from ._logs import context_of

# Of failures that this library makes itself.
_OWN_TYPES = ("InvalidArgs", "InvalidResult", "StepsChanged", "CheckpointTooLarge")


class Answers(Base[J]):
    # What goes out

    def _handler_for(self, kind: str) -> Optional[Callable[[Any], Any]]:
        return self._handlers.get(kind) or self._handlers.get("*")

    def _answer(self, job: J, result: Any, error: Optional[BaseException]) -> None:
        """The handler is done: the one answer that its job gets."""
        if self._link is None or os.getpid() != self._link.pid:
            _ending.end_forked_child(error)
        ending = job._resume.ending
        if ending is not None and error is not ending and not _is_meant(error):
            # It caught what ended it at a row or step, or made something else of it. Its work is not done.
            with context_of(job):
                _log_other_end(job, ending, result, error)
            error = ending
        if error is not None:
            job._save_at_end()
        try:
            with context_of(job):
                kind, data = self._answer_frame(job, result, error)
        except BaseException as broken:  # out of memory, most likely
            log.error("job %s: its answer cannot be made: %r", job.id, type(broken).__name__)
            failure = {"code": "handler_error", "message": "the answer cannot be made", "retryable": True}
            kind, data = "fail", make_frame("fail", job.id, error=failure)
        if isinstance(error, BaseException) and not isinstance(error, (Exception, asyncio.CancelledError)):
            # Somebody wants the whole process to end. It will, when the other jobs are finished.
            log.error("job %s: %s in its handler: the worker ends", job.id, type(error).__name__)
            self._exit = error
            self._stop_asked = True
        with self._lock:
            job._is_over = True
            with contextlib.suppress(ConnectionLost):
                self._link.send(data)
                self._answers[job.id] = kind
                if len(self._answers) > REMEMBERED_ANSWERS:
                    self._answers.popitem(last=False)
            self._held.discard(job)
            if self._parent is not None:
                self._parent.job_done()
            if not self._held:
                self._all_over.notify_all()
        self._link.wake()

    def _answer_frame(self, job: J, result: Any, error: Optional[BaseException]) -> Tuple[str, bytes]:
        cause = error
        if error is None:
            if result is None:
                return "ack", make_frame("ack", job.id)
            try:
                data = make_frame("ack", job.id, '"result":' + dump(result, default=object_of))
            except Exception as unfit:
                message = f"the handler's result is not JSON: {type(unfit).__name__}: {unfit}"
                error, cause = Discard(message, type="InvalidResult"), unfit
            else:
                if self._fits(data):
                    return "ack", data
                # As ojs-init does when the backend refuses a result: the work is done, it must not be done again.
                log.error("job %s: its result is dropped: %d bytes, over %d", job.id, len(data), self._max_frame)
                return "ack", make_frame("ack", job.id)
        if isinstance(error, (Cancelled, asyncio.CancelledError)) and job.cancel_reason is not None:
            if job.cancel_reason == "timeout":
                error = cause = Retry("the job took longer than it may", code="timeout", type="Timeout")
            else:
                error = Release(job.cancel_reason)
        if isinstance(error, Release):
            reason = None if error.reason is None else clean(error.reason, 1000)
            after = math.ceil(error.after * 1000) if error.after else None
            return "release", make_frame("release", job.id, reason=reason, after_ms=after)
        described = describe(error)
        if not _is_in_own_words(cause):
            level = _level_of(job, described["retryable"])
            log.log(level, "job %s (%s) failed: %s", job.id, job.type, clean(described["message"], 200), exc_info=cause)
        data = make_frame("fail", job.id, error=described)
        if not self._fits(data):
            log.error("job %s: details and backtrace are dropped: the report has %d bytes", job.id, len(data))
            described = {name: value for name, value in described.items() if name not in ("details", "backtrace")}
            described["message"] = described["message"][:200]
            data = make_frame("fail", job.id, error=described)
        return "fail", data


def _level_of(job: AnyJob, is_retryable: bool) -> int:
    """WARNING if the backend tries the job again, ERROR if it does not or if that is unknown."""
    attempt, most = job.envelope.get("attempt"), job.envelope.get("max_attempts")
    has_more = isinstance(attempt, int) and isinstance(most, int) and attempt < most
    return logging.WARNING if is_retryable and has_more else logging.ERROR


def _is_in_own_words(error: Optional[BaseException]) -> bool:
    """Whether the handler itself said what is wrong, or obeyed the cancel for its timeout: then there is no mistake to look for.
    ojs-init logs its words."""
    if not isinstance(error, Failure) or getattr(error, "type", None) in _OWN_TYPES:
        return False
    return error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)


def _is_meant(error: Optional[BaseException]) -> bool:
    """Whether a handler that was ended chose its outcome by itself, or ends the process."""
    if isinstance(error, (Failure, Release)):
        return True
    return error is not None and not isinstance(error, (Exception, asyncio.CancelledError))


def _log_other_end(job: AnyJob, ending: Exception, result: Any, error: Optional[BaseException]) -> None:
    """What the handler made of its end is not reported. It may be a mistake that shows only then."""
    what = f"{type(ending).__name__}: {clean(ending, 500)}"
    if error is not None and not isinstance(error, (Cancelled, asyncio.CancelledError)):
        log.warning("job %s ends as it was ended at a row or step (%s); this error comes on top", job.id, what, exc_info=error)
    elif result is not None:
        log.warning("job %s ends as it was ended at a row or step (%s); its result is dropped", job.id, what)
