"""Readers turn JSON values into what a type annotation asks for, or say what is wrong with them."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections import abc
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from ._basics import shown
from ._errors import InvalidArgs

Reader = Callable[[Any, str], Any]
"""Converts a value, which stands at the named place. Raises InvalidArgs."""

KINDS = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", type(None): "null"}
KINDS.update({list: "an array", dict: "an object"})
UNIONS = (Union, getattr(types, "UnionType", Union))


def reader_of(hint: Any) -> Reader:
    """The reader for a type. Raises TypeError for a type that no JSON value fits."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    kind = origin or hint
    if origin is typing.Annotated:
        return reader_of(inner[0])
    if hint in (Any, object) or isinstance(hint, typing.TypeVar):
        return lambda value, where: value
    if hint is None or hint in (str, bool, int, float, type(None)):
        return _plain(type(None) if hint is None else hint)
    if origin in UNIONS:
        return _union([reader_of(each) for each in inner])
    if origin is typing.Literal:
        return _one_of({(type(each), each): each for each in inner}, str(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _one_of({(type(each.value), each.value): each for each in hint}, hint.__name__)
    if hasattr(hint, "model_validate"):
        return _model(hint)
    if _is_record(hint):
        return _record(hint)
    if kind in (list, abc.Sequence, abc.Iterable):
        return _list(reader_of(inner[0] if inner else Any))
    if kind in (dict, abc.Mapping) and (not inner or inner[0] in (str, Any)):
        return _dict(reader_of(inner[1] if inner else Any))
    raise TypeError(f"{hint!r} cannot be read from JSON: annotate it as Any, and convert it in the handler")


def _is_record(hint: Any) -> bool:
    """Whether it is a dataclass, a TypedDict or a NamedTuple."""
    is_class = isinstance(hint, type)
    return is_class and (dataclasses.is_dataclass(hint) or hasattr(hint, "__total__") or hasattr(hint, "_fields"))


def _checked(kind: Any, value: Any, where: str) -> Any:
    if type(value) is kind:
        return value
    # The value itself would get into logs and to the backend.
    raise InvalidArgs(f"{where}: expected {KINDS[kind]}, got {KINDS[type(value)]}")


def _plain(kind: Any) -> Reader:
    def read(value: Any, where: str) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if kind is int and isinstance(value, float) and value.is_integer():
            return int(value)  # A backend may spell it 1.0.
        return _checked(kind, value, where)

    return read


def _union(readers: List[Reader]) -> Reader:
    def read(value: Any, where: str) -> Any:
        problems = []
        for reader in readers:
            try:
                return reader(value, where)
            except InvalidArgs as error:
                problems.append(error.message)
        raise InvalidArgs("; or ".join(problems))

    return read


def _one_of(values: Dict[Tuple[type, Any], Any], name: str) -> Reader:
    def read(value: Any, where: str) -> Any:
        try:
            return values[type(value), value]
        except (KeyError, TypeError):
            raise InvalidArgs(f"{where}: expected one of {name}") from None

    return read


def _list(reader: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        return [reader(each, f"{where}[{at}]") for at, each in enumerate(_checked(list, value, where))]

    return read


def _dict(reader: Reader) -> Reader:
    def read(value: Any, where: str) -> Any:
        return {name: reader(each, f"a value of {where}") for name, each in _checked(dict, value, where).items()}

    return read


def _model(model: Any) -> Reader:
    def read(value: Any, where: str) -> Any:
        try:
            return model.model_validate(value)
        except ValueError as error:  # Its text has the values.
            found = error.errors() if hasattr(error, "errors") else []
            problems = [f"{'.'.join([where, *map(str, each['loc'])])}: {each['msg']}" for each in found]
            raise InvalidArgs(shown("; ".join(problems) or f"{where}: no {model.__name__}", 1000)) from None

    return read


def _record(shape: Any) -> Reader:
    hints = hints_of(shape)
    if hasattr(shape, "__total__"):
        required = {name: name in shape.__required_keys__ for name in hints}
    else:
        parameters = inspect.signature(shape).parameters.values()
        required = {each.name: each.default is each.empty for each in parameters}
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
        raise TypeError(
            f"an annotation of {what or annotated.__name__} is not known at run time ({error}): import or define it outside "
            "of functions and TYPE_CHECKING, or leave it out"
        ) from error
