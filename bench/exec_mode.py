"""What a job costs that is a process: in turns with a loop that starts one process after the other, in one run. And what is
kept of a hundred thousand of them."""

import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List

import proc
from part import Say, Wishes
from processes import Failed, Programs, Scene

# What is run: nothing else costs less.
TRUE = "/bin/true"

# Jobs at once.
AT_ONCE = 10

# How long is measured, in seconds, and how many jobs there are for that.
SECONDS = 4.0
JOBS = 60_000

# Jobs that are not counted: caches and connections are warm then.
WARM_UP = 300

# After how many jobs memory is looked at, and the longest time for all of them, in seconds.
MARKS = (1_000, 100_000)
PATIENCE = 600.0

# Time after work in which a process may still tidy up, in seconds.
SETTLE = 1.5


def measure(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    bare, ours = [], []
    for _ in range(wishes.rounds):
        bare.append(spawn_loop(programs))
        ours.append(jobs(programs))
    pace = statistics.median(one["jobs_s"] / other["jobs_s"] for one, other in zip(ours, bare))
    say(f"{TRUE}, {AT_ONCE} at once: {ours[-1]['jobs_s']:,.0f} jobs/s, {pace:.2f} of a loop that starts one after the other")
    return [{"spawn_loop": bare, "ojs_init": ours, "pace": round(pace, 3)}]


def memory(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    rows = []
    with Scene(programs) as scene:
        backend = scene.backend("--max-jobs", str(2 * MARKS[-1]))
        process = start(scene, backend)
        done = 0
        for mark in MARKS:
            backend.enqueue(mark - done)
            done = mark
            deadline = time.monotonic() + PATIENCE
            while backend.completed() < mark and time.monotonic() < deadline:
                time.sleep(0.1)
            time.sleep(SETTLE)
            row: Dict[str, Any] = {"jobs": backend.completed()}
            for name, pid in (("init", process.pid), ("runner", runner(scene, process.pid))):
                row[name] = {**proc.memory_kib(pid), "peak": proc.peak_kib(pid)}
            rows.append(row)
            say(f"after {row['jobs']} jobs: {row['init']['resident']} KiB, the runner {row['runner']['resident']} KiB")
    return rows


def spawn_loop(programs: Programs) -> Dict[str, Any]:
    command = [str(Path(programs.bare_loop).with_name("spawn-loop")), "--seconds", str(SECONDS), "--command", TRUE]
    came = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    count, nanoseconds = (int(word) for word in came.stdout.split())
    return {"jobs": count, "jobs_s": round(count / nanoseconds * 1e9, 1)}


def start(scene: Scene, backend: Any) -> "subprocess.Popen[bytes]":
    process = scene.start(
        [scene.programs.init, "--mode", "exec", "--", TRUE],
        OJS_URL=f"http://{backend.address}",
        OJS_CONCURRENCY=str(AT_ONCE),
        OJS_RUNTIME_DIR=str(scene.place / "run"),
        OJS_HEALTH_LISTEN="127.0.0.1:0",
        OJS_TERMINATION_GRACE_PERIOD="30s",
    )
    scene.until("the runner to register", lambda: backend.workers() == 1)
    return process


def runner(scene: Scene, pid: int) -> int:
    """The process that starts the jobs."""
    children = lambda: Path(f"/proc/{pid}/task/{pid}/children").read_text().split()  # noqa: E731
    return int(scene.until("the runner", children)[0])


def jobs(programs: Programs) -> Dict[str, Any]:
    with Scene(programs) as scene:
        backend = scene.backend("--max-jobs", str(2 * JOBS))
        process = start(scene, backend)
        its_runner = runner(scene, process.pid)
        backend.enqueue(JOBS)
        scene.until("the first jobs", lambda: backend.completed() >= WARM_UP)
        costs = lambda: [proc.cpu_seconds(pid) for pid in (process.pid, its_runner)]  # noqa: E731
        began, first, before = time.monotonic(), backend.completed(), costs()
        time.sleep(SECONDS)
        seconds, count, after = time.monotonic() - began, backend.completed() - first, costs()
        if count == 0 or first + count >= JOBS:
            raise Failed(f"{count} jobs within {seconds:.1f} s\n{scene.log()}")
        init, its = ((now - then) / count * 1e6 for now, then in zip(after, before))
        return {"jobs": count, "jobs_s": round(count / seconds, 1), "init_us": round(init, 1), "runner_us": round(its, 1)}
