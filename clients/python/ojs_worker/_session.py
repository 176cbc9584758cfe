"""One connection to ojs-init, from its `hello` to the end."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import platform
import queue
import threading
import time
from typing import Any, Callable, Dict, Optional, Set

from ._basics import __version__, frame, log, shown, typed
from ._errors import ConnectionLost, ProtocolError, Release
from ._jobs import AnyJob, Shared
from ._link import Link
from ._logs import context_of
from ._outcome import answer, settle
from ._registry import Registry

PROTOCOL = 1
CLIENT = f"ojs-worker-python/{__version__} ({platform.python_implementation()} {platform.python_version()})"
LOST_GRACE = 0.25
"""Seconds that handlers get to end when the connection is closed."""

Frame = Dict[str, Any]


class Session:
    """The jobs that the connection holds, and the state of the worker.

    One thread reads, and never waits: what it has to send, and the end, goes to the queue of the
    thread in `serve`. `start` makes a job and begins to run it, without waiting; `cancel_all` stops
    handlers where that is possible.
    """

    def __init__(self, link: Link, registry: Registry, shared: Shared, most: int) -> None:
        self.shared = shared
        self.worker_id: Optional[str] = None
        self.concurrency = most
        """The most jobs at once; 0 before `hello` if the program leaves it to ojs-init."""
        self.was_abandoned = False
        """Whether the connection was closed while jobs were held."""
        self.is_stuck = False
        """Whether their handlers did not end then."""
        self.before_handler: Callable[[AnyJob], None] = lambda job: None
        self.make: Callable[[Session, Frame, Any], AnyJob]
        self.start: Callable[[Session, Any], None]
        self.cancel_all: Callable[[], None] = lambda: None
        self._link = link
        self._registry = registry
        self._actions: queue.SimpleQueue[Optional[Callable[[], object]]] = queue.SimpleQueue()
        self._held: Dict[str, AnyJob] = {}
        self._changed = threading.Condition()
        self._unanswered = 0
        """Jobs whose answer is not written; guarded by `_changed`."""
        self._is_greeted = self._stops = self._is_over = False
        self._error: Optional[Exception] = None
        self._said: Set[str] = set()

    # The thread that serves

    def serve(self) -> None:
        """Return when the worker shall end. Raises ProtocolError."""
        threading.Thread(target=self._read, name="ojs-reader", daemon=True).start()
        for action in iter(self._actions.get, None):
            with contextlib.suppress(ConnectionLost):  # The reader finds the end of the connection.
                action()
        if self._error is not None:
            raise self._error

    def check_end(self) -> None:
        """Raise SystemExit if jobs were abandoned."""
        if self.was_abandoned:
            raise SystemExit(1)

    def stop(self) -> None:
        """Take no more jobs, and end once those that are held are answered. From any thread or
        signal handler."""
        self._actions.put(self._stop)

    def _stop(self) -> None:
        self._stops = True
        if self._is_greeted and self._unanswered and self.shared.state != "terminate":
            self._link.send(self._ready(0))
        self._end_if_done()

    def _end_if_done(self) -> None:
        with self._changed:
            if (self._stops or self.shared.state == "terminate") and not self._unanswered:
                self._end()

    def _end(self, error: Optional[Exception] = None) -> None:
        with self._changed:
            if not self._is_over:
                self._is_over, self._error = True, error
                self._actions.put(None)

    def _ready(self, concurrency: int) -> bytes:
        types = {} if self._registry.types is None else {"types": self._registry.types}
        ready = {"type": "ready", "protocol": PROTOCOL, "concurrency": concurrency, **types}
        return frame({**ready, "ping": True, "ok": False, "client": CLIENT})

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
        data += answer(job, result, error, self.shared.default)
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
            except (KeyError, TypeError, AttributeError) as error:
                log.warning("a frame from ojs-init is ignored: %s: %s", type(error).__name__, shown(error, 200))
        self._on_closed()

    def on_frame(self, received: Frame) -> None:
        """Handle a frame from ojs-init. A type that is not known is ignored."""
        handle = getattr(self, f"_on_{received['type']}_frame", None)
        if handle is not None:
            handle(received)

    def _send_soon(self, data: bytes) -> None:
        self._actions.put(functools.partial(self._link.send, data))

    def _on_hello_frame(self, hello: Frame) -> None:
        if hello["protocol"] != PROTOCOL:
            self._end(ProtocolError(f"ojs-init speaks version {hello['protocol']!r} of the protocol, this is {PROTOCOL}"))
            return
        self.worker_id = typed(hello.get("worker_id"), str, None)
        offered = max(typed(hello.get("concurrency"), int, 1), 1)
        self.concurrency = min(self.concurrency or offered, offered)
        self._is_greeted = True
        self._on_lifecycle_frame({"state": "running", "reason": "at start", **hello})
        if self.shared.state != "terminate":
            self._send_soon(self._ready(self.concurrency))

    def _on_lifecycle_frame(self, received: Frame) -> None:
        state, remaining_ms = received["state"], received.get("remaining_ms")
        if self.shared.state == "terminate" and state != "terminate":
            return
        if state != self.shared.state:
            log.info("%s (%s)", shown(state, 100), shown(received.get("reason"), 100))
        self.shared.state = state
        if remaining_ms is not None:
            self.shared.stops_at = time.monotonic() + remaining_ms / 1000
        if state == "terminate":
            for job in list(self._held.values()):
                job._stop()
            self._end_if_done()

    def _on_job_frame(self, received: Frame) -> None:
        envelope = received["job"]
        job_id = envelope["id"]
        if job_id in self._held:
            log.warning("job %s came again while its handler runs, which goes on", shown(job_id))
            return
        with self._changed:
            is_late = self._is_over
            self._unanswered += not is_late
        if is_late:
            self._link.send(frame({"type": "release", "job_id": job_id, "reason": "the worker is ending"}))
            return
        job = self._held[job_id] = self.make(self, envelope, received.get("checkpoint"))
        self.start(self, job)

    def _on_unreadable(self, line: bytes, error: Exception) -> None:
        log.error("a frame from ojs-init cannot be read: %s", type(error).__name__)
        with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
            job_id = json.loads(line, parse_int=str)["job"]["id"]
            failure = {"message": "Python does not read an integer of so many digits", "code": "invalid_job"}
            self._send_soon(frame({"type": "fail", "job_id": job_id, "error": {**failure, "retryable": False}}))

    def _on_ping_frame(self, received: Frame) -> None:
        self._send_soon(frame({"type": "pong", "id": received["id"]}))

    def _on_cancel_frame(self, received: Frame) -> None:
        job = self._held.get(received["job_id"])
        if job is not None and job.cancel_reason is None:
            log.info("job %s is cancelled: %s", shown(job.id), shown(received["reason"], 200))
            job._cancel(received["reason"])

    def _on_error_frame(self, received: Frame) -> None:
        code, text = received["code"], shown(received.get("message"), 1000)
        if code == "unsupported_protocol":
            self._end(ProtocolError(f"ojs-init does not speak version {PROTOCOL} of the protocol: {text}"))
        elif code != "not_held" and text not in self._said:
            if code == "not_offered" and len(self._said) < 100:
                self._said.add(text)
            log.warning("job %s: ojs-init says %s: %s", shown(received.get("job_id")), shown(code, 100), text)

    def _on_closed(self) -> None:
        if self._is_over:
            return
        held = list(self._held)
        self.was_abandoned = bool(held)
        level = logging.ERROR if held else logging.WARNING
        log.log(level, "ojs-init has closed the connection: %d jobs are abandoned", len(held))
        for job_id in held:
            self._on_cancel_frame({"job_id": job_id, "reason": "lost"})
        self.cancel_all()
        with self._changed:
            self.is_stuck = not self._changed.wait_for(lambda: not self._unanswered, LOST_GRACE)
        self._end()
