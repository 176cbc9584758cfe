"""What every module uses: the logger, JSON, text for the log, the check of options, and the
exceptions that a program can raise or catch."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import logging
import os
import re
import threading
from typing import Any, Callable, Dict, Iterable, NoReturn, Optional, Type, TypeVar, cast

__version__ = "0.1.0"
MAX_COUNT = 10_000
"""The most jobs at once, processes, and tries of a request."""
MAX_LOGGED = 10_000
"""The longest text in a log line, in characters."""
MAX_DEPTH = 100
"""Most levels of arrays and objects that ojs-init reads, those of the frame included."""
MAX_AFTER = 366 * 86400.0
"""The longest `after` of `Retry` and `Release`, in seconds."""

Default = Callable[[Any], Any]
"""Converts an object that is not JSON, or raises TypeError."""
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

log = logging.getLogger("ojs_worker")
_TOKEN = re.compile(rb'"(?:[^"\\]+|\\.)*"|[][{}]')
"""What the depth of JSON depends on; brackets in a text do not count."""
_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def jsonable(value: Any, own: Optional[Default] = None) -> Any:
    """A dataclass or a pydantic model as an object, for `json.dumps`; anything else by the
    program's own function."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    if own is not None:
        return own(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def dump(value: Any, default: Default = jsonable) -> str:
    """JSON text. Raises TypeError, ValueError or RecursionError for a value that is not JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)


def frame(fields: Dict[str, Any], default: Default = jsonable, errors: str = "strict") -> bytes:
    """A line for ojs-init. `errors` says what becomes of half surrogate pairs."""
    return dump(fields, default).encode("utf-8", errors) + b"\n"


def is_too_deep(data: bytes) -> bool:
    """Whether a frame has more levels of arrays and objects than ojs-init reads."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = deepest = 0
    for found in _TOKEN.finditer(data):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(found[0], 0)
        deepest = max(deepest, depth)
    return deepest > MAX_DEPTH


def copy_of(value: Any, default: Default = jsonable) -> Any:
    """The value as another process would read it."""
    return value if value is None or type(value) in (bool, int, str) else json.loads(dump(value, default))


def typed(value: Any, kind: Type[Any], default: T) -> T:
    """The value if it has that type, else the default. A boolean is no integer."""
    return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else default


def text_of(value: Any) -> str:
    """`str(value)`, even if that raises."""
    try:
        return str(value)
    except Exception as error:
        return f"(its message cannot be shown: {type(error).__name__})"


def shown(value: Any, limit: int = MAX_LOGGED) -> str:
    """A text for the log: one line, not too long, no control characters."""
    return _control.sub("\ufffd", text_of(value)[:limit].encode("utf-8", "replace").decode("utf-8"))


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError that names the unknown options and those that exist."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{what}: unknown option {', '.join(unknown)}; there are {', '.join(known)}")


def check_count(name: str, value: Optional[int]) -> None:
    """Raise a ValueError unless it is a number of jobs, processes or tries, or None."""
    if value is not None and typed(value, int, 0) not in range(1, MAX_COUNT + 1):
        raise ValueError(f"{name} is a whole number from 1 to {MAX_COUNT}, not {value!r}")


def checks_options(what: Optional[str] = None) -> Callable[[F], F]:
    """Check the options of a method that users call as `what` (None: as its class)."""

    def decorate(function: F) -> F:
        names = list(inspect.signature(function).parameters)[1:]

        @functools.wraps(function)
        def checked(self: Any, *args: Any, **options: Any) -> Any:
            check_names(what or type(self).__name__, options, names)
            return function(self, *args, **options)

        return cast(F, checked)

    return decorate


class OjsError(Exception):
    """The base class of this library's own errors."""


class NotUnderOjsInit(OjsError):
    """The process was not started by ojs-init in a mode that has a socket."""


class ConnectionLost(OjsError):
    """ojs-init has closed the connection. The process has to end: nothing reconnects."""


