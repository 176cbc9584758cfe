"""A worker for the Open Job Spec that runs under ojs-init. Standard library only, Python 3.9 or later.

    from ojs_worker import Worker

    worker = Worker()

    @worker.job("email.send")
    def send(to: str, body: str = "hi") -> dict[str, str]:
        return {"sent_to": to}

    if __name__ == "__main__":
        worker.run()

Start it with ``ojs-init -- python3 worker.py``.
"""

from ._handlers import Depends
from ._client import Client
from ._basics import (
    Cancelled, CheckpointTooLarge, ConnectionLost, Discard, Duplicate, EnqueueError, ForkedProcess, HandlerNotFound,
    InvalidArgs, NotUnderOjsInit, OjsError, ProtocolError, Release, Retry, StepsChanged, __version__,
)  # fmt: skip
from ._jobs import AsyncJob, Job
from ._logs import ContextFilter, LogFormatter, current_job, install_logging
from ._worker import AsyncWorker, Outcome, Worker

__all__ = [
    "AsyncJob", "AsyncWorker", "Cancelled", "CheckpointTooLarge", "Client", "ConnectionLost", "ContextFilter", "Depends",
    "Discard", "Duplicate", "EnqueueError", "ForkedProcess", "HandlerNotFound", "InvalidArgs", "Job", "LogFormatter",
    "NotUnderOjsInit", "OjsError", "Outcome", "ProtocolError", "Release", "Retry", "StepsChanged", "Worker",
    "__version__", "current_job", "install_logging",
]  # fmt: skip
