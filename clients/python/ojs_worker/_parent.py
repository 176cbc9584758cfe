"""A child's line to the process that forked it: what it tells, and when it wants to be replaced."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import time
from typing import Optional

REPLACED = "replaced"
"""The replacement is there, and this process may go."""
STOP = "stop"
"""All processes finish what they hold and end."""
MEMORY_JOBS = 10
MEMORY_AGE = 60.0
"""Before so many jobs, and so many seconds, memory does not count."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the memory."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """After how many jobs, seconds, and with how many bytes of memory a process is replaced."""

    max_jobs: Optional[int] = None
    max_age: Optional[float] = None
    max_memory: Optional[int] = None


class Parent:
    """The child's end of the line. Used by the thread that serves the connection, but for `job_done`."""

    def __init__(self, sock: socket.socket, limits: Limits) -> None:
        sock.setblocking(False)
        self._sock: Optional[socket.socket] = sock
        self._limits = limits
        self._max_memory = limits.max_memory
        self._started_at = time.monotonic()
        self._jobs = 0
        self._looked_at = 0.0
        self._has_asked = False

    def fileno(self) -> Optional[int]:
        """What is to be watched; None when the line is cut."""
        return None if self._sock is None else self._sock.fileno()

    def ready(self) -> None:
        """The connection takes jobs."""
        self._tell("ready")
        if self._max_memory is not None and resident() >= self._max_memory:
            # Another one would be no smaller.
            self._tell(f"memory {resident()}")
            self._max_memory = None

    def terminating(self) -> None:
        """ojs-init has said terminate."""
        self._tell("terminating")

    def lost(self) -> None:
        """There is no ojs-init, or none for us."""
        self._tell("lost")

    def job_done(self) -> None:
        """A job is answered. Called with the worker's lock held."""
        self._jobs += 1

    def look(self) -> None:
        """Ask for a replacement when it is time to."""
        if not self._has_asked and self._is_worn():
            self._has_asked = True
            self._tell("worn")

    def patience(self) -> Optional[float]:
        """How long nothing needs to be looked at, in seconds."""
        if self._has_asked:
            return None
        waits = []
        if self._limits.max_age is not None:
            waits.append(self._started_at + self._limits.max_age - time.monotonic())
        if self._max_memory is not None:
            waits.append(LOOK_EVERY)
        return max(0.0, min(waits)) if waits else None

    def says(self) -> str:
        """What it wants of this process: :data:`REPLACED`, :data:`STOP`, or nothing."""
        if self._sock is None:
            return ""
        try:
            words = self._sock.recv(64)
        except BlockingIOError:
            return ""
        except OSError:
            words = b""
        if not words:
            # Whoever forked us is gone, and ojs-init sees to that.
            self._sock.close()
            self._sock = None
            return ""
        return STOP if STOP.encode() in words else REPLACED

    def _tell(self, word: str) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.send(f"{word}\n".encode())

    def _is_worn(self) -> bool:
        age = time.monotonic() - self._started_at
        limits = self._limits
        if limits.max_jobs is not None and self._jobs >= limits.max_jobs:
            return True
        if limits.max_age is not None and age >= limits.max_age:
            return True
        if self._max_memory is None or (self._jobs < MEMORY_JOBS and age < MEMORY_AGE):
            return False
        if time.monotonic() < self._looked_at + LOOK_EVERY:
            return False
        self._looked_at = time.monotonic()
        return resident() >= self._max_memory


def resident() -> int:
    """Bytes of memory that this process has, shared ones included; 0 where nobody tells."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
