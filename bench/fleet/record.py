"""The server's record of a measurement, and the figures that follow from it."""

from collections import Counter
from typing import Any, Dict, List, Sequence

# Idle polls are at least so far apart: the poll interval, less a quarter.
POLL_MS = 750.0


class Record:
    """The events between two moments of the server's clock, and the processors that were busy."""

    def __init__(self, events: List[Dict[str, Any]], begin_ms: float, end_ms: float, load: Dict[str, float]) -> None:
        self.events = events
        self.begin_ms = begin_ms
        self.end_ms = end_ms
        self.load = load

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.begin_ms) / 1e3

    def of(self, *operations: str) -> List[Dict[str, Any]]:
        return [event for event in self.events if event["operation"] in operations]

    def a_second(self, operation: str) -> float:
        return len(self.of(operation)) / self.seconds

    def fetches(self) -> Dict[str, int]:
        """The FETCHes by what came before them: `next` follows one that brought a job, `early` comes
        sooner after an empty one than a poll, `poll` is any other."""
        kinds = {"all": 0, "with_jobs": 0, "next": 0, "early": 0, "poll": 0}
        before: Dict[str, Dict[str, Any]] = {}
        for event in sorted(self.of("fetch"), key=lambda event: event["arrived_ms"]):
            kinds["all"] += 1
            kinds["with_jobs"] += bool(event.get("jobs"))
            last = before.get(event["worker"])
            if last and last.get("jobs"):
                kinds["next"] += 1
            elif last and event["arrived_ms"] - last["ms"] < POLL_MS:
                kinds["early"] += 1
            else:
                kinds["poll"] += 1
            before[event["worker"]] = event
        return kinds

    def enqueued(self) -> Dict[str, float]:
        """When each job was taken in, in milliseconds."""
        return {job: event["ms"] for event in self.of("enqueue") for job in event.get("jobs", [])}

    def jobs_of_workers(self) -> "Counter[str]":
        """How many jobs each worker got."""
        jobs: "Counter[str]" = Counter()
        for event in self.of("fetch"):
            jobs[event["worker"]] += len(event.get("jobs", []))
        return jobs

    def peak(self, step_ms: float, since_ms: float = 0.0) -> int:
        """Most requests that arrived within any step of that length."""
        return most_within(self.arrivals(since_ms), step_ms)

    def arrivals(self, since_ms: float = 0.0) -> List[float]:
        """When each request of a worker arrived, in order."""
        return sorted(event["arrived_ms"] for event in self.events if is_of_a_worker(event) and event["arrived_ms"] >= since_ms)


def is_of_a_worker(event: Dict[str, Any]) -> bool:
    """Whether it is a request of an ojs-init, and not one of this program or an act of the server."""
    is_ours = event["operation"] in ("enqueue", "admin") or event.get("request", "").endswith("/stats")
    return "arrived_ms" in event and not is_ours


def most_within(moments: Sequence[float], step: float) -> int:
    """Most of these ordered moments that lie within one step."""
    most = first = 0
    for last, moment in enumerate(moments):
        while moment - moments[first] >= step:
            first += 1
        most = max(most, last + 1 - first)
    return most
