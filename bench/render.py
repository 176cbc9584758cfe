"""docs/benchmarks.md, from the runs that were kept: each table shows the newest run that has its part."""

import json
import statistics
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import throughput
from gateway import middle

INTRODUCTION = """# Benchmarks

Rendered by `make bench` from `bench/runs/`, where the raw figures of each run are. Times differ from machine to machine and,
where others work on the same one, from minute to minute: what is compared was measured in turns within one run, and the
ratios are what counts. Who is better than ojs-init at something stays in the table.

The **bare loop** is the least that a worker's HTTP can cost: a Rust program of the standard library alone (https: rustls), as
many threads as jobs at once, one kept connection each, FETCH with count 1, ACK, and nothing else: no heartbeats, no retries,
no worker of its own behind it. Behind ojs-init is an **echo worker**, which is done with each job at once and, as the clients do, asks for no `ok`; its own
cost is not counted. ojs-init has its default settings, so it writes a record of each job to its log, here a file. The backend is the
development server in release form, which has one thread.
"""

CPU_NOTE = """`CPU` is the processor time of ojs-init's process for each job. `pace` is its jobs/s over the bare loop's: with two
processors the echo worker, the server and ojs-init share them. `name` is http to `localhost` instead of an address, `https`
also goes to `localhost`. Medians of the rounds; threads and peak memory: the most of any.
"""

WAY_NOTE = """Dispatch: from the moment the server has FETCH's answer ready until the worker has read the frame. Report: from
the moment the worker is about to write its answer until the server has read the ACK's head. For the bare loop, which is its own
worker, the same without anything between. With many at once most of it is waiting for processors.
"""

PICKUP_NOTE = """From the enqueue's answer until the worker has the job, when nothing else is to be done. Everybody polls once a
second; with `OJS_WAKE=auto` ojs-init listens to the backend's events where it has them and the version knows how.
"""

MEMORY_NOTE = """Private is what each process has for itself (written to); the rest are pages of the file, which all containers of one
image on a machine share.
"""

GATEWAY_NOTE = """500 requests a second over 10 connections, in turns of half a second all to the backend itself, all through a bare relay and all through
the gateway, from the same program, in Python. The time of a request counts from when it was due. The **bare relay** shows about the least that a process in between can cost: a
Rust program of the standard library alone, with a waiting thread and a kept connection to the backend for each client, which reads,
writes, reads, writes. It looks nobody up, adds nothing, and knows of HTTP only where an answer ends and whether another request follows.

`fresh` is a new connection for each request: the gateway looks its owner up. In the last rows ojs-init itself has a tenth of a
processor, a tenth of each 100 ms (100m in the words of Kubernetes); the others have no limit. Dapr publishes 1.40 ms more at p90 and
2.10 ms at p99 for its two sidecars at 1,000 requests a second (its documentation, "service invocation performance").
"""

EXEC_NOTE = """`/bin/true` as the handler, 10 jobs at once, in turns with a loop that starts `/bin/true` and waits for its end, one after the
other (`bench/src/bin/spawn_loop.rs`). `pace` is ojs-init's jobs/s over the loop's processes/s, the backend and the reports included.
"""

CLIENTS_NOTE = """Jobs whose handler does nothing, 10 at once, in turns with a loop over HTTP in the same language that fetches and acknowledges
(`bare_loop` in each client's `client.json`): it has no heartbeats, no deadlines, no log and no shutdown. `pace` is the client's jobs/s,
ojs-init and its socket included, over the loop's, in the middle of seven turns; `asked` is the least that we want. Runs differ by what else the machine does, and
where jobs pass through three programs that counts more than where they pass through two: PHP's pace was 0.64, 0.70 and 0.76 in three runs of one hour.
"""

INIT_NOTE = """As process 1, medians; times in microseconds. From `tests/conformance`, which says what each line means.
"""


