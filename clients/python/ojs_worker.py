"""A worker for the Open Job Spec that runs under ojs-init.

One file, standard library only, Python 3.9 or later. ojs-init talks to the backend: it fetches, heartbeats,
acknowledges and shuts down. This module takes jobs from it over the Unix socket ``$OJS_SOCKET`` and runs a function of
yours for each::

    from ojs_worker import Job, Worker

    worker = Worker()

    @worker.job("email.send")
    def send(job: Job) -> object:
        return {"sent_to": job.args[0]}

    if __name__ == "__main__":
        worker.run()

Start it with ``ojs-init -- python3 worker.py``.

How it works: one thread, the one that calls :meth:`Worker.run`, reads and writes the socket and never waits for
anything else, so a ping is answered and a cancellation noticed whatever the handlers do. Handlers run on threads of
their own (:class:`Worker`) or as tasks of an event loop (:class:`AsyncWorker`).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import inspect
import json
import logging
import math
import os
import platform
import queue
import re
import select
import signal
import socket
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Generic,
    Iterator,
    List,
    NoReturn,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    TypeVar,
)

__all__ = [
    "AsyncJob",
    "AsyncWorker",
    "Cancelled",
    "ConnectionLost",
    "Discard",
    "ForkedProcess",
    "Job",
    "NotUnderOjsInit",
    "OjsError",
    "ProtocolError",
    "Release",
    "Retry",
    "Stalled",
    "Worker",
]
__version__ = "0.1.0"

PROTOCOL = 1
ENV_SOCKET = "OJS_SOCKET"

MAX_BACKTRACE_FRAMES = 50
MAX_BACKTRACE_CHARS = 10_000
MAX_MESSAGE_CHARS = 10_000
DEFAULT_MAX_FRAME = 4 * 1024 * 1024

EOF_GRACE = 1.0
"""Seconds that handlers get to end when ojs-init has closed the connection."""
WRITE_TIMEOUT = 10.0
"""Seconds that a frame may wait for ojs-init to read."""
SETTLE_TIME = 0.25
"""Seconds to wait, after we said on our own that we take no more jobs, for one that was on its way."""
STOP_GRACE = 0.5
"""Seconds that handlers get, by default, to end after SIGTERM; ojs-init kills soon after that."""
MAX_DEPTH = 100
"""How deep a frame may be nested, itself included."""
MAX_CONCURRENCY = 10_000
MAX_TYPES = 10_000
MAX_NAME_BYTES = 1024

_READ_SIZE = 256 * 1024
_WRITE_BUDGET = 1024 * 1024
_REMEMBERED_ANSWERS = 1024
_CUT_OFF_STATUS = 128 + signal.SIGTERM
_CLIENT = f"ojs-worker-python/{__version__} ({platform.python_implementation()} {platform.python_version()})"

log = logging.getLogger("ojs_worker")


# What a program can raise or catch -----------------------------------------------------------------------------------


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


class _Failure(Exception):
    retryable = True

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


class Retry(_Failure):
    """Raise it to fail the job in your own words; the backend's retry policy decides about the next attempt.

    ``raise Retry("rate limited", code="x_rate_limit", details={...}) from error`` also reports where ``error`` arose.
    """


class Discard(_Failure):
    """Raise it to fail the job for good: another attempt would not help."""

    retryable = False


class Cancelled(Exception):
    """What `raise_if_cancelled` raises. The job is answered as its cancel reason asks for."""


class Release(Exception):
    """Raise it to give the job back unprocessed, with no failure recorded where the backend can do that."""

    def __init__(self, reason: Optional[str] = None) -> None:
        super().__init__(reason or "")
        self.reason = reason


# JSON ----------------------------------------------------------------------------------------------------------------

_decoder = json.JSONDecoder()
_space = re.compile(r"[ \t\r\n]*")
_token = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]')


def _skip_space(text: str, at: int) -> int:
    match = _space.match(text, at)
    return match.end() if match else at


def _parse_object(text: str) -> Tuple[Dict[str, Any], Dict[str, Tuple[int, int]]]:
    """The members of a JSON object, and where in the text each value stands."""
    values: Dict[str, Any] = {}
    spans: Dict[str, Tuple[int, int]] = {}
    at = _skip_space(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("not a JSON object")
    at = _skip_space(text, at + 1)
    more = text[at : at + 1] != "}"
    while more:
        if text[at : at + 1] != '"':
            raise ValueError(f"no member name at {at}")
        key, at = _decoder.raw_decode(text, at)
        at = _skip_space(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"no colon at {at}")
        at = _skip_space(text, at + 1)
        values[key], end = _decoder.raw_decode(text, at)
        spans[key] = (at, end)
        at = _skip_space(text, end)
        more = text[at : at + 1] == ","
        if more:
            at = _skip_space(text, at + 1)
    if text[at : at + 1] != "}" or _skip_space(text, at + 1) != len(text):
        raise ValueError(f"no end of the object at {at}")
    return values, spans


def _salvage_job_id(text: str) -> Optional[str]:
    """The id of the job in a frame that :func:`_parse_object` cannot read: nested too deeply, a number too long."""
    depth = 0
    keys: Dict[int, Optional[str]] = {}
    last = '""'
    for match in _token.finditer(text):
        token = match.group()
        if token in "{[":
            depth += 1
            if depth <= 2:
                keys[depth] = None
        elif token in "}]":
            depth -= 1
        elif token == ":":
            if depth <= 2:
                keys[depth] = json.loads(last)
        elif token == ",":
            if depth <= 2:
                keys[depth] = None
        elif depth == 2 and keys.get(1) == "job" and keys.get(2) == "id":
            return str(json.loads(token))
        else:
            last = token
    return None


def _dump(value: Any, depth: int = MAX_DEPTH - 1) -> str:
    """JSON that every parser takes: no NaN, no lone surrogates, not too deep. Raises what :mod:`json` raises."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text.encode("utf-8")
    if text.count("[") + text.count("{") > depth and _depth(text) > depth:
        raise ValueError(f"nested deeper than {depth}")
    return text


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _token.finditer(text):
        token = match.group()
        if token in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "}]":
            depth -= 1
    return deepest


