"""What the backend is told about an exception."""

from __future__ import annotations

import os
import traceback
from types import TracebackType
from typing import Any, Dict, List, Optional

from ._errors import Failure, Retry
from ._json import clean, dump
from ._limits import MAX_BACKTRACE_CHARS, MAX_BACKTRACE_FRAMES, MAX_DEPTH, MAX_MESSAGE_CHARS
from ._log import log

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


def backtrace_of(trace: Optional[TracebackType]) -> List[str]:
    """The calls that led there, innermost first, as many as the Open Job Spec lets an error have."""
    lines: List[str] = []
    room = MAX_BACKTRACE_CHARS
    for frame in reversed(traceback.extract_tb(trace, limit=-MAX_BACKTRACE_FRAMES)):
        line = clean(f"{frame.filename}:{frame.lineno} in {frame.name}", 1000)
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    return lines


def own_trace(error: BaseException) -> Optional[TracebackType]:
    """Its trace without our own call of the handler."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _details(error: Failure) -> Dict[str, Any]:
    """Those of the program, if they are a JSON object, and when it wants to be tried again."""
    details: Dict[str, Any] = {}
    try:
        if error.details is not None:
            if not isinstance(error.details, dict):
                raise TypeError("no dict")
            dump(error.details, MAX_DEPTH - 2)
            details.update(error.details)
    except (TypeError, ValueError, RecursionError):
        log.warning("the details of a %s are no JSON object and are left out", type(error).__name__)
    if isinstance(error, Retry) and error.after is not None:
        details["retry_after_ms"] = round(error.after * 1000)
    return details


def describe(error: BaseException) -> Dict[str, Any]:
    """What the backend is told about an exception."""
    kind: Optional[str] = None
    origin: Optional[BaseException] = error
    described: Dict[str, Any] = {"code": "handler_error", "retryable": True}
    if isinstance(error, Failure):
        origin = error.__cause__
        kind = error.type
        described.update(code=clean(error.code, 200), retryable=error.retryable)
        message = error.message or clean(error if origin is None else origin, MAX_MESSAGE_CHARS)
        details = _details(error)
        if details:
            described["details"] = details
    elif isinstance(error, SystemExit):
        message = f"the handler called sys.exit({error.code!r})"
    else:
        message = clean(error, MAX_MESSAGE_CHARS)
    name = type(error if origin is None else origin).__name__
    described["type"] = clean(kind or name, 200)
    described["message"] = clean(message, MAX_MESSAGE_CHARS) or name
    if origin is not None:
        backtrace = backtrace_of(own_trace(origin))
        if backtrace:
            described["backtrace"] = backtrace
    return described
