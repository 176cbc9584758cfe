"""A fleet when everything happens at once: a mass start, a mass SIGTERM, a backend that comes back or sheds load."""

import os
import signal
import time
from collections import Counter
from typing import Any, Dict, List, Set, Tuple

from fleet.record import Record
from fleet.scene import Fleet, Mark, fleet
from fleet.steady import JOBS, RATE, at_rest
from part import Say, Wishes
from processes import Backend, Failed, Programs

# How long a fleet is watched: after its start, before an outage, and after all have had an answer.
START_SECONDS = 15.0
STEADY_SECONDS = 10.0
AFTERMATH_SECONDS = 5.0

# How long the backend is away, and the longest time until each worker has had an answer, in seconds.
OUTAGES = (5, 15, 60)
RETURN_PATIENCE = 90.0

# A mass SIGTERM: slots of each worker, how long a job takes, and jobs for each slot.
SLOTS, HELD_MS, ROUNDS = 2, 500, 6

# Longest time from a SIGTERM to the exit: the limit that each ojs-init has, in seconds.
LIMIT = 30.0

# Time for a FETCH that was on its way when the SIGTERM came, in milliseconds.
ON_ITS_WAY_MS = 100.0

# How load is shed: each third request, as the status says, with the seconds of Retry-After.
SHED_EVERY = 3
SHED = ((429, 2), (503, 3))
SHED_OPERATIONS = ("fetch", "heartbeat", "ack")

# Pause between two looks, in seconds.
LOOK_EVERY = 0.05


