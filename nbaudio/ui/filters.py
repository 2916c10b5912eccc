"""Filter and sort a frame by SQL conditions, text search and columns.

An order is an array of row numbers of the frame (uint32).
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from functools import reduce
from operator import and_
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from nbaudio.core.atomic import lock, read_json, write_json
from nbaudio.core.errors import InputError
from nbaudio.core.threads import in_threads
from nbaudio.tables.conditions import LONGEST_TEXT, Condition, parse_condition, rows_that_meet
from nbaudio.tables.stored_frame import Order, StoredFrame, sorted_by_ranges
from nbaudio.tables.workspace import Workspace

# Columns needed to find the audio of a segment, hidden from the user.
INTERNAL_COLUMNS = ("recording_path", "recording_channels", "sampling_rate", "num_samples", "place")

TableFrame: TypeAlias = pl.DataFrame | StoredFrame
FILTERED_SHARE = 0.5
"""The share of an arrangement that is done when the rows are filtered and not sorted yet."""

_MOST_VALUES = 10_000  # values that are searched for similar ones
# Texts of a range, which are sorted in a thread; a single sort of all takes three times as long.
_TEXTS_AT_ONCE = 1 << 16
_LONGEST_NAME = 100
_MOST_SAVED = 500
_KINDS = {"where": str, "find": str, "sort": str, "descending": bool}


def sort_and_filter(frame: TableFrame, **arrangement: Any) -> Order:
    """Return the numbers of rows that meet both conditions and contain a text.

    Equal rows keep their order, and nulls are last.
    """
    *_, (_, parts) = arrange(frame, **arrangement)
    return joined(parts)


def joined(parts: list[Order]) -> Order:
    """Concatenate parts of an order; a single part is returned without a copy."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def arrange(
    frame: TableFrame,
    *,
    where: str = "",
    find: str = "",
    sort: str = "",
    descending: bool = False,
    narrowed: str = "",
    passing_rows: Order | None = None,
) -> Iterator[tuple[float, list[Order]]]:
    """Do `sort_and_filter` in parts.

    Rows in memory are one part.

    Args:
        frame: the rows.
        where: a condition, empty for none.
        find: a text that one of the text columns has, in either case.
        sort: a column, empty for the order of the frame.
        descending: the order, in which nulls are last, too.
        narrowed: a further condition.
        passing_rows: the rows that pass the filter, in the order of the frame, if they are known.

    Yields:
        The share that is done, and parts of the rows so far, which are in order only when all is
        done.

    Raises:
        InputError: a condition is invalid, the text too long, or the column cannot be sorted by.
    """
    if len(find) > LONGEST_TEXT:
        raise InputError(
            f"find: a text of {len(find):,} characters; at most {LONGEST_TEXT:,} are allowed"
        )
    conditions = _parse_all(frame, [where, narrowed])
    _check_sort(frame, sort)
    if passing_rows is not None:
        parts = [passing_rows]
    elif conditions or find:
        parts = [np.zeros(0, np.uint32)]
        num_rows = 0
        share_of_filtering = FILTERED_SHARE if sort else 1.0
        for mask in _masks(frame, conditions, find):
            parts.append(mask.arg_true().to_numpy().astype(np.uint32) + np.uint32(num_rows))
            num_rows += len(mask)
            yield share_of_filtering * num_rows / max(1, len(frame)), parts
    else:
        parts = [np.arange(len(frame), dtype=np.uint32)]
    if not sort:
        yield 1.0, parts
        return
    parts = [joined(parts)]
    if isinstance(frame, StoredFrame):
        for step in frame.order(sort, parts[0], descending=descending):
            if isinstance(step, float):
                yield FILTERED_SHARE + (1 - FILTERED_SHARE) * step, parts
            else:
                parts = [step]
    else:
        parts = [_sort_in_memory(frame[sort], parts[0], descending=descending)]
    yield 1.0, parts


