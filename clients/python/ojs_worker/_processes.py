"""Several processes at work: what `run` with `processes` does in the process that forks them."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import select
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

from ._ending import end_now
from ._errors import OjsError
from ._json import typed
from ._limits import MAX_CONCURRENCY
from ._link import SIGNALS, signals_wait
from ._log import log
from ._parent import REPLACED, STOP, Limits

ENV_CONCURRENCY = "OJS_CONCURRENCY"
DEFAULT_CONCURRENCY = 10
YOUNG = 10.0
"""Seconds: a process that lives shorter died young."""
LEAST_PAUSE = 0.1
MOST_PAUSE = 5.0
"""Seconds before the next one is started where one after the other dies young."""
LOOK_EVERY = 1.0
"""Seconds between two looks, should a signal about a child be lost."""


def shares(total: int, count: int) -> List[int]:
    """Each process's share of the jobs at once: they differ by at most one, and none is 0."""
    count = min(count, total)
    return [total // count + (1 if number < total % count else 0) for number in range(count)]


def offered() -> int:
    """What OJS_CONCURRENCY says, which ojs-init sets for its worker."""
    text = os.environ.get(ENV_CONCURRENCY, "")
    if not text:
        return DEFAULT_CONCURRENCY
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_CONCURRENCY:
        raise ValueError(f"{ENV_CONCURRENCY} is a whole number from 1 to {MAX_CONCURRENCY}, not {text!r}")
    return int(text)


def check(processes: Optional[int], limits: Limits) -> None:
    """Whether these options of `run` make sense."""
    if processes is not None and typed(processes, int, 0) not in range(1, MAX_CONCURRENCY + 1):
        raise ValueError(f"processes is a whole number from 1 to {MAX_CONCURRENCY}, not {processes!r}")
    for name, value in dataclasses.asdict(limits).items():
        if value is None:
            continue
        if processes is None:
            raise ValueError(f"{name} is for processes of which there can be another one: say processes=1 or more, too")
        kinds = (int, float) if name == "max_age" else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
            raise ValueError(f"{name} is a number greater than 0, not {value!r}")


class Child:
    """A forked process, from the parent's side."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self.sock = sock
        self.started_at = time.monotonic()
        self.is_worn = False
        self._rest = b""
        sock.setblocking(False)

    def words(self) -> List[str]:
        """What it has said."""
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    chunk = self.sock.recv(4096)
                except ConnectionError:
                    chunk = b""
                if not chunk:
                    break
                self._rest += chunk
        *whole, self._rest = self._rest.split(b"\n")
        return [word.decode("ascii", "replace") for word in whole]

    def may_go(self) -> None:
        """Tell it that another one is in its place."""
        self._say(REPLACED)

    def may_stop(self) -> None:
        """Tell it to finish what it holds, and to end."""
        self._say(STOP)

    def _say(self, word: str) -> None:
        with contextlib.suppress(OSError):
            self.sock.send(f"{word}\n".encode())

    def signal(self, number: int) -> None:
        """Send it a signal. It is not reaped yet, so nobody else can have its pid."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


@dataclasses.dataclass
class Slot:
    """A place for one process, with its share. `leaving` finishes its jobs, `coming` will replace `child`."""

    share: int
    child: Optional[Child] = None
    coming: Optional[Child] = None
    leaving: Optional[Child] = None
    deaths: int = 0
    start_at: float = 0.0

    def all(self) -> List[Child]:
        return [child for child in (self.child, self.coming, self.leaving) if child is not None]


class Processes:
    """The parent. `run_child` is called in each child with its share, its end of the line, and the signals that are blocked
    until the child has handlers of its own."""

    def __init__(self, count: int, total: int, limits: Limits, run_child: Callable[[int, socket.socket, Any], int]) -> None:
        of_each = shares(total, count)
        if len(of_each) < count:
            log.warning("%d processes are more than the jobs at once (%d, %s): %d are started", count, total, ENV_CONCURRENCY, total)
        self.pid = os.getpid()
        self._slots = [Slot(share) for share in of_each]
        self._limits = limits
        self._run_child = run_child
        self._is_stopping = False
        self._is_asked_to_finish = False
        self._worst = 0
        self._signals: List[int] = []
        self._has_warned_of_memory = False
        self._before: Dict[int, Any] = {}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def run(self) -> int:
        """Until all have ended; the worst status of those that ended in the stop, 128 + N for a signal."""
        if threading.current_thread() is not threading.main_thread():
            raise OjsError("run(processes=...) belongs into the main thread: it forks, and passes signals on")
        gc.collect()
        gc.freeze()
        try:
            with self._own_signals():
                while True:
                    self._pass_signals_on()
                    self._start_what_is_due()
                    if self._is_stopping and not self._children():
                        return self._worst
                    self._wait()
                    self._listen()
                    self._reap()
        finally:
            if os.getpid() == self.pid:
                gc.unfreeze()
                os.close(self._wake_read)
                os.close(self._wake_write)

    def finish(self) -> None:
        """Let all processes finish what they hold and end. From any thread or signal handler."""
        self._is_asked_to_finish = True
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"\0")

    def _children(self) -> List[Child]:
        return [child for slot in self._slots for child in slot.all()]

    @contextlib.contextmanager
    def _own_signals(self) -> Iterator[None]:
        wakeup = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (*SIGNALS, signal.SIGCHLD):
            self._before[number] = signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            if os.getpid() == self.pid:
                if self._is_stopping and self._before[signal.SIGTERM] in (None, signal.SIG_DFL):
                    # The one that ojs-init sends when all is done may still come: the program ends well without it.
                    self._before[signal.SIGTERM] = signal.SIG_IGN
                self._restore(wakeup)

    def _restore(self, wakeup: int) -> None:
        with signals_wait():
            for number, handler in self._before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(wakeup)

    def _on_signal(self, number: int, _frame: Any) -> None:
        if number in SIGNALS:
            self._signals.append(number)

    def _pass_signals_on(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            self._is_stopping = True
            for child in self._children():
                child.signal(number)
        if self._is_asked_to_finish and not self._is_stopping:
            self._is_stopping = True
            for child in self._children():
                child.may_stop()

    def _start_what_is_due(self) -> None:
        if self._is_stopping:
            return
        now = time.monotonic()
        for slot in self._slots:
            if slot.child is None and now >= slot.start_at:
                slot.child = self._start(slot)
        # One at a time: never more than one process over their number.
        if any(slot.coming or slot.leaving for slot in self._slots):
            return
        for slot in self._slots:
            if slot.child is not None and slot.child.is_worn and now >= slot.start_at:
                slot.coming = self._start(slot)
                return

    def _start(self, slot: Slot) -> Optional[Child]:
        ours, theirs = socket.socketpair()
        # One that comes before the child has its own handlers waits until it has them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            ours.close()
            theirs.close()
            slot.start_at = time.monotonic() + MOST_PAUSE
            log.error("no process can be started (%s): tried again in %g s", error.strerror, MOST_PAUSE)
            return None
        if pid == 0:
            self._be_child(slot.share, ours, theirs, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        return Child(pid, ours)

    def _be_child(self, share: int, ours: socket.socket, theirs: socket.socket, mask: Any) -> None:
        status = 1
        try:
            self._restore(-1)
            for other in (ours, *(child.sock for child in self._children())):
                other.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            status = self._run_child(share, theirs, mask)
        finally:
            # Exit hooks are the parent's: they may remove what it still needs.
            end_now(status & 0xFF)

    def _wait(self) -> None:
        due = [slot.start_at - time.monotonic() for slot in self._slots if slot.child is None and not self._is_stopping]
        seconds = max(0.0, min([LOOK_EVERY, *due]))
        # Not select: it cannot watch descriptors from 1024 on.
        poll = select.poll()
        for fd in (self._wake_read, *(child.sock.fileno() for child in self._children())):
            poll.register(fd, select.POLLIN)
        if not self._signals:
            poll.poll(seconds * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)

    def _listen(self) -> None:
        for slot in self._slots:
            for child in slot.all():
                for word in child.words():
                    self._on_word(slot, child, word)

    def _on_word(self, slot: Slot, child: Child, word: str) -> None:
        if word == "ready" and child is slot.coming:
            slot.leaving, slot.child, slot.coming = slot.child, child, None
            if slot.leaving is not None:
                slot.leaving.may_go()
        elif word == "worn":
            child.is_worn = True
        elif word == "terminating":
            self._is_stopping = True
        elif word == "lost":
            # At once, so that the status of the one that says it counts.
            self._is_stopping = True
            self._signals.append(signal.SIGTERM)
        elif word.startswith("memory ") and not self._has_warned_of_memory:
            self._has_warned_of_memory = True
            log.warning(
                "a process that has done nothing yet has %s bytes of memory, and max_memory is %s: it is not kept to, raise it",
                word.partition(" ")[2],
                self._limits.max_memory,
            )

    def _reap(self) -> None:
        for slot in self._slots:
            for child in slot.all():
                code = status_of(child.pid)
                if code is None:
                    continue
                for word in child.words():  # its last, which may move it
                    self._on_word(slot, child, word)
                child.sock.close()
                self._on_end(slot, child, code)

    def _on_end(self, slot: Slot, child: Child, code: int) -> None:
        was_leaving, was_child = child is slot.leaving, child is slot.child
        if was_leaving:
            slot.leaving = None
        elif was_child:
            # Its replacement is there sooner than another one.
            slot.child, slot.coming = slot.coming, None
        else:
            slot.coming = None
        if self._is_stopping:
            self._worst = max(self._worst, code)
            return
        how = f"killed by signal {code - 128}" if code > 128 else f"status {code}"
        if was_leaving:
            if code:
                log.warning("process %d ended (%s) as it was to be replaced", child.pid, how)
            return
        slot.deaths = slot.deaths + 1 if time.monotonic() - child.started_at < YOUNG else 1
        pause = 0.0 if slot.deaths == 1 else min(LEAST_PAUSE * 2 ** min(slot.deaths - 2, 10), MOST_PAUSE)
        slot.start_at = time.monotonic() + pause
        log.error("process %d ended (%s): another one takes its place in %g s", child.pid, how, pause)


def status_of(pid: int) -> Optional[int]:
    """The status of a child that has ended, 128 + N for a signal; None while it lives."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        log.warning("process %d was waited for by somebody else: its status is not known", pid)
        return 1
    if reaped == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code