def start(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    with fleet(programs, wishes.workers) as those:
        begin = those.mark()
        those.open_the_gate()
        those.is_registered()
        time.sleep(START_SECONDS)
        record = those.record(begin, those.mark())
    registered = [event["ms"] for event in record.of("register") if is_accepted(event)]
    peak = record.peak(1_000)
    row = {
        "workers": wishes.workers,
        "peak_1s": peak,
        "peak_100ms": record.peak(100),
        "registered_s": round((max(registered) - begin.ms) / 1e3, 2),
        "requests": len(record.arrivals()),
        "load": record.load,
    }
    say(f"start: {peak} requests within a second at most, all registered after {row['registered_s']} s")
    return [row]


def stop(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    with fleet(programs, wishes.workers, SLOTS, HELD_MS) as those:
        at_rest(those)
        at_once = wishes.workers * SLOTS
        those.backend.enqueue(at_once * ROUNDS)
        those.is_done(at_once * 2)
        begin = those.mark()
        for init in those.inits:
            init.send_signal(signal.SIGTERM)
        told_ms = begin.ms + (time.monotonic() - begin.wall) * 1e3
        exits = ends(those)
        record = those.record(begin, those.mark())
        statuses = Counter(init.returncode for init in those.inits)
        row = {
            "workers": wishes.workers,
            "told_ms": round(told_ms - begin.ms, 1),
            **last_requests(record, begin.ms, told_ms),
            "last_exit_s": round(max(exits) - begin.wall, 2),
            "statuses": {str(status): count for status, count in statuses.items()},
            "jobs": accounts(those, at_once * ROUNDS),
            # The kernel no longer knows what processes used that have ended.
            "load": {name: record.load[name] for name in ("server", "machine")},
        }
    say(
        f"stop: last FETCH after {row['last_fetch_ms']} ms, last exit after {row['last_exit_s']} s with {row['statuses']}; "
        f"{row['deregistered']} deregistered; jobs {row['jobs']}"
    )
    return [row]


def ends(those: Fleet) -> List[float]:
    """Waits for all exits; gives when each was seen."""
    deadline = time.monotonic() + LIMIT + STEADY_SECONDS
    left, seen = list(those.inits), []
    while left:
        if time.monotonic() > deadline:
            raise Failed(f"{len(left)} ojs-init are still there {LIMIT + STEADY_SECONDS:.0f} s after SIGTERM")
        gone = [init for init in left if init.poll() is not None]
        seen += [time.monotonic()] * len(gone)
        left = [init for init in left if init.returncode is None]
        time.sleep(LOOK_EVERY)
    return seen


def last_requests(record: Record, since_ms: float, told_ms: float) -> Dict[str, Any]:
    """The FETCHes after the SIGTERMs, and the deregistrations."""
    fetches = [event["arrived_ms"] for event in record.of("fetch")]
    deregistered = [event["ms"] for event in record.of("deregister") if is_accepted(event)]
    return {
        "last_fetch_ms": round(max(fetches, default=since_ms) - since_ms, 1),
        "late_fetches": sum(arrived > told_ms + ON_ITS_WAY_MS for arrived in fetches),
        "deregistered": len(deregistered),
        "last_deregister_s": round((max(deregistered, default=since_ms) - since_ms) / 1e3, 2),
        "peak_1s": record.peak(1_000),
    }


def accounts(those: Fleet, enqueued: int) -> Dict[str, int]:
    """What became of the jobs: what the server says, and what the workers have noted."""
    counts = those.backend.ask("/ojs/v1/jobs?limit=1")["counts"]
    runs = those.stamps()
    answered = sum(any(answered for _, answered in found) for found in runs.values())
    return {
        "enqueued": enqueued,
        "completed": counts.get("completed", 0),
        "available": counts.get("available", 0),
        "lost": enqueued - counts.get("completed", 0) - counts.get("available", 0),
        "twice": sum(len(found) > 1 for found in runs.values()),
        "answered": answered,
    }


def away(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    return [outage(programs, wishes.workers, seconds, say) for seconds in OUTAGES]


def outage(programs: Programs, workers: int, seconds: int, say: Say) -> Dict[str, Any]:
    with fleet(programs, workers) as those:
        at_rest(those)
        begin = those.mark()
        time.sleep(STEADY_SECONDS)
        gone = those.mark()
        those.backend.fault(fault="refuse", for_ms=seconds * 1_000)
        time.sleep(seconds)
        answered_by_all(those, come_back(those))
        time.sleep(AFTERMATH_SECONDS)
        steady = those.record(begin, gone)
        after = those.record(gone, those.mark())
    back_ms = max(event["ms"] for event in after.of("listening"))
    steady_s = len(steady.arrivals()) / steady.seconds
    answers = first_answers(after, back_ms)
    peak, burst = after.peak(1_000, back_ms), after.peak(100, back_ms)
    row = {
        "workers": workers,
        "away_s": seconds,
        "steady_s": round(steady_s),
        "peak_1s": peak,
        "peak_1s_over_steady": round(peak / steady_s, 1),
        "peak_100ms": burst,
        "peak_100ms_over_steady": round(burst / (steady_s / 10), 1),
        "answered": len(answers),
        "all_answered_s": round((max(answers.values(), default=back_ms) - back_ms) / 1e3, 1),
        "load": after.load,
    }
    say(
        f"away for {seconds} s: {peak} requests in the worst second, {row['peak_1s_over_steady']} times the {steady_s:.0f} before; "
        f"{burst} in 100 ms; {len(answers)} of {workers} answered within {row['all_answered_s']} s"
    )
    return row


def come_back(those: Fleet) -> Mark:
    """Waits until the server can be reached again; gives when that was."""
    deadline = time.monotonic() + RETURN_PATIENCE
    while True:
        try:
            those.backend = Backend(those.backend.address)
            return those.mark()
        except OSError as error:
            if time.monotonic() > deadline:
                raise Failed("the development server has not opened its port again") from error
            time.sleep(LOOK_EVERY)


def answered_by_all(those: Fleet, since: Mark) -> None:
    """Waits until each worker has had an answer, or for as long as is worth it."""
    deadline = time.monotonic() + RETURN_PATIENCE
    seen: Set[str] = set()
    while len(seen) < those.workers and time.monotonic() < deadline:
        now = those.mark()
        seen |= set(first_answers(those.record(since, now), since.ms))
        since = now
        time.sleep(LOOK_EVERY * 4)


def first_answers(record: Record, since_ms: float) -> Dict[str, float]:
    """When each worker got the first answer that is no refusal."""
    first: Dict[str, float] = {}
    for event in record.events:
        if "worker" in event and is_accepted(event) and event["ms"] >= since_ms:
            first.setdefault(event["worker"], event["ms"])
    return first


def is_accepted(event: Dict[str, Any]) -> bool:
    return 200 <= event.get("status", 0) < 300


def shed(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    with fleet(programs, wishes.workers) as those:
        at_rest(those)
        begin = those.mark()
        for status, seconds in SHED:
            those.faults(SHED_OPERATIONS, fault="status", status=status, retry_after=str(seconds), every=SHED_EVERY)
        those.feed(RATE, JOBS)
        those.is_done(JOBS)
        record = those.record(begin, those.mark())
    row: Dict[str, Any] = {"workers": wishes.workers, "rate": RATE, "jobs": JOBS, "fetches": record.fetches(), "load": record.load}
    row["refused"] = {operation: margins(record, operation) for operation in SHED_OPERATIONS}
    say(f"shed: {row['fetches']['all'] / JOBS:.1f} FETCHes a job; {row['refused']}")
    return [row]


def margins(record: Record, operation: str) -> Dict[str, Any]:
    """How much later than it was told to each refused request came again, in milliseconds."""
    told: Dict[Any, Tuple[float, int]] = {}
    refused, later = 0, []
    pauses = dict(SHED)
    for event in sorted(record.of(operation), key=lambda event: event["arrived_ms"]):
        who = event["jobs"][0] if operation == "ack" else event["worker"]
        if who in told:
            when, pause = told.pop(who)
            later.append(event["arrived_ms"] - when - pause * 1e3)
        if event.get("status") in pauses:
            refused += 1
            told[who] = (event["ms"], pauses[event["status"]])
    return {
        "refused": refused,
        "again": len(later),
        "sooner": sum(margin < 0 for margin in later),
        "earliest_ms": round(min(later, default=0.0), 1),
    }
