"""What a request costs more on its way through the gateway: in turns with the same request to the backend itself, and through a bare
relay, in one run."""

import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import proc
from latency import spread
from part import Say, Wishes
from processes import Programs, Scene

LOAD = Path(__file__).resolve().parent / "gateway_load.py"

# Seconds of one measurement, requests a second of all connections together, and how many of these there are.
SECONDS = 15
RATE = 500
CONNECTIONS = 10

# Clients that the bare relay takes at a time: some are connected while the last answer of others is still on its way.
RELAY_THREADS = 2 * CONNECTIONS

# What ojs-init alone may have of a processor in the last row, as a quota in microseconds of each 100 ms: 100m in words of Kubernetes.
SHARE, QUOTA = "100m", 10_000
PERIOD = 100_000


def measure(programs: Programs, wishes: Wishes, say: Say) -> List[Any]:
    rows = []
    for kind, share in (("kept", ""), ("fresh", ""), ("kept", SHARE)):
        if share and not Share.can_be_had():
            say(f"{kind} connections at {share}: left out, there is no cpu controller to be had")
            continue
        rounds = [once(programs, kind, share) for _ in range(wishes.rounds)]
        name = f"{kind}, ojs-init at {share}" if share else kind
        rows.append({"kind": name, "rounds": rounds})
        one = middle(rounds)
        extra, least = (one[way]["median"] - one["direct"]["median"] for way in ("gateway", "bare_relay"))
        throttled = f", held back {sum(one['throttled'] for one in rounds)} times" if share else ""
        say(f"{name} connections: {extra:.0f} us more in the median, through a bare relay {least:.0f}{throttled}")
    return rows


def middle(rounds: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The round with the median of what the gateway costs more."""
    return sorted(rounds, key=lambda one: one["gateway"]["median"] - one["direct"]["median"])[len(rounds) // 2]


class Share:
    """A cgroup of version 1 or 2 that may have QUOTA of each PERIOD."""

    ROOTS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))

    def __init__(self, pid: int) -> None:
        root = next(root for root in self.ROOTS if self.has_cpu(root))
        self.place = root / f"ojs-bench-{pid}"
        self.place.mkdir()
        if (self.place / "cpu.max").exists():
            (self.place / "cpu.max").write_text(f"{QUOTA} {PERIOD}")
        else:
            (self.place / "cpu.cfs_period_us").write_text(str(PERIOD))
            (self.place / "cpu.cfs_quota_us").write_text(str(QUOTA))
        (self.place / "cgroup.procs").write_text(str(pid))

    @staticmethod
    def has_cpu(root: Path) -> bool:
        controlled = root / "cgroup.subtree_control"
        return (root / "cpu.cfs_quota_us").exists() or (controlled.exists() and "cpu" in controlled.read_text().split())

    @classmethod
    def can_be_had(cls) -> bool:
        return os.geteuid() == 0 and any(cls.has_cpu(root) and os.access(root, os.W_OK) for root in cls.ROOTS)

    def throttled(self) -> int:
        lines = (line.split() for line in (self.place / "cpu.stat").read_text().splitlines())
        return next(int(value) for name, value in lines if name == "nr_throttled")

    def remove(self) -> None:
        # The kernel lets go of a process that was ended when it has been reaped.
        for _ in range(100):
            try:
                return self.place.rmdir()
            except OSError:
                time.sleep(0.05)


def once(programs: Programs, kind: str, share: str) -> Dict[str, Any]:
    shares: List[Share] = []
    try:
        return load(programs, kind, bool(share), shares)
    finally:
        for one in shares:
            one.remove()


def load(programs: Programs, kind: str, is_limited: bool, shares: List[Share]) -> Dict[str, Any]:
    with Scene(programs) as scene:
        backend = scene.backend()
        backend.enqueue(1)
        way = scene.reached(backend, "http")
        relay = scene.bare_relay(backend, RELAY_THREADS)
        out = scene.place / "times"
        plan = [str(out), str(SECONDS), str(RATE), str(CONNECTIONS), kind]
        command = [sys.executable, str(LOAD), backend.address, relay, *plan]
        variables = {
            "OJS_MODE": "gateway",
            "OJS_URL": way.url,
            "OJS_RUNTIME_DIR": str(scene.place / "run"),
            "OJS_HEALTH_LISTEN": "127.0.0.1:0",
            "OJS_TERMINATION_GRACE_PERIOD": "30s",
        }
        init = scene.start([programs.init, "--", *command], **variables)
        if is_limited:
            # The worker has been started by then, or is before its first request: it is not what is limited.
            scene.until("the worker", lambda: proc.children(init.pid))
            shares.append(Share(init.pid))
        scene.until("the measurement", out.exists)
        lines = [line.split() for line in out.read_text().splitlines()]
        found: Dict[str, Any] = {name: spread([float(us) for us in values]) for name, *values in lines}
        return {**found, "throttled": sum(one.throttled() for one in shares)}
