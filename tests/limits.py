"""Functions over the limits of readable code, and the list of those that are tolerated today.

The limits on complexity, branches, local variables, statements and nested blocks are ruff's, with
the figures of pyproject.toml; that on syntax nodes is counted here. ``tests/offenders.txt`` has a
line for each function over a limit: file, function, figures. The list may only get shorter:

    python tests/limits.py    removes functions and lowers figures, after code has become simpler
"""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
OFFENDERS = TOP / "tests/offenders.txt"
MOST_NODES = (
    350  # of the body of a function with all that it nests, without docstring and signature
)
REASONS = {
    "C901": "complexity",
    "PLR0912": "branches",
    "PLR0914": "locals",
    "PLR0915": "statements",
    "PLR1702": "nested_blocks",
}

Figures = dict[str, int]
#: Figures of functions over a limit, by file and qualified name.
Offenders = dict[tuple[str, str], Figures]


def measure() -> Offenders:
    """Return the functions of the package that are over a limit, with the figures that are."""
    offenders: Offenders = defaultdict(dict)
    functions = {path: list(_functions(path)) for path in sorted((TOP / "nbaudio").rglob("*.py"))}
    for path, named_nodes in functions.items():
        for name, node in named_nodes:
            nodes = count_nodes(node)
            if nodes > MOST_NODES:
                offenders[_relative(path), name]["nodes"] = nodes
    for finding in _ruff_findings():
        path = Path(finding["filename"])
        name = _enclosing(functions[path], finding["location"]["row"])
        figure = int(re.findall(r"\((\d+) > \d+\)", finding["message"])[0])
        figures = offenders[_relative(path), name]
        rule = REASONS[finding["code"]]
        figures[rule] = max(figure, figures.get(rule, 0))
    return dict(offenders)


def count_nodes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the syntax nodes of a function's body, without its docstring."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    return sum(1 for statement in body for _ in ast.walk(statement))


def read_list() -> Offenders:
    """Return the tolerated functions with their figures."""
    listed: Offenders = {}
    for line in OFFENDERS.read_text(encoding="utf8").splitlines():
        file, name, *figures = line.split()
        listed[file, name] = {
            key: int(value) for key, value in (each.split("=") for each in figures)
        }
    return listed


def write_list(offenders: Offenders) -> None:
    """Write the tolerated functions, in order of files and names."""
    lines = [
        " ".join((file, name, *(f"{rule}={figure}" for rule, figure in sorted(figures.items()))))
        for (file, name), figures in sorted(offenders.items())
    ]
    OFFENDERS.write_text("".join(f"{line}\n" for line in lines), encoding="utf8")


def _functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield all functions of a file with their qualified names, outer before inner."""
    todo: list[tuple[str, ast.AST]] = [("", ast.parse(path.read_text(encoding="utf8")))]
    while todo:
        prefix, node = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child
                todo.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.ClassDef):
                todo.append((f"{prefix}{child.name}.", child))
            else:
                todo.append((prefix, child))


def _enclosing(
    functions: list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]], row: int
) -> str:
    """Return the name of the innermost function that contains a row."""
    spans = [(node.lineno, node.end_lineno or node.lineno, name) for name, node in functions]
    return max(span for span in spans if span[0] <= row <= span[1])[2]


def _ruff_findings() -> list[dict[str, object]]:
    """Ruff's findings of the rules on limits in nbaudio, also those that a `noqa` silences."""
    command = [sys.executable, "-m", "ruff", "check", "nbaudio", "--select", ",".join(REASONS)]
    command += ["--ignore-noqa", "--output-format", "json", "--exit-zero"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _relative(path: Path) -> str:
    """A path relative to the top of the repository."""
    return path.relative_to(TOP).as_posix()


def shorten(listed: Offenders, measured: Offenders) -> Offenders:
    """Return the listed functions that are still over a limit, with figures that have not grown."""
    return {
        key: {
            rule: min(figure, figures[rule])
            for rule, figure in measured[key].items()
            if rule in figures
        }
        for key, figures in listed.items()
        if key in measured
    }


if __name__ == "__main__":
    write_list(shorten(read_list(), measure()))
