"""The jobs of one backend: what was enqueued, and what has to have become of it."""

import http.client
import json
import random
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from processes import Backend, Failed

# Jobs of one answer of the server: its own bound.
PAGE = 1_000

# Longest time until all jobs of a round are done, in seconds: a job that was lost on its way waits
# for its visibility timeout first.
SETTLE_PATIENCE = 90.0

# Pause between two looks, and before another attempt to enqueue, in seconds.
LOOK_EVERY, ENQUEUE_AGAIN = 0.2, 0.1

# Attempts of a job that has to be done, and of one that fails each time.
MANY, FEW = 1_000, 2

# How long a handler takes at most, in milliseconds, and bytes of a large result.
LONGEST_MS, LARGE = 400, 200_000

# Share of the jobs of each kind. The rest sleeps.
FAILING, LARGE_SHARE, ORPHANS = 0.05, 0.03, 0.05

# A retry comes soon, so that a round ends soon.
RETRY = {"initial_interval_ms": 200, "backoff_coefficient": 1.0, "jitter": False}


class Ledger:
    """Enqueues jobs of chance, and checks what the backend says of each of them."""

    def __init__(self, address: str, kinds: Sequence[str], chance: random.Random) -> None:
        self.address, self.kinds, self.chance = address, kinds, chance
        self.open: Dict[str, str] = {}
        self.lock = threading.Lock()
        self.totals: "Counter[str]" = Counter()
        # Jobs since all had ended.
        self.recent = 0
        # How far the notes of each worker were read, and how often each job was done.
        self.read: Dict[Path, int] = {}
        self.done: "Counter[str]" = Counter()

    def enqueue(self) -> None:
        """One job, with an id of ours: an enqueue whose answer is lost is repeated."""
        self.enqueue_one(*self._draw())

    def enqueue_one(self, kind: str, args: List[Any]) -> None:
        ident = uuid7(self.chance)
        attempts = FEW if kind == "fail" else MANY
        job = {"type": kind, "args": args, "options": {"retry": {**RETRY, "max_attempts": attempts}}}
        body = json.dumps({"id": ident, **job})
        deadline = time.monotonic() + SETTLE_PATIENCE
        while time.monotonic() < deadline:
            with self.lock:
                if post(self.address, "/ojs/v1/jobs", body) in (200, 201, 409):
                    self.open[ident] = kind
                    self.totals["enqueued"] += 1
                    self.recent += 1
                    return
            time.sleep(ENQUEUE_AGAIN)
        raise Failed(f"no job can be enqueued at {self.address} for {SETTLE_PATIENCE:.0f} s")

    def _draw(self) -> Any:
        chance, ms = self.chance.random(), self.chance.randrange(LONGEST_MS)
        kind = "sleep"
        for name, share in (("fail", FAILING), ("large", LARGE_SHARE), ("orphan", ORPHANS)):
            if chance < share and name in self.kinds:
                kind = name
                break
            chance -= share
        return kind, [ms, LARGE] if kind == "large" else [ms, f"{ms / 1e3:.3f}"]

    def settle(self, backend: Backend, notes: Sequence[Path]) -> None:
        """Waits until each open job has ended, and checks and closes them all."""
        deadline = time.monotonic() + SETTLE_PATIENCE
        while True:
            self.take_stock(backend, notes)
            if not self.open:
                self.recent = 0
                self.done.clear()
                return
            if time.monotonic() > deadline:
                left = [ident for ident in self.open][:5]
                raise Failed(f"{len(self.open)} jobs have not ended within {SETTLE_PATIENCE:.0f} s, among them {left}")
            time.sleep(LOOK_EVERY)

    def take_stock(self, backend: Backend, notes: Sequence[Path]) -> None:
        """Checks and closes the jobs that have ended."""
        found = jobs_of(backend, self.recent)
        self._read_notes(notes)
        for ident, kind in list(self.open.items()):
            job = found.get(ident)
            if job is None:
                self._broken("lost", f"{ident}: the backend does not know it")
            elif job["state"] in ("completed", "discarded", "cancelled"):
                self._close(ident, kind, job)
            else:
                continue
            del self.open[ident]

    def _close(self, ident: str, kind: str, job: Dict[str, Any]) -> None:
        errors = job.get("errors", [])
        meant = "discarded" if kind == "fail" else "completed"
        self.totals[job["state"]] += 1
        self.totals["deliveries that ended with an error"] += len(errors)
        if job["state"] != meant:
            self._broken("lost", f"{ident}: {job['state']}, and not {meant}: {errors[-1:]}")
        # Each error is an attempt that may have been run to its end before.
        if self.done[ident] > 1 + len(errors):
            self._broken("doubled", f"{ident}: done {self.done[ident]} times, with {len(errors)} errors")

    def _broken(self, how: str, what: str) -> None:
        self.totals[how] += 1
        print(f"    {how}: {what}", flush=True)

    def _read_notes(self, notes: Sequence[Path]) -> None:
        """The jobs that workers have noted since the last time; a half line is for the next time."""
        for path in notes:
            with open(path) as lines:
                lines.seek(self.read.get(path, 0))
                text = lines.read()
            whole = text[: text.rfind("\n") + 1]
            self.read[path] = self.read.get(path, 0) + len(whole)
            self.done.update(job for job in map(noted, whole.splitlines()) if job)

    def give_up(self) -> None:
        """The backend is gone with its jobs."""
        self.totals["lost with their backend"] += len(self.open)
        self.open.clear()


def noted(line: str) -> Optional[str]:
    """The job that a line of a worker's notes says to be done: its id alone, or as the journal of a gateway's worker has it."""
    words = line.split()
    if len(words) == 1:
        return words[0]
    return words[2] if words[1] == "acked" else None


def jobs_of(backend: Backend, most: int) -> Dict[str, Dict[str, Any]]:
    """The newest jobs of the backend."""
    found: Dict[str, Dict[str, Any]] = {}
    for offset in range(0, most, PAGE):
        page = backend.ask(f"/ojs/v1/jobs?limit={PAGE}&offset={offset}")["jobs"]
        found.update((job["id"], job) for job in page)
        if len(page) < PAGE:
            break
    return found


def post(address: str, path: str, body: str) -> Optional[int]:
    """The status of the answer; None without one."""
    connection = http.client.HTTPConnection(address, timeout=2.0)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def uuid7(chance: random.Random) -> str:
    bits = (time.time_ns() // 10**6) << 80 | 7 << 76 | chance.getrandbits(12) << 64 | 2 << 62 | chance.getrandbits(62)
    return str(uuid.UUID(int=bits))
