"""How long a job is on its way through ojs-init, by the stamps of the server and the worker, which share the machine's clock."""

import os
import random
import signal
import statistics
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

from part import Say, Wishes
from processes import Backend, Failed, Programs, Scene, Way

# Jobs of one measurement; their requests fit into what the server remembers.
JOBS = 2_000

# Jobs of one idle pick-up, and how far they are apart in seconds: more than a poll, so that each finds an idle worker.
IDLE_JOBS = 15
IDLE_GAP = (1.1, 1.9)

# Ends of one measurement, jobs that are active then, and how long each takes, in milliseconds.
ENDS = 10
LAST_JOBS = 4
HELD_MS = 300


def on_the_way(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    """From FETCH's answer to the frame in the worker's hands, and from the worker's answer to the ACK in the server's."""
    rows = []
    for jobs in (1, 10, 100):
        if not wishes.want(jobs):
            continue
        row: Dict[str, Any] = {"jobs": jobs, "bare_loop": [], "batches": [], "ojs_init": []}
        for _ in range(wishes.rounds):
            for who in ("bare_loop", "batches", "ojs_init"):
                row[who].append(passage(programs, jobs, who))
        rows.append(row)
        ours = row["ojs_init"][-1]
        say(f"{jobs} at once: dispatch {ours['dispatch_us']['median']:.0f} us, report {ours['report_us']['median']:.0f} us")
    return rows


def passage(programs: Programs, jobs: int, who: str) -> Dict[str, Any]:
    with Scene(programs) as scene:
        backend = scene.backend()
        backend.enqueue(JOBS)
        stamps = scene.place / "stamps"
        way = scene.reached(backend, "http")
        if who == "ojs_init":
            scene.init(way, jobs, worker=["--stamps", str(stamps)])
        else:
            batches = ["--batches", "yes"] if who == "batches" else []
            scene.bare_loop(way, jobs, "--stamps", str(stamps), *batches)
        scene.until("all jobs", lambda: backend.completed() >= JOBS)
        noted = scene.until("all stamps", lambda: found if len(found := read(stamps)) >= JOBS else None)
        dispatch, report = [], []
        for event in backend.events("fetch", "ack"):
            for job in event.get("jobs", []):
                if event["operation"] == "fetch":
                    dispatch.append((noted[job][0] - event["answered_ns"]) / 1e3)
                else:
                    report.append((event["arrived_ns"] - noted[job][1]) / 1e3)
        return {"dispatch_us": spread(dispatch), "report_us": spread(report)}


def read(stamps: Path) -> Dict[str, Tuple[int, int]]:
    """When each job was read, and when it was answered."""
    if not stamps.exists():
        return {}
    lines = stamps.read_text().splitlines()
    found = (line.split() for line in lines)
    return {words[0]: (int(words[1]), int(words[2])) for words in found if len(words) == 3}


def spread(values: List[float]) -> Dict[str, float]:
    ordered = sorted(values)
    at = lambda part: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 1)  # noqa: E731
    return {"median": at(0.5), "p90": at(0.9), "p99": at(0.99), "count": len(ordered)}


def pick_ups(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    """From the enqueue of a job to an idle worker's hands, polling once a second; with events where both sides have them."""
    rows = []
    for who, settings in [("bare_loop", {}), ("ojs_init", {"OJS_WAKE": "off"}), ("ojs_init", {"OJS_WAKE": "auto"})]:
        waits = pick_up(programs, who == "ojs_init", settings)
        rows.append({"who": who, "settings": settings, "pick_up_ms": spread(waits)})
        say(f"{who} {settings}: {statistics.median(waits):.1f} ms from enqueue to worker")
    return rows


def pick_up(programs: Programs, is_ours: bool, settings: Dict[str, str]) -> List[float]:
    with Scene(programs) as scene:
        backend = scene.backend()
        backend.enqueue(1)
        stamps = scene.place / "stamps"
        way = scene.reached(backend, "http")
        if is_ours:
            scene.init(way, 10, 1, ["--stamps", str(stamps)], **settings)
        else:
            scene.bare_loop(way, 1, "--stamps", str(stamps), "--poll-ms", "1000")
        scene.until("the first job", lambda: backend.completed() == 1)
        # The same gaps for everybody.
        chance = random.Random(1)
        for _ in range(IDLE_JOBS):
            time.sleep(chance.uniform(*IDLE_GAP))
            backend.enqueue(1)
        scene.until("all jobs", lambda: backend.completed() == 1 + IDLE_JOBS)
        noted = scene.until("all stamps", lambda: found if len(found := read(stamps)) > IDLE_JOBS else None)
        enqueued = backend.events("enqueue")[1:]
        return [(noted[event["jobs"][0]][0] - event["answered_ns"]) / 1e6 for event in enqueued]


def end(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    """From the answer to the last ACK of a drain to the end of the process."""
    lasted = []
    while len(lasted) < ENDS:
        with Scene(programs) as scene:
            backend = scene.backend()
            backend.enqueue(LAST_JOBS)
            lasted.append(one_end(scene, backend, scene.reached(backend, "http")))
    say(f"{statistics.median(lasted):.1f} ms from the last answer to the exit")
    return [{"exit_ms": spread(lasted), "each_ms": [round(value, 2) for value in lasted]}]


def one_end(scene: Scene, backend: Backend, way: Way) -> float:
    stamps = scene.place / "stamps"
    process = scene.init(way, LAST_JOBS, LAST_JOBS, ["--hold-ms", str(HELD_MS), "--stamps", str(stamps)])
    scene.until("the worker to have the jobs", lambda: len(read(stamps)) == LAST_JOBS)
    process.send_signal(signal.SIGTERM)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    gone = time.time_ns()
    if process.wait() != 0 or backend.completed() != LAST_JOBS:
        raise Failed(f"a drain ended with status {process.returncode}\n{scene.log()}")
    last = max(event["answered_ns"] for event in backend.events("ack"))
    return (gone - last) / 1e6
