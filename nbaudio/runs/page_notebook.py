"""The notebook that a page shows: parameters once, no paths of the machine, no dead links.

Papermill puts the values of parameters into a cell of their own, below that with the defaults. A
page has one cell with the names, the values and what they mean. Pages are sent to colleagues, so
they name folders of this machine only by their last parts.
"""

import ast
import copy
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

from nbaudio.runs.parameters import PATH_LISTS, PATHS
from nbaudio.storage.urls import is_url

IMPORTS = "nbaudio_imports"  # in the metadata of a cell that a page shows closed
_DEFAULTS = "parameters"
_INJECTED = "injected-parameters"
# A link to the documentation, which a page of a run does not have beside it.
_LINK_TO_DOCS = re.compile(r"\[([^\[\]]+)\]\(\.\./docs/[^()\s]+\)")


def page_notebook(
    notebook: Mapping[str, Any], values: Mapping[str, Any], out: Path
) -> dict[str, Any]:
    """Return a copy of an executed notebook as its page shows it.

    Args:
        notebook: the notebook as JSON, with papermill's cell of injected parameters.
        values: the parameters that were injected.
        out: the folder of the run; paths in it begin with its name.

    Returns:
        The notebook with one cell of parameters, with short paths in all sources and outputs, and
        with the texts of links to the documentation in place of these links.
    """
    shown = copy.deepcopy(dict(notebook))
    shown["cells"] = [cell for cell in shown["cells"] if _INJECTED not in _tags(cell)]
    for cell in shown["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK_TO_DOCS.sub(r"\1", "".join(cell["source"]))
        if _is_imports(cell):
            cell["metadata"][IMPORTS] = True
        if _DEFAULTS in _tags(cell):
            cell["source"] = fill_in("".join(cell["source"]), values)
    text = json.dumps(shown, ensure_ascii=False)
    for path, short in short_paths(values, out).items():
        text = _replace_path(text, path, short)
        text = _replace_path(text, escape(path), escape(short))
    filled: dict[str, Any] = json.loads(text)
    return filled


def _is_imports(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell imports modules, and shows nothing."""
    source = "".join(cell["source"])
    is_code = cell["cell_type"] == "code" and not cell["outputs"]
    return is_code and source.startswith(("import ", "from "))


def _replace_path(text: str, path: str, short: str) -> str:
    """Replace a path in JSON, but not where it is the beginning of another name."""
    in_json = json.dumps(path, ensure_ascii=False)[1:-1]
    shown = json.dumps(short, ensure_ascii=False)[1:-1]
    return re.sub(re.escape(in_json) + r"(?![\w-])", lambda _: shown, text)


def _tags(cell: Mapping[str, Any]) -> list[str]:
    """Return the tags of a cell."""
    tags: list[str] = cell["metadata"].get("tags", [])
    return tags


def _parse(source: str) -> ast.Module:
    """Parse Python; once more if another thread parses at the same time.

    Python 3.11 counts the depth of all threads together, and raises SystemError where they differ.
    """
    try:
        return ast.parse(source)
    except SystemError:
        return ast.parse(source)


def fill_in(source: str, values: Mapping[str, Any]) -> str:
    """Replace what a cell of defaults assigns by the values; comments stay.

    Examples:
        >>> fill_in('n = manifest.get("n", 4)  # clips', {"n": 8})
        'n = 8  # clips'
    """
    lines = source.splitlines()
    for statement in _parse(source).body:
        is_one_line = statement.col_offset == 0 and statement.lineno == statement.end_lineno
        if not isinstance(statement, ast.Assign) or not is_one_line:
            continue
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or target.id not in values:
            continue
        line = lines[statement.lineno - 1].encode()
        comment = line[statement.end_col_offset :].decode()
        value = json.dumps(values[target.id], ensure_ascii=False)
        if not isinstance(values[target.id], str):
            value = repr(values[target.id])
        lines[statement.lineno - 1] = f"{target.id} = {value}{comment}"
    return "\n".join(lines)


def short_paths(values: Mapping[str, Any], out: Path) -> dict[str, str]:
    """Return how a page writes the paths of a run, the longest path first.

    The folder of the run is its name, an input its last two parts after an ellipsis, and the home
    folder ``~``.
    """
    short = {str(folder): out.name for folder in (out, out.resolve())}
    listed = chain.from_iterable(values.get(name) or () for name in PATH_LISTS)
    for value in chain(map(values.get, PATHS), listed):
        if isinstance(value, str) and not is_url(value) and Path(value).is_absolute():
            path = Path(value)
            if out not in path.parents:
                short[value] = "/".join(("…", *path.parts[1:][-2:]))
    with suppress(RuntimeError):  # the user has no home folder
        short[str(Path.home())] = "~"
    short.pop("/", None)
    return dict(sorted(short.items(), key=lambda item: -len(item[0])))
