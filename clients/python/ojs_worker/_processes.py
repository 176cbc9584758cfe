"""Signals while a worker runs, and several processes: forked after the imports, replaced when they
die."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Tuple

from ._basics import log
from ._errors import OjsError

SIGNALS = (signal.SIGTERM, signal.SIGINT)
DEFAULT_CONCURRENCY = 10
NO_OJS_INIT = 69
"""The status of a process that cannot connect to ojs-init. Another one could not either."""
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
def stopped_by_signals(stop: Callable[[], None], is_wanted: bool) -> Iterator[None]:
    """Call `stop`, which must not wait for anything, on each of the signals."""
    if not is_wanted or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop()) for number in SIGNALS}
    _taken.append(before)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    is_over = False
    try:
        yield
        is_over = True
    finally:
        _taken.remove(before)
        _restore(before, is_over)


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for handlers, exit hooks or a log that nobody reads."""

    def flush() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    flusher = threading.Thread(target=flush, daemon=True)
    with contextlib.suppress(RuntimeError):
        flusher.start()
        flusher.join(0.2)
    os._exit(status)


def offered() -> int:
    """The most jobs at once in all processes, which ojs-init puts into the environment."""
    text = os.environ.get("OJS_CONCURRENCY") or str(DEFAULT_CONCURRENCY)
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError(f"OJS_CONCURRENCY is a whole number from 1 on, not {text!r}")
    return int(text)


class Processes:
    """The parent. `run_child` gets its share of the jobs at once and returns the exit status of the
    child. A child that ends with 0 was asked to end, and is not replaced."""

    def __init__(self, count: int, total: int, run_child: Callable[[int], int]) -> None:
        if count > total:
            log.warning("%d processes are more than the jobs at once (%d): %d are started", count, total, total)
        count = min(count, total)
        self._shares = [total // count + (place < total % count) for place in range(count)]
        self._run_child = run_child
        self._events: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._children: Dict[int, Tuple[int, float]] = {}
        """The place of each child and the time of its start, by its process id."""
        self._deaths = dict.fromkeys(range(count), 0)
        self._due = {place: 0.0 for place in range(count)}
        """The places without a process, with the time to start one."""
        self._stops = False
        self._status = 0

    def run(self) -> int:
        """Return when all have ended, with the status of the first that ended badly during the
        stop."""
        if threading.current_thread() is not threading.main_thread():
            raise OjsError("run(processes=...) belongs into the main thread: it forks, and passes signals on")
        before = {number: signal.signal(number, self._on_signal) for number in (*SIGNALS, signal.SIGCHLD)}
        _taken.append(before)
        gc.collect()
        gc.freeze()
        while self._children or (self._due and not self._stops):
            self._start_due()
            self._wait()
            self._reap()
        _taken.remove(before)
        _restore(before, is_over=True)
        return self._status

    def stop(self) -> None:
        """Let all processes finish their jobs and end."""
        self._events.put(signal.SIGTERM)

    def _on_signal(self, number: int, _frame: Any) -> None:
        self._events.put(number)

    def _start_due(self) -> None:
        now = time.monotonic()
        for place in [place for place, due in self._due.items() if due <= now and not self._stops]:
            # A signal that comes before the child has handlers of its own waits until it has.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    status = self._run_child(self._shares[place])
                finally:
                    exit_now(status)  # Exit hooks are the parent's: they may remove what it still needs.
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            del self._due[place]
            self._children[pid] = (place, now)

    def _wait(self) -> None:
        now = time.monotonic()
        pause = min([LOOK_EVERY, *(max(0.0, due - now) for due in self._due.values() if not self._stops)])
        with contextlib.suppress(queue.Empty):
            number = self._events.get(timeout=pause)
            if number in SIGNALS:
                self._stop_all(number)

    def _stop_all(self, number: int) -> None:
        self._stops = True
        for pid in self._children:
            os.kill(pid, number)  # It is not reaped yet, so nobody else can have its id.

    def _reap(self) -> None:
        for pid in list(self._children):
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if reaped:
                code = os.waitstatus_to_exitcode(status)
                self._on_end(pid, *self._children.pop(pid), 128 - code if code < 0 else code)

    def _on_end(self, pid: int, place: int, started: float, code: int) -> None:
        if self._stops or code == NO_OJS_INIT:
            self._status = self._status or code
            if not self._stops:
                self._stop_all(signal.SIGTERM)
        elif code:
            is_young = time.monotonic() - started < YOUNG
            self._deaths[place] = self._deaths[place] + 1 if is_young else 0
            pause = min(LEAST_PAUSE * 2 ** min(self._deaths[place], 10), MOST_PAUSE) if is_young else 0.0
            self._due[place] = time.monotonic() + pause
            how = f"was killed by signal {code - 128}" if code > 128 else f"ended with status {code}"
            log.error("process %d %s: another one takes its place in %g s", pid, how, pause)
