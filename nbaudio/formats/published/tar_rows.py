"""Rows of WebDataset tars, without their audio."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.formats.published.card_header import read_card
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.published.dataset import Published, as_rows, chosen_columns, with_source_ids
from nbaudio.formats.published.tar_clips import Tar, TarClip, read_clips
from nbaudio.storage.location import Location
from nbaudio.tables.split_names import split_in

TAR = ".tar"
_NUMBER = re.compile(r"[-_.]?[0-9]+(?:-of-[0-9]+)?$")


@dataclass(frozen=True)
class _TarRows:
    """The rows of a tar, and what its JSON has.

    Attributes:
        frame: the rows of clips with audio.
        columns: by field, the name that it has in the JSON of clips.
        names: of all values in the JSON of clips.
        num_without_audio: how many clips have texts or JSON, and no audio.
    """

    frame: pl.DataFrame
    columns: Mapping[str, str]
    names: Collection[str]
    num_without_audio: int


def read_tar_rows(
    files: DatasetFiles, *, configuration: str | None, options: Mapping[str, str]
) -> Published:
    """Read the texts of the clips of WebDataset tars, and where their audio is.

    Raise InputError if no tar can be read.
    """
    card = read_card(files)
    configuration = card.configuration(configuration)
    tar_names = files.ending(TAR)
    splits: dict[str, str | None] = {name: _split_of(name) for name in tar_names}
    splits |= card.splits(tar_names, configuration)
    problems: list[str] = []
    parts = []
    num_bytes = 0
    tars = [Tar(name, partial(files.read, name), partial(files.size, name)) for name in tar_names]
    for tar, clips in zip(tars, read_clips(tars), strict=True):
        num_bytes += clips.num_bytes
        if clips.problem:
            problems.append(f"{tar.name}: cannot be read as a tar ({clips.problem})")
            continue
        parts.append(_rows_of_tar(clips.clips, options, tar.name, splits[tar.name]))
    if not parts:
        raise InputError(f"{files.place}: {problems[0]}")
    columns = {name: column for part in parts for name, column in part.columns.items()}
    return Published(
        "WebDataset",
        with_source_ids(pl.concat([part.frame for part in parts])),
        columns,
        card.examples.get(configuration or "", {}),
        card.license,
        not_read=[*_not_read(parts, columns.values())],
        problems=[*problems, *filter(None, [card.problem])],
        num_bytes=num_bytes,
    )


def _not_read(parts: Sequence[_TarRows], used: Collection[str]) -> Iterator[str]:
    """Yield lines about values in JSON that are no field, and clips without audio."""
    names = set[str]().union(*(part.names for part in parts)) - {*used}
    num_without_audio = sum(part.num_without_audio for part in parts)
    if names:
        yield f"columns: {', '.join(sorted(names))}"
    if num_without_audio:
        yield f"texts or JSON without audio of the same name: {num_without_audio:,}"


def _split_of(name: str) -> str | None:
    """Return the split that the path of a tar names, such as ``train-000000.tar``."""
    return split_in(_NUMBER.sub("", name.removesuffix(TAR)))


def _rows_of_tar(
    clips: Mapping[str, TarClip], options: Mapping[str, str], name: str, split: str | None
) -> _TarRows:
    """Return the rows of the clips of a tar that have audio."""
    fields = dict.fromkeys(field for clip in clips.values() for field in clip.fields)
    columns = {
        field: column
        for field, column in chosen_columns([*fields], options).items()
        if field != "split"
    }
    rows = [_row(key, clip, options) for key, clip in clips.items() if clip.clip]
    frame = pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame({"clip": []})
    named_rows = as_rows(frame.with_columns(split=pl.lit(split)), name)
    return _TarRows(named_rows, columns, fields, _num_without_audio(clips))


def _num_without_audio(clips: Mapping[str, TarClip]) -> int:
    """Return how many clips have texts or JSON, and no audio."""
    texts = [clip for clip in clips.values() if clip.fields or clip.text is not None]
    return sum(clip.clip is None for clip in texts)


def texts_of_tar(place: Location) -> list[str]:
    """Return the texts of the clips of a tar, in order; a clip without a text has none.

    Raise InputError if it cannot be read.
    """
    (tar,) = read_clips([Tar(place.name, place.read, lambda: place.status().num_bytes)])
    if tar.problem:
        raise InputError(f"{place}: cannot be read as a tar ({tar.problem})")
    texts = (_row(key, clip, {})["text"] for key, clip in tar.clips.items())
    return [text for text in texts if text is not None]


def _row(key: str, clip: TarClip, options: Mapping[str, str]) -> dict[str, str | None]:
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