def _frame(kind: str, job_id: Optional[str] = None, *raw: str, **fields: Any) -> bytes:
    """A frame; ``raw`` are further members as JSON text, ``fields`` those that are not None."""
    frame: Dict[str, Any] = {"type": kind}
    if job_id is not None:
        frame["job_id"] = job_id
    frame.update((name, value) for name, value in fields.items() if value is not None)
    return (",".join([_dump(frame, MAX_DEPTH)[:-1], *raw]) + "}\n").encode("utf-8")


def _clean(value: Any, limit: int) -> str:
    """A string that fits into a frame: whole characters, not too many."""
    try:
        text = str(value)
    except Exception as error:  # a __str__ of the program's own
        text = f"(its message cannot be shown: {type(error).__name__})"
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return text.encode("utf-8", "replace").decode("utf-8")


def _backtrace(trace: Optional[TracebackType]) -> List[str]:
    """The calls that led there, innermost first, as many as the Open Job Spec lets an error have."""
    lines: List[str] = []
    room = MAX_BACKTRACE_CHARS
    for frame in reversed(traceback.extract_tb(trace, limit=-MAX_BACKTRACE_FRAMES)):
        line = _clean(f"{frame.filename}:{frame.lineno} in {frame.name}", 1000)
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    return lines


def _own_trace(error: BaseException) -> Optional[TracebackType]:
    """Its trace without our own call of the handler."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _describe(error: BaseException) -> Dict[str, Any]:
    """What the backend is told about an exception."""
    kind: Optional[str] = None
    origin: Optional[BaseException] = error
    described: Dict[str, Any] = {"code": "handler_error", "retryable": True}
    if isinstance(error, _Failure):
        origin = error.__cause__
        kind = error.type
        described.update(code=_clean(error.code, 200), retryable=error.retryable)
        message = error.message or ("" if origin is None else _clean(origin, MAX_MESSAGE_CHARS))
        try:
            if error.details is not None:
                if not isinstance(error.details, dict):
                    raise TypeError("no dict")
                _dump(error.details, MAX_DEPTH - 2)
                described["details"] = error.details
        except (TypeError, ValueError, RecursionError):
            log.warning("the details of a %s are no JSON object and are left out", type(error).__name__)
    elif isinstance(error, SystemExit):
        message = f"the handler called sys.exit({error.code!r})"
    else:
        message = _clean(error, MAX_MESSAGE_CHARS)
    name = type(error if origin is None else origin).__name__
    described["type"] = _clean(kind or name, 200)
    described["message"] = _clean(message, MAX_MESSAGE_CHARS) or name
    if origin is not None:
        backtrace = _backtrace(_own_trace(origin))
        if backtrace:
            described["backtrace"] = backtrace
    return described


# The connection ------------------------------------------------------------------------------------------------------


class _Outgoing:
    """A frame on its way out."""

    __slots__ = ("data", "done", "written")

    def __init__(self, data: bytes, done: Optional[Callable[[], None]]) -> None:
        self.data = data
        self.done = done
        self.written = False


class _Link:
    """The connection. One thread calls :meth:`round` again and again; any thread may :meth:`send`.

    Reading never waits for writing: ojs-init stops reading from us while we do not read from it.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.pid = os.getpid()
        self.eof = False
        self.in_forked_child: Optional[Callable[[], None]] = None
        self.before_close: Optional[Callable[[], object]] = None
        self._sock = sock
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        # Reentrant, because a signal handler may call `wake` while its thread is in here.
        self._lock = threading.RLock()
        self._open = True
        self._urgent: Deque[_Outgoing] = collections.deque()
        self._queue: Deque[_Outgoing] = collections.deque()
        self._current: Optional[_Outgoing] = None
        self._sent = 0
        self._is_broken = False
        self._buffer = bytearray()
        self._searched = 0
        # Not epoll: a forked child would share it with us.
        self._poll = select.poll()
        self._poll.register(self._sock.fileno(), select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)
        _links.append(self)

    def connect(self, path: str) -> None:
        self._sock.connect(path)
        self._sock.setblocking(False)

    @property
    def wake_fd(self) -> int:
        return self._wake_write

    def send(self, data: bytes, *, urgent: bool = False, done: Optional[Callable[[], None]] = None) -> _Outgoing:
        """Queue a frame, an urgent one before all others. `done` is called once it was written, or never will be."""
        item = _Outgoing(data, done)
        with self._lock:
            if not self._open:
                raise ConnectionLost("ojs-init has closed the connection")
            (self._urgent if urgent else self._queue).append(item)
            self._wake()
        return item

    def withdraw(self, item: _Outgoing) -> bool:
        """Take back a frame of which nothing was written yet."""
        with self._lock:
            if item not in self._queue:
                return False
            self._queue.remove(item)
            return True

    def wake(self) -> None:
        """Let :meth:`round` return."""
        with self._lock:
            if self._open:
                self._wake()

    def _wake(self) -> None:
        # A full pipe wakes as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    @property
    def is_flushed(self) -> bool:
        return not (self._current or self._urgent or self._queue)

    def round(self, timeout: Optional[float]) -> List[bytes]:
        """Wait for something to do, do it, and return the lines that came in."""
        self._poll.modify(self._sock.fileno(), select.POLLIN | (0 if self.is_flushed else select.POLLOUT))
        lines: List[bytes] = []
        for fd, what in self._poll.poll(None if timeout is None else max(0, math.ceil(timeout * 1000))):
            if fd == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, 4096)
                continue
            if what & select.POLLOUT:
                self._write()
            if what & (select.POLLIN | select.POLLHUP | select.POLLERR) and not self.eof:
                lines += self._read()
            elif self._is_broken:
                self.eof = True
        return lines

    def _write(self) -> None:
        finished: List[_Outgoing] = []
        budget = _WRITE_BUDGET
        with self._lock:
            while budget > 0:
                waiting = self._urgent or self._queue
                item = self._current or (waiting[0] if waiting else None)
                if item is None:
                    break
                try:
                    sent = self._sock.send(memoryview(item.data)[self._sent :])
                except BlockingIOError:
                    break
                except OSError:
                    # What the other end wrote before it closed is still to be read.
                    self._is_broken = True
                    break
                if self._current is None:
                    self._current = waiting.popleft()
                self._sent += sent
                budget -= sent
                if self._sent == len(item.data):
                    item.written = True
                    finished.append(item)
                    self._current = None
                    self._sent = 0
        for item in finished:
            if item.done is not None:
                item.done()

    def _read(self) -> List[bytes]:
        try:
            chunk = self._sock.recv(_READ_SIZE)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if not chunk:
            self.eof = True
            return []
        self._buffer += chunk
        lines: List[bytes] = []
        start = 0
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0:
                break
            lines.append(bytes(self._buffer[start:end]))
            start = self._searched = end + 1
        del self._buffer[:start]
        self._searched = len(self._buffer)
        return lines

    def close(self) -> None:
        """Close it; only from the thread that calls :meth:`round`."""
        with self._lock:
            if not self._open:
                return
            self._open = False
            _links.remove(self)
            abandoned = [self._current, *self._urgent, *self._queue]
            self._current = None
            self._urgent.clear()
            self._queue.clear()
            with contextlib.suppress(OSError):
                # A socket closed with something unread is a reset to the other side.
                self._sock.shutdown(socket.SHUT_WR)
                while self._sock.recv(_READ_SIZE):
                    pass
            self._close_descriptors()
        for item in abandoned:
            if item is not None and item.done is not None:
                item.done()

    def _close_descriptors(self) -> None:
        self._sock.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's. Takes no lock: its owner may not exist here."""
        if self.in_forked_child is not None:
            self.in_forked_child()
        self._open = False
        self._close_descriptors()


