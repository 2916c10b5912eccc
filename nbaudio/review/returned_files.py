"""Find and read the sheets and verdict files that reviewers sent back.

Every other file in a folder of them is named, with the reason why it is not read.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbaudio.audio.name_matching import is_audio
from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import escape_surrogates
from nbaudio.formats.workbooks import other_format
from nbaudio.review.sheet_reader import (
    PAGE_REMEDY,
    READ_KINDS,
    Sheet,
    is_verdict_file,
    read_sheet,
    read_table,
)
from nbaudio.tables.dataframes import Frame

_ARCHIVES = frozenset({".zip", ".7z", ".rar", ".gz", ".tar", ".tgz", ".xz"})
# What programs leave in folders; also hidden files, of which there is no mention either.
_OF_PROGRAMS = ("~$", ".")
_FOLDERS_OF_PROGRAMS = frozenset({"__MACOSX"})
_EXPECTED = f"{', '.join(READ_KINDS)} or -verdicts.json"

Returned = str | Path | Frame | Sequence[str | Path | Frame] | None


@dataclass(frozen=True)
class ReturnedSheets:
    """The sheets that reviewers returned, and the other files beside them."""

    sheets: list[Sheet]  # in the order in which they were saved
    audio_files: int  # the number of audio files in the folders; they are not read
    not_read: list[str]  # a line for each other file of a folder that is no sheet
    damaged: list[str]  # a line for each sheet of a folder that cannot be read


@dataclass(frozen=True)
class _FolderFiles:
    """The files of a folder and its subfolders, without those that programs leave there."""

    folder: Path
    sheets: list[Path]
    audio: list[Path]
    others: list[Path]


def read_returned(returned: Returned) -> ReturnedSheets:
    """Read sheets, verdict files, folders of them, and tables of pandas or polars.

    Raises:
        InputError: a file that is given by its own name is no sheet or cannot be read.
    """
    sources = _as_list(returned)
    places = [Path(source) for source in sources if isinstance(source, str | Path)]
    folders = [_list_files(place) for place in places if place.is_dir()]
    read = [read_sheet(place) for place in places if not place.is_dir()]
    damaged = []
    for path in (path for folder in folders for path in folder.sheets):
        try:
            read.append(read_sheet(path))
        except InputError as error:
            damaged.append(f"{error}: not imported")
    read.sort(key=lambda sheet: (sheet.saved, sheet.path))
    read += [read_table(table) for table in sources if not isinstance(table, str | Path)]
    not_read = [line for folder in folders for line in _not_read(folder)]
    if not read and not damaged:
        not_read.append(_nothing_returned(folder.folder for folder in folders))
    return ReturnedSheets(read, sum(len(folder.audio) for folder in folders), not_read, damaged)


def _as_list(returned: Returned) -> Sequence[Any]:
    """Return the returned sheets as a list: empty for None, of one for a single sheet."""
    if returned is None:
        return []
    if isinstance(returned, Sequence) and not isinstance(returned, str):
        return returned
    return [returned]


def _list_files(folder: Path) -> _FolderFiles:
    """List the files of a folder and all folders below it; links to folders are not followed."""
    files = _FolderFiles(folder, [], [], [])
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_of_program(name))
        links = [name for name in folders if Path(place, name).is_symlink()]
        for path in (Path(place, name) for name in sorted([*names, *links])):
            if _is_of_program(path.name):
                continue
            if is_audio(path.name):
                files.audio.append(path)
            elif path.is_file() and (path.suffix.lower() in READ_KINDS or is_verdict_file(path)):
                files.sheets.append(path)
            else:
                files.others.append(path)
    return files


def _is_of_program(name: str) -> bool:
    """Return whether a name is that of a file or folder that programs leave behind."""
    return name.startswith(_OF_PROGRAMS) or name in _FOLDERS_OF_PROGRAMS


def _not_read(files: _FolderFiles) -> Iterator[str]:
    """Yield a line for each file that is neither a sheet nor audio."""
    for path in files.others:
        name = escape_surrogates(path.relative_to(files.folder).as_posix())
        yield f"{name}: not read: {_reason(path)}"


def _reason(path: Path) -> str:
    """Return why a file of a folder is not read, and what to do if it has verdicts."""
    kind = path.suffix.lower()
    if not path.is_file():
        return "a link to a folder" if path.is_dir() else "not a regular file"
    if kind in {".html", ".htm"}:
        return PAGE_REMEDY
    if kind == ".json":
        return (
            "its name does not end in -verdicts.json, as those of verdict files do; "
            "if it is one, give its own name"
        )
    if kind in _ARCHIVES:
        return "an archive: unpack it"
    return other_format(path) or "not a sheet"


def _nothing_returned(folders: Iterable[Path]) -> str:
    """Return a line that says that no sheet came back, and where it was looked for."""
    where = "".join(f"; {folder} has no file that ends in {_EXPECTED}" for folder in folders)
    return f"no sheet has been returned yet{where}"
