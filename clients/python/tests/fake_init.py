"""The other end of the socket: an ojs-init that does what a test says and checks what the client says."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional

HERE = Path(__file__).resolve().parent
CLIENT = HERE.parent
FIXTURES = Path(os.environ.get("OJS_CLIENT_FIXTURES") or CLIENT.parent / "fixtures")
EXAMPLES = CLIENT.parent.parent / "examples"
sys.path.insert(0, str(CLIENT))

import ojs_worker  # noqa: E402
from ojs_worker._limits import NOBODYS_JOB  # noqa: E402

# `assertLogs` sees them all the same.
ojs_worker.log.addHandler(logging.NullHandler())
ojs_worker.log.propagate = False

PATIENCE = 30.0
"""Seconds after which a test gives up. Nothing waits for so long when all is well."""

Frame = Dict[str, Any]


def load_play() -> Optional[ModuleType]:
    """The runner that all clients share, for its idea of what a valid frame is."""
    path = FIXTURES / "play.py"
    if not path.exists():
        return None
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("play", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


play = load_play()


def job(id: str, type: str = "t", *args: Any, **more: Any) -> Frame:
    return {"type": "job", "job": {"id": id, "type": type, "queue": "default", "attempt": 1, "args": list(args), **more}}


def wait_until(condition: Callable[[], Any], what: str = "condition") -> Any:
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.005)


class FakeInit:
    """Listens; `accept` takes one connection, whose frames a thread reads unless `reading` is cleared."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(16)
        self.listener.settimeout(PATIENCE)
        self.sock: Optional[socket.socket] = None
        self.frames: List[Frame] = []
        self.problems: List[str] = []
        self.held: Dict[str, int] = {}
        self.max_frame = ojs_worker._limits.DEFAULT_MAX_FRAME
        self.is_eof = False
        self.reading = threading.Event()
        self.reading.set()
        self.read_pause = 0.0
        self.changed = threading.Condition()
        self.reader: Optional[threading.Thread] = None
        self.taken = 0
        self.asks = 0
        self.answers_asks = True

    def accept(self) -> None:
        self.sock, _ = self.listener.accept()
        self.sock.settimeout(PATIENCE)
        self.reader = threading.Thread(target=self._read, args=(self.sock,), daemon=True)
        self.reader.start()

    def _read(self, sock: socket.socket) -> None:
        buffer = b""
        while True:
            self.reading.wait()
            time.sleep(self.read_pause)
            try:
                chunk = sock.recv(65536)
            except OSError:
                chunk = b""
            with self.changed:
                if not chunk:
                    self.is_eof = True
                    if buffer:
                        self.problems.append(f"half a frame at the end: {buffer[:80]!r}")
                    self.changed.notify_all()
                    return
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    self._on_line(line)
                self.changed.notify_all()

    def _on_line(self, line: bytes) -> None:
        try:
            frame = json.loads(line.decode("utf-8"), parse_constant=lambda name: 1 / 0)
        except Exception as error:
            self.problems.append(f"not JSON ({error!r}): {line[:200]!r}")
            return
        if len(line) > self.max_frame:
            self.problems.append(f"{len(line)} bytes in a frame")
        if play is not None and play.problem_with(frame):
            self.problems.append(f"{play.problem_with(frame)}: {line[:200]!r}")
        if frame.get("job_id") == NOBODYS_JOB and frame["type"] == "heartbeat":
            self.asks += 1
            if self.answers_asks:
                self.say_not_held()
            return
        if "job_id" in frame:
            if not self.held.get(frame["job_id"]):
                self.problems.append(f"about a job that is not held: {line[:200]!r}")
            elif frame["type"] in ("ack", "fail", "release"):
                self.held[frame["job_id"]] -= 1
        self.frames.append(frame)

    def send(self, *frames: Frame) -> None:
        self.send_raw("".join(json.dumps(frame, ensure_ascii=False) + "\n" for frame in frames), frames)

    def send_raw(self, text: str, frames: Any = ()) -> None:
        assert self.sock is not None
        with self.changed:
            for frame in frames:
                if frame["type"] == "job":
                    self.held[frame["job"]["id"]] = self.held.get(frame["job"]["id"], 0) + 1
                elif frame["type"] == "hello":
                    self.max_frame = frame.get("max_frame", self.max_frame)
        self.sock.sendall(text.encode("utf-8"))

    def say_not_held(self) -> None:
        """The answer to the question how far we have read."""
        self.send({"type": "error", "code": "not_held", "message": "not held", "job_id": NOBODYS_JOB})

    def hello(self, **changes: Any) -> Frame:
        """Greet, and return the ready."""
        self.accept()
        self.greet(**changes)
        return self.expect("ready")

    def greet(self, **changes: Any) -> None:
        frame = {"type": "hello", "protocol": 1, "worker_id": "w1", "state": "running", "concurrency": 100}
        frame.update({"queues": ["default"], "max_frame": self.max_frame, **changes})
        self.send(frame)

    def expect(self, type: str, job_id: Optional[str] = None, **fields: Any) -> Frame:
        """Wait for such a frame and take it; frames of others stay."""

        def find() -> Optional[int]:
            for index, frame in enumerate(self.frames):
                if frame["type"] == type and (job_id is None or frame.get("job_id") == job_id):
                    return index
            return None

        with self.changed:
            self.changed.wait_for(lambda: find() is not None or self.is_eof, PATIENCE)
            index = find()
            if index is None:
                raise AssertionError(f"no {type} {job_id or ''}; eof: {self.is_eof}; {self.problems} {self.frames[:5]}")
            frame = self.frames.pop(index)
        for name, value in fields.items():
            if frame.get(name) != value:
                raise AssertionError(f"{name} is {frame.get(name)!r}, not {value!r}: {frame}")
        return frame

    def ping(self, id: int = 1) -> None:
        """The client has read and answered everything up to here."""
        self.send({"type": "ping", "id": id})
        self.expect("pong", id=id)

    def expect_eof(self) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: self.is_eof, PATIENCE):
                raise AssertionError("the connection is still open")

    def hang_up(self) -> None:
        assert self.sock is not None
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def close(self) -> None:
        self.listener.close()
        self.reading.set()
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self.sock.close()
        if self.reader is not None:
            self.reader.join(PATIENCE)


