"""A worker for the Open Job Spec that runs under ojs-init.

Standard library only, Python 3.9 or later. ojs-init talks to the backend: it fetches, heartbeats, acknowledges and
shuts down. This package takes jobs from it over the Unix socket ``$OJS_SOCKET`` and runs a function of yours for each::

    from ojs_worker import Job, Worker

    worker = Worker()

    @worker.job("email.send")
    def send(job: Job) -> dict[str, str]:
        return {"sent_to": job.args[0]}

    if __name__ == "__main__":
        worker.run()

Start it with ``ojs-init -- python3 worker.py``.

How it works: one thread, the one that calls :meth:`Worker.run`, reads and writes the socket and never waits for
anything else, so a ping is answered and a cancellation noticed whatever the handlers do. Handlers run on threads of
their own (:class:`Worker`) or as tasks of an event loop (:class:`AsyncWorker`).
"""

from ._errors import (
    Cancelled,
    CheckpointTooLarge,
    ConnectionLost,
    Discard,
    ForkedProcess,
    InvalidArgs,
    NotUnderOjsInit,
    OjsError,
    ProtocolError,
    Release,
    Retry,
    Stalled,
    StepsChanged,
)
from ._jobs import AsyncJob, Job
from ._limits import __version__
from ._log import log as log
from ._logs import ContextFilter, LogFormatter, current_job, install_logging
from ._perform import Outcome
from ._tasks import AsyncWorker
from ._threads import Worker

__all__ = [
    "AsyncJob",
    "AsyncWorker",
    "Cancelled",
    "CheckpointTooLarge",
    "ConnectionLost",
    "ContextFilter",
    "Discard",
    "ForkedProcess",
    "InvalidArgs",
    "Job",
    "LogFormatter",
    "NotUnderOjsInit",
    "OjsError",
    "Outcome",
    "ProtocolError",
    "Release",
    "Retry",
    "Stalled",
    "StepsChanged",
    "Worker",
    "__version__",
    "current_job",
    "install_logging",
]
