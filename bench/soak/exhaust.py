"""What a container can run out of: each is used up, held so, and given back. ojs-init goes on, and no job is lost."""

import os
import random
import resource
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence

import proc
from part import Say
from processes import Backend, Failed, Programs, Scene
from soak.group import HANDLER, ROOT, SETTINGS
from soak.instance import Instance, limit
from soak.ledger import Ledger

# Jobs a second, and how long a resource stays used up, in seconds.
RATE, HELD_S = 10.0, 12.0

# Time before and after in which jobs are done, in seconds.
WORK_S = 4.0

# Longest wait for jobs to be done again, in seconds.
PATIENCE = 60.0

# A user that has no other process.
NOBODY = 64_990

# Bytes that a job needs, and the room that the worker's memory has beyond what it has taken.
NEEDED, ROOM = 300 << 20, 100 << 20

# Size of the small disk.
DISK = "512k"

# Descriptors, threads or timers that may be more than before: connections are kept for a while.
MORE = 8

WORKER = ["--", sys.executable, str(ROOT / "bench" / "soak" / "worker.py")]


class Stage:
    """One instance at work, and what it is short of."""

    def __init__(self, scene: Scene, command: Sequence[str], kinds: Sequence[str] = (), **more: Any) -> None:
        self.backend = scene.backend()
        host = self.backend.address.replace("127.0.0.1", "localhost")
        settings = {**SETTINGS, "OJS_URL": f"http://{host}"}
        self.instance = Instance(scene, "instance", command, **{**settings, **more})
        self.ledger = Ledger(self.backend.address, kinds, random.Random(1))
        scene.until("the worker to register", lambda: self.backend.workers() >= 1)
        self.scene = scene

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Jobs come in all the time."""
        ends = threading.Event()

        def feed() -> None:
            while not ends.wait(1 / RATE):
                self.ledger.enqueue()

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()

    def completed(self) -> int:
        return int(Backend(self.backend.address).ask("/ojs/v1/jobs?limit=1")["counts"].get("completed", 0))

    def until_jobs_go_on(self) -> float:
        """Waits for more completed jobs than now; gives the seconds."""
        began, before = time.monotonic(), self.completed()
        while self.completed() <= before:
            self.instance.expect_alive()
            if time.monotonic() - began > PATIENCE:
                raise Failed(f"no job is done {PATIENCE:.0f} s after all was given back\n{self.instance.log.end()}")
            time.sleep(0.1)
        return time.monotonic() - began

    def close_connections(self) -> None:
        """The backend ends every connection at its next request, so that new ones are needed."""
        for operation in ("fetch", "ack", "heartbeat", "events"):
            self.backend.fault(fault="close", operation=operation, for_ms=2_000)


def play(what: str, stage: Stage, use_up: Callable[[], Any], give_back: Callable[[], None], word: bytes) -> Dict[str, Any]:
    """One resource: work, none of it left, given back, work; then every job is accounted for."""
    instance = stage.instance
    instance.log.words[word] = 0
    with stage.at_work():
        time.sleep(WORK_S)
        stage.until_jobs_go_on()
        before = {**instance.kernel(), **instance.tables()}
        did = stage.completed()
        use_up()
        time.sleep(HELD_S)
        instance.expect_alive()
        meanwhile = stage.completed() - did
        give_back()
        again = stage.until_jobs_go_on()
        time.sleep(WORK_S)
    stage.ledger.settle(Backend(stage.backend.address), [instance.notes])
    stage.scene.until("the tables to be empty", lambda: instance.tables()["jobs"] == 0)
    time.sleep(2.0)
    after = {**instance.kernel(), **instance.tables()}
    totals = dict(stage.ledger.totals)
    row = {
        "what": what,
        "held_s": HELD_S,
        "log_lines": instance.log.words[word],
        "done_meanwhile": meanwhile,
        "again_s": round(again, 1),
        "before": before,
        "after": after,
        "jobs": totals,
    }
    if totals.get("lost") or totals.get("doubled") or not totals.get("completed"):
        raise Failed(f"{what}: {totals}")
    if not instance.log.words[word]:
        raise Failed(f"{what}: it was not used up, because no line of the log has {word.decode()!r}")
    grown = {name: (before[name], after[name]) for name in ("descriptors", "threads", "timers") if after[name] > before[name] + MORE}
    if grown:
        raise Failed(f"{what}: more than before: {grown}")
    return row


def ended(row: Dict[str, Any], stage: Stage) -> Dict[str, Any]:
    row["exit"] = stage.instance.stop()
    if row["exit"]["status"] != 0:
        raise Failed(f"{row['what']}: exit status {row['exit']['status']}")
    return row


def descriptors(programs: Programs) -> Dict[str, Any]:
    """No descriptor is left to ojs-init, and every connection of it is closed."""
    with Scene(programs) as scene:
        stage = Stage(scene, WORKER)
        pid, kept = stage.instance.pid, []

        def use_up() -> None:
            # Every number below it is taken, so each further descriptor is refused.
            kept.append(limit(pid, resource.RLIMIT_NOFILE, 3))
            stage.close_connections()

        give_back = lambda: drop(limit(pid, resource.RLIMIT_NOFILE, kept[0]))  # noqa: E731
        row = play("descriptors of ojs-init", stage, use_up, give_back, b"no descriptor is free")
        return ended(row, stage)


def processes(programs: Programs) -> Dict[str, Any]:
    """No process and no thread is left to the user that ojs-init runs as, in mode exec."""
    with Scene(programs) as scene:
        scene.place.chmod(0o755)
        prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        # Its user has to be able to write into the directory that is made for it.
        os.umask(0)
        command = ["--mode", "exec", "--", "/bin/sh", "-c", HANDLER, "sh", "{args.1}"]
        stage = Stage(scene, command, prefix=prefix)
        os.umask(0o022)
        runner = stage.instance.worker()
        assert runner is not None
        before = resource.getrlimit(resource.RLIMIT_NPROC)[0]

        def most(number: int) -> None:
            for pid in (stage.instance.pid, runner):
                # As that user: root may need a capability for the limits of another one.
                command = ["prlimit", f"--pid={pid}", f"--nproc={number}:"]
                subprocess.run(command, check=True, user=NOBODY, group=NOBODY, extra_groups=[])

        row = play("processes and threads of its user, mode exec", stage, lambda: most(1), lambda: most(before), b"cannot be started now")
        return ended(row, stage)


def memory(programs: Programs) -> Dict[str, Any]:
    """The worker gets no more memory: jobs that need it fail, and are done when there is some."""
    with Scene(programs) as scene:
        stage = Stage(scene, WORKER)
        worker = stage.instance.worker()
        assert worker is not None
        kept: List[int] = []

        def use_up() -> None:
            taken = int(proc.status(worker)["VmSize"].split()[0]) << 10
            kept.append(limit(worker, resource.RLIMIT_AS, taken + ROOM))
            for _ in range(5):
                stage.ledger.enqueue_one("memory", [NEEDED])

        give_back = lambda: drop(limit(worker, resource.RLIMIT_AS, kept[0]))  # noqa: E731
        row = play("memory of the worker", stage, use_up, give_back, b"memoryerror")
        return ended(row, stage)


def disk(programs: Programs) -> Dict[str, Any]:
    """The disk of the log and of the termination log is full."""
    with Scene(programs) as scene, small_disk(scene.place / "disk") as place:
        log, filler, end = place / "log", place / "filler", place / "termination-log"
        end.touch()
        with open(log, "ab") as file:
            stage = Stage(scene, WORKER, stderr=file.fileno(), OJS_TERMINATION_LOG=str(end))
        instance = stage.instance

        row = play("disk of the log", stage, lambda: fill(filler), lambda: back(instance, filler, log), b"no space left on device")
        # Full once more: the end must not hang on the termination log.
        fill(filler)
        row["termination_log_bytes"] = end.stat().st_size
        return ended(row, stage)


def back(instance: Instance, filler: Path, log: Path) -> None:
    """Gives the disk back, and waits for the log to say what was dropped."""
    before = log.stat().st_size
    filler.unlink()
    instance.scene.until("the log to go on", lambda: log.stat().st_size > before)
    said = lambda: log.read_bytes().lower().count(b"no space left on device")  # noqa: E731
    instance.log.words[b"no space left on device"] = instance.scene.until("the log to say what was dropped", said)


def fill(path: Path) -> None:
    """Writes until there is no room."""
    with open(path, "ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def drop(_: Any) -> None:
    """Turns a value into none."""


CASES = (descriptors, processes, memory, disk)


def measure(programs: Programs, _: Any, say: Say) -> List[Any]:
    rows = []
    for case in CASES:
        row = case(programs)
        say(
            f"{row['what']}: {row['log_lines']} lines of the log, {row['done_meanwhile']} jobs done meanwhile, "
            f"again after {row['again_s']} s; {row['jobs']}"
        )
        rows.append(row)
    return rows
