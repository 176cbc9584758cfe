"""A worker in 20 lines. Start it with: ojs-init -- python3 examples/python/worker.py"""

import sys
from pathlib import Path

# In your own project, install it instead: pip install ./clients/python
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "clients" / "python"))
from ojs_worker import Job, Worker  # noqa: E402

worker = Worker()


@worker.job("email.send")
def send(job: Job) -> dict[str, str]:
    to, seconds = [*job.args, 0.1][:2]
    job.progress(0.0, "connecting")
    job.cancelled.wait(seconds)  # pretends to send
    job.raise_if_cancelled()
    return {"sent_to": to}


if __name__ == "__main__":
    worker.run()
