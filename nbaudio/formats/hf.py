"""Read Hugging Face datasets on disk, as Parquet or from ``save_to_disk``.

They have an Audio column, a struct of bytes and path.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa

from nbaudio.audio import name_matching
from nbaudio.core import atomic, input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.source_columns import ARROW, batches, choose, has_any_value, schema_of
from nbaudio.formats.source_files import Layout, SourceFiles
from nbaudio.formats.structured import nested_refusal, own_column, split_column, value_at
from nbaudio.formats.transcripts import (
    NotRead,
    Problem,
    Transcripts,
    check_link,
    collect_rows,
    with_not_read,
)
from nbaudio.tables import split_names
from nbaudio.tables.provenance import PROVENANCE

_ROWS = 4096
_CLIPS = 32
_SHARD = re.compile(r"(.+?)-[0-9]+-of-[0-9]+\.(?:parquet|arrow)")
_EXPECTED = "Parquet or Arrow files with an Audio column (a struct of bytes and path)"
# By option: names that datasets give these columns, the most common first.
# Columns with the seconds of a recording, which are compared with it.
_DURATIONS = ("duration", "audio_duration", "duration_s", "duration_seconds")
_USUAL_NAMES = {
    "text": ("text", "sentence", "transcription", "transcript", "normalized_text"),
    "asr": ("asr_text", "pred_text", "hypothesis"),
    "speaker": ("speaker_id", "client_id", "speaker"),
    "id": ("segment_id", "id", "utterance_id"),
}
_FURTHER = ("source_split", "source_duration", *PROVENANCE)
_FIELDS = {"text": "text", "asr": "asr_text", "speaker": "speaker_id", "id": "segment_id"}


class _Part(NamedTuple):
    """One file of a dataset.

    It has its path, its name without extension, its split, its Audio column and whether that holds
    any bytes.
    """

    path: Path
    stem: str
    split: str | None
    audio: str
    embeds: bool


@dataclass(frozen=True)
class _Columns:
    """Where the fields of `Transcripts` are.

    Attributes:
        chosen: by field, its column.
        choices: by field, the names of its column, of which a file has the first that it has.
        available: all columns of the dataset.
        notes: what to report about the choice.
    """

    chosen: Mapping[str, str]
    choices: Mapping[str, Sequence[str | None]]
    available: frozenset[str]
    notes: Sequence[str]


def detect(files: SourceFiles) -> list[Layout]:
    """Return the dataset that files are in: Parquet with an Audio column, or ``save_to_disk``."""
    shards = files.ending(".parquet") or [
        name for name in files.ending(ARROW) if not Path(name).name.startswith("cache-")
    ]
    with_audio = [name for name in shards if _has_audio(files.path(name))]
    if not with_audio:
        return []
    states = [*files.named("state.json"), *files.named("dataset_dict.json")]
    return [
        Layout(
            "hf",
            files.source,
            f"{with_audio[0]} has an Audio column",
            frozenset([*shards, *states, *files.named("dataset_info.json")]),
        )
    ]


def _has_audio(path: Path) -> bool:
    try:
        schema = schema_of(path)
    except (pa.ArrowException, OSError, InputError):
        return False
    return bool(_audio_columns(schema))


def _audio_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that are structs of bytes and path."""
    kinds = {name: schema.field(name).type for name in dict.fromkeys(schema.names)}
    return [
        name
        for name, kind in kinds.items()
        if pa.types.is_struct(kind) and {"bytes", "path"} <= {field.name for field in kind}
    ]


def read(
    source: Path,
    *,
    audio: str | None = None,
    text: str | None = None,
    asr: str | None = None,
    speaker: str | None = None,
    id: str | None = None,
) -> Transcripts:
    """Read one file, a folder of Parquet files, or a saved `Dataset` or `DatasetDict`.

    Parquet files may be in nested folders. Options name columns.
    """
    parts: list[_Part] = []
    problems: list[Problem] = []
    root = source if source.is_dir() else source.parent
    for path, split in _files(source):
        try:
            if path != source:
                check_link(path, root)
            parts.append(_part(path, path.relative_to(root), split, audio))
        except (pa.ArrowException, OSError, InputError) as error:
            problems.append(
                Problem(input_guards.escape_surrogates(path.name), None, one_line(error))
            )
    if not parts:
        return collect_rows(source, problems, expected=_EXPECTED)
    options = {"text": text, "asr": asr, "speaker": speaker, "id": id}
    columns = _choose_columns(source, parts, options)
    embeds = any(part.embeds for part in parts)

    def items() -> Iterator[dict[str, Any] | Problem]:
        yield from problems
        for part in parts:
            try:
                yield from _rows(part, columns.choices, embeds=embeds)
            except (pa.ArrowException, OSError, UnicodeDecodeError, InputError) as error:
                yield Problem(part.path.name, None, f"cannot be read on: {one_line(error)}")

    transcripts = collect_rows(source, items(), further=_FURTHER, expected=_EXPECTED)
    transcripts = replace(transcripts, columns=columns.chosen, notes=columns.notes)
    if embeds:
        transcripts = replace(transcripts, embedded=_embedded(parts))
    else:
        transcripts = replace(transcripts, audio_root=root)
    return with_not_read(transcripts, _columns_not_read(parts, columns))


