"""Virtual table of all segments: sorted and filtered in Python, sent a page of rows at a time."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import traitlets

from nbaudio.core.dataframes import Frame, as_polars
from nbaudio.core.errors import InputError
from nbaudio.core.report import show
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.filters import INTERNAL_COLUMNS, Order, similar_values, sort_and_filter
from nbaudio.ui.widgets.base import BaseWidget, Handler, esm
from nbaudio.ui.widgets.segments import load_segments
from nbaudio.ui.widgets.static_html import Table

COLUMNS = ("segment_id", "speaker_id", "duration_s", "similarity", "wer", "text", "asr_text")

# Rows of a page, and characters of a cell: more is never seen at once.
MOST_ROWS = 500
MOST_CHARACTERS = 400

_STATIC_ROWS = 25


def row_page(frame: pl.DataFrame, order: Order, first: int, last: int, columns: Sequence[str]) -> list[list[Any]]:
    """Return rows `first` to `last` of an order, at most `MOST_ROWS`: the number in the frame, then its cells as JSON values."""
    unknown = [name for name in columns if name not in frame.columns]
    if unknown:
        raise InputError(f"columns: there is no {unknown[0]!r}; there are {', '.join(frame.columns)}")
    numbers = order[max(0, first) : max(0, min(last, first + MOST_ROWS))]
    rows = frame.select(columns)[numbers].iter_rows()
    return [[int(number), *map(cell, row)] for number, row in zip(numbers, rows, strict=True)]


def cell(value: Any) -> str | int | float | bool | None:
    """Convert a value for JSON: texts are cut, NaN and infinities are null, all else is shown as text."""
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


class TableView:
    """State of a table: order, columns, cursor and marks of a frame, with the handlers of its front end."""

    def __init__(self, frame: pl.DataFrame, columns: Sequence[str], **order: Any) -> None:
        self.frame = frame
        self.columns = list(columns)
        self.cursor = 0
        self.marked: set[int] = set()
        self.arrangement = {"where": "", "find": "", "sort": "", "descending": False, **order}
        self.version = 0
        self.order: Order = sort_and_filter(frame, **self.arrangement)
        row_page(frame, self.order, 0, 1, self.columns)  # checks the columns
        self.calls: dict[str, Handler] = {
            "table.open": self._open,
            "table.arrange": self._arrange,
            "table.rows": self._page,
            "table.columns": self._show_columns,
            "table.cursor": self._move_cursor,
            "table.mark": self._mark,
        }

    def _open(self) -> dict[str, Any]:
        names = [name for name in self.frame.columns if name not in INTERNAL_COLUMNS]
        columns = [{"name": name, "kind": _kind(self.frame.schema[name])} for name in names]
        return {"columns": columns, "shown": self.columns, "order": self.arrangement, "cursor": self.cursor, **self._size()}

    def _size(self) -> dict[str, Any]:
        note = "" if len(self.order) else similar_values(self.frame, self.arrangement["where"])
        return {"total": len(self.order), "all": len(self.frame), "version": self.version, **({"note": note} if note else {})}

    def _arrange(self, *, where: str, find: str, sort: str, descending: bool) -> dict[str, Any]:
        arrangement: dict[str, Any] = {"where": where, "find": find, "sort": sort, "descending": descending}
        self.order = sort_and_filter(self.frame, **arrangement)
        self.arrangement, self.cursor, self.version = arrangement, 0, self.version + 1
        return self._size()

    def _page(self, *, first: int, last: int, columns: list[str]) -> dict[str, Any]:
        found = row_page(self.frame, self.order, first, last, columns)
        return {"rows": [{"number": row[0], "marked": row[0] in self.marked, "cells": row[1:]} for row in found]}

    def _show_columns(self, *, columns: list[str]) -> None:
        self.columns = columns

    def _move_cursor(self, *, position: int, version: int) -> None:
        if version == self.version and 0 <= position < len(self.order):
            self.cursor = position

    def _mark(self, *, first: int, last: int, on: bool, version: int) -> None:
        if version == self.version:
            numbers = self.order[max(0, first) : max(0, last)].tolist()
            (self.marked.update if on else self.marked.difference_update)(numbers)

    @property
    def selection(self) -> pl.DataFrame:
        """The marked rows in the order shown, or the row under the cursor if none is marked."""
        if self.marked:
            chosen = [number for number in self.order.tolist() if number in self.marked]
        else:
            chosen = self.order[self.cursor : self.cursor + 1].tolist()
        return self.frame[chosen]


def _kind(dtype: pl.DataType) -> str:
    return "float" if dtype.is_float() else "integer" if dtype.is_integer() else "text"


class SegmentTable(BaseWidget):
    """All segments of a workspace, to sort, filter and select.

    Keys: arrows, Page Up and Down, Home, End; Space marks, with Shift the arrows do; ``/`` goes to the search field.
    """

    _esm = esm("core", "table", "segment_table")
    height = traitlets.Int(340).tag(sync=True)

    def __init__(
        self,
        source: str | Path | Workspace | Frame,
        *,
        columns: Sequence[str] | None = None,
        where: str = "",
        find: str = "",
        sort: str = "",
        descending: bool = False,
    ) -> None:
        """Load the segments.

        Args:
            source: a workspace, or any pandas or polars frame.
            columns: columns shown at first; others can be chosen.
            where: SQL condition over the columns, such as ``similarity < 0.5``.
            find: text that any column contains, whatever its case.
            sort: column to sort by.
            descending: greatest values first.

        Raises:
            InputError: there is no such column, or the condition is not valid.

        Examples:
            >>> table = SegmentTable(pl.DataFrame({"segment_id": ["a", "b"], "wer": [0.5, 0.1]}), sort="wer")
            >>> table.shown["segment_id"].to_list()
            ['b', 'a']
        """
        frame = load_segments(source).frame if isinstance(source, str | Path | Workspace) else as_polars(source)
        if columns is None:
            columns = [name for name in COLUMNS if name in frame.columns] or frame.columns[:8]
        if not columns:
            raise InputError("columns: name at least one")
        self._rows = TableView(frame, columns, where=where, find=find, sort=sort, descending=descending)
        super().__init__(self._rows.calls)

    @property
    def shown(self) -> pl.DataFrame:
        """The rows that pass the filter, as sorted."""
        return self._rows.frame[self._rows.order].drop(*INTERNAL_COLUMNS, strict=False)

    @property
    def selected(self) -> pl.DataFrame:
        """The marked rows, or the row under the cursor if none is marked."""
        return self._rows.selection.drop(*INTERNAL_COLUMNS, strict=False)

    def static_html(self) -> str:
        """Return the first rows as a plain table."""
        frame = self._rows.frame[self._rows.order[:_STATIC_ROWS]].select(self._rows.columns)
        return Table(frame, _STATIC_ROWS, len(self._rows.order))._repr_html_()