def _parse_all(frame: TableFrame, texts: Sequence[str]) -> list[Condition]:
    """Return the conditions of texts that are not empty."""
    columns = (*visible_columns(frame), *_further_columns(frame))
    schema = {name: frame.schema[name] for name in columns}
    return [parse_condition(text.strip(), schema) for text in texts if text.strip()]


def _check_sort(frame: TableFrame, sort: str) -> None:
    """Raise InputError unless rows can be sorted by a column, or none is named."""
    if not sort:
        return
    columns = visible_columns(frame)
    if sort not in columns:
        near = get_close_matches(sort, columns, n=3)
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        else:
            hint = f"columns are {', '.join(columns)}"
        raise InputError(f"sort: no column {sort!r}; {hint}")
    if frame.schema[sort].is_nested() or frame.schema[sort] == pl.Binary:
        raise InputError(f"sort: {sort} holds lists or bytes, which have no order")


def _sort_in_memory(column: pl.Series, rows: Order, *, descending: bool) -> Order:
    """Sort rows by a column of the frame, stably, nulls and NaN last."""
    values = column
    if column.dtype.is_float():
        values = column.fill_nan(None)
    if len(rows) < len(values):
        values = values[rows]
    if values.dtype == pl.String:
        places = pl.concat(sorted_by_ranges(values, _TEXTS_AT_ONCE, descending=descending))
    else:
        order = pl.arg_sort_by("value", descending=descending, nulls_last=True, maintain_order=True)
        places = values.to_frame("value").select(order).to_series()
    return np.take(rows, places.to_numpy())


def _masks(frame: TableFrame, conditions: list[Condition], find: str) -> Iterator[pl.Series]:
    """Yield which rows meet conditions and contain a text, for one part of the rows at a time."""
    if isinstance(frame, pl.DataFrame):
        met = _rows_that_meet_all(conditions, frame)
        if find:
            met &= frame.select(_contains(frame, find)).to_series()
        yield met
        return
    columns = list(dict.fromkeys(name for condition in conditions for name in condition.columns))
    columns = columns or visible_columns(frame)[:1]
    if any(condition.needs_all_rows for condition in conditions):
        whole = _met_by_whole_columns(frame, conditions, columns)
        yield from in_threads(
            lambda rows: _with_text(frame, find, rows, whole[rows.start : rows.stop]), frame.parts
        )
        return
    yield from in_threads(
        lambda rows: _with_text(
            frame, find, rows, _rows_that_meet_all(conditions, frame.part(rows, columns))
        ),
        frame.parts,
    )


def _met_by_whole_columns(
    frame: StoredFrame, conditions: list[Condition], columns: list[str]
) -> pl.Series:
    """Return which rows meet conditions that need all rows, such as those with an average.

    Raise InputError if one of the columns is not small enough to be read as a whole.
    """
    if not all(map(frame.is_narrow, columns)):
        raise InputError(
            "filter: in a table that stays in its file, conditions with avg(), max(), "
            "... are of numbers only"
        )
    return _rows_that_meet_all(conditions, pl.DataFrame([frame[name] for name in columns]))


def _with_text(frame: StoredFrame, find: str, rows: range, met: pl.Series) -> pl.Series:
    """Return which of the rows that meet conditions contain a text, for a part of a table."""
    if not find or not met.any():
        return met
    columns = _text_columns(frame) or visible_columns(frame)[:1]
    return met & frame.part(rows, columns).select(_contains(frame, find)).to_series()


def _text_columns(frame: TableFrame) -> list[str]:
    """Return the columns that a text is searched in."""
    return [name for name in visible_columns(frame) if frame.schema[name] == pl.String]


def _contains(frame: TableFrame, find: str) -> pl.Expr:
    """Return whether one of the text columns contains a text, in either case."""
    # A literal in a case-insensitive regular expression; lower-casing the columns first takes ten
    # times as long.
    pattern = "(?i)" + pl.escape_regex(find)
    in_texts = (
        pl.col(name).str.contains(pattern).fill_null(value=False) for name in _text_columns(frame)
    )
    return pl.any_horizontal(pl.lit(value=False), *in_texts)


