"""The least that a worker can do: what is measured is the client."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ojs_worker import Job, Worker  # noqa: E402

worker = Worker()


@worker.job("bench.noop")
def noop(job: Job) -> None:
    return None


worker.run()
