"""What a job costs and how fast jobs go, beside the bare loop on the same backend, in turns."""

import statistics
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

import proc
from part import Say, Wishes
from processes import Backend, Failed, Programs, Scene

# Bytes of a large job's argument: with the rest of its envelope it stays below the backends' 1 MiB.
LARGE_BYTES = 1_000_000

# How long is measured, in seconds; the jobs before that are not counted. Longer, up to the second figure, until a job is done.
WINDOW = 1.2
LONGEST_WINDOW = 20.0

# Longest time from the first job until each of those at once has had its turn, when what is measured begins; in seconds.
WARM_UP = 3.0

# Longest wait for the first job, in seconds.
PATIENCE = 30.0

# Jobs that are made available: more than are done in that time. Large ones take room.
SMALL_JOBS = 40_000
LARGE_JOBS = 400

# How often the backend is asked how far it is, in seconds.
LOOK_EVERY = 0.02


@dataclass(frozen=True)
class Case:
    """A row: so many jobs at once over so many connections of the worker, reached by that way."""

    jobs: int
    connections: int = 1
    scheme: str = "http"
    is_large: bool = False

    def name(self) -> str:
        size = "1 MiB" if self.is_large else "small"
        return f"{self.jobs} at once, {self.connections} connections, {self.scheme}, {size}"


def cases(wishes: Wishes) -> List[Case]:
    all_of_them = [
        *(Case(jobs) for jobs in (1, 10, 100, 1_000, 10_000)),
        *(Case(jobs, 50) for jobs in (100, 1_000, 10_000)),
        *(Case(jobs, 500) for jobs in (1_000, 10_000)),
        *(Case(jobs, 1, "https") for jobs in (1, 10, 100)),
        *(Case(jobs, 1, "name") for jobs in (1, 10, 100)),
        *(Case(jobs, 1, "http", True) for jobs in (1, 10, 100)),
    ]
    return [case for case in all_of_them if wishes.want(case.jobs)]


def measure(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    rows = []
    for case in cases(wishes):
        bare, ours = [], []
        # In turns: both meet the same noise.
        for _ in range(wishes.rounds):
            bare.append(one(programs, case, is_ours=False))
            ours.append(one(programs, case, is_ours=True))
        row = {**case.__dict__, "bare_loop": bare, "ojs_init": ours}
        rows.append(row)
        figures = summary(row)
        say(
            f"{case.name()}: {figures['cpu_us']:.0f} us a job, bare loop {figures['bare_cpu_us']:.0f}; "
            f"{figures['pace']:.2f} of its jobs/s; {figures['threads']} threads, {figures['peak_kib'] / 1024:.1f} MiB"
        )
    return rows


def one(programs: Programs, case: Case, is_ours: bool) -> Dict[str, Any]:
    """One process on a backend of its own."""
    with Scene(programs) as scene:
        backend = scene.backend()
        way = scene.reached(backend, case.scheme)
        backend.enqueue(LARGE_JOBS if case.is_large else SMALL_JOBS, "x" * LARGE_BYTES if case.is_large else "")
        if is_ours:
            process = scene.init(way, case.jobs, case.connections)
        else:
            process = scene.bare_loop(way, case.jobs)
        try:
            return window(backend, process.pid, case)
        except (FileNotFoundError, OSError, Failed) as error:
            raise Failed(f"{case.name()}: {error}\n{scene.log()}") from error


def window(backend: Backend, pid: int, case: Case) -> Dict[str, Any]:
    """Watches a process from when it is at work until the time is over or few jobs are left."""
    count = LARGE_JOBS if case.is_large else SMALL_JOBS
    is_at_work(backend, 1, PATIENCE)
    if not backend.completed():
        raise Failed(f"no job is done after {PATIENCE:.0f} s")
    is_at_work(backend, max(case.jobs, count // 20), WARM_UP)
    threads = 0
    first = at = sample(backend, pid)
    while at[0] < first[0] + (WINDOW if at[1] > first[1] else LONGEST_WINDOW) and at[1] < 0.95 * count:
        time.sleep(LOOK_EVERY)
        threads = max(threads, proc.threads(pid))
        at = sample(backend, pid)
    seconds, jobs, cpu = (now - then for now, then in zip(at, first))
    if jobs == 0:
        raise Failed(f"no job is done within {seconds:.1f} s")
    return {
        "jobs": jobs,
        "seconds": round(seconds, 4),
        "cpu_us": round(cpu / jobs * 1e6, 2),
        "jobs_s": round(jobs / seconds, 1),
        "threads": threads,
        "peak_kib": proc.peak_kib(pid),
    }


def is_at_work(backend: Backend, done: int, patience: float) -> None:
    """Waits until so many jobs are done, or for so long."""
    deadline = time.monotonic() + patience
    while backend.completed() < done and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY)


def sample(backend: Backend, pid: int) -> Tuple[float, int, float]:
    """The time, how many jobs are done, and the processor time of the process."""
    done = backend.completed()
    return time.monotonic(), done, proc.cpu_seconds(pid)


def summary(row: Dict[str, Any]) -> Dict[str, Any]:
    """The figures of a row: medians, of the pace that of the ratios within each round."""
    ours, bare = row["ojs_init"], row["bare_loop"]
    middle = statistics.median
    return {
        "cpu_us": middle(one["cpu_us"] for one in ours),
        "bare_cpu_us": middle(one["cpu_us"] for one in bare),
        "times": middle(one["cpu_us"] / other["cpu_us"] for one, other in zip(ours, bare)),
        "jobs_s": middle(one["jobs_s"] for one in ours),
        "bare_jobs_s": middle(one["jobs_s"] for one in bare),
        "pace": middle(one["jobs_s"] / other["jobs_s"] for one, other in zip(ours, bare)),
        "threads": max(one["threads"] for one in ours),
        "peak_kib": max(one["peak_kib"] for one in ours),
    }
