"""A fleet at rest and at an even rate of jobs: FETCHes for each job, pick-up, and who gets the jobs."""

import time
from typing import Any, Dict, List, Optional, Tuple

from fleet.record import Record
from fleet.scene import Fleet, fleet
from latency import spread
from part import Say, Wishes
from processes import Programs

# Time after a start or after work until a fleet is at rest, and how long it is watched, in seconds.
SETTLE = 3.0
IDLE_SECONDS = 20.0

# Time until the pause between two polls has grown to its longest, in seconds: 1, 2, 4 and 8.
POLLS_SETTLE = 16.0

# Jobs a second, and how many of them are counted. Fewer than a hundred have no p99.
RATES = ((0.1, 6), (1, 40), (5, 150), (50, 1_000), (500, 7_500))

# Jobs that are not counted, so many a second or as many as the row has: the first ones show a worker
# that the event stream works.
WARM_UP_JOBS = 10
WARM_UP_RATE = 5.0
WARM_UP_SECONDS = 2.0

# Rate and jobs where only one rate is measured.
RATE, JOBS = 5.0, 100

# Sizes of the fleet for the picture.
SIZES = (10, 30, 100, 300)

# Jobs of a worker that is alone, and their rate.
ALONE_JOBS, ALONE_RATE = 100, 0.7

# How late a slow backend answers, and what it answers late: not the enqueues of this program.
SLOW_MS = 200
OF_WORKERS = ("register", "heartbeat", "fetch", "ack", "nack", "events", "deregister")


def idle(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    with fleet(programs, wishes.workers) as those:
        at_rest(those)
        time.sleep(POLLS_SETTLE)
        begin = those.mark()
        time.sleep(IDLE_SECONDS)
        record = those.record(begin, those.mark())
        private_mib = those.private_mib()
    each = {name: round(record.a_second(name) / wishes.workers, 3) for name in ("fetch", "heartbeat")}
    row = {"workers": wishes.workers, "seconds": round(record.seconds, 1), **each}
    row.update(private_mib=private_mib, load=record.load)
    say(
        f"idle: {each['fetch']} FETCHes and {each['heartbeat']} heartbeats a second of each of {wishes.workers} workers, "
        f"{private_mib} MiB of all that is theirs alone"
    )
    return [row]


def rates(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    return [at_a_rate(programs, wishes.workers, rate, jobs, say) for rate, jobs in RATES]


def alone(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    return [at_a_rate(programs, 1, ALONE_RATE, ALONE_JOBS, say)]


def slow(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    row = at_a_rate(programs, wishes.workers, RATE, JOBS, say, SLOW_MS)
    return [{**row, "delay_ms": SLOW_MS}]


def sizes(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    return [at_a_rate(programs, workers, RATE, JOBS, say) for workers in SIZES]


def at_rest(those: Fleet) -> None:
    those.open_the_gate()
    those.is_registered()
    time.sleep(SETTLE)


def at_a_rate(programs: Programs, workers: int, rate: float, jobs: int, say: Say, delay_ms: Optional[int] = None) -> Dict[str, Any]:
    with fleet(programs, workers) as those:
        at_rest(those)
        if delay_ms:
            those.faults(OF_WORKERS, fault="late_reply", delay_ms=delay_ms)
        first = warm_up(those, rate)
        woken = those.wakeups()
        begin = those.mark()
        those.feed(rate, jobs)
        those.is_done(first + jobs)
        record = those.record(begin, those.mark())
        woken = those.wakeups() - woken
        waits = pick_ups(those, record)
    row = figures(record, workers, rate, waits)
    row["fetches"]["woken"] = woken
    say(
        f"{workers} workers, {rate:g} jobs/s: {row['fetches']['all'] / jobs:,.1f} FETCHes a job, {woken / jobs:,.1f} of them woken; "
        f"pick-up {row['pick_up_ms']['median']} ms, p99 {row['pick_up_ms']['p99']} ms; processors {record.load}"
    )
    return row


def warm_up(those: Fleet, rate: float) -> int:
    """Jobs that are not counted; gives how many."""
    rate = max(rate, WARM_UP_RATE)
    jobs = max(WARM_UP_JOBS, round(rate * WARM_UP_SECONDS))
    those.feed(rate, jobs)
    those.is_done(jobs)
    time.sleep(SETTLE)
    return jobs


def pick_ups(those: Fleet, record: Record) -> List[float]:
    """From the answer to an enqueue until the job was in a worker's hands, in milliseconds."""
    started, stamps = those.backend.started_ns(), those.stamps()
    enqueued = record.enqueued().items()
    return [(stamps[job][0][0] - started) / 1e6 - answered for job, answered in enqueued]


def figures(record: Record, workers: int, rate: float, waits: List[float]) -> Dict[str, Any]:
    count, busiest = len(waits), max(record.jobs_of_workers().values())
    return {
        "workers": workers,
        "rate": rate,
        "jobs": count,
        "seconds": round(record.seconds, 1),
        "jobs_s": round(achieved(record), 1),
        "fetches": record.fetches(),
        "pick_up_ms": spread(waits),
        "busiest": busiest,
        "busiest_over_mean": round(busiest / (count / workers), 1),
        "load": record.load,
    }


def achieved(record: Record) -> float:
    """Jobs a second that were really enqueued."""
    moments: Tuple[float, ...] = tuple(record.enqueued().values())
    seconds = (max(moments) - min(moments)) / 1e3
    return (len(moments) - 1) / seconds
