"""ojs-init as an init beside tini, dumb-init and catatonit: the figures of tests/conformance."""

import os
import subprocess
from pathlib import Path
from typing import Any, List

from part import Say, Wishes
from processes import Failed, Programs

ROOT = Path(__file__).resolve().parent.parent

COMMAND = ["cargo", "test", "--locked", "--quiet", "--test", "conformance", "--", "--figures"]

# What its table's columns are wide: the first, and each other.
FIRST, OTHER = 62, 12


def measure(programs: Programs, _: Wishes, say: Say) -> List[Any]:
    environment = {**os.environ, "BINARY_UNDER_TEST": str(Path(programs.init).resolve())}
    # 1 is no failure of the measurement: a figure is beyond its bound.
    done = subprocess.run(COMMAND, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("figure (")]
    if not heads:
        raise Failed(f"tests/conformance has no figures\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    table = lines[heads[0] :]
    names = cells(table[0])
    rows = []
    for line in table[1:]:
        values = cells(line)
        if len(values) != len(names):
            break
        figures = {name: None if value == "-" else float(value) for name, value in zip(names, values)}
        rows.append({"figure": line[:FIRST].strip(), **figures})
    for complaint in lines:
        if complaint.startswith(("BAD", "note")):
            say(complaint)
    say(f"{len(rows)} figures of {len(names)} columns")
    return rows


def cells(line: str) -> List[str]:
    rest = line[FIRST:]
    return [rest[at : at + OTHER].strip() for at in range(0, len(rest), OTHER)]
