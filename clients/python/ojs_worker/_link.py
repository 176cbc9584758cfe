"""The connection to ojs-init."""

from __future__ import annotations

import collections
import contextlib
import math
import os
import select
import signal
import socket
import threading
from typing import Callable, Deque, Iterator, List, Optional

from ._errors import ConnectionLost
from ._limits import LONGEST_WAIT, READ_SIZE, WRITE_BUDGET


class Outgoing:
    """A frame on its way out."""

    __slots__ = ("data", "done", "written")

    def __init__(self, data: bytes, done: Optional[Callable[[], None]]) -> None:
        self.data = data
        self.done = done
        self.written = False


class Link:
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
        self._urgent: Deque[Outgoing] = collections.deque()
        self._queue: Deque[Outgoing] = collections.deque()
        self._current: Optional[Outgoing] = None
        self._sent = 0
        self._is_broken = False
        self._buffer = bytearray()
        self._searched = 0
        # Not epoll: a forked child would share it with us.
        self._poll = select.poll()
        self._poll.register(self._sock.fileno(), select.POLLIN)
        self._poll.register(self._wake_read, select.POLLIN)
        self._watched: Optional[int] = None
        _links.append(self)

    def connect(self, path: str) -> None:
        self._sock.connect(path)
        self._sock.setblocking(False)

    def watch(self, fd: Optional[int]) -> None:
        """Let :meth:`round` return when there is something to read from this one, too."""
        if fd == self._watched:
            return
        if self._watched is not None:
            self._poll.unregister(self._watched)
        if fd is not None:
            self._poll.register(fd, select.POLLIN)
        self._watched = fd

    @property
    def wake_fd(self) -> int:
        return self._wake_write

    def send(self, data: bytes, *, urgent: bool = False, done: Optional[Callable[[], None]] = None) -> Outgoing:
        """Queue a frame, an urgent one before all others. `done` is called once it was written, or never will be."""
        item = Outgoing(data, done)
        with self._lock:
            if not self._open:
                raise ConnectionLost("ojs-init has closed the connection")
            (self._urgent if urgent else self._queue).append(item)
            self._wake()
        return item

    def withdraw(self, item: Outgoing) -> bool:
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
        for fd, what in self._poll.poll(None if timeout is None else max(0, math.ceil(min(timeout, LONGEST_WAIT) * 1000))):
            if fd == self._watched:
                continue
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
        finished: List[Outgoing] = []
        budget = WRITE_BUDGET
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
            chunk = self._sock.recv(READ_SIZE)
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
                while self._sock.recv(READ_SIZE):
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


_links: List[Link] = []
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """While handlers are changed: Python complains about a signal for which there is no handler any more when it gets to it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_forking = threading.local()


def _before_fork() -> None:
    # A signal for the child that comes before it has its own handlers back would be lost, or taken for one for us.
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS) if _links else None


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
