"""Structure of the package: rooms in layers, no cycles, no shadowed names, small files."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "nbaudio"
MODULES = {
    ".".join(("nbaudio", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

# A room imports from itself and from rooms before it.
ROOMS = (
    *("core", "storage", "audio", "text", "engine", "formats", "sources", "review", "proof", "selection"),
    *("corpus", "reading", "ui", "runs", "cli"),
)
MOST_ROOMS = 16
MOST_LINES = 400
MOST_LINES_OF_PYTHON = 24_000
MOST_LINES_OF_JAVASCRIPT = 3_500


def _imports(module: str) -> Iterator[str]:
    """Full names of what a module imports, anywhere in it; of `from package import name`, the submodule where it is one."""
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in MODULES or node.module == "nbaudio" else node.module


def _room(module: str) -> str:
    return module.split(".")[1]


def test_there_are_few_rooms() -> None:
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert names - {"__init__", "__main__"} == set(ROOMS)
    assert len(ROOMS) <= MOST_ROOMS


def test_imports_between_rooms_go_downward() -> None:
    upward = [
        f"{module} imports {name}"
        for module in MODULES
        if module.count(".") and _room(module) in ROOMS
        for name in _imports(module)
        # The command line calls the functions of the top.
        if name.startswith("nbaudio.") and _room(name) in ROOMS and ROOMS.index(_room(name)) > ROOMS.index(_room(module))
    ]
    assert not upward
    top = [module for module in MODULES if module.count(".") and _room(module) != "cli" and "nbaudio" in _imports(module)]
    assert not top


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


def _packages() -> list[str]:
    return [module for module, path in MODULES.items() if path.name == "__init__.py"]


def test_only_the_top_and_review_export_commands() -> None:
    commands = {name for name in import_module("nbaudio").__all__ if name.islower() and not name.startswith("_")} - {"review"}
    commands -= {"clip", "open_corpus"}
    found = {
        f"{package}.{name}"
        for package in _packages()
        if package not in {"nbaudio", "nbaudio.review"}
        for name in commands & set(getattr(import_module(package), "__all__", ()))
    }
    assert not found


def test_files_are_short_and_so_is_the_package() -> None:
    lengths = {path: path.read_text("utf8").count("\n") for path in chain(PACKAGE.rglob("*.py"), PACKAGE.rglob("*.js"))}
    long = [f"{path.relative_to(PACKAGE)}: {lines}" for path, lines in lengths.items() if lines > MOST_LINES]
    assert not long
    assert sum(lines for path, lines in lengths.items() if path.suffix == ".py") <= MOST_LINES_OF_PYTHON
    assert sum(lines for path, lines in lengths.items() if path.suffix == ".js") <= MOST_LINES_OF_JAVASCRIPT
