"""The worker of mode socket in a soak, with the Python client. It notes each job that it has done."""

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients" / "python"))
from ojs_worker import Job, Worker  # noqa: E402

NOTES = os.open(os.environ["SOAK_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

# A daemon that is an orphan at once and lives for a moment.
ORPHAN = ["/bin/sh", "-c", "(sleep 0.2 &)"]

# Seconds in a millisecond.
MS = 1e-3

worker = Worker(concurrency=int(os.environ["OJS_CONCURRENCY"]))


def done(job: Job) -> None:
    os.write(NOTES, f"{job.id}\n".encode())


@worker.job("sleep")
def sleep(job: Job) -> dict:
    time.sleep(job.args[0] * MS)
    done(job)
    return {"slept": job.args[0]}


@worker.job("large")
def large(job: Job) -> str:
    time.sleep(job.args[0] * MS)
    done(job)
    return "x" * job.args[1]


@worker.job("fail")
def fail(job: Job) -> None:
    time.sleep(job.args[0] * MS)
    raise ValueError("failed as told")


@worker.job("orphan")
def orphan(job: Job) -> None:
    subprocess.run(ORPHAN, check=True)
    done(job)


@worker.job("memory")
def memory(job: Job) -> int:
    """Needs so many bytes; a MemoryError fails the job."""
    size = len(bytearray(job.args[0]))
    done(job)
    return size


if __name__ == "__main__":
    worker.run()
