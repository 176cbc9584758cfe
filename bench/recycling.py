"""Recycling of workers in full flow: what becomes of the jobs, by the account of the development server, and of the capacity."""

import http.client
import itertools
import json
import os
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Dict, List, Tuple

from part import Say, Wishes
from processes import Backend, Programs, Scene

WORKER = Path(__file__).resolve().parent / "recycled_worker.py"

# Jobs, how long they take in seconds, spread evenly over the orders of magnitude, and where the draw begins.
JOBS = 20_000
SHORTEST, LONGEST = 0.01, 5.0
SEED = 2026

# Containers, jobs at once in each, and after how many jobs a worker is recycled.
CONTAINERS = 20
AT_ONCE = 10
MAX_JOBS = 50

# A worker that leaks: its jobs, the time of each in seconds, what it keeps of each, its limit, and that of its container.
LEAKING_JOBS = 10_000
LEAKING_SECONDS = 0.15
LEAKED_BYTES = 1_000_000
MAX_MEMORY_MIB = 300
CONTAINER_MIB = 768

# Longest time for all jobs, and how often each container is asked whether it takes jobs, in seconds.
PATIENCE = 900.0
LOOK_EVERY = 0.1


def measure(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    rows = []
    for mode in ("socket", "gateway", "exec"):
        row = run(programs, mode)
        rows.append(row)
        say(
            f"{mode}: {row['done']} of {JOBS} jobs in {row['seconds']} s, {row['lost']} lost, {row['doubled']} doubled, "
            f"{row['failed']} failed; {row['recycled']} times recycled, a container took jobs {row['share']:.1%} of the time, "
            f"{row['gaps']} gaps, longest {row['longest_s']} s, most away {row['most_away']} of {CONTAINERS}"
        )
    return rows


def run(programs: Programs, mode: str) -> Dict[str, Any]:
    with Scene(programs) as scene:
        backend = scene.backend("--max-jobs", str(2 * JOBS), "--max-events", "2000000")
        jobs = enqueued(backend)
        command = ["sleep", "{args.0}"] if mode == "exec" else [sys.executable, "-S", "-E", str(WORKER), mode, str(AT_ONCE)]
        ports = free_ports(CONTAINERS)
        began = time.monotonic()
        for number in range(CONTAINERS):
            scene.start(
                [programs.init, "--mode", mode, "--", *command],
                OJS_URL=f"http://{backend.address}",
                OJS_CONCURRENCY=str(AT_ONCE),
                OJS_WORKER_MAX_JOBS=str(MAX_JOBS),
                OJS_RUNTIME_DIR=str(scene.place / f"run-{number}"),
                OJS_HEALTH_LISTEN=f"127.0.0.1:{ports[number]}",
                OJS_SHUTDOWN_GRACE_PERIOD="20s",
                OJS_TERMINATION_GRACE_PERIOD="40s",
                OJS_LOG_FORMAT="json",
            )
        readiness = Readiness(ports)
        while backend.completed() < JOBS and time.monotonic() < began + PATIENCE:
            time.sleep(0.25)
        row = {"mode": mode, "containers": CONTAINERS, "seconds": round(time.monotonic() - began)}
        return {**row, **readiness.gaps(), **account(backend, jobs), "recycled": recycled(scene)}


def free_ports(count: int) -> List[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def leak(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    """A worker that keeps memory of each job, in a container with a limit."""
    rows = []
    for mode in ("socket", "gateway"):
        row = leak_of(programs, mode)
        rows.append(row)
        say(
            f"{mode}: {row['done']:,} of {LEAKING_JOBS:,} jobs in {row['seconds']} s, {row['lost']} lost, {row['doubled']} doubled, "
            f"{row['failed']} failed; {row['recycled']} times recycled, peak {row['peak_mib']} MiB of {CONTAINER_MIB}, "
            f"{row['oom_kills']} kills for want of memory"
        )
    return rows


def leak_of(programs: Programs, mode: str) -> Dict[str, Any]:
    with MemoryLimit(CONTAINER_MIB << 20) as limit, Scene(programs) as scene:
        backend = scene.backend("--max-jobs", str(2 * LEAKING_JOBS), "--max-events", "2000000")
        jobs = enqueue(backend, [LEAKING_SECONDS] * LEAKING_JOBS)
        worker = [sys.executable, "-S", "-E", str(WORKER), mode, str(AT_ONCE), str(LEAKED_BYTES)]
        began = time.monotonic()
        scene.start(
            ["sh", "-c", 'echo $$ > "$0" && exec "$@"', limit.members, programs.init, "--mode", mode, "--", *worker],
            OJS_URL=f"http://{backend.address}",
            OJS_CONCURRENCY=str(AT_ONCE),
            OJS_WORKER_MAX_MEMORY=f"{MAX_MEMORY_MIB}MiB",
            OJS_HEARTBEAT_INTERVAL="1s",
            OJS_RUNTIME_DIR=str(scene.place / "run"),
            OJS_HEALTH_LISTEN="127.0.0.1:0",
            OJS_LOG_FORMAT="json",
        )
        while backend.completed() < LEAKING_JOBS and time.monotonic() < began + PATIENCE:
            time.sleep(0.25)
        row = {"mode": mode, "seconds": round(time.monotonic() - began), "recycled": recycled(scene)}
        memory = {"peak_mib": limit.peak() >> 20, "oom_kills": limit.kills()}
        return {**row, **account(backend, jobs), **memory}


class MemoryLimit:
    """A cgroup of version 1 or 2 with a limit of memory, as a container has it."""

    def __init__(self, most: int) -> None:
        first = Path("/sys/fs/cgroup/memory")
        self.is_first = first.is_dir()
        self.place = (first if self.is_first else Path("/sys/fs/cgroup")) / f"ojs-bench-memory-{os.getpid()}"
        self.place.mkdir()
        (self.place / ("memory.limit_in_bytes" if self.is_first else "memory.max")).write_text(str(most))
        self.members = str(self.place / "cgroup.procs")

    def peak(self) -> int:
        return int((self.place / ("memory.max_usage_in_bytes" if self.is_first else "memory.peak")).read_text())

    def kills(self) -> int:
        text = (self.place / ("memory.oom_control" if self.is_first else "memory.events")).read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))

    def __enter__(self) -> "MemoryLimit":
        return self

    def __exit__(self, *_: Any) -> None:
        # The scene's processes may still be ending.
        for _ in range(100):
            try:
                return self.place.rmdir()
            except OSError:
                time.sleep(0.1)


def enqueued(backend: Backend) -> List[str]:
    """The ids of all jobs."""
    random = Random(SEED)
    return enqueue(backend, [SHORTEST * (LONGEST / SHORTEST) ** random.random() for _ in range(JOBS)])


def enqueue(backend: Backend, times: List[float]) -> List[str]:
    """Jobs that take so long, in seconds."""
    jobs = [{"type": "sleep", "args": [round(seconds, 3)]} for seconds in times]
    ids = []
    for first in range(0, len(jobs), 1_000):
        answer = backend.ask("/ojs/v1/jobs/batch", json.dumps({"jobs": jobs[first : first + 1_000]}))
        ids += [job["id"] for job in answer["jobs"]]
    return ids


def account(backend: Backend, jobs: List[str]) -> Dict[str, int]:
    """How often each job was delivered, done and failed, by the server's record."""
    found: Dict[str, Counter[str]] = {name: Counter() for name in ("fetch", "ack", "nack", "register")}
    last = 0
    while True:
        events = backend.ask(f"/dev/events?after={last}&limit=10000")["events"]
        if not events:
            break
        last = events[-1]["number"]
        for event in events:
            if event["operation"] in found and event.get("status", 500) < 300:
                found[event["operation"]].update(event.get("jobs") or [event.get("worker", "")])
    return {
        "done": backend.completed(),
        "lost": sum(found["ack"][job] == 0 for job in jobs),
        "doubled": sum(found["fetch"][job] > 1 or found["ack"][job] > 1 for job in jobs),
        "failed": sum(found["nack"][job] > 0 for job in jobs),
        "registered": found["register"].total(),
    }


class Readiness:
    """Asks each container again and again whether it takes jobs, until the end."""

    def __init__(self, ports: List[int]) -> None:
        self.ports = ports
        self.looks: List[Tuple[float, List[bool]]] = []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.look_on)
        self.thread.start()

    def look_on(self) -> None:
        while not self.is_over.wait(LOOK_EVERY):
            self.looks.append((time.monotonic(), [is_ready(port) for port in self.ports]))

    def gaps(self) -> Dict[str, Any]:
        """When a container took no jobs, from the first time on that all of them did."""
        self.is_over.set()
        self.thread.join()
        looks = list(itertools.dropwhile(lambda look: not all(look[1]), self.looks))
        lengths: List[float] = []
        since: Dict[int, float] = {}
        for at, answers in looks:
            for container, takes_jobs in enumerate(answers):
                if not takes_jobs:
                    since.setdefault(container, at)
                elif container in since:
                    lengths.append(at - since.pop(container))
        ready = [sum(answers) for _, answers in looks]
        return {
            "share": round(sum(ready) / (len(self.ports) * len(ready)), 4),
            "gaps": len(lengths),
            "median_s": round(statistics.median(lengths), 2) if lengths else None,
            "longest_s": round(max(lengths), 2) if lengths else None,
            "most_away": len(self.ports) - min(ready),
        }


def is_ready(port: int) -> bool:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        link.request("GET", "/readyz")
        return link.getresponse().status == 200
    except OSError:
        return False
    finally:
        link.close()


def recycled(scene: Scene) -> int:
    """How often a worker was recycled, by the logs."""
    return (scene.place / "log").read_text(errors="replace").count('"the worker was recycled in ')
