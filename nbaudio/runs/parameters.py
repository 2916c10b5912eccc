"""Parameters of the notebooks, and their values in manifests and settings.

Manifests are YAML, with paths relative to their folder.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from nbaudio.core import bundled_files, input_guards
from nbaudio.core.dotted_names import with_folder
from nbaudio.core.errors import InputError
from nbaudio.storage.urls import redact_url

OUTPUTS = ("workspace", "corpus")
PATHS = (
    "source",
    "documents",
    "audio",
    "names",
    "returned",
    "minutes",
    "made_pairs",
    "splits",
    *OUTPUTS,
)
#: Parameters that may name a function, whose module may be beside the manifest.
FUNCTIONS = ("recognizer", "measure_with")
#: Parameters that are lists of paths.
PATH_LISTS = ("avoid",)

# YAML 1.1 reads 1e-3, which has no dot, as a string.
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_MOST_BYTES = 1 << 20
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def list_notebooks() -> list[Path]:
    """Return the bundled notebooks in order: 01, 02 and so on."""
    return sorted(bundled_files.bundled("notebooks").glob("[0-9][0-9]_*.ipynb"))


def defaults(notebook: Path) -> dict[str, Any]:
    """Return the parameters of a notebook, those of its cell ``parameters``, and their defaults.

    The default of ``n = manifest.get("n", 4)`` and of ``n = 4`` is 4; it is None for a value that
    is computed.
    """
    return {name: literal(node) for name, node in assignments(notebook).items()}


def assignments(notebook: Path) -> dict[str, ast.expr]:
    """Return the assignments of a notebook's cell tagged ``parameters``, by name."""
    cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
    tagged = [
        "".join(cell["source"])
        for cell in cells
        if "parameters" in cell["metadata"].get("tags", [])
    ]
    assigned: dict[str, ast.expr] = {}
    for node in ast.parse("\n".join(tagged)).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            if isinstance(node, ast.Assign):
                targets = node.targets
            else:
                targets = [node.target]
            assigned |= {
                target.id: node.value for target in targets if isinstance(target, ast.Name)
            }
    return assigned


def is_from_manifest(node: ast.expr) -> bool:
    """Return whether an expression is ``manifest.get(name)`` or ``manifest.get(name, default)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="manifest"), attr="get")):
            return True
    return False


def literal(node: ast.expr) -> Any:
    """Return the value of a literal, or the default of ``manifest.get(name, default)``.

    None for anything else.
    """
    if isinstance(node, ast.Call) and is_from_manifest(node):
        return literal(node.args[1]) if len(node.args) > 1 else None
    try:
        return ast.literal_eval(node)
    except ValueError:  # the value is computed, not a literal
        return None


def parameters(
    manifest: Path, settings: Mapping[str, Any], *, extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the checked values of a manifest and of settings over it, paths absolute.

    The name of a function has the folder of its module before it, if that is beside the manifest
    or in the current folder.

    `extra` has defaults of further names.
    """
    allowed = {
        name: value for notebook in list_notebooks() for name, value in defaults(notebook).items()
    } | dict(extra or {})
    values: dict[str, Any] = {}
    for part, where, folder in (
        (_read(manifest), str(manifest), manifest.parent),
        (settings, "setting", Path()),
    ):
        unknown = [str(name) for name in part if name not in allowed]
        if unknown:
            raise InputError(f"{where}: {_unknown_text(unknown, sorted(allowed))}")
        for name, value in part.items():
            if name in PATH_LISTS:
                entries = typed(value, [])
                values[name] = [_checked(name, entry, folder, where) for entry in entries]
            else:
                plain = value if name in PATHS else typed(value, allowed[name])
                values[name] = _checked(name, plain, folder, where)
    return {
        name: value for name, value in values.items() if value is not None or name not in OUTPUTS
    }


