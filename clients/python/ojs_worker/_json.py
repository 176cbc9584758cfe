"""JSON as the socket wants it: frames read with the place of each value, and text that every parser takes."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, Callable, Dict, Optional, Tuple, Type, TypeVar

from ._limits import MAX_DEPTH

_decoder = json.JSONDecoder()
_space = re.compile(r"[ \t\r\n]*")
_token = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]')


def skip_space(text: str, at: int) -> int:
    match = _space.match(text, at)
    return match.end() if match else at


def parse_object(text: str) -> Tuple[Dict[str, Any], Dict[str, Tuple[int, int]]]:
    """The members of a JSON object, and where in the text each value stands."""
    values: Dict[str, Any] = {}
    spans: Dict[str, Tuple[int, int]] = {}
    at = skip_space(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError("not a JSON object")
    at = skip_space(text, at + 1)
    more = text[at : at + 1] != "}"
    while more:
        if text[at : at + 1] != '"':
            raise ValueError(f"no member name at {at}")
        key, at = _decoder.raw_decode(text, at)
        at = skip_space(text, at)
        if text[at : at + 1] != ":":
            raise ValueError(f"no colon at {at}")
        at = skip_space(text, at + 1)
        values[key], end = _decoder.raw_decode(text, at)
        spans[key] = (at, end)
        at = skip_space(text, end)
        more = text[at : at + 1] == ","
        if more:
            at = skip_space(text, at + 1)
    if text[at : at + 1] != "}" or skip_space(text, at + 1) != len(text):
        raise ValueError(f"no end of the object at {at}")
    return values, spans


def salvage_job_id(text: str) -> Optional[str]:
    """The id of the job in a frame that :func:`parse_object` cannot read: nested too deeply, a number too long."""
    depth = 0
    keys: Dict[int, Optional[str]] = {}
    last = '""'
    for match in _token.finditer(text):
        token = match.group()
        if token in "{[":
            depth += 1
            if depth <= 2:
                keys[depth] = None
        elif token in "}]":
            depth -= 1
        elif token == ":":
            if depth <= 2:
                keys[depth] = json.loads(last)
        elif token == ",":
            if depth <= 2:
                keys[depth] = None
        elif depth == 2 and keys.get(1) == "job" and keys.get(2) == "id":
            return str(json.loads(token))
        else:
            last = token
    return None


def dump(value: Any, depth: int = MAX_DEPTH - 1, default: Optional[Callable[[Any], Any]] = None) -> str:
    """JSON that every parser takes: no NaN, no lone surrogates, not too deep. Raises what :mod:`json` raises."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)
    text.encode("utf-8")
    if text.count("[") + text.count("{") > depth and depth_of(text) > depth:
        raise ValueError(f"nested deeper than {depth}")
    return text


def object_of(value: Any) -> Dict[str, Any]:
    """A dataclass as an object, for :func:`dump`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def copy_of(value: Any) -> Any:
    """Another one of the same JSON, for somebody who may change it."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    try:
        return json.loads(json.dumps(value))
    except RecursionError:  # read just so, and nobody's work
        return value


def depth_of(text: str) -> int:
    depth = deepest = 0
    for match in _token.finditer(text):
        token = match.group()
        if token in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "}]":
            depth -= 1
    return deepest


def make_frame(kind: str, job_id: Optional[str] = None, *raw: str, **fields: Any) -> bytes:
    """A frame; ``raw`` are further members as JSON text, ``fields`` those that are not None."""
    frame: Dict[str, Any] = {"type": kind}
    if job_id is not None:
        frame["job_id"] = job_id
    frame.update((name, value) for name, value in fields.items() if value is not None)
    return (",".join([dump(frame, MAX_DEPTH)[:-1], *raw]) + "}\n").encode("utf-8")


def clean(value: Any, limit: int) -> str:
    """A string that fits into a frame: whole characters, not too many."""
    try:
        text = str(value)
    except Exception as error:  # a __str__ of the program's own
        text = f"(its message cannot be shown: {type(error).__name__})"
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return text.encode("utf-8", "replace").decode("utf-8")


_T = TypeVar("_T")


def typed(value: Any, kind: Type[Any], default: _T) -> _T:
    is_right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    return value if is_right else default


def integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{clean(value, 100)!r} is no integer")
    number: int = value
    return number