def _columns_not_read(parts: Sequence[_Part], columns: _Columns) -> NotRead:
    """Return the columns of a dataset that are not read; join brings them in."""
    read_names: set[str | None] = {part.audio for part in parts}
    for name in filter(None, chain.from_iterable(columns.choices.values())):
        read_names.add(own_column(name, columns.available))
    unread = sorted(columns.available - read_names)
    what = f"columns of the dataset: {', '.join(unread)}"
    return NotRead(what, len(unread), "nbaudio join W FILE --on segment_id --column NAME")


def _choose_columns(
    source: Path, parts: Sequence[_Part], options: Mapping[str, str | None]
) -> _Columns:
    """Find the column of each field, or the field of a column, by options and usual names.

    Raise InputError if the texts, or what an option names, are lists, objects or bytes.
    """
    kinds = {field.name: field.type for part in parts for field in schema_of(part.path)}
    fields = [name for name in options.values() if name and split_column(name, kinds)]
    unfit = {
        key: {name for name in _USUAL_NAMES[key] if name in kinds and not _is_plain(kinds[name])}
        for key, option in options.items()
        if option is None and key != "text"
    }
    chosen, notes = choose(source, sorted({*kinds, *fields}), options, _USUAL_NAMES, unfit)
    for part in parts:
        for name in chosen.values():
            _check_plain(part, name)
    notes += [
        f"column {name!r} is {kinds[name]} and is not used as {key}"
        for key, names in unfit.items()
        for name in sorted(names)
    ]
    # Files of a dataset may differ in their columns.
    choices = {}
    for key, option in options.items():
        fitting = []
        if not option:
            fitting = [name for name in _USUAL_NAMES[key] if name not in unfit.get(key, ())]
        choices[_FIELDS[key]] = (*fitting, chosen.get(key))
    choices["source_duration"] = _durations(kinds)
    choices |= _provenance(kinds)
    chosen_by_field = {_FIELDS[key]: name for key, name in chosen.items()}
    return _Columns(chosen_by_field, choices, frozenset(kinds), notes)


def _provenance(kinds: Mapping[str, pa.DataType]) -> dict[str, tuple[str, ...]]:
    """Return the columns of plain values that say the license, consent and source."""
    return {
        field: tuple(name for name in names if name in kinds and _is_plain(kinds[name]))
        for field, names in PROVENANCE.items()
    }


def _durations(kinds: Mapping[str, pa.DataType]) -> tuple[str, ...]:
    """Return the columns of numbers that usually have the seconds of a recording."""
    return tuple(
        name
        for name in _DURATIONS
        if name in kinds and (pa.types.is_integer(kinds[name]) or pa.types.is_floating(kinds[name]))
    )


def _check_plain(part: _Part, name: str) -> None:
    """Raise InputError if a column of a file, or a field of one, is of a nested or binary type."""
    schema = schema_of(part.path)
    place = _place(schema.names, [name])
    if place is None:
        return
    kind = _type_at(schema.field(place[0]).type, place[1])
    if kind is not None and not _is_plain(kind):
        fields = [field.name for field in kind] if pa.types.is_struct(kind) else []
        refusal = nested_refusal(name, kind, fields, is_list=_is_list(kind))
        raise InputError(f"{part.path.name}: {refusal}")


