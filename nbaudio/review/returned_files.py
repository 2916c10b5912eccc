"""Find and read the sheets and verdict files that reviewers sent back.

A folder of them may have other files. The report of the import names each of them, with the reason
why it is not read.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
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
# Names of hidden files, and of the lock files of Microsoft Office, begin with these. Such files and
# folders are passed over without a line in the report.
_HIDDEN_PREFIXES = ("~$", ".")
# Folders that macOS adds to archives; they are passed over as well.
_HIDDEN_FOLDERS = frozenset({"__MACOSX"})
_EXPECTED = f"{', '.join(READ_KINDS)} or -verdicts.json"

Returned = str | Path | Frame | Sequence[str | Path | Frame] | None


@dataclass(frozen=True)
class ReturnedSheets:
    """The sheets that reviewers returned, and the other files beside them."""

    sheets: list[Sheet]  # in the order in which they were saved
    audio_files: int  # the number of audio files in the folders; they are not read
    not_read: list[str]  # a line for each file of a folder that is neither a sheet nor audio
    damaged: list[str]  # a line for each sheet of a folder that cannot be read


@dataclass(frozen=True)
class _FolderFiles:
    """The files of a folder and its subfolders by their kind, without hidden ones."""

    folder: Path
    sheets: list[Path]  # sheets and verdict files
    audio: list[Path]
    others: list[Path]


def read_returned(returned: Returned) -> ReturnedSheets:
    """Read sheets, verdict files, folders of them, and tables of pandas or polars.

    Raises:
        InputError: a file that is given by its own name is no sheet or cannot be read.
    """
    sources = _as_list(returned)
    paths = [Path(source) for source in sources if isinstance(source, str | Path)]
    tables = [source for source in sources if not isinstance(source, str | Path)]
    folders = [_list_files(path) for path in paths if path.is_dir()]
    sheets = [read_sheet(path) for path in paths if not path.is_dir()]
    damaged = []
    for path in chain.from_iterable(folder.sheets for folder in folders):
        try:
            sheets.append(read_sheet(path))
        except InputError as error:
            damaged.append(f"{error}: not imported")
    sheets.sort(key=lambda sheet: (sheet.saved, sheet.path))
    sheets += [read_table(table) for table in tables]
    not_read = [line for folder in folders for line in _lines_of_others(folder)]
    if not sheets and not damaged:
        not_read.append(_nothing_returned(folder.folder for folder in folders))
    num_audio = sum(len(folder.audio) for folder in folders)
    return ReturnedSheets(sheets, num_audio, not_read, damaged)


def _as_list(returned: Returned) -> Sequence[Any]:
    """Return the returned sheets as a list: empty for None, of one for a single sheet."""
    if returned is None:
        return []
    if isinstance(returned, Sequence) and not isinstance(returned, str):
        return returned
    return [returned]


def _list_files(folder: Path) -> _FolderFiles:
    """Sort the files of a folder and of all folders below it by their kind."""
    files = _FolderFiles(folder, [], [], [])
    for path in _paths_below(folder):
        if is_audio(path.name):
            files.audio.append(path)
        elif path.is_file() and (path.suffix.lower() in READ_KINDS or is_verdict_file(path)):
            files.sheets.append(path)
        else:
            files.others.append(path)
    return files


def _paths_below(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of all folders below it, and links to folders as they are.

    Hidden files and folders are left out.
    """
    for parent, subfolders, names in os.walk(folder):
        # os.walk continues with the folders that remain in its list. It does not follow links.
        subfolders[:] = sorted(name for name in subfolders if not _is_hidden(name))
        links = [name for name in subfolders if Path(parent, name).is_symlink()]
        for name in sorted([*names, *links]):
            if not _is_hidden(name):
                yield Path(parent, name)


def _is_hidden(name: str) -> bool:
    """Return whether a file or folder of this name is passed over without a line in the report."""
    return name.startswith(_HIDDEN_PREFIXES) or name in _HIDDEN_FOLDERS


def _lines_of_others(files: _FolderFiles) -> Iterator[str]:
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
    """Return a line that says that no sheet was returned, and which folders have none."""
    where = "".join(f"; {folder} has no file that ends in {_EXPECTED}" for folder in folders)
    return f"no sheet has been returned yet{where}"
