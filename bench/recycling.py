"""Recycling of workers in full flow: what becomes of the jobs, by the account of the development server, and of the capacity."""

import json
import sys
import time
from collections import Counter
from datetime import datetime
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

# Longest time for all jobs, in seconds.
PATIENCE = 900.0


def measure(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    rows = []
    for mode in ("socket", "gateway", "exec"):
        row = run(programs, mode)
        rows.append(row)
        say(
            f"{mode}: {row['done']} of {JOBS} jobs in {row['seconds']} s, {row['lost']} lost, {row['doubled']} doubled, "
            f"{row['failed']} failed; {row['recycled']} times recycled, a worker took jobs {row['share']:.1%} of the time, "
            f"longest gap {row['longest_s']} s, most away {row['most_away']} of {CONTAINERS}"
        )
    return rows


def run(programs: Programs, mode: str) -> Dict[str, Any]:
    with Scene(programs) as scene:
        backend = scene.backend("--max-jobs", str(2 * JOBS), "--max-events", "2000000")
        jobs = enqueued(backend)
        command = ["sleep", "{args.0}"] if mode == "exec" else [sys.executable, "-S", "-E", str(WORKER), mode, str(AT_ONCE)]
        began = time.time()
        for number in range(CONTAINERS):
            scene.start(
                [programs.init, "--mode", mode, "--", *command],
                OJS_URL=f"http://{backend.address}",
                OJS_CONCURRENCY=str(AT_ONCE),
                OJS_WORKER_MAX_JOBS=str(MAX_JOBS),
                OJS_RUNTIME_DIR=str(scene.place / f"run-{number}"),
                OJS_HEALTH_LISTEN="127.0.0.1:0",
                OJS_SHUTDOWN_GRACE_PERIOD="20s",
                OJS_TERMINATION_GRACE_PERIOD="40s",
                OJS_LOG_FORMAT="json",
            )
        deadline = time.monotonic() + PATIENCE
        while backend.completed() < JOBS and time.monotonic() < deadline:
            time.sleep(0.25)
        ended = time.time()
        row = {"mode": mode, "containers": CONTAINERS, "seconds": round(ended - began)}
        return {**row, **account(backend, jobs), **gaps(scene, began, ended)}


def enqueued(backend: Backend) -> List[str]:
    """The ids of all jobs."""
    random = Random(SEED)
    times = (SHORTEST * (LONGEST / SHORTEST) ** random.random() for _ in range(JOBS))
    jobs = [{"type": "sleep", "args": [round(seconds, 3)]} for seconds in times]
    ids = []
    for first in range(0, JOBS, 1_000):
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


def gaps(scene: Scene, began: float, ended: float) -> Dict[str, Any]:
    """What the logs say of the recyclings: when a container took no jobs."""
    spans: List[Tuple[float, float]] = []
    for line in (scene.place / "log").read_text(errors="replace").splitlines():
        if '"the worker was recycled in ' in line:
            record = json.loads(line)
            end = datetime.fromisoformat(record["timestamp"].replace("Z", "+00:00")).timestamp()
            spans.append((end - record["attributes"]["duration_ms"] / 1000, end))
    lengths = sorted(end - start for start, end in spans)
    steps = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    away = most = 0
    for _, step in steps:
        away += step
        most = max(most, away)
    return {
        "recycled": len(spans),
        "share": round(1 - sum(lengths) / (CONTAINERS * (ended - began)), 4),
        "median_s": round(lengths[len(lengths) // 2], 2) if lengths else None,
        "longest_s": round(lengths[-1], 2) if lengths else None,
        "most_away": most,
    }
