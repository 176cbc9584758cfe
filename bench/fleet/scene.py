"""The processes of a fleet: the development server, and N times ojs-init with an echo worker."""

import http.client
import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any, Dict, Iterator, List, Tuple

import proc
from fleet.record import Record
from processes import Backend, Failed, Programs, Scene

# Events that the server remembers: more than a measurement has, because they are read after it.
MAX_EVENTS = 1_000_000

# Events of one answer of the server: its own bound.
PAGE = 10_000

# Longest time until all workers have registered, and until the jobs of a measurement are done, in
# seconds. A saturated machine needs long.
REGISTER_PATIENCE = 90.0
JOBS_PATIENCE = 60.0

# Connections that enqueue. A saturated server answers each of them slowly, and the rate of a row
# must not depend on that.
PRODUCERS = 32

# Pause between two looks at the server, in seconds: each look is a request.
LOOK_EVERY = 0.1

# A moment after every measurement.
FAR_AWAY = "2999-01-01T00:00:00Z"

# Port of the metrics. Each ojs-init has a loopback address of its own.
METRICS_PORT = 21_081

# Waits until standard input is closed, then becomes the command. All ojs-init so start at once.
GATE = 'read -r _; exec "$@" </dev/null'


@dataclass(frozen=True)
class Mark:
    """A moment: the number of the last event, the server's clock, and processor time until then."""

    number: int
    ms: float
    wall: float
    processors: Dict[str, float]