_links: List[_Link] = []
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_forking = threading.local()


def _before_fork() -> None:
    # A signal for the child that comes before it has its own handlers back would be lost, or taken for one for us.
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS) if _links else None


def _after_fork() -> None:
    mask = getattr(_forking, "mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_forked_child() -> None:
    for link in _links:
        with contextlib.suppress(Exception):
            link.abandon()
    _links.clear()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_forked_child)


# Jobs ----------------------------------------------------------------------------------------------------------------


class _AnyJob:
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
    last_checkpoint: Any
    """What an earlier attempt saved with `checkpoint`; None if nothing."""
    cancel_reason: Optional[str]
    """Why it is cancelled: shutdown, timeout, cancelled or lost; None as long as it is not."""

    def __init__(self, core: "_Core[Any]", envelope: Dict[str, Any], raw: str, checkpoint: Any) -> None:
        self.id = envelope["id"]
        self.type = envelope["type"]
        self.queue = _typed(envelope.get("queue"), str, "default")
        self.attempt = _typed(envelope.get("attempt"), int, None)
        self.args = _typed(envelope.get("args"), list, [])
        self.meta = _typed(envelope.get("meta"), dict, {})
        self.envelope = envelope
        self.raw = raw
        self.last_checkpoint = checkpoint
        self.cancel_reason = None
        self._core = core
        self._is_over = False

    def remaining(self) -> Optional[float]:
        """Seconds until the stop phase, when what is not finished is cut off; None while nothing shuts down."""
        return self._core.remaining()

    def raise_if_cancelled(self) -> None:
        """End the handler here if the job is cancelled; the right answer is given."""
        if self.cancel_reason is not None:
            raise Cancelled(self.cancel_reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.type}>"

    def _set_cancelled(self) -> None:
        raise NotImplementedError

    def _heartbeat_frame(self) -> bytes:
        return _frame("heartbeat", self.id)

    def _progress_frame(self, progress: float, message: Optional[str], data: Any) -> bytes:
        if isinstance(progress, bool) or not isinstance(progress, (int, float)) or not 0 <= progress <= 1:
            raise ValueError(f"progress is a number from 0 to 1, not {progress!r}")
        text = None if message is None else _clean(message, MAX_MESSAGE_CHARS)
        return _frame("progress", self.id, progress=progress, message=text, data=data)

    def _checkpoint_frame(self, state: Any) -> bytes:
        return _frame("checkpoint", self.id, '"state":' + _dump(state))


def _release_if_cancelled(job: _AnyJob) -> None:
    """Before its handler begins. Even after its timeout: it was not processed."""
    if job.cancel_reason is not None:
        raise Release(job.cancel_reason)


_T = TypeVar("_T")


def _typed(value: Any, kind: Type[Any], default: _T) -> _T:
    is_right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    return value if is_right else default


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{_clean(value, 100)!r} is no integer")
    return value


