"""The names of the Open Job Spec's Python SDK, so that its workers move here with few changed lines.

    import ojs_worker.compat as ojs

    worker = ojs.Worker("http://localhost:8080", queues=["mail"], concurrency=10)

    @worker.register("email.send")
    async def send(ctx: ojs.JobContext) -> object:
        return {"sent_to": ctx.args[0]}

    asyncio.run(worker.start())

What ojs-init does instead is ignored: the address and the queues are its own, OJS_URL and OJS_QUEUES. Where the program says something
else, there is a warning.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Awaitable, Callable, Dict, List, Optional, Sequence

from ._jobs import AsyncJob
from ._log import log
from ._tasks import AsyncWorker

__all__ = ["JobContext", "Worker"]

Handler = Callable[["JobContext"], Any]
Middleware = Callable[["JobContext", Callable[[], Awaitable[Any]]], Any]


class JobContext:
    """What a handler of the SDK is given."""

    def __init__(self, job: AsyncJob) -> None:
        self._job = job
        self.job: Dict[str, Any] = job.envelope
        """The whole job."""
        self.job_id = job.id
        self.job_type = job.type
        self.queue = job.queue
        self.attempt = job.attempt
        self.args: List[Any] = job.args
        self.meta: Dict[str, Any] = job.meta
        self.parent_results: Dict[str, Any] = job.envelope.get("parent_results") or {}
        """Results of the jobs before it in a workflow, as the backend gives them."""

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self._job.cancel_reason is not None

    async def heartbeat(self) -> None:
        """ojs-init sends them by itself; this one is sent now."""
        await self._job.heartbeat()

    async def progress(self, progress: float, message: Optional[str] = None, data: Any = None) -> None:
        """How far it is, from 0.0 to 1.0."""
        await self._job.progress(progress, message, data)

    async def checkpoint(self, state: Any) -> None:
        """Save where the next attempt shall go on."""
        await self._job.checkpoint(state)

    @property
    def last_checkpoint(self) -> Any:
        """What an earlier attempt saved."""
        return self._job.last_checkpoint


class Worker(AsyncWorker):
    """The SDK's worker, run by ojs-init. Other options of the SDK's are ignored with a warning."""

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        queues: Optional[Sequence[str]] = None,
        concurrency: Optional[int] = None,
        **others: Any,
    ) -> None:
        super().__init__(concurrency)
        self._warn_of("the address", url, "OJS_URL")
        self._warn_of("the queues", None if queues is None else ",".join(queues), "OJS_QUEUES")
        if others:
            log.warning("ojs-init decides about these, they are ignored: %s", ", ".join(sorted(others)))

    @staticmethod
    def _warn_of(what: str, said: Optional[str], variable: str) -> None:
        known = os.environ.get(variable)
        if said is not None and (known or "").rstrip("/") != said.rstrip("/"):
            log.warning("%s of the program, %s, is ignored: %s of ojs-init counts (%s)", what, said, variable, known or "not set")

    def register(self, job_type: str) -> Callable[[Handler], Handler]:
        """Decorate the handler of a job type."""

        def decorate(handler: Handler) -> Handler:
            self.handler(job_type, handler)
            return handler

        return decorate

    def handler(self, job_type: str, handler: Handler) -> None:
        """Say which handler a job type has."""

        async def call(job: AsyncJob) -> Any:
            result = handler(_context_of(job))
            return await result if inspect.isawaitable(result) else result

        self.job(job_type)(call)

    def middleware(self, function: Any) -> Any:
        """Decorate a function that stands around every handler: it gets the context and ``next``."""

        async def around(job: AsyncJob, call_next: Callable[[], Awaitable[Any]]) -> Any:
            result = function(_context_of(job), call_next)
            return await result if inspect.isawaitable(result) else result

        super().middleware(around)
        return function

    async def start(self) -> None:
        """Take jobs until ojs-init says that it is enough."""
        await self.serve()

    async def shutdown(self) -> None:
        """Take no more jobs, finish those that are held."""
        self.stop()


def _context_of(job: AsyncJob) -> JobContext:
    """One for each attempt, the same for middleware and handler."""
    context = job.context.get(JobContext.__name__)
    if not isinstance(context, JobContext):
        context = job.context[JobContext.__name__] = JobContext(job)
    return context
