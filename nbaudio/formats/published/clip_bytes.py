"""The encoded audio of some clips of a published dataset, fetched by ranges.

A clip is named by `dataset.Published.rows`: ``FILE.parquet#ROW`` is the row of a Parquet file,
``FILE.tar#START-STOP.flac`` are bytes of a tar, and anything else is a file of its own.
"""

import bisect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from nbaudio.audio import name_matching
from nbaudio.core.errors import InputError
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.published.parquet_rows import audio_column
from nbaudio.tables.parquet_ranges import RangedParquet

_ROW = re.compile(r"(.+\.parquet)#([0-9]+)", re.IGNORECASE)
_RANGE = re.compile(r"(.+\.tar)#([0-9]+)-([0-9]+)\.(\w+)", re.IGNORECASE)
_WAV = ".wav"
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class ClipBytes:
    """A clip as it is encoded: its name in the dataset, the ending of its file, and the bytes."""

    clip: str
    ending: str
    content: bytes


@dataclass(frozen=True)
class NoClip:
    """A clip that cannot be fetched, and the reason."""

    clip: str
    reason: str


def fetch_clips(files: DatasetFiles, clips: Iterable[str]) -> Iterator[ClipBytes | NoClip]:
    """Fetch some clips, each once, in the order of the files.

    Of a Parquet file, the audio of a row group is read for a clip in it: Parquet has no smaller
    part that can be read alone.
    """
    rows: dict[str, list[int]] = defaultdict(list)
    for clip in sorted(set(clips)):
        if match := _ROW.fullmatch(clip):
            rows[match[1]].append(int(match[2]))
        else:
            yield _fetch(files, clip)
    for name, numbers in rows.items():
        yield from _fetch_rows(files, name, sorted(numbers))


def _fetch(files: DatasetFiles, clip: str) -> ClipBytes | NoClip:
    """Fetch a clip of a tar, or a file."""
    try:
        if match := _RANGE.fullmatch(clip):
            start, stop = int(match[2]), int(match[3])
            _check_size(clip, stop - start)
            return ClipBytes(clip, f".{match[4]}", files.read(match[1], start, stop))
        size = files.size(clip)
        _check_size(clip, size)
        return ClipBytes(clip, PurePosixPath(clip).suffix, files.read(clip, 0, size))
    except (InputError, OSError) as error:
        return NoClip(clip, str(error))


def _check_size(clip: str, num_bytes: int) -> None:
    """Raise InputError for a clip that is too large to be one."""
    if not 0 <= num_bytes <= _MOST_BYTES:
        raise InputError(f"{clip}: {num_bytes:,} bytes, which is no clip")


def _fetch_rows(
    files: DatasetFiles, name: str, numbers: Sequence[int]
) -> Iterator[ClipBytes | NoClip]:
    """Fetch the clips of some rows of a Parquet file; a row group is in memory at a time."""
    try:
        file = files.parquet(name)
        column = audio_column(file.schema)
    except InputError as error:
        yield from (NoClip(f"{name}#{number}", str(error)) for number in numbers)
        return
    starts = file.group_starts
    by_group: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        by_group[bisect.bisect_right(starts, number) - 1].append(number)
    for group, in_group in by_group.items():
        yield from _fetch_of_group(file, column, group, in_group)


def _fetch_of_group(
    file: RangedParquet, column: str | None, group: int, numbers: Sequence[int]
) -> Iterator[ClipBytes | NoClip]:
    """Fetch the clips of some rows of a row group."""
    names = [f"{file.name}#{number}" for number in numbers]
    if column is None or group >= file.footer.num_row_groups:
        yield from (NoClip(name, f"{name}: no audio there") for name in names)
        return
    try:
        table = file.group(group, [f"{column}.bytes", f"{column}.path"])
    except InputError as error:
        yield from (NoClip(name, str(error)) for name in names)
        return
    audio = table.column(column)
    first = file.group_starts[group]
    for name, number in zip(names, numbers, strict=True):
        value = audio[number - first].as_py() or {}
        if value.get("bytes") is None:
            yield NoClip(name, f"{name}: its audio is not embedded")
        else:
            path = str(value.get("path") or "")
            ending = PurePosixPath(path).suffix if name_matching.is_audio(path) else _WAV
            yield ClipBytes(name, ending, value["bytes"])
