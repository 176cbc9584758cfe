"""What goes wrong in a soak: chains of faults, drawn from the seed, that run side by side."""

import os
import random
import signal
import threading
import time
from collections import Counter
from typing import Any, Callable, Dict, List, Sequence, Tuple

from soak.instance import Instance

# Requests of ojs-init. Those of this program are left alone.
OPERATIONS = ("fetch", "ack", "nack", "heartbeat", "register", "events")

# Faults of the backend, each with what is drawn for it.
STREAMS = ("stream_silent", "stream_hangs", "stream_ends", "stream_lies", "stream_floods", "stream_without_comments")
STATUSES = (429, 500, 502, 503)
STORES = ("postgres", "redis")

# Shortest and longest fault, and pause between two of one chain, in seconds.
FAULT_S, PAUSE_S = (0.3, 4.0), (0.2, 2.0)

# Longest delay of an answer, in milliseconds.
DELAY_MS = 2_000

# A worker that was killed starts again; more than ten restarts within ten minutes are the end of its
# ojs-init, so each is killed at most this often.
KILL_EVERY_S = 75.0


class Chain:
    """One fault after the other, in a thread, until the round ends."""

    def __init__(self, name: str, seed: str, draw: Callable[[random.Random], Tuple[str, Callable[[], None]]]) -> None:
        self.name, self.draw = name, draw
        self.chance = random.Random(seed)
        self.counts: "Counter[str]" = Counter()
        self.errors: List[BaseException] = []

    def run(self, until: float) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=[until])
        thread.start()
        return thread

    def _run(self, until: float) -> None:
        try:
            while True:
                time.sleep(self.chance.uniform(*PAUSE_S))
                if time.monotonic() >= until:
                    return
                name, play = self.draw(self.chance)
                play()
                self.counts[name] += 1
        except BaseException as error:  # noqa: BLE001
            self.errors.append(error)


def of_backend(group: Any) -> Callable[[random.Random], Tuple[str, Callable[[], None]]]:
    """Faults of the development server, and its end by SIGKILL."""

    def draw(chance: random.Random) -> Tuple[str, Callable[[], None]]:
        lasts = chance.uniform(*FAULT_S)
        operation, every = chance.choice(OPERATIONS), chance.choice((1, 2, 3))
        delay_ms, gone = chance.randrange(100, DELAY_MS), chance.uniform(0.1, 2.0)
        faults: List[Dict[str, Any]] = [
            {"fault": "hang", "operation": operation, "every": every, "times": 2},
            {"fault": "close", "operation": operation, "every": every},
            {"fault": "delay", "operation": operation, "delay_ms": delay_ms},
            {"fault": "late_reply", "operation": operation, "delay_ms": delay_ms},
            {"fault": "status", "operation": operation, "status": chance.choice(STATUSES), "retry_after": "1", "every": every},
            {"fault": "lose_reply", "operation": operation, "every": every},
            {"fault": "truncate", "operation": operation, "every": every},
            {"fault": "page", "operation": operation, "every": every},
            {"fault": "redirect", "operation": operation, "status": 302, "every": every},
            {"fault": "store_away", "backend": chance.choice(STORES)},
            {"fault": chance.choice(STREAMS)},
            {"fault": "refuse"},
        ]
        fault = chance.choice([*faults, None])
        if fault is None:
            return "backend killed and started again, without its jobs", lambda: group.restart(gone)
        return f"backend: {fault['fault']}", lambda: group.fault({**fault, "for_ms": round(lasts * 1e3)}, lasts)

    return draw


def of_processes(instances: Sequence[Instance]) -> Callable[[random.Random], Tuple[str, Callable[[], None]]]:
    """SIGKILL, SIGSTOP and SIGCONT to workers; quiet and resume."""
    killed: Dict[str, float] = {}

    def draw(chance: random.Random) -> Tuple[str, Callable[[], None]]:
        instance, lasts = chance.choice(list(instances)), chance.uniform(*FAULT_S)
        kind = chance.choice(("kill", "stop", "stop", "quiet"))
        if kind == "kill" and time.monotonic() - killed.get(instance.name, -KILL_EVERY_S) >= KILL_EVERY_S:
            killed[instance.name] = time.monotonic()
            return "worker killed", lambda: to_worker(instance, signal.SIGKILL)
        if kind == "quiet":
            return "quiet and resume", lambda: quiet(instance, lasts)
        return "worker stopped and continued", lambda: stop(instance, lasts)

    return draw


def to_worker(instance: Instance, number: int) -> None:
    worker = instance.worker()
    if worker:
        try:
            os.kill(worker, number)
        except ProcessLookupError:
            pass


def stop(instance: Instance, lasts: float) -> None:
    to_worker(instance, signal.SIGSTOP)
    time.sleep(lasts)
    to_worker(instance, signal.SIGCONT)


def quiet(instance: Instance, lasts: float) -> None:
    instance.ask("quiet")
    time.sleep(lasts)
    instance.ask("resume")


def of_readers(instances: Sequence[Instance]) -> Callable[[random.Random], Tuple[str, Callable[[], None]]]:
    """The reader of the log stalls."""

    def draw(chance: random.Random) -> Tuple[str, Callable[[], None]]:
        instance, lasts = chance.choice(list(instances)), chance.uniform(*FAULT_S)

        def stall() -> None:
            instance.log.goes_on.clear()
            time.sleep(lasts)
            instance.log.goes_on.set()

        return "log reader stalled", stall

    return draw


def of_plain(instances: Sequence[Instance]) -> Callable[[random.Random], Tuple[str, Callable[[], None]]]:
    """A plain init: signals that it passes on, and a command that is stopped for a while."""

    def draw(chance: random.Random) -> Tuple[str, Callable[[], None]]:
        instance, lasts = chance.choice(list(instances)), chance.uniform(*FAULT_S)
        if chance.random() < 0.5:
            return "signal passed on", lambda: os.kill(instance.pid, signal.SIGUSR1)

        def stopped() -> None:
            os.kill(instance.command_pid, signal.SIGSTOP)
            time.sleep(lasts)
            os.kill(instance.command_pid, signal.SIGCONT)

        return "command stopped and continued", stopped

    return draw
