#!/usr/bin/env python3
"""Writes docs/evidence.md and docs/evidence-requirements.md from the runs that the repository has.

    make evidence               # takes the newest runs in, and writes the pages
    scripts/evidence --check    # fails if a page is not what the runs say; cargo test --test docs runs it
"""

import argparse
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import render  # noqa: E402
from soak import tables as soak  # noqa: E402
from table import table  # noqa: E402

import requirements  # noqa: E402
import runs  # noqa: E402
from runs import Origin, figures, measured, recorded  # noqa: E402

SOURCES = ("crates", "src", "tests", "devserver")

# Most mistakes in the table: a page has 250 lines at most.
MOST_FOUND = 40

HEAD = """# Evidence

For a person who wants to know what was run, when, and with which figures. Each line names the
command that gives its figures again.

    make evidence    # renews this page from the last runs

`make test`, `make requirements`, `make broken-builds` and `make conformance` leave their figures in
`target/evidence`. `make evidence` copies those of a run that succeeded into `tests/runs`. `make
fuzz` keeps its runs in `fuzz/runs`, and `make bench`, `make fleet` and `make soak` in `bench/runs`.
A command that has no run yet has no line.
"""

LIMITS = """## Limits

- Figures are from the commit of their line, which may be older than this page.
- `make test` plays the same trials, lives and worlds each time. Only `make trials`, `make soak` and
  `make fuzz` search anew.
- A machine that is too busy breaks promises about time. [endurance.md](endurance.md#trials) says
  under which load the trials of chance ran.
- The backends are the dialects of the [development server](devserver.md#dialects). No run has used
  a public backend.
- `make fuzz` and `make sanitize` run with AddressSanitizer. Nobody has run Miri, which is a part of
  the nightly compiler alone, or ThreadSanitizer, which needs a standard library built for it.
"""


def section(title, words, lines):
    return "\n".join([f"## {title}", "", *([*words, ""] if words else []), *lines, ""])


def said_of(origin):
    return [f"`{origin.command}`, {origin.at}, at {origin.commit}."]


def total(found, unit):
    return sum(figure.get(unit, 0) for figure in found.values())


def lines_of_tests():
    """Lines of the first table: what it is, its figures, where they are from."""
    if found := recorded("suites", "make test"):
        run, origin = found
        passed, failed, ignored = (sum(row[name] for row in run["suites"]) for name in ("passed", "failed", "ignored"))
        second = sum(len(tests) for tests in run.get("second", {}).values())
        again = f" ({second} the second time, alone)" if second else ""
        yield "tests", f"{passed:,} passed{again}, {failed:,} failed, {ignored:,} ignored; {run['seconds'] / 60:.0f} min", origin
    if found := recorded("suites", "make check"):
        run, origin = found
        yield "lint, and tests that need no process", f"{sum(row['passed'] for row in run['suites']):,} passed in {run['seconds']} s", origin
    if found := figures(lambda name, _: name.startswith("simulation")):
        each, origin = found
        yield "simulated lives", f"{total(each, 'lives'):,}; none broke a promise", origin
    if found := figures(lambda _, figure: "states" in figure):
        each, origin = found
        told = f"{total(each, 'states'):,} states and {total(each, 'transitions'):,} transitions of {len(each)} small worlds"
        yield "exploration", f"{told}; none broke a promise", origin
    if found := figures(lambda name, _: name.endswith("trial")):
        each, origin = found
        yield "trials that are always the same", f"{total(each, 'trials'):,} trials, {total(each, 'broken')} with a broken promise", origin
    if found := recorded("broken_builds"):
        run, origin = found
        builds = run["broken_builds"]
        yield "broken builds", f"{sum(builds.values())} of {len(builds)} caught by the trials", origin


def lines_of_trials():
    for mode in ("socket", "gateway", "exec"):
        found = [run for run in runs.soak_trials() if run["mode"] == mode]
        if found:
            trials, broken = (sum(run[name] for run in found) for name in ("trials", "broken"))
            origin = Origin("make soak ARGS='--only trials'", found[-1]["at"][:10], found[-1]["revision"])
            told = f"{trials:,} trials since {found[0]['at'][:10]}, {broken} with a broken promise"
            yield f"trials of chance, mode {mode}", told, origin


