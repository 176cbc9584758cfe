"""Signals while a worker runs, and several processes: forked after the imports, replaced when they
die."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
import os
import queue
import signal
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NoReturn

from ._basics import OjsError, log

SIGNALS = (signal.SIGTERM, signal.SIGINT)
DEFAULT_CONCURRENCY = 10
NO_OJS_INIT = 69
"""The status of a process that cannot connect to ojs-init. Another one could not either."""
TERMINATED = 70
"""The status of a forked process that ojs-init told to end, as it tells all of them."""
YOUNG = 10.0
"""Seconds: a process that lived shorter is replaced after a pause."""
LEAST_PAUSE = 0.1
MOST_PAUSE = 5.0
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


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for handlers, exit hooks or a log that nobody reads."""
    with contextlib.suppress(RuntimeError):
        flusher = threading.Thread(target=print, kwargs={"end": "", "flush": True}, daemon=True)
        flusher.start()
        flusher.join(0.2)
    os._exit(status)


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
    """The parent of `count` processes, which take `most` jobs at once in all, or, if that is 0, as
    many as ojs-init allows. `run_child` gets its share of the jobs at once and returns the exit status of the
    child. Each child that ends is replaced, unless the worker ends."""

    def __init__(self, count: int, most: int, run_child: Callable[[int], int]) -> None:
        offered = int(os.environ.get("OJS_CONCURRENCY") or DEFAULT_CONCURRENCY)
        total = min(most or offered, offered)
        if count > total:
            log.warning("%d processes are more than the jobs at once (%d): %d are started", count, total, total)
        count = min(count, total)
        self._places = [Place(total // count + (number < total % count)) for number in range(count)]
        self._run_child = run_child
        self._events: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._stops = False
        self._status = 0

    def run(self) -> int:
        """Return when all have ended, with the status of the first that ended badly during the
        stop."""
        if threading.current_thread() is not threading.main_thread():
            raise OjsError("run(processes=...) belongs into the main thread: it forks, and passes signals on")
        gc.collect()
        gc.freeze()
        with handled(lambda number, _: self._events.put(number), *SIGNALS, signal.SIGCHLD):
            while self._places:
                self._start_due()
                self._wait()
                self._reap()
        return self._status

    def stop(self) -> None:
        """Let all processes finish their jobs and end."""
        self._events.put(signal.SIGTERM)

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
        with contextlib.suppress(queue.Empty):
            dues = [max(0.0, place.changes_at - now) for place in self._places if not place.pid]
            number = self._events.get(timeout=min([LOOK_EVERY, *dues]))
            if number in SIGNALS:
                self._stop_all(number)

    def _stop_all(self, number: int) -> None:
        self._stops = True
        self._places = [place for place in self._places if place.pid]
        for place in self._places:
            os.kill(place.pid, number)  # It is not reaped yet, so nobody else can have its id.

    def _reap(self) -> None:
        for place in list(self._places):
            reaped, status = os.waitpid(place.pid, os.WNOHANG) if place.pid else (0, 0)
            if reaped:
                place.pid = 0
                code = os.waitstatus_to_exitcode(status)
                self._on_end(place, reaped, 128 - code if code < 0 else code)

    def _on_end(self, place: Place, pid: int, code: int) -> None:
        if self._stops or code in (TERMINATED, NO_OJS_INIT):
            self._status = self._status or (0 if code == TERMINATED else code)
            self._places.remove(place)
            if code == NO_OJS_INIT and not self._stops:
                self._stop_all(signal.SIGTERM)
            return
        is_young = time.monotonic() - place.changes_at < YOUNG
        place.deaths = place.deaths + 1 if is_young else 0
        pause = min(LEAST_PAUSE * 2 ** min(place.deaths, 10), MOST_PAUSE) if is_young else 0.0
        place.changes_at = time.monotonic() + pause
        how = f"was killed by signal {code - 128}" if code > 128 else f"ended with status {code}"
        level = logging.ERROR if code else logging.WARNING
        log.log(level, "process %d %s: another one takes its place in %g s", pid, how, pause)
