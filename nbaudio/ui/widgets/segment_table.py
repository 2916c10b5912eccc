"""A table of all segments, however many: sorted and filtered in Python, a page of rows at a time sent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import traitlets

from nbaudio.core.errors import InputError
from nbaudio.core.frames import Frame, as_polars
from nbaudio.storage.workspace import Workspace
from nbaudio.ui.widgets.base import BaseWidget, Handler, esm
from nbaudio.ui.widgets.rows import INNER, Order, row_page, similar_values, sort_and_filter
from nbaudio.ui.widgets.segments import load_segments
from nbaudio.ui.widgets.tables import Table

COLUMNS = ("segment_id", "speaker_id", "duration_s", "similarity", "wer", "text", "asr_text")

_STATIC_ROWS = 25


class TableView:
    """A frame as it is looked at: its order, its columns, the cursor and the marks; what a table's front end asks for."""

    def __init__(self, frame: pl.DataFrame, columns: Sequence[str], **order: Any) -> None:
        """Arrange the rows a first time; see `sort_and_filter` for `order`."""
        self.frame = frame
        self.columns = list(columns)
        self.cursor = 0
        self.marked: set[int] = set()
        self.asked = {"where": "", "find": "", "sort": "", "descending": False, **order}
        self.version = 0
        self.order: Order = sort_and_filter(frame, **self.asked)
        row_page(frame, self.order, 0, 1, self.columns)

    @property
    def calls(self) -> dict[str, Handler]:
        """What the front end may ask for."""
        return {
            "table.open": self.open,
            "table.arrange": self.arrange,
            "table.rows": self.rows,
            "table.columns": self.choose,
            "table.cursor": self.move,
            "table.mark": self.mark,
        }

    def open(self) -> dict[str, Any]:
        """Everything a front end needs to begin with."""
        names = [name for name in self.frame.columns if name not in INNER]
        columns = [{"name": name, "kind": _kind(self.frame.schema[name])} for name in names]
        return {"columns": columns, "shown": self.columns, "order": self.asked, "cursor": self.cursor, **self._size()}

    def _size(self) -> dict[str, Any]:
        note = "" if len(self.order) else similar_values(self.frame, self.asked["where"])
        return {"total": len(self.order), "all": len(self.frame), "version": self.version, **({"note": note} if note else {})}

    def arrange(self, *, where: str, find: str, sort: str, descending: bool) -> dict[str, Any]:
        """Filter and sort anew."""
        asked = {"where": where, "find": find, "sort": sort, "descending": descending}
        self.order = sort_and_filter(self.frame, where=where, find=find, sort=sort, descending=descending)
        self.asked, self.cursor, self.version = asked, 0, self.version + 1
        return self._size()

    def rows(self, *, first: int, last: int, columns: list[str]) -> dict[str, Any]:
        """A page of rows."""
        found = row_page(self.frame, self.order, first, last, columns)
        return {"rows": [{"number": row[0], "marked": row[0] in self.marked, "cells": row[1:]} for row in found]}

    def choose(self, *, columns: list[str]) -> None:
        """Show other columns."""
        self.columns = columns

    def move(self, *, position: int, version: int) -> None:
        """Note where the cursor is."""
        if version == self.version and 0 <= position < len(self.order):
            self.cursor = position

    def mark(self, *, first: int, last: int, on: bool, version: int) -> None:
        """Mark rows, or take their marks away."""
        if version == self.version:
            numbers = self.order[max(0, first) : max(0, last)].tolist()
            (self.marked.update if on else self.marked.difference_update)(numbers)

    @property
    def selection(self) -> pl.DataFrame:
        """The marked rows in their order on the screen; the row under the cursor where none is marked."""
        if self.marked:
            chosen = [number for number in self.order.tolist() if number in self.marked]
        else:
            chosen = self.order[self.cursor : self.cursor + 1].tolist()
        return self.frame[chosen]


def _kind(dtype: pl.DataType) -> str:
    return "float" if dtype.is_float() else "integer" if dtype.is_integer() else "text"


class SegmentTable(BaseWidget):
    """All segments of a workspace, to sort, to filter and to choose from.

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
            columns: which are shown at first; others can be chosen.
            where: an SQL condition over the columns, such as ``similarity < 0.5``.
            find: text that any column holds.
            sort: the column to sort by.
            descending: the greatest first.

        Raises:
            InputError: there is no such column, or the condition is not understood.

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
        """The rows that pass the filter, as they are sorted, without what only players need."""
        return self._rows.frame[self._rows.order].drop(*INNER, strict=False)

    @property
    def selected(self) -> pl.DataFrame:
        """The marked rows, or the one under the cursor where none is marked."""
        return self._rows.selection.drop(*INNER, strict=False)

    def static_html(self) -> str:
        """The first rows as a plain table."""
        frame = self._rows.frame[self._rows.order[:_STATIC_ROWS]].select(self._rows.columns)
        return Table(frame, _STATIC_ROWS, len(self._rows.order))._repr_html_()
