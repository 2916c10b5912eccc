"""Rows of a large frame as a virtual table wants them: filtered, sorted, and only those that are looked at.

Conventions: an order is an array of row numbers of the frame (uint32); pages are plain JSON values.
"""

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.core.report import show

# What is needed to find the sound of a segment, and is no column to look at.
INNER = ("recording_path", "sampling_rate", "num_samples", "place")

Order = NDArray[np.uint32]

# Rows that one page may hold, and characters of a cell: more is never seen at once.
MOST_ROWS = 500
MOST_CHARACTERS = 400
# Values that are looked through for one written alike.
_MOST_VALUES = 10_000


def sort_and_filter(frame: pl.DataFrame, *, where: str = "", find: str = "", sort: str = "", descending: bool = False) -> Order:
    """Which rows are shown, in which order.

    Args:
        frame: all rows.
        where: an SQL expression over the columns, such as ``similarity < 0.5 and speaker_id = 'spk7'``; empty takes all.
        find: text that any column of text holds, whatever its case; empty takes all.
        sort: the column to sort by; empty keeps the order of the frame. Equal rows keep it too; nulls and NaN come last.
        descending: the greatest first.

    Returns:
        Row numbers.

    Raises:
        InputError: the expression is not understood or says neither yes nor no, or there is no such column.

    Examples:
        >>> frame = pl.DataFrame({"text": ["da", "ne", "Danas"], "wer": [0.5, 0.1, None]})
        >>> sort_and_filter(frame, find="da", sort="wer").tolist()
        [0, 2]
        >>> sort_and_filter(frame, where="wer < 0.3").tolist()
        [1]
    """
    kept = _filtered(frame, where.strip(), find)
    if not sort:
        return kept
    if sort not in frame.columns:
        near = get_close_matches(sort, frame.columns, n=3)
        raise InputError(f"sort: no column {sort!r}; " + (f"did you mean {' or '.join(near)}?" if near else _columns(frame)))
    column = frame[sort]
    if column.dtype.is_float():
        column = column.fill_nan(None)
    if column.dtype.is_nested():
        raise InputError(f"sort: {sort} holds lists; there is no order in them")
    values = pl.DataFrame({"value": column if len(kept) == len(column) else column[kept]})
    by_value = values.select(pl.arg_sort_by("value", descending=descending, nulls_last=True, maintain_order=True))
    arranged: Order = kept[by_value.to_series().to_numpy()]
    return arranged


def _filtered(frame: pl.DataFrame, where: str, find: str) -> Order:
    conditions = []
    if where:
        try:
            conditions.append(pl.sql_expr(where).alias("where"))
            held = frame.lazy().select(conditions[0]).collect_schema()["where"]
        except pl.exceptions.PolarsError as error:
            raise InputError(f"filter {where!r}: {_why(error, frame)}") from error
        if held not in (pl.Boolean, pl.Null):
            given = "a text" if held == pl.String else "a number" if held.is_numeric() else "something else"
            raise InputError(f"filter {where!r}: must be a condition such as similarity < 0.5; this gives {given}")
    if find:
        # A literal in a case-insensitive expression; lower-casing the columns first takes ten times as long.
        pattern = f"(?i){_literal(find)}"
        texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        conditions.append(pl.any_horizontal(pl.lit(value=False), *(pl.col(name).str.contains(pattern) for name in texts)))
    if not conditions:
        return np.arange(len(frame), dtype=np.uint32)
    try:
        mask = frame.select(pl.all_horizontal(condition.fill_null(value=False) for condition in conditions)).to_series()
    except pl.exceptions.PolarsError as error:
        raise InputError(f"filter {where!r}: {_why(error, frame)}") from error
    if len(mask) != len(frame):  # a constant
        mask = pl.Series([bool(mask[0])]).new_from_index(0, len(frame))
    return mask.arg_true().to_numpy().astype(np.uint32)


def _columns(frame: pl.DataFrame) -> str:
    return f"columns are {', '.join(name for name in frame.columns if name not in INNER)}"


def _literal(text: str) -> str:
    """A text that stands for itself in a regular expression of Rust."""
    return re.sub(r"([\\.+*?()|\[\]{}^$#&\-~])", r"\\\1", text)


def _why(error: pl.exceptions.PolarsError, frame: pl.DataFrame) -> str:
    """What is wrong with a filter, in words of its own: what Polars says names columns and types that nobody wrote."""
    columns = [name for name in frame.columns if name not in INNER]
    if isinstance(error, pl.exceptions.ColumnNotFoundError) and (found := re.search(r'column "([^"]*)"', str(error))):
        name = found[1]
        if near := get_close_matches(name, columns, n=3):
            return f"there is no column {name}; did you mean {' or '.join(near)}?"
        return f"there is no column {name}; a text is written '{name}'; {_columns(frame)}"
    if "cannot compare" in str(error):
        return "a text is compared with a number; texts are quoted, numbers are not: speaker_id = 'spk7', similarity < 0.5"
    if "conversion from" in str(error):
        return "a text that is no number cannot be made one"
    if unknown := re.search(r"unsupported function '([^']*)'", str(error)):
        return f"there is no function {unknown[1]}"
    return "not understood; write a condition such as similarity < 0.5 and speaker_id = 'spk7'"


def similar_values(frame: pl.DataFrame, where: str) -> str:
    """Which texts that a filter asks for no row has, and what is written alike; empty where there are none.

    Examples:
        >>> similar_values(pl.DataFrame({"speaker_id": ["spk7", "ana"]}), "speaker_id = 'skp7' and true")
        "no speaker_id 'skp7'; did you mean 'spk7'?"
    """
    for name, value in re.findall(r"(\w+)\s*==?\s*'([^']*)'", where):
        if frame.schema.get(name) in (pl.String, pl.Categorical) or isinstance(frame.schema.get(name), pl.Enum):
            held = frame[name].cast(pl.String).drop_nulls().unique().sort()
            if value not in held:
                near = get_close_matches(value, held.head(_MOST_VALUES).to_list(), n=3)
                return f"no {name} '{value}'" + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")
    return ""


def row_page(frame: pl.DataFrame, order: Order, first: int, last: int, columns: Sequence[str]) -> list[list[Any]]:
    """Some rows of an order: for each its number in the frame, then its cells.

    Args:
        frame: all rows.
        order: which are shown.
        first: the first one wanted, in the order.
        last: one past the last one; at most `MOST_ROWS` are given.
        columns: which cells.

    Raises:
        InputError: there is no such column.

    Examples:
        >>> row_page(pl.DataFrame({"n": [7, 8, 9]}), np.array([2, 0], dtype=np.uint32), 0, 5, ["n"])
        [[2, 9], [0, 7]]
    """
    unknown = [name for name in columns if name not in frame.columns]
    if unknown:
        raise InputError(f"columns: there is no {unknown[0]!r}; there are {', '.join(frame.columns)}")
    numbers = order[max(0, first) : max(0, min(last, first + MOST_ROWS))]
    rows = frame.select(columns)[numbers].iter_rows()
    return [[int(number), *map(cell, row)] for number, row in zip(numbers, rows, strict=True)]


def cell(value: Any) -> str | int | float | bool | None:
    """A value as JSON can carry it: texts are cut, what is no number is null, all else as a person reads it.

    Examples:
        >>> cell(0.5), cell(float("nan")), cell([1, 2])
        (0.5, None, '1, 2')
    """
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return f"{len(value):,} bytes"
        case _:
            text = show(value)
            return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} …"