def lines_of_fuzz():
    found = runs.fuzzed()
    if found:
        newest = max(found, key=lambda result: result["at"])
        executions, findings = sum(one["executions"] for one in found), sum(len(one["findings"]) for one in found)
        told = f"{executions:,} executions of {len(found)} targets in {sum(one['seconds'] for one in found):,} s, {findings} findings"
        yield "fuzz targets", told, Origin("make fuzz", newest["at"], newest["commit"])


def lines_of_soak():
    if found := measured("soak-modes"):
        for row in found[0]:
            yield f"soak, mode {row['mode']}", soak.account(row).strip("*"), found[1]
    if found := measured("soak-orphans"):
        for row in found[0]:
            memory = f"private memory {row['first_private_kib']} to {row['private_kib']} KiB"
            yield f"orphans, {row['who']}", f"{row['orphans']:,} reaped, {row['zombies']} zombies left, {memory}", found[1]
    if found := measured("soak-jobs"):
        row = found[0][0]
        yield "jobs in one life", f"{row['completed']:,} of {row['jobs']:,} completed, {row['acknowledged']:,} acknowledged", found[1]
    if found := measured("soak-exhaust"):
        lost, doubled = (sum(row["jobs"].get(name, 0) for row in found[0]) for name in ("lost", "doubled"))
        told = f"{len(found[0])} resources used up, {sum(row['jobs']['enqueued'] for row in found[0]):,} jobs, lost {lost}, doubled {doubled}"
        yield "resources that run out", told, found[1]


def lines_of_bench():
    """One figure of each part; docs/benchmarks.md has all."""
    middle = lambda rows, what: statistics.median(row[what] for row in rows)  # noqa: E731
    if found := measured("cpu"):
        row = next(row for row in found[0] if (row["jobs"], row["connections"], row["scheme"]) == (100, 1, "http"))
        told = f"{middle(row['ojs_init'], 'cpu_us'):.0f} us of CPU a job, bare loop {middle(row['bare_loop'], 'cpu_us'):.0f} us"
        yield "cost of a job, 100 at once", told, found[1]
    if found := measured("pickup"):
        row = min(found[0], key=lambda row: row["pick_up_ms"]["median"])
        yield "pick-up of a job while idle", f"{row['pick_up_ms']['median']:.1f} ms (median)", found[1]
    if found := measured("end"):
        yield "last ACK's answer to exit", f"{found[0][0]['exit_ms']['median']:.1f} ms (median)", found[1]
    if found := measured("idle"):
        row = found[0][0]
        yield "idle", f"{row['wakeups_a_minute']:.0f} wakeups a minute, {row['private']} KiB of private memory", found[1]
    if found := measured("gateway"):
        one = render.middle(found[0][0]["rounds"])
        more = one["gateway"]["median"] - one["direct"]["median"]
        yield "a request through the gateway", f"{more:+.0f} us (median), over the direct way", found[1]
    if found := measured("exec"):
        yield "a process for each job", f"{middle(found[0][0]['ojs_init'], 'jobs_s'):,.0f} jobs/s", found[1]
    if found := measured("recycling"):
        lost, doubled = (sum(row[name] for row in found[0]) for name in ("lost", "doubled"))
        recycled = sum(row["recycled"] for row in found[0])
        yield "recycled workers", f"{recycled:,} recycled, jobs lost {lost}, doubled {doubled}", found[1]
    if found := measured("fleet-stop"):
        row = found[0][0]
        told = f"{row['workers']} workers gone after {row['last_exit_s']:.1f} s; jobs lost {row['jobs']['lost']}, twice {row['jobs']['twice']}"
        yield "a mass SIGTERM", told, found[1]


def summary():
    every = [*lines_of_tests(), *lines_of_trials(), *lines_of_fuzz(), *lines_of_soak(), *lines_of_bench()]
    rows = [[what, told, *origin.cells()] for what, told, origin in every]
    return section("All runs", [], table(["what", "figures", "command", "date", "commit"], rows))


def suites():
    found = recorded("suites", "make test")
    if not found:
        return None
    run, origin = found
    rows = [[row["suite"], *(f"{row[name]:,}" for name in ("passed", "failed", "ignored")), f"{row['seconds']:.1f}"] for row in run["suites"]]
    words = said_of(origin) + ["A suite without tests is a script that succeeded."]
    return section("Tests", words, table(["suite", "passed", "failed", "ignored", "seconds"], rows))


