"""Options by their names: an unknown one is an error that names it, and those that there are."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def checks_options(what: str) -> Callable[[F], F]:
    """For a method that users call as `what`. The interpreter's own error does not say which options there are."""

    def decorate(function: F) -> F:
        _, *names = inspect.signature(function).parameters

        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            unknown = ", ".join(name for name in given if name not in names)
            if unknown:
                raise TypeError(f"{what}: unknown option {unknown}; there are {', '.join(names)}")
            return function(*args, **given)

        return cast(F, checked)

    return decorate
