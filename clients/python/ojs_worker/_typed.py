"""Arguments with types: a dataclass, a NamedTuple or a TypedDict, filled from the list that a job brings."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import types
import typing
from typing import Any, Callable, Dict, List, Set, Tuple, Union

from ._errors import InvalidArgs
from ._json import clean

Reader = Callable[[Any, str], Any]
"""Makes of a JSON value what a type asks for. The text says where the value stands; it is for the error."""
_Plain = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", type(None): "null"}
_UNION_TYPES = (Union, getattr(types, "UnionType", Union))


def reader_of_args(shape: Any) -> Callable[[List[Any]], Any]:
    """Makes arguments of this type. TypeError if it is no type whose fields are known."""
    if not _is_record(shape):
        raise TypeError(f"args= is a dataclass, a NamedTuple or a TypedDict, not {shape!r}")
    names, required, readers, make = _fields_of(shape)

    def read(args: List[Any]) -> Any:
        least = sum(name in required for name in names)
        if not least <= len(args) <= len(names):
            count = str(least) if least == len(names) else f"{least} to {len(names)}"
            raise InvalidArgs(f"the job has {len(args)} arguments, and {shape.__name__} takes {count}: {', '.join(names)}")
        values = {name: readers[name](value, f"argument {name}") for name, value in zip(names, args)}
        return _made(make, values, "the arguments")

    return read


def _is_record(shape: Any) -> bool:
    return isinstance(shape, type) and (dataclasses.is_dataclass(shape) or _is_typed_dict(shape) or _is_named_tuple(shape))


def _is_typed_dict(shape: Any) -> bool:
    return issubclass(shape, dict) and hasattr(shape, "__total__")


def _is_named_tuple(shape: Any) -> bool:
    return issubclass(shape, tuple) and hasattr(shape, "_fields")


def _fields_of(shape: Any) -> Tuple[List[str], Set[str], Dict[str, Reader], Callable[..., Any]]:
    try:
        hints = typing.get_type_hints(shape)
    except Exception as error:
        raise TypeError(f"the types of {shape!r} cannot be told: {type(error).__name__}: {error}") from error
    if dataclasses.is_dataclass(shape):
        fields = [field for field in dataclasses.fields(shape) if field.init]
        names = [field.name for field in fields]
        missing = dataclasses.MISSING
        required = {field.name for field in fields if field.default is missing and field.default_factory is missing}
    elif _is_named_tuple(shape):
        names = list(shape._fields)
        required = set(names) - set(shape._field_defaults)
    else:
        names = list(hints)
        required = set(shape.__required_keys__)
    return names, required, {name: _reader_of(hints.get(name, Any)) for name in names}, shape


def _made(make: Callable[..., Any], values: Dict[str, Any], where: str) -> Any:
    try:
        return make(**values)
    except (TypeError, ValueError) as error:  # a __post_init__ that looks closer
        raise InvalidArgs(f"{where}: {clean(error, 500)}") from error


def _reader_of(hint: Any) -> Reader:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object):
        return lambda value, where: value
    if hint is None or hint in _Plain:
        return _reader_of_plain(type(None) if hint is None else hint)
    if origin in _UNION_TYPES:
        return _reader_of_union([_reader_of(each) for each in inner])
    if origin is typing.Literal:
        return _reader_of_one(dict(((type(each), each), each) for each in inner), str(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _reader_of_one({(type(each.value), each.value): each for each in hint}, hint.__name__)
    if _is_record(hint):
        return _reader_of_object(hint)
    kind = origin or hint
    if kind in (list, collections.abc.Sequence, collections.abc.Iterable):
        return _reader_of_list(_reader_of(inner[0]) if inner else _reader_of(Any), list)
    if kind is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return _reader_of_list(_reader_of(inner[0]), tuple)
    if kind in (dict, collections.abc.Mapping) and (not inner or inner[0] in (str, Any)):
        return _reader_of_dict(_reader_of(inner[1]) if inner else _reader_of(Any))
    raise TypeError(f"arguments of the type {hint!r} cannot be read from JSON: say Any, and look at the value in the handler")


def _wrong(where: str, expected: str, value: Any) -> InvalidArgs:
    # Not the value: it goes to the backend and into the log.
    return InvalidArgs(f"{where} is {expected}, and a {type(value).__name__} came")


def _reader_of_plain(kind: Any) -> Reader:
    def read(value: Any, where: str) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if kind is int and isinstance(value, float) and value.is_integer():
            return int(value)  # a backend may spell it 1.0
        if type(value) is not kind:
            raise _wrong(where, _Plain[kind], value)
        return value

    return read


def _reader_of_union(readers: List[Reader]) -> Reader:
    def read(value: Any, where: str) -> Any:
        problems = []
        for reader in readers:
            try:
                return reader(value, where)
            except InvalidArgs as error:
                problems.append(error.message)
        raise InvalidArgs(" or ".join(problems))

    return read


def _reader_of_one(values: Dict[Tuple[type, Any], Any], name: str) -> Reader:
    def read(value: Any, where: str) -> Any:
        try:
            return values[type(value), value]
        except (KeyError, TypeError):
            raise _wrong(where, f"one of {name}", value) from None

    return read


def _reader_of_list(reader: Reader, make: Callable[[Any], Any]) -> Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise _wrong(where, "an array", value)
        return make([reader(each, f"{where}[{number}]") for number, each in enumerate(value)])

    return read


def _reader_of_dict(reader: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        return {name: reader(each, f"a value of {where}") for name, each in value.items()}

    return read


def _reader_of_object(shape: Any) -> Reader:
    names, required, readers, make = _fields_of(shape)

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        missing = [name for name in names if name in required and name not in value]
        if missing:
            raise InvalidArgs(f"{where} has no {missing[0]}")
        # What came later, for a newer worker, is left out.
        values = {name: readers[name](value[name], f"{where}.{name}") for name in names if name in value}
        return _made(make, values, where)

    return read
