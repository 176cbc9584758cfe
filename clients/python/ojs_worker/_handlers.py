"""Which functions may be handlers, and what type checkers know about them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any, Awaitable, Callable, ClassVar, Coroutine, Dict, Mapping, Sequence, TypeVar, Union

if TYPE_CHECKING:
    from typing import Protocol

    from ._jobs import AsyncJob, Job

    class Dataclass(Protocol):
        """An instance of a dataclass."""

        __dataclass_fields__: ClassVar[Dict[str, Any]]

    Result = Union[None, bool, int, float, str, Sequence[Any], Mapping[str, Any], Dataclass]
    """What a handler returns: JSON, or a dataclass, which becomes an object. No coroutine is among it."""

    Handler = Callable[[Job], Result]
    AsyncHandler = Callable[[AsyncJob], Coroutine[Any, Any, Result]]
    Middleware = Callable[[Job, Callable[[], Any]], Result]
    AsyncMiddleware = Callable[[AsyncJob, Callable[[], Awaitable[Any]]], Coroutine[Any, Any, Result]]

A = TypeVar("A")
R = TypeVar("R", bound="Result")
H = TypeVar("H", bound="Handler")
AH = TypeVar("AH", bound="AsyncHandler")
M = TypeVar("M", bound="Middleware")
AM = TypeVar("AM", bound="AsyncMiddleware")


def check_sync(function: Any, what: str) -> None:
    """For a :class:`Worker`."""
    inner = _called(function, what)
    if _is_coroutine(inner):
        raise TypeError(f"{function!r} is an async function: use AsyncWorker")
    _check_result(function, inner, what)


def check_async(function: Any, what: str) -> None:
    """For an :class:`AsyncWorker`."""
    inner = _called(function, what)
    _check_result(function, inner, what)
    # A decorator's plain function may give the coroutine of the one that it wraps.
    if not _is_coroutine(inner) and not _is_coroutine(inspect.unwrap(inner)):
        raise TypeError(
            f"{what} of an AsyncWorker is an async function, not {function!r}, which would block its loop: "
            "call what blocks by asyncio.to_thread in an async def, or use Worker"
        )


def check_signature(function: Any, what: str, given: Sequence[str]) -> None:
    """Refuse a function that cannot be called with what a worker gives it: each of its jobs would fail."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some builtins have none that can be looked at
    try:
        signature.bind(*given)
    except TypeError as error:
        form = ", ".join(given)
        rest = "" if "args" in given or what != "a handler" else "; the arguments of the job are in job.args"
        raise TypeError(f"{what} is called as {what[2:]}({form}), and {function!r} does not fit: {error}{rest}") from None


def _is_coroutine(function: Any) -> bool:
    # Before 3.12 asyncio alone knows the mark that a mock has; from 3.14 on it complains about being asked.
    return inspect.iscoroutinefunction(function) or (sys.version_info < (3, 12) and asyncio.iscoroutinefunction(function))


def _called(function: Any, what: str) -> Any:
    """The function that runs when this is called: without functools.partial, of an object its `__call__`."""
    if not callable(function):
        raise TypeError(f"{what} is a function, not {function!r}")
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or inspect.isclass(function) or _is_coroutine(function):
        return function
    return type(function).__call__


def _check_result(function: Any, inner: Any, what: str) -> None:
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(f"{what} returns its result; {function!r} is a generator, of which nothing would run")
