"""The workers of a program: their handlers, and the session that runs them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import functools
import json
import logging
import os
import queue
import signal
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Iterator, List, Optional
from typing import Protocol, Sequence, Tuple, Type, TypeVar, overload

from ._basics import F, Default, OjsError, Release, check_count, checks_options, frame, jsonable, log
from ._client import Client
from ._handlers import Handler, P, R, Registry
from ._jobs import AnyJob, AsyncEvent, AsyncJob, Job, drive
from ._processes import SIGNALS, Processes, handled
from ._session import LOST_GRACE, PROTOCOL, Link, Session, jobs_at_once, socket_path

J = TypeVar("J", bound=AnyJob)

if TYPE_CHECKING:
    from typing_extensions import Concatenate

    JC = TypeVar("JC", covariant=True)

    class Decorator(Protocol[JC]):
        """Makes a handler. Without the job its parameters are those of `enqueue`."""

        @overload
        def __call__(self, function: Callable[Concatenate[JC, P], R]) -> Handler[P, R]: ...
        @overload
        def __call__(self, function: Callable[P, R]) -> Handler[P, R]: ...


@dataclasses.dataclass
class Outcome:
    """What became of a job that `perform` ran."""

    outcome: str = ""
    """``"ack"``, ``"fail"`` or ``"release"``."""
    result: Any = None
    """The result, as the backend gets it: a tuple is a list."""
    error: Optional[Dict[str, Any]] = None
    """The failure, as the backend gets it."""
    reason: Optional[str] = None
    """The reason of a release."""
    checkpoints: List[Any] = dataclasses.field(default_factory=list)
    """The states that were saved, in order."""
    progress: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    """The reports, in order: `progress`, and `message` and `data` where given."""


class Performance(Link):
    """A job, and what happens while it runs: `cancels` are reasons, each with its seconds after the
    handler began. It takes the frames of the session in place of ojs-init."""

    def __init__(self, job: Dict[str, Any], checkpoint: Any, stopping: Any, cancels: List[Tuple[float, str]]) -> None:
        super().__init__()
        self._sock.close()
        self._job = json.loads(frame({"type": "job", "job": job, "checkpoint": checkpoint}))
        self._stopping, self._cancels = stopping, sorted(cancels)
        self._outcome = Outcome()
        self._is_answered = threading.Event()

    def start(self, session: Session) -> None:
        """Hand the job to the session."""
        self._session = session
        session.before_handler = self._before_handler
        session.on_frame({"type": "hello", "protocol": PROTOCOL, "concurrency": 1})
        session.on_frame(self._job)

    def wait(self, patience: float) -> Outcome:
        """The outcome, once the job is answered."""
        if not self._is_answered.wait(patience):
            raise OjsError(f"the handler has not ended within {patience:g} s (patience=)")
        return self._outcome

    def _before_handler(self, job: AnyJob) -> None:
        if self._stopping is not None:
            left = {"remaining_ms": self._stopping * 1000}
            self._session.on_frame({"type": "lifecycle", "state": "terminate", "reason": "perform", **left})
        for after, reason in self._cancels:
            cancel = {"type": "cancel", "job_id": job.id, "reason": reason}
            timer = threading.Timer(after, self._session.on_frame, [cancel])
            timer.daemon = True
            timer.start() if after else self._session.on_frame(cancel)

    def send(self, data: bytes, before: Optional[Callable[[], None]] = None, waits: bool = True) -> bool:
        """Take a frame. That never waits, and no thread would write later what is left to it."""
        return super().send(data, before)

    def _write(self, data: bytes, waits: bool) -> bool:
        for sent in map(json.loads, data.splitlines()):
            kind = sent.pop("type")
            if kind == "checkpoint":
                self._outcome.checkpoints.append(sent["state"])
            elif kind == "progress":
                self._outcome.progress.append({name: value for name, value in sent.items() if name != "job_id"})
            elif kind in ("ack", "fail", "release"):
                ends = {name: sent.get(name) for name in ("result", "error", "reason")}
                vars(self._outcome).update(outcome=kind, **ends)
                self._is_answered.set()
        return True


class BaseWorker(Generic[J]):
    """The part that `Worker` and `AsyncWorker` have in common."""

    _job_class: Type[J]
    _runner_class: Callable[[], Any]
    _perform: Callable[[Performance, float], Outcome]

    @checks_options()
    def __init__(
        self, concurrency: Optional[int] = None, *, json_default: Optional[Default] = None,
        client: Optional[Client] = None, handle_signals: bool = True, socket_path: Optional[str] = None, ping: bool = False,
    ) -> None:  # fmt: skip
        """Make a worker for at most `concurrency` jobs at once; by default as many as ojs-init
        allows.

        `json_default` converts objects that are not JSON in results, checkpoints and enqueued jobs,
        or raises TypeError. `client` enqueues. `handle_signals=False` leaves SIGTERM and SIGINT
        alone. `socket_path` is else ``$OJS_SOCKET``. With `ping` ojs-init also checks on the
        process while it works, and ends it after some 40 seconds without an answer: only for
        handlers that never keep the interpreter so long (a long `sorted`, an extension in C).
        """
        check_count("concurrency", concurrency)
        self.client = client or Client(json_default=json_default)
        """Enqueues the jobs of ``handler.enqueue``."""
        self._most = concurrency or 0
        self._default = functools.partial(jsonable, own=json_default)
        self._handles_signals, self._socket_path, self._ping = handle_signals, socket_path, bool(ping)
        self._registry = Registry(self._job_class, lambda: self.client)
        self._session: Optional[Session] = None
        self._processes: Optional[Processes] = None
        self._parent = 0
        """The process that forked this one; 0 in the first."""

    def job(self, *types: str, **options: Any) -> Decorator[J]:
        """Decorate the handler of these job types; ``"*"``, or no type, is for every other type.

        Its parameters are the job's arguments, in their order; a parameter that is annotated `Job`,
        or a first one that is named ``job``, gets the job. Arguments that do not fit the
        annotations fail the job for good (InvalidArgs). `options` are those of `Client.enqueue`,
        for the jobs that the handler itself enqueues.
        """
        if any(not isinstance(name, str) for name in types):
            raise TypeError('use it as @worker.job("some.type")')
        decorator: Any = lambda function: self._registry.add(types, function, options)  # noqa: E731
        return decorator  # type: ignore[no-any-return]

    def middleware(self, function: F) -> F:
        """Decorate a function around every handler, the first one outermost. It gets the job and
        ``call_next``, and returns what ``call_next()`` returns, or another result. It may raise
        what a handler may raise."""
        return self._registry.add_around("middleware", function)

    def on_failed(self, function: F) -> F:
        """Decorate a function (job, error) for every job that fails, of whatever kind, once for
        each attempt: errors of handlers, `Retry` and `Discard`, arguments that do not fit,
        timeouts, types without a handler."""
        return self._registry.add_around("on_failed", function)

    def on_completed(self, function: F) -> F:
        """Decorate a function (job, result) for every job that is done."""
        return self._registry.add_around("on_completed", function)

    @checks_options("worker.run")
    def run(self, processes: Optional[int] = None) -> None:
        """Take jobs until ojs-init, SIGTERM or `stop` ends the worker, and the jobs that it holds
        are answered.

        With `processes` so many are forked, which share the concurrency. Raises SystemExit where
        the process has to end with a status that is not 0.
        """
        check_count("processes", processes)
        self._check_runnable()
        if processes is None:
            return self._run()
        on_hello = lambda hello: jobs_at_once(hello, self._most, self._registry.types)  # noqa: E731
        self._processes = Processes(processes, Link(), on_hello, self._run_child)
        status = self._processes.run(socket_path(self._socket_path))
        if status:
            raise SystemExit(status)

    def stop(self) -> None:
        """Take no more jobs, finish those that are held, then let `run` return. From any thread,
        signal handler or process of the worker."""
        running = self._session or self._processes
        if self._parent and os.getppid() == self._parent:
            os.kill(self._parent, signal.SIGTERM)  # It passes that on to all processes.
        elif running is not None:
            running.stop()

    @checks_options("worker.perform")
    def perform(
        self, type: str, args: Sequence[Any] = (), *, id: str = "perform-1", queue: str = "default", attempt: int = 1,
        meta: Optional[Dict[str, Any]] = None, checkpoint: Any = None, timeout: Optional[float] = None,
        stopping: Optional[float] = None, cancel: Optional[str] = None, cancel_after: float = 0.0,
        envelope: Optional[Dict[str, Any]] = None, patience: float = 60.0,
    ) -> Outcome:  # fmt: skip
        """Run the handler of a job in this process, by the code that serves ojs-init. For tests.

        `checkpoint` is what an earlier attempt saved. After `timeout` seconds the job is cancelled.
        `stopping`: a shutdown begins with the handler, with so many seconds left. `cancel` is the
        reason of a cancel, `cancel_after` seconds after the handler began. `envelope` has further
        fields of the job. The handler has `patience` seconds.
        """
        if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
            raise TypeError(f"the arguments of a job are a list, not {args!r}")
        job = {"id": id, "type": type, "queue": queue, "attempt": attempt, "args": list(args), "meta": meta or {}}
        cancels = [(timeout, "timeout"), (stopping, "shutdown"), (cancel_after, cancel)]
        due = [(after, reason) for after, reason in cancels if after is not None and reason is not None]
        return self._perform(Performance({**job, **(envelope or {})}, checkpoint, stopping, due), patience)

    def _check_runnable(self) -> None:
        if self._session is not None or self._processes is not None:
            raise OjsError("a worker runs once; when it has ended, let the process end too")
        if self._registry.types == []:
            raise OjsError('no handler: decorate one with @worker.job("some.type")')
        socket_path(self._socket_path)

    def _new_session(self, link: Link) -> Session:
        return Session(link, self._registry, self._default, self._most, self._runner_class(), self._ping)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Session]:
        link = Link()
        session = self._session = self._new_session(link)
        is_wanted = self._handles_signals and threading.current_thread() is threading.main_thread()
        with handled(lambda *_: session.stop(), *(SIGNALS if is_wanted else ())):
            link.connect(socket_path(self._socket_path))
            yield session

    def _run(self) -> None:
        """Connect, and run the session of this worker to its end."""

    def _run_child(self, share: int) -> int:
        """In a forked process. Returns its exit status."""
        self._processes, self._most = None, share
        # The parent passes signals on, whoever handles them there.
        self._parent, self._handles_signals = os.getppid(), True
        try:
            self._run()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            log.critical("the worker failed", exc_info=True)
            return 1
        return 0


class Threads:
    """Daemon threads, started as they are needed: one that hangs does not keep the process from
    ending."""

    make = Job

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def start(self, session: Session, job: Job) -> None:
        """Run the handler of a job."""
        try:
            if self._count < session.concurrency and not self._idle.acquire(blocking=False):
                threading.Thread(target=self._run, name=f"ojs-job-{self._count + 1}", daemon=True).start()
                self._count += 1
        except RuntimeError as error:
            session.late_log.add(logging.ERROR, "%s; there are %d", error, self._count)
            if not self._count:
                return session.answer(job, None, Release("no thread can be started"))
        # What a job sets in a context variable must not be seen by the next job of its thread.
        self._work.put(lambda: contextvars.copy_context().run(drive, session.run(job)))

    def _run(self) -> None:
        while True:
            self._work.get()()
            self._idle.release()


class Worker(BaseWorker[Job]):
    """A worker whose handlers are functions, run on up to `concurrency` threads."""

    _job_class, _runner_class = Job, Threads

    def _run(self) -> None:
        with self._connected() as session:
            session.serve()

    def _perform(self, performance: Performance, patience: float) -> Outcome:
        performance.start(self._new_session(performance))
        return performance.wait(patience)


class Tasks:
    """The tasks of an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.make = functools.partial(AsyncJob, loop=self._loop)
        self.tasks: Dict[asyncio.Task[None], AsyncJob] = {}
        self.is_over = False

    def start(self, session: Session, job: AsyncJob) -> None:
        """Run the handler of a job."""
        self._loop.call_soon_threadsafe(self._spawn, session, job)

    def _spawn(self, session: Session, job: AsyncJob) -> None:
        if self.is_over:  # The loop ends, and would cancel the handler.
            session.answer(job, None, Release("shutdown"))
            return
        job.stopping = AsyncEvent()
        if session.state == "terminate":
            job.stopping.set()

        def ended(task: asyncio.Task[None]) -> None:
            del self.tasks[task]
            if not job._is_over:  # It was cancelled before it began.
                session.answer(job, None, Release(job.cancel_reason))

        job._task = self._loop.create_task(session.run(job))
        self.tasks[job._task] = job
        job._task.add_done_callback(ended)


