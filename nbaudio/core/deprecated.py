"""Deprecated names of parameters, which still work, with a DeprecationWarning."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar
from warnings import warn

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def renamed_parameter(old: str, new: str) -> Callable[[Callable[_Parameters, _Result]], Callable[_Parameters, _Result]]:
    """Return a decorator that accepts the keyword `old` for the parameter `new`."""

    def decorate(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
        @wraps(function)
        def renamed(*args: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
            if old in options:
                if new in options:
                    raise TypeError(f"{old} is the deprecated name of {new}: give {new} alone")
                warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=2)
                options[new] = options.pop(old)
            return function(*args, **options)

        return renamed

    return decorate
