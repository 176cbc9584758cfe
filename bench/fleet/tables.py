"""The tables of docs/benchmarks.md about a fleet."""

from typing import Any, Callable, Dict, List

from table import table

# Fewer jobs have no p99, and too few for each worker say nothing about who gets them.
P99_JOBS = 100

# Share of the machine's processors from which on a row is marked: what is measured then is the machine.
SATURATED = 0.95

# Processors of the machine that all runs of the page are from.
PROCESSORS = 2


def idle(rows: List[Any]) -> List[str]:
    lines = [
        [f"{row['workers']}", f"{row['fetch']:.2f}", f"{row['heartbeat']:.2f}", f"{row['private_mib']:,}", load(row)] for row in rows
    ]
    return table(["workers", "FETCHes a second of each", "heartbeats", "memory of all, MiB", LOAD], lines)


def at_a_rate(rows: List[Any]) -> List[str]:
    head = ["workers", "jobs/s", "jobs", "FETCHes a job", "woken", "next", "early", "polls", "pick-up, ms: median", "p99"]
    return table([*head, "busiest worker", "over the mean", LOAD], [one_rate(row) for row in rows])


def one_rate(row: Dict[str, Any]) -> List[str]:
    of = lambda kind: f"{row['fetches'][kind] / row['jobs']:,.1f}"  # noqa: E731
    has_means = row["workers"] > 1 and row["jobs"] >= row["workers"]
    wanted, got = row["rate"], row["jobs_s"]
    rate = f"{wanted:g}" if row["jobs"] < P99_JOBS or got > 0.95 * wanted else f"{got:g} of {wanted:g}"
    return [
        str(row["workers"]),
        rate,
        f"{row['jobs']:,}",
        *(of(kind) for kind in ("all", "woken", "next", "early", "poll")),
        f"{row['pick_up_ms']['median']:,.1f}",
        f"{row['pick_up_ms']['p99']:,.1f}" if row["jobs"] >= P99_JOBS else "-",
        f"{row['busiest']:,}",
        f"{row['busiest_over_mean']:.1f}" if has_means else "-",
        load(row),
    ]


def start(rows: List[Any]) -> List[str]:
    lines = [
        [str(row["workers"]), f"{row['peak_1s']:,}", f"{row['peak_100ms']:,}", f"{row['registered_s']:.1f}", load(row)]
        for row in rows
    ]
    return table(["workers", "requests in the worst second", "in the worst 100 ms", "all registered after, s", LOAD], lines)


def stop(rows: List[Any]) -> List[str]:
    row = rows[0]
    jobs = row["jobs"]
    statuses = ", ".join(f"{count} x {status}" for status, count in row["statuses"].items())
    figures = [
        ("workers, and within how many ms all had SIGTERM", f"{row['workers']} in {row['told_ms']:.0f} ms"),
        ("last FETCH after the first SIGTERM, ms", f"{row['last_fetch_ms']:,.1f}"),
        ("FETCHes later than 100 ms after the last SIGTERM", f"{row['late_fetches']}"),
        ("deregistered", f"{row['deregistered']}"),
        ("last deregister and last exit, s", f"{row['last_deregister_s']:.2f}, {row['last_exit_s']:.2f}"),
        ("exit statuses", statuses),
        ("requests in the worst second", f"{row['peak_1s']:,}"),
        ("jobs: completed, and left for others", f"{jobs['completed']:,} and {jobs['available']:,} of {jobs['enqueued']:,}"),
        ("jobs lost, and run twice", f"{jobs['lost']} and {jobs['twice']}"),
        ("processors: server, and the whole machine", f"{row['load']['server']:.2f}, {row['load']['machine']:.2f}"),
    ]
    return table(["figure", "value"], [list(figure) for figure in figures])


def away(rows: List[Any]) -> List[str]:
    lines = [
        [
            str(row["workers"]),
            f"{row['away_s']}",
            f"{row['steady_s']:,}",
            f"{row['peak_1s']:,}",
            f"{row['peak_1s_over_steady']:.1f}",
            f"{row['peak_100ms']:,}",
            f"{row['peak_100ms_over_steady']:.1f}",
            f"{row['answered']} within {row['all_answered_s']:.1f} s",
            load(row),
        ]
        for row in rows
    ]
    head = ["workers", "away, s", "requests a second before", "in the worst second after", "times"]
    return table([*head, "in the worst 100 ms", "times", "workers that had an answer", LOAD], lines)


def shed(rows: List[Any]) -> List[str]:
    row = rows[0]
    lines = [
        [name, f"{one['refused']:,}", f"{one['again']:,}", f"{one['sooner']:,}", f"{one['earliest_ms']:,.1f}"]
        for name, one in row["refused"].items()
    ]
    return table(["request", "refused", "came again", "sooner than told", "earliest after the time told, ms"], lines)


LOAD = "processors: server, inits, workers, others"


def load(row: Dict[str, Any]) -> str:
    """The processors that each kind of process kept busy; marked where the server or the machine had no more."""
    used = row["load"]
    own = [used["server"], used["inits"], used["workers"]]
    is_full = used["server"] >= SATURATED or used["machine"] >= SATURATED * PROCESSORS
    shares = ", ".join(f"{share:.2f}" for share in [*own, max(0.0, used["machine"] - sum(own))])
    return shares + (" **saturated**" if is_full else "")


TABLES: Dict[str, Callable[[List[Any]], List[str]]] = {
    "fleet-idle": idle,
    "fleet-rates": at_a_rate,
    "fleet-alone": at_a_rate,
    "fleet-sizes": at_a_rate,
    "fleet-start": start,
    "fleet-stop": stop,
    "fleet-away": away,
    "fleet-slow": at_a_rate,
    "fleet-shed": shed,
}
