"""Parameters of a run: which there are, what a manifest and settings say, and what is allowed.

Conventions: a manifest is YAML, a mapping of names to plain values. The names that are known are those in the notebooks' cells
tagged ``parameters``; the values there are the defaults. Paths in a manifest are relative to its folder, those in settings to
the current one.
"""

import ast
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nbaudio.core.errors import InputError
from nbaudio.core.guards import read_all
from nbaudio.core.resources import PACKAGE, bundled
from nbaudio.storage.urls import redact_url

PATHS = ("source", "audio", "names", "returned", "workspace", "corpus")

# YAML 1.1 reads 1e-3 as a string, for want of a dot.
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
_MOST_BYTES = 1 << 20
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def list_notebooks() -> list[Path]:
    """The bundled notebooks in order: 01, 02 and so on."""
    return sorted(bundled("notebooks").glob("[0-9][0-9]_*.ipynb"))


def defaults(notebook: Path) -> dict[str, Any]:
    """What a notebook's cell tagged ``parameters`` assigns, by name.

    Examples:
        >>> defaults(list_notebooks()[5])["max_duration"]
        20.0
    """
    cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
    tagged = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    return {
        target.id: _literal(node.value)
        for source in tagged
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }


def _literal(value: ast.expr | None) -> Any:
    """A plain value as it is written; None for one that is computed."""
    try:
        return ast.literal_eval(value) if value is not None else None
    except ValueError:
        return None


def parameters(manifest: Path, settings: Mapping[str, Any], *, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a manifest and of settings over them, checked by name, of the types of the defaults, paths absolute.

    Args:
        manifest: the YAML file.
        settings: values that go before the manifest's.
        extra: defaults of further names that may be given.

    Raises:
        InputError: the manifest is not a readable mapping, or a name is not known; names those that are.
    """
    known = {name: value for notebook in list_notebooks() for name, value in defaults(notebook).items()} | dict(extra or {})
    values: dict[str, Any] = {}
    given = ((_read(manifest), str(manifest), manifest.parent), (settings, "setting", Path()))
    for part, where, folder in given:
        unknown = [str(name) for name in part if name not in known]
        if unknown:
            raise InputError(f"{where}: unknown parameter {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        for name, value in part.items():
            if name in PATHS and value is not None and not isinstance(value, str):
                raise InputError(f"{where}: {name} must be a path, not {value!r}")
            if isinstance(value, str) and redact_url(value) != value:  # notebooks hold their parameters
                raise InputError(f"{where}: {name} is an address with a password or query, which would be written down")
            is_path = name in PATHS and value is not None and not _URL.match(value)
            values[name] = str((folder / value).absolute()) if is_path else typed(value, known[name])
    return {name: value for name, value in values.items() if value is not None or name not in ("workspace", "corpus")}


def notebook_parameters(manifest: Path, notebook: Path, *, fill: bool = True) -> dict[str, Any]:
    """The values of a manifest that one notebook has parameters for, with absolute paths.

    Args:
        manifest: the YAML file; its relative paths are relative to its folder.
        notebook: a notebook with a cell tagged ``parameters``.
        fill: whether paths that the manifest leaves out are the notebook's defaults, relative to the notebook's folder.
            Workspace and corpus then are in the folder ``NAME-output`` beside the folder of the notebooks, NAME being the
            manifest's; in the current folder for the notebooks of an installed package.

    Raises:
        InputError: the manifest cannot be used; see `parameters`.

    Examples:
        >>> from nbaudio.core.resources import PACKAGE, bundled
        >>> values = notebook_parameters(bundled("data_manifests/demo.yaml"), bundled("notebooks/02_transcripts.ipynb"))
        >>> sorted(values), values["workspace"][-22:]
        (['normalize', 'workspace'], '/demo-output/workspace')
    """
    has = defaults(notebook)
    manifest = manifest.parent.resolve() / manifest.name
    values = {name: value for name, value in parameters(manifest, {}, extra=has).items() if name in has}
    folder = notebook.parent.resolve()
    top = Path.cwd() if PACKAGE in folder.parents else folder.parent
    for name in [name for name in PATHS if fill and name not in values and isinstance(has.get(name), str)]:
        made = name in ("workspace", "corpus")
        values[name] = os.path.normpath(top / f"{manifest.stem}-output" / name if made else folder / has[name])
    return values


def typed(value: Any, default: Any) -> Any:
    """A value as the default's type wants it, where that is plain: numbers that YAML took for text, lists written with commas.

    Examples:
        >>> typed("1e-3", 0.8), typed("nfc, lower", []), typed("1.5h", 2000)
        (0.001, ['nfc', 'lower'], '1.5h')
    """
    if isinstance(default, list):
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return [] if value is None else value
    if isinstance(value, str) and not isinstance(default, str) and _NUMBER.fullmatch(value.strip()):
        number = float(value)
        return int(number) if isinstance(default, int) and number.is_integer() else number
    return value


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Parameters written as ``name=value``; values are YAML.

    Raises:
        InputError: one is not of that form.

    Examples:
        >>> parse_settings(["hours=1.5", "audio=null", "group_by=[speaker_id]"])
        {'hours': 1.5, 'audio': None, 'group_by': ['speaker_id']}
    """
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise InputError(f"setting {setting!r}: wanted is name=value, such as min_similarity=0.9")
        found[name.strip()] = _parse(value, f"setting {name.strip()}")
    return found


def parse_only(only: str | None, count: int) -> list[int]:
    """Numbers of notebooks from 1, in order, out of ``3``, ``1-5`` or ``2,4-6``; all for None.

    Raises:
        InputError: it is of another form, or there is no such notebook.

    Examples:
        >>> parse_only("2,4-6", 7), parse_only(None, 3)
        ([2, 4, 5, 6], [1, 2, 3])
    """
    if only is None:
        return list(range(1, count + 1))
    chosen: set[int] = set()
    for part in only.split(","):
        found = re.fullmatch(r"\s*(\d{1,3})\s*(?:-\s*(\d{1,3})\s*)?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= count:
            raise InputError(f"only={only!r}: wanted are numbers from 1 to {count}, such as 3, 1-5 or 2,4-6")
        chosen.update(range(first, last + 1))
    return sorted(chosen)


class _PlainLoader(yaml.SafeLoader):
    """YAML of plain values: no tags that make objects, and no aliases, of which ten lines grow to a billion."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases such as *name are not taken")
        return super().compose_node(parent, index)


def _parse(text: str, where: str) -> Any:
    try:
        value = yaml.load(text, _PlainLoader)  # noqa: S506 - it is a safe one
        repr(value)  # a number of 10,000 digits cannot be written
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: also a date that is none
        raise InputError(f"{where}: not YAML ({' '.join(str(error).split())})") from error
    return value


def _read(manifest: Path) -> dict[Any, Any]:
    try:
        values = _parse(read_all(manifest, most=_MOST_BYTES).decode("utf8"), str(manifest))
    except OSError as error:
        raise InputError(f"{manifest}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{manifest}: not UTF-8 text") from error
    if not isinstance(values, dict):
        raise InputError(f"{manifest}: a manifest is a mapping of parameters, this is {type(values).__name__}")
    return values
