"""Read LibriSpeech, whose folders are ``split/speaker/chapter/``.

A chapter has ``*.flac`` and one ``*.trans.txt``; ``SPEAKERS.TXT`` is at the top.
"""

import re
import tarfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio.name_matching import composed
from nbaudio.core import input_guards, threads
from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.formats.source_files import Layout, SourceFiles
from nbaudio.formats.transcripts import NotRead, Problem, Transcripts, collect_rows, with_not_read
from nbaudio.storage import archives
from nbaudio.storage.location import Location, LocationLike, location, read_whole

_EXPECTED = "a LibriSpeech tree: split/speaker/chapter/*.trans.txt"
_SPEAKERS = "SPEAKERS.TXT"
_TRANSCRIPTS = ".trans.txt"
_RECORDING = ".flac"
_PATH_PARTS = 4  # split, speaker, chapter, and the name of the file
_LINE = re.compile(r"(\S+)(?:[ \t]+(.*))?")
_JOBS = 16  # chapters that are fetched at once


@dataclass(frozen=True)
class _File:
    """A file of the tree: a recording, the transcripts of a chapter, or ``SPEAKERS.TXT``.

    `path` is relative to the folder of splits. `contents` are the bytes of a text, and empty for a
    recording, which is not read here.
    """

    path: str
    contents: bytes = b""

    @property
    def is_recording(self) -> bool:
        return self.path.endswith(_RECORDING)


@dataclass(frozen=True)
class _Speaker:
    """A speaker, as a line of ``SPEAKERS.TXT`` describes them."""

    speaker_id: str
    speaker_gender: str
    speaker_name: str


def detect(files: SourceFiles) -> list[Layout]:
    """Return the tree of LibriSpeech that files are in, or each archive with such a tree."""
    transcripts = files.ending(_TRANSCRIPTS)
    if transcripts:
        count = f"{len(transcripts):,} files end in {_TRANSCRIPTS}, such as {transcripts[0]}"
        used = (*transcripts, *files.named(_SPEAKERS))
        return [Layout("librispeech", files.folder, count, frozenset(used))]
    return [
        Layout(
            "librispeech",
            files.path(name),
            f"{name} is an archive with files that end in {_TRANSCRIPTS}",
            frozenset({name}),
        )
        for name in files.ending(*archives.TARS)
        if _has_transcripts(files.path(name))
    ]


def _has_transcripts(archive: Path) -> bool:
    """Return whether a transcript is among the first members of an archive."""
    try:
        with tarfile.open(archive, "r|*") as members:
            return any(member.name.endswith(_TRANSCRIPTS) for member in islice(members, 1000))
    except archives.BROKEN:
        return False


def read(source: LocationLike) -> Transcripts:
    """Read LibriSpeech from a tar file, a folder or a URL.

    The folder is that of all splits, that of one of them, or the one around ``LibriSpeech``.
    """
    place = location(source)
    path = place.local
    if path is not None and path.is_file():
        return _read_archive(source, path)
    if path is None or path.is_dir():
        return _read_folder(source, place)
    raise InputError(f"{source}: there is no such folder or file; expected {_EXPECTED}")


def _read_folder(source: LocationLike, place: Location) -> Transcripts:
    """Read a local or remote folder."""
    listing = _list_folder(place)
    folder = listing.folder
    transcripts = _read_files(source, _files_of_folder(listing), top=folder.name)
    return replace(transcripts, audio_root=folder.local or str(folder))


def _read_archive(source: LocationLike, archive: Path) -> Transcripts:
    """Read a tar file."""
    contents = archives.TarContents(archive)
    files = _ArchiveFiles(contents)
    transcripts = _read_files(source, files, top=archive.name)
    # These are known now that all files of the archive were read.
    with_root = replace(
        transcripts, audio_root=files.folder_of_splits, archive_members=files.members()
    )
    return with_not_read(with_root, *_not_read_of(contents))


def _read_files(source: LocationLike, files: Iterable[_File | Problem], *, top: str) -> Transcripts:
    """Read the files of a tree; `top` is the name of the folder or archive that they are in."""
    # An archive may have the speakers last. So they are collected while the rows are read, and
    # joined with the rows afterwards.
    speakers: dict[str, _Speaker] = {}
    transcripts = collect_rows(
        source,
        _rows_and_problems(files, top, speakers),
        further=("source_split",),
        expected=_EXPECTED,
    )
    if not speakers:
        return transcripts
    table = pl.DataFrame([*speakers.values()])
    return replace(transcripts, rows=transcripts.rows.map(partial(_with_speakers, speakers=table)))


