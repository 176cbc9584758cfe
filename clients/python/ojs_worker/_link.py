"""The connection to ojs-init: whole frames out, lines in."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import weakref
from typing import Callable, Iterator, Optional

from ._basics import shown
from ._errors import ConnectionLost, ForkedProcess, NotUnderOjsInit

READ_SIZE = 256 * 1024
MAX_UNSPLIT = 16 * 1024
"""The kernel takes a frame of so many bytes as a whole or not at all."""


def socket_path(given: Optional[str]) -> str:
    """The path of ojs-init's socket. Raises NotUnderOjsInit, with what to do."""
    path, mode = given or os.environ.get("OJS_SOCKET"), os.environ.get("OJS_MODE")
    if path:
        return path
    if mode in ("gateway", "exec", "none"):
        why = f"ojs-init runs in mode {mode}: leave OJS_MODE out, or set it to socket"
        raise NotUnderOjsInit(f"OJS_SOCKET is not set, because {why}")
    raise NotUnderOjsInit(
        "OJS_SOCKET is not set: this is a worker for ojs-init, which starts it and gives it jobs. "
        f"Run it as: ojs-init -- python3 {shown(sys.argv[0] or 'worker.py', 200)}"
    )


class Link:
    """Any thread may send; one thread reads, and never waits for the others."""

    def __init__(self, sock: Optional[socket.socket] = None) -> None:
        self.pid = os.getpid()
        self._sock = sock or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Lock()
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
            raise ForkedProcess(
                f"the connection to ojs-init belongs to process {self.pid}, and this is process {os.getpid()}, forked "
                "from it: let the parent report about the job, or run a Worker of its own in each process"
            )
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

    def lines(self) -> Iterator[bytes]:
        """The lines that ojs-init sends, until it closes the connection."""
        rest = bytearray()
        chunk = b"\n"
        while chunk:
            end = rest.rfind(b"\n", max(0, len(rest) - len(chunk)))
            if end >= 0:
                yield from bytes(rest[:end]).split(b"\n")
                del rest[: end + 1]
            try:
                chunk = self._sock.recv(READ_SIZE)
            except OSError:
                return
            rest += chunk

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


_links: weakref.WeakSet[Link] = weakref.WeakSet()


def _close_in_child() -> None:
    """A forked child's copy must not keep the connection open."""
    for link in list(_links):
        link._sock.close()


os.register_at_fork(after_in_child=_close_in_child)