class Fleet:
    """So many ojs-init at one development server. Each has a worker with so many slots."""

    def __init__(self, scene: Scene, workers: int, slots: int, hold_ms: int) -> None:
        self.scene = scene
        self.workers = workers
        self.backend = scene.backend("--max-events", str(MAX_EVENTS))
        self.server = scene.running[0]
        # Without a job there would be no queue, and so no event stream. Its time never comes.
        self.backend.ask("/ojs/v1/jobs", json.dumps({"type": "echo", "args": [""], "options": {"delay_until": FAR_AWAY}}))
        reading, self.gate = os.pipe()
        self.inits = [self._behind_the_gate(number, reading, slots, hold_ms) for number in range(workers)]
        os.close(reading)
        self.at_work: List[int] = []

    def _behind_the_gate(self, number: int, gate: int, slots: int, hold_ms: int) -> "Popen[bytes]":
        echo = [self.scene.programs.echo_worker, "--connections", str(slots), "--concurrency", str(slots)]
        options = ["--hold-ms", str(hold_ms), "--stamps", str(self.scene.place / f"stamps-{number}")]
        return self.scene.start(
            ["/bin/sh", "-c", GATE, "sh", self.scene.programs.init, "--", *echo, *options],
            stdin=gate,
            OJS_URL=f"http://{self.backend.address}",
            OJS_CONCURRENCY=str(slots),
            OJS_RUNTIME_DIR=str(self.scene.place / f"run-{number}"),
            OJS_HEALTH_LISTEN=f"{address(number)}:{METRICS_PORT}",
            OJS_TERMINATION_GRACE_PERIOD="30s",
        )

    def open_the_gate(self) -> None:
        os.close(self.gate)

    def is_registered(self) -> None:
        """Waits until all workers have registered."""
        self._until("all workers to register", REGISTER_PATIENCE, lambda: self.backend.workers() >= self.workers)
        self.at_work = [child for init in self.inits for child in proc.children(init.pid)]

    def _until(self, what: str, patience: float, is_so: Any) -> None:
        deadline = time.monotonic() + patience
        while not is_so():
            if time.monotonic() > deadline:
                raise Failed(f"{what}: not within {patience:.0f} s\n{self.scene.log()}")
            time.sleep(LOOK_EVERY)

    def feed(self, rate: float, count: int) -> None:
        """Enqueues so many jobs, so many a second, at irregular times: the same in each run."""
        chance = random.Random(1)
        own = threading.local()

        def enqueue(due: float) -> None:
            if not hasattr(own, "backend"):
                own.backend = Backend(self.backend.address)
            time.sleep(max(0.0, due - time.monotonic()))
            own.backend.enqueue(1)

        due = time.monotonic()
        moments = []
        for _ in range(count):
            due += chance.uniform(0.5, 1.5) / rate
            moments.append(due)
        with ThreadPoolExecutor(PRODUCERS) as producers:
            list(producers.map(enqueue, moments))

    def is_done(self, jobs: int) -> None:
        """Waits until so many jobs are done, all told."""
        self._until(f"{jobs} jobs to be done", JOBS_PATIENCE, lambda: self.backend.completed() >= jobs)

    def faults(self, operations: Tuple[str, ...], **fault: Any) -> None:
        for operation in operations:
            self.backend.fault(operation=operation, **fault)

    def mark(self) -> Mark:
        answer = self.backend.ask(f"/dev/events?after={2**53}")
        return Mark(int(answer["last"]), float(answer["now_ms"]), time.monotonic(), self._processor_time())

    def _processor_time(self) -> Dict[str, float]:
        return {
            "server": proc.cpu_seconds(self.server.pid),
            "inits": together(init.pid for init in self.inits),
            "workers": together(iter(self.at_work)),
            "machine": proc.machine_seconds(),
        }

    def private_mib(self) -> int:
        """Memory that all ojs-init and workers have for themselves."""
        pids = [*(init.pid for init in self.inits), *self.at_work]
        return round(sum(proc.memory_kib(pid)["private"] for pid in pids) / 1024)

    def record(self, begin: Mark, end: Mark) -> Record:
        """What the server noted between two marks."""
        events: List[Dict[str, Any]] = []
        last = begin.number
        while last < end.number:
            answer = self.backend.ask(f"/dev/events?after={last}&limit={PAGE}")
            events += answer["events"]
            last = int(answer["last"])
        if events and events[0]["number"] != begin.number + 1:
            raise Failed(f"the server has forgotten {events[0]['number'] - begin.number - 1} events: MAX_EVENTS is too small")
        seconds = end.wall - begin.wall
        load = {
            who: round((end.processors[who] - begin.processors[who]) / seconds, 2) for who in ("server", "inits", "workers", "machine")
        }
        return Record([event for event in events if event["number"] <= end.number], begin.ms, end.ms, load)

    def wakeups(self) -> int:
        """FETCHes that event streams brought forward, of all workers."""
        return sum(wakeups(address(number)) for number in range(self.workers))

    def stamps(self) -> Dict[str, List[Tuple[int, int]]]:
        """When each job was read by a worker and answered, by the wall clock; 0: not answered."""
        found: Dict[str, Dict[int, int]] = {}
        for number in range(self.workers):
            path = self.scene.place / f"stamps-{number}"
            for line in path.read_text().splitlines() if path.exists() else []:
                job, read, answered = line.split()
                found.setdefault(job, {})[int(read)] = int(answered)
        return {job: sorted(runs.items()) for job, runs in found.items()}


@contextmanager
def fleet(programs: Programs, workers: int, slots: int = 10, hold_ms: int = 0) -> Iterator[Fleet]:
    """A fleet behind its gate. Its processes end with the block."""
    with Scene(programs) as scene:
        yield Fleet(scene, workers, slots, hold_ms)


def address(number: int) -> str:
    return f"127.1.{number // 250}.{number % 250 + 1}"


def together(pids: Iterator[int]) -> float:
    """Processor time of several processes. A process that has ended counts no longer."""
    total = 0.0
    for pid in pids:
        try:
            total += proc.cpu_seconds(pid)
        except OSError:
            continue
    return total


def wakeups(host: str) -> int:
    connection = http.client.HTTPConnection(host, METRICS_PORT, timeout=10.0)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    name = "ojs_init_wakeups_total "
    return sum(int(line[len(name) :]) for line in lines if line.startswith(name))
