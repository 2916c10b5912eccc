"""Names of a package that are imported when they are first used (SPEC 1, PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def attach(package: str, exports: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, which also gives its submodules as attributes.

    Args:
        package: its name.
        exports: the module of each exported name; a name that equals its module is the module itself.
    """

    def getattr_(name: str) -> Any:
        if name in exports:
            module = import_module(exports[name])
            value = module if exports[name] == f"{package}.{name}" else getattr(module, name)
        elif not name.startswith("_") and find_spec(f"{package}.{name}"):
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return getattr_, lambda: sorted(exports), sorted(exports)
