"""What a request costs more on its way through the gateway: in turns with the same request to the backend itself, in one run."""

import sys
from pathlib import Path
from typing import Any, Dict, List

from latency import spread
from part import Say, Wishes
from processes import Programs, Scene

LOAD = Path(__file__).resolve().parent / "gateway_load.py"

# Seconds of one measurement, requests a second of all connections together, and how many of these there are.
SECONDS = 10
RATE = 500
CONNECTIONS = 10


def measure(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    rows = []
    for kind in ("kept", "fresh"):
        rounds = [once(programs, kind) for _ in range(wishes.rounds)]
        rows.append({"kind": kind, "rounds": rounds})
        extra = sorted(one["gateway"]["median"] - one["direct"]["median"] for one in rounds)[len(rounds) // 2]
        say(f"{kind} connections: {extra:.0f} us more in the median")
    return rows


def once(programs: Programs, kind: str) -> Dict[str, Any]:
    with Scene(programs) as scene:
        backend = scene.backend()
        backend.enqueue(1)
        way = scene.reached(backend, "http")
        out = scene.place / "times"
        load = [sys.executable, str(LOAD), backend.address, str(out), str(SECONDS), str(RATE), str(CONNECTIONS), kind]
        variables = {
            "OJS_MODE": "gateway",
            "OJS_URL": way.url,
            "OJS_RUNTIME_DIR": str(scene.place / "run"),
            "OJS_HEALTH_LISTEN": "127.0.0.1:0",
            "OJS_TERMINATION_GRACE_PERIOD": "30s",
        }
        scene.start([programs.init, "--", *load], **variables)
        scene.until("the measurement", out.exists)
        lines = [line.split() for line in out.read_text().splitlines()]
        return {name: spread([float(us) for us in values]) for name, *values in lines}