def _with_speakers(frame: pl.DataFrame, *, speakers: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of speakers to rows."""
    if "speaker_id" not in frame.columns:
        return frame
    return frame.join(speakers, on="speaker_id", how="left", maintain_order="left")


class _Unpaired:
    """Recordings without a transcript and transcripts without a recording, of the files so far.

    A pair is removed when its second part comes, so that little more than one chapter is in memory.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def add_recording(self, path: str) -> None:
        """Add a recording; if its transcript was added before, remove the pair."""
        self._add(path, "a recording without a transcript")

    def add_transcript(self, path: str) -> None:
        """Add the transcript of a recording; if that was added before, remove the pair."""
        self._add(path, "a transcript without a recording")

    def _add(self, path: str, reason: str) -> None:
        name = composed(path)
        present = self._reasons.pop(name, None)
        # A path that comes a second time with the same reason is a repetition, not a pair.
        if present is None or present == reason:
            self._reasons[name] = reason

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for each recording or transcript that is still unpaired."""
        for recording, reason in self._reasons.items():
            yield Problem(recording, None, reason)


def _rows_and_problems(
    files: Iterable[_File | Problem], top: str, speakers: dict[str, _Speaker]
) -> Iterator[dict[str, Any] | Problem]:
    """Yield the rows and problems of a tree, and add its speakers to `speakers`."""
    unpaired = _Unpaired()
    for file in files:
        if isinstance(file, Problem):
            yield file
        elif file.is_recording:
            unpaired.add_recording(file.path)
        elif file.path.endswith(_SPEAKERS):
            speakers.update(_read_speakers(file.contents))
        else:
            yield from _read_chapter(file, top, unpaired)
    yield from unpaired.problems()


def _read_speakers(contents: bytes) -> dict[str, _Speaker]:
    """Return the speakers by their ids.

    They are in lines such as ``14 | F | train-clean-360 | 25.03 | Kristin LeMoine``.
    """
    speakers = {}
    for line in contents.decode("utf-8-sig", errors="replace").splitlines():
        parts = [part.strip() for part in line.split("|", 4)]
        if len(parts) == 5 and not line.startswith(";"):
            speaker_id, gender, _subset, _minutes, name = parts
            speakers[speaker_id] = _Speaker(speaker_id, gender, name)
    return speakers


def _read_chapter(file: _File, top: str, unpaired: _Unpaired) -> Iterator[dict[str, Any] | Problem]:
    """Yield the rows and problems of a chapter, and add each transcript to `unpaired` once."""
    names = set()
    for item in _read_lines(file, top):
        if isinstance(item, dict) and item["name"] not in names:
            names.add(item["name"])
            unpaired.add_transcript(item["name"])
        yield item


def _read_lines(file: _File, top: str) -> Iterator[dict[str, Any] | Problem]:
    """Yield a row or a problem for each line of the transcripts of a chapter."""
    try:
        text = file.contents.decode("utf-8-sig")
    except UnicodeDecodeError:
        yield Problem(file.path, None, "not UTF-8 text")
        return
    folders = file.path.split("/")[:-1]
    # The path begins at the chapter or the speaker if the source is only one speaker or split. The
    # source's name comes before it then; folders above the source are unknown.
    split, speaker, _chapter = ("", "", top, *folders)[-3:]
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.rstrip("\r"))
        if not match or "/" in match[1]:
            yield Problem(
                file.path, number, f"expected an id and a text, not {line.strip()[:80]!r}"
            )
            continue
        segment_id = match[1]
        yield {
            "name": "/".join((*folders, segment_id + _RECORDING)),
            "text": match[2] or "",
            "speaker_id": speaker or None,
            "segment_id": segment_id,
            "source_split": split or None,
        }


def _is_relevant(path: str) -> bool:
    """Return whether a file of the tree is a recording, a transcript or the table of speakers."""
    name = path.rpartition("/")[2]
    return name.endswith((_RECORDING, _TRANSCRIPTS)) or name == _SPEAKERS


@dataclass(frozen=True)
class _Listing:
    """The relevant files of the folder of splits, or of one split.

    `paths` are relative to the folder and sorted. `refused` are paths that are not read, with
    reasons.
    """

    folder: Location
    paths: Collection[str]
    refused: Sequence[tuple[str, str]]


def _list_folder(folder: Location) -> _Listing:
    """List a folder, or the folder ``LibriSpeech`` in it."""
    listed = folder.listing(_is_relevant)
    if listed is None:
        raise InputError(f"{folder}: the server does not list this folder")
    paths, refused = listed
    if any(path.startswith("LibriSpeech/") for path in paths):
        return _list_folder(folder / "LibriSpeech")
    return _Listing(folder, paths, refused)


def _files_of_folder(listing: _Listing) -> Iterator[_File | Problem]:
    """Yield the files of a folder, several chapters being fetched at once."""
    folder = listing.folder
    yield from (Problem(path, None, reason) for path, reason in listing.refused)
    if _SPEAKERS not in listing.paths and _has_parent(folder):
        # If the source is a single split, the speakers of all splits are described beside it.
        with suppress(AudioError, OSError):
            yield _read_text(folder.parent / _SPEAKERS, _SPEAKERS)
    chapters = (
        list(paths) for _, paths in groupby(listing.paths, key=lambda path: path.rpartition("/")[0])
    )
    for files in threads.ordered_map(partial(_fetch_chapter, folder), chapters, jobs=_JOBS):
        yield from files


def _has_parent(folder: Location) -> bool:
    """Return whether a folder is local, or below another one on its server."""
    return folder.local is not None or "/" in str(folder).partition("://")[2]


def _fetch_chapter(folder: Location, paths: Iterable[str]) -> list[_File | Problem]:
    """Return the files of a chapter; a text that cannot be read is a problem."""
    return [_fetch(folder, path) for path in paths]


def _fetch(folder: Location, path: str) -> _File | Problem:
    """Return a file of a folder."""
    if path.endswith(_RECORDING):
        return _File(path)
    try:
        return _read_text(folder / path, path)
    except (AudioError, OSError) as error:
        return Problem(path, None, str(error))


def _read_text(place: Location, path: str) -> _File | Problem:
    """Read a text that has `path` in the tree; a problem if it is too large."""
    contents = read_whole(place, input_guards.MAX_TEXT_BYTES)
    return _too_large(path) if contents is None else _File(path, contents)


def _too_large(path: str) -> Problem:
    megabytes = input_guards.MAX_TEXT_BYTES >> 20
    return Problem(path, None, f"larger than {megabytes} MB: no transcript of a chapter")


class _ArchiveFiles:
    """The relevant files of a tar, in its order.

    Their paths are the last `_PATH_PARTS` parts of the paths in the tar. Iterating over it raises
    InputError if the archive was altered.

    Attributes:
        folder_of_splits: the URL of the folder of splits, known from the first recording on; None
            if there is no recording.
    """

    def __init__(self, contents: archives.TarContents) -> None:
        self._contents = contents
        self._names: list[str] = []
        self._is_intact = False
        self.folder_of_splits: str | None = None

    def members(self) -> list[str] | None:
        """Return the names of all files of the tar, once they were read; None if it is damaged."""
        return self._names if self._is_intact else None

    def __iter__(self) -> Iterator[_File | Problem]:
        """Yield the files, and problems of the archive."""
        archive = self._contents.archive
        try:
            for member in self._contents:
                self._names.append(member.name)
                if self.folder_of_splits is None and member.name.endswith(_RECORDING):
                    folders = member.name.split("/")[:-_PATH_PARTS]
                    self.folder_of_splits = f"tar://{'/'.join(folders)}::{archive}"
                yield from _files_of_member(member)
        except archives.AlteredArchiveError as error:
            raise InputError(f"{archive}: {archives.ALTERED} ({one_line(error)})") from error
        except archives.BROKEN as error:
            yield Problem(
                archive.name,
                None,
                f"the archive is truncated or not an archive ({error}); what comes before is read",
            )
            return
        damages = self._contents.damages()
        self._is_intact = not damages
        yield from (Problem(archive.name, None, damage) for damage in damages)


def _files_of_member(member: archives.Member) -> Iterator[_File | Problem]:
    """Yield the file of a member of an archive, or why it is not read; nothing if not relevant."""
    parts = [part for part in member.name.split("/") if part != ".."]
    path = "/".join(parts[-_PATH_PARTS:])
    if input_guards.escape_surrogates(path) != path:
        yield Problem(input_guards.escape_surrogates(path), None, input_guards.NOT_UNICODE)
    elif not _is_relevant(path):
        return
    elif path.endswith(_RECORDING):
        yield _File(path)
    elif member.entry.size > input_guards.MAX_TEXT_BYTES:
        yield _too_large(path)
    else:
        yield _File(path, member.read())


def _not_read_of(contents: archives.TarContents) -> list[NotRead]:
    """Return what of an archive was not read, known when all files were yielded."""
    name = contents.archive.name
    return [
        NotRead(f"files of {name} with a damaged header", contents.damaged_headers),
        NotRead(
            f"what follows the end marker of {name}",
            int(contents.has_more),
            "ingest the folder that 'tar --ignore-zeros' unpacks",
        ),
    ]
