"""Lazy imports: names of a package are imported on first use (SPEC 1, PEP 562)."""

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import ModuleType
from typing import Any


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__`, `__all__` of a package.

    They give its submodules, and what it imports as ``from module import name as name``.
    """
    tree = ast.parse(inspect.getsource(sys.modules[package]))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    exports = {
        alias.asname: node.module
        for node in imports
        for alias in node.names
        if alias.asname and node.module
    }

    def getattr_(name: str) -> Any:
        """Import an exported name or a submodule, and keep it in the package."""
        if exports.get(name, package) != package:
            value = getattr(import_module(exports[name]), name)
        elif not name.startswith("_") and find_spec(f"{package}.{name}"):
            value = import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return getattr_, lambda: sorted(exports), sorted(exports)


def alias(package: str, modules: Mapping[str, str]) -> None:
    """Make ``import package.name`` return a module from elsewhere, with its submodules.

    `modules` maps names to full names.
    """
    sys.meta_path.insert(
        0, _AliasImporter({f"{package}.{name}": module for name, module in modules.items()})
    )


class _AliasImporter(MetaPathFinder, Loader):
    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return a spec for an alias or a module below it, None for other modules."""
        for name, module in self._aliases.items():
            if fullname == name or fullname.startswith(f"{name}."):
                return spec_from_loader(fullname, self, origin=module + fullname[len(name) :])
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that the alias stands for."""
        return import_module(str(spec.origin))

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec again; it has been executed already."""
        # The import system has replaced it by the spec of the alias.
        module.__spec__ = spec_from_loader(module.__name__, module.__loader__)