def write(root: Path, runs: Path) -> None:
    found = [json.loads(path.read_text()) for path in sorted(runs.glob("*.json"))]
    found.sort(key=lambda run: run["at"])
    tables: List[Tuple[str, str, str, Callable[[List[Any]], List[str]]]] = [
        ("cpu", "What a job costs", CPU_NOTE, cpu),
        ("way", "On the way", WAY_NOTE, way),
        ("pickup", "Idle pick-up", PICKUP_NOTE, pickup),
        ("end", "From the last answer to the exit", "", end),
        ("idle", "Idle", MEMORY_NOTE, idle),
        ("memory", "Memory", "", memory),
        ("gateway", "Through the gateway", GATEWAY_NOTE, gateway),
        ("exec", "A process for each job", EXEC_NOTE, exec_),
        ("exec-memory", "Memory in mode exec", "", exec_memory),
        ("clients", "Through a client", CLIENTS_NOTE, clients),
        ("init", "As an init", INIT_NOTE, init),
    ]
    page = [INTRODUCTION]
    for part, heading, note, rows in tables:
        run = next((run for run in reversed(found) if part in run["parts"]), None)
        if run:
            page.append(f"## {heading}\n\n`make bench ARGS='--only {part}'`, {origin(run, part)}\n")
            if note:
                page.append(note)
            page.append("\n".join(rows(run["parts"][part]["rows"])) + "\n")
    (root / "docs" / "benchmarks.md").write_text("\n".join(page))


def origin(run: Dict[str, Any], part: str) -> str:
    machine = run["machine"]
    seconds = run["parts"][part]["seconds"]
    binary = f"{run['version']} at {run['revision']}{'' if run['is_clean'] else ' with changes'}"
    bytes_ = f"{run['binary_bytes']:,} bytes"
    where = f"{machine['processors']} x {machine['model']}, Linux {machine['kernel']}"
    return f"{run['at'][:10]}, {binary}, {bytes_}; {where}; {seconds} s, load before {run['parts'][part]['load_before']}."


def table(head: List[str], rows: List[List[str]]) -> List[str]:
    cells = lambda row: "| " + " | ".join(row) + " |"  # noqa: E731
    return [cells(head), "|" + "---|" * len(head), *(cells(row) for row in rows)]


def cpu(rows: List[Any]) -> List[str]:
    head = ["jobs at once", "connections", "by", "envelope", "CPU, us a job", "bare loop", "times", "jobs/s", "bare loop"]
    lines = []
    for row in rows:
        figures = throughput.summary(row)
        lines.append(
            [
                f"{row['jobs']:,}",
                str(row["connections"]),
                row["scheme"],
                "1 MiB" if row["is_large"] else "small",
                f"{figures['cpu_us']:,.0f}",
                f"{figures['bare_cpu_us']:,.0f}",
                f"{figures['times']:.1f}",
                f"{figures['jobs_s']:,.0f}",
                f"{figures['bare_jobs_s']:,.0f}",
                f"{figures['pace']:.2f}",
                str(figures["threads"]),
                f"{figures['peak_kib'] / 1024:.1f} MiB",
            ]
        )
    return table([*head, "pace", "threads", "peak memory"], lines)


