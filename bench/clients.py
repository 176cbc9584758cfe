"""What a client costs: jobs a second through it, in turns with a bare loop over HTTP in the same language."""

import json
import os
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List

from part import Say, Wishes
from processes import Failed, Programs, Scene

CLIENTS = Path(__file__).resolve().parent.parent / "clients"

# Jobs at once.
AT_ONCE = 10

# How long jobs are counted, in seconds: within less, what else the machine does shows more than what is compared.
SECONDS = 2.0

# Least turns of which the pace is the median. One turn differs from the next by a tenth where others use the same machine.
TURNS = 7

# Jobs that are there, more than are done in that time, and those before them that are not counted: a virtual machine is warm then.
JOBS = 60_000
WARM_UP = 2_000

# The least that is asked of a client, of the jobs a second of its language's bare loop. A compiled one has less to hide behind.
ASKED = {"python": 0.7, "node": 0.7, "ruby": 0.7, "php": 0.7, "go": 0.5, "rust": 0.5, "java": 0.5}

# The longest that a build may take, in seconds.
BUILD_PATIENCE = 600.0

JOB = "bench.noop"


@dataclass(frozen=True)
class Client:
    """A client of this project, as its client.json describes it."""

    name: str
    folder: Path
    out: Path
    rate_worker: List[str]
    bare_loop: List[str]


def measure(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    return [one(programs, client, max(wishes.rounds, TURNS), say) for client in found(programs)]


def found(programs: Programs) -> List[Client]:
    """All clients that say how they are measured, built."""
    clients = []
    for path in sorted(CLIENTS.glob("*/client.json")):
        told = json.loads(path.read_text())
        out = Path(programs.devserver).resolve().parent / "clients" / told["name"]
        out.mkdir(parents=True, exist_ok=True)
        for command in told.get("build_to_measure", told["build"]):
            environment = {**os.environ, "CLIENT_OUT": str(out)}
            done = subprocess.run(
                command, cwd=path.parent, env=environment, timeout=BUILD_PATIENCE, capture_output=True, text=True
            )
            if done.returncode:
                raise Failed(f"{' '.join(command)} in {path.parent.name}: {done.stderr[-2000:]}")
        clients.append(Client(told["name"], path.parent, out, told["rate_worker"], told["bare_loop"]))
    return clients


def one(programs: Programs, client: Client, rounds: int, say: Say) -> Dict[str, Any]:
    bare, ours = [], []
    for _ in range(rounds):
        bare.append(rate(programs, client, is_ours=False))
        ours.append(rate(programs, client, is_ours=True))
    pace = statistics.median(with_it / without for with_it, without in zip(ours, bare))
    say(f"{client.name}: {statistics.median(ours):,.0f} jobs/s, {pace:.2f} of its bare loop; asked: {ASKED[client.name]}")
    return {"client": client.name, "bare_loop": bare, "ojs_init": ours, "pace": round(pace, 3), "asked": ASKED[client.name]}


def rate(programs: Programs, client: Client, is_ours: bool) -> float:
    """Jobs a second, after the warm-up."""
    with Scene(programs) as scene:
        backend = scene.backend("--max-jobs", str(2 * (WARM_UP + JOBS)))
        backend.enqueue(WARM_UP + JOBS, job=JOB)
        url = f"http://{backend.address}"
        variables = {"OJS_URL": url, "CLIENT_OUT": str(client.out), "HOME": str(scene.place)}
        if is_ours:
            scene.start(
                [programs.init, "--", *client.rate_worker],
                folder=client.folder,
                OJS_CONCURRENCY=str(AT_ONCE),
                OJS_RUNTIME_DIR=str(scene.place / "run"),
                OJS_HEALTH_LISTEN="127.0.0.1:0",
                **variables,
            )
        else:
            counts = {"CONCURRENCY": str(AT_ONCE), "JOBS": str(WARM_UP + JOBS)}
            scene.start(client.bare_loop, folder=client.folder, **variables, **counts)
        scene.until(f"{client.name}: the first jobs", lambda: backend.completed() >= WARM_UP)
        began, first = time.monotonic(), backend.completed()
        # Nobody looks meanwhile: each look is one more request.
        time.sleep(SECONDS)
        last, ended = backend.completed(), time.monotonic()
    if last >= WARM_UP + JOBS:
        raise Failed(f"{client.name}: all {JOBS:,} jobs were done within {SECONDS} s: more are needed (JOBS)")
    return round((last - first) / (ended - began), 1)
