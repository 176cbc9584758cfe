"""An ojs-init with many connections: hands out jobs as there is room for them, and keeps the books."""

import collections
import json
import os
import select
import socket
import struct
import tempfile
import time
from typing import Any, Callable, Counter, Deque, Dict, List, Optional

PATIENCE = 60.0


class Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.pid: int = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        self.buffer = b""
        self.concurrency = 0
        self.was_ready = False
        self.held: Dict[str, Any] = {}


class ManyInit:
    def __init__(self, jobs: int = 0) -> None:
        self.place = tempfile.TemporaryDirectory(prefix="ojs-many-", dir="/tmp")
        self.path = os.path.join(self.place.name, "s")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.connections: List[Connection] = []
        self.waiting: Deque[str] = collections.deque(f"j{number}" for number in range(jobs))
        self.acked: Counter[str] = collections.Counter()
        self.lost: List[str] = []
        self.given_back: List[str] = []
        self.begun: List[str] = []
        self.most_processes = 0
        self.read_pause = 0.0
        """Seconds between two looks at what has come in: jobs go out in that time to who takes no more."""
        self.pids: List[int] = []

    @property
    def capacity(self) -> int:
        return sum(connection.concurrency for connection in self.connections)

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not any(connection.held for connection in self.connections)

    def work_until(self, what: str, is_enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_enough():
            assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
            ready, _, _ = select.select([self.listener, *(c.sock for c in self.connections)], [], [], 0.02)
            for sock in ready:
                if sock is self.listener:
                    self._accept()
                else:
                    self._read(next(c for c in self.connections if c.sock is sock))
            time.sleep(self.read_pause)
            self._hand_out()
            self.most_processes = max(self.most_processes, sum(c.was_ready for c in self.connections))

    def terminate(self) -> None:
        for connection in self.connections:
            self._say(connection, type="lifecycle", state="terminate", reason="sigterm", remaining_ms=20_000)

    def close(self) -> None:
        for connection in self.connections:
            connection.sock.close()
        self.listener.close()
        self.place.cleanup()

    def _accept(self) -> None:
        connection = Connection(self.listener.accept()[0])
        self.connections.append(connection)
        self.pids.append(connection.pid)
        hello = {"protocol": 1, "worker_id": "w", "state": "running", "concurrency": 10, "queues": [], "max_frame": 1 << 22}
        self._say(connection, type="hello", **hello)

    def _say(self, connection: Connection, **frame: Any) -> None:
        try:
            connection.sock.sendall(json.dumps(frame).encode() + b"\n")
        except OSError:
            pass

    def _read(self, connection: Connection) -> None:
        try:
            chunk = connection.sock.recv(65536)
        except OSError:
            chunk = b""
        if not chunk:
            self.lost += connection.held
            self.waiting.extend(connection.held)
            self.connections.remove(connection)
            connection.sock.close()
            return
        *lines, connection.buffer = (connection.buffer + chunk).split(b"\n")
        for line in lines:
            frame = json.loads(line)
            kind, job = frame["type"], frame.get("job_id")
            if kind == "ready":
                connection.concurrency = frame["concurrency"]
                connection.was_ready = True
            elif kind == "progress":
                self.begun.append(str(job))
            elif kind == "heartbeat" and job not in connection.held:
                self._say(connection, type="error", code="not_held", message="not held", job_id=job)
            elif kind in ("ack", "fail", "release"):
                del connection.held[job]
                if kind == "ack":
                    self.acked[job] += 1
                else:
                    self.given_back.append(job)
                    self.waiting.append(job)

    def _hand_out(self) -> None:
        for connection in list(self.connections):
            while self.waiting and len(connection.held) < connection.concurrency:
                job = self.waiting.popleft()
                connection.held[job] = True
                self._say(connection, type="job", job={"id": job, "type": "t", "queue": "default", "attempt": 1, "args": []})


def children_of(pid: int) -> List[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def resolved(status: Optional[int]) -> int:
    """As a shell says it."""
    assert status is not None
    return 128 - status if status < 0 else status