def way(rows: List[Any]) -> List[str]:
    lines = []
    for row in rows:
        for who, name in (("ojs_init", "ojs-init"), ("bare_loop", "bare loop")):
            best = sorted(row[who], key=lambda one: one["dispatch_us"]["median"])[len(row[who]) // 2]
            line = [str(row["jobs"]), name]
            for what in ("dispatch_us", "report_us"):
                line += [f"{best[what][part]:,.0f}" for part in ("median", "p90", "p99")]
            lines.append(line)
    head = ["jobs at once", "who", "dispatch, us: median", "p90", "p99", "report, us: median", "p90", "p99"]
    return table(head, lines)


def pickup(rows: List[Any]) -> List[str]:
    lines = []
    for row in rows:
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        name = {"ojs_init": f"ojs-init, `{settings}`", "bare_loop": "bare loop"}[row["who"]]
        lines.append([name, *(f"{row['pick_up_ms'][part]:,.1f}" for part in ("median", "p90"))])
    return table(["who", "pick-up, ms: median", "p90"], lines)


def end(rows: List[Any]) -> List[str]:
    lines = [[f"{row['exit_ms'][part]:.1f}" for part in ("median", "p90")] for row in rows]
    return table(["last ACK's answer to exit, ms: median", "p90"], lines)


def idle(rows: List[Any]) -> List[str]:
    lines = [
        [
            row["scheme"],
            f"{row['wakeups_a_minute']:,.0f}",
            f"{row['cpu_us_a_minute'] / 1000:,.1f}",
            str(row["threads"]),
            f"{row['resident']:,}",
            f"{row['private']:,}",
        ]
        for row in rows
    ]
    head = ["by", "wakeups a minute", "CPU, ms a minute", "threads", "resident, KiB", "of it private, KiB"]
    return table(head, lines)


def memory(rows: List[Any]) -> List[str]:
    lines = [[f"{row['jobs']:,}", *(f"{row[what]:,}" for what in ("resident", "private", "peak"))] for row in rows]
    return table(["jobs done, 100 at once", "resident, KiB", "of it private, KiB", "peak, KiB"], lines)


def init(rows: List[Any]) -> List[str]:
    names = [name for name in rows[0] if name != "figure"]
    show: Callable[[Optional[float]], str] = lambda value: "-" if value is None else f"{value:,.10g}"  # noqa: E731
    return table(["figure", *names], [[row["figure"], *(show(row[name]) for name in names)] for row in rows])


def exec_(rows: List[Any]) -> List[str]:
    row = rows[0]
    middle = lambda who, what: statistics.median(one[what] for one in row[who])  # noqa: E731
    line = [
        f"{middle('ojs_init', 'jobs_s'):,.0f}",
        f"{middle('spawn_loop', 'jobs_s'):,.0f}",
        f"{row['pace']:.2f}",
        f"{middle('ojs_init', 'init_us'):,.0f}",
        f"{middle('ojs_init', 'runner_us'):,.0f}",
    ]
    return table(["jobs/s", "loop", "pace", "PID 1, us a job", "runner, us a job"], [line])


def clients(rows: List[Any]) -> List[str]:
    middle = lambda values: f"{statistics.median(values):,.0f}"  # noqa: E731
    lines = [
        [row["client"], middle(row["ojs_init"]), middle(row["bare_loop"]), f"{row['pace']:.2f}", f"{row['asked']:.1f}"]
        for row in rows
    ]
    return table(["client", "jobs/s", "loop", "pace", "asked"], lines)


def exec_memory(rows: List[Any]) -> List[str]:
    lines = []
    for row in rows:
        sizes = (f"{row[who][what]:,}" for who in ("init", "runner") for what in ("resident", "private", "peak"))
        lines.append([f"{row['jobs']:,}", *sizes])
    head = ["jobs done, 10 at once", "PID 1: resident, KiB", "private", "peak", "runner: resident, KiB", "private", "peak"]
    return table(head, lines)


def gateway(rows: List[Any]) -> List[str]:
    names = {"direct": "direct", "bare_relay": "bare relay", "gateway": "gateway"}
    parts = ("median", "p90", "p99")
    lines = []
    for row in rows:
        one = middle(row["rounds"])
        # Runs from before there was a bare relay have none.
        ways = [way for way in ("direct", "bare_relay", "gateway") if way in one]
        for way in ways:
            lines.append([row["kind"], names[way], *(f"{one[way][part]:,.0f}" for part in parts)])
        for way, other in (("gateway", "direct"), ("bare_relay", "direct"), ("gateway", "bare_relay")):
            if way in ways and other in ways:
                more = (f"{one[way][part] - one[other][part]:+,.0f}" for part in parts)
                lines.append([row["kind"], f"{names[way]} over {names[other]}", *more])
    return table(["connections", "way", "us: median", "p90", "p99"], lines)
