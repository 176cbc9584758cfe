"""The worker of a program: its handlers, and the session that runs them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Optional, Sequence, Type, TypeVar, overload

from ._basics import Default, F, checks_options, jsonable, log, typed
from ._client import Client
from ._errors import NotUnderOjsInit, OjsError
from ._jobs import AnyJob, Shared
from ._link import Link, socket_path
from ._perform import Outcome, Performance
from ._processes import NO_OJS_INIT, Processes, exit_now, offered
from ._registry import Handler, P, R, Registry
from ._session import Session

J = TypeVar("J", bound=AnyJob)
MAX_COUNT = 10_000
"""The most jobs at once, and the most processes."""

if TYPE_CHECKING:
    from typing import Protocol

    from typing_extensions import Concatenate

    JC = TypeVar("JC", covariant=True)

    class Decorator(Protocol[JC]):
        """Makes a handler. Without the job its parameters are those of `enqueue`."""

        @overload
        def __call__(self, function: Callable[Concatenate[JC, P], R]) -> Handler[P, R]: ...
        @overload
        def __call__(self, function: Callable[P, R]) -> Handler[P, R]: ...


class BaseWorker(Generic[J]):
    """The part that `Worker` and `AsyncWorker` have in common."""

    _job_class: Type[J]

    @checks_options()
    def __init__(
        self, concurrency: Optional[int] = None, *, json_default: Optional[Default] = None,
        client: Optional[Client] = None, handle_signals: bool = True, socket_path: Optional[str] = None,
    ) -> None:  # fmt: skip
        """Make a worker for at most `concurrency` jobs at once; by default as many as ojs-init
        allows (OJS_CONCURRENCY).

        `json_default` converts objects that are not JSON in results, checkpoints and enqueued jobs,
        or raises TypeError. `client` enqueues. `handle_signals=False` leaves SIGTERM and SIGINT
        alone. `socket_path` is else ``$OJS_SOCKET``.
        """
        _check_count("concurrency", concurrency)
        self.client = client or Client(json_default=json_default)
        """Enqueues the jobs of ``handler.enqueue``."""
        self._most = concurrency or 0
        self._shared = functools.partial(Shared, functools.partial(jsonable, own=json_default))
        self._handles_signals = handle_signals
        self._socket_path = socket_path
        self._registry = Registry(self._job_class, lambda: self.client)
        self._session: Optional[Session] = None
        self._processes: Optional[Processes] = None

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
        self._registry.add_middleware(function)
        return function

    def on_failed(self, function: F) -> F:
        """Decorate a function (job, error) for every job that fails, of whatever kind, once for
        each attempt: errors of handlers, `Retry` and `Discard`, arguments that do not fit,
        timeouts, types without a handler."""
        self._registry.add_hook("on_failed", function)
        return function

    def on_completed(self, function: F) -> F:
        """Decorate a function (job, result) for every job that is done."""
        self._registry.add_hook("on_completed", function)
        return function

    @checks_options("worker.run")
    def run(self, processes: Optional[int] = None) -> None:
        """Take jobs until ojs-init, SIGTERM or `stop` ends the worker, and the jobs that it holds
        are answered.

        With `processes` so many are forked, which share OJS_CONCURRENCY. Raises SystemExit where
        the process has to end with a status that is not 0.
        """
        _check_count("processes", processes)
        self._check_runnable()
        if processes is None:
            return self._run()
        self._processes = Processes(processes, min(offered(), self._most or MAX_COUNT), self._run_child)
        status = self._processes.run()
        if status:
            raise SystemExit(status)

    def stop(self) -> None:
        """Take no more jobs, finish those that are held, then let `run` return. From any thread or
        signal handler."""
        running = self._session or self._processes
        if running is not None:
            running.stop()

    @property
    def state(self) -> str:
        """``running``, ``quiet`` or ``terminate``."""
        return "running" if self._session is None else self._session.shared.state

    @property
    def concurrency(self) -> int:
        """The most jobs at once; 0 before the connection if ojs-init says it."""
        return self._most if self._session is None else self._session.concurrency

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
        """A session that runs handlers in the way of this worker."""
        raise NotImplementedError

    def _run(self) -> None:
        """Connect, and run the session of this worker to its end."""
        raise NotImplementedError

    def _perform(self, performance: Performance, patience: float) -> Outcome:
        raise NotImplementedError

    def _serve(self, session: Session) -> None:
        """Run a session. The process ends here where handlers hang that nobody waits for any more.
        """
        session.serve()
        if session.is_stuck:
            exit_now(1)

    def _run_child(self, share: int) -> int:
        """In a forked process. Returns its exit status."""
        self._processes, self._most = None, share
        try:
            self._run()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except NotUnderOjsInit as error:
            log.error("%s", error)
            return NO_OJS_INIT
        except Exception:
            log.critical("the worker failed", exc_info=True)
            return 1
        return 0


def _check_count(name: str, value: Optional[int]) -> None:
    if value is not None and typed(value, int, 0) not in range(1, MAX_COUNT + 1):
        raise ValueError(f"{name} is a whole number from 1 to {MAX_COUNT}, not {value!r}")
