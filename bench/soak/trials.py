"""Trials: shutdowns put together by chance (tests/README.md), counted over all runs in bench/trials.json."""

import json
import os
import re
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List

from part import Say
from processes import Failed, Programs

ROOT = Path(__file__).resolve().parents[2]
COUNTS = ROOT / "bench" / "trials.json"

# The modes, and the option of the trials for each.
MODES = {"socket": [], "gateway": ["--gateway"], "exec": ["--exec"]}

# How a trial is played again that failed, maybe only beside others.
AGAIN = re.compile(r"^ *again: make trials ARGS='([^']+)'$", re.M)

# The last line of a run.
LAST = re.compile(r"^(\d+) trials, (\d+) with a broken promise$", re.M)
SEED = re.compile(r"^\d+ trials, seed (\d+)$", re.M)


def measure(programs: Programs, wishes: Any, say: Say) -> List[Any]:
    for mode, options in MODES.items():
        run = played(programs, mode, options, wishes.trials)
        say(
            f"{mode}: {run['trials']} trials, {run['broken']} with a broken promise; seed {run['seed']}, {run['seconds']} s, "
            f"load before {run['load_before']}"
        )
        add(run)
        if run["broken"]:
            raise Failed(f"mode {mode}: {run['broken']} trials have broken a promise: {run['promises']}, among {run['again']}")
    return totals()


def played(programs: Programs, mode: str, options: List[str], count: int) -> Dict[str, Any]:
    began, load = time.monotonic(), os.getloadavg()[0]
    text = output(programs, ["--count", str(count), *options])
    last, seed = LAST.search(text), SEED.search(text)
    if not last or not seed:
        raise Failed(f"mode {mode}: the trials have no result\n{text[-2000:]}")
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "revision": asked("git", "rev-parse", "--short=7", "HEAD"),
        "mode": mode,
        "seed": int(seed[1]),
        "load_before": round(load, 1),
        "trials": int(last[1]),
        "broken": int(last[2]),
        "again": sorted(set(AGAIN.findall(text))),
        "promises": re.findall(r"^BROKEN in \d+ trials: .*$", text, re.M),
        "seconds": round(time.monotonic() - began),
    }


def output(programs: Programs, options: List[str]) -> str:
    command = ["cargo", "test", "--locked", "--quiet", "--test", "trials", "--", *options]
    environment = {**os.environ, "BINARY_UNDER_TEST": programs.init}
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def asked(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()


def add(run: Dict[str, Any]) -> None:
    runs = known()
    runs.append(run)
    lines = ",\n".join(json.dumps(one) for one in runs)
    COUNTS.write_text(f"[\n{lines}\n]\n")


def known() -> List[Dict[str, Any]]:
    return json.loads(COUNTS.read_text()) if COUNTS.exists() else []


def totals() -> List[Dict[str, Any]]:
    """The counts of all runs, by mode."""
    rows = []
    for mode in MODES:
        runs = [run for run in known() if run["mode"] == mode]
        rows.append(
            {
                "mode": mode,
                "runs": len(runs),
                "trials": sum(run["trials"] for run in runs),
                "broken": sum(run["broken"] for run in runs),
                "first": min((run["at"][:10] for run in runs), default=""),
                "last": max((run["at"][:10] for run in runs), default=""),
            }
        )
    return rows
