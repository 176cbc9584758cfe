"""A million orphans: how fast ojs-init reaps them, and what they leave behind."""

import http.client
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import proc
from part import Say
from processes import Failed, Programs, Scene
from soak import flat
from soak.instance import Instance

COUNT = 1_000_000

# Children of each process that ends before them.
BROOD = 500

# Makes orphans in two processes, and writes how many there are so far. No parent waits for a child,
# so each of them becomes an orphan.
BROODS = """
import os, sys, time
count, brood, path, last = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
made = 0
while made < count:
    parents = []
    for _ in range(2):
        parent = os.fork()
        if parent == 0:
            for _ in range(brood):
                if os.fork() == 0:
                    os._exit(0)
            os._exit(0)
        parents.append(parent)
    for parent in parents:
        os.waitpid(parent, 0)
    made += 2 * brood
    with open(path + '.new', 'w') as file:
        file.write(str(made))
    os.rename(path + '.new', path)
time.sleep(last)
"""

# Orphans between two looks.
STEP = COUNT // 40

# Longest time for all of them, in seconds, and pause between two looks.
PATIENCE, LOOK_EVERY = 3_600.0, 0.1

# Most growth of memory for each 100,000 orphans, in KiB.
BOUND, UNIT = 16.0, 100_000

# Where the agent's metrics are.
LISTEN = "127.0.0.1:21082"


def measure(programs: Programs, _: Any, say: Say) -> List[Any]:
    rows = [one(programs, is_agent) for is_agent in (False, True)]
    for row in rows:
        say(f"{row['who']}: {row['orphans']:,} orphans, {row['a_second']:,.0f} a second; private {row['private_kib']} KiB, "
            f"{row['slope']['slope']:+.2f} KiB for each {UNIT:,}, error {row['slope']['error']:.2f}")  # fmt: skip
    return rows


def one(programs: Programs, is_agent: bool) -> Dict[str, Any]:
    with Scene(programs) as scene:
        made = scene.place / "made"
        maker = [sys.executable, "-I", "-S", "-c", BROODS, str(COUNT), str(BROOD), str(made), "3600"]
        if is_agent:
            backend = scene.backend()
            # The worker is the parent of the maker.
            worker = [programs.echo_worker, "--connections", "1", "--concurrency", "1"]
            command = ["--", "/bin/sh", "-c", '"$@" & exec ' + " ".join(worker), "sh", *maker]
            settings = {"OJS_URL": f"http://{backend.address}", "OJS_HEALTH_LISTEN": LISTEN, "OJS_CONCURRENCY": "1"}
        else:
            command, settings = ["--no-agent", "--", *maker], {}
        began = time.monotonic()
        instance = Instance(scene, "orphans", command, **settings)
        samples = watched(instance, made)
        count = until_reaped(instance, samples)
        seconds = time.monotonic() - began
        if is_agent and metric(LISTEN, "ojs_init_reaped_orphans_total") < count:
            raise Failed(f"{metric(LISTEN, 'ojs_init_reaped_orphans_total')} of {count} orphans were reaped")
        last = instance.kernel()
        exit_ = instance.stop()
    points = [(orphans / UNIT, kib) for orphans, kib in samples[len(samples) // 5 :]]
    slope = flat.slope(points)
    if slope.is_above(BOUND) or last["zombies"]:
        raise Failed(f"memory grows by {slope.value:.1f} KiB for each {UNIT:,} orphans, {last['zombies']} zombies are left")
    return {
        "who": "agent" if is_agent else "plain init",
        "orphans": count,
        "seconds": round(seconds, 1),
        "a_second": round(count / seconds),
        "first_private_kib": samples[0][1],
        "peak_kib": max(kib for _, kib in samples),
        **last,
        "slope": {"slope": round(slope.value, 2), "error": round(slope.error, 2), "bound": BOUND},
        "exit": exit_,
    }


def watched(instance: Instance, made: Path) -> List[Any]:
    """Orphans so far, and private memory."""
    samples: List[Any] = []
    deadline = time.monotonic() + PATIENCE
    while not samples or samples[-1][0] < COUNT:
        instance.expect_alive()
        now = int(made.read_text()) if made.exists() else 0
        if now and (not samples or now - samples[-1][0] >= STEP or now >= COUNT):
            samples.append((now, proc.memory_kib(instance.pid)["private"]))
        if time.monotonic() > deadline:
            raise Failed(f"{now} of {COUNT} orphans within {PATIENCE:.0f} s")
        time.sleep(LOOK_EVERY)
    return samples


def until_reaped(instance: Instance, samples: List[Any]) -> int:
    instance.scene.until("no zombie to be left", lambda: instance.kernel()["zombies"] == 0)
    return int(samples[-1][0])


def metric(address: str, name: str) -> int:
    """The sum of a metric over all its labels."""
    connection = http.client.HTTPConnection(address, timeout=10.0)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    found = [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in found)
