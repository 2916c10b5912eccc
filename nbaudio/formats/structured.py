"""Lists and objects where texts are expected, and the fields in them.

``transcription.de`` is the field ``de`` of the column ``transcription``, and ``transcription.0``
the first item of its lists. The values are nested columns, or texts that are JSON or what Python
prints of lists and dicts.
"""

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.formats.transcripts import Transcripts
from nbaudio.tables.rows import Rows

# Fields of `Transcripts` that hold texts, and which no list or object is read as.
_FIELDS = ("text", "asr_text", "speaker_id", "segment_id", "name")
_BRACKETS = r"(?s)^\s*(\[.*\]|\{.*\})\s*$"
_MOST_CHARACTERS = 100_000  # characters of the longest text that is parsed
_SHOWN_CHARACTERS = 60  # characters of a value that a message shows


def structure(text: str) -> list[Any] | dict[str, Any] | None:
    """Return the list or object that a text is the JSON or the Python form of.

    Return None if it is neither, or has no text in it, as ``[applause]`` and ``[1]`` have none.

    Examples:
        >>> structure('{"de": "eins"}'), structure("['eins', 'ein']"), structure("[applause]")
        ({'de': 'eins'}, ['eins', 'ein'], None)
    """
    if len(text) > _MOST_CHARACTERS:
        return None
    parsers: tuple[Callable[[str], Any], ...] = (json.loads, ast.literal_eval)
    for parse in parsers:
        try:
            value = parse(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
            return value
        if isinstance(value, list) and any(isinstance(item, str | dict | list) for item in value):
            return value
    return None


def check_texts(source: object, transcripts: Transcripts) -> None:
    """Raise InputError if texts, ids or speakers are lists or objects; see `check_values`."""
    for field in _FIELDS:
        if field in transcripts.rows.schema:
            column = transcripts.columns.get(field, field)
            batches = transcripts.rows.batches([field])
            check_values(source, column, (batch[field] for batch in batches))


def check_values(source: object, column: str, batches: Iterable[pl.Series]) -> None:
    """Raise InputError if the values of a column are lists or objects.

    They are if at least half of the values that are not blank are.
    """
    filled = 0
    structured: list[str] = []
    for batch in batches:
        texts = batch.cast(pl.String).drop_nulls()
        filled += int((texts.str.strip_chars() != "").sum())
        bracketed = texts.filter(texts.str.contains(_BRACKETS))
        structured += [text for text in bracketed if structure(text) is not None]
    if structured and 2 * len(structured) >= filled:
        raise InputError(f"{source}: {_refusal(column, structured[0])}")


def _refusal(column: str, example: str) -> str:
    """Return what is wrong with a column of lists or objects, and how a part of it is read."""
    value = structure(example)
    shown = example.strip()
    if len(shown) > _SHOWN_CHARACTERS:
        shown = f"{shown[:_SHOWN_CHARACTERS]}..."
    if isinstance(value, dict):
        remedy = _remedy(f"{column}.{next(iter(value))}")
        return f"column {column!r} has objects, such as {shown}; {remedy}"
    return f"column {column!r} has lists, such as {shown}; {_remedy(f'{column}.0')}"


def _remedy(part: str) -> str:
    return f"name a part of them as the column, such as {part}"


def nested_refusal(column: str, kind: object, fields: Sequence[str], *, is_list: bool) -> str:
    """Return the message on a column of a type that is no text.

    `fields` are those of a struct.
    """
    parts = ["0"] if is_list else fields
    remedy = f"; {_remedy(f'{column}.{parts[0]}')}" if parts else ""
    return f"column {column!r} is {kind}; expected texts or numbers{remedy}"


def split_column(name: str, available: Iterable[str]) -> tuple[str, list[str]] | None:
    """Return the column and the path of fields that a name means.

    Return None if it is a column itself, or begins with none.
    """
    columns = {*available}
    if name in columns:
        return None
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        column = ".".join(parts[:length])
        if column in columns:
            return column, parts[length:]
    return None


def own_column(name: str | None, available: Iterable[str]) -> str | None:
    """Return the column that a name is, or that the field it names is in."""
    if name is None:
        return None
    split = split_column(name, available)
    return split[0] if split else name


def fields_of(kind: pl.DataType) -> list[str]:
    """Return the names of the fields of a struct; none for other types."""
    if isinstance(kind, pl.Struct):
        return [field.name for field in kind.fields]
    return []


def value_at(value: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of fields and item numbers (from 0); None if there is none."""
    for part in path:
        if isinstance(value, str):
            value = structure(value)
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdecimal():
            if int(part) >= len(value):
                return None
            value = value[int(part)]
        else:
            return None
    return value


def with_fields(source: Path, rows: Rows, names: Iterable[str | None]) -> Rows:
    """Add the columns that `names` have as paths of fields, such as ``text.de``.

    Raise InputError if no row has a value there.
    """
    paths: dict[str, tuple[str, list[str]]] = {}
    for name in names:
        if name is None:
            continue
        if split := split_column(name, rows.schema):
            paths[name] = split
    if not paths:
        return rows

    def frames() -> Iterator[pl.DataFrame]:
        for frame in rows.batches():
            yield frame.with_columns(
                _field_texts(frame[column], path).alias(name)
                for name, (column, path) in paths.items()
            )

    fielded = Rows.collect(frames())
    for name in paths:
        if not any(batch[name].count() for batch in fielded.batches([name])):
            raise InputError(f"{source}: there is no value at {name!r} in any row")
    return fielded


def _field_texts(column: pl.Series, path: Sequence[str]) -> pl.Series:
    """Return the values at a path in each row as texts; null where there is none."""
    values = (value_at(value, path) for value in column.to_list())
    return pl.Series([plain_text(value) for value in values], dtype=pl.String)


def plain_text(value: Any) -> str | None:
    """Return a value as text; lists and objects as JSON, which `check_texts` refuses."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
