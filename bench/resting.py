"""What ojs-init costs when there is nothing to do, and what it keeps of what it did."""

import time
from typing import Any, Dict, List

import proc
from part import Say, Wishes
from processes import Programs, Scene

# How long an idle process is watched, in seconds; the figures are for a minute.
IDLE_SECONDS = 20.0

# Time after a start or after work in which a process may still tidy up, in seconds.
SETTLE = 1.5

# After how many jobs memory is looked at, and how many of them are at once.
MARKS = (0, 1_000, 100_000)
AT_ONCE = 100

# Longest time for all of them, in seconds.
PATIENCE = 240.0


def idle(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    """How often an idle process wakes up, and what that costs: two ways to reach the backend."""
    rows = []
    for scheme in ("http", "name"):
        with Scene(programs) as scene:
            backend = scene.backend()
            process = scene.init(scene.reached(backend, scheme), 10)
            scene.until("the worker to register", lambda: backend.workers() == 1)
            time.sleep(SETTLE)
            switches, cpu = proc.switches(process.pid), proc.cpu_seconds(process.pid)
            time.sleep(IDLE_SECONDS)
            a_minute = 60 / IDLE_SECONDS
            row: Dict[str, Any] = {
                "scheme": scheme,
                "wakeups_a_minute": round((proc.switches(process.pid) - switches) * a_minute, 1),
                "cpu_us_a_minute": round((proc.cpu_seconds(process.pid) - cpu) * a_minute * 1e6),
                "threads": proc.threads(process.pid),
                **proc.memory_kib(process.pid),
            }
        rows.append(row)
        say(f"idle by {scheme}: {row['wakeups_a_minute']} wakeups and {row['cpu_us_a_minute']} us a minute")
    return rows


def memory(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    """What is resident after so many jobs."""
    rows = []
    with Scene(programs) as scene:
        backend = scene.backend("--max-jobs", str(2 * MARKS[-1]))
        process = scene.init(scene.reached(backend, "http"), AT_ONCE)
        scene.until("the worker to register", lambda: backend.workers() == 1)
        done = 0
        for mark in MARKS:
            backend.enqueue(mark - done)
            done = mark
            deadline = time.monotonic() + PATIENCE
            while mark and backend.completed() < mark and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(SETTLE)
            rows.append({"jobs": backend.completed() if mark else 0, **proc.memory_kib(process.pid), "peak": proc.peak_kib(process.pid)})
            say(f"after {rows[-1]['jobs']} jobs: {rows[-1]['resident']} KiB resident, {rows[-1]['private']} KiB its own")
    return rows
