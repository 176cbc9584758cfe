"""The exceptions that a program can raise or catch."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ._basics import checks_options

MAX_AFTER = 366 * 86400.0
"""The longest `after` of `Retry` and `Release`, in seconds."""


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

    existing_id: Optional[str] = None
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
        self, message: str = "", *, code: str = "handler_error", type: Optional[str] = None,
        details: Optional[Dict[str, Any]] = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message, self.code, self.type, self.details = message, code, type, details


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
        self, message: str = "", *, after: Optional[float] = None, code: str = "handler_error",
        type: Optional[str] = None, details: Optional[Dict[str, Any]] = None,
    ) -> None:  # fmt: skip
        super().__init__(message, code=code, type=type, details=details)
        self.after = _checked_after(after)


class Discard(Failure):
    """Raise it to fail the job for good, because another attempt would not help."""

    retryable = False


class InvalidArgs(Discard):
    """The job's arguments do not fit the parameters of its handler."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid_args", type="InvalidArgs")


class StepsChanged(Discard):
    """The job's steps or rows are not those of an earlier attempt, so it cannot resume."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type="StepsChanged")


class CheckpointTooLarge(Discard):
    """The steps, positions and state of a job are larger than 64 KiB."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type="CheckpointTooLarge")


class HandlerNotFound(Failure):
    """The worker has no handler for the type of the job. Another worker may have one."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="handler_not_found", type="HandlerNotFound")


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
