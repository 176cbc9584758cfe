"""What a program can raise or catch."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ._options import checks_options

MAX_RETRY_AFTER = 366 * 86400.0
"""Most seconds that `Retry` and `Release` can ask for."""


def _check_after(after: Optional[float]) -> Optional[float]:
    if after is not None:
        is_number = isinstance(after, (int, float)) and not isinstance(after, bool)
        if not is_number or not 0 <= after <= MAX_RETRY_AFTER:
            raise ValueError(f"after is a number of seconds from 0 to {MAX_RETRY_AFTER:g}, not {after!r}")
    return after


class OjsError(Exception):
    """What this module raises."""


class NotUnderOjsInit(OjsError):
    """There is no ojs-init to take jobs from."""


class ConnectionLost(OjsError):
    """ojs-init has closed the connection. The process must end; nothing reconnects."""


class ProtocolError(OjsError):
    """ojs-init speaks a version of the protocol that this module does not know."""


class ForkedProcess(OjsError):
    """The connection belongs to the process that opened it, and this is a child of that one."""


class Stalled(OjsError):
    """ojs-init has not read for :data:`WRITE_TIMEOUT` seconds; the frame was not sent."""


class Failure(Exception):
    retryable = True
    # For a subclass whose own __init__ does not call this one.
    message: str = ""
    code: str = "handler_error"
    type: Optional[str] = None
    details: Optional[Dict[str, Any]] = None

    @checks_options()
    def __init__(
        self,
        message: str = "",
        *,
        code: str = "handler_error",
        type: Optional[str] = None,
        details: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.type = type
        self.details = details


class Retry(Failure):
    """Raise it to fail the job in your own words; the backend's retry policy decides about the next attempt.

    ``raise Retry("rate limited", code="x_rate_limit", details={...}) from error`` also reports where ``error`` arose.
    ``after`` is a wish, in seconds: it goes to the backend as ``details.retry_after_ms``, and its policy decides.
    """

    after: Optional[float] = None

    @checks_options()
    def __init__(
        self,
        message: str = "",
        *,
        after: Optional[float] = None,
        code: str = "handler_error",
        type: Optional[str] = None,
        details: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(message, code=code, type=type, details=details)
        self.after = _check_after(after)


class Discard(Failure):
    """Raise it to fail the job for good: another attempt would not help."""

    retryable = False


class StepsChanged(Discard):
    """The steps or rows of a job are not those of the attempt before: it cannot go on where that one ended."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type="StepsChanged")


class InvalidArgs(Discard):
    """The arguments of a job do not fit the type that its handler was registered with."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type="InvalidArgs")


class CheckpointTooLarge(Discard):
    """What a resumable job wants to keep is more than a checkpoint may have."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type="CheckpointTooLarge")


class Cancelled(Exception):
    """What `raise_if_cancelled` raises. The job is answered as its cancel reason asks for."""


class Release(Exception):
    """Raise it to give the job back unprocessed, with no failure recorded where the backend can do that.

    ``after`` is a time in seconds: ojs-init holds the job so long, 30 s at most, before it goes back.
    """

    reason: Optional[str] = None
    after: Optional[float] = None

    @checks_options()
    def __init__(self, reason: Optional[str] = None, *, after: Optional[float] = None) -> None:
        super().__init__(reason or "")
        self.reason = reason
        self.after = _check_after(after)
