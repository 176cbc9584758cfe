"""One connection to ojs-init, from its `hello` to the end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import math
import os
import platform
import queue
import re
import socket
import sys
import threading
import time
import traceback
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

from ._basics import OWN, Cancelled, ConnectionLost, Default, Failure, ForkedProcess, NotUnderOjsInit, OjsError, ProtocolError
from ._basics import Discard, Release, Retry, __version__, exit_now, frame, log, shown, text_of, typed
from ._jobs import AnyJob
from ._logs import LateLog, context_of
from ._handlers import Registry

PROTOCOL = 1
CLIENT = f"ojs-worker-python/{__version__} ({platform.python_implementation()} {platform.python_version()})"
NO_JOB = "ojs-worker-stop"
"""The id of no job. ojs-init answers a heartbeat for it once it has read what came before."""
JOB_ID = re.compile(rb'{"type":"job","job_id":("(?:[^"\\]|\\.)*")')
"""The id in front of a job that Python cannot read. Beyond that nobody knows whose an `id` is."""
LOST_GRACE = 0.25
"""Seconds that handlers get to end when the connection is closed."""

Frame = Dict[str, Any]
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
READ_SIZE = 256 * 1024
MAX_UNSPLIT = 16 * 1024
"""The kernel takes a frame of so many bytes as a whole or not at all."""


def socket_path(given: Optional[str]) -> str:
    """The path of ojs-init's socket. Raises NotUnderOjsInit, with what to do."""
    path, mode = given or os.environ.get("OJS_SOCKET"), os.environ.get("OJS_MODE")
    if path:
        return path
    if mode in ("gateway", "exec", "none"):
        raise NotUnderOjsInit(f"OJS_SOCKET is not set, because ojs-init runs in mode {mode}: leave OJS_MODE out")
    command = f"ojs-init -- python3 {shown(sys.argv[0] or 'worker.py', 200)}"
    raise NotUnderOjsInit(f"OJS_SOCKET is not set: ojs-init starts this worker and gives it jobs. Run it as: {command}")


