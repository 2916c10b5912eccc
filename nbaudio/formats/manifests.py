"""What manifests of single lines have in common: one file or a folder of them, and paths of recordings of their own."""

import os
from dataclasses import replace
from pathlib import Path

from nbaudio.core.errors import InputError
from nbaudio.formats.base import Transcripts, check_link, escape_surrogates


def manifests(source: Path, endings: tuple[str, ...]) -> list[Path]:
    """The source itself, or the files in it with one of `endings`, sorted, hidden ones left out.

    Raises:
        InputError: there is none, or one is a link that leads elsewhere.
    """
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise InputError(f"{source}: there is no such file or folder")
    files = sorted(path for path in source.iterdir() if path.name.endswith(endings) and not path.name.startswith("."))
    if not files:
        raise InputError(f"{source}: no file here ends in {' or '.join(endings)}")
    for file in files:
        check_link(file, source)
        if escape_surrogates(file.name) != file.name:
            raise InputError(f"{source}: {escape_surrogates(file.name)}: its name is not Unicode; rename it")
    return files


def innermost_root(found: Transcripts, folder: Path) -> Transcripts:
    """`found` with the innermost folder that holds all of its recordings that are there, if any are.

    Args:
        found: transcripts whose names are paths, absolute or relative to `folder`.
        folder: of the manifest.
    """
    paths = (os.path.normpath(folder / name) for name in found.frame["name"].unique(maintain_order=True))
    # os.path, since names come from outside and it takes all of them.
    folders = {os.path.dirname(path) for path in paths if os.path.isfile(path)}  # noqa: PTH113, PTH120
    root = Path(os.path.commonpath(folders)) if folders else None
    return found if root is None or root == Path(root.anchor) else replace(found, audio_root=root)
