"""Deprecated names: parameters and attributes that still work under their old name, with a DeprecationWarning."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar
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


def renamed_attributes(module: str, names: Mapping[str, Any]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module, with the objects of old names."""

    def getattr_(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn(f"{module}.{name} is deprecated; use {names[name].__name__}", DeprecationWarning, stacklevel=2)
        return names[name]

    return getattr_