def _rows_that_meet_all(conditions: list[Condition], rows: pl.DataFrame) -> pl.Series:
    """Return which rows meet all conditions: all rows without any."""
    all_rows = pl.repeat(value=True, n=len(rows), eager=True)
    return reduce(and_, (rows_that_meet(condition, rows) for condition in conditions), all_rows)


def visible_columns(frame: TableFrame) -> list[str]:
    """Return the columns of a frame without those that the widgets have joined to segments."""
    return [
        name
        for name in frame.columns
        if name not in INTERNAL_COLUMNS or "recording_path" not in frame.columns
    ]


def _further_columns(frame: TableFrame) -> list[str]:
    """Return the hidden columns that conditions may read: what `select` joins, too."""
    hidden = set(frame.columns).difference(visible_columns(frame))
    if "sampling_rate" in hidden:
        return ["sampling_rate"]
    return []


def similar_values(frame: TableFrame, where: str) -> str:
    """Return which text of a filter no row has, with similar values.

    The result is empty if there is no such text, or if the rows are in a file.
    """
    if isinstance(frame, StoredFrame):
        return ""
    for name, value in re.findall(r"\b(\w+)\s*==?\s*'([^']*)'", where):
        if not isinstance(frame.schema.get(name), pl.String | pl.Categorical | pl.Enum):
            continue
        values = frame[name].cast(pl.String).drop_nulls().unique().sort()
        if value not in values:
            near = get_close_matches(value, values.head(_MOST_VALUES).to_list(), n=3)
            hint = ""
            if near:
                hint = f"; did you mean {' or '.join(map(repr, near))}?"
            return f"no {name} '{value}'{hint}"
    return ""


class SavedFilters:
    """Filters by name: condition, text to find and order.

    They are kept in ``filters.json`` of a workspace, or in memory only.
    """

    def __init__(
        self, workspace: Workspace | None, arrangement: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Take the workspace, and a function that returns the arrangement of a table.

        Saving a filter stores that arrangement.
        """
        self._path = None if workspace is None else workspace.path / "filters.json"
        self._filters: dict[str, Any] = {}
        self._arrangement = arrangement

    def _list(self) -> dict[str, Any]:
        """Return the filters by name, in alphabetical order.

        Entries that are no filters are left out.
        """
        if self._path is not None:
            self._filters = read_json(self._path) if os.path.lexists(self._path) else {}
        return {
            name: entry
            for name, entry in sorted(self._filters.items())
            if isinstance(entry, dict)
            and all(isinstance(entry.get(key), kind) for key, kind in _KINDS.items())
        }

    def _save(self, *, name: str) -> dict[str, Any]:
        """Save the arrangement, in place of one of the same name; return all filters."""
        name = name.strip()
        if not 1 <= len(name) <= _LONGEST_NAME:
            raise InputError(f"filters: a name has 1 to {_LONGEST_NAME} characters")
        return self._change(
            {name: {key: value for key, value in self._arrangement().items() if key in _KINDS}}
        )

    def _delete(self, *, name: str) -> dict[str, Any]:
        """Delete a filter; return the others."""
        return self._change({name: None})

    def _change(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Save filters by name, delete those that are None; return all filters."""
        with ExitStack() as cleanup:
            if self._path is not None:  # so that two notebooks do not undo each other's changes
                folder = os.open(self._path.parent, os.O_RDONLY)
                cleanup.callback(os.close, folder)
                lock(folder, required=False)
            entries = {**self._list(), **changes}
            filters = {name: entry for name, entry in entries.items() if entry is not None}
            if len(filters) > _MOST_SAVED:
                raise InputError(f"filters: at most {_MOST_SAVED} can be saved; delete some")
            self._filters = filters
            if self._path is not None:
                write_json(self._path, filters)
        return self._list()
