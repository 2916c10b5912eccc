"""License, consent and source of segments, as columns of a source or of `join` say them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.tables.parquet_files import parquet_slices

#: By field, the names that its column may have, the preferred first.
PROVENANCE: Mapping[str, Sequence[str]] = {
    "license": ("license", "licence", "license_name", "license_url", "source_license"),
    "consent": ("consent", "consent_given", "consent_form"),
    "source": ("source", "source_name", "source_url"),
}

_MOST_VALUES = 20
_MICROSECONDS = 1_000_000
_NOT_STATED = "not stated"


def provenance_columns(names: Iterable[str]) -> dict[str, str]:
    """Return by field of `PROVENANCE` its column among `names`, where there is one.

    Examples:
        >>> provenance_columns(["text", "licence", "consent"])
        {'license': 'licence', 'consent': 'consent'}
    """
    available = set(names)
    columns = {
        field: next((name for name in usual if name in available), None)
        for field, usual in PROVENANCE.items()
    }
    return {field: column for field, column in columns.items() if column is not None}


def provenance_amounts(path: Path) -> list[dict[str, Any]]:
    """Return the segments and hours of each license, consent and source of a corpus's table.

    Each row has `field`, `value`, `segments` and `hours`, by field and then by hours. Fields
    without any value have no rows; of many values, the last row counts the others.
    """
    schema = pl.read_parquet_schema(path)
    plain = [name for name, dtype in schema.items() if not dtype.is_nested()]
    rows = []
    for field, column in provenance_columns(plain).items():
        rows += _amounts_of(path, field, column)
    return rows


def _amounts_of(path: Path, field: str, column: str) -> list[dict[str, Any]]:
    """Return the rows of one field; none if its column has no value."""
    segments = Counter[str | None]()
    micros = defaultdict[str | None, int](int)
    value = pl.col(column).cast(pl.String, strict=False).str.strip_chars()
    length = (pl.col("duration_s") * _MICROSECONDS).round().cast(pl.Int64).sum()
    for part in parquet_slices(path, (column, "duration_s")):
        stated = pl.when(value != "").then(value).alias("value")
        for name, number, duration in part.group_by(stated).agg(pl.len(), length).iter_rows():
            segments[name] += number
            micros[name] += duration
    if not segments.keys() - {None}:
        return []
    in_order = sorted(segments, key=lambda name: (name is None, -micros[name], name or ""))
    rows = [(name or _NOT_STATED, segments[name], micros[name]) for name in in_order]
    return [
        {
            "field": field,
            "value": name,
            "segments": number,
            "hours": round(duration / _MICROSECONDS / 3600, 6),
        }
        for name, number, duration in _first_rows(rows)
    ]


def _first_rows(rows: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return the first rows, and one with the sums of the others, if there are many."""
    others = rows[_MOST_VALUES:]
    if not others:
        return rows
    number = sum(row[1] for row in others)
    duration = sum(row[2] for row in others)
    return [*rows[:_MOST_VALUES], (f"{len(others):,} others", number, duration)]
