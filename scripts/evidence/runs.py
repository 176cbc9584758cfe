"""The runs that the repository has: tests/runs, fuzz/runs, bench/runs and bench/trials.json."""

import json
import os
import pathlib
import shutil
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "evidence"
RUNS = ROOT / "tests/runs"

# Programs of bench/ beside `make bench`, by the beginning of the names of their parts.
PROGRAMS = ("fleet", "soak")


@dataclass(frozen=True)
class Origin:
    """Where figures are from."""

    command: str
    at: str
    commit: str

    def cells(self):
        return [f"`{self.command}`", self.at, self.commit]


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def take_in():
    """Copies what record.py has left into the repository, if the command succeeded and the file there is older."""
    for path in sorted(RECORDED.glob("*.json")):
        run, known = read(path), RUNS / path.name
        if run["status"] != 0:
            print(f"left out: {run['command']} of {run['at']} ended with status {run['status']}")
        elif not known.exists() or read(known)["at"] < run["at"]:
            RUNS.mkdir(exist_ok=True)
            shutil.copyfile(path, known)
            print(f"new: {run['command']} of {run['at']}")


def commit_of(run):
    return run["revision"][:7] + ("" if run["is_clean"] else " with changes")


def recorded(part, command=None):
    """The newest run of tests/runs that has a part, with its origin; none if there is none."""
    runs = [run for run in map(read, RUNS.glob("*.json")) if part in run and command in (None, run["command"])]
    if not runs:
        return None
    run = max(runs, key=lambda run: run["at"])
    return run, Origin(run["command"], run["at"][:10], commit_of(run))


def figures(wanted):
    """The figures that are wanted by their name and their units, from the newest run that has one."""
    found = []
    for run in map(read, RUNS.glob("*.json")):
        every = {name: figure for name, figure in run.get("figures", {}).items() if wanted(name, figure)}
        if every:
            found.append((run["at"], every, Origin(run["command"], run["at"][:10], commit_of(run))))
    return max(found, key=lambda one: one[0])[1:] if found else None


def measured(part):
    """The rows of a part of `make bench`, `make fleet` or `make soak`, from the newest run that has it."""
    runs = [run for run in map(read, (ROOT / "bench/runs").glob("*.json")) if part in run["parts"]]
    if not runs:
        return None
    run = max(runs, key=lambda run: run["at"])
    program = next((name for name in PROGRAMS if part.startswith(f"{name}-")), "bench")
    command = f"make {program} ARGS='--only {part.removeprefix(f'{program}-')}'"
    return run["parts"][part]["rows"], Origin(command, run["at"][:10], commit_of(run))


def fuzzed():
    """The newest result of each fuzz target, with the date and the commit of its run."""
    found = {}
    for run in sorted(map(read, (ROOT / "fuzz/runs").glob("*.json")), key=lambda run: run["date"]):
        commit = run["commit"][:7] + (" with changes" if run["commit"].endswith("-changed") else "")
        for result in run["results"]:
            found[result["target"]] = {**result, "at": run["date"][:10], "commit": commit}
    return [found[target] for target in sorted(found)]


def soak_trials():
    path = ROOT / "bench/trials.json"
    return read(path) if path.exists() else []
