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

# The last line of a run.
LAST = re.compile(r"^(\d+) trials, (\d+) with a broken promise$", re.M)
SEED = re.compile(r"^\d+ trials, seed (\d+)$", re.M)


def measure(programs: Programs, wishes: Any, say: Say) -> List[Any]:
    for mode, options in MODES.items():
        run = played(programs, mode, options, wishes.trials)
        say(f"{mode}: {run['trials']} trials, {run['broken']} with a broken promise, seed {run['seed']}, {run['seconds']} s")
        add(run)
        if run["broken"]:
            raise Failed(f"mode {mode}: {run['broken']} trials have broken a promise: {run['promises']}")
    return totals()


def played(programs: Programs, mode: str, options: List[str], count: int) -> Dict[str, Any]:
    command = ["cargo", "test", "--locked", "--quiet", "--test", "trials", "--", "--count", str(count), *options]
    began = time.monotonic()
    came = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "BINARY_UNDER_TEST": programs.init}, stdout=subprocess.PIPE, text=True
    )
    last, seed = LAST.search(came.stdout), SEED.search(came.stdout)
    if not last or not seed:
        raise Failed(f"mode {mode}: the trials have no result\n{came.stdout[-2000:]}")
    if int(last[2]):
        print(came.stdout, flush=True)
    revision = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "revision": revision.stdout.strip(),
        "mode": mode,
        "seed": int(seed[1]),
        "trials": int(last[1]),
        "broken": int(last[2]),
        "promises": re.findall(r"^BROKEN in \d+ trials: .*$", came.stdout, re.M),
        "seconds": round(time.monotonic() - began),
    }


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
