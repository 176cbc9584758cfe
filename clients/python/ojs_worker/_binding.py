"""The signature of a handler: which parameter gets the job, an argument of the job, or a
dependency."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from ._errors import InvalidArgs
from ._jobs import AnyJob, BaseJob
from ._readers import Reader, hints_of, reader_of


def Depends(dependency: Callable[..., Any]) -> Any:
    """A parameter whose value a function makes for each job: ``def send(to: str, db: Session =
    Depends(get_db))``.

    The function may have dependencies and take the job itself. It may be a generator: what stands
    behind its ``yield`` runs when the handler has ended. ``Annotated[Session, Depends(get_db)]``
    and FastAPI's own `Depends` work as well.
    """
    return types.SimpleNamespace(dependency=dependency)


def inner_of(function: Any) -> Any:
    """The function that runs: of a partial its function, of an object its `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) or inspect.isclass(function) else type(function).__call__


class Binding:
    """How a function is called for a job."""

    def __init__(self, function: Callable[..., Any], job_class: Type[AnyJob]) -> None:
        self.function = function
        self.name = getattr(inner_of(function), "__name__", repr(function))
        self.dependencies: List[Binding] = []
        """The dependencies of all depths, each behind its own."""
        self._job_class = job_class
        self._parameters = inspect.signature(function).parameters
        self._injected: Dict[str, Any] = {}
        """The dependency of a parameter; None for the job."""
        self._readers: Dict[str, Reader] = {}
        self._rest: Optional[Reader] = None
        given = {name: each.annotation for name, each in self._parameters.items() if each.annotation is not each.empty}
        names = getattr(inspect.unwrap(inner_of(function)), "__globals__", {})
        hints = hints_of(types.SimpleNamespace(__annotations__=given), names, self.name)
        for name, parameter in self._parameters.items():
            self._plan(name, parameter, hints.get(name, Any))
        self._required = [name for name in self._readers if self._parameters[name].default is inspect.Parameter.empty]
        self.takes_args = bool(self._readers or self._rest) or not self._parameters

    def _plan(self, name: str, parameter: inspect.Parameter, hint: Any) -> None:
        depends = [each for each in map(_dependency, (parameter.default, *typing.get_args(hint))) if each is not None]
        is_first = name == next(iter(self._parameters))
        if isinstance(hint, type) and issubclass(hint, BaseJob):
            if not issubclass(self._job_class, hint):
                raise self._refusal(f"{name} is a {hint.__name__}, and its jobs are {self._job_class.__name__}s")
            self._injected[name] = None
        elif is_first and hint is Any and name in ("job", "_job"):
            self._injected[name] = None
        elif depends:
            self._depend_on(Binding(depends[0], self._job_class))
            self._injected[name] = depends[0]
        elif parameter.kind is parameter.VAR_POSITIONAL:
            self._rest = self._reader_of(name, hint)
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise self._refusal(f"{name} takes no argument by its position")
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            self._readers[name] = self._reader_of(name, hint)

    def _reader_of(self, name: str, hint: Any) -> Reader:
        try:
            return reader_of(hint)
        except TypeError as error:
            raise self._refusal(f"{name}: {error}") from None

    def _depend_on(self, binding: Binding) -> None:
        if binding._required or binding._rest:
            raise self._refusal(f"its dependency {binding.name} has parameters that are no dependencies")
        known = [each.function for each in self.dependencies]
        self.dependencies += [each for each in (*binding.dependencies, binding) if each.function not in known]

    def _refusal(self, problem: str) -> TypeError:
        return TypeError(
            f"{self.name}{inspect.signature(self.function)} cannot be a handler: {problem}. A job has arguments in an "
            f"order, and a handler takes them like this: def {self.name}(to: str, body: str = ''), or, with the job, "
            f"def {self.name}(job: {self._job_class.__name__}, to: str)"
        )

    def read(self, args: List[Any]) -> List[Any]:
        """The values of the parameters that the job gives. Raises InvalidArgs."""
        if not self.takes_args:
            return []
        names = list(self._readers)
        if len(args) < len(self._required) or (len(args) > len(names) and self._rest is None):
            takes = ", ".join(name if name in self._required else f"{name}=" for name in names) or "none"
            raise InvalidArgs(f"args: got {len(args)}, and {self.name} takes {takes}")
        named = [self._readers[name](value, f"args[{at}] ({name})") for at, (name, value) in enumerate(zip(names, args))]
        rest = enumerate(args[len(names) :], len(names)) if self._rest else ()
        return named + [self._rest(value, f"args[{at}]") for at, value in rest if self._rest]

    def call(self, job: AnyJob, values: List[Any], solved: Dict[Any, Any]) -> Any:
        """Call the function with these values of its own parameters, and those of its dependencies.
        """
        given = iter(values)
        args: List[Any] = []
        kwargs: Dict[str, Any] = {}
        for name, parameter in self._parameters.items():
            if name in self._readers:
                args.append(next(given, parameter.default))
            elif name in self._injected:
                value = solved.get(self._injected[name], job)
                if parameter.kind is parameter.KEYWORD_ONLY:
                    kwargs[name] = value
                else:
                    args.append(value)
        return self.function(*args, *given, **kwargs)

    async def run(self, job: AnyJob) -> Any:
        """Read the arguments, make the dependencies, call the function."""
        values = self.read(job.args)
        if not self.dependencies:
            return await job._awaited(self.call(job, values, {}))
        solved: Dict[Any, Any] = {}
        async with contextlib.AsyncExitStack() as stack:
            for each in self.dependencies:
                made = each.call(job, [], solved)
                if inspect.isasyncgen(made):
                    made = stack.enter_async_context(contextlib.asynccontextmanager(lambda made=made: made)())
                elif inspect.isgenerator(made):
                    made = stack.enter_context(contextlib.contextmanager(lambda made=made: made)())
                solved[each.function] = await job._awaited(made)
            return await job._awaited(self.call(job, values, solved))

    def job_args(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[Any]:
        """The arguments of a job for which the function would be called like that."""
        if not self.takes_args and not kwargs:
            return list(args)
        own = [each for name, each in self._parameters.items() if name in self._readers or each.kind is each.VAR_POSITIONAL]
        given = inspect.Signature(own).bind(*args, **kwargs).arguments
        filled: List[Any] = []
        for parameter in own if given else ():
            if parameter.kind is parameter.VAR_POSITIONAL:
                filled += given.pop(parameter.name, ())
            elif given:  # Parameters behind the last one that was given keep their defaults.
                filled.append(given.pop(parameter.name, parameter.default))
        return filled


def _dependency(value: Any) -> Optional[Callable[..., Any]]:
    found = getattr(value, "dependency", None)
    return found if callable(found) and not isinstance(value, type) else None
