"""docs/evidence-requirements.md: what holds each row of docs/requirements.md in each mode."""

import re
from collections import Counter

from table import table

from runs import ROOT, recorded

ID = r"(?:GS-R?\d{3}|W-\d|[A-Z]-\d{2}b?)"
MODES = ("socket", "gateway", "exec")
WORDS = ("machine", "socket", "none")

PAGE = """# Requirements by mode

For a person who checks ojs-init against the specifications: what holds each row of
[requirements.md](requirements.md) in each mode. `make evidence` writes this page from the last run
of the tests and from `tests/modes.txt`.

    make requirements evidence

{origin}

| cell | meaning |
|---|---|
| 2 tests | tests that passed in that run. Those of mode socket have the row in their name; the others are in `tests/modes.txt` |
| 7 SDKs | `tests/sdk` shows the row for the worker of each SDK |
| trials | every trial of the mode is judged by a promise that has the row: {trials} |
| machine | no test of this mode has the row. It is about the backend, signals, times or the log, and that code does not know the mode |
| as socket | no test of mode exec has the row. PID 1 speaks with its runner as with a worker of mode socket, by the same code |
| none | the row has no meaning in the mode; the reason is below the table |

{summary}

## Rows

{rows}

The rows C-01 to C-37 are answers to open questions. Tests of the other rows show them.

## Rows without a meaning in a mode

{reasons}
"""


def rows_of_page():
    text = (ROOT / "docs/requirements.md").read_text(encoding="utf-8")
    return re.findall(rf"^\| ({ID}) \| ([^|]*) \|", text, re.M)


def row_of(name):
    """The row that the name of a test begins with."""
    found = re.match(r"(gs_r?\d{3}|w_\d|[a-z]_\d\db?)(?:_|$)", name)
    if not found:
        return None
    letters, number = found[1].split("_")
    return f"{letters.upper()}-{number.replace('r', 'R')}"


def promises():
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests/trials/promises").glob("*.rs"))
    return set(re.findall(r'"([^"\n]+)"', "\n".join(texts)))


def assigned(rows):
    """What tests/modes.txt says of each row and mode."""
    known, found = promises(), {}
    for line in (ROOT / "tests/modes.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        ids, modes, what = (cell.strip() for cell in line.split("|"))
        word, _, reason = what.partition(":")
        told = {"promises": re.findall(r'"([^"]+)"', what), "rows": re.findall(ID, re.sub(r'"[^"]*"', "", what))}
        told["tests"] = re.findall(r"\w+", re.sub(rf'"[^"]*"|{ID}', "", what)) if word not in WORDS else []
        unknown = [promise for promise in told["promises"] if promise not in known]
        if unknown:
            raise SystemExit(f"tests/modes.txt: the trials have no promise {unknown}")
        for row in ids.split():
            if row not in rows:
                raise SystemExit(f"tests/modes.txt: docs/requirements.md has no row {row}")
            for mode in modes.split():
                cell = found.setdefault((row, mode), {"promises": [], "rows": [], "tests": [], "word": None, "reason": ""})
                for kind, values in told.items():
                    cell[kind] += values
                if word in WORDS:
                    cell.update(word=word, reason=reason.strip())
    return found


class Held:
    """The tests that passed in a run."""

    def __init__(self, names):
        self.passed, self.socket, self.gateway = set(), Counter(), Counter()
        for program, test in (name.split(" ") for name in names):
            last = test.rsplit("::", 1)[-1]
            self.passed.add(last)
            if program == "agent" and test.startswith("requirements::"):
                self.socket[row_of(last)] += 1
            elif program == "sdk" and "behind_ojs_init" in test:
                self.gateway[row_of(last)] += 1


def cell(row, mode, told, held):
    """The words of a cell, and what kind it is. A row that nothing holds is an error."""
    if mode == "socket":
        count = held.socket[row]
        parts = [f"{count} test{'s' if count > 1 else ''}"] if count else []
        told = {"word": None}
    else:
        told = told.get((row, mode), {"promises": [], "rows": [], "tests": [], "word": None})
        missing = [test for test in told["tests"] if test not in held.passed]
        if missing:
            raise SystemExit(f"{row}, mode {mode}: no run in tests/runs has {missing}: make requirements evidence")
        count = len(set(told["tests"]))
        parts = [f"{count} test{'s' if count > 1 else ''}"] if count else []
        rows = [row, *told["rows"]] if mode == "gateway" else []
        sdks = max((held.gateway[one] for one in rows), default=0)
        parts += [f"{sdks} SDKs"] if sdks else []
        parts += ["trials"] if told["promises"] else []
    if parts:
        return ", ".join(parts), "tests or trials"
    if told["word"]:
        return ("as socket" if told["word"] == "socket" else told["word"]), told["word"]
    raise SystemExit(f"{row} has nothing in mode {mode}: add a line to tests/modes.txt, or run make requirements evidence")


def counts(trials):
    names = {"socket": "trial", "gateway": "gateway-trial", "exec": "exec-trial"}
    told = [f"{trials[names[mode]]['trials']:,} in mode {mode}" for mode in MODES if names[mode] in trials]
    return ", ".join(told)


def render():
    """The page and its table of counts; none without a run."""
    found = recorded("held")
    if not found or "trial" not in found[0].get("figures", {}):
        return None
    run, origin = found
    levels = dict(rows_of_page())
    told, held = assigned(levels), Held(run["held"])
    lines, kinds, reasons = [], {mode: Counter() for mode in MODES}, {}
    for row, level in levels.items():
        if row.startswith("C-"):
            continue
        words = []
        for mode in MODES:
            text, kind = cell(row, mode, told, held)
            kinds[mode][kind] += 1
            words.append(text)
            if kind == "none":
                reasons.setdefault((mode, told[row, mode]["reason"]), []).append(row)
        lines.append([row, level, *words])
    heads = ["tests or trials", "machine", "socket", "none"]
    counted = [[mode, *(str(kinds[mode][kind]) for kind in heads)] for mode in MODES]
    summary = table(["mode", "rows with tests or trials", "machine", "as socket", "none"], counted)
    page = PAGE.format(
        origin=f"The last run is `{origin.command}` of {origin.at}, at {origin.commit}.",
        trials=counts(run["figures"]),
        summary="\n".join(summary),
        rows="\n".join(table(["row", "level", *MODES], lines)),
        reasons="\n".join(table(["rows", "mode", "reason"], [[" ".join(rows), *why] for why, rows in reasons.items()])),
    )
    return page, summary, origin
