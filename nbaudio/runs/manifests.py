"""Parameters of a run: manifests (YAML, paths relative to their folder) and settings, checked against those of the notebooks."""

import ast
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from nbaudio.core import bundled_files, input_guards
from nbaudio.core.errors import InputError
from nbaudio.storage.urls import redact_url

PATHS = ("source", "documents", "audio", "names", "returned", "splits", "workspace", "corpus")

# YAML 1.1 reads 1e-3, which has no dot, as a string.
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_MOST_BYTES = 1 << 20
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def list_notebooks() -> list[Path]:
    """Return the bundled notebooks in order: 01, 02 and so on."""
    return sorted(bundled_files.bundled("notebooks").glob("[0-9][0-9]_*.ipynb"))


def defaults(notebook: Path) -> dict[str, Any]:
    """Return the values that a notebook's cell tagged ``parameters`` assigns, by name."""
    cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
    tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    found: dict[str, Any] = {}
    for node in ast.parse("\n".join(tagged)).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found[target.id] = None
                    with suppress(ValueError):  # it is computed
                        found[target.id] = ast.literal_eval(node.value) if node.value is not None else None
    return found


def parameters(manifest: Path, settings: Mapping[str, Any], *, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the checked values of a manifest and of settings over it, paths absolute; `extra` has defaults of further names."""
    known = {name: value for notebook in list_notebooks() for name, value in defaults(notebook).items()} | dict(extra or {})
    values: dict[str, Any] = {}
    for part, where, folder in ((_read(manifest), str(manifest), manifest.parent), (settings, "setting", Path())):
        unknown = [str(name) for name in part if name not in known]
        if unknown:
            raise InputError(f"{where}: unknown parameter {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        for name, value in part.items():
            if name in PATHS and value is not None and not isinstance(value, str):
                raise InputError(f"{where}: {name} must be a path, not {value!r}")
            if isinstance(value, str) and redact_url(value) != value:  # notebooks hold their parameters
                raise InputError(f"{where}: {name} is a URL with a password or query, which notebooks would store")
            is_path = name in PATHS and value is not None and not _URL.match(value) and (name, value) != ("splits", "source")
            values[name] = str((folder / value).absolute()) if is_path else typed(value, known[name])
    return {name: value for name, value in values.items() if value is not None or name not in ("workspace", "corpus")}


def notebook_parameters(manifest: Path, notebook: Path, *, fill: bool = True) -> dict[str, Any]:
    """Return the values of a manifest for one notebook, paths absolute; `fill` adds the notebook's own ones (docs/runs.md)."""
    has = defaults(notebook)
    manifest = manifest.parent.resolve() / manifest.name
    values = {name: value for name, value in parameters(manifest, {}, extra=has).items() if name in has}
    folder = notebook.parent.resolve()
    top = Path.cwd() if bundled_files.PACKAGE in folder.parents else folder.parent
    for name in [name for name in PATHS if fill and name not in values and isinstance(has.get(name), str)]:
        made = name in ("workspace", "corpus")
        values[name] = os.path.normpath(top / f"{manifest.stem}-output" / name if made else folder / has[name])
    return values


def typed(value: Any, default: Any) -> Any:
    """Convert a value to its default's type where that is plain: numbers that YAML read as text, lists written with commas."""
    if isinstance(default, list):
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return [] if value is None else value
    if isinstance(value, str) and not isinstance(default, str) and _NUMBER.fullmatch(value.strip()):
        number = float(value)
        return int(number) if isinstance(default, int) and number.is_integer() else number
    return value


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Parse parameters of the form ``name=value``; values are YAML."""
    given = split_settings(settings, what="setting", example="min_similarity=0.9")
    return {name: _parse(value, f"setting {name}") for name, value in given.items()}


def split_settings(settings: Sequence[str], *, what: str, example: str) -> dict[str, str]:
    """Split settings of the form ``name=value``; errors name `what` is set and an example."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise InputError(f"{what} {setting!r}: expected name=value, such as {example}")
        found[name.strip()] = value
    return found


def parse_only(only: str | None, count: int) -> list[int]:
    """Parse numbers of notebooks, counted from 1, such as ``3``, ``1-5`` or ``2,4-6``; None for all."""
    if only is None:
        return list(range(1, count + 1))
    chosen: set[int] = set()
    for part in only.split(","):
        found = re.fullmatch(r"\s*(\d{1,3})\s*(?:-\s*(\d{1,3})\s*)?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= count:
            raise InputError(f"only={only!r}: expected numbers from 1 to {count}, such as 3, 1-5 or 2,4-6")
        chosen.update(range(first, last + 1))
    return sorted(chosen)


class _PlainLoader(yaml.SafeLoader):
    """Loader of plain YAML values: no tags that create objects, and no aliases, with which ten lines can expand to a billion."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases such as *name are not allowed")
        return super().compose_node(parent, index)


def _parse(text: str, where: str) -> Any:
    try:
        value = yaml.load(text, _PlainLoader)  # noqa: S506 - it is a safe one
        repr(value)  # a number of 10,000 digits cannot be converted to text
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: also an invalid date
        raise InputError(f"{where}: not YAML ({' '.join(str(error).split())})") from error
    return value


def _read(manifest: Path) -> dict[Any, Any]:
    try:
        values = _parse(input_guards.read_all(manifest, most=_MOST_BYTES).decode("utf8"), str(manifest))
    except OSError as error:
        raise InputError(f"{manifest}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{manifest}: not UTF-8 text") from error
    if not isinstance(values, dict):
        raise InputError(f"{manifest}: a manifest is a mapping of parameters, this is {type(values).__name__}")
    return values