def fuzz():
    rows = [
        [one["target"], f"{one['executions']:,}", f"{one['seconds']:,}", f"{one['edges_covered']:,}", str(len(one["findings"])), one["at"], one["commit"]]
        for one in runs.fuzzed()
    ]
    words = ["`make fuzz ARGS=TARGET`: the last run of each target. `make test` replays the files of its corpus."]
    return section("Fuzz targets", words, table(["target", "executions", "seconds", "edges", "findings", "date", "commit"], rows)) if rows else None


def sdks():
    found = recorded("sdk")
    if not found:
        return None
    run, origin = found
    kinds, rows = run["sdk"]["kinds"], []
    for row, told in run["sdk"]["rows"].items():
        cells = told["cells"]
        rows.append([row, told["says"], *(f"{alone}, {behind}" for alone, behind in zip(cells[::2], cells[1::2]))])
    words = said_of(origin) + ["Checks of a requirement that hold for a worker of each SDK: alone, then behind ojs-init."]
    return section("SDKs", words, table(["row", "requirement", *kinds], rows))


def backends():
    found = figures(lambda name, _: name.startswith("backend "))
    if not found:
        return None
    each, origin = found
    rows = [[name.removeprefix("backend "), f"{one['trials']:,}", str(one["broken"])] for name, one in sorted(each.items())]
    words = said_of(origin) + ["The [dialects](devserver.md#dialects) of the development server."]
    return section("Backends", words, table(["dialect", "trials", "with a broken promise"], rows))


def inits():
    lines = []
    if found := recorded("inits"):
        run, origin = found
        rows = [[name, *(str(one[verdict]) for verdict in ("pass", "fail", "not applicable"))] for name, one in run["inits"].items()]
        lines += [*said_of(origin), "", *table(["init", "cases passed", "failed", "not applicable"], rows)]
    if found := measured("init"):
        lines += [""] * bool(lines) + [*said_of(found[1]), "", *render.init(found[0])]
    return section("Other inits", [], lines) if lines else None


def fixed():
    rows = []
    for line in (ROOT / "tests/found.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            at, command, mistake, commit, test = (cell.strip() for cell in line.split("|"))
            if not (ROOT / test).exists() and not is_function(test):
                raise SystemExit(f"tests/found.txt: there is no test {test}")
            found_by = command if command == "reading" else f"`{command}`"
            rows.append([at, found_by, mistake, commit, f"`{Path(test).name}`"])
    newest = sorted(rows, key=lambda row: row[0], reverse=True)[:MOST_FOUND]
    words = [f"The newest {len(newest)} of {len(rows)}; [tests/found.txt](../tests/found.txt) has all."]
    return section("Found and fixed", words, table(["date", "found by", "mistake", "fixed in", "held by"], newest))


def is_function(name):
    shape = re.compile(rf"\bfn {re.escape(name)}\(")
    paths = (path for folder in SOURCES for path in (ROOT / folder).rglob("*.rs"))
    return any(shape.search(path.read_text(encoding="utf-8")) for path in paths)


def modes(found):
    if not found:
        return None
    _, lines, origin = found
    words = said_of(origin) + ["[Each row](evidence-requirements.md), with the meaning of the words."]
    return section("Requirements by mode", words, lines)


def pages():
    """The text of each page; none where there is no run for it."""
    by_mode = requirements.render()
    parts = [HEAD, summary(), modes(by_mode), sdks(), backends(), inits(), fuzz(), fixed(), suites(), LIMITS]
    return {
        "docs/evidence.md": "\n".join(part for part in parts if part),
        "docs/evidence-requirements.md": by_mode[0] if by_mode else None,
    }


def main():
    parser = argparse.ArgumentParser(prog="evidence", description="Writes the pages of evidence.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is not what the runs say")
    given = parser.parse_args()
    if not given.check:
        runs.take_in()
    wrong = []
    for name, text in pages().items():
        path = ROOT / name
        known = path.read_text(encoding="utf-8") if path.exists() else None
        if given.check and text != known:
            wrong.append(name)
        elif not given.check and text is not None:
            path.write_text(text, encoding="utf-8")
            print(f"{name}: {'as before' if text == known else 'new'}")
    if wrong:
        sys.exit(f"{', '.join(wrong)}: not what the runs say; make evidence writes them")


if __name__ == "__main__":
    main()
