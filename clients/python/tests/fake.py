"""The other end of the socket, for worker programs in processes of their own."""

import json
import logging
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

CLIENT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CLIENT))
# The failures that tests make stay out of their output; `assertLogs` sees them.
logging.getLogger("ojs_worker").addHandler(logging.NullHandler())
logging.getLogger("ojs_worker").propagate = False
PATIENCE = 20.0
"""Seconds after which a test gives up."""

Frame = Dict[str, Any]


def job(id: str, type: str = "t", *args: Any, **more: Any) -> Frame:
    return {"type": "job", "job": {"id": id, "type": type, "queue": "default", "attempt": 1, "args": list(args), **more}}


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    give_up_at = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > give_up_at:
            raise AssertionError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.005)
    return value


class Connection:
    """One connection of a worker."""

    def __init__(self, sock: socket.socket, concurrency: int, is_parents: bool) -> None:
        sock.settimeout(PATIENCE)
        self.sock = sock
        self.lines = sock.makefile("rb")
        self.pid = int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
        hello = {"type": "hello", "protocol": 1, "worker_id": "w", "state": "running", "concurrency": concurrency}
        self.send({**hello, "queues": ["default"], "max_frame": 1 << 22})
        self.ready = {} if is_parents else self.expect("ready")

    def send(self, *frames: Frame) -> None:
        self.sock.sendall(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))

    def terminate(self, remaining_ms: int = 5000) -> None:
        self.send({"type": "lifecycle", "state": "terminate", "reason": "sigterm", "remaining_ms": remaining_ms})

    def expect(self, type: str, job_id: Optional[str] = None) -> Frame:
        """The next frame, which is of that type."""
        frame = self.read()
        assert frame is not None, f"closed instead of {type}"
        assert (frame["type"], frame.get("job_id")) == (type, job_id), frame
        return frame

    def read(self) -> Optional[Frame]:
        """The next frame; none at the end. A heartbeat for no job is answered."""
        for line in self.lines:
            frame: Frame = json.loads(line)
            if (frame["type"], frame.get("job_id")) != ("heartbeat", "ojs-worker-stop"):
                return frame
            self.send({"type": "error", "code": "not_held", "message": "no", "job_id": frame["job_id"]})
        return None

    def rest(self) -> List[Frame]:
        """All frames until the worker closes the connection."""
        return list(iter(self.read, None))

    def close(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)
        self.lines.close()
        self.sock.close()


class SocketTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = tempfile.mkdtemp(prefix="ojs-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.path = os.path.join(self.place, "s")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.listener.close)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.listener.settimeout(PATIENCE)

    def accept(self, concurrency: int = 4, is_parents: bool = False) -> Connection:
        """The next connection, greeted; that of the parent of several processes is never ready."""
        connection = Connection(self.listener.accept()[0], concurrency, is_parents)
        self.addCleanup(connection.lines.close)
        self.addCleanup(connection.sock.close)
        return connection

    def has_connection(self) -> bool:
        return bool(select.select([self.listener], [], [], 0)[0])

    def start(self, source: str, *command: str, **env: str) -> "subprocess.Popen[str]":
        """A program of its own, with `ojs_worker` imported; or another command."""
        source = "import asyncio, os, signal, sys, time, threading\nfrom ojs_worker import *\n" + source
        path = os.pathsep.join([str(CLIENT), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            command or [sys.executable, "-c", source],
            env={**os.environ, "PYTHONPATH": path, "OJS_SOCKET": self.path, **env},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self._end, process)
        return process

    def _end(self, process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()

    def ends(self, process: "subprocess.Popen[str]", status: int) -> str:
        """What it wrote to standard error."""
        _, text = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, text)
        return text


def children_of(pid: int) -> List[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
