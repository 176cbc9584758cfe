"""Options by their names: an unknown one is an error that names it, and those that there are."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def checks_options(what: Optional[str] = None) -> Callable[[F], F]:
    """For a method that users call as `what`; None: by the name of its class. The interpreter's own error does not say which
    options there are."""

    def decorate(function: F) -> F:
        _, *parameters = inspect.signature(function).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]

        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            unknown = ", ".join(name for name in given if name not in names)
            if unknown:
                name = what or (type(args[0]).__name__ if args else function.__qualname__)
                raise TypeError(f"{name}: unknown option {unknown}; there are {', '.join(names)}")
            return function(*args, **given)

        return cast(F, checked)

    return decorate
