"""A million jobs in mode socket at speed: memory, descriptors, threads and timers stay as they are."""

import time
from typing import Any, Dict, List

from part import Say
from processes import Failed, Programs, Scene
from soak import flat
from soak.instance import Instance
from soak.orphans import metric

COUNT = 1_000_000

# Jobs at once, and connections of the worker.
AT_ONCE, CONNECTIONS = 100, 4

# Jobs that wait at the backend at most, and that are enqueued together.
WAITING, BATCH = 40_000, 10_000

# Jobs between two samples, and the unit of the slope.
STEP, UNIT = 25_000, 100_000

# Most growth for each 100,000 jobs.
BOUNDS = {"private_kib": 32.0, "descriptors": 0.5, "threads": 0.5, "timers": 0.5}

# Longest time for all jobs, in seconds, and pause between two looks.
PATIENCE, LOOK_EVERY = 3_600.0, 0.05

# Where the metrics are.
LISTEN = "127.0.0.1:21083"


def measure(programs: Programs, _: Any, say: Say) -> List[Any]:
    with Scene(programs) as scene:
        backend = scene.backend("--max-jobs", str(COUNT + BATCH))
        worker = ["--", programs.echo_worker, "--connections", str(CONNECTIONS), "--concurrency", str(AT_ONCE)]
        settings = {"OJS_URL": f"http://{backend.address}", "OJS_CONCURRENCY": str(AT_ONCE), "OJS_HEALTH_LISTEN": LISTEN}
        instance = Instance(scene, "million", worker, **settings)
        scene.until("the worker to register", lambda: backend.workers() == 1)
        began = time.monotonic()
        samples = watched(instance, backend)
        seconds = time.monotonic() - began
        counts = backend.ask("/ojs/v1/jobs?limit=1")["counts"]
        row = {
            "jobs": COUNT,
            "seconds": round(seconds, 1),
            "a_second": round(COUNT / seconds),
            "completed": counts.get("completed", 0),
            "acknowledged": metric(LISTEN, "ojs_job_completed_total"),
            "first": samples[0],
            "last": samples[-1],
            "most": {name: max(sample[name] for sample in samples) for name in samples[0]},
            "figures": {name: judged(samples, name) for name in BOUNDS},
            "exit": instance.stop(),
        }
    say(f"{row['completed']:,} jobs, {row['a_second']:,} a second, acknowledged {row['acknowledged']:,}; {row['figures']}")
    grows = [name for name, one in row["figures"].items() if not one["is_flat"]]
    if row["completed"] != COUNT or row["acknowledged"] != COUNT or grows:
        raise Failed(f"of {COUNT} jobs {row['completed']} are done, {row['acknowledged']} acknowledged; growing: {grows}")
    return [row]


def watched(instance: Instance, backend: Any) -> List[Dict[str, int]]:
    """Enqueues and waits; a sample whenever so many jobs are done."""
    samples: List[Dict[str, int]] = []
    enqueued, deadline = 0, time.monotonic() + PATIENCE
    while True:
        instance.expect_alive()
        done = backend.completed() if enqueued else 0
        if done and (not samples or done - samples[-1]["done"] >= STEP or done >= COUNT):
            samples.append({"done": done, **instance.kernel(), **instance.tables()})
        if done >= COUNT:
            return samples
        if enqueued < COUNT and enqueued - done <= WAITING - BATCH:
            backend.enqueue(BATCH)
            enqueued += BATCH
        else:
            time.sleep(LOOK_EVERY)
        if time.monotonic() > deadline:
            raise Failed(f"{done} of {COUNT} jobs are done within {PATIENCE:.0f} s\n{instance.log.end()}")


def judged(samples: List[Dict[str, int]], name: str) -> Dict[str, Any]:
    points = [(sample["done"] / UNIT, sample[name]) for sample in samples[len(samples) // 5 : -1]]
    slope = flat.slope(points)
    is_flat = not slope.is_above(BOUNDS[name])
    return {"slope": round(slope.value, 3), "error": round(slope.error, 3), "bound": BOUNDS[name], "is_flat": is_flat}