def _type_at(kind: pa.DataType, path: Sequence[str]) -> pa.DataType | None:
    """Return the type at a path of fields and item numbers; None if there is none."""
    for step in path:
        if pa.types.is_struct(kind) and kind.get_field_index(step) >= 0:
            kind = kind.field(step).type
        elif step.isdecimal() and _is_list(kind):
            kind = kind.value_type
        else:
            return None
    return kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether values are texts, numbers or dates, rather than lists, structs or bytes."""
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return not pa.types.is_nested(kind) and not is_binary


def _files(source: Path) -> list[tuple[Path, str | None]]:
    """List the files of a dataset with their splits; Arrow files where there is no Parquet."""
    if source.is_file():
        return [(source, split_of_file(source.name))]
    if tables := _visible(source, "*.parquet"):
        return [(path, split_of_file(path.relative_to(source).as_posix())) for path in tables]
    if states := _visible(source, "state.json"):
        return [file for state in states for file in _saved(state)]
    return [
        (path, split_of_file(path.relative_to(source).as_posix()))
        for path in _visible(source, f"*{ARROW}")
        if not path.name.startswith("cache-")
    ]


def split_of_file(name: str) -> str | None:
    """Return the split of a file by its path in the dataset; None if it names none."""
    path = PurePosixPath(name)
    shard = _SHARD.fullmatch(path.name)
    if shard and split_names.split_role(shard[1]):
        return shard[1]
    split = split_names.split_in(name.removesuffix(path.suffix))
    if shard and not split:
        return shard[1]
    return split


def _visible(source: Path, pattern: str) -> list[Path]:
    paths = sorted(source.rglob(pattern))
    return [
        path
        for path in paths
        if not any(part.startswith(".") for part in path.relative_to(source).parts)
    ]


def _saved(state: Path) -> list[tuple[Path, str | None]]:
    """List the files of one saved dataset, and their split.

    Other files are left over from its cache. In a `DatasetDict` the split is the name of the
    dataset's folder.
    """
    content = atomic.read_json(state)
    if content.get("_indices_data_files"):
        raise InputError(
            f"{state}: the dataset picks rows by indices; save it again with a current "
            "version of datasets"
        )
    names = [
        str(file.get("filename"))
        for file in content.get("_data_files") or []
        if isinstance(file, dict)
    ]
    if not names or not all(name == Path(name).name for name in names):
        raise InputError(f"{state}: names no data files; was it written by save_to_disk?")
    is_one_of_several = (state.parent.parent / "dataset_dict.json").is_file()
    split = state.parent.name if is_one_of_several else content.get("_split")
    if not isinstance(split, str):
        split = None
    return [(state.parent / name, split) for name in names]


def _part(path: Path, relative: Path, split: str | None, audio: str | None) -> _Part:
    """Return a file of a dataset.

    Raise InputError if its name is not Unicode, or unless it has one Audio column to choose.
    """
    stem = relative.with_suffix("").as_posix()
    if input_guards.escape_surrogates(stem) != stem:
        raise InputError(input_guards.NOT_UNICODE)
    schema = schema_of(path)
    audio_columns = _audio_columns(schema)
    if audio is not None:
        audio_columns = [name for name in audio_columns if name == audio]
    if len(audio_columns) != 1:
        called = f" called {audio!r}" if audio else ""
        raise InputError(
            f"{len(audio_columns)} Audio columns{called} "
            f"({', '.join(audio_columns) or 'none'}); "
            f"it has {', '.join(dict.fromkeys(schema.names))}, choose one by the option audio"
        )
    return _Part(
        path, stem, split, audio_columns[0], has_any_value(path, f"{audio_columns[0]}.bytes")
    )


def _rows(
    part: _Part, choices: Mapping[str, Sequence[str | None]], *, embeds: bool
) -> Iterator[dict[str, Any] | Problem]:
    """Yield the rows of a file, and a problem for each row without audio.

    `embeds` says whether the dataset holds the bytes of its recordings.
    """
    names = schema_of(part.path).names
    columns = {field: _place(names, choice) for field, choice in choices.items()}
    read_columns = dict.fromkeys(place[0] for place in columns.values() if place)
    selected = [f"{part.audio}.path", *read_columns]
    for row, values in enumerate(
        chain.from_iterable(batch.to_pylist() for batch in batches(part.path, selected, rows=_ROWS))
    ):
        path = (values[part.audio] or {}).get("path")
        if embeds or path:
            texts = {
                field: value_at(values[place[0]], place[1])
                for field, place in columns.items()
                if place
            }
            fields = {
                field: None if text in (None, "") else str(text) for field, text in texts.items()
            }
            yield {
                "name": _name(part, row, path) if embeds else path,
                "source_split": part.split,
                **fields,
            }
        else:
            yield Problem(part.path.name, row + 1, "neither bytes nor a path")


def _place(names: Sequence[str], choice: Sequence[str | None]) -> tuple[str, list[str]] | None:
    """Return the first column of a choice that a file has, and the path of fields in it."""
    for name in filter(None, choice):
        place = (name, []) if name in names else split_column(name, names)
        if place is not None:
            return place
    return None


def _name(part: _Part, row: int, path: str | None) -> str:
    """Name a recording after its file and row, never after the dataset's own path."""
    extension = ".wav"
    if path and name_matching.is_audio(path):
        extension = PurePosixPath(path).suffix.strip().lower()
    return f"{part.stem}/{row:08d}{extension}"


def _embedded(parts: Sequence[_Part]) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of all recordings.

    Recordings without bytes, or behind damage, are missing.
    """
    for part in parts:
        # What is behind damage cannot be read here either, and is a problem already.
        with suppress(pa.ArrowException, OSError):
            yield from _embedded_in(part)


def _embedded_in(part: _Part) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of the recordings of a file that have bytes."""
    columns = (batch.column(0) for batch in batches(part.path, [part.audio], rows=_CLIPS))
    for row, value in enumerate(chain.from_iterable(columns)):
        audio = value.as_py() or {}
        if audio.get("bytes") is not None:
            yield _name(part, row, audio.get("path")), audio["bytes"]
