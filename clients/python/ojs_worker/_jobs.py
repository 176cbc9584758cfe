"""The job that a handler gets."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import inspect
import threading
import time
from typing import Any, AsyncIterable, AsyncIterator, Awaitable, Callable, ClassVar, Coroutine, Dict, Generic, Iterable
from typing import Iterator, List, Optional, TypeVar, Union

from ._basics import MAX_DEPTH, Cancelled, CheckpointTooLarge, OjsError, frame, is_too_deep, text_of, typed
from ._resume import LEAST_NOTICE, RESUMES, USUAL_TIMES, Resume

MAX_TIMEOUT_MS = 100 * 366 * 86_400_000
"""A job with a longer timeout has no deadline."""

CHECKPOINT = b'{"type":"checkpoint",'
"""The beginning of each checkpoint frame."""

Row = TypeVar("Row")
Rows = Union[Iterable[Row], AsyncIterable[Row]]
S = TypeVar("S")  # What a report returns: None, or an awaitable.


def drive(coroutine: Coroutine[Any, Any, S]) -> S:
    """Run a coroutine that waits for nothing. So threads and event loops share the code around a
    handler."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise RuntimeError("it waits for an event loop")


class Event(threading.Event):
    """An event that is true once it is set."""

    __bool__ = threading.Event.is_set


class AsyncEvent(asyncio.Event):
    """An event that is true once it is set."""

    __bool__ = asyncio.Event.is_set


