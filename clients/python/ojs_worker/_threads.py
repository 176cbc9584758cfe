"""The worker whose handlers are functions, run on threads."""

from __future__ import annotations

import contextvars
import queue
import threading
from typing import Any, Callable, Dict

from ._basics import log
from ._errors import Release
from ._jobs import Job, drive
from ._link import Link, socket_path
from ._perform import Outcome, Performance
from ._processes import stopped_by_signals
from ._session import Session
from ._worker import BaseWorker


class Threads:
    """Daemon threads, started as they are needed: one that hangs does not keep the process from
    ending."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._count = 0

    def start(self, session: Session, job: Job) -> None:
        """Run the handler of a job."""
        with self._lock:
            self._unfinished += 1
            needs_thread = self._count < min(self._unfinished, session.concurrency)
        try:
            if needs_thread:
                threading.Thread(target=self._run, name=f"ojs-job-{self._count + 1}", daemon=True).start()
                self._count += 1
        except RuntimeError as error:
            log.error("%s; there are %d", error, self._count)
            if not self._count:
                return session.answer(job, None, Release("no thread can be started"))
        # What a job sets in a context variable must not be seen by the next job of its thread.
        self._work.put(lambda: contextvars.copy_context().run(drive, session.run(job)))

    def _run(self) -> None:
        while True:
            self._work.get()()
            with self._lock:
                self._unfinished -= 1


class Worker(BaseWorker[Job]):
    """A worker whose handlers are functions, run on up to `concurrency` threads."""

    _job_class = Job

    def _new_session(self, link: Link) -> Session:
        session = Session(link, self._registry, self._shared(), self._most)
        session.make = _make
        session.start = Threads().start
        return session

    def _run(self) -> None:
        link = Link()
        session = self._session = self._new_session(link)
        with stopped_by_signals(session.stop, self._handles_signals):
            link.connect(socket_path(self._socket_path))
            self._serve(session)
        session.check_end()

    def _perform(self, performance: Performance, patience: float) -> Outcome:
        performance.start(self._new_session(performance))
        return performance.wait(patience)


def _make(session: Session, envelope: Dict[str, Any], checkpoint: Any) -> Job:
    return Job(envelope, checkpoint, session.shared, session.send)
