"""Virtual table of all segments: sorted and filtered in Python, sent a page of rows at a time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import polars as pl
import traitlets

from nbaudio.core.errors import InputError
from nbaudio.tables.dataframes import Frame, as_polars
from nbaudio.tables.schemas import hypothesis_names
from nbaudio.tables.stored_frame import StoredFrame
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.filters import SavedFilters, TableFrame, visible_columns
from nbaudio.ui.widgets.base_widget import BaseWidget, Handler, esm, handlers
from nbaudio.ui.widgets.segments import SegmentPlayback, Segments, load_segments
from nbaudio.ui.widgets.static_html import MOST_ROWS, Table, TranscriptRows
from nbaudio.ui.widgets.table_view import TableView, take_rows

# Those that matter most first: the last ones are left out where the table is narrow.
COLUMNS = ("segment_id", "text", "asr_text", "similarity", "duration_s", "speaker_id", "wer")
_ALWAYS = ("segment_id", "text")  # shown without any value, too
_TRANSCRIPT = ("segment_id", "text")  # columns of a frame of segments
_COLUMNS_OF_OTHER_FRAMES = 8  # shown at first of a frame that has none of `COLUMNS`


def has_values(frame: TableFrame, name: str) -> bool:
    """Return whether a column has a value that is not null.

    It reads no further than to the first such value.
    """
    if not isinstance(frame, StoredFrame):
        return bool(frame[name].count())
    return any(frame.part(groups, [name])[name].count() for groups in frame.parts)


def _player_mode(segments: Segments | None, *, has_player: bool) -> str:
    """Return what `js/segment_table.js` reads as the mode of the player.

    It is ``own`` (the table shows a player), ``linked`` (the selected row is for another widget) or
    ``missing`` (a table without a workspace has no audio).
    """
    if not has_player:
        return "linked"
    if segments is None:
        return "missing"
    return "own"


def hypothesis_column(frame: TableFrame) -> str | None:
    """Return the first column of hypotheses that has values, None without any."""
    columns = hypothesis_names(frame.columns).values()
    return next((name for name in columns if has_values(frame, name)), None)


def default_columns(columns: Sequence[str], frame: TableFrame) -> list[str]:
    """Return those of some columns in which a frame has values, and always its id and text.

    `asr_text` stands for the first hypothesis that has values, and `wer` for the error rates of all
    hypotheses.
    """
    further_wers = [f"wer_{name}" for name in hypothesis_names(frame.columns)]
    names: list[str] = []
    for name in columns:
        if name == "asr_text":
            if hypothesis := hypothesis_column(frame):
                names.append(hypothesis)
        elif name == "wer":
            names += [name, *further_wers]
        else:
            names.append(name)
    return [
        name
        for name in names
        if name in frame.columns and (name in _ALWAYS or has_values(frame, name))
    ]


class SegmentTable(BaseWidget):
    """All segments of a workspace, to sort, filter, select and play; ``?`` shows the keys."""

    _esm = esm(
        "core",
        "table_columns",
        "table",
        "table_filters",
        "diff",
        "player_drawing",
        "player",
        "segment_table",
    )
    height = traitlets.Int(340).tag(sync=True)
    current = traitlets.List([-1, 0]).tag(sync=True)
    """Number of the row under the cursor (-1 for none), and how often play was requested."""
    # Words that keys log, by the call `verdict`.
    _verdicts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _player = traitlets.Enum(("own", "linked", "missing"), "own").tag(sync=True)
    _static_rows = 25  # rows of the saved form

    def __init__(
        self,
        source: str | Path | Workspace | Segments | Frame,
        *,
        columns: Sequence[str] | None = None,
        where: str = "",
        find: str = "",
        sort: str = "",
        descending: bool = False,
        player: bool = True,
        reviewer: str = "me",
    ) -> None:
        """Load the segments.

        Args:
            source: a workspace, its loaded segments, a Parquet file, or any pandas or polars frame.
                Of a file, and of a workspace with more than a million segments, only the columns of
                a filter or an order are in memory; texts are ordered by their first 16 bytes, and
                functions such as ``avg(wer)`` take numbers only.
            columns: columns shown at first; others can be chosen.
            where: SQL condition over the columns, such as ``similarity < 0.5``.
            find: text that any column contains, whatever its case.
            sort: column to sort by.
            descending: greatest values first.
            player: play rows below the table; False leaves that to a widget that is linked to
                `current`.
            reviewer: name logged with bounds that are corrected in the player.

        Raises:
            InputError: there is no such column, or the condition is not valid.

        Examples:
            >>> frame = pl.DataFrame({"segment_id": ["a", "b"], "wer": [0.5, 0.1]})
            >>> table = SegmentTable(frame, sort="wer")
            >>> table.shown["segment_id"].to_list()
            ['b', 'a']
        """
        is_file = isinstance(source, str | Path) and Path(source).is_file()
        if isinstance(source, str | Path | Workspace) and not is_file:
            source = load_segments(source, stored=True)
        segments = source if isinstance(source, Segments) else None
        frame: TableFrame
        if segments:
            frame = segments.rows
        elif is_file:
            frame = StoredFrame(Path(str(source)))
        else:
            frame = as_polars(cast(Frame, source))
        is_default = columns is None
        if columns is None:
            columns = default_columns(COLUMNS, frame)
            columns = columns or frame.columns[:_COLUMNS_OF_OTHER_FRAMES]
        if not columns:
            raise InputError("columns: name at least one")
        self._rows = TableView(
            frame,
            columns,
            hypothesis=hypothesis_column(frame),
            where=where,
            find=find,
            sort=sort,
            descending=descending,
        )
        self._rows.layout["charts"] = True
        if is_default and "text" in columns:
            self._rows.fit_columns()
        saved = SavedFilters(
            None if segments is None else segments.workspace, lambda: self._rows.arrangement
        )
        filters = handlers(saved, "filters", "list", "save", "delete")
        playback: Mapping[str, Handler] = {}
        if player and segments is not None:
            playback = SegmentPlayback(segments, reviewer).calls
        super().__init__(
            {**filters, **self._rows.calls, **playback},
            _player=_player_mode(segments, has_player=player),
        )

    def narrow(self, where: str) -> None:
        """Show only rows that meet a further SQL condition, beside the one in the filter field.

        An empty condition shows all again. The browser is told to ask for the rows anew.

        Raises:
            InputError: the condition is not valid.

        Examples:
            >>> frame = pl.DataFrame({"segment_id": ["a", "b"], "wer": [0.5, 0.1]})
            >>> table = SegmentTable(frame, where="wer < 0.9")
            >>> table.narrow("segment_id = 'b'")
            >>> table.where
            "(wer < 0.9) AND (segment_id = 'b')"
        """
        with self._lock:
            self._rows.narrow(where)
        self.send({"arranged": self._rows.version})

    def replace(self, frame: TableFrame) -> None:
        """Replace the values of the rows by those of another frame with the same rows."""
        with self._lock:
            self._rows.frame = frame
            self.narrow(self._rows.narrowed)  # filters and sorts by the new values

    @property
    def where(self) -> str:
        """The whole SQL condition: the one in the filter field and that of `narrow`."""
        return self._rows.where

    @property
    def shown(self) -> pl.DataFrame:
        """The rows that pass the filter, as sorted; waits for an order that is not complete."""
        with self._lock:
            self._rows.proceed()
        return take_rows(self._rows.frame, self._rows.order, visible_columns(self._rows.frame))

    @property
    def selected(self) -> pl.DataFrame:
        """The marked rows, or the row under the cursor if none is marked."""
        return self._rows.selection.select(visible_columns(self._rows.frame))

    def static_html(self) -> str:
        """Return the first rows as a plain table."""
        frame = take_rows(
            self._rows.frame, self._rows.order[: self._static_rows], self._rows.columns
        )
        total = len(self._rows.order)
        if self._rows.layout["stacked"] and set(_TRANSCRIPT) <= set(frame.columns):
            hypothesis = self._rows.hypothesis
            return TranscriptRows(frame, hypothesis, self._static_rows, total)._repr_html_()
        return Table(frame, self._static_rows, total)._repr_html_()


def table(frame: Frame, *, limit: int = MOST_ROWS) -> Table | SegmentTable:
    """Show a pandas or polars frame.

    Numbers are on the right with few decimals, and nothing in a cell is taken for markup. In a long
    frame of segments, `segment_id` and `text` come first.

    Args:
        frame: the frame.
        limit: most rows of a plain table; a longer frame is a `SegmentTable`, of which a saved
            notebook has the first `limit` rows. With 0 there is only a plain table without rows.

    Examples:
        >>> "&lt;script&gt;" in table(pl.DataFrame({"text": ["<script>"]}))._repr_html_()
        True
        >>> "and 20 more rows" in table(pl.DataFrame({"n": range(70)}))._repr_html_()
        True
    """
    shown = as_polars(frame)
    if limit <= 0 or len(shown) <= limit:
        return Table(shown, limit)
    columns = shown.columns
    if set(_TRANSCRIPT) <= set(columns):
        columns = [*_TRANSCRIPT, *(name for name in columns if name not in _TRANSCRIPT)]
    widget = SegmentTable(shown, columns=columns, player=False)
    widget._static_rows = limit
    return widget
