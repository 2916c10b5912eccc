"""Manifests that the notebooks read, opened by hand or run by papermill."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbaudio.core import bundled_files
from nbaudio.core.errors import InputError
from nbaudio.runs.own_data import is_manifest, manifest_of_data
from nbaudio.runs.parameters import (
    PATHS,
    assignments,
    defaults,
    is_from_manifest,
    literal,
    parameters,
    read_text,
)


def load_manifest(pointer: str | Path = "manifest.txt") -> dict[str, Any]:
    """Return the values of the manifest that a text file names.

    For notebooks that are opened by hand.

    ``manifest.txt`` beside the notebooks holds one line: the path of your manifest, or of the
    folder or file of your data (`nbaudio.runs.own_data`), relative to that file. Lines that begin
    with ``#`` are comments. Parameters that `nbaudio run` or papermill set take precedence, as
    their cell comes later.

    Args:
        pointer: the text file, relative to the current folder.

    Returns:
        The checked values, with absolute paths. `workspace` and `corpus` are in the folder
        ``NAME-output`` beside that of the notebooks, unless the manifest names them. Without the
        text file they are in ``nbaudio-output``, and there are no other values.

    Raises:
        InputError: the text file names no manifest, the manifest cannot be read or has an unknown
            parameter, or the format of data cannot be found out.
    """
    pointer = Path(pointer)
    if not pointer.exists():
        return output_folders(Path("nbaudio-output").absolute(), {})
    lines = [line.strip() for line in read_text(pointer).splitlines()]
    names = [line for line in lines if line and not line.startswith("#")]
    if len(names) != 1:
        raise InputError(
            f"{pointer}: expected one line, the path of a manifest such as "
            f"my-corpus.yaml; it has {len(names)}"
        )
    manifest = pointer.parent / names[0]
    manifest = manifest.parent.resolve() / manifest.name
    if not manifest.exists():
        raise InputError(
            f"{pointer}: there is no manifest {names[0]}; a path is relative to the "
            f"folder of {pointer.name}"
        )
    out = default_output(manifest, pointer.parent.resolve())
    if not is_manifest(manifest):
        manifest = _manifest_of_data(manifest, out)
    values = parameters(manifest, {})
    return values | output_folders(out, values)


def _manifest_of_data(source: Path, out: Path) -> Path:
    """Return the manifest of a folder or file of data; print what a new one assumes."""
    manifest = manifest_of_data(source, out, {})
    for line in manifest.lines:
        print(line)
    return manifest.path


def default_output(manifest: Path, notebooks: Path) -> Path:
    """Return the folder ``NAME-output`` of a manifest, beside the folder of the notebooks.

    For the notebooks of an installed package, which is no place for output, it is in the current
    folder.
    """
    if bundled_files.PACKAGE in notebooks.resolve().parents:
        top = Path.cwd()
    else:
        top = notebooks.parent
    return Path(os.path.normpath(top / f"{manifest.stem}-output"))


def output_folders(folder: Path, values: Mapping[str, Any]) -> dict[str, str]:
    """Return `workspace` and `corpus`: those of `values`, else in a folder.

    A corpus is beside its workspace.
    """
    workspace = values.get("workspace") or str(folder / "workspace")
    corpus = values.get("corpus") or str(Path(workspace).parent / "corpus")
    return {"workspace": workspace, "corpus": corpus}


def notebook_parameters(manifest: Path, notebook: Path, *, fill: bool = True) -> dict[str, Any]:
    """Return the values of a manifest for one notebook, paths absolute.

    With `fill` they include the notebook's defaults of parameters that the manifest leaves out;
    paths among these are relative to the notebook.
    """
    notebook_defaults = defaults(notebook)
    manifest = manifest.parent.resolve() / manifest.name
    values = parameters(manifest, {}, extra=notebook_defaults)
    if fill:
        folder = notebook.parent.resolve()
        outputs = output_folders(default_output(manifest, folder), values)
        values = _defaults_to_fill(notebook, folder) | outputs | values
    return {name: value for name, value in values.items() if name in notebook_defaults}


def _defaults_to_fill(notebook: Path, folder: Path) -> dict[str, Any]:
    """Return the defaults of parameters that ``manifest.txt`` may set, and of paths.

    Paths become absolute; they are relative to `folder`.
    """
    filled: dict[str, Any] = {}
    for name, node in assignments(notebook).items():
        default = literal(node)
        if name in PATHS and isinstance(default, str):
            filled[name] = os.path.normpath(folder / default)
        elif is_from_manifest(node):
            filled[name] = default
    return filled
