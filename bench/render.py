"""docs/benchmarks.md and docs/endurance.md: each table shows the last run that had its part."""

import re
import statistics
import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import throughput
from fleet import tables as fleet
from gateway import middle
from soak import tables as soak
from table import table

# Longest line of a page, in characters.
WIDTH = 100

# Programs beside `make bench` whose parts have a prefix, each with the page of its figures.
PAGES = {"fleet-": "benchmarks.md", "soak-": "endurance.md"}


def write(root: Path, run: Dict[str, Any], part: str) -> None:
    """Puts the figures of a part into its page. The page's words are its own: only origin and table are replaced."""
    tables: Dict[str, Callable[[List[Any]], List[str]]] = {
        "cpu": cpu,
        "way": way,
        "pickup": pickup,
        "end": end,
        "idle": idle,
        "memory": memory,
        "gateway": gateway,
        "exec": exec_,
        "exec-memory": exec_memory,
        "clients": clients,
        "init": init,
        "recycling": recycling,
        "leak": leak,
        **fleet.TABLES,
        **soak.TABLES,
    }
    prefix = next((prefix for prefix in PAGES if part.startswith(prefix)), "")
    page = root / "docs" / PAGES.get(prefix, "benchmarks.md")
    rows = tables[part](run["parts"][part]["rows"])
    page.write_text(with_figures(page, prefix, part, origin(run, part), rows))


def with_figures(page: Path, prefix: str, part: str, origin: str, rows: List[str]) -> str:
    """The page with this origin and this table in the section of that part, which begins with the command."""
    text = page.read_text()
    command = f"`make {prefix.rstrip('-') or 'bench'} ARGS='--only {part.removeprefix(prefix)}'`, "
    shape = re.compile(re.escape(command) + r".+?\n\n(?P<words>.*?)(?P<table>^\|(?:[^\n]*\n\|)*[^\n]*$)", re.S | re.M)
    lines = textwrap.wrap(command + origin, WIDTH, break_on_hyphens=False, break_long_words=False)
    section = lambda found: "\n".join(lines) + "\n\n" + found["words"] + "\n".join(rows)  # noqa: E731
    text, sections = shape.subn(section, text)
    if sections != 1:
        raise SystemExit(f"{page}: add a section for '{part}': a line that begins with {command!r}, and a table")
    return text


def origin(run: Dict[str, Any], part: str) -> str:
    machine = run["machine"]
    seconds = run["parts"][part]["seconds"]
    binary = f"{run['version']} at {run['revision']}{'' if run['is_clean'] else ' with changes'}"
    bytes_ = f"{run['binary_bytes']:,} bytes"
    where = f"{machine['processors']} x {machine['model']}, Linux {machine['kernel']}"
    return f"{run['at'][:10]}, {binary}, {bytes_}; {where}; {seconds} s, load before {run['parts'][part]['load_before']}."


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
        for who, name in (("ojs_init", "ojs-init"), ("bare_loop", "bare loop"), ("batches", "bare loop, batches")):
            # Older runs have no batches.
            if who not in row:
                continue
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


def leak(rows: List[Any]) -> List[str]:
    head = ["mode", "jobs/s", "done", "lost", "doubled", "failed", "recycled", "peak, MiB", "killed for want of memory"]
    names = ("done", "lost", "doubled", "failed", "recycled", "peak_mib", "oom_kills")
    return table(head, [[row["mode"], f"{row['done'] / row['seconds']:,.0f}", *(f"{row[name]:,}" for name in names)] for row in rows])


def recycling(rows: List[Any]) -> List[str]:
    head = ["mode", "jobs/s", "done", "lost", "doubled", "failed", "registered", "recycled", "capacity", "gaps", "median, s", "longest", "most away"]
    lines = []
    length = lambda seconds: "-" if seconds is None else f"{seconds:.1f}"  # noqa: E731
    for row in rows:
        counts = [f"{row[name]:,}" for name in ("done", "lost", "doubled", "failed", "registered", "recycled")]
        times = [f"{row['share']:.0%}", f"{row['gaps']:,}", *(length(row[name]) for name in ("median_s", "longest_s")), f"{row['most_away']} of {row['containers']}"]
        lines.append([row["mode"], f"{row['done'] / row['seconds']:,.0f}", *counts, *times])
    return table(head, lines)


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
