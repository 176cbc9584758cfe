"""What every module uses: the logger, JSON, text for the log, and the check of options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import logging
import re
from typing import Any, Callable, Dict, Iterable, Optional, Type, TypeVar, cast

__version__ = "0.2.0"
MAX_LOGGED = 10_000
"""The longest text in a log line, in characters."""

Default = Callable[[Any], Any]
"""Converts an object that is not JSON, or raises TypeError."""
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

log = logging.getLogger("ojs_worker")
_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def jsonable(value: Any, own: Optional[Default] = None) -> Any:
    """A dataclass or a pydantic model as an object, for `json.dumps`; anything else by the
    program's own function."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    if own is not None:
        return own(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def dump(value: Any, default: Default = jsonable) -> str:
    """JSON text. Raises TypeError, ValueError or RecursionError for a value that is not JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)


def frame(fields: Dict[str, Any], default: Default = jsonable, errors: str = "strict") -> bytes:
    """A line for ojs-init. `errors` says what becomes of half surrogate pairs."""
    return dump(fields, default).encode("utf-8", errors) + b"\n"


def copy_of(value: Any, default: Default = jsonable) -> Any:
    """The value as another process would read it."""
    return value if value is None or type(value) in (bool, int, str) else json.loads(dump(value, default))


def typed(value: Any, kind: Type[Any], default: T) -> T:
    """The value if it has that type, else the default. A boolean is no integer."""
    return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else default


def text_of(value: Any) -> str:
    """`str(value)`, even if that raises."""
    try:
        return str(value)
    except Exception as error:
        return f"(its message cannot be shown: {type(error).__name__})"


def shown(value: Any, limit: int = MAX_LOGGED) -> str:
    """A text for the log: one line, not too long, no control characters."""
    return _control.sub("\ufffd", text_of(value)[:limit].encode("utf-8", "replace").decode("utf-8"))


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError that names the unknown options and those that exist."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"{what}: unknown option {', '.join(unknown)}; there are {', '.join(known)}")


def checks_options(what: Optional[str] = None) -> Callable[[F], F]:
    """Check the options of a method that users call as `what` (None: as its class)."""

    def decorate(function: F) -> F:
        names = list(inspect.signature(function).parameters)[1:]

        @functools.wraps(function)
        def checked(self: Any, *args: Any, **options: Any) -> Any:
            check_names(what or type(self).__name__, options, names)
            return function(self, *args, **options)

        return cast(F, checked)

    return decorate