class ProtocolError(OjsError):
    """ojs-init speaks a version of the protocol that this library does not know."""


class ForkedProcess(OjsError):
    """The connection belongs to the parent of this process."""


class EnqueueError(OjsError):
    """The backend could not be reached, or refused the job."""

    def __init__(self, message: str, *, status: Optional[int] = None, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status; None if there was no answer."""
        self.code = code
        """The backend's own code, such as ``"validation_error"``; empty if it gave none."""


class Duplicate(EnqueueError):
    """The backend has a job that is the same by its `unique` policy, or that has the same id."""

    def __init__(self, message: str, *, existing_id: Optional[str] = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.existing_id = existing_id
        """The id of that job, if the backend said it."""


class Failure(Exception):
    """The base class of `Retry` and `Discard`."""

    retryable = True
    # The defaults serve a subclass whose own __init__ does not call this one.
    message: str = ""
    code: str = "handler_error"
    type: Optional[str] = None
    details: Optional[Dict[str, Any]] = None

    @checks_options()
    def __init__(
        self, message: str = "", *, code: str = "", type: Optional[str] = None, details: Optional[Dict[str, Any]] = None
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.type, self.details = message, code or self.code, type, details


class Retry(Failure):
    """Raise it to fail the job in your own words. The job's retry policy decides about another
    attempt.

    ``raise Retry("rate limited", code="x_rate_limit") from error`` also reports where ``error``
    arose. `after` is a wish, in seconds: the backend gets it as ``details.retry_after_ms`` and may
    ignore it.
    """

    after: Optional[float] = None

    @checks_options()
    def __init__(
        self, message: str = "", *, after: Optional[float] = None, code: str = "",
        type: Optional[str] = None, details: Optional[Dict[str, Any]] = None,
    ) -> None:  # fmt: skip
        super().__init__(message, code=code, type=type, details=details)
        self.after = _checked_after(after)


class Discard(Failure):
    """Raise it to fail the job for good, because another attempt would not help."""

    retryable = False


class InvalidArgs(Discard):
    """The job's arguments do not fit the parameters of its handler."""

    code = "invalid_args"


class StepsChanged(Discard):
    """The job's steps or rows are not those of an earlier attempt, so it cannot resume."""


class CheckpointTooLarge(Discard):
    """The steps, positions and state of a job are larger than 64 KiB, or a checkpoint than
    ``worker.max_frame``."""


class HandlerNotFound(Failure):
    """The worker has no handler for the type of the job. Another worker may have one."""

    code = "handler_not_found"


OWN = (CheckpointTooLarge, HandlerNotFound, InvalidArgs, StepsChanged)
"""The failures that this library raises itself."""


class Release(Exception):
    """Raise it to give the job back unprocessed. No attempt is counted where the backend can do
    that.

    ojs-init holds the job for `after` seconds first, 30 at most.
    """

    reason: Optional[str] = None
    after: Optional[float] = None

    @checks_options()
    def __init__(self, reason: Optional[str] = None, *, after: Optional[float] = None) -> None:
        super().__init__(reason or "")
        self.reason = reason
        self.after = _checked_after(after)


class Cancelled(BaseException):
    """Ends a handler whose job is cancelled, or that gives its job back to resume it later.

    Do not catch it, or raise it again. ``except Exception`` does not catch it, as with
    `asyncio.CancelledError`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _checked_after(after: Optional[float]) -> Optional[float]:
    if after is not None and not (type(after) in (int, float) and 0 <= after <= MAX_AFTER):
        raise ValueError(f"after is a number of seconds from 0 to {MAX_AFTER:g}, not {after!r}")
    return after


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for handlers, exit hooks or a log that nobody reads."""
    with contextlib.suppress(RuntimeError):
        flusher = threading.Thread(target=print, kwargs={"end": "", "flush": True}, daemon=True)
        flusher.start()
        flusher.join(0.2)
    os._exit(status)
