"""The handlers, middleware and hooks of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, Optional, Sequence, Type, TypeVar

from ._basics import check_names, log, shown
from ._binding import Binding, inner_of
from ._client import OPTIONS, Client
from ._errors import HandlerNotFound, Release
from ._jobs import AnyJob, drive

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
else:
    P = TypeVar("P")
R = TypeVar("R")
MAX_NAME_BYTES = 1024


class Enqueuer(Generic[P]):
    """Enqueues jobs of one type."""

    def __init__(self, type: str, binding: Binding, client: Callable[[], Client], options: Dict[str, Any]) -> None:
        check_names("options", options, OPTIONS)
        self._type, self._binding, self._client, self._options = type, binding, client, options

    def options(self, **options: Any) -> Enqueuer[P]:
        """The same with other options, which `Client.enqueue` describes."""
        return Enqueuer(self._type, self._binding, self._client, {**self._options, **options})

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Enqueue a job with the arguments that the handler shall get, and return its id."""
        if self._type == "*":
            raise TypeError("a handler for all types has no type to enqueue: use Client().enqueue")
        return self._client().enqueue(self._type, self._binding.job_args(args, kwargs), **self._options)

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """`enqueue`, without blocking the event loop."""
        return await asyncio.to_thread(self.enqueue, *args, **kwargs)


class Handler(Enqueuer[P], Generic[P, R]):
    """A decorated function. It can still be called, and enqueues jobs for itself."""

    def __init__(self, type: str, binding: Binding, client: Callable[[], Client], options: Dict[str, Any]) -> None:
        super().__init__(type, binding, client, options)
        functools.update_wrapper(self, binding.function)

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        result: R = self._binding.function(*args, **kwargs)
        return result


class Registry:
    """What a worker can do. `job_class` is that of the jobs of its handlers."""

    def __init__(self, job_class: Type[AnyJob], client: Callable[[], Client]) -> None:
        self._job_class = job_class
        self._is_async = job_class.is_async
        self._client = client
        self._bindings: Dict[str, Binding] = {}
        self._middleware: List[Callable[[Any, Callable[[], Any]], Any]] = []
        self._hooks: Dict[str, List[Callable[[Any, Any], Any]]] = {"on_failed": [], "on_completed": []}

    @property
    def types(self) -> Optional[List[str]]:
        """The job types to ask for; None for all."""
        return None if "*" in self._bindings else list(self._bindings)

    def add(self, types: Sequence[Any], function: Any, options: Dict[str, Any]) -> Handler[Any, Any]:
        """Register a handler for these types, or for all."""
        if isinstance(function, Handler):
            function = function._binding.function
        self._check(function, "a handler")
        binding = Binding(function, self._job_class)
        for name in types or ("*",):
            if not 1 <= len(name.encode("utf-8")) <= MAX_NAME_BYTES:
                raise ValueError(f"a job type has 1 to {MAX_NAME_BYTES} bytes")
            if name in self._bindings:
                raise ValueError(f"there are two handlers for {name!r}")
            self._bindings[name] = binding
        return Handler((*types, "*")[0], binding, self._client, options)

    def add_middleware(self, function: Any) -> None:
        """Register a function (job, call_next)."""
        self._check(function, "a middleware", "job", "call_next")
        self._middleware.append(function)

    def add_hook(self, kind: str, function: Any) -> None:
        """Register a function (job, error) or (job, result)."""
        self._check(function, f"@worker.{kind}", "job", "error" if kind == "on_failed" else "result")
        self._hooks[kind].append(function)

    async def call(self, job: AnyJob) -> Any:
        """Call the handler of a job, with its middleware around it."""
        binding = self._bindings.get(job.type) or self._bindings.get("*")
        if binding is None or not job.type:
            raise HandlerNotFound(f"this worker has no handler for {shown(job.type, 200) or 'a job without a type'}")
        if not self._middleware:
            return await binding.run(job)
        run = functools.partial(binding.run, job)
        call: Callable[[], Any] = run if self._is_async else lambda: drive(run())
        for function in reversed(self._middleware):
            call = functools.partial(function, job, call)
        return await job._awaited(call())

    async def call_hooks(self, job: AnyJob, result: Any, error: Optional[BaseException]) -> None:
        """Tell the program how a handler ended."""
        if isinstance(error, Release):
            return
        for hook in self._hooks["on_completed" if error is None else "on_failed"]:
            try:
                await job._awaited(hook(job, result if error is None else error))
            except (Exception, asyncio.CancelledError):
                log.exception("a hook failed")

    def _check(self, function: Any, what: str, *given: str) -> None:
        """Whether the function is of the kind that this worker calls, with what it gives."""
        if not callable(function):
            raise TypeError(f"{what} is a function, not {function!r}")
        inner = inner_of(function)
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise TypeError(f"{what} returns its result; {function!r} is a generator, of which nothing would run")
        # A decorator's plain function may give the coroutine of the one that it wraps.
        has_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(inspect.unwrap(inner))
        if has_async and not self._is_async:
            raise TypeError(f"{function!r} is an async function: use AsyncWorker")
        if self._is_async and not has_async:
            raise TypeError(
                f"{what} of an AsyncWorker is an async function, not {function!r}, which would block its loop: "
                "call what blocks by asyncio.to_thread in an async def, or use Worker"
            )
        try:
            with contextlib.suppress(ValueError):  # Some builtins have no signature.
                inspect.signature(function).bind(*given) if given else None
        except TypeError as error:
            raise TypeError(f"{what} gets ({', '.join(given)}), and {function!r} does not fit: {error}") from None