class AsyncWorker(BaseWorker[AsyncJob]):
    """A worker whose handlers are ``async def`` functions, up to `concurrency` of them at once on
    one event loop.

    The socket has threads of its own: a handler that blocks the loop delays other handlers, but no
    answer to a ping.
    """

    _job_class, _runner_class = AsyncJob, Tasks

    async def serve(self) -> None:
        """`run`, in an event loop that runs already. If it is cancelled, so are the handlers, and their jobs go back.
        """
        self._check_runnable()
        with self._connected() as session:
            try:
                await asyncio.to_thread(session.serve)
            except asyncio.CancelledError:
                session.stop()
                session.runner.is_over = True
                for task, job in list(session.runner.tasks.items()):
                    # The program ends, as an application does at SIGTERM: that is no failure of the job.
                    job.cancel_reason = job.cancel_reason or "shutdown"
                    task.cancel()
                await asyncio.sleep(LOST_GRACE)
                raise

    def _run(self) -> None:
        asyncio.run(self.serve())

    def _perform(self, performance: Performance, patience: float) -> Outcome:
        async def perform() -> Outcome:
            performance.start(self._new_session(performance))
            return await asyncio.to_thread(performance.wait, patience)

        # On a thread of its own, because the test may be in an event loop.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, perform()).result()
