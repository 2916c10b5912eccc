"""Manifests of data that a person names by a folder or file alone."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nbaudio.core import atomic
from nbaudio.core.errors import ExistsError
from nbaudio.runs.parameters import parameters
from nbaudio.runs.preflight import check_run
from nbaudio.sources.detection import Detected, detect_source
from nbaudio.storage.urls import is_url

NAME = "manifest.yaml"
_ENDINGS = (".yaml", ".yml")
# Keys of a manifest that say how data are read.
_PATHS = ("source", "audio", "documents", "names")
_KEYS = ("format", *_PATHS, "options")


@dataclass(frozen=True)
class OwnManifest:
    """A manifest, and what it assumes about the data as lines of text."""

    path: Path
    lines: tuple[str, ...]


def is_manifest(path: Path) -> bool:
    """Return whether a path is that of a manifest, by its ending, and not of data."""
    return path.suffix.lower() in _ENDINGS and not path.is_dir()


def manifest_of_data(source: Path, out: Path, settings: Mapping[str, Any]) -> OwnManifest:
    """Return the manifest ``OUT/manifest.yaml`` of a folder or file of data.

    It is written if it is not there, from what the data look like and from `settings`; a manifest
    that is there is used as it is.

    Args:
        source: a folder or file of transcripts and recordings.
        out: the folder of the manifest, the workspace and the corpus.
        settings: parameters that a person sets, which answer what cannot be found out.

    Raises:
        InputError: the format cannot be found out.
        ExistsError: `out` has the manifest of other data.
    """
    path = out / NAME
    if path.exists():
        _check_same_data(path, source)
        line = f"{path}: used as it is; remove it to find out the format of {source} again"
        return OwnManifest(path, (line,))
    detected = detect_source(source, format=settings.get("format"), answers=settings, skip=(out,))
    values = _manifest_values(detected, settings)
    texts = {
        name: str(value) if isinstance(value, Path) else value for name, value in values.items()
    }
    check_run(texts, _KEYS)
    relative = {name: _relative(value, out) for name, value in values.items()}
    outputs = {"workspace": "workspace", "corpus": "corpus"}
    text = yaml.safe_dump(relative | outputs, allow_unicode=True, sort_keys=False)
    about = (
        "# What nbaudio assumed about your data; change it as needed. Paths are relative to this\n"
        "# file; parlaspeech.yaml among the bundled manifests explains every key.\n"
    )
    atomic.write_bytes(path, f"{about}{text}".encode())
    return OwnManifest(path, _describe(detected, values, path))


def _manifest_values(detected: Detected, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a manifest; paths are absolute."""
    layout = detected.layout
    assumed = {
        "format": layout.format,
        "source": layout.source.absolute(),
        "audio": detected.audio and detected.audio.absolute(),
        "documents": layout.documents and layout.documents.absolute(),
        "names": layout.names and layout.names.absolute(),
        "options": dict(layout.options),
    }
    settings_of_keys = {
        name: Path(value).absolute() if name in _PATHS and value and not is_url(value) else value
        for name, value in settings.items()
        if name in _KEYS
    }
    values = assumed | settings_of_keys
    return {
        name: value
        for name, value in values.items()
        if value or name in {"format", "source", "audio"}
    }


def _relative(value: Any, out: Path) -> Any:
    """Return a path relative to the folder of the manifest, where that is possible."""
    if not isinstance(value, Path):
        return value
    try:
        # The manifest's folder may be reached by a link, which ".." follows.
        return Path(os.path.relpath(value, out.resolve())).as_posix()
    except ValueError:  # Windows: a path on another drive cannot be relative
        return value.as_posix()


def _check_same_data(manifest: Path, requested: Path) -> None:
    """Raise ExistsError if a manifest is that of other data."""
    source = parameters(manifest, {}).get("source")
    if isinstance(source, str):
        of_manifest = Path(os.path.normpath(source))
    else:
        of_manifest = None
    wanted = Path(os.path.normpath(requested.absolute()))
    resolved = requested.resolve()
    if of_manifest is None or not (
        of_manifest.is_relative_to(wanted) or of_manifest.resolve().is_relative_to(resolved)
    ):
        raise ExistsError(
            f"{manifest}: is the manifest of {source}, not of {requested}; choose another --out, "
            "or remove it"
        )


def _describe(detected: Detected, values: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Return at most ten lines that say what was assumed."""
    layout = detected.layout
    lines = [f"{layout.reason}: read as format {values['format']}", f"source: {values['source']}"]
    if values.get("documents"):
        lines.append(f"documents: {values['documents']}")
    count = f"{detected.recordings:,} recordings"
    if values["audio"]:
        lines.append(f"audio: {values['audio']}, {count}")
    elif detected.recordings:
        lines.append(f"audio: where the source says, {count}")
    else:
        lines.append("audio: no recordings are there; --set audio=FOLDER names their folder")
    if values.get("names"):
        lines.append(f"names: {values['names']}")
    if values.get("options"):
        pairs = [f"{name}={value}" for name, value in values["options"].items()]
        lines.append(f"options: {', '.join(pairs)}")
    if unread := detected.describe_unread():
        lines.append(f"not read: {unread}")
    lines.append(f"{path}: written; change it and run the same command again")
    return tuple(lines)
