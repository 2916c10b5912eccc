"""Explorer of a workspace.

It has histograms, scatter, table and player in one, with actions on the marked rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ipywidgets
import numpy as np
import polars as pl
import traitlets

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.times import utc_now
from nbaudio.review.corrections import uncorrected
from nbaudio.review.review_export import export
from nbaudio.review.state import (
    VERDICTS,
    Verdict,
    append_note,
    append_verdicts,
    content_hashes,
    notes,
    read_verdict,
    verdicts,
)
from nbaudio.tables.conditions import condition_columns
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.filters import TableFrame
from nbaudio.ui.widgets.base_widget import VIEW, BaseWidget, Handler, SavedHtml, esm
from nbaudio.ui.widgets.histograms import Histograms, Scatter
from nbaudio.ui.widgets.players import Player
from nbaudio.ui.widgets.review_panel import PANEL
from nbaudio.ui.widgets.segment_table import (
    COLUMNS,
    SegmentTable,
    default_columns,
    has_values,
)
from nbaudio.ui.widgets.segments import Segments, load_segments
from nbaudio.ui.widgets.table_view import take_rows

_SIGNALS = ("risk", "snr_db", "clipped_share", "cut_start", "cut_end")
HISTOGRAMS = (
    "duration_s",
    "similarity",
    "wer",
    *_SIGNALS,
    "speaker_id",
    "recording_id",
    "split",
    "reason",
    "verdict",
)
# The rows that an action applies to.
MARKED = "marked"
SHOWN = "shown"
MOST_VERDICTS = 100  # that one call logs without `confirm`
_ADDED = ("verdict", "note")


class ActionBar(BaseWidget):
    """Actions on rows; `counts` are how many rows are marked and shown."""

    _esm = esm("core", "explorer_actions")
    counts = traitlets.List(traitlets.Int(), [0, 0]).tag(sync=True)

    def __init__(
        self, words: Sequence[str], most_verdicts: int, actions: Mapping[str, Handler]
    ) -> None:
        opened: dict[str, Any] = {"words": list(words), "most_verdicts": most_verdicts}
        calls = {f"actions.{name}": action for name, action in actions.items()}
        super().__init__({"actions.open": lambda: opened, **calls})


class Explorer(SavedHtml, ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Segments of a workspace.

    Histograms and a scatter filter a table, its rows play, and actions apply to the marked rows.

    All filters have to hold. The last verdict and the last note on each segment are columns.
    """

    def __init__(
        self,
        workspace: str | Path | Workspace,
        *,
        columns: Sequence[str] | None = None,
        histograms: Sequence[str] | None = None,
        where: str | None = None,
        sort: str = "",
        descending: bool = False,
        reviewer: str = "me",
    ) -> None:
        """Load the segments, once for all parts; more than a million stay in their file.

        Args:
            workspace: the workspace or its folder.
            columns: columns of the table at first; others can be chosen.
            histograms: columns with a histogram at first; others can be chosen.
            where: SQL condition over the columns, such as ``similarity < 0.5``.
            sort: column to sort by.
            descending: greatest values first.
            reviewer: name logged with verdicts, notes and corrected bounds.

        Raises:
            InputError: there is no such workspace or column, the condition is not valid, or the
                reviewer has no name.

        Examples:
            >>> import tempfile
            >>> workspace = Workspace.create(tempfile.mkdtemp())
            >>> recordings = pl.DataFrame({"recording_id": ["r"]})
            >>> segments = pl.DataFrame(
            ...     {"segment_id": ["a", "b"], "recording_id": "r", "wer": [0.5, 0.1]}
            ... )
            >>> workspace.save(recordings=recordings, segments=segments)
            >>> Explorer(workspace, where="wer < 0.3").shown["segment_id"].to_list()
            ['b']
        """
        if not reviewer.strip():
            raise InputError("reviewer: a name is needed, under which verdicts are stored")
        self._reviewer = reviewer.strip()
        self._segments = load_segments(workspace, stored=True)
        segments = self._with_log()
        frame = segments.rows
        self._defaults = default_columns(COLUMNS, frame)
        shown_columns = self._default_columns(frame) if columns is None else columns
        self._table = SegmentTable(
            segments,
            columns=shown_columns,
            player=False,
            where=where or "",
            sort=sort,
            descending=descending,
        )
        self._rows = self._table._rows
        self._rows.layout["charts"] = False  # the histograms show more
        if columns is None:
            self._rows.fit_columns()
        self._player = Player(self._segments, reviewer=self._reviewer)
        measured = self._segments.workspace.measured_columns
        names = _default_histograms(frame, measured) if histograms is None else histograms
        self._histograms = Histograms(frame, names, lambda: self._rows.order, self._narrow)
        self._scatter = Scatter(frame, lambda: self._rows.order, self._narrow, self._show)
        calls: dict[str, Handler] = {
            "verdict": self.verdict,
            "note": self.note,
            "review": self._export,
            "rule": self.rule,
        }
        self._actions = ActionBar(list(VERDICTS), MOST_VERDICTS, calls)
        self._connect_parts()
        self._refresh()
        super().__init__([self._parts_side_by_side()])
        self.add_class(VIEW)

    def _connect_parts(self) -> None:
        """Let keys in table and player judge rows, and keep all parts on the same rows."""
        self._player._calls["player.turn"] = self._turn
        for part in (self._table, self._player):
            part._verdicts = list(VERDICTS)
            part._calls["verdict"] = self._judge
        current = [self._rows.current, 0]
        self._table.current = current
        self._player.current = current
        self._rows.changed = self._refresh
        self._link = ipywidgets.jslink((self._table, "current"), (self._player, "current"))

    def _parts_side_by_side(self) -> ipywidgets.HBox:
        """Return the histograms beside the other parts; below each other where it is narrow."""
        side = ipywidgets.VBox(
            [self._histograms], layout={"flex": "1 1 236px", "min_width": "0", "max_width": "100%"}
        )
        main = [self._table, self._actions, self._player, self._scatter]
        middle = ipywidgets.VBox(
            main, layout={"flex": "12 1 440px", "min_width": "0", "max_width": "100%"}
        )
        return ipywidgets.HBox(
            [side, middle], layout={"flex_flow": "row wrap", "align_items": "flex-start"}
        )

    @property
    def shown(self) -> pl.DataFrame:
        """The rows that pass all filters, in the order of the table."""
        return self._table.shown

    @property
    def selected(self) -> pl.DataFrame:
        """The marked rows, or the row under the cursor if none is marked."""
        return self._table.selected

    @property
    def where(self) -> str:
        """The SQL condition in force: typed, brushed and picked."""
        return self._table.where

    @property
    def notes(self) -> pl.DataFrame:
        """The last note on each segment: `segment_id`, `note`, `reviewer`, `time`."""
        return notes(self._segments.workspace)

    def rule(self) -> str:
        """Return the SQL condition in force, to use as a rule.

        Raises:
            InputError: there is none, or it uses verdicts, notes or the search for a text, which
                only the explorer has.
        """
        condition = self.where
        if not condition:
            raise InputError(
                "no filter is set: brush a histogram, pick values, or type a condition"
            )
        columns = condition_columns(condition)
        if own_columns := [name for name in _ADDED if name in columns]:
            raise InputError(
                f"a rule cannot use {own_columns[0]}, which is no column of the segments table: "
                "clear that filter"
            )
        if self._rows.arrangement["find"]:
            raise InputError(
                "a rule cannot hold the search for a text: clear it, "
                "or type a condition such as text like '%word%'"
            )
        return condition

    def verdict(
        self, word: str, comment: str = "", *, rows: str = MARKED, confirm: bool = False
    ) -> int:
        """Log a verdict on each of some segments.

        They count as those of the review panel do, never as a random sample.

        Args:
            word: a key of `nbaudio.review.VERDICTS`, or several faults such as ``cut off, noise``.
            comment: a remark, logged with each.
            rows: ``marked`` (the row under the cursor if none is marked) or ``shown``, all that
                pass the filters.
            confirm: allow more than 100 verdicts.

        Returns:
            How many verdicts were logged.

        Raises:
            InputError: the word is unknown, there are no rows, or too many of them.
        """
        words = read_verdict(word, list(VERDICTS))
        if words is None:
            raise InputError(f"verdict {word!r} is unknown; known are {', '.join(VERDICTS)}")
        chosen = self._chosen(rows)
        if len(chosen) > MOST_VERDICTS and not confirm:
            raise InputError(
                f"{len(chosen):,} verdicts at once: more than {MOST_VERDICTS} need confirm=True"
            )
        return self._log(chosen, words, comment)

    def _judge(self, *, number: int, word: str) -> str:
        """Log a verdict on the row with a number; return it in words."""
        if not 0 <= number < len(self._rows.frame):
            raise InputError("there is no row to judge: clear a filter")
        chosen = take_rows(self._rows.frame, np.array([number]), self._rows.frame.columns)
        self._log(chosen, word)
        return f"{chosen['segment_id'].item()}: {word}"

    def _log(self, chosen: pl.DataFrame, word: str, comment: str = "") -> int:
        """Log a verdict on each of some rows; return how many."""
        keys = zip(chosen["segment_id"], content_hashes(chosen), strict=True)
        time = utc_now()
        entries = [
            Verdict(key, content, word, comment, None, self._reviewer, time, PANEL, blind=False)
            for key, content in keys
        ]
        append_verdicts(self._segments.workspace, entries)
        self._reload_log()
        return len(entries)

    def note(self, text: str, *, rows: str = MARKED) -> int:
        """Log a note on segments; an empty text removes their notes.

        Args:
            text: the note.
            rows: ``marked`` (the row under the cursor if none is marked) or ``shown``, all that
                pass the filters.

        Returns:
            How many notes were logged.

        Raises:
            InputError: there are no rows.
        """
        keys = self._chosen(rows)["segment_id"]
        time = utc_now()
        append_note(self._segments.workspace, keys, text.strip(), self._reviewer, time)
        self._reload_log()
        return len(keys)

    def review(self, *, out: str | Path, rows: str = MARKED, **options: Any) -> Report:
        """Write a review sheet of segments.

        They are picked, hence they are no evidence (see `nbaudio.review.export`).

        Args:
            out: the .xlsx file to write.
            rows: ``marked`` (the row under the cursor if none is marked) or ``shown``, all that
                pass the filters.
            **options: further options of `nbaudio.review.export`.

        Returns:
            The report of `nbaudio.review.export`.

        Raises:
            InputError: there are no rows, or none of them can be reviewed.
            ExistsError: the review's name exists with other segments.
        """
        return export(
            self._segments.workspace,
            out=out,
            segment_ids=self._chosen(rows)["segment_id"].to_list(),
            **options,
        )

    def _export(self, *, out: str, rows: str) -> str:
        report = self.review(out=out, rows=rows)
        return "; ".join(
            [f"{report.facts['drawn']:,} segments in {out}", *report.warnings, *report.problems]
        )

    def _chosen(self, rows: str) -> pl.DataFrame:
        """Return the rows that an action applies to; raise InputError if there are none."""
        if rows not in (MARKED, SHOWN):
            raise InputError(f"rows: must be {MARKED} or {SHOWN}, not {rows!r}")
        chosen = self._rows.selection if rows == MARKED else self._table.shown
        if chosen.is_empty():
            raise InputError("there are no rows: clear a filter")
        return chosen

    def _with_log(self) -> Segments:
        """Return the segments with the last verdict and the last note on each as columns."""
        workspace = self._segments.workspace
        rows = self._segments.rows
        log = verdicts(workspace).select("segment_id", "content", "verdict")
        last_notes = notes(workspace).select("segment_id", "note")
        logged_ids = pl.concat([log["segment_id"], last_notes["segment_id"]]).unique()
        is_logged = rows.select(pl.col("segment_id").is_in(logged_ids.implode())).to_series()
        numbers = is_logged.arg_true().to_numpy().astype(np.uint32)
        logged = take_rows(rows, numbers, rows.columns)
        # Verdicts on the text as it is, or as it was before a correction.
        versions = [_contents(logged), _contents(uncorrected(workspace, logged))]
        log = log.join(
            pl.concat(versions).unique(),
            on=["segment_id", "content"],
            how="semi",
            maintain_order="left",
        )
        last_verdicts = log.unique("segment_id", keep="last").select("segment_id", "verdict")
        added = (
            logged.select("place", "segment_id")
            .join(last_verdicts, on="segment_id", how="left")
            .join(last_notes, on="segment_id", how="left")
            .drop("segment_id")
        )
        if self._segments.stored:
            return replace(self._segments, stored=self._segments.stored.with_further(added))
        frame = self._segments.frame.drop(*_ADDED, strict=False)
        return replace(
            self._segments, frame=frame.join(added, on="place", how="left", maintain_order="left")
        )

    def _default_columns(self, frame: TableFrame) -> list[str]:
        """Return the default columns, with those of verdicts and notes once there are any."""
        logged = [name for name in _ADDED if has_values(frame, name)]
        transcript = 2 + any(name.startswith("asr_text") for name in self._defaults)
        return [*self._defaults[:transcript], *logged, *self._defaults[transcript:]]

    def _reload_log(self) -> None:
        """Show the verdicts of the log in histograms and table."""
        frame = self._with_log().rows
        self._histograms.refresh(frame, _ADDED)
        self._rows.replace_defaults(self._default_columns(frame))
        self._table.replace(frame)

    def _narrow(self) -> None:
        """Show only rows that meet the conditions of histograms and scatter."""
        self._table.narrow(" and ".join([*self._histograms.conditions, *self._scatter.conditions]))

    def _show(self, number: int) -> None:
        self._rows.go_to(number)
        self._table.current = [number, self._table.current[1]]

    def _turn(self, *, number: int, by: int) -> int:
        """Move the cursor of the table by some rows from the row with a number.

        Return the number of the row there. If the table does not show that row, move from where the
        cursor is.
        """
        self._rows.go_to(number)
        return self._rows.move_by(by)

    def _refresh(self) -> None:
        """Show in all parts which rows the table shows and marks."""
        self._actions.counts = [len(self._rows.marked_order), len(self._rows.order)]
        if self._rows.current != self._table.current[0]:
            self._show(self._rows.current)
        self._histograms.refresh()
        self._scatter.refresh()

    def static_html(self) -> str:
        """Return the histograms and the first rows, without scripts."""
        return f"<div>{self._histograms.static_html()}{self._table.static_html()}</div>"


def _default_histograms(frame: TableFrame, measured: Iterable[str]) -> list[str]:
    """Return the columns of `HISTOGRAMS` and of models that have values, and the verdicts."""
    place = HISTOGRAMS.index("speaker_id")
    return [
        name
        for name in (*HISTOGRAMS[:place], *measured, *HISTOGRAMS[place:])
        if name in frame.columns and (name == "verdict" or has_values(frame, name))
    ]


def _contents(segments: pl.DataFrame) -> pl.DataFrame:
    """Return id and content hash of segments."""
    hashes = pl.Series(content_hashes(segments), dtype=pl.String)
    return segments.select("segment_id", content=hashes)
