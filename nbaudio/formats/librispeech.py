"""Read LibriSpeech, whose folders are ``split/speaker/chapter/``.

A chapter has ``*.flac`` and one ``*.trans.txt``; ``SPEAKERS.TXT`` is at the top.
"""

import re
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
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
_LINE = re.compile(r"(\S+)(?:[ \t]+(.*))?")
_JOBS = 16  # chapters that are fetched at once

# The path of a file in the tree, and its bytes if it is text; or why it cannot be read.
_File = tuple[str, bytes | None] | Problem


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
    roots: list[Path | str] = []
    contents: archives.TarContents | None = None
    if path is not None and path.is_file():
        contents = archives.TarContents(path)
        files = _in_archive(contents, roots)
    elif path is None or path.is_dir():
        place, files = _in_folder(place)
        roots.append(place.local or str(place))
    else:
        raise InputError(f"{source}: there is no such folder or file; expected {_EXPECTED}")
    speakers: dict[str, tuple[str, str, str]] = {}
    transcripts = collect_rows(
        source, _items(files, place.name, speakers), further=("source_split",), expected=_EXPECTED
    )
    columns = ("speaker_id", "speaker_gender", "speaker_name")
    facts = pl.DataFrame(
        list(speakers.values()), schema=dict.fromkeys(columns, pl.String), orient="row"
    )

    def with_facts(frame: pl.DataFrame) -> pl.DataFrame:
        if not speakers or "speaker_id" not in frame.columns:
            return frame
        return frame.join(facts, on="speaker_id", how="left", maintain_order="left")

    with_root = replace(
        transcripts, rows=transcripts.rows.map(with_facts), audio_root=next(iter(roots), None)
    )
    return with_not_read(with_root, *(_not_read_of(contents) if contents else ()))


class _Unpaired:
    """Recordings without a transcript and transcripts without a recording, of what was read so far.

    They cancel each other out, so that this holds little more than one chapter.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def add(self, recording: str, reason: str) -> None:
        """Add a recording or transcript with why it is a problem unless the other one comes."""
        name = composed(recording)
        if self._reasons.pop(name, reason) == reason:
            self._reasons[name] = reason

    def problems(self) -> Iterator[Problem]:
        """Yield what is still without its counterpart."""
        for recording, reason in self._reasons.items():
            yield Problem(recording, None, reason)


def _items(
    files: Iterable[_File], top: str, speakers: dict[str, tuple[str, str, str]]
) -> Iterator[dict[str, Any] | Problem]:
    """Yield rows and problems of a tree.

    Add gender and name of speakers to `speakers`, as these may come last in an archive.
    """
    unpaired = _Unpaired()
    for file in files:
        if isinstance(file, Problem):
            yield file
            continue
        path, contents = file
        if path.endswith(".flac"):
            unpaired.add(path, "a recording without a transcript")
        elif contents is None:
            yield Problem(
                path,
                None,
                f"larger than {input_guards.MAX_TEXT_BYTES >> 20} MB: no transcript of a chapter",
            )
        elif path.endswith(_SPEAKERS):
            speakers.update(_read_speakers(contents))
        else:
            yield from _items_of_chapter(path, contents, top, unpaired)
    yield from unpaired.problems()


def _read_speakers(contents: bytes) -> dict[str, tuple[str, str, str]]:
    """Return id, gender and name of speakers by their ids.

    They are in lines such as ``14 | F | train-clean-360 | 25.03 | Kristin LeMoine``.
    """
    speakers = {}
    for line in contents.decode("utf-8-sig", errors="replace").splitlines():
        parts = [part.strip() for part in line.split("|", 4)]
        if len(parts) == 5 and not line.startswith(";"):
            speaker_id, gender, _, _, name = parts
            speakers[speaker_id] = (speaker_id, gender, name)
    return speakers


def _items_of_chapter(
    path: str, contents: bytes, top: str, unpaired: _Unpaired
) -> Iterator[dict[str, Any] | Problem]:
    """Yield rows and problems of the transcripts of a chapter, and add them to `unpaired`."""
    names = set()
    for item in _lines(path, contents, top):
        if isinstance(item, dict) and item["name"] not in names:
            names.add(item["name"])
            unpaired.add(item["name"], "a transcript without a recording")
        yield item


def _lines(path: str, content: bytes, top: str) -> Iterator[dict[str, Any] | Problem]:
    """Yield the row of each line of a transcript; `top` is the name of the source."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        yield Problem(path, None, "not UTF-8 text")
        return
    folders = path.split("/")[:-1]
    # A split that is the source itself is named by its folder.
    split, speaker = ("", "", top, *folders)[-3:-1]
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.rstrip("\r"))
        if not match or "/" in match[1]:
            yield Problem(path, number, f"expected an id and a text, not {line.strip()[:80]!r}")
            continue
        yield {
            "name": "/".join((*folders, f"{match[1]}.flac")),
            "text": match[2] or "",
            "speaker_id": speaker or None,
            "segment_id": match[1],
            "source_split": split or None,
        }