class Link:
    """Any thread may send; one thread reads, and never waits for the others."""

    def __init__(self, sock: Optional[socket.socket] = None) -> None:
        self.pid = os.getpid()
        self._sock = sock or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Lock()
        self._rest = b""
        _links.add(self)

    def connect(self, path: str) -> None:
        try:
            self._sock.connect(path)
        except OSError as error:
            raise NotUnderOjsInit(f"cannot connect to ojs-init at {path} (OJS_SOCKET): {error}") from error

    def send(self, data: bytes, before: Optional[Callable[[], None]] = None, waits: bool = True) -> bool:
        """Write a frame, once the kernel has it; `before` is called first. With `waits` false: if
        that needs no waiting. Returns whether it is written."""
        if self.pid != os.getpid():
            which = f"the connection to ojs-init belongs to process {self.pid}, and this is process {os.getpid()}"
            raise ForkedProcess(f"{which}: let the parent report about the job, or run a Worker in each process")
        if (not waits and len(data) > MAX_UNSPLIT) or not self._lock.acquire(blocking=waits):
            return False
        try:
            if before is not None:
                before()
            return self._write(data, waits)
        finally:
            self._lock.release()

    def _write(self, data: bytes, waits: bool) -> bool:
        try:
            sent = 0 if waits else self._sock.send(data, socket.MSG_DONTWAIT)
            if sent < len(data):
                self._sock.sendall(data[sent:])
            return True
        except BlockingIOError:
            return False
        except OSError as error:
            raise ConnectionLost("ojs-init has closed the connection") from error

    def fileno(self) -> int:
        return self._sock.fileno()

    def receive(self) -> Optional[List[bytes]]:
        """The lines that have come, without waiting; None at the end of the connection."""
        try:
            data = self._sock.recv(READ_SIZE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines if data else None

    def lines(self) -> Iterator[bytes]:
        """The lines that ojs-init sends, until it closes the connection."""
        with contextlib.suppress(OSError), self._sock.makefile("rb", READ_SIZE) as stream:
            yield from (line for line in stream if line.endswith(b"\n"))


_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _close_in_child() -> None:
    """A forked child's copy must not keep the connection open."""
    for link in list(_links):
        with contextlib.suppress(OSError):  # It is closed.
            os.close(link._sock.detach())


os.register_at_fork(after_in_child=_close_in_child)


def ready_frame(types: Optional[List[str]], concurrency: int, ping: bool = False) -> bytes:
    """`ready` for these job types; for all if there are none. With `ping` the process is checked on
    while it holds jobs: a handler that keeps the interpreter to itself would look like one that hangs."""
    ready = {"type": "ready", "protocol": PROTOCOL, "concurrency": concurrency, **({} if types is None else {"types": types})}
    return frame({**ready, "ping": ping, "ok": False, "client": CLIENT})


def jobs_at_once(hello: Frame, most: int, types: Optional[List[str]]) -> int:
    """How many jobs all connections together take, at most `most` unless that is 0. Raises if the
    worker cannot go on."""
    if hello["protocol"] != PROTOCOL:
        raise ProtocolError(f"ojs-init speaks version {hello['protocol']!r} of the protocol, this is {PROTOCOL}")
    offered = max(typed(hello.get("concurrency"), int, 1), 1)
    jobs = min(most or offered, offered)
    size, longest = len(ready_frame(types, jobs)) - 1, typed(hello.get("max_frame"), int, sys.maxsize)
    if size > longest:
        raise OjsError(f"`ready` with its job types has {size} bytes, and ojs-init takes {longest} (worker.max_frame)")
    return jobs


class Session:
    """The jobs that the connection holds, and the state of the worker.

    One thread reads, and never waits: what it has to send, and the end, goes to the queue of the
    thread in `serve`. `runner` makes jobs, and begins to run them, without waiting.
    """

    def __init__(self, link: Link, registry: Registry, default: Default, most: int, runner: Any, ping: bool) -> None:
        self.default, self.runner, self._ping = default, runner, ping
        self.state = "running"
        self.stops_at: Optional[float] = None
        """The moment in a shutdown when jobs that are left are cancelled, by `time.monotonic`."""
        self.concurrency = most
        """The most jobs at once; 0 before `hello` if the program leaves it to ojs-init."""
        self.max_frame = sys.maxsize
        """The longest frame that ojs-init takes, in bytes without the line break."""
        self.before_handler: Callable[[AnyJob], None] = lambda job: None
        self._link, self._registry = link, registry
        self._actions: queue.SimpleQueue[Optional[Callable[[], object]]] = queue.SimpleQueue()
        self._held: Dict[str, AnyJob] = {}
        self._changed = threading.Condition()
        self._unanswered = 0
        """Jobs whose answer is not written; guarded by `_changed`."""
        self._is_ready = self._is_asked_to_stop = self._stops = self._is_over = False
        self._error: Optional[BaseException] = None
        self.late_log = LateLog()
        """For the thread that reads, which never waits for a log."""
        self._said: Set[str] = set()

    # The thread that serves

    def serve(self) -> None:
        """Return when the worker shall end. Raises ProtocolError, and SystemExit if jobs were
        abandoned."""
        threading.Thread(target=self._read, name="ojs-reader", daemon=True).start()
        for action in iter(self._actions.get, None):
            with contextlib.suppress(ConnectionLost):  # The reader finds the end of the connection.
                action()
        self.late_log.flush(LOST_GRACE)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Take no more jobs, and end once those that are held are answered. From any thread or
        signal handler."""
        self._actions.put(self._stop)

    def _say_ready(self) -> None:
        if not self._is_asked_to_stop:
            self._is_ready = True
            self._link.send(self._ready(self.concurrency))

    def _stop(self) -> None:
        if self._is_asked_to_stop:
            return
        self._is_asked_to_stop = True
        if self._is_ready and self.state != "terminate":
            # Jobs may be on their way until ojs-init has read that no more are taken.
            self._link.send(self._ready(0) + frame({"type": "heartbeat", "job_id": NO_JOB}))
        else:
            self._stop_when_idle()

    def _stop_when_idle(self) -> None:
        self._stops = True
        self._end_if_done()

    def _end_if_done(self) -> None:
        with self._changed:
            if (self._stops or self.state == "terminate") and not self._unanswered:
                self._end()

    def _end(self, error: Optional[BaseException] = None) -> None:
        with self._changed:
            if not self._is_over:
                self._is_over, self._error = True, error
                self._actions.put(None)

    def _ready(self, concurrency: int) -> bytes:
        return ready_frame(self._registry.types, concurrency, self._ping)

    # The threads of handlers

    async def run(self, job: AnyJob) -> None:
        """Call the handler of a job, and answer. On a thread this waits for nothing but the
        handler."""
        result: Any = None
        error: Optional[BaseException] = None
        with context_of(job):
            try:
                if job.cancel_reason is not None:
                    raise Release(job.cancel_reason)  # Even after its timeout: nothing was done.
                self.before_handler(job)
                result = await self._registry.call(job)
            except BaseException as caught:
                if job.is_async and isinstance(caught, asyncio.CancelledError) and job.cancel_reason is None:
                    # The end of the loop cancels all tasks at once. `AsyncWorker.serve`, which then says so, may come
                    # behind this one, and cancels it once more.
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.sleep(0)
                error = settle(job, caught)
            await self._registry.call_hooks(job, result, error)
            self.answer(job, result, error)
        error = None  # Its traceback refers to this frame.

    def send(self, data: bytes, job: AnyJob, waits: bool = True) -> bool:
        """Send something about a job. Returns whether it is written, which it is not if that needs
        to wait."""
        return self._link.send(data, job._check, waits)

    def answer(self, job: AnyJob, result: Any, error: Optional[BaseException]) -> None:
        """The one answer to a job. That of an async one may be written a little later."""
        if os.getpid() != self._link.pid:
            os._exit(0 if error is None else 1)  # A handler forked, and its child returned. The parent answers.
        data = b""
        if error is not None and job._resume.has_unsaved and job.cancel_reason != "lost":
            try:
                data = job._checkpoint_frame(job._resume.to_save())
            except Exception as broken:
                log.warning("job %s: its position is not saved: %s", shown(job.id), shown(broken, 500))
        try:
            data += answer_of(job, result, error, self.default)
        except Exception:  # An error with odd fields.
            log.exception("job %s: its error cannot be described", shown(job.id))
            failure = {"retryable": not isinstance(error, Discard), "message": type(error).__name__}
            data += frame({"type": "fail", "job_id": job.id, "error": failure})
        job._is_over = True
        send = functools.partial(self._link.send, data, functools.partial(self._forget, job))
        with contextlib.suppress(ConnectionLost):
            if not send(waits=not job.is_async):
                self._actions.put(send)
        with self._changed:
            self._unanswered -= 1
            self._changed.notify_all()
        self._end_if_done()

    def _forget(self, job: AnyJob) -> None:
        # Before its answer is written, because the same id may come again right behind that.
        if self._held.get(job.id) is job:
            del self._held[job.id]

    # The thread that reads

    def _read(self) -> None:
        for line in self._link.lines():
            try:
                self.on_frame(json.loads(line))
            except (ValueError, RecursionError) as error:
                self._on_unreadable(line, error)
            except Exception as error:
                text = "a frame from ojs-init is ignored: %s: %s"
                self.late_log.add(logging.WARNING, text, type(error).__name__, shown(error, 200))
        self._on_closed()

    def on_frame(self, received: Frame) -> None:
        """Handle a frame from ojs-init. A type that is not known is ignored."""
        handle = getattr(self, f"_on_{received['type']}_frame", None)
        if handle is not None:
            handle(received)

    def _send_soon(self, data: bytes) -> None:
        self._actions.put(functools.partial(self._link.send, data))

    def _on_hello_frame(self, hello: Frame) -> None:
        try:
            self.concurrency = jobs_at_once(hello, self.concurrency, self._registry.types)
        except OjsError as error:
            return self._end(error)
        self.max_frame = typed(hello.get("max_frame"), int, self.max_frame)
        self._on_lifecycle_frame({"state": "running", "reason": "at start", **hello})
        if self.state != "terminate":
            self._actions.put(self._say_ready)

    def _on_lifecycle_frame(self, received: Frame) -> None:
        state, remaining_ms = received["state"], received.get("remaining_ms")
        if self.state == "terminate" and state != "terminate":
            return
        if state != self.state:
            self.late_log.add(logging.INFO, "%s (%s)", shown(state, 100), shown(received.get("reason"), 100))
        self.state = state
        if remaining_ms is not None:
            self.stops_at = time.monotonic() + remaining_ms / 1000
        if state == "terminate":
            for job in list(self._held.values()):
                job._stop()
            self._end_if_done()

    def _on_job_frame(self, received: Frame) -> None:
        envelope = received["job"]
        job_id = envelope["id"]
        if job_id in self._held:
            text = "job %s came again while its handler runs, which goes on"
            return self.late_log.add(logging.WARNING, text, shown(job_id))
        job = self.runner.make(envelope, received.get("checkpoint"), self, received.get("traceparent"))
        with self._changed:
            is_late = self._is_over
            self._unanswered += not is_late
        if is_late:
            self._link.send(frame({"type": "release", "job_id": job_id, "reason": "the worker is ending"}))
            return
        self._held[job_id] = job
        self.runner.start(self, job)

    def _on_unreadable(self, line: bytes, error: Exception) -> None:
        # Python's parser has limits of its own; a job that it refuses fails for good.
        job = JOB_ID.match(line)
        if job is not None:
            why = f"Python cannot read the job: {type(error).__name__}"
            failure = {"retryable": False, "code": "invalid_job", "message": why}
            self._send_soon(frame({"type": "fail", "job_id": json.loads(job[1]), "error": failure}))
        self.late_log.add(logging.ERROR, "a frame from ojs-init cannot be read: %s", type(error).__name__)

    def _on_ping_frame(self, received: Frame) -> None:
        self._send_soon(frame({"type": "pong", "id": received["id"]}))

    def _on_cancel_frame(self, received: Frame) -> None:
        job = self._held.get(received["job_id"])
        if job is not None and job.cancel_reason is None:
            job._cancel(received["reason"])
            self.late_log.add(logging.INFO, "job %s is cancelled: %s", shown(job.id), shown(received["reason"], 200))

    def _on_error_frame(self, received: Frame) -> None:
        code, text = received["code"], shown(received.get("message"), 1000)
        if received.get("job_id") == NO_JOB:
            self._stop_when_idle()
        elif code == "unsupported_protocol":
            self._end(ProtocolError(f"ojs-init does not speak version {PROTOCOL} of the protocol: {text}"))
        elif code != "not_held" and text not in self._said:
            self._said.update([text] if code == "not_offered" else [])
            about = "job %s: ojs-init says %s: %s"
            self.late_log.add(logging.WARNING, about, shown(received.get("job_id")), shown(code, 100), text)

    def _on_closed(self) -> None:
        if self._is_over:
            return
        held = list(self._held)
        level = logging.ERROR if held else logging.WARNING
        self.late_log.add(level, "ojs-init has closed the connection: %d jobs are abandoned", len(held))
        for job_id in held:
            self._on_cancel_frame({"job_id": job_id, "reason": "lost"})
        with self._changed:
            if not self._changed.wait_for(lambda: not self._unanswered, LOST_GRACE):
                self.late_log.flush(LOST_GRACE)
                exit_now(1)  # Handlers hang, and nobody waits for them any more.
        self._end(SystemExit(1) if held else None)


def settle(job: AnyJob, error: BaseException) -> BaseException:
    """What the backend is told about the end of a handler, cancelled or not."""
    if isinstance(error.__cause__, StopIteration) and own_trace(error) is None:
        error = error.__cause__  # Python wraps it where it leaves a coroutine.
    if isinstance(error, asyncio.CancelledError) and job.cancel_reason is not None:
        error = Cancelled(job.cancel_reason)
    if isinstance(error, Cancelled) and error.reason == "timeout":
        return Retry("the job took longer than it may", code="timeout", type="Timeout")
    return Release(error.reason) if isinstance(error, Cancelled) else error


def answer_of(job: AnyJob, result: Any, error: Optional[BaseException], default: Default) -> bytes:
    """The frame that answers the job. Its type and the job's id come first, for ojs-init reads
    these of any line."""
    fields: Dict[str, Any] = {"type": "ack", "job_id": job.id}
    if error is None:
        try:
            return frame(fields if result is None else {**fields, "result": result}, default)
        except Exception as problem:  # Among them those of the program's own json_default.
            kind, why = type(result).__name__, type(problem).__name__
            log.error("job %s is done without its result: a %s that is not JSON (%s)", shown(job.id), kind, why)
            return frame(fields)
    if isinstance(error, Release):
        fields.update({"type": "release"}, **({} if error.reason is None else {"reason": text_of(error.reason)}))
        return frame({**fields, "after_ms": math.ceil(error.after * 1000)} if error.after else fields, errors="replace")
    described = describe(error)
    # A Retry or Discard of the handler's own has no mistake to look for; ojs-init logs its words.
    if not isinstance(error, Failure) or isinstance(error, OWN) or error.__cause__ is not None:
        has_more = described["retryable"] and "max_attempts" in job.envelope and not job.is_last_attempt
        stack = None if isinstance(error, OWN) else (type(error), error, own_trace(error))
        level = logging.WARNING if has_more else logging.ERROR
        log.log(level, "job %s (%s) failed: %s", shown(job.id), shown(job.type, 200), shown(error, 200), exc_info=stack)
    fields.update(type="fail", error=described)
    try:
        return frame(fields, default, errors="replace")
    except Exception:
        log.warning("job %s: the details of a %s are not JSON and are left out", shown(job.id), type(error).__name__)
        described.pop("details", None)
        return frame(fields, text_of, errors="replace")


def describe(error: BaseException) -> Dict[str, Any]:
    """The failure, as the backend gets it. ojs-init reads the beginning of a line that is too long, so what
    decides comes first."""
    origin = error.__cause__ if isinstance(error, Failure) else error
    message = ("the handler called sys.exit: " if isinstance(error, SystemExit) else "") + text_of(origin or error)
    described = {"retryable": True, "code": "handler_error", "type": type(origin or error).__name__, "message": message}
    details = None
    if isinstance(error, Failure):
        kind = type(error).__name__ if isinstance(error, OWN) else error.type
        wish = {"retry_after_ms": round(error.after * 1000)} if isinstance(error, Retry) and error.after is not None else {}
        details = {**typed(error.details, dict, {}), **wish} if wish else error.details
        own = {"type": kind, "message": error.message}
        described.update({name: value for name, value in own.items() if value}, code=error.code, retryable=error.retryable)
    described["message"] = described["message"] or described["type"]
    if origin is not None:
        frames = reversed(traceback.extract_tb(own_trace(origin)))
        described["backtrace"] = [f"{each.filename}:{each.lineno} in {each.name}" for each in frames]
    return {**described, "details": details} if details else described


def own_trace(error: BaseException) -> Optional[TracebackType]:
    """The traceback without this library's call of the handler."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace
