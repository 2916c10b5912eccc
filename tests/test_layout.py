"""Structure of the package: rooms in layers, no cycles, no shadowed names."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "nbaudio"
MODULES = {
    ".".join(("nbaudio", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

# A room imports from itself and from rooms before it.
ROOMS = (
    "core",
    "storage",
    "audio",
    "tables",
    "text",
    "engine",
    "formats",
    "sources",
    "review",
    "proof",
    "selection",
    "corpus",
    "recognition",
    "reading",
    "ui",
    "runs",
    "cli",
)
MOST_ROOMS = 17


@cache
def _imports(module: str) -> list[str]:
    return list(_each_import(module))


def _each_import(module: str) -> Iterator[str]:
    """Full names of what a module imports, anywhere in it; of `from package import name`, the
    submodule where it is one."""
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in MODULES or node.module == "nbaudio" else node.module


def _room(module: str) -> str:
    return module.split(".")[1]


def test_the_package_has_the_documented_top_level_modules() -> None:
    names = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert names - {"__init__", "__main__"} == set(ROOMS)
    assert len(ROOMS) <= MOST_ROOMS


@pytest.mark.slow
def test_imports_between_top_level_packages_follow_the_layers() -> None:
    upward = [
        f"{module} imports {name}"
        for module in MODULES
        if module.count(".") and _room(module) in ROOMS
        for name in _imports(module)
        # The command line calls the functions of the top.
        if name.startswith("nbaudio.")
        and _room(name) in ROOMS
        and ROOMS.index(_room(name)) > ROOMS.index(_room(module))
    ]
    assert not upward
    top = [
        module
        for module in MODULES
        if module.count(".") and _room(module) != "cli" and "nbaudio" in _imports(module)
    ]
    assert not top


@pytest.mark.slow
def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {}
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text("utf8"))
        needed = set()
        for node in tree.body:
            if isinstance(node, ast.Import):
                needed |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{each.name}" for each in node.names}
                needed |= (inner & MODULES.keys()) or {node.module}
        graph[module] = (needed & MODULES.keys()) - {module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_imports_in_functions_and_for_typing_make_no_circle() -> None:
    graph = {
        module: {name for name in _imports(module) if name in MODULES} - {module}
        for module in MODULES
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def _packages() -> list[str]:
    return [module for module, path in MODULES.items() if path.name == "__init__.py"]


def test_only_the_top_and_review_export_commands() -> None:
    commands = {
        name
        for name in import_module("nbaudio").__all__
        if name.islower() and not name.startswith("_")
    } - {"review"}
    commands -= {"clip", "open_corpus"}
    found = {
        f"{package}.{name}"
        for package in _packages()
        if package not in {"nbaudio", "nbaudio.review"}
        for name in commands & set(getattr(import_module(package), "__all__", ()))
    }
    assert not found


def _shadowed(package: str) -> Iterator[str]:
    """Names of other things that a package binds or exports although it has a submodule of that
    name."""
    path, module = MODULES[package], import_module(package)
    inner = {each.stem for each in path.parent.glob("*.py")} | {
        each.parent.name for each in path.parent.glob("*/__init__.py")
    }
    for node in ast.walk(ast.parse(path.read_text("utf8"))):
        match node:
            case ast.Import():
                yield from inner & {
                    each.asname or each.name.partition(".")[0] for each in node.names
                }
            case ast.ImportFrom() if node.module != package:
                yield from inner & {each.asname or each.name for each in node.names}
            case (
                ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
            ) if name in inner:
                yield name
    lazily = (
        inner & set(getattr(module, "__all__", ())) if hasattr(module, "__getattr__") else set()
    )
    yield from (
        name
        for name in lazily
        if module.__getattr__(name) is not import_module(f"{package}.{name}")
    )


@pytest.mark.parametrize("package", _packages())
def test_no_submodule_has_the_name_of_something_else_that_its_parent_exports(package: str) -> None:
    assert list(_shadowed(package)) == []


LAZY = """
from typing import TYPE_CHECKING
from nbaudio.core.lazy_imports import attach
if TYPE_CHECKING:
    from %s import path as path
__getattr__, __dir__, __all__ = attach(__name__)
"""
SHADOWS = {
    "eager": ("from shadows.eager.path import path", True),
    "lazy": (LAZY % "os", True),
    "constant": ("path = 1", True),
    "function": ("def path(): ...", True),
    "library": ("import os.path as path", True),
    "itself": ("from shadows.itself import path", False),
    "lazily_itself": (LAZY % "shadows.lazily_itself", False),
}


@pytest.mark.parametrize("name", SHADOWS)
def test_the_check_for_shadowed_submodules_detects_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, is_shadowed = SHADOWS[name]
    folder = tmp_path / "shadows" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(code)
    (folder / "path.py").write_text("path = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shadows", raising=False)
    monkeypatch.setitem(MODULES, f"shadows.{name}", folder / "__init__.py")
    assert bool(list(_shadowed(f"shadows.{name}"))) == is_shadowed


# What opens Parquet files. Tables of workspaces and corpora are opened in the room of tables alone.
PARQUET_FUNCTIONS = {
    "ParquetFile",
    "ParquetWriter",
    "read_metadata",
    "read_schema",
    "scan_parquet",
    "sink_parquet",
    "write_parquet",
}
MAY_OPEN_PARQUET = {
    "nbaudio.corpus.containers.parquet",  # shards, which are no tables
    "nbaudio.corpus.shards",  # writes the record of a shard
    "nbaudio.formats.source_columns",  # files of other tools
    "nbaudio.reading.clip_table",  # streams start without Polars
}


def test_only_the_tables_package_opens_tables() -> None:
    paths, calls = [], []
    for module, path in MODULES.items():
        if module == "nbaudio":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf8"))):
            if (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Div)
                and "workspace" in ast.unparse(node.left).lower()
            ):
                paths += (
                    [f"{module}:{node.lineno}"] if ".parquet" in ast.unparse(node.right) else []
                )
            name = (
                node.id
                if isinstance(node, ast.Name)
                else node.attr
                if isinstance(node, ast.Attribute)
                else ""
            )
            if (
                name in PARQUET_FUNCTIONS
                and _room(module) != "tables"
                and module not in MAY_OPEN_PARQUET
            ):
                calls.append(f"{module}:{node.lineno} {name}")
    assert [each for each in paths if not each.startswith("nbaudio.tables.workspace_tables:")] == []
    assert calls == []


@pytest.mark.slow
def test_conditions_are_parsed_in_one_place() -> None:
    names = {"sql_expr", "SQLContext", "sql"}
    parsed = [
        f"{module}:{node.lineno} {node.attr}"
        for module, path in MODULES.items()
        if module.rpartition(".")[2] != "conditions"
        for node in ast.walk(ast.parse(path.read_text("utf8")))
        if isinstance(node, ast.Attribute) and node.attr in names
    ]
    assert parsed == []
