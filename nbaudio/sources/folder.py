"""Read a folder of audio, with or without a text file beside each recording.

Each recording is a segment, or is divided into windows of one length.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import chain

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import count
from nbaudio.formats.source_files import Layout, SourceFiles
from nbaudio.formats.transcripts import Problem, Transcripts, check_encoding, collect_rows
from nbaudio.sources.folder_notes import notes_on_others, notes_on_texts
from nbaudio.sources.folder_texts import (
    FURTHER_TEXTS,
    Row,
    Tally,
    is_text_file,
    match_texts,
    read_texts,
)
from nbaudio.sources.recordings import FolderFiles, list_folder
from nbaudio.storage.archives import is_in_archive
from nbaudio.storage.location import Location, LocationLike, location
from nbaudio.tables.split_names import split_of_folder

_SECONDS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?")  # seconds with the precision of segment times


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folder of recordings that files are in."""
    recordings = files.audio()
    if not recordings or files.is_single_file:
        return []
    others = pl.Series("path", [*{*files.names} - {*recordings}], dtype=pl.String).sort()
    texts = match_texts(pl.Series("path", recordings, dtype=pl.String), others).names()
    with_texts = f" and {len(texts):,} text files beside them" if len(texts) else ""
    return [
        Layout(
            "folder",
            files.folder,
            f"{len(recordings):,} files are recordings, such as {recordings[0]}{with_texts}",
            frozenset([*recordings, *texts]),
        )
    ]


def read(
    source: LocationLike,
    *,
    window: str | None = None,
    partial: str = "keep",
    texts: str = "yes",
    encoding: str | None = None,
) -> Transcripts:
    """Read all audio files below a folder or URL, with the texts in files beside them.

    `window` divides them into windows of so many seconds; `partial` says whether to keep or drop a
    shorter last one. `texts` is no where text files are not to be read, `encoding` is theirs.
    """
    place = location(source)
    if place.local is not None and not place.is_folder():
        raise InputError(f"{source}: there is no such folder")
    _check_options(window, partial, texts)
    check_encoding(encoding)
    files = list_folder(place)
    # Where there is any recording, ingest reports the rejected ones.
    problems = [Problem(name, None, reason) for name, reason in files.refused_audio]
    beside = match_texts(files.audio, files.others)
    reason = _reason_not_to_read(place, texts)
    tally = Tally()
    rows = _rows(files.audio) if reason else read_texts(place, beside, tally, encoding=encoding)
    if window is not None:
        rows = _without_texts(source, rows, window)
    transcripts = collect_rows(
        source,
        chain(rows, _refused_texts(files)) if len(files.audio) else problems,
        further=("source_split", *FURTHER_TEXTS.values()),
        expected="a folder with audio files",
    )
    names = beside.names()
    notes = [*notes_on_texts(tally, len(files.audio)), *notes_on_others(files.others, names)]
    if reason and len(names):
        notes.insert(
            0, f"{count(len(names), 'text files')} beside the recordings: not read, {reason}"
        )
    windows = (Decimal(window), partial == "keep") if window is not None else None
    return replace(transcripts, audio_root=place.local or str(place), windows=windows, notes=notes)


def _check_options(window: str | None, partial: str, texts: str) -> None:
    """Raise InputError for a value that an option cannot have."""
    if window is not None and (not _SECONDS.fullmatch(window) or not Decimal(window)):
        raise InputError(
            f"option window={window!r}: expected seconds above 0 with at most six "
            "decimals, such as 10 or 0.5"
        )
    if partial not in ("keep", "drop"):
        raise InputError(f"option partial={partial!r}: must be keep or drop")
    if texts not in ("yes", "no"):
        raise InputError(f"option texts={texts!r}: must be yes or no")


def _reason_not_to_read(place: Location, texts: str) -> str | None:
    """Return why text files are left unread, or None if they are read."""
    if texts == "no":
        return "texts=no"
    if is_in_archive(place):
        return "unpack the archive, whose recordings alone are read"
    return None


def _rows(recordings: pl.Series) -> Iterator[Row | Problem]:
    return ({"name": path, "source_split": split_of_folder(path)} for path in recordings)


def _without_texts(
    source: LocationLike, rows: Iterable[Row | Problem], window: str
) -> Iterator[Row | Problem]:
    """Yield the rows; raise InputError for one with a text, which no window would have."""
    for row in rows:
        if not isinstance(row, Problem) and row.get("text") is not None:
            raise InputError(
                f"{source}: option window={window} divides recordings, but the text beside "
                f"{row['name']} is that of the whole; leave window out, or the texts by "
                "--option texts=no"
            )
        yield row


def _refused_texts(files: FolderFiles) -> Iterator[Problem]:
    """Yield the text files that must not be opened, such as links that point outside."""
    for name, reason in files.refused_others:
        if is_text_file(name):
            yield Problem(name, None, reason)
