"""Handlers: how one takes the arguments of a job, and what a worker can do."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import inspect
import types
import typing
from collections import abc
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from ._basics import F, HandlerNotFound, InvalidArgs, Release, check_names, log, shown
from ._client import OPTIONS, Client
from ._jobs import AnyJob, BaseJob, drive

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
else:
    P = TypeVar("P")
R = TypeVar("R")
MAX_NAME_BYTES = 1024
AROUND = {"middleware": "call_next", "on_failed": "error", "on_completed": "result"}
"""What stands around handlers, and what it gets beside the job."""
Reader = Callable[[Any, str], Any]
"""Turns a JSON value, which stands at the named place, into what an annotation asks for. Raises
InvalidArgs."""

KINDS = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", type(None): "null"}
KINDS.update({list: "an array", dict: "an object"})
UNIONS = (Union, getattr(types, "UnionType", Union))
WRAPPERS = ("Annotated", "Required", "NotRequired", "ReadOnly")


def reader_of(hint: Any) -> Reader:
    """The reader for a type. Raises TypeError for a type that no JSON value fits."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    kind = origin or hint
    if str(origin).rpartition(".")[2].rstrip("'>") in WRAPPERS:
        return reader_of(inner[0])
    if hasattr(hint, "__supertype__"):  # A NewType.
        return reader_of(hint.__supertype__)
    if hint in (Any, object) or isinstance(hint, typing.TypeVar):
        return lambda value, where: value
    if hint is None or hint in (str, bool, int, float, type(None)):
        return functools.partial(_plain, type(None) if hint is None else hint)
    if origin in UNIONS:
        return functools.partial(_union, [reader_of(each) for each in inner])
    if origin is typing.Literal:
        return functools.partial(_one_of, {(type(each), each): each for each in inner}, str(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return functools.partial(_one_of, {(type(each.value), each.value): each for each in hint}, hint.__name__)
    if hasattr(hint, "model_validate"):
        return functools.partial(_model, hint)
    if isinstance(hint, type) and any(hasattr(hint, mark) for mark in ("__dataclass_fields__", "__total__", "_fields")):
        return _record(hint)
    if kind in (list, abc.Sequence, abc.Iterable):
        item = reader_of(inner[0] if inner else Any)
        return lambda value, where: [item(each, f"{where}[{at}]") for at, each in enumerate(_checked(list, value, where))]
    if kind in (dict, abc.Mapping) and (not inner or inner[0] in (str, Any)):
        member = reader_of(inner[1] if inner else Any)
        within = "a value of {}".format
        return lambda value, where: {name: member(each, within(where)) for name, each in _checked(dict, value, where).items()}
    raise TypeError(f"{hint!r} cannot be read from JSON: annotate it as Any, and convert it in the handler")


def _checked(kind: Any, value: Any, where: str) -> Any:
    if type(value) is kind:
        return value
    # The value itself would get into logs and to the backend.
    raise InvalidArgs(f"{where}: expected {KINDS[kind]}, got {KINDS[type(value)]}")


def _plain(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise InvalidArgs(f"{where}: the integer is too large for a float") from None
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # A backend may spell it 1.0.
    return _checked(kind, value, where)


def _union(readers: List[Reader], value: Any, where: str) -> Any:
    problems = []
    for reader in readers:
        try:
            return reader(value, where)
        except InvalidArgs as error:
            problems.append(error.message)
    raise InvalidArgs("; or ".join(problems))


def _one_of(values: Dict[Tuple[type, Any], Any], name: str, value: Any, where: str) -> Any:
    spelled = int(value) if isinstance(value, float) and value.is_integer() else value
    for each in (value, spelled):
        with contextlib.suppress(KeyError, TypeError):
            return values[type(each), each]
    raise InvalidArgs(f"{where}: expected one of {name}")


def _model(model: Any, value: Any, where: str) -> Any:
    try:
        return model.model_validate(value)
    except ValueError as error:  # Its text has the values.
        found = error.errors() if hasattr(error, "errors") else []
        problems = [f"{'.'.join([where, *map(str, each['loc'])])}: {each['msg']}" for each in found]
        raise InvalidArgs(shown("; ".join(problems) or f"{where}: no {model.__name__}", 1000)) from None


def _record(shape: Any) -> Reader:
    """The reader for a dataclass, a TypedDict or a NamedTuple."""
    hints = hints_of(shape)
    if hasattr(shape, "__total__"):
        required = {name: name in shape.__required_keys__ for name in hints}
    else:
        required = {each.name: each.default is each.empty for each in inspect.signature(shape).parameters.values()}
    readers = {name: reader_of(hints.get(name, Any)) for name in required}

    def read(value: Any, where: str) -> Any:
        if hasattr(shape, "_fields") and type(value) is list and len(value) <= len(readers):
            value = dict(zip(readers, value))
        _checked(dict, value, where)
        missing = [name for name in readers if required[name] and name not in value]
        if missing:
            raise InvalidArgs(f"{where} has no {missing[0]}")
        # Fields that this worker does not know yet are left out.
        fields = {name: reader(value[name], f"{where}.{name}") for name, reader in readers.items() if name in value}
        try:
            return shape(**fields)
        except (TypeError, ValueError) as error:  # A __post_init__ that looks closer.
            raise InvalidArgs(f"{where}: {shown(error, 500)}") from None

    return read


def hints_of(annotated: Any, names: Optional[Dict[str, Any]] = None, what: str = "") -> Dict[str, Any]:
    """The annotations, evaluated among these global names. Raises TypeError where one is not known
    at run time."""
    try:
        return typing.get_type_hints(annotated, names, include_extras=True)
    except Exception as error:
        known = f"an annotation of {what or annotated.__name__} is not known at run time ({error})"
        raise TypeError(f"{known}: define it outside of functions and TYPE_CHECKING, or leave it out") from error


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
        self.function, self._job_class = function, job_class
        self.name = getattr(inner_of(function), "__name__", repr(function))
        self._parameters = inspect.signature(function).parameters
        self._injected: Dict[str, Optional[Binding]] = {}
        """The dependency of a parameter; None for the job."""
        self._readers: Dict[str, Reader] = {}
        self._rest: Optional[Reader] = None
        given = {name: each.annotation for name, each in self._parameters.items() if each.annotation is not each.empty}
        names = getattr(inspect.unwrap(inner_of(function)), "__globals__", {})
        hints = hints_of(types.SimpleNamespace(__annotations__=given), names, self.name)
        for name, parameter in self._parameters.items():
            try:
                self._plan(parameter, hints.get(name, Any))
            except TypeError as error:
                refused = f"{self.name}{inspect.signature(function)} cannot be a handler: {name}: {error}"
                shapes = f"def {self.name}(to: str, body: str = ''), or def {self.name}(job: {job_class.__name__}, to: str)"
                raise TypeError(f"{refused}. The arguments of a job come in their order: {shapes}") from None
        self._required = [name for name in self._readers if self._parameters[name].default is inspect.Parameter.empty]
        self.takes_args = bool(self._readers or self._rest) or not self._parameters

    def _plan(self, parameter: inspect.Parameter, hint: Any) -> None:
        name = parameter.name
        depends = [each for each in map(_dependency, (parameter.default, *typing.get_args(hint))) if each is not None]
        is_job = hint is Any and name in ("job", "_job") and name == next(iter(self._parameters))
        if is_job or (isinstance(hint, type) and issubclass(hint, BaseJob)):
            if not is_job and not issubclass(self._job_class, hint):
                raise TypeError(f"a {hint.__name__}, and this worker has {self._job_class.__name__}s")
            self._injected[name] = None
        elif depends:
            binding = self._injected[name] = Binding(depends[0], self._job_class)
            if binding._required or binding._rest:
                raise TypeError(f"its dependency {binding.name} has parameters that are no dependencies")
        elif parameter.kind is parameter.VAR_POSITIONAL:
            self._rest = reader_of(hint)
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            raise TypeError("it takes no argument by its position")
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            self._readers[name] = reader_of(hint)

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

    async def run(self, job: AnyJob) -> Any:
        """Read the arguments, make the dependencies, call the function."""
        values = self.read(job.args)
        async with contextlib.AsyncExitStack() as stack:
            return await job._awaited(self._call(values, await self._inject(job, {}, stack)))

    async def _inject(self, job: AnyJob, made: Dict[Any, Any], stack: contextlib.AsyncExitStack) -> Dict[str, Any]:
        """The job and the dependencies, by their parameters; `made` has those of the whole job."""
        injected: Dict[str, Any] = {}
        for name, each in self._injected.items():
            if each is not None and each.function not in made:
                value = each._call([], await each._inject(job, made, stack))
                if inspect.isasyncgen(value):
                    value = stack.enter_async_context(contextlib.asynccontextmanager(lambda value=value: value)())
                elif inspect.isgenerator(value):
                    value = stack.enter_context(contextlib.contextmanager(lambda value=value: value)())
                made[each.function] = await job._awaited(value)
            injected[name] = job if each is None else made[each.function]
        return injected

    def _call(self, values: List[Any], injected: Dict[str, Any]) -> Any:
        """Call the function with these values of its own parameters."""
        given = iter(values)
        args: List[Any] = []
        for name, parameter in self._parameters.items():
            if name in self._readers:
                args.append(next(given, parameter.default))
            elif name in injected and parameter.kind is not parameter.KEYWORD_ONLY:
                args.append(injected.pop(name))
        return self.function(*args, *given, **injected)

    def job_args(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[Any]:
        """The arguments of a job for which the function would be called like that."""
        if not self.takes_args and not kwargs:
            return list(args)
        own = [each for name, each in self._parameters.items() if name in self._readers or each.kind is each.VAR_POSITIONAL]
        bound = inspect.Signature(own).bind(*args, **kwargs)
        last = max((at for at, each in enumerate(own) if each.name in bound.arguments), default=-1)
        bound.apply_defaults()  # Those behind the last one that was given are the handler's own.
        return list(inspect.BoundArguments(inspect.Signature(own[: last + 1]), bound.arguments).args)


def _dependency(value: Any) -> Optional[Callable[..., Any]]:
    found = getattr(value, "dependency", None)
    return found if callable(found) and not isinstance(value, type) else None


class Handler(Generic[P, R]):
    """A decorated function. It can still be called, and enqueues jobs for itself."""

    def __init__(self, type: str, binding: Binding, client: Callable[[], Client], options: Dict[str, Any]) -> None:
        check_names("options", options, OPTIONS)
        self._type, self._binding, self._client, self._options = type, binding, client, options
        functools.update_wrapper(self, binding.function)

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        return self._binding.function(*args, **kwargs)  # type: ignore[no-any-return]

    def options(self, **options: Any) -> Handler[P, R]:
        """The same with other options, which `Client.enqueue` describes."""
        return Handler(self._type, self._binding, self._client, {**self._options, **options})

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Enqueue a job with the arguments that the handler shall get, and return its id."""
        if self._type == "*":
            raise TypeError("a handler for all types has no type to enqueue: use Client().enqueue")
        return self._client().enqueue(self._type, self._binding.job_args(args, kwargs), **self._options)

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """`enqueue`, without blocking the event loop."""
        return await asyncio.to_thread(self.enqueue, *args, **kwargs)


class Registry:
    """What a worker can do. `job_class` is that of the jobs of its handlers."""

    def __init__(self, job_class: Type[AnyJob], client: Callable[[], Client]) -> None:
        self._job_class, self._client = job_class, client
        self._is_async = job_class.is_async
        self._bindings: Dict[str, Binding] = {}
        self._around: Dict[str, List[Callable[[Any, Any], Any]]] = {kind: [] for kind in AROUND}

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

    def add_around(self, kind: str, function: F) -> F:
        """Register a middleware or a hook, and return it."""
        self._check(function, f"@worker.{kind}", "job", AROUND[kind])
        self._around[kind].append(function)
        return function

    async def call(self, job: AnyJob) -> Any:
        """Call the handler of a job, with its middleware around it."""
        binding = self._bindings.get(job.type) or self._bindings.get("*")
        if binding is None or not job.type:
            raise HandlerNotFound(f"this worker has no handler for {shown(job.type, 200) or 'a job without a type'}")
        run = functools.partial(binding.run, job)
        call: Callable[[], Any] = run if self._is_async else lambda: drive(run())
        for function in reversed(self._around["middleware"]):
            call = functools.partial(function, job, call)
        return await job._awaited(call())

    async def call_hooks(self, job: AnyJob, result: Any, error: Optional[BaseException]) -> None:
        """Tell the program how a handler ended."""
        if isinstance(error, Release):
            return
        for hook in self._around["on_completed" if error is None else "on_failed"]:
            try:
                await job._awaited(hook(job, result if error is None else error))
            except BaseException:  # Also `sys.exit` and a cancel: the job has to be answered.
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
            advice = "call what blocks by asyncio.to_thread in an async def, or use Worker"
            raise TypeError(f"{what} of an AsyncWorker is an async function, not {function!r}: {advice}")
        try:
            with contextlib.suppress(ValueError):  # Some builtins have no signature.
                inspect.signature(function).bind(*given) if given else None
        except TypeError as error:
            raise TypeError(f"{what} gets ({', '.join(given)}), and {function!r} does not fit: {error}") from None
