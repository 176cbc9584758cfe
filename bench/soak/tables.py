"""The tables of docs/endurance.md."""

from typing import Any, Callable, Dict, List

from table import table

# Words for the figures of one instance.
NAMES = {
    "private_kib": "private memory, KiB",
    "resident_kib": "resident memory, KiB",
    "descriptors": "descriptors",
    "threads": "threads",
    "children": "children",
    "zombies": "zombies",
    "timers": "timers",
    "jobs": "jobs in the table",
    "connections": "connections of workers",
    "requests": "open requests",
    "streams": "event streams",
}


def modes(rows: List[Any]) -> List[str]:
    lines = []
    for row in rows:
        for name, one in row["figures"].items():
            slope = f"{one['slope']:+,.2f} ± {one['error']:,.2f}"
            most = row["most_under_load"].get(name, 0)
            figures = [f"{one['early']:,g}", f"{one['end']:,g}", slope, f"{one['bound']:,g}", f"{most:,}"]
            lines.append([row["mode"], NAMES[name], *figures])
        lines.append([row["mode"], account(row), *[""] * 5])
    head = ["mode", "figure at rest", "at 5 min", "at the end", "slope an hour", "bound", "most under load"]
    return table(head, lines)


def account(row: Dict[str, Any]) -> str:
    jobs = row["jobs"]
    told = f"**{row['minutes']:g} min, {row['instances']} instances, {sum(row['faults'].values()):,} faults"
    if jobs:
        told += f"; jobs: {jobs['enqueued']:,}, lost {jobs.get('lost', 0)}, doubled {jobs.get('doubled', 0)}"
    return told + "**"


def orphans(rows: List[Any]) -> List[str]:
    lines = []
    for row in rows:
        slope = f"{row['slope']['slope']:+.2f} ± {row['slope']['error']:.2f}"
        memory = [f"{row[name]:,}" for name in ("first_private_kib", "private_kib")]
        rest = [str(row[name]) for name in ("zombies", "descriptors", "threads")]
        lines.append([row["who"], f"{row['orphans']:,}", f"{row['a_second']:,}", *memory, slope, *rest])
    head = ["who", "orphans", "a second", "private, KiB: first", "last", "slope for 100,000", "zombies left"]
    return table([*head, "descriptors", "threads"], lines)


def jobs(rows: List[Any]) -> List[str]:
    row = rows[0]
    lines = []
    for name, one in row["figures"].items():
        slope = f"{one['slope']:+.3f} ± {one['error']:.3f}"
        figures = [f"{row[when][name]:,}" for when in ("first", "last", "most")]
        lines.append([NAMES[name], *figures, slope, f"{one['bound']:g}"])
    done = f"{row['completed']:,} done, {row['acknowledged']:,} acknowledged, {row['a_second']:,} a second"
    first = f"after {row['first']['done']:,} jobs"
    return table([done, first, "after the last", "most", "slope for 100,000", "bound"], lines)


def exhaust(rows: List[Any]) -> List[str]:
    lines = []
    for row in rows:
        pairs = [f"{row['before'][name]:,} and {row['after'][name]:,}" for name in ("descriptors", "threads", "private_kib")]
        counts = [f"{row['jobs'].get(name, 0):,}" for name in ("enqueued", "lost", "doubled")]
        lines.append([row["what"], f"{row['held_s']:g}", f"{row['done_meanwhile']:,}", f"{row['again_s']:.1f}", *pairs, *counts])
    head = ["none is left of", "for, s", "jobs done meanwhile", "jobs again after, s", "descriptors before and after", "threads"]
    return table([*head, "private, KiB", "jobs", "lost", "doubled"], lines)


def trials(rows: List[Any]) -> List[str]:
    every = {"mode": "all", **{name: sum(row[name] for row in rows) for name in ("runs", "trials", "broken")}}
    every["first"] = min(row["first"] for row in rows if row["first"])
    every["last"] = max(row["last"] for row in rows)
    lines = [
        [row["mode"], str(row["runs"]), f"{row['trials']:,}", str(row["broken"]), f"{row['first']} to {row['last']}"]
        for row in [*rows, every]
    ]
    return table(["mode", "runs", "trials", "with a broken promise", "from"], lines)


TABLES: Dict[str, Callable[[List[Any]], List[str]]] = {
    "soak-modes": modes,
    "soak-orphans": orphans,
    "soak-jobs": jobs,
    "soak-exhaust": exhaust,
    "soak-trials": trials,
}
