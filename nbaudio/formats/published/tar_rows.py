"""Rows of WebDataset tars: their headers and texts are read, their audio is skipped."""

import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, cast

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.progress import progress
from nbaudio.core.threads import ordered_map
from nbaudio.formats.published.card_header import read_card
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.published.dataset import Published, as_rows, chosen_columns, with_source_ids
from nbaudio.formats.transcripts import decode_text
from nbaudio.storage.archives import BROKEN
from nbaudio.storage.location import Location
from nbaudio.storage.range_file import SeekableFile
from nbaudio.tables.parquet_ranges import ReadRange
from nbaudio.tables.split_names import split_in

TAR = ".tar"
_TEXTS = frozenset(("txt", "text", "transcript", "trn", "lab"))
# The key of a clip ends at the first dot of the name without its folders.
_MEMBER = re.compile(r"((?:.*/)?[^./][^/.]*)\.([^/]+)")
_NUMBER = re.compile(r"[-_.]?[0-9]+(?:-of-[0-9]+)?$")
_MOST_TEXT_BYTES = 1 << 20
_LEAST_AHEAD_BYTES = 1 << 10
_MOST_AHEAD_BYTES = 1 << 16
_JOBS = 8


class _Skipping(SeekableFile):
    """A file that is read in short windows; between them it is skipped.

    A window is as long as what was needed of the one before: the headers and texts between two
    clips, so that a clip takes one request.
    """

    def __init__(self, read: ReadRange, size: int) -> None:
        super().__init__(size)
        self._read = read
        self._start = 0
        self._window = b""
        self._ahead = 2 * _LEAST_AHEAD_BYTES
        self._used = 0

    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        stop = min(self._size, self._position + len(buffer))
        if stop <= self._position:
            return 0
        is_inside = self._start <= self._position
        if not is_inside or stop > self._start + len(self._window):
            self._fetch(stop)
        content = self._window[self._position - self._start : stop - self._start]
        buffer[: len(content)] = content
        self._used = max(self._used, stop - self._start)
        self._position = stop
        return len(content)

    def _fetch(self, stop: int) -> None:
        """Read a window from the position on, at least up to `stop`."""
        is_further = self._position <= self._start + len(self._window) and self._window
        needed = self._used + _LEAST_AHEAD_BYTES if is_further else self._used
        self._ahead = min(max(needed, _LEAST_AHEAD_BYTES), _MOST_AHEAD_BYTES)
        self._start = self._position
        self._used = 0
        end = min(self._size, max(stop, self._start + self._ahead))
        self._window = self._read(self._start, end)


@dataclass
class _Clip:
    """A clip of a tar while its members are read: its fields, and where its audio is."""

    fields: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    clip: str | None = None


@dataclass(frozen=True)
class _Tar:
    """The rows of a tar, and by field the name that it has in the JSON of clips."""

    rows: pl.DataFrame
    columns: Mapping[str, str]


def read_tar_rows(
    files: DatasetFiles, *, configuration: str | None, options: Mapping[str, str]
) -> Published:
    """Read the texts of the clips of WebDataset tars, and where their audio is.

    Raise InputError if no tar can be read.
    """
    card = read_card(files)
    configuration = card.configuration(configuration)
    names = files.ending(TAR)
    splits: dict[str, str | None] = {name: _split_of(name) for name in names}
    splits |= card.splits(names, configuration)
    problems: list[str] = []
    read = partial(_rows_or_problem, files, splits, options)
    frames = []
    columns: dict[str, str] = {}
    with progress("read tars", len(names), "tars", show=len(names) > 1) as advance:
        for tar in ordered_map(read, names, jobs=_JOBS):
            if isinstance(tar, str):
                problems.append(tar)
            else:
                frames.append(tar.rows)
                columns |= tar.columns
            advance(1)
    if not frames:
        raise InputError(f"{files.place}: {problems[0]}")
    return Published(
        "WebDataset",
        with_source_ids(pl.concat(frames)),
        columns,
        card.examples.get(configuration or "", {}),
        card.license,
        problems=[*problems, *filter(None, [card.problem])],
        num_bytes=sum(files.sizes(names).values()),
    )