class Job(_AnyJob):
    """A job, for the handlers of a :class:`Worker`. Its methods may be called from any thread of the process."""

    cancelled: threading.Event
    """Set when nobody waits for the result any more: `cancel_reason` says why. Return, or raise, soon."""

    def __init__(self, core: "_Core[Any]", envelope: Dict[str, Any], raw: str, checkpoint: Any) -> None:
        super().__init__(core, envelope, raw, checkpoint)
        self.cancelled = threading.Event()

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

    def _send(self, data: bytes) -> None:
        written = threading.Event()
        link, item = self._core.tell(self, data, written.set)
        if not written.wait(WRITE_TIMEOUT) and link.withdraw(item):
            raise Stalled(f"ojs-init has not read for {WRITE_TIMEOUT:g} s")
        if written.is_set() and not item.written:
            raise ConnectionLost("ojs-init has closed the connection")


class AsyncJob(_AnyJob):
    """A job, for the handlers of an :class:`AsyncWorker`."""

    cancelled: asyncio.Event
    """Set when nobody waits for the result any more: `cancel_reason` says why. Return, or raise, soon."""

    def __init__(self, core: "AsyncWorker", envelope: Dict[str, Any], raw: str, checkpoint: Any) -> None:
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

    async def _send(self, data: bytes) -> None:
        written = asyncio.Event()

        def done() -> None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(written.set)

        link, item = self._core.tell(self, data, done)
        try:
            await asyncio.wait_for(written.wait(), WRITE_TIMEOUT)
        except asyncio.TimeoutError:
            if link.withdraw(item):
                raise Stalled(f"ojs-init has not read for {WRITE_TIMEOUT:g} s") from None
        if written.is_set() and not item.written:
            raise ConnectionLost("ojs-init has closed the connection")


# The worker ----------------------------------------------------------------------------------------------------------

_J = TypeVar("_J", bound=_AnyJob)
_H = TypeVar("_H", bound=Callable[..., Any])