class BaseJob(Generic[S]):
    """The part that `Job` and `AsyncJob` have in common."""

    is_async: ClassVar[bool] = False

    def __init__(self, envelope: Dict[str, Any], checkpoint: Any, session: Any, traceparent: Any = None) -> None:
        self.envelope = envelope
        """The whole job, as the backend sent it."""
        self.id: str = envelope["id"]
        self.type: str = typed(envelope.get("type"), str, "")
        """The type; empty if the envelope has none."""
        self.queue: str = typed(envelope.get("queue"), str, "default")
        self.attempt: Optional[int] = typed(envelope.get("attempt"), int, None)
        """The number of this attempt, as the backend counts; None if it does not say."""
        self.args: List[Any] = typed(envelope.get("args"), list, [])
        self.meta: Dict[str, Any] = typed(envelope.get("meta"), dict, {})
        self.traceparent: Optional[str] = typed(traceparent, str, None) or typed(self.meta.get("traceparent"), str, None)
        """The W3C context of ojs-init's span of the job, the parent of the handler's own spans; without one that of
        the producer (``meta``)."""
        self.deadline = _deadline_of(envelope)
        """The end of its timeout, in UTC; None if it has none."""
        self.context: Dict[str, Any] = {}
        """For middleware and handler, to share what they like; empty at the beginning of each
        attempt."""
        self.cancel_reason: Optional[str] = None
        """``shutdown``, ``timeout``, ``cancelled`` or ``lost``; None unless the job is cancelled.
        """
        self._session = session
        self._resume = Resume(checkpoint, session.default)
        self.last_checkpoint: Any = self._resume.state
        """The state that an earlier attempt saved with `checkpoint`; None if there is none."""
        self._is_over = False

    @property
    def is_cancelled(self) -> bool:
        """Whether the handler should stop."""
        return self.cancel_reason is not None

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure of this attempt is for good; False if the backend does not say how many
        there are."""
        most = typed(self.envelope.get("max_attempts"), int, None)
        return self.attempt is not None and most is not None and self.attempt >= most

    def remaining(self) -> Optional[float]:
        """Seconds until a shutdown cancels the job; None unless the worker is being shut down."""
        return None if self._session.stops_at is None else max(0.0, self._session.stops_at - time.monotonic())

    def raise_if_cancelled(self) -> None:
        """End the handler here if the job is cancelled."""
        if self.cancel_reason is not None:
            raise Cancelled(self.cancel_reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.type}>"

    def _cancel(self, reason: str) -> None:
        self.cancel_reason = reason

    def _stop(self) -> None:
        """A shutdown begins."""

    def _check(self) -> None:
        if self._is_over:
            raise OjsError(f"job {self.id} was answered already")

    def _leave_if_near(self, usual: float) -> None:
        """Give the job back, to be resumed, if a row or step that takes so many seconds would not
        end in time."""
        if self.cancel_reason not in (None, "shutdown"):
            self.raise_if_cancelled()
        left = self.remaining()
        if self.is_cancelled or (left is not None and left < max(usual * USUAL_TIMES, LEAST_NOTICE)):
            raise Cancelled(RESUMES)

    async def _awaited(self, value: Any) -> Any:
        return await value if self.is_async and inspect.isawaitable(value) else value

    async def _step(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        is_finished, result = self._resume.begin(name)
        if is_finished:
            return result
        try:
            self._leave_if_near(0.0)
            result = self._resume.finish(await self._awaited(function(*args, **kwargs)))
        finally:
            self._resume.step = ""
        await self._awaited(self._save())
        return result

    def _send(self, data: bytes) -> S:
        """Write a frame about the job, once the kernel has it."""
        raise NotImplementedError

    def _save(self) -> S:
        return self._send(self._checkpoint_frame(self._resume.to_save()))

    def heartbeat(self) -> S:
        """Let ojs-init send a heartbeat now. It sends them at its interval by itself."""
        return self._send(frame({"type": "heartbeat", "job_id": self.id}))

    def progress(self, progress: float, message: Optional[str] = None, data: Any = None) -> S:
        """Report how much is done, from 0.0 to 1.0. At most one report a second reaches the
        backend, the newest."""
        if isinstance(progress, bool) or not isinstance(progress, (int, float)) or progress != progress:
            raise ValueError(f"progress is a number from 0 to 1, not {progress!r}")
        # ojs-init closes the connection after three frames whose message is not a string.
        text = None if message is None else text_of(message)
        fields = {"progress": min(max(progress, 0), 1), "message": text, "data": data}
        fields = {name: value for name, value in fields.items() if value is not None}
        data = frame({"type": "progress", "job_id": self.id, **fields}, self._session.default, "replace")
        return self._send(self._fitting(data, ValueError))

    def checkpoint(self, state: Any) -> S:
        """Save a state, which the next attempt gets as `last_checkpoint`. ojs-init has it when this
        is done."""
        return self._send(self._checkpoint_frame(self._resume.save_state(state)))

    def _checkpoint_frame(self, state: Any) -> bytes:
        return self._fitting(frame({"type": "checkpoint", "job_id": self.id, "state": state}), CheckpointTooLarge)

    def _fitting(self, data: bytes, error: Callable[[str], Exception]) -> bytes:
        """The frame. Raises the error if it is too long, and ValueError if it is nested too deep:
        ojs-init closes the connection after three such frames."""
        size, most = len(data) - 1, self._session.max_frame
        if size > most:
            raise error(f"its frame has {size} bytes, and ojs-init takes {most} at most (worker.max_frame)")
        if is_too_deep(data):
            raise ValueError(f"its frame is nested deeper than {MAX_DEPTH} levels, which ojs-init refuses")
        return data


AnyJob = BaseJob[Any]


class Job(BaseJob[None]):
    """A job, for the handlers of a `Worker`. Any thread may call its methods."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.cancelled = Event()
        """Set when the job is cancelled: return or raise soon. Wait for it where you would sleep,
        or use `sleep`."""
        self.stopping = Event()
        """Set when a shutdown begins. The job may go on until it is cancelled."""

    def sleep(self, seconds: float) -> None:
        """Wait. Ends the handler at once when the job is cancelled, which `time.sleep` does not."""
        self.cancelled.wait(seconds)
        self.raise_if_cancelled()

    def iterate(
        self, rows: Union[Iterable[Row], Callable[[Any], Iterable[Row]]], *, key: Optional[Callable[[Row], Any]] = None
    ) -> Iterator[Row]:
        """Yield each row once over all attempts: a later attempt begins behind the last row that
        was saved.

        The position is the `key` of a row, which is JSON, or else its index. It is saved every 5 s,
        and before the job fails or is given back. In a shutdown the job goes back when less time is
        left than a row takes. Rows come in the same order in each attempt. `rows` may be a function
        of the position (None at first) that returns the rows behind it. Raises StepsChanged if the
        row at the saved position does not come.
        """
        loop = self._resume.loop(key, self._leave_if_near)
        for row in loop.open(rows):
            if loop.begin(row):
                yield row
                if loop.finish():
                    self._save()
        loop.end()

    def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a part of the job once over all attempts: a later attempt gets the saved result
        instead.

        The result is JSON, and small. Steps come in the same order in each attempt (else:
        StepsChanged), none within another.
        """
        return drive(self._step(name, function, args, kwargs))

    def _send(self, data: bytes) -> None:
        self._session.send(data, self)

    def _cancel(self, reason: str) -> None:
        super()._cancel(reason)
        self.cancelled.set()

    def _stop(self) -> None:
        self.stopping.set()


class AsyncJob(BaseJob[Awaitable[None]]):
    """A job, for the handlers of an `AsyncWorker`."""

    stopping: asyncio.Event
    """Set when a shutdown begins. The job may go on until it is cancelled."""

    is_async = True

    def __init__(self, *given: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(*given)
        self._loop = loop
        self._task: Optional[asyncio.Task[Any]] = None
        self._cancelled: Optional[asyncio.Event] = None
        self._looks_for_cancel = False

    @property
    def cancelled(self) -> asyncio.Event:
        """Set when the job is cancelled. A handler that asks for it looks after the cancel by
        itself; in every other handler a cancel raises `asyncio.CancelledError` where it awaits
        something."""
        self._looks_for_cancel = True
        return self._cancelled_event()

    def _cancelled_event(self) -> asyncio.Event:
        if self._cancelled is None:
            self._cancelled = AsyncEvent()
            if self.is_cancelled:
                self._cancelled.set()
        return self._cancelled

    async def sleep(self, seconds: float) -> None:
        """Wait. Ends the handler at once when the job is cancelled."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._cancelled_event().wait(), seconds)
        self.raise_if_cancelled()

    async def iterate(
        self, rows: Union[Rows[Row], Callable[[Any], Rows[Row]]], *, key: Optional[Callable[[Row], Any]] = None
    ) -> AsyncIterator[Row]:
        """`Job.iterate`, for ``async for``."""
        loop = self._resume.loop(key, self._leave_if_near)
        opened = loop.open(rows)
        async for row in opened if hasattr(opened, "__aiter__") else _each(opened):
            if loop.begin(row):
                yield row
                if loop.finish():
                    await self._save()
        loop.end()

    async def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`Job.step`; the function may be an ``async def``."""
        return await self._step(name, function, args, kwargs)

    async def _send(self, data: bytes) -> None:
        if self._session.send(data, self, waits=False):
            return
        try:
            await asyncio.to_thread(self._session.send, data, self)
        except asyncio.CancelledError:
            # The thread may not have begun. A checkpoint is saved with the answer then, perhaps for the second time.
            self._resume.has_unsaved |= data.startswith(CHECKPOINT)
            raise

    def _cancel(self, reason: str) -> None:
        super()._cancel(reason)
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        if self._cancelled is not None:
            self._cancelled.set()
        if not self._looks_for_cancel and self._task is not None and not self._is_over:
            self._task.cancel()

    def _stop(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(lambda: self.stopping.set())


async def _each(rows: Any) -> AsyncIterator[Any]:
    for row in rows:
        yield row


def _deadline_of(envelope: Dict[str, Any]) -> Optional[datetime.datetime]:
    for name, unit in (("timeout_ms", 1), ("timeout", 1000)):
        value: Any = envelope.get(name)
        if type(value) in (int, float) and 0 < value * unit <= MAX_TIMEOUT_MS:
            return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(milliseconds=value * unit)
    return None
