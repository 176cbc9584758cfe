"""The soak itself: every mode for so many minutes, in rounds of faults, work, rest and account."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from part import Say, Wishes
from processes import Backend, Failed, Programs, Scene
from soak import flat, troubles
from soak.group import KINDS, RATES, Group, kill
from soak.instance import Instance
from soak.ledger import Ledger

# The modes of a soak.
MODES = ("socket", "gateway", "exec", "none")

# How long the faults of a round go on, in seconds, and the time of a whole round at least.
BUSY_S, ROUND_S = 40.0, 60.0

# After the jobs, memory goes back to the kernel within a second, and connections to the backend that
# nobody uses are closed within 15 s. Then so many samples are taken, so far apart, and the least of
# each figure counts.
SETTLE_S, SAMPLES, SAMPLE_EVERY_S = 17.0, 6, 0.5

# How often instances are looked at under load, in seconds.
LOOK_EVERY_S = 3.0

# Longest wait for an instance to be at rest, in seconds.
REST_PATIENCE = 60.0

# Jobs whose ends mode gateway remembers (docs/gateway-limits.md), with room for an uneven share, and
# the longest time for them, in seconds.
REMEMBERED, WARM_UP_PATIENCE = 12_000, 1_200.0

# The moments that the page shows, in minutes.
EARLY = 5.0

# Figures of a plain init: it has no control socket.
OF_KERNEL = ("private_kib", "resident_kib", "descriptors", "threads", "children", "zombies")
OF_AGENT = (*OF_KERNEL, "timers", "jobs", "connections", "requests", "streams")


class Mode:
    """One mode: its instances, its faults, its jobs and its samples."""

    def __init__(self, scene: Scene, mode: str, wishes: "SoakWishes") -> None:
        self.mode, self.wishes = mode, wishes
        self.group = Group(scene, mode, wishes.instances, wishes.visibility)
        self.began = 0.0
        self.at_rest: Dict[str, List[Dict[str, float]]] = {instance.name: [] for instance in self.group.instances}
        self.most: "Counter[str]" = Counter()
        self.rounds = 0
        self.error: Optional[BaseException] = None
        seed = f"{wishes.seed}-{mode}"
        self.ledger: Optional[Ledger] = None
        if self.group.backend:
            self.ledger = Ledger(self.group.backend.address, KINDS[mode], random.Random(f"{seed}-jobs"))
            self.group.before_it_is_gone = self._backend_is_gone
        of = self.group.instances
        chains = {"readers": troubles.of_readers(of)}
        if mode == "none":
            chains["plain"] = troubles.of_plain(of)
        else:
            chains["backend"] = troubles.of_backend(self.group)
            chains["processes"] = troubles.of_processes(of)
        self.chains = [troubles.Chain(name, f"{seed}-{name}", draw) for name, draw in chains.items()]

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001
            self.error = error

    def warm_up(self) -> None:
        """Mode gateway remembers the ends of the last jobs: as many as it remembers are done before."""
        jobs = self.wishes.remembered if self.mode == "gateway" else 0
        if not (jobs and self.group.backend):
            return
        backend = Backend(self.group.backend.address)
        backend.enqueue(jobs * len(self.group.instances), job="ok")
        deadline = time.monotonic() + WARM_UP_PATIENCE
        while backend.completed() < jobs * len(self.group.instances):
            if time.monotonic() > deadline:
                raise Failed(f"mode {self.mode}: {backend.completed()} jobs are done within {WARM_UP_PATIENCE:.0f} s")
            time.sleep(LOOK_EVERY_S)

    def _run(self) -> None:
        self.warm_up()
        self.began = time.monotonic()
        end = self.began + self.wishes.minutes * 60.0
        while time.monotonic() < end or self.rounds < flat.FEWEST:
            begin = time.monotonic()
            self._busy(begin + self.wishes.busy_s)
            self._rest()
            self.rounds += 1
            time.sleep(max(0.0, begin + self.wishes.round_s - time.monotonic()))

    def _busy(self, until: float) -> None:
        threads = [chain.run(until) for chain in self.chains]
        looked = 0.0
        rate = RATES[self.mode] * len(self.group.instances)
        chance = random.Random(f"{self.wishes.seed}-{self.mode}-{self.rounds}")
        while time.monotonic() < until:
            if self.ledger:
                self.ledger.enqueue()
            time.sleep(chance.uniform(0.5, 1.5) / rate if rate else LOOK_EVERY_S)
            if time.monotonic() - looked > LOOK_EVERY_S:
                looked = time.monotonic()
                self._look()
        for thread in threads:
            thread.join()
        for chain in self.chains:
            if chain.errors:
                raise chain.errors[0]

    def _look(self) -> None:
        """The most of each figure under load."""
        for instance in self.group.instances:
            instance.expect_alive()
            for name, figure in self._sample(instance).items():
                self.most[name] = max(self.most[name], figure)

    def _sample(self, instance: Instance) -> Dict[str, int]:
        return {**instance.kernel(), **({} if self.mode == "none" else instance.tables())}

    def _backend_is_gone(self, server: Any) -> None:
        """The backend is killed between two looks at its jobs, and no job is enqueued meanwhile."""
        assert self.ledger is not None and self.group.backend is not None
        with self.ledger.lock:
            self.ledger.take_stock(Backend(self.group.backend.address), self.group.notes())
            kill(server)
            self.ledger.give_up()

    def _rest(self) -> None:
        if self.ledger:
            assert self.group.backend is not None
            self.ledger.settle(Backend(self.group.backend.address), self.group.notes())
        for instance in self.group.instances:
            self._until_at_rest(instance)
        time.sleep(self.wishes.settle_s)
        samples: Dict[str, List[Dict[str, int]]] = {name: [] for name in self.at_rest}
        for _ in range(self.wishes.samples):
            for instance in self.group.instances:
                instance.expect_alive()
                samples[instance.name].append(self._sample(instance))
            time.sleep(SAMPLE_EVERY_S)
        seconds = round(time.monotonic() - self.began, 1)
        for name, some in samples.items():
            least = {figure: min(sample[figure] for sample in some) for figure in some[0]}
            self.at_rest[name].append({"seconds": seconds, **least})

    def _until_at_rest(self, instance: Instance) -> None:
        """Waits until the worker runs and no job is left in the tables."""
        if self.mode == "none":
            return
        deadline = time.monotonic() + REST_PATIENCE
        while True:
            status = instance.ask("status")
            jobs = len(status["jobs"]) + status["jobs_not_shown"]
            if jobs == 0 and status["worker"]["ready"] > 0 and status["backend"]["reachable"]:
                return
            if time.monotonic() > deadline:
                raise Failed(f"{instance.name} is not at rest {REST_PATIENCE:.0f} s after its last job: {status}\n{instance.log.end()}")
            time.sleep(SAMPLE_EVERY_S)

    def row(self) -> Dict[str, Any]:
        """What came of it. Instances are ended here, and have to end well."""
        counts: "Counter[str]" = Counter()
        for chain in self.chains:
            counts.update(chain.counts)
        jobs = dict(self.ledger.totals) if self.ledger else {}
        names = OF_KERNEL if self.mode == "none" else OF_AGENT
        logs = sum(instance.log.lines for instance in self.group.instances)
        return {
            "mode": self.mode,
            "instances": len(self.group.instances),
            "minutes": self.wishes.minutes,
            "seed": self.wishes.seed,
            "rounds": self.rounds,
            "jobs": jobs,
            "faults": dict(sorted(counts.items())),
            "log_lines": logs,
            "most_under_load": dict(self.most),
            "figures": {name: self._judged(name) for name in names},
            "at_rest": self.at_rest,
            "exits": self.group.stop(),
        }

    def _judged(self, name: str) -> Dict[str, Any]:
        """The instance whose figure grows most, with its two moments."""
        whole = self.wishes.minutes * 60.0
        judged = []
        for instance, samples in self.at_rest.items():
            points = [(sample["seconds"], sample[name]) for sample in samples]
            found = flat.judged(name, points, whole, self.wishes.noise)
            early = min(EARLY * 60.0, whole / 2)
            judged.append({"instance": instance, "early": flat.at(points, early), "end": points[-1][1], **found})
        return max(judged, key=lambda one: (not one["is_flat"], one["slope"]))


@dataclass(frozen=True)
class SoakWishes(Wishes):
    """Wishes with what a soak is asked for."""

    rounds: int = 1
    minutes: float = 30.0
    instances: int = 2
    seed: int = 1
    busy_s: float = BUSY_S
    round_s: float = ROUND_S
    settle_s: float = SETTLE_S
    samples: int = SAMPLES
    noise: float = 1.0
    # Jobs of each instance before the soak of mode gateway.
    remembered: int = REMEMBERED
    visibility: str = "20s"
    # Trials of each kind.
    trials: int = 1_000


def soak(programs: Programs, wishes: Any, say: Say) -> List[Any]:
    wrong = flat.check()
    if wrong:
        raise Failed("the judgement is wrong: " + "; ".join(wrong))
    with Scene(programs) as scene:
        modes = [Mode(scene, mode, wishes) for mode in MODES]
        for mode in modes:
            mode.group.is_up()
        threads = [threading.Thread(target=mode.run) for mode in modes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for mode in modes:
            if mode.error:
                raise Failed(f"mode {mode.mode}, round {mode.rounds + 1}: {mode.error}") from mode.error
        rows = [mode.row() for mode in modes]
    for row in rows:
        tell(row, say)
    return rows


def tell(row: Dict[str, Any], say: Say) -> None:
    say(f"{row['mode']}: {row['rounds']} rounds, jobs {row['jobs']}, {sum(row['faults'].values())} faults, exits {row['exits']}")
    for name, one in row["figures"].items():
        mark = "" if one["is_flat"] else "   GROWS"
        say(f"  {name:<13}{one['early']:>9g}{one['end']:>9g}   {one['slope']:+.2f} an hour, error {one['error']:.2f}{mark}")


def problems(rows: List[Any]) -> List[str]:
    """What makes a soak fail."""
    found = []
    for row in rows:
        for how in ("lost", "doubled"):
            if row["jobs"].get(how):
                found.append(f"mode {row['mode']}: {row['jobs'][how]} jobs {how}")
        if row["jobs"] and not row["jobs"].get("completed"):
            found.append(f"mode {row['mode']}: no job was done")
        for name, one in row["figures"].items():
            if not one["is_flat"]:
                found.append(f"mode {row['mode']}: {name} grows by {one['slope']} an hour, more than {one['bound']}")
        if row["mode"] != "none" and set(row["exits"]) != {"0"}:
            found.append(f"mode {row['mode']}: exit statuses {row['exits']}")
    return found