class _Core(Generic[_J]):
    """What both workers share: the protocol."""

    def __init__(
        self,
        concurrency: Optional[int] = None,
        *,
        socket_path: Optional[str] = None,
        handle_signals: bool = True,
        stop_grace: Optional[float] = STOP_GRACE,
    ) -> None:
        if concurrency is not None and _typed(concurrency, int, 0) not in range(1, MAX_CONCURRENCY + 1):
            raise ValueError(f"concurrency is a whole number from 1 to {MAX_CONCURRENCY}, not {concurrency!r}")
        self.concurrency: int = concurrency or 0
        """Most jobs at once. Without a number of its own a worker takes as many as ojs-init allows (OJS_CONCURRENCY), which is
        known once connected; 0 before."""
        self._stop_grace = stop_grace
        self.worker_id: Optional[str] = None
        """The name that ojs-init has towards the backend; known once connected."""
        self._socket_path = socket_path
        self._handles_signals = handle_signals
        self._handlers: Dict[str, Callable[[Any], Any]] = {}
        self._link: Optional[_Link] = None
        self._state = "running"
        self._deadline: Optional[float] = None
        self._max_frame = DEFAULT_MAX_FRAME
        # Guards `_held`, `_answers` and the jobs' `_is_over`; taken before the link's own lock, never after it.
        self._lock = threading.Lock()
        self._all_over = threading.Condition(self._lock)
        self._held: Set[_J] = set()
        self._answers: "collections.OrderedDict[str, str]" = collections.OrderedDict()
        self._is_greeted = False
        self._stop_asked = False
        self._is_stopping = False
        self._is_signalled = False
        self._cut_off_at: Optional[float] = None
        self._is_aborted = False
        self._settled_at: Optional[float] = None
        self._flushing_since: Optional[float] = None
        self._exit: Optional[BaseException] = None
        self._said: Set[str] = set()

    # For the program

    def job(self, *types: str) -> Callable[[_H], _H]:
        """Decorate the handler of these job types; ``"*"``, or no type at all, for every other type."""
        if any(not isinstance(name, str) for name in types):
            raise TypeError('use it as @worker.job("some.type")')
        if any(not 1 <= len(name.encode("utf-8")) <= MAX_NAME_BYTES for name in types):
            raise ValueError(f"a job type has 1 to {MAX_NAME_BYTES} bytes")
        if len(self._handlers) + len(types) > MAX_TYPES:
            raise ValueError(f"more than {MAX_TYPES} job types")

        def register(handler: _H) -> _H:
            self._check_handler(handler)
            for name in types or ("*",):
                if name in self._handlers:
                    raise ValueError(f"there are two handlers for {name!r}")
                self._handlers[name] = handler
            return handler

        return register

    @property
    def state(self) -> str:
        """running, quiet or terminate."""
        return self._state

    def remaining(self) -> Optional[float]:
        """Seconds until the stop phase, when what is not finished is cut off; None while nothing shuts down."""
        deadline = self._deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def stop(self) -> None:
        """Take no more jobs, finish those that are held, then let `run` return. From any thread or signal handler."""
        self._stop_asked = True
        link = self._link
        if link is not None and link.pid == os.getpid():
            link.wake()

    # For the jobs

    def tell(self, job: _AnyJob, data: bytes, done: Callable[[], None]) -> Tuple[_Link, _Outgoing]:
        """Send something about a job, if this process may say that about it now."""
        link = self._link
        if link is not None and link.pid != os.getpid():
            raise ForkedProcess(
                f"the connection to ojs-init belongs to process {link.pid}, this is process {os.getpid()}, forked from "
                "it: leave the job's progress to the parent, or make and run a Worker of its own in each process"
            )
        if not self._fits(data):
            raise ValueError(f"{len(data)} bytes are more than ojs-init takes at once ({self._max_frame})")
        with self._lock:
            if link is None or job._is_over:
                raise OjsError(f"job {job.id} was answered already")
            return link, link.send(data, done=done)

    def _fits(self, data: bytes) -> bool:
        return len(data) - 1 <= self._max_frame

    # What the two kinds of worker do differently

    def _check_handler(self, handler: Callable[..., Any]) -> None:
        raise NotImplementedError

    def _make_job(self, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> _J:
        raise NotImplementedError

    def _start(self, job: _J) -> None:
        raise NotImplementedError

    def _abandon_handlers(self) -> None:
        """The connection is gone: end the handlers where that is possible."""

    # The connection

    def _prepare(self) -> Tuple[_Link, str]:
        """The connection that will be, and where to."""
        if self._link is not None:
            raise OjsError("a worker runs once; when it has ended, let the process end too")
        if not self._handlers:
            raise OjsError('no handler: decorate one with @worker.job("some.type")')
        path = self._socket_path or os.environ.get(ENV_SOCKET)
        if not path:
            raise NotUnderOjsInit(
                f"{ENV_SOCKET} is not set: this is a worker for ojs-init, which starts it and gives it jobs. "
                f"Run it as: ojs-init -- python3 {_clean(sys.argv[0] or 'worker.py', 200)}"
            )
        self._link = _Link(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        return self._link, path

    def _serve_connection(self, link: _Link, path: str) -> None:
        """Until there is nothing left to do. The thread that is in here never waits for a handler."""
        try:
            try:
                link.connect(path)
            except OSError as error:
                raise NotUnderOjsInit(f"cannot connect to ojs-init at {path} ({ENV_SOCKET}): {error}") from error
            while True:
                self._stop_if_asked(link)
                if self._is_aborted or self._may_end(link):
                    return
                for line in link.round(self._patience()):
                    self._on_line(link, line)
                if link.eof:
                    break
        finally:
            if link.before_close is not None:
                link.before_close()
            link.close()
        self._on_eof()

    def _stop_if_asked(self, link: _Link) -> None:
        if self._is_signalled:
            # ojs-init sends SIGTERM to those that are idle, or whose time is over.
            self._is_signalled = False
            self._stop_asked = True
            if self._cut_off_at is None and self._stop_grace is not None:
                self._cut_off_at = time.monotonic() + self._stop_grace
            self._cancel_all("shutdown")
        if self._stop_asked and not self._is_stopping:
            self._begin_stop(link)
        if self._cut_off_at is not None and time.monotonic() >= self._cut_off_at and self._held:
            log.critical("%d handlers have not ended within %s s of a signal", len(self._held), self._stop_grace)
            _end_now(_CUT_OFF_STATUS)

    def _begin_stop(self, link: _Link) -> None:
        self._is_stopping = True
        if not self._is_greeted or self._state == "terminate":
            return

        def settle() -> None:
            self._settled_at = time.monotonic() + SETTLE_TIME

        link.send(self._ready_frame(0), done=settle)

    @property
    def _is_ending(self) -> bool:
        return self._is_stopping or self._state == "terminate"

    def _may_end(self, link: _Link) -> bool:
        if not self._is_ending:
            return False
        with self._lock:
            if self._held:
                self._flushing_since = None
                return False
            if link.is_flushed:
                self._flushing_since = None
                return (
                    self._state == "terminate" or self._settled_at is None or time.monotonic() >= self._settled_at
                )
            if self._flushing_since is None:
                self._flushing_since = time.monotonic()
            if time.monotonic() < self._flushing_since + WRITE_TIMEOUT:
                return False
        raise Stalled(f"ojs-init has not read for {WRITE_TIMEOUT:g} s; ending with answers that it has not got")

    def _patience(self) -> Optional[float]:
        """How long nothing needs to happen by itself."""
        if not self._is_ending:
            return None
        if self._held:
            return None if self._cut_off_at is None else self._cut_off_at - time.monotonic()
        if self._flushing_since is not None:
            return self._flushing_since + WRITE_TIMEOUT - time.monotonic()
        return 0 if self._settled_at is None else self._settled_at - time.monotonic()

    def _on_eof(self) -> None:
        held = self._cancel_all("closed")
        if held:
            log.error("ojs-init has closed the connection: %d jobs are abandoned", held)
            self._abandon_handlers()
            with self._all_over:
                is_over = self._all_over.wait_for(lambda: not self._held, EOF_GRACE)
            if not is_over:
                log.critical("handlers have not ended within %g s of that: the process ends now", EOF_GRACE)
                _end_now(1)
        elif self._is_ending:
            return
        raise ConnectionLost("ojs-init has closed the connection")

    def _ready_frame(self, concurrency: int) -> bytes:
        types = None if "*" in self._handlers else list(self._handlers)
        return _frame("ready", protocol=PROTOCOL, concurrency=concurrency, types=types, ping=True, client=_CLIENT)

    def _restore_signals(self, before: Dict[signal.Signals, Any], in_child: bool = False) -> None:
        if in_child:
            signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            if number == signal.SIGTERM and handler == signal.SIG_DFL and self._is_ending and not in_child:
                # The one that ojs-init sends when all is done may still come: the program ends well without it.
                handler = signal.SIG_IGN
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    # What comes in

    def _on_line(self, link: _Link, line: bytes) -> None:
        if not line.strip():
            return
        try:
            text = line.decode("utf-8")
            frame, spans = _parse_object(text)
        except (ValueError, RecursionError) as error:
            self._on_unreadable(link, line, error)
            return
        kind = frame.get("type")
        try:
            if kind == "job":
                start, end = spans["job"]
                self._on_job(link, frame["job"], text[start:end], frame.get("checkpoint"))
            elif kind == "ping":
                link.send(_frame("pong", id=_integer(frame["id"])), urgent=True)
            elif kind == "cancel":
                self._on_cancel(frame["job_id"], frame["reason"])
            elif kind == "lifecycle":
                self._on_lifecycle(frame["state"], frame.get("reason"), frame.get("remaining_ms"))
            elif kind == "hello":
                self._on_hello(link, frame)
            elif kind == "ok":
                self._on_ok(frame["job_id"], frame["for"])
            elif kind == "error":
                self._on_error(link, frame["code"], frame.get("message"), frame.get("job_id"))
            else:
                log.debug("a frame of an unknown type is ignored: %r", kind)
        except (KeyError, TypeError, ValueError) as error:
            log.warning("a frame %r from ojs-init is ignored: %s: %s", kind, type(error).__name__, error)

    def _on_unreadable(self, link: _Link, line: bytes, error: Exception) -> None:
        job_id = _salvage_job_id(line.decode("utf-8", "replace"))
        log.warning("a frame from ojs-init cannot be read: %s (job %s)", _clean(error, 500), job_id)
        if job_id is not None:
            message = f"the job cannot be read by Python: {type(error).__name__}: {error}"
            described = {"code": "invalid_job", "type": type(error).__name__, "message": _clean(message, 1000)}
            link.send(_frame("fail", job_id, error={**described, "retryable": False}))

    def _on_hello(self, link: _Link, frame: Dict[str, Any]) -> None:
        if frame["protocol"] != PROTOCOL:
            raise ProtocolError(f"ojs-init speaks version {frame['protocol']!r} of the protocol, this is {PROTOCOL}")
        if self._is_greeted:
            return
        self._is_greeted = True
        self.worker_id = _typed(frame.get("worker_id"), str, None)
        self._max_frame = _typed(frame.get("max_frame"), int, DEFAULT_MAX_FRAME)
        self._on_lifecycle(frame.get("state", "running"), None, None)
        if not self.concurrency:
            offered = _typed(frame.get("concurrency"), int, 1)
            self.concurrency = min(max(offered, 1), MAX_CONCURRENCY)
        if not self._is_ending:
            link.send(self._ready_frame(self.concurrency))

    def _on_lifecycle(self, state: str, reason: Optional[str], remaining_ms: Optional[float]) -> None:
        if state not in ("running", "quiet", "terminate"):
            raise ValueError(f"no such state: {state!r}")
        if self._state == "terminate" and state != "terminate":
            return
        if state != self._state:
            log.info("%s (%s)", state, reason or "at start")
        self._state = state
        if remaining_ms is not None:
            self._deadline = time.monotonic() + remaining_ms / 1000

    def _on_job(self, link: _Link, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> None:
        job_id = envelope["id"]
        if not isinstance(job_id, str):
            raise TypeError(f"the id of a job is no string: {job_id!r}")
        if self._is_ending:
            # On its way when we said that we take no more.
            link.send(_frame("release", job_id, reason="the worker is ending"))
            return
        if not isinstance(envelope.get("type"), str):
            self._refuse(link, job_id, "invalid_job", "the job has no type", False)
            return
        if self._handler_for(envelope["type"]) is None:
            message = f"this worker has no handler for {_clean(envelope['type'], 200)}"
            self._refuse(link, job_id, "handler_not_found", message, True)
            return
        job = self._make_job(envelope, raw, checkpoint)
        with self._lock:
            is_held = any(other.id == job_id for other in self._held)
            if not is_held:
                self._held.add(job)
                self._answers.pop(job_id, None)
        if is_held:
            log.warning("job %s came again while its handler runs, which goes on", job_id)
        else:
            self._start(job)

    def _refuse(self, link: _Link, job_id: str, code: str, message: str, retryable: bool) -> None:
        log.error("job %s: %s", job_id, message)
        link.send(_frame("fail", job_id, error={"code": code, "message": message, "retryable": retryable}))

    def _on_cancel(self, job_id: str, reason: str) -> None:
        with self._lock:
            jobs = [job for job in self._held if job.id == job_id]
        for job in jobs:
            self._cancel(job, _clean(reason, 200))

    def _cancel_all(self, reason: str) -> int:
        with self._lock:
            jobs = list(self._held)
        for job in jobs:
            self._cancel(job, reason)
        return len(jobs)

    def _cancel(self, job: _J, reason: str) -> None:
        if job.cancel_reason is None:
            log.info("job %s is cancelled: %s", job.id, reason)
            job.cancel_reason = reason
            job._set_cancelled()

    def _on_ok(self, job_id: str, about: str) -> None:
        with self._lock:
            if self._answers.get(job_id) == about:
                del self._answers[job_id]

    def _on_error(self, link: _Link, code: str, message: Any, job_id: Optional[str]) -> None:
        text = _clean(message, 1000)
        with self._lock:
            is_held = any(job.id == job_id for job in self._held)
            answer = None if job_id is None or is_held else self._answers.pop(job_id, None)
        if code in ("lost", "not_held"):
            level = logging.WARNING if is_held or answer == "ack" else logging.DEBUG
            log.log(level, "job %s: %s: %s", job_id, code, text)
            if is_held and job_id is not None:
                self._on_cancel(job_id, "lost")
        elif code == "refused" and answer == "ack":
            log.warning("job %s: the backend refuses its result, ojs-init reports it without: %s", job_id, text)
        elif code == "unsupported_protocol":
            raise ProtocolError(f"ojs-init does not speak version {PROTOCOL} of the protocol: {text}")
        elif code in ("not_json", "invalid_frame", "frame_too_long"):
            log.error("ojs-init refuses a frame (job %s): %s: %s", job_id, code, text)
            if job_id is not None and answer in ("ack", "release"):
                message = f"the handler's answer was refused: {code}: {text}"
                self._refuse(link, job_id, "handler_error", message, False)
        elif code == "not_offered":
            if text not in self._said and len(self._said) < 100:
                self._said.add(text)
                log.warning("the backend does not offer this (said once): %s", text)
        else:
            log.warning("job %s: ojs-init says %s: %s", job_id, code, text)

    # What goes out

    def _handler_for(self, kind: str) -> Optional[Callable[[Any], Any]]:
        return self._handlers.get(kind) or self._handlers.get("*")

    def _answer(self, job: _J, result: Any, error: Optional[BaseException]) -> None:
        """The handler is done: the one answer that its job gets."""
        if self._link is None or os.getpid() != self._link.pid:
            _end_forked_child(error)
        try:
            kind, data = self._answer_frame(job, result, error)
        except BaseException as broken:  # out of memory, most likely
            log.error("job %s: its answer cannot be made: %r", job.id, type(broken).__name__)
            failure = {"code": "handler_error", "message": "the answer cannot be made", "retryable": True}
            kind, data = "fail", _frame("fail", job.id, error=failure)
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
                if len(self._answers) > _REMEMBERED_ANSWERS:
                    self._answers.popitem(last=False)
            self._held.discard(job)
            if not self._held:
                self._all_over.notify_all()
        self._link.wake()

    def _answer_frame(self, job: _J, result: Any, error: Optional[BaseException]) -> Tuple[str, bytes]:
        if error is None:
            if result is None:
                return "ack", _frame("ack", job.id)
            try:
                data = _frame("ack", job.id, '"result":' + _dump(result))
            except Exception as unfit:
                message = f"the handler's result is not JSON: {type(unfit).__name__}: {unfit}"
                error = Discard(message, type="InvalidResult")
            else:
                if self._fits(data):
                    return "ack", data
                # As ojs-init does when the backend refuses a result: the work is done, it must not be done again.
                log.error("job %s: its result is dropped: %d bytes, over %d", job.id, len(data), self._max_frame)
                return "ack", _frame("ack", job.id)
        if isinstance(error, (Cancelled, asyncio.CancelledError)) and job.cancel_reason is not None:
            if job.cancel_reason == "timeout":
                error = Retry("the job took longer than it may", code="timeout", type="Timeout")
            else:
                error = Release(job.cancel_reason)
        if isinstance(error, Release):
            reason = None if error.reason is None else _clean(error.reason, 1000)
            return "release", _frame("release", job.id, reason=reason)
        described = _describe(error)
        if not isinstance(error, _Failure):
            log.error("job %s (%s) failed", job.id, job.type, exc_info=error)
        data = _frame("fail", job.id, error=described)
        if not self._fits(data):
            log.error("job %s: details and backtrace are dropped: the report has %d bytes", job.id, len(data))
            described = {name: value for name, value in described.items() if name not in ("details", "backtrace")}
            described["message"] = described["message"][:200]
            data = _frame("fail", job.id, error=described)
        return "fail", data


def _end_forked_child(error: Optional[BaseException]) -> NoReturn:
    """A handler forked, and its child came back from it. The job is the parent's."""
    status = 0 if error is None else 1
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    _end_now(status & 0xFF)


def _end_now(status: int) -> NoReturn:
    """Without waiting for handlers, exit hooks or threads of anybody."""
    flusher = threading.Thread(target=_flush, daemon=True)
    with contextlib.suppress(RuntimeError):
        flusher.start()
        flusher.join(0.2)
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


class _Pool:
    """Daemon threads, started as they are needed: one that hangs must not keep the process from ending."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._tasks: "queue.SimpleQueue[Optional[Callable[[], None]]]" = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads = 0

    def submit(self, task: Callable[[], None]) -> bool:
        """Run it, later if all threads are taken; False if there is not one thread to be had."""
        with self._lock:
            if self._threads < min(self._limit(), self._unfinished + 1):
                try:
                    threading.Thread(target=self._work, name=f"ojs-job-{self._threads + 1}", daemon=True).start()
                    self._threads += 1
                except RuntimeError as error:
                    log.error("%s; %d threads are there", error, self._threads)
                    if not self._threads:
                        return False
            self._unfinished += 1
        self._tasks.put(task)
        return True

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            task()
            del task
            with self._lock:
                self._unfinished -= 1

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        for _ in range(self._threads):
            self._tasks.put(None)


class Worker(_Core[Job]):
    """A worker whose handlers are functions, run on up to `concurrency` threads.

    `socket_path` is for tests; the default is ``$OJS_SOCKET``.

    With `handle_signals`, SIGTERM and SIGINT are taken over while `run` is in the main thread. ojs-init sends SIGTERM
    to a worker that is idle, or whose time is over: no more jobs are taken, those that are held are cancelled
    (shutdown), and after `stop_grace` seconds the process ends, whatever its handlers do; with None it waits for them.
    For a stop that lets handlers finish, call `stop`.

    Prefork: fork first, then call `run` in each child. A connection belongs to the process that opened it; a child
    forked later cannot use it.
    """

    def __init__(
        self,
        concurrency: Optional[int] = None,
        *,
        socket_path: Optional[str] = None,
        handle_signals: bool = True,
        stop_grace: Optional[float] = STOP_GRACE,
    ) -> None:
        super().__init__(concurrency, socket_path=socket_path, handle_signals=handle_signals, stop_grace=stop_grace)
        self._pool = _Pool(lambda: self.concurrency)

    def run(self) -> None:
        """Take jobs until ojs-init, a signal or `stop` says that it is enough, and what is held is finished."""
        link, path = self._prepare()
        try:
            with self._signals(link):
                self._serve_connection(link, path)
        finally:
            self._pool.close()
        if self._exit is not None:
            raise self._exit

    @contextlib.contextmanager
    def _signals(self, link: _Link) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: Any) -> None:
            self._is_signalled = True

        # Python runs a handler only between two of its instructions, so one that arrives just before the wait for the
        # socket begins would be noticed after it. The descriptor is written at once.
        wakeup = signal.set_wakeup_fd(link.wake_fd, warn_on_full_buffer=False)
        before = {number: signal.signal(number, on_signal) for number in _SIGNALS if self._handles_signals}

        link.in_forked_child = lambda: self._restore_signals(before, in_child=True)
        # A signal that comes once the pipe is closed must not be written to it, nor to who gets its number next.
        link.before_close = lambda: signal.set_wakeup_fd(wakeup)
        try:
            yield
        finally:
            link.in_forked_child = link.before_close = None
            self._restore_signals(before)
            signal.set_wakeup_fd(wakeup)

    def _check_handler(self, handler: Callable[..., Any]) -> None:
        if inspect.iscoroutinefunction(handler):
            raise TypeError(f"{handler!r} is an async function: use AsyncWorker")
        if not callable(handler):
            raise TypeError(f"a handler is a function, not {handler!r}")

    def _make_job(self, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> Job:
        return Job(self, envelope, raw, checkpoint)

    def _start(self, job: Job) -> None:
        if not self._pool.submit(lambda: self._process(job)):
            self._answer(job, None, Release("no thread can be started"))

    def _process(self, job: Job) -> None:
        result: Any = None
        error: Optional[BaseException] = None
        try:
            _release_if_cancelled(job)
            handler = self._handler_for(job.type)
            assert handler is not None
            result = handler(job)
        except BaseException as caught:
            error = caught
        self._answer(job, result, error)


class AsyncWorker(_Core[AsyncJob]):
    """A worker whose handlers are ``async def`` functions, up to `concurrency` of them at once on one event loop.

    The same as :class:`Worker` in all else. The socket has a thread of its own, so a handler that blocks the loop
    delays other handlers, but no answer to a ping.
    """

    loop: asyncio.AbstractEventLoop
    """The event loop; known once it runs."""

    def __init__(
        self,
        concurrency: Optional[int] = None,
        *,
        socket_path: Optional[str] = None,
        handle_signals: bool = True,
        stop_grace: Optional[float] = STOP_GRACE,
    ) -> None:
        super().__init__(concurrency, socket_path=socket_path, handle_signals=handle_signals, stop_grace=stop_grace)
        self._tasks: Set["asyncio.Task[None]"] = set()
        self._slots: Optional[asyncio.Semaphore] = None

    def run(self) -> None:
        """Take jobs until ojs-init, a signal or `stop` says that it is enough, and what is held is finished."""
        asyncio.run(self.serve())

    async def serve(self) -> None:
        """The same as `run`, in an event loop that runs already."""
        self.loop = asyncio.get_running_loop()
        link, path = self._prepare()
        ended: "asyncio.Future[Optional[BaseException]]" = self.loop.create_future()

        def set_ended(error: Optional[BaseException]) -> None:
            if not ended.done():
                ended.set_result(error)

        def serve_connection() -> None:
            error: Optional[BaseException] = None
            try:
                self._serve_connection(link, path)
            except BaseException as caught:
                error = caught
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(set_ended, error)

        with self._signals(link):
            threading.Thread(target=serve_connection, name="ojs-socket", daemon=True).start()
            try:
                await asyncio.wait({ended})
            except asyncio.CancelledError:
                await self._give_up(link, ended)
                raise
        error = ended.result() or self._exit
        if error is not None:
            raise error

    async def _give_up(self, link: _Link, ended: "asyncio.Future[Any]") -> None:
        """Somebody cancelled us: so are the handlers, and their jobs fail."""
        self.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.wait({ended}, timeout=EOF_GRACE)
        self._is_aborted = True
        link.wake()

    @contextlib.contextmanager
    def _signals(self, link: _Link) -> Iterator[None]:
        numbers: Sequence[signal.Signals] = ()
        if self._handles_signals and threading.current_thread() is threading.main_thread():
            numbers = _SIGNALS
        before = {number: signal.getsignal(number) for number in numbers}

        def on_signal() -> None:
            self._is_signalled = True
            link.wake()

        for number in numbers:
            self.loop.add_signal_handler(number, on_signal)
        if numbers:
            link.in_forked_child = lambda: self._restore_signals(before, in_child=True)
        try:
            yield
        finally:
            link.in_forked_child = None
            for number in numbers:
                self.loop.remove_signal_handler(number)
            self._restore_signals(before)

    def _check_handler(self, handler: Callable[..., Any]) -> None:
        if not callable(handler):
            raise TypeError(f"a handler is an async function, not {handler!r}")

    def _make_job(self, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> AsyncJob:
        return AsyncJob(self, envelope, raw, checkpoint)

    def _start(self, job: AsyncJob) -> None:
        self.loop.call_soon_threadsafe(self._spawn, job)

    def _spawn(self, job: AsyncJob) -> None:
        job.cancelled = asyncio.Event()
        if job.cancel_reason is not None:
            job.cancelled.set()

        def ended(task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            if not job._is_over:  # cancelled before its first step
                self._answer(job, None, asyncio.CancelledError())

        task = self.loop.create_task(self._process(job))
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def _process(self, job: AsyncJob) -> None:
        result: Any = None
        error: Optional[BaseException] = None
        if self._slots is None:
            # Only the first job shows how many there may be: that is what `hello` says, unless the program does.
            self._slots = asyncio.Semaphore(self.concurrency)
        try:
            async with self._slots:
                _release_if_cancelled(job)
                handler = self._handler_for(job.type)
                assert handler is not None
                result = handler(job)
                if inspect.isawaitable(result):
                    result = await result
        except BaseException as caught:
            error = caught
        self._answer(job, result, error)

    def _abandon_handlers(self) -> None:
        def cancel_all() -> None:
            for task in list(self._tasks):
                task.cancel()

        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(cancel_all)
