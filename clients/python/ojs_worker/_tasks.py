"""The worker whose handlers are coroutines, run on an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import signal
import threading
from typing import Any, Callable, Coroutine, Dict, Iterator, Optional, Sequence, Set, Type, overload

from . import _limits
from ._core import Core
from ._executor import Executor
from ._handlers import A, AH, AM, R, check_async
from ._jobs import AsyncEvent, AsyncJob, release_if_cancelled
from ._limits import STOP_GRACE
from ._link import SIGNALS, Link, signals_wait
from ._logs import context_of
from ._options import checks_options
from ._resume import may_call_again


class AsyncWorker(Core[AsyncJob]):
    """A worker whose handlers are ``async def`` functions, up to `concurrency` of them at once on one event loop.

    The same as :class:`Worker` in all else. The socket has a thread of its own, so a handler that blocks the loop
    delays other handlers, and the notice of a SIGTERM, but no answer to a ping.
    """

    loop: asyncio.AbstractEventLoop
    """The event loop; known once it runs."""

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
        self._tasks: Set["asyncio.Task[None]"] = set()
        self._slots: Optional[asyncio.Semaphore] = None

    @overload
    def job(self, *types: str) -> Callable[[AH], AH]: ...

    @overload
    def job(
        self, *types: str, args: Type[A]
    ) -> Callable[[Callable[[AsyncJob, A], Coroutine[Any, Any, R]]], Callable[[AsyncJob, A], Coroutine[Any, Any, R]]]: ...

    @checks_options("worker.job")
    def job(self, *types: str, args: Any = None) -> Any:
        """Decorate the handler of these job types; ``"*"``, or no type at all, for every other type.

        `args` is a dataclass, a NamedTuple or a TypedDict: the handler gets one as its second argument, made of the job's
        arguments in their order. Those that do not fit fail the job for good (:class:`InvalidArgs`).
        """
        return self._register(types, args)

    def middleware(self, function: AM) -> AM:
        """Decorate a function that stands around every handler, the first one outermost: it gets the job and ``call_next``,
        which it calls without arguments, and returns what that returns, or something else.

        It may call it again after it has failed: finished steps give the results that they had. It may raise what a
        handler may raise.
        """
        self._add_middleware(function)
        return function

    def _run(self) -> None:
        asyncio.run(self._serve_with_executor())

    async def _serve_with_executor(self) -> None:
        asyncio.get_running_loop().set_default_executor(Executor())
        await self.serve()

    async def serve(self) -> None:
        """The same as `run`, in an event loop that runs already."""
        self.loop = asyncio.get_running_loop()
        link, path = self._prepare()
        ended: "asyncio.Future[Optional[BaseException]]" = self.loop.create_future()

        def set_ended(error: Optional[BaseException]) -> None:
            if not ended.done():
                ended.set_result(error)

        def serve_connection() -> None:
            error: Optional[BaseException] = None
            try:
                self._serve_connection(link, path)
            except BaseException as caught:
                error = caught
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(set_ended, error)

        with self._signals(link):
            threading.Thread(target=serve_connection, name="ojs-socket", daemon=True).start()
            try:
                await asyncio.wait({ended})
            except asyncio.CancelledError:
                await self._give_up(link, ended)
                raise
        error = ended.result() or self._exit
        if error is not None:
            raise error

    async def _give_up(self, link: Link, ended: "asyncio.Future[Any]") -> None:
        """Somebody cancelled us: so are the handlers, and their jobs fail."""
        self.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.wait({ended}, timeout=_limits.EOF_GRACE)
        self._is_aborted = True
        link.wake()

    @contextlib.contextmanager
    def _signals(self, link: Link) -> Iterator[None]:
        numbers: Sequence[signal.Signals] = ()
        if self._handles_signals and threading.current_thread() is threading.main_thread():
            numbers = SIGNALS
        before = {number: signal.getsignal(number) for number in numbers}

        def on_signal() -> None:
            self._is_signalled = True
            link.wake()

        for number in numbers:
            self.loop.add_signal_handler(number, on_signal)
        self._signals_are_ours()
        if numbers:
            link.in_forked_child = lambda: self._restore_signals(before, in_child=True)
        try:
            yield
        finally:
            link.in_forked_child = None
            with signals_wait():
                for number in numbers:
                    self.loop.remove_signal_handler(number)
                self._restore_signals(before)

    def _check_function(self, function: Any, what: str) -> None:
        check_async(function, what)

    def _twin(self, path: str) -> "AsyncWorker":
        return AsyncWorker(1, socket_path=path, handle_signals=False, stop_grace=None)

    def _make_job(self, envelope: Dict[str, Any], raw: str, checkpoint: Any) -> AsyncJob:
        return AsyncJob(self, envelope, raw, checkpoint)

    def _start(self, job: AsyncJob) -> None:
        self.loop.call_soon_threadsafe(self._spawn, job)

    def _spawn(self, job: AsyncJob) -> None:
        job.cancelled = AsyncEvent()
        job.stopping = AsyncEvent()
        if self._state == "terminate":
            job.stopping.set()
        if job.cancel_reason is not None:
            job.cancelled.set()

        def ended(task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            if not job._is_over:  # cancelled before its first step
                self._answer(job, None, asyncio.CancelledError())

        task = self.loop.create_task(self._process(job))
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def _process(self, job: AsyncJob) -> None:
        result: Any = None
        error: Optional[BaseException] = None
        if self._slots is None:
            # Only the first job shows how many there may be: that is what `hello` says, unless the program does.
            self._slots = asyncio.Semaphore(self.concurrency)
        try:
            async with self._slots:
                release_if_cancelled(job)
                with context_of(job):
                    if self._before_handler is not None:
                        await self.loop.run_in_executor(None, self._before_handler)
                    result = await self._call(job)
        except BaseException as caught:
            error = caught
        self._answer(job, result, error)

    async def _call(self, job: AsyncJob) -> Any:
        handler = self._handler_for(job.type)
        assert handler is not None

        async def of_handler() -> Any:
            result = handler(job)
            return await result if inspect.isawaitable(result) else result

        call: Callable[[], Any] = of_handler
        for function in reversed(self._middleware):
            call = functools.partial(function, job, may_call_again(job._resume, call))
        return await call()

    def _abandon_handlers(self) -> None:
        def cancel_all() -> None:
            for task in list(self._tasks):
                task.cancel()

        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(cancel_all)
