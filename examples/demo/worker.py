"""The demo's worker: it pretends to send mail, and one kind of its jobs never ends.

What it prints is what it saw; the demo shows that beside what the backend saw.
"""

import logging
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients" / "python"))
from ojs_worker import Job, Worker  # noqa: E402

worker = Worker(concurrency=3)


@worker.job("email.send")
def send(job: Job) -> dict[str, str]:
    seconds, to = job.args
    threading.Event().wait(seconds)
    return {"sent_to": to}


@worker.job("report.build")
def build(job: Job) -> None:
    job.cancelled.wait()
    print(f"told to cancel {job.type} ({job.cancel_reason}), and goes on", flush=True)
    threading.Event().wait(3600)


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    worker.run()
