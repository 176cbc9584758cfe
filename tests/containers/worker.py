"""The worker of the container tests. Whoever runs a job holds a lock of the file system that the containers share, which the
kernel gives back with the process; two that run one job at once leave a note there.
"""

import fcntl
import os
import signal
import threading
import time
from pathlib import Path

from ojs_worker import Job, Worker

JOURNAL = os.environ.get("JOURNAL")
# With DEAF it does not care for SIGTERM either.
DEAF = "DEAF" in os.environ
worker = Worker(concurrency=10, handle_signals=not DEAF)
forever = threading.Event()


def note(word: str) -> None:
    if JOURNAL:
        with open(Path(JOURNAL) / "notes", "a", encoding="utf-8") as file:
            file.write(f"{word}\n")


def hold(job: Job):
    """The lock of this job, or none where nothing is shared."""
    if not JOURNAL:
        return None
    lock = open(Path(JOURNAL) / f"{job.id}.lock", "a", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(f"twice {job.id}")
    return lock


@worker.job("sleep")
def sleep(job: Job) -> object:
    """Takes so many seconds and does not care about anything."""
    lock = hold(job)
    time.sleep(job.args[0])
    note(f"done {job.id}")
    if lock:
        lock.close()
    return "slept"


@worker.job("stuck")
def stuck(job: Job) -> None:
    """Never ends, and neither does its process when it is asked to."""
    hold(job)
    forever.wait()


@worker.job("until_let_go")
def until_let_go(job: Job) -> None:
    """Ends when the test says so."""
    while not (Path(JOURNAL) / "let go").exists():
        time.sleep(0.01)


@worker.job("obeys")
def obeys(job: Job) -> None:
    """Ends when it is cancelled."""
    job.cancelled.wait()
    job.raise_if_cancelled()


@worker.job("grow")
def grow(job: Job) -> None:
    """Takes memory until there is none; all at once: who takes it bit by bit has the kernel take back everybody's code first,
    and on a busy machine nobody in the container gets anywhere for half a minute."""
    assert len(b"x" * (1 << 28)) == 0, "there was enough"


def heard(number: int, _frame: object) -> None:
    note(f"signal {signal.Signals(number).name}")


if __name__ == "__main__":
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
        signal.signal(number, heard)
    if DEAF:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    worker.run()
