"""One job in this process, for tests of handlers: a socket of its own, with somebody at the other end who plays ojs-init."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from ._errors import OjsError
from ._json import dump
from ._limits import DEFAULT_MAX_FRAME, PROTOCOL, READ_SIZE

if TYPE_CHECKING:
    from ._base import Base

_ANSWERS = ("ack", "fail", "release")
_CANCEL_GRACE_MS = 1000
_LOOK_EVERY = 0.002
# Seconds that the worker of a test gets to begin, and to end.
_WORKER_PATIENCE = 10.0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a job that :meth:`Worker.perform` ran."""

    outcome: str
    """``"ack"``, ``"fail"`` or ``"release"``."""
    result: Any = None
    """The result as JSON has it: a tuple has become a list."""
    error: Optional[Dict[str, Any]] = None
    """The failure that the backend would be told."""
    reason: Optional[str] = None
    """That of a release."""
    checkpoints: List[Any] = dataclasses.field(default_factory=list)
    """What was saved, in order."""
    progress: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    """What was said about it, in order: `progress`, and `message` and `data` where there are any."""


@dataclasses.dataclass(frozen=True)
class Given:
    """The job, and what happens while it runs."""

    job: Dict[str, Any]
    checkpoint: Any
    timeout: Optional[float]
    stopping: Optional[float]
    cancel: Optional[str]
    cancel_after: float
    patience: float


def given(kind: str, args: Sequence[Any], **options: Any) -> Given:
    """The options of :meth:`Worker.perform`, checked."""
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise TypeError(f"the arguments of a job are a list, not {args!r}")
    job: Dict[str, Any] = {"id": options["id"], "type": kind, "queue": options["queue"], "attempt": options["attempt"]}
    job.update(args=list(args), meta=options["meta"] or {})
    if options["timeout"] is not None:
        job["timeout_ms"] = round(options["timeout"] * 1000)
    job.update(options["envelope"] or {})
    names = ("checkpoint", "timeout", "stopping", "cancel", "cancel_after", "patience")
    return Given(job, *(options[name] for name in names))


class _Player:
    """Plays ojs-init on one connection."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._sock: socket.socket
        self._buffer = b""
        self._due: List[Tuple[float, Dict[str, Any]]] = []
        self._has_begun = threading.Event()
        self._may_go_on = threading.Event()
        self._checkpoints: List[Any] = []
        self._progress: List[Dict[str, Any]] = []

    def before_handler(self) -> None:
        """On the handler's thread: what is to happen at once has happened when the handler begins."""
        self._has_begun.set()
        self._may_go_on.wait(self._given.patience)

    def play(self, sock: socket.socket) -> Outcome:
        self._sock = sock
        sock.settimeout(_LOOK_EVERY)
        queues = [self._given.job["queue"]]
        hello = {"type": "hello", "protocol": PROTOCOL, "worker_id": "perform", "state": "running", "concurrency": 1}
        self._say({**hello, "queues": queues, "max_frame": DEFAULT_MAX_FRAME})
        frame: Dict[str, Any] = {"type": "job", "job": self._given.job}
        if self._given.checkpoint is not None:
            frame["checkpoint"] = self._given.checkpoint
        self._say(frame)
        if self._given.timeout is not None:
            self._due.append((time.monotonic() + self._given.timeout, self._cancel("timeout")))
        answer = self._until_answer()
        self._may_go_on.set()
        with contextlib.suppress(OSError):  # it has ended already where it was being shut down
            self._say({"type": "lifecycle", "state": "terminate", "reason": "sigterm"})
        fields = {name: answer.get(name) for name in ("result", "error", "reason")}
        return Outcome(answer["type"], **fields, checkpoints=self._checkpoints, progress=self._progress)

    def _until_answer(self) -> Dict[str, Any]:
        give_up_at = time.monotonic() + self._given.patience
        while time.monotonic() < give_up_at:
            if self._has_begun.is_set() and not self._may_go_on.is_set():
                self._interrupt()
            now = time.monotonic()
            for due in [due for due in self._due if due[0] <= now]:
                self._due.remove(due)
                self._say(due[1])
            for frame in self._frames():
                kind = frame["type"]
                if kind in _ANSWERS:
                    return frame
                if kind == "checkpoint":
                    self._checkpoints.append(frame["state"])
                elif kind == "progress":
                    self._progress.append({name: frame[name] for name in ("progress", "message", "data") if name in frame})
                elif kind == "pong":
                    # It has read all that was said before the ping.
                    self._may_go_on.set()
        raise OjsError(f"the handler has not ended within {self._given.patience:g} s (patience=)")

    def _interrupt(self) -> None:
        self._has_begun.clear()
        seconds = self._given.stopping
        if seconds is not None:
            remaining = round(seconds * 1000)
            self._say({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": remaining})
            self._due.append((time.monotonic() + seconds, self._cancel("shutdown")))
        if self._given.cancel is not None:
            if self._given.cancel_after <= 0:
                self._say(self._cancel(self._given.cancel))
            else:
                self._due.append((time.monotonic() + self._given.cancel_after, self._cancel(self._given.cancel)))
        self._say({"type": "ping", "id": 1})

    def _cancel(self, reason: str) -> Dict[str, Any]:
        return {"type": "cancel", "job_id": self._given.job["id"], "reason": reason, "grace_ms": _CANCEL_GRACE_MS}

    def _say(self, frame: Dict[str, Any]) -> None:
        self._sock.settimeout(_WORKER_PATIENCE)
        self._sock.sendall(dump(frame).encode("utf-8") + b"\n")
        self._sock.settimeout(_LOOK_EVERY)

    def _frames(self) -> List[Dict[str, Any]]:
        try:
            chunk = self._sock.recv(READ_SIZE)
        except socket.timeout:
            return []
        if not chunk:
            raise OjsError("the worker ended without an answer")
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        return [json.loads(line) for line in lines]


def perform(twin: "Base[Any]", listener_path: str, run: Any, given: Given) -> Outcome:
    """Run `twin`, a worker whose socket path is this one, until the job is answered."""
    player = _Player(given)
    twin._before_handler = player.before_handler
    ended: List[BaseException] = []

    def serve() -> None:
        try:
            run()
        except BaseException as error:  # it is the test's to hear of it
            ended.append(error)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(listener_path)
        listener.listen(1)
        listener.settimeout(_WORKER_PATIENCE)
        worker = threading.Thread(target=serve, name="ojs-perform", daemon=True)
        worker.start()
        connection, _ = listener.accept()
        with connection:
            try:
                outcome = player.play(connection)
            finally:
                player._may_go_on.set()
            worker.join(_WORKER_PATIENCE)
    for error in ended:
        if not isinstance(error, Exception):
            raise error
    return outcome


def in_a_place() -> "tempfile.TemporaryDirectory[str]":
    """Where the socket is: its path has to be short."""
    parent = tempfile.gettempdir()
    return tempfile.TemporaryDirectory(prefix="ojs-", dir=parent if len(os.fsencode(parent)) < 60 else "/tmp")
