"""What a handler is given."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import _limits
from ._errors import Cancelled, ConnectionLost, Release, Stalled
from ._json import clean, copy_of, dump, make_frame, typed
from ._limits import MAX_MESSAGE_CHARS
from ._log import log
from ._resumable import AsyncResumable, Resumable
from ._resume import LEAST_NOTICE, RESUMES, USUAL_TIMES, Resume

if TYPE_CHECKING:
    from ._base import Base
    from ._tasks import AsyncWorker


class Event(threading.Event):
    """An event that is true once it is set."""

    def __bool__(self) -> bool:
        return self.is_set()


class AsyncEvent(asyncio.Event):
    """An event that is true once it is set."""

    def __bool__(self) -> bool:
        return self.is_set()


class AnyJob:
    """What a handler is given."""

    id: str
    """Its id."""
    type: str
    """What kind of work it is."""
    queue: str
    """The queue that it came from."""
    attempt: Optional[int]
    """The number of this attempt, as the backend counts."""
    args: List[Any]
    """Its arguments."""
    meta: Dict[str, Any]
    """Its metadata."""
    envelope: Dict[str, Any]
    """All of it. Integers are exact, other numbers are floats: see `raw`."""
    raw: str
    """The envelope exactly as the backend sent it."""
    deadline: Optional[datetime.datetime]
    """When its timeout will be over, in UTC; None if it has none."""
    context: Dict[str, Any]
    """A place for what middleware and handler tell each other; empty at the beginning of each attempt."""
    last_checkpoint: Any
    """What an earlier attempt saved with `checkpoint`; None if nothing."""
    cancel_reason: Optional[str]
    """Why it is cancelled: shutdown, timeout, cancelled or lost; None as long as it is not."""

    def __init__(self, core: Base[Any], envelope: Dict[str, Any], raw: str, checkpoint: Any) -> None:
        self.id = envelope["id"]
        self.type = envelope["type"]
        self.queue = typed(envelope.get("queue"), str, "default")
        self.attempt = typed(envelope.get("attempt"), int, None)
        self.args = typed(envelope.get("args"), list, [])
        self.meta = typed(envelope.get("meta"), dict, {})
        self.envelope = envelope
        self.raw = raw
        self.deadline = _deadline_of(envelope)
        self.context = {}
        self._resume = Resume(checkpoint)
        self.last_checkpoint = copy_of(self._resume.user)
        self.cancel_reason = None
        self._core = core
        self._is_over = False

    def remaining(self) -> Optional[float]:
        """Seconds until the stop phase, when what is not finished is cut off; None while nothing shuts down."""
        return self._core.remaining()

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self.cancel_reason is not None

    def raise_if_cancelled(self) -> None:
        """End the handler here if the job is cancelled; the right answer is given."""
        if self.cancel_reason is not None:
            raise Cancelled(self.cancel_reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.type}>"

    def _set_cancelled(self) -> None:
        raise NotImplementedError

    def _set_stopping(self) -> None:
        raise NotImplementedError

    def _leave_if_stopping(self, usual: float, step: str) -> None:
        """Before a row or step that usually takes so many seconds."""
        # A handler that caught what ended it may go on, but not with another part: what comes before that is not done.
        ending = self._resume.ending or self._ending_now(usual)
        if ending is not None:
            raise self._resume.end_with(ending, step)

    def _ending_now(self, usual: float) -> Optional[Exception]:
        if self.cancel_reason is not None and self.cancel_reason != "shutdown":
            return Cancelled(self.cancel_reason)
        left = self.remaining()
        if self.cancel_reason is not None or (left is not None and left < max(usual * USUAL_TIMES, LEAST_NOTICE)):
            return Release(RESUMES)
        return None

    def _save_at_end(self) -> None:
        """The handler ended without a result: what it has done so far must not be done again."""
        if not self._resume.is_dirty or self.cancel_reason in ("lost", "closed"):
            return
        try:
            self._core.tell(self, self._saved_frame(), lambda: None)
        except Exception as error:  # whatever it is, the job gets its answer
            log.warning("job %s: where it stopped is not saved: %s: %s", self.id, type(error).__name__, clean(error, 500))

    def _saved_frame(self) -> bytes:
        return make_frame("checkpoint", self.id, '"state":' + self._resume.saved_form())

    def _heartbeat_frame(self) -> bytes:
        return make_frame("heartbeat", self.id)

    def _progress_frame(self, progress: float, message: Optional[str], data: Any) -> bytes:
        if isinstance(progress, bool) or not isinstance(progress, (int, float)) or progress != progress:
            raise ValueError(f"progress is a number from 0 to 1, not {progress!r}")
        progress = min(max(progress, 0), 1)
        text = None if message is None else clean(message, MAX_MESSAGE_CHARS)
        return make_frame("progress", self.id, progress=progress, message=text, data=data)

    def _checkpoint_frame(self, state: Any) -> bytes:
        text = dump(state)
        # A copy: what the handler changes later is not saved yet.
        before, kept = self._resume.user, json.loads(text)
        if not self._resume.is_used:
            frame = make_frame("checkpoint", self.id, '"state":' + text)
            if self._core._fits(frame):
                # A loop or step that begins later saves it again, beside its own position.
                self._resume.user = kept
            return frame
        self._resume.user = kept
        try:
            return self._saved_frame()
        except Exception:
            self._resume.user = before
            raise


def _deadline_of(envelope: Dict[str, Any]) -> Optional[datetime.datetime]:
    milliseconds: Any = envelope.get("timeout_ms")
    seconds: Any = envelope.get("timeout")
    if not _is_positive(milliseconds) and _is_positive(seconds):
        milliseconds = seconds * 1000
    if not _is_positive(milliseconds) or milliseconds > _limits.MAX_TIMEOUT_MS:
        return None
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(milliseconds=milliseconds)


def _is_positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def release_if_cancelled(job: AnyJob) -> None:
    """Before its handler begins. Even after its timeout: it was not processed."""
    if job.cancel_reason is not None:
        raise Release(job.cancel_reason)


class Job(AnyJob, Resumable):
    """A job, for the handlers of a :class:`Worker`. Its methods may be called from any thread of the process."""

    cancelled: threading.Event
    """Set when nobody waits for the result any more: `cancel_reason` says why. Return, or raise, soon."""
    stopping: threading.Event
    """Set when the worker begins to be shut down; the job may go on until it is cancelled."""

    def __init__(self, core: Base[Any], envelope: Dict[str, Any], raw: str, checkpoint: Any) -> None:
        super().__init__(core, envelope, raw, checkpoint)
        self.cancelled = Event()
        self.stopping = Event()

    def heartbeat(self) -> None:
        """Tell the backend now that this job is alive. ojs-init does that by itself at its interval."""
        try:
            self._send(self._heartbeat_frame())
        except Stalled as stalled:
            log.warning("job %s: %s", self.id, stalled)

    def progress(self, progress: float, message: Optional[str] = None, data: Any = None) -> None:
        """Say how far it is, from 0.0 to 1.0. At most one a second reaches the backend, the newest wins."""
        try:
            self._send(self._progress_frame(progress, message, data))
        except Stalled as stalled:
            log.warning("job %s: %s", self.id, stalled)

    def checkpoint(self, state: Any) -> None:
        """Save where the next attempt shall go on; it gets it as `last_checkpoint`. Once this returns, ojs-init will
        deliver it to the backend even if this process crashes."""
        self._send(self._checkpoint_frame(state))

    def _set_cancelled(self) -> None:
        self.cancelled.set()

    def _set_stopping(self) -> None:
        self.stopping.set()

    def _save(self) -> None:
        if self._resume.is_dirty:
            self._send(self._saved_frame())

    def _send(self, data: bytes) -> None:
        written = Event()
        link, item = self._core.tell(self, data, written.set)
        if not written.wait(_limits.WRITE_TIMEOUT) and link.withdraw(item):
            raise Stalled(f"ojs-init has not read for {_limits.WRITE_TIMEOUT:g} s")
        if written.is_set() and not item.written:
            raise ConnectionLost("ojs-init has closed the connection")


class AsyncJob(AnyJob, AsyncResumable):
    """A job, for the handlers of an :class:`AsyncWorker`."""

    cancelled: asyncio.Event
    """Set when nobody waits for the result any more: `cancel_reason` says why. Return, or raise, soon."""
    stopping: asyncio.Event
    """Set when the worker begins to be shut down; the job may go on until it is cancelled."""

    def __init__(self, core: AsyncWorker, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> None:
        super().__init__(core, envelope, raw, checkpoint)
        self._loop = core.loop

    async def heartbeat(self) -> None:
        """Tell the backend now that this job is alive. ojs-init does that by itself at its interval."""
        try:
            await self._send(self._heartbeat_frame())
        except Stalled as stalled:
            log.warning("job %s: %s", self.id, stalled)

    async def progress(self, progress: float, message: Optional[str] = None, data: Any = None) -> None:
        """Say how far it is, from 0.0 to 1.0. At most one a second reaches the backend, the newest wins."""
        try:
            await self._send(self._progress_frame(progress, message, data))
        except Stalled as stalled:
            log.warning("job %s: %s", self.id, stalled)

    async def checkpoint(self, state: Any) -> None:
        """Save where the next attempt shall go on; it gets it as `last_checkpoint`. Once this returns, ojs-init will
        deliver it to the backend even if this process crashes."""
        await self._send(self._checkpoint_frame(state))

    def _set_cancelled(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._set_cancelled_in_loop)

    def _set_cancelled_in_loop(self) -> None:
        self.cancelled.set()

    def _set_stopping(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: self.stopping.set())

    async def _save(self) -> None:
        if self._resume.is_dirty:
            await self._send(self._saved_frame())

    async def _send(self, data: bytes) -> None:
        written = asyncio.Event()

        def done() -> None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(written.set)

        link, item = self._core.tell(self, data, done)
        try:
            await asyncio.wait_for(written.wait(), _limits.WRITE_TIMEOUT)
        except asyncio.TimeoutError:
            if link.withdraw(item):
                raise Stalled(f"ojs-init has not read for {_limits.WRITE_TIMEOUT:g} s") from None
        if written.is_set() and not item.written:
            raise ConnectionLost("ojs-init has closed the connection")
