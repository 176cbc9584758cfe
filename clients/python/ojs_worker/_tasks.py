"""The worker whose handlers are coroutines, run on an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from typing import Any, Dict, Set

from ._jobs import AnyJob, AsyncEvent, AsyncJob
from ._link import Link, socket_path
from ._outcome import settle
from ._perform import Outcome, Performance
from ._processes import stopped_by_signals
from ._session import LOST_GRACE, Session
from ._worker import BaseWorker


class Tasks:
    """The tasks of an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: Set[asyncio.Task[None]] = set()

    def make(self, session: Session, envelope: Dict[str, Any], checkpoint: Any) -> AsyncJob:
        """The job for a handler."""

        async def send(data: bytes, job: AnyJob) -> None:
            if not session.send(data, job, waits=False):
                await asyncio.to_thread(session.send, data, job)

        return AsyncJob(envelope, checkpoint, session.shared, send, loop=self._loop)

    def start(self, session: Session, job: AsyncJob) -> None:
        """Run the handler of a job."""
        self._loop.call_soon_threadsafe(self._spawn, session, job)

    def _spawn(self, session: Session, job: AsyncJob) -> None:
        job.stopping = AsyncEvent()
        if session.shared.state == "terminate":
            job.stopping.set()

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not job._is_over:  # It was cancelled before.
                session.answer(job, None, settle(job, asyncio.CancelledError()))

        job._task = self._loop.create_task(session.run(job))
        self._tasks.add(job._task)
        job._task.add_done_callback(ended)

    def cancel_all(self) -> None:
        """Cancel the handlers."""
        for task in list(self._tasks):
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(task.cancel)


class AsyncWorker(BaseWorker[AsyncJob]):
    """A worker whose handlers are ``async def`` functions, up to `concurrency` of them at once on
    one event loop.

    The socket has threads of its own: a handler that blocks the loop delays other handlers, but no
    answer to a ping.
    """

    _job_class = AsyncJob

    async def serve(self) -> None:
        """`run`, in an event loop that runs already. If it is cancelled, so are the handlers."""
        self._check_runnable()
        link = Link()
        session = self._session = self._new_session(link)
        with stopped_by_signals(session.stop, self._handles_signals):
            link.connect(socket_path(self._socket_path))
            try:
                await asyncio.to_thread(self._serve, session)
            except asyncio.CancelledError:
                session.stop()
                session.cancel_all()
                await asyncio.sleep(LOST_GRACE)
                raise
        session.check_end()

    def _new_session(self, link: Link) -> Session:
        session, tasks = Session(link, self._registry, self._shared(), self._most), Tasks()
        session.make, session.start, session.cancel_all = tasks.make, tasks.start, tasks.cancel_all
        return session

    def _run(self) -> None:
        asyncio.run(self.serve())

    def _perform(self, performance: Performance, patience: float) -> Outcome:
        async def perform() -> Outcome:
            performance.start(self._new_session(performance))
            return await asyncio.to_thread(performance.wait, patience)

        # On a thread of its own, because the test may be in an event loop.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, perform()).result()
