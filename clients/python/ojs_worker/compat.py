"""The names of the Open Job Spec's Python SDK for workers, so that its workers move here with few changed lines.

    import ojs_worker.compat as ojs

    worker = ojs.Worker("http://localhost:8080", queues=["mail"], concurrency=10)

    @worker.register("email.send")
    async def send(ctx: ojs.JobContext) -> object:
        return {"sent_to": ctx.args[0]}

    asyncio.run(worker.start())

What ojs-init does instead is ignored: the address and the queues are its own, OJS_URL and OJS_QUEUES. Where the program says something
else, there is a warning. What is about enqueueing (Client, JobRequest, RetryPolicy, the SDK's errors ...) is not here: it is taken from
the SDK, which goes on working beside this package, and where the SDK is not installed the error says so.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import inspect
import os
from typing import Any, Awaitable, Callable, Dict, Iterator, List, Optional, Sequence, Union

from ._jobs import AnyJob, AsyncJob
from ._json import typed
from ._log import log
from ._tasks import AsyncWorker

__all__ = ["Job", "JobContext", "JobState", "Worker", "WorkerState"]

Handler = Callable[["JobContext"], Any]
Middleware = Callable[["JobContext", Callable[[], Awaitable[Any]]], Any]

_SDK = "ojs"
_OF_THE_SDK = frozenset((
    "Client", "DuplicateJobError", "EnqueueMiddleware", "ErrorCodeEntry", "Event", "EventType", "ExecutionMiddleware",
    "JobNotFoundError", "JobRequest", "OJSAPIError", "OJSConnectionError", "OJSError", "OJSTimeoutError", "OJSValidationError",
    "Queue", "QueuePausedError", "QueueStats", "RateLimitInfo", "RateLimitedError", "RetryConfig", "RetryPolicy", "SyncClient",
    "UniquePolicy", "Workflow", "WorkflowDefinition", "WorkflowStep", "batch", "chain", "group", "report_progress",
))  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _OF_THE_SDK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        sdk = importlib.import_module(_SDK)
    except ImportError:
        # No AttributeError: `from ... import` would hide what it says.
        raise ImportError(
            f"{__name__} has what workers need; {name} is of the SDK's other side: install the Open Job Spec's SDK, "
            f"whose module is {_SDK} (what is called {_SDK} on PyPI is something else), whose client goes on working beside this package"
        ) from None
    return getattr(sdk, name)


class JobState(str, enum.Enum):
    """Where a job is."""

    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    PENDING = "pending"
    ACTIVE = "active"
    COMPLETED = "completed"
    RETRYABLE = "retryable"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"

    @property
    def is_terminal(self) -> bool:
        """Whether it stays there."""
        return self in (JobState.COMPLETED, JobState.CANCELLED, JobState.DISCARDED)


class WorkerState(str, enum.Enum):
    """What `worker.state` is equal to."""

    IDLE = "idle"
    RUNNING = "running"
    QUIET = "quiet"
    TERMINATE = "terminate"


@dataclasses.dataclass
class Job:
    """The job as the SDK has it. `retry` and `unique` are as the backend sent them."""

    id: str
    type: str
    state: Union[JobState, str] = JobState.ACTIVE
    args: List[Any] = dataclasses.field(default_factory=list)
    queue: str = "default"
    meta: Dict[str, Any] = dataclasses.field(default_factory=dict)
    priority: int = 0
    attempt: int = 0
    max_attempts: int = 3
    timeout_ms: Optional[int] = None
    tags: List[str] = dataclasses.field(default_factory=list)
    retry: Optional[Dict[str, Any]] = None
    unique: Optional[Dict[str, Any]] = None
    created_at: Optional[datetime.datetime] = None
    enqueued_at: Optional[datetime.datetime] = None
    started_at: Optional[datetime.datetime] = None
    completed_at: Optional[datetime.datetime] = None
    scheduled_at: Optional[datetime.datetime] = None
    expires_at: Optional[datetime.datetime] = None
    result: Any = None
    errors: List[Dict[str, Any]] = dataclasses.field(default_factory=list)


def _job_of(job: AnyJob) -> Job:
    said = job.envelope
    known: Dict[str, Any] = {}
    for name, kind in (("priority", int), ("max_attempts", int), ("timeout_ms", int), ("tags", list), ("errors", list)):
        if typed(said.get(name), kind, None) is not None:
            known[name] = said[name]
    for name in ("retry", "unique"):
        known[name] = typed(said.get(name), dict, None)
    for name in ("created_at", "enqueued_at", "started_at", "completed_at", "scheduled_at", "expires_at"):
        known[name] = _moment_of(said.get(name))
    state = typed(said.get("state"), str, "active")
    with_state = JobState(state) if state in JobState._value2member_map_ else state
    known.update(state=with_state, args=job.args, queue=job.queue, meta=job.meta, attempt=job.attempt or 0)
    return Job(job.id, job.type, result=said.get("result"), **known)


def _moment_of(text: Any) -> Optional[datetime.datetime]:
    try:
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, ValueError):  # none, or one that this Python cannot read
        return None


class JobContext:
    """What a handler of the SDK is given."""

    def __init__(self, job: AsyncJob) -> None:
        self._job = job
        self._is_marked = False
        self.job = _job_of(job)
        """The whole job."""
        self.job_id = job.id
        self.job_type = job.type
        self.queue = job.queue
        self.attempt = max(1, job.attempt or 0)
        self.args: List[Any] = job.args
        self.meta: Dict[str, Any] = job.meta
        self.parent_results: Any = job.envelope.get("parent_results") or []
        """Results of the jobs before it in a workflow, as the backend gives them."""

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more."""
        return self._is_marked or self._job.is_cancelled

    def cancel(self) -> None:
        """Let `is_cancelled` be true for whoever looks."""
        self._is_marked = True

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
        """Say which handler a job type has. The last one that is said counts."""
        if self._handlers.pop(job_type, None) is not None:
            log.warning("another handler takes the place of that for %s", job_type)

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

    def stop(self) -> Any:
        """Take no more jobs, finish those that are held, then let `start` return. It may be awaited, as the SDK's."""
        super().stop()
        return _Done()

    async def shutdown(self) -> None:
        """The same as `stop`."""
        self.stop()


class _Done:
    """Nothing to wait for."""

    def __await__(self) -> Iterator[None]:
        return iter(())


def _context_of(job: AsyncJob) -> JobContext:
    """One for each attempt, the same for middleware and handler."""
    context = job.context.get(JobContext.__name__)
    if not isinstance(context, JobContext):
        context = job.context[JobContext.__name__] = JobContext(job)
    return context
