"""State of a table in Python.

It is order, layout, cursor and marks of a frame, its pages of rows, and what column headers show.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from time import monotonic
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import shorten, show
from nbaudio.tables.stored_frame import Order, StoredFrame
from nbaudio.ui.filters import (
    FILTERED_SHARE,
    TableFrame,
    arrange,
    joined,
    similar_values,
    sort_and_filter,
    visible_columns,
)
from nbaudio.ui.histogram_bins import equal_width_edges
from nbaudio.ui.widgets.base_widget import handlers

MOST_ROWS = 500  # rows of a page
MOST_CHARACTERS = 400  # characters of a cell
_PART_S = 0.1  # seconds of a part of an arrangement; other requests are answered between parts
_SCATTERED_ROWS = 16  # rows of a page, where each row may be in another row group
_MOST_COPIED = 100_000  # characters of a cell
BINS = 24
_MOST_DESCRIBED = 500_000  # rows that a header describes; of more, every second, third, ...
_TOP = 4
_SAMPLE = 5000
_FREE_TEXTS = ("segment_id", "text", "asr_text", "note")
_MOST_KINDS = 40  # different values of a column whose values are shown whole
_LONGEST_KIND = 40  # characters of such a value


def take_rows(frame: TableFrame, numbers: Order, columns: Sequence[str]) -> pl.DataFrame:
    """Return columns of rows by their numbers."""
    if isinstance(frame, StoredFrame):
        return frame.rows(numbers, columns)
    return frame.select(columns)[numbers]


def row_page(
    frame: TableFrame, order: Order, first: int, last: int, columns: Sequence[str]
) -> list[list[Any]]:
    """Return rows `first` to `last` of an order, at most `MOST_ROWS`.

    Each row is its number in the frame and then its cells as JSON values.
    """
    if unknown := [name for name in columns if name not in frame.columns]:
        raise InputError(
            f"columns: there is no {unknown[0]!r}; there are {', '.join(frame.columns)}"
        )
    numbers = order[max(0, first) : max(0, min(last, first + MOST_ROWS))]
    rows = take_rows(frame, numbers, columns).iter_rows()
    return [[int(number), *map(cell, row)] for number, row in zip(numbers, rows, strict=True)]


def cell(value: Any) -> str | int | float | bool | None:
    """Convert a value for JSON.

    Long texts are cut, NaN and infinities are null, and what JSON does not have is shown as text.
    """
    if value is None or isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return shorten(show(value), MOST_CHARACTERS, " …")


class TableView:
    """State of a table: order, columns, cursor and marks of a frame.

    It has the handlers of the table's front end. The number of a row is its place in the frame; its
    position is its place in the order shown.
    """

    def __init__(
        self,
        frame: TableFrame,
        columns: Sequence[str],
        *,
        hypothesis: str | None = None,
        **order: Any,
    ) -> None:
        """Arrange the rows of a frame.

        Args:
            frame: the rows.
            columns: columns shown at first.
            hypothesis: the column that may stand below `text` in its cell.
            **order: `where`, `find`, `sort` and `descending` of `sort_and_filter`.
        """
        self.frame: Any = frame  # `TableFrame`
        self.columns = list(columns)
        self.hypothesis = hypothesis
        self.cursor = 0  # a position
        self.marked: set[int] = set()  # numbers
        self.arrangement = {"where": "", "find": "", "sort": "", "descending": False, **order}
        self.narrowed = ""
        self.layout: dict[str, Any] = {
            "widths": {},
            "wrap": False,
            "charts": False,
            "stacked": False,
            "fitted": False,
        }
        self.version = 0  # another one for each other order
        # Called when other rows are shown or marked.
        self.changed: Callable[[], None] = lambda: None
        self.order: Order = sort_and_filter(frame, **self.arrangement)
        # The remaining parts of an arrangement that is not done, and which share of it is done.
        self._parts: Iterator[tuple[float, list[Order]]] = iter(())
        self._share = 1.0
        # The last order that was complete, and its arrangement: they return if the next one fails.
        self._before = self.order, self.arrangement
        row_page(frame, self.order, 0, 1, self.columns)  # checks the columns
        names = (
            "open",
            "arrange",
            "continue",
            "rows",
            "columns",
            "layout",
            "distribution",
            "cell",
            "cursor",
            "mark",
        )
        self.calls = {**handlers(self, "table", *names), "table.position": self.go_to}

    def _open(self) -> dict[str, Any]:
        place = {"order": self.arrangement, "cursor": self.cursor}
        return {**self._columns(), **place, **self._size()}

    def _columns(self) -> dict[str, Any]:
        """Return all columns, the columns shown, and the layout."""
        columns = [
            {"name": name, "kind": _kind(self.frame.schema[name])}
            for name in visible_columns(self.frame)
        ]
        return {
            "columns": columns,
            "shown": self.columns,
            "hypothesis": self.hypothesis,
            "characters": self._characters(),
            **self.layout,
        }

    def _size(self) -> dict[str, Any]:
        """Return how many rows are shown, of how many, and how far an arrangement is."""
        size: dict[str, Any] = {
            "total": len(self.order),
            "all": len(self.frame),
            "version": self.version,
        }
        if isinstance(self.frame, StoredFrame) and self.arrangement["sort"]:
            size["page"] = _SCATTERED_ROWS
        if self._share < 1:
            is_filtered = self.arrangement["sort"] and self._share >= FILTERED_SHARE
            state = "not sorted yet" if is_filtered else "so far"
            return {**size, "progress": f"{state}, {100 * self._share:.0f} %"}
        if not len(self.order) and (note := similar_values(self.frame, self.arrangement["where"])):
            size["note"] = note
        return size

    def _arrange(self, **arrangement: Any) -> dict[str, Any]:
        """Arrange the rows, or begin to do so.

        `progress` in the size says that `_continue` has more to do.
        """
        has_same_filter = all(
            arrangement[key] == self.arrangement[key] for key in ("where", "find")
        )
        passing_rows = None
        if self._share == 1 and has_same_filter and len(self.order) < len(self.frame):
            passing_rows = np.sort(self.order)  # they are not filtered again
        parts = arrange(
            self.frame, **arrangement, narrowed=self.narrowed, passing_rows=passing_rows
        )
        first = next(parts)  # raises InputError for a wrong condition
        if self._share == 1:
            self._before = self.order, self.arrangement
        self.arrangement = arrangement
        self.cursor = 0
        self.version = self.version + 1
        self._parts = chain([first], parts)
        self._share = 0.0
        self.proceed(_PART_S)
        return self._size()

    def _continue(self, *, version: int) -> dict[str, Any]:
        """Do a further part of an arrangement, unless another one has replaced it."""
        if version == self.version:
            self.proceed(_PART_S)
            # So far, these were rows in another order.
            if self._share == 1 and self.arrangement["sort"]:
                self.cursor = 0
                self.version = version + 1
        return self._size()

    def proceed(self, seconds: float = math.inf) -> None:
        """Go on with an arrangement that is made in parts; one that fails is undone."""
        until = monotonic() + seconds
        if self._share == 1:
            return
        try:
            for share, parts in self._parts:  # noqa: B007 - of the last part
                if monotonic() >= until:
                    break
        except BaseException:
            self._share = 1.0
            self.version = self.version + 1
            self.order, self.arrangement = self._before
            raise
        self._share = share
        self.order = joined(parts)
        self.changed()

    def narrow(self, where: str) -> None:
        """Keep rows that meet a condition besides the typed one.

        The cursor stays on its row. If the condition is invalid, all stays as it was.
        """
        order = sort_and_filter(self.frame, **self.arrangement, narrowed=where)
        current = self.current
        self.order = order
        self.narrowed = where
        self.cursor = 0
        self.version = self.version + 1
        self._parts = iter(())
        self._share = 1.0
        self.go_to(current)
        self.changed()

    @property
    def current(self) -> int:
        """The number of the row under the cursor, -1 for none."""
        return int(next(iter(self.order[self.cursor : self.cursor + 1]), -1))

    @property
    def where(self) -> str:
        """The typed and the further condition in one."""
        parts = [
            part for part in (self.arrangement["where"].strip(), self.narrowed.strip()) if part
        ]
        if len(parts) == 1:
            return parts[0]
        return " AND ".join(f"({part})" for part in parts)

    def _rows(self, *, first: int, last: int, columns: list[str]) -> dict[str, Any]:
        """Return a page of rows; see `row_page`."""
        page = row_page(self.frame, self.order, first, last, columns)
        rows = [
            {"number": row[0], "marked": row[0] in self.marked, "cells": row[1:]} for row in page
        ]
        return {"rows": rows, "version": self.version}

    def go_to(self, number: int) -> int | None:
        """Move the cursor to a row of the frame; return its position, None if it is not shown."""
        places = np.flatnonzero(self.order == number)
        if not len(places):
            return None
        self.cursor = int(places[0])
        return self.cursor

    def move_by(self, rows: int) -> int:
        """Move the cursor by some rows, up to the first or last one.

        Return the number of the row there, -1 for none.
        """
        self.cursor = max(0, min(len(self.order) - 1, self.cursor + rows))
        return self.current

    def _layout(self, *, shown: list[str], **layout: Any) -> dict[str, int]:
        """Keep the layout: the columns shown, in their order, and further settings.

        These are `widths` in pixels by name, and booleans: `wrap`, `charts`, `stacked` (the
        hypothesis stands below the transcript) and `fitted` (the columns are the default ones).
        Return the characters of the longest values, see `longest_value`.
        """
        self.columns = shown
        self.layout = layout
        return self._characters()

    def fit_columns(self) -> None:
        """Treat the columns shown as default ones, those that matter most first.

        Until somebody chooses columns, the front end leaves out those that do not fit into the
        width, and the hypothesis stands below the transcript.
        """
        self.layout |= {"stacked": True, "fitted": True}

    def replace_defaults(self, columns: Sequence[str]) -> None:
        """Show other default columns, unless somebody has chosen columns."""
        if self.layout["fitted"]:
            self.columns = list(columns)

    def _characters(self) -> dict[str, int]:
        """Return the characters of the longest value of the columns shown that have one.

        Of a table in its file, only the first rows are looked at.
        """
        characters = {}
        for name in self.columns:
            if name in _FREE_TEXTS:
                continue
            longest = longest_value(_first_rows(self.frame, name))
            if longest is not None:
                characters[name] = longest
        return characters

    def _distribution(self, *, column: str) -> dict[str, Any]:
        """Return the `distribution` of a column; of a table in its file, that of a sample."""
        if isinstance(self.frame, StoredFrame):
            values, step = self.frame.sample(column, self.order, _MOST_DESCRIBED)
            return distribution(values, np.arange(len(values), dtype=np.uint32)) | {"step": step}
        return distribution(self.frame[column], self.order)

    def _cell(self, *, number: int, column: str) -> str:
        """Return the value of a cell as text, longer than a page of rows has it."""
        value = take_rows(self.frame, np.array([number], dtype=np.uint32), [column]).item()
        if value is None:
            return ""
        if isinstance(value, str):
            return value[:_MOST_COPIED]
        return str(cell(value))

    def _cursor(self, *, position: int, version: int) -> None:
        if version == self.version and 0 <= position < len(self.order):
            self.cursor = position

    def _mark(self, *, first: int, last: int, on: bool, version: int) -> None:
        """Mark or unmark rows, unless others are shown by now."""
        if version == self.version:
            numbers = self.order[max(0, first) : max(0, last)].tolist()
            if on:
                self.marked.update(numbers)
            else:
                self.marked.difference_update(numbers)
            self.changed()

    @property
    def marked_order(self) -> Order:
        """The numbers of the marked rows that are shown, in the order shown."""
        return self.order[np.isin(self.order, list(self.marked))]

    @property
    def selection(self) -> pl.DataFrame:
        """The marked rows in the order shown.

        If no row shown is marked, it is the row under the cursor.
        """
        chosen = self.marked_order
        if not len(chosen):
            chosen = self.order[self.cursor : self.cursor + 1]
        return take_rows(self.frame, chosen, self.frame.columns)


def _kind(dtype: pl.DataType) -> str:
    """Return how the front end shows a column: as `float`, `integer` or `text`."""
    if dtype.is_float():
        return "float"
    if dtype.is_integer():
        return "integer"
    return "text"


def _first_rows(frame: TableFrame, name: str) -> pl.Series:
    """Return a column; of a table in its file, the part of it that is read at once."""
    if not isinstance(frame, StoredFrame):
        return frame[name]
    return frame.part(frame.parts[0], [name])[name]


def longest_value(values: pl.Series) -> int | None:
    """Return the characters of the longest value of a column, as a cell shows it.

    The columns are numbers, yes and no, and those with few different short values, such as
    `reason`; None stands for others, and for columns without values.
    """
    if values.dtype.is_numeric():
        return _longest_number(values)
    if values.dtype == pl.Boolean:
        return len("false")
    if not isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum):
        return None
    sample = values.gather_every(len(values) // _SAMPLE or 1)
    if sample.n_unique() > _MOST_KINDS:
        return None
    kinds = values.unique().drop_nulls().cast(pl.String)
    if kinds.is_empty() or len(kinds) > _MOST_KINDS:
        return None
    longest = int(kinds.str.len_chars().to_numpy().max())
    return longest if longest <= _LONGEST_KIND else None


def _longest_number(values: pl.Series) -> int | None:
    """Return the characters of the longest number of a column; None if none is finite."""
    decimals = 3 if values.dtype.is_float() else 0
    numbers = values.cast(pl.Float64).drop_nulls()
    finite = numbers.filter(numbers.is_finite()).to_numpy()
    if not len(finite):
        return None
    return max(len(f"{end:,.{decimals}f}") for end in (finite.min(), finite.max()))


def distribution(column: pl.Series, order: Order) -> dict[str, Any]:
    """Return what a column's header shows, from one row in `step`.

    `distinct` and `top` are null if most values occur once.
    """
    step = -(-len(order) // _MOST_DESCRIBED) or 1
    if step == 1 and len(order) == len(column):
        values = column
    else:
        values = column[order[::step]]
    facts = {"rows": len(values), "step": step}
    if column.dtype.is_numeric():
        return facts | _number_facts(values)
    missing = values.null_count()
    if column.dtype.is_nested() or column.dtype == pl.Binary or missing == len(values):
        return {**facts, "missing": missing}
    return {**facts, "missing": missing, **_kind_facts(values.drop_nulls())}


def _number_facts(values: pl.Series) -> dict[str, Any]:
    """Return how many numbers are missing or not finite, and the distribution of the others."""
    numbers = values.cast(pl.Float64).to_numpy()
    finite = numbers[np.isfinite(numbers)]
    missing = len(values) - len(finite)
    if not len(finite):
        return {"missing": missing}
    return {
        "missing": missing,
        "counts": np.histogram(finite, equal_width_edges(finite, BINS))[0].tolist(),
        "min": float(finite.min()),
        "median": float(np.median(finite)),
        "max": float(finite.max()),
    }


def _kind_facts(values: pl.Series) -> dict[str, Any]:
    """Return the number of different values and the most frequent ones; null if most differ."""
    sample = values.gather_every(len(values) // _SAMPLE or 1)
    if len(sample) > 1 and sample.n_unique() > len(sample) / 2:
        return {"distinct": None, "top": None}
    counts = values.value_counts(sort=True, name="count")
    return {
        "distinct": len(counts),
        "top": [[cell(value), count] for value, count in counts.head(_TOP).rows()],
    }
