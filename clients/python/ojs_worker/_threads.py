"""The worker whose handlers are functions, run on threads."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import queue
import signal
import threading
from typing import Any, Callable, Dict, Iterator, Optional, Type, overload

from ._core import Core
from ._errors import Release
from ._handlers import A, H, M, R, check_sync
from ._jobs import Job, release_if_cancelled
from ._limits import STOP_GRACE
from ._link import SIGNALS, Link
from ._log import log
from ._logs import context_of
from ._options import checks_options
from ._resume import may_call_again


class Pool:
    """Daemon threads, started as they are needed: one that hangs must not keep the process from ending."""

    def __init__(self, limit: Callable[[], int], name: str = "ojs-job") -> None:
        self._limit = limit
        self._name = name
        self._tasks: "queue.SimpleQueue[Optional[Callable[[], None]]]" = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = 0
        self._threads = 0

    def submit(self, task: Callable[[], None]) -> bool:
        """Run it, later if all threads are taken; False if there is not one thread to be had."""
        with self._lock:
            if self._threads < min(self._limit(), self._unfinished + 1):
                try:
                    threading.Thread(target=self._work, name=f"{self._name}-{self._threads + 1}", daemon=True).start()
                    self._threads += 1
                except RuntimeError as error:
                    log.error("%s; %d threads are there", error, self._threads)
                    if not self._threads:
                        return False
            self._unfinished += 1
        self._tasks.put(task)
        return True

    def _work(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            task()
            del task
            with self._lock:
                self._unfinished -= 1

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        for _ in range(self._threads):
            self._tasks.put(None)


class Worker(Core[Job]):
    """A worker whose handlers are functions, run on up to `concurrency` threads.

    `socket_path` is for tests; the default is ``$OJS_SOCKET``.

    With `handle_signals`, SIGTERM and SIGINT are taken over while `run` is in the main thread. ojs-init sends SIGTERM
    to a worker that is idle, or that it gives up on: no more jobs are taken, those that are held are cancelled
    (shutdown), and after `stop_grace` seconds the process ends, whatever its handlers do; with None it waits for them.
    For a stop that lets handlers finish, call `stop`.

    A connection belongs to the process that opened it; a child forked later cannot use it. For several processes give `run`
    their number.
    """

    @checks_options()
    def __init__(
        self,
        concurrency: Optional[int] = None,
        *,
        socket_path: Optional[str] = None,
        handle_signals: bool = True,
        stop_grace: Optional[float] = STOP_GRACE,
    ) -> None:
        super().__init__(concurrency, socket_path=socket_path, handle_signals=handle_signals, stop_grace=stop_grace)
        self._pool = Pool(lambda: self.concurrency)

    @overload
    def job(self, *types: str) -> Callable[[H], H]: ...

    @overload
    def job(self, *types: str, args: Type[A]) -> Callable[[Callable[[Job, A], R]], Callable[[Job, A], R]]: ...

    @checks_options("worker.job")
    def job(self, *types: str, args: Any = None) -> Any:
        """Decorate the handler of these job types; ``"*"``, or no type at all, for every other type.

        `args` is a dataclass, a NamedTuple or a TypedDict: the handler gets one as its second argument, made of the job's
        arguments in their order. Those that do not fit fail the job for good (:class:`InvalidArgs`).
        """
        return self._register(types, args)

    def middleware(self, function: M) -> M:
        """Decorate a function that stands around every handler, the first one outermost: it gets the job and ``call_next``,
        which it calls without arguments, and returns what that returns, or something else.

        It may call it again after it has failed: finished steps give the results that they had. It may raise what a
        handler may raise.
        """
        self._add_middleware(function)
        return function

    def _run(self) -> None:
        link, path = self._prepare()
        try:
            with self._signals(link):
                self._serve_connection(link, path)
        finally:
            self._pool.close()
        if self._exit is not None:
            raise self._exit

    @contextlib.contextmanager
    def _signals(self, link: Link) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: Any) -> None:
            self._is_signalled = True

        # Python runs a handler only between two of its instructions, so one that arrives just before the wait for the
        # socket begins would be noticed after it. The descriptor is written at once.
        wakeup = signal.set_wakeup_fd(link.wake_fd, warn_on_full_buffer=False)
        before = {number: signal.signal(number, on_signal) for number in SIGNALS if self._handles_signals}
        self._signals_are_ours()

        link.in_forked_child = lambda: self._restore_signals(before, in_child=True)
        # A signal that comes once the pipe is closed must not be written to it, nor to who gets its number next.
        link.before_close = lambda: signal.set_wakeup_fd(wakeup)
        try:
            yield
        finally:
            link.in_forked_child = link.before_close = None
            self._restore_signals(before)
            signal.set_wakeup_fd(wakeup)

    def _check_function(self, function: Any, what: str) -> None:
        check_sync(function, what)

    def _twin(self, path: str) -> "Worker":
        return Worker(1, socket_path=path, handle_signals=False, stop_grace=None)

    def _make_job(self, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> Job:
        return Job(self, envelope, raw, checkpoint)

    def _start(self, job: Job) -> None:
        # A thread has many jobs: what one of them sets in a context variable must not be seen by the next.
        if not self._pool.submit(lambda: contextvars.copy_context().run(self._process, job)):
            self._answer(job, None, Release("no thread can be started"))

    def _process(self, job: Job) -> None:
        result: Any = None
        error: Optional[BaseException] = None
        try:
            release_if_cancelled(job)
            with context_of(job):
                if self._before_handler is not None:
                    self._before_handler()
                result = self._call(job)
        except BaseException as caught:
            error = caught
        self._answer(job, result, error)

    def _call(self, job: Job) -> Any:
        handler = self._handler_for(job.type)
        assert handler is not None
        call: Callable[[], Any] = functools.partial(handler, job)
        for function in reversed(self._middleware):
            call = functools.partial(function, job, may_call_again(job._resume, call))
        return call()
