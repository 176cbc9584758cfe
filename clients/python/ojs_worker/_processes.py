"""Signals while a worker runs, and several processes: forked after the imports, replaced when they
die."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
import json
import math
import os
import select
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List

from ._basics import OjsError, exit_now, frame, log

if TYPE_CHECKING:
    from ._session import Link

SIGNALS = (signal.SIGTERM, signal.SIGINT)
YOUNG = 10.0
"""Seconds: a process that lived shorter is replaced after a pause."""
LEAST_PAUSE = 0.1
MOST_PAUSE = 5.0
LOST = 1.0
"""Seconds from the end of ojs-init to SIGKILL for processes that go on."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the processes, should a signal get lost."""


_taken: List[Dict[Any, Any]] = []
"""The handlers that were there before ours."""


def _restore(before: Dict[Any, Any], is_over: bool = False) -> None:
    """Put these handlers back. Once all is over SIGTERM is ignored where it would kill: ojs-init's
    own may come late."""
    for number, handler in before.items():
        ignores = is_over and number == signal.SIGTERM and handler == signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if ignores else handler or signal.SIG_DFL)


def _restore_in_child() -> None:
    """A forked child gets its signals as they were before."""
    for before in reversed(_taken):
        _restore(before)
    _taken.clear()


os.register_at_fork(after_in_child=_restore_in_child)


@contextlib.contextmanager
def handled(handler: Callable[[int, Any], None], *numbers: signal.Signals) -> Iterator[None]:
    """Call `handler`, which must not wait for anything, on each of these signals."""
    before = {number: signal.signal(number, handler) for number in numbers}
    _taken.append(before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    is_over = False
    try:
        yield
        is_over = True
    finally:
        _taken.remove(before)
        _restore(before, is_over)


@dataclasses.dataclass
class Place:
    """A process, and those that follow it when it has died."""

    share: int
    """The most jobs at once."""
    pid: int = 0
    """The process that runs; 0 if there is none."""
    changes_at: float = 0.0
    """When the process began, or when the next one is due, by `time.monotonic`."""
    deaths: int = 0
    """How many in a row have died young."""


class Processes:
    """The parent of `count` processes. Each child that ends is replaced, unless the worker ends.

    The parent has a connection of its own, which takes no jobs: it brings `hello`, the shutdown and
    the end of ojs-init. `on_hello` returns the most jobs at once of all processes, or raises.
    `run_child` gets its share of them and returns the exit status of the child.
    """

    def __init__(
        self, count: int, link: Link, on_hello: Callable[[Dict[str, Any]], int], run_child: Callable[[int], int]
    ) -> None:
        self._count, self._link, self._on_hello, self._run_child = count, link, on_hello, run_child
        self._places: List[Place] = []
        self._signals, self._signalled = socket.socketpair()
        self._signalled.setblocking(False)
        self._is_ending = self._is_closed = False
        self._kill_at = math.inf
        self._status = 0

    def run(self, path: str) -> int:
        """Return when all have ended, with the status of the first that ended badly during the
        stop."""
        if threading.current_thread() is not threading.main_thread():
            raise OjsError("run(processes=...) belongs into the main thread: it forks, and passes signals on")
        gc.collect()
        gc.freeze()
        with handled(lambda number, _: self._signal(number), *SIGNALS, signal.SIGCHLD):
            self._link.connect(path)
            while self._places or not self._is_ending:
                self._start_due()
                self._wait()
                self._reap()
                if time.monotonic() >= self._kill_at:
                    self._stop_all(signal.SIGKILL)
        return self._status

    def stop(self) -> None:
        """Let all processes finish their jobs and end."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(BlockingIOError):  # So many wait already.
            self._signalled.send(bytes([number]))

    def _start_due(self) -> None:
        for place in self._places:
            if place.pid or place.changes_at > time.monotonic():
                continue
            place.changes_at = time.monotonic()
            # A signal that comes before the child has handlers of its own waits until it has.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                place.pid = os.fork()
                if not place.pid:
                    # Exit hooks are the parent's: they may remove what it still needs.
                    exit_now(self._run_child(place.share))
            except OSError as error:
                log.error("a process cannot be started, which is tried again in %g s: %s", MOST_PAUSE, error)
                place.changes_at += MOST_PAUSE
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _wait(self) -> None:
        now = time.monotonic()
        dues = [max(0.0, place.changes_at - now) for place in self._places if not place.pid]
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        if not self._is_closed:
            poll.register(self._link, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(1000 * min([LOOK_EVERY, *dues]))]
        if self._signals.fileno() in ready:
            for number in self._signals.recv(100):
                if number in SIGNALS:
                    self._stop_all(number)
        self._read()

    def _read(self) -> None:
        """Handle what ojs-init has sent to the parent."""
        lines = [] if self._is_closed else self._link.receive()
        if lines is None:
            self._is_closed = True
            self._kill_at = time.monotonic() + LOST
            self._begin_end()
        for received in map(json.loads, lines or []):
            if received["type"] == "hello" and not self._is_ending:
                self._make_places(self._on_hello(received))
            elif received["type"] == "ping":
                self._link.send(frame({"type": "pong", "id": received["id"]}))
            if received.get("state") == "terminate":
                self._begin_end()

    def _make_places(self, total: int) -> None:
        count = min(self._count, total)
        if count < self._count:
            log.warning("%d processes are more than the jobs at once (%d): %d are started", self._count, total, total)
        self._places = [Place(total // count + (number < total % count)) for number in range(count)]

    def _begin_end(self) -> None:
        """No process is replaced any more."""
        self._is_ending = True
        self._places = [place for place in self._places if place.pid]

    def _stop_all(self, number: int) -> None:
        self._begin_end()
        for place in self._places:
            os.kill(place.pid, number)  # It is not reaped yet, so nobody else can have its id.

    def _reap(self) -> None:
        for place in list(self._places):
            reaped, status = os.waitpid(place.pid, os.WNOHANG) if place.pid else (0, 0)
            if reaped:
                self._read()  # It may have ended because ojs-init told all processes to.
                place.pid = 0
                code = os.waitstatus_to_exitcode(status)
                self._on_end(place, reaped, 128 - code if code < 0 else code)

    def _on_end(self, place: Place, pid: int, code: int) -> None:
        if self._is_ending:
            self._status = self._status or code
            self._places.remove(place)
            return
        is_young = time.monotonic() - place.changes_at < YOUNG
        place.deaths = place.deaths + 1 if is_young else 0
        pause = min(LEAST_PAUSE * 2 ** min(place.deaths, 10), MOST_PAUSE) if is_young else 0.0
        place.changes_at = time.monotonic() + pause
        how = f"was killed by signal {code - 128}" if code > 128 else f"ended with status {code}"
        level = logging.ERROR if code else logging.WARNING
        log.log(level, "process %d %s: another one takes its place in %g s", pid, how, pause)