def _split_of(name: str) -> str | None:
    """Return the split that the path of a tar names, such as ``train-000000.tar``."""
    return split_in(_NUMBER.sub("", name.removesuffix(TAR)))


def _rows_or_problem(
    files: DatasetFiles,
    splits: Mapping[str, str | None],
    options: Mapping[str, str],
    name: str,
) -> _Tar | str:
    """Return the rows of a tar, or why it cannot be read."""
    try:
        clips = _clips(partial(files.read, name), files.size(name), name)
    except (InputError, *BROKEN) as error:
        return f"{name}: cannot be read as a tar ({one_line(error)})"
    fields = dict.fromkeys(field for clip in clips.values() for field in clip.fields)
    columns = {
        field: column
        for field, column in chosen_columns([*fields], options).items()
        if field != "split"
    }
    rows = [_row(key, clip, options) for key, clip in clips.items() if clip.clip]
    frame = pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame({"clip": []})
    return _Tar(as_rows(frame.with_columns(split=pl.lit(splits[name])), name), columns)


def texts_of_tar(place: Location) -> list[str]:
    """Return the texts of the clips of a tar, in order; a clip without a text has none.

    Raise InputError if it cannot be read.
    """
    try:
        clips = _clips(place.read, place.status().num_bytes, place.name)
    except BROKEN as error:
        raise InputError(f"{place}: cannot be read as a tar ({one_line(error)})") from error
    texts = (_row(key, clip, {})["text"] for key, clip in clips.items())
    return [text for text in texts if text is not None]


def _clips(read: ReadRange, size: int, name: str) -> dict[str, _Clip]:
    """Return the clips of a tar by their keys."""
    clips: dict[str, _Clip] = {}
    file = _Skipping(read, size)
    with tarfile.open(fileobj=cast(IO[bytes], file), mode="r:", encoding="utf8") as tar:
        for member in tar:
            match = _MEMBER.fullmatch(member.name)
            if match and member.isfile():
                clip = clips.setdefault(match[1], _Clip())
                _add_member(clip, tar, member, name, match[2])
            tar.members = []  # type: ignore[attr-defined]  # else all headers stay in memory
    return clips


def _add_member(
    clip: _Clip, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, ending: str
) -> None:
    """Add what a member says about its clip."""
    last = ending.rpartition(".")[2].lower()
    if name_matching.is_audio(member.name):
        stop = member.offset_data + member.size
        clip.clip = f"{name}#{member.offset_data}-{stop}.{last}"
    elif last in (*_TEXTS, "json") and member.size <= _MOST_TEXT_BYTES:
        text = decode_text(tar.extractfile(member).read(), errors="replace")  # type: ignore[union-attr]
        if last == "json":
            clip.fields |= _object(text)
        else:
            clip.text = text.strip()


def _object(text: str) -> dict[str, Any]:
    """Return the plain values of a JSON object; none if a text is no object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    fields = value if isinstance(value, dict) else {}
    return {name: item for name, item in fields.items() if isinstance(item, str | int | float)}


def _row(key: str, clip: _Clip, options: Mapping[str, str]) -> dict[str, str | None]:
    """Return the fields of a clip, as texts."""
    columns = chosen_columns([*clip.fields], options)
    row: dict[str, str | None] = {
        name: str(clip.fields[column]) for name, column in columns.items() if name != "split"
    }
    row.setdefault("source_id", key)
    if clip.text is not None:
        row["text"] = clip.text
    # All rows have the same fields, or polars would have to look at each.
    return {"text": None, "speaker_id": None, "duration_s": None, **row, "clip": clip.clip}
