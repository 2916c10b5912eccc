"""The files of a source, listed to detect its format.

Each format has a function ``detect``, which takes `SourceFiles` and returns a `Layout` for each
source of its format among them.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from nbaudio.audio import name_matching
from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.formats.transcripts import check_link

_HEAD_BYTES = 1 << 20
# Files of folders that nbaudio made, which are no sources.
_OUTPUTS = frozenset({"workspace.json", "corpus.json"})


@dataclass(frozen=True)
class SourceFiles:
    """The files of a folder, or a single file, by their POSIX paths relative to the folder."""

    folder: Path
    names: tuple[str, ...]  # sorted; hidden files and what nbaudio made are left out
    is_single_file: bool = False  # not a folder with one file, which may grow

    @property
    def source(self) -> Path:
        """What was listed: the folder, or the single file."""
        if self.is_single_file:
            return self.folder / self.names[0]
        return self.folder

    def ending(self, *endings: str) -> list[str]:
        """Return the files with one of some endings, in any case."""
        return [name for name in self.names if name.lower().endswith(endings)]

    def named(self, base: str) -> list[str]:
        """Return the files that are called `base`, in any folder."""
        return [name for name in self.names if PurePosixPath(name).name == base]

    def below(self, folder: str) -> list[str]:
        """Return the files that are directly in a folder; ``.`` is the folder of all."""
        return [name for name in self.names if str(PurePosixPath(name).parent) == folder]

    def audio(self) -> list[str]:
        """Return the recordings."""
        return [name for name in self.names if name_matching.is_audio(name)]

    def path(self, name: str) -> Path:
        """Return the path of a file, or of a folder of files."""
        return self.folder / name if name != "." else self.folder

    def head(self, name: str) -> bytes:
        """Return the first bytes of a file, of a gzipped one unpacked; none if it is unreadable."""
        path = self.path(name)
        opener = gzip.open if name.lower().endswith(".gz") else open
        try:
            check_link(path, self.folder)
            with opener(path, "rb") as file:
                return bytes(file.read(_HEAD_BYTES))
        except (OSError, EOFError, zlib.error, InputError):
            return b""

    def first_line(self, name: str) -> str:
        """Return the first line of a text file that is not blank."""
        text = self.head(name).decode("utf-8-sig", errors="replace")
        return next((line for line in text.splitlines() if line.strip()), "")

    def first_object(self, name: str) -> Mapping[str, Any]:
        """Return the first JSON object among the first lines of a file; an empty one if none is."""
        text = self.head(name).decode("utf-8-sig", errors="replace")
        for line in text.splitlines()[:100]:
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict):
                    return value
        return {}


@dataclass(frozen=True)
class Layout:
    """A source as the reader of one format sees it."""

    format: str
    source: Path  # what the reader is given
    reason: str  # a clause such as "asr.json has the fields file, start, end and words"
    files: frozenset[str]  # names among `SourceFiles` that the reader reads
    recording: str | None = None  # how the source names one recording; None if it brings them
    options: Mapping[str, str] = field(default_factory=dict)  # of the format
    documents: Path | None = None  # transcripts that are not cut
    names: Path | None = None  # a file that says where each recording is
    question: str | None = None  # what a person has to choose, with the setting that does it


def list_source_files(source: Path, *, skip: Iterable[Path] = ()) -> SourceFiles:
    """List the files of a folder, or a single file.

    Hidden files and folders, links to folders, folders with a workspace or a corpus and the folders
    `skip` are left out.

    Raises:
        InputError: there is no such file or folder, or it has no file.
    """
    if source.is_file():
        return SourceFiles(source.parent, (source.name,), is_single_file=True)
    if not source.is_dir():
        raise InputError(f"{source}: there is no such file or folder")
    skipped = {Path(folder).absolute() for folder in skip}
    names: list[str] = []
    for folder, folders, files in os.walk(source):
        if _OUTPUTS & {*files}:
            folders.clear()
            continue
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and Path(folder, name).absolute() not in skipped
        ]
        relative = Path(folder).relative_to(source)
        names += [(relative / name).as_posix() for name in files if not name.startswith(".")]
    if not names:
        raise InputError(f"{source}: there is no file in it")
    shown = [name for name in names if input_guards.escape_surrogates(name) == name]
    return SourceFiles(source, tuple(sorted(shown)))


def common_folder(names: Iterable[str]) -> str:
    """Return the innermost folder that holds all files; ``.`` for the folder of all."""
    folders = {os.path.dirname(name) for name in names}  # noqa: PTH120  # of POSIX paths
    if folders and "" not in folders:
        return os.path.commonpath(folders)
    return "."


def list_words(words: Iterable[str], last: str = "and") -> str:
    """Return words as a phrase, such as ``a, b and c``."""
    *first, end = words
    if not first:
        return end
    return f"{', '.join(first)} {last} {end}"