def _checked(name: str, value: Any, folder: Path, where: str) -> Any:
    """Return a value of a manifest; a path, which is relative to `folder`, is made absolute.

    The name of a function gets the folder of its module, if that is `folder` or the current one.
    Raise InputError for a path that is no text, and for a secret.
    """
    is_path = name in (*PATHS, *PATH_LISTS) and value is not None
    if is_path and not isinstance(value, str):
        raise InputError(f"{where}: {name} must be a path, not {value!r}")
    # Notebooks store their parameters, so these must hold no secret.
    if isinstance(value, str) and redact_url(value) != value:
        raise InputError(
            f"{where}: {name} is a URL with a password or query, which notebooks would store"
        )
    if name in FUNCTIONS and isinstance(value, str):
        return with_folder(value, (folder, Path()))
    if not is_path or _URL.match(value) or (name, value) == ("splits", "source"):
        return value
    return str((folder / value).absolute())


def _unknown_text(unknown: Sequence[str], allowed: Sequence[str]) -> str:
    """Return a clause about unknown parameters, with the nearest known one of each."""
    nearest = {name: get_close_matches(name, allowed, n=1) for name in unknown}
    described = [
        f"{name} (did you mean {near[0]}?)" if near else name for name, near in nearest.items()
    ]
    return f"unknown parameter {', '.join(described)}; known are {', '.join(allowed)}"


def typed(value: Any, default: Any) -> Any:
    """Convert a value to its default's type where that is plain.

    Numbers that YAML read as text, lists written with commas.
    """
    if isinstance(default, list):
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if value is None:
            return []
        return value
    if isinstance(value, str) and not isinstance(default, str) and _NUMBER.fullmatch(value.strip()):
        number = float(value)
        if isinstance(default, int) and number.is_integer():
            return int(number)
        return number
    return value


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Parse parameters of the form ``name=value``; values are YAML."""
    texts = split_settings(settings, what="setting", example="min_similarity=0.9")
    return {name: _parse(value, f"setting {name}") for name, value in texts.items()}


def split_settings(settings: Sequence[str], *, what: str, example: str) -> dict[str, str]:
    """Split settings of the form ``name=value``; errors name `what` is set and an example."""
    values = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise InputError(f"{what} {setting!r}: expected name=value, such as {example}")
        values[name.strip()] = value
    return values


def parse_only(only: str | None, count: int) -> list[int]:
    """Parse numbers of notebooks, counted from 1, such as ``3``, ``1-5`` or ``2,4-6``.

    None for all.
    """
    if only is None:
        return list(range(1, count + 1))
    chosen: set[int] = set()
    for part in only.split(","):
        match = re.fullmatch(r"\s*(\d{1,3})\s*(?:-\s*(\d{1,3})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last <= count:
            raise InputError(
                f"only={only!r}: expected numbers from 1 to {count}, such as 3, 1-5 or 2,4-6"
            )
        chosen.update(range(first, last + 1))
    return sorted(chosen)


class _PlainLoader(yaml.SafeLoader):
    """Loader of plain YAML values.

    No tags that create objects, and no aliases, with which ten lines can expand to a billion. A key
    that is given twice is an error: YAML would take the last value.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases such as *name are not allowed")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            first = lines.setdefault(str(key.value), line)
            if first != line:
                raise yaml.YAMLError(f"{key.value} is given twice, in the lines {first} and {line}")
        return node


def _parse(text: str, where: str) -> Any:
    """Parse a YAML value of plain types, without aliases; raise InputError for anything else."""
    try:
        value = yaml.load(text, _PlainLoader)  # noqa: S506 - it is a safe one
        repr(value)  # a number of 10,000 digits cannot be converted to text
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # ValueError: also an invalid date
        raise InputError(f"{where}: not YAML ({' '.join(str(error).split())})") from error
    return value


def read_text(path: Path) -> str:
    """Return the text of a small file; raise InputError if it is unreadable or no UTF-8."""
    try:
        return input_guards.read_all(path, most=_MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text") from error


def _read(manifest: Path) -> dict[Any, Any]:
    """Return the values of a manifest; raise InputError if it is no mapping."""
    values = _parse(read_text(manifest), str(manifest))
    if not isinstance(values, dict):
        raise InputError(
            f"{manifest}: a manifest is a mapping of parameters, this is {type(values).__name__}"
        )
    return values