class Running:
    """`worker.run()` in a thread: what an embedding program could do, and what tests can wait for."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker
        self.error: Optional[BaseException] = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def join(self) -> Optional[BaseException]:
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            raise AssertionError("run() has not returned")
        return self.error


class ClientTest(unittest.TestCase):
    def setUp(self) -> None:
        parent = tempfile.gettempdir() if len(tempfile.gettempdir()) < 60 else "/tmp"
        self.directory = tempfile.mkdtemp(prefix="ojs-py-", dir=parent)
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.init = self.fake()
        self.processes: List[subprocess.Popen[str]] = []

    def fake(self, name: str = "s") -> FakeInit:
        init = FakeInit(os.path.join(self.directory, name))
        self.addCleanup(self.no_problems, init)
        self.addCleanup(init.close)
        return init

    def no_problems(self, init: FakeInit) -> None:
        self.assertEqual(init.problems, [])

    def worker(self, concurrency: Optional[int] = 10, **options: Any) -> ojs_worker.Worker:
        return ojs_worker.Worker(concurrency, socket_path=self.init.path, **options)

    def async_worker(self, concurrency: Optional[int] = 10, **options: Any) -> ojs_worker.AsyncWorker:
        return ojs_worker.AsyncWorker(concurrency, socket_path=self.init.path, **options)

    def start(self, worker: Any, **hello: Any) -> Running:
        running = Running(worker)
        self.init.hello(**hello)
        return running

    def end(self, running: Running) -> None:
        """The usual end; nothing unexpected was said."""
        self.init.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": 5000})
        self.assertIsNone(running.join())
        self.init.expect_eof()
        self.assertEqual(self.init.frames, [])
        self.assertEqual({id: n for id, n in self.init.held.items() if n}, {})

    def script(self, source: str, **env: str) -> "subprocess.Popen[str]":
        """A program of its own, with `ojs_worker` imported."""
        source = "import os, signal, sys, time, threading\nfrom ojs_worker import *\n" + source
        process = subprocess.Popen(
            [sys.executable, "-c", source],
            env={**os.environ, "OJS_SOCKET": self.init.path, "PYTHONPATH": str(CLIENT), **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._reap, process)
        return process

    def _reap(self, process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.wait()
        assert process.stdout and process.stderr
        process.stdout.close()
        process.stderr.close()

    def exit_status(self, process: "subprocess.Popen[str]") -> int:
        return process.wait(PATIENCE)