def _is_relevant(name: str) -> bool:
    return name.endswith((".flac", _TRANSCRIPTS)) or name == _SPEAKERS


def _in_folder(source: Location) -> tuple[Location, Iterator[_File]]:
    """Return the folder that holds the splits, and its files."""
    listed = source.listing(lambda path: _is_relevant(path.rpartition("/")[2]))
    if listed is None:
        raise InputError(f"{source}: the server does not list this folder")
    paths, refused = listed
    if any(path.startswith("LibriSpeech/") for path in paths):
        return _in_folder(source / "LibriSpeech")

    def fetch(path: str) -> _File:
        if path.endswith(".flac"):
            return path, None
        try:
            return path, read_whole(source / path, input_guards.MAX_TEXT_BYTES)
        except (AudioError, OSError) as error:
            return Problem(path, None, str(error))

    def files() -> Iterator[_File]:
        """Yield the files, fetched chapter by chapter."""
        yield from (Problem(path, None, reason) for path, reason in refused)
        if _SPEAKERS not in paths and (source.local or "/" in str(source).partition("://")[2]):
            # The file about all splits lies beside a single one.
            with suppress(AudioError, OSError):
                yield _SPEAKERS, read_whole(source.parent / _SPEAKERS, input_guards.MAX_TEXT_BYTES)
        chapters = (
            list(group) for _, group in groupby(paths, lambda path: path.rpartition("/")[0])
        )
        for chapter in threads.ordered_map(
            lambda paths: list(map(fetch, paths)), chapters, jobs=_JOBS
        ):
            yield from chapter

    return source, files()


def _in_archive(contents: archives.TarContents, roots: list[Path | str]) -> Iterator[_File]:
    """Yield the files of a tar, named by the last four parts of their paths.

    Add the URL of its folder of splits to `roots`. Raise InputError if the archive was altered.
    """
    source = contents.archive
    try:
        for member in contents:
            if member.name.endswith(".flac") and not roots:
                roots.append(f"tar://{'/'.join(member.name.split('/')[:-4])}::{source}")
            path = "/".join([part for part in member.name.split("/") if part != ".."][-4:])
            if input_guards.escape_surrogates(path) != path:
                yield Problem(input_guards.escape_surrogates(path), None, input_guards.NOT_UNICODE)
            elif _is_relevant(path.rpartition("/")[2]):
                is_text = (
                    not path.endswith(".flac") and member.entry.size <= input_guards.MAX_TEXT_BYTES
                )
                yield path, member.read() if is_text else None
    except archives.AlteredArchiveError as error:
        raise InputError(f"{source}: {archives.ALTERED} ({one_line(error)})") from error
    except archives.BROKEN as error:
        yield Problem(
            source.name,
            None,
            f"the archive is truncated or not an archive ({error}); what comes before is read",
        )
        return
    yield from (Problem(source.name, None, damage) for damage in contents.damages())


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
