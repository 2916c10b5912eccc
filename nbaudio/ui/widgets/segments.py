"""Segments of a widget, by their row in its frame, which never changes.

Word times, which are most of the table, are read on demand.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.times import rescale, utc_now
from nbaudio.review.review_page import segment_facts
from nbaudio.review.state import Correction, ReviewState, append_corrections, corrections
from nbaudio.sources.audio_folder import missing_folder
from nbaudio.storage.location import Location
from nbaudio.tables import workspace_tables
from nbaudio.tables.amounts import with_durations
from nbaudio.tables.dataframes import Ids, as_ids
from nbaudio.tables.schemas import NORMALIZED, SEGMENTS, hypothesis_names
from nbaudio.tables.stored_frame import StoredFrame
from nbaudio.tables.workspace import Workspace
from nbaudio.text.aligned_words import MOST_CHARACTERS, WordPair, align_words
from nbaudio.text.score import compared
from nbaudio.ui.filters import INTERNAL_COLUMNS, TableFrame
from nbaudio.ui.widgets.clip_audio import RATE, Playback, Sound, read_sound

_HEAVY = ("word_times", "text_raw", *NORMALIZED)
_MS = 1000
_MOST_IN_MEMORY = 1_000_000  # segments


@dataclass(frozen=True)
class Segments:
    """Segments of a workspace: all columns but the heaviest, `duration_s` and `INTERNAL_COLUMNS`.

    The column `place` is the row in the table.
    """

    workspace: Workspace
    audio_root: Location | None
    frame: pl.DataFrame
    stored: StoredFrame | None = None  # the file of a large table, whose frame is empty

    @property
    def rows(self) -> TableFrame:
        """The segments: in memory, or, where there are many, in their file."""
        return self.frame if self.stored is None else self.stored

    def row(self, number: int) -> dict[str, Any]:
        """Return the facts of a segment."""
        return self.rows.row(number, named=True)

    def lines(self, number: int) -> dict[str, list[WordPair]]:
        """Return `align_lines` of a segment, with times where they are known."""
        row = self.row(number)
        at_place = workspace_tables.scan(self.workspace, ["segment_id", "word_times"]).slice(
            row["place"], 1
        )
        # The table may have been rewritten since it was opened.
        segment = at_place.filter(pl.col("segment_id") == row["segment_id"]).collect()
        times_of_words = [
            [(time["start"], time["end"]) for time in times]
            for times in segment["word_times"].drop_nulls()
        ]
        times = times_of_words[0] if times_of_words else None
        return align_lines(row, times, **compared(self.workspace))


def load_segments(
    workspace: str | Path | Workspace, segment_ids: Ids | None = None, *, stored: bool = False
) -> Segments:
    """Load all segments of a workspace, or those of `segment_ids` in that order.

    If `stored` is set, a large table is left in its file.
    """
    workspace = Workspace.open(workspace)
    hidden = (*_HEAVY, *INTERNAL_COLUMNS, "duration_s")
    columns = [
        name
        for name in dict.fromkeys((*SEGMENTS, *workspace_tables.table_schema(workspace)))
        if name not in hidden
    ]
    recordings = workspace.recordings.unique("recording_id", keep="first")
    facts = recordings.select(
        "recording_id", "num_samples", recording_path="path", recording_channels="num_channels"
    )
    if stored and _num_segments(workspace) > _MOST_IN_MEMORY:
        rows = _stored_rows(
            workspace, columns, recordings.select("recording_id", "sampling_rate"), facts
        )
        return Segments(workspace, workspace.audio, pl.DataFrame(schema=rows.schema), rows)
    if segment_ids is None:
        frame = workspace_tables.read(workspace, columns, row="place")
    else:
        frame = _read_in_order(workspace, columns, segment_ids)
    frame = with_durations(frame, recordings).join(
        facts, on="recording_id", how="left", maintain_order="left"
    )
    return Segments(workspace, workspace.audio, frame)


def _num_segments(workspace: Workspace) -> int:
    """Return the number of segments of a workspace."""
    counted = workspace_tables.scan(workspace, ["segment_id"]).select(pl.len()).collect()
    return int(counted.item())


def _stored_rows(
    workspace: Workspace, columns: list[str], rates: pl.DataFrame, facts: pl.DataFrame
) -> StoredFrame:
    """Return all segments, left in their file, with facts of their recordings."""
    return StoredFrame(
        workspace_tables.table_path(workspace),
        columns,
        schema=pl.Schema({name: SEGMENTS[name] for name in columns if name in SEGMENTS}),
        recordings=rates.join(facts, on="recording_id"),
    )


def _read_in_order(workspace: Workspace, columns: list[str], segment_ids: Ids) -> pl.DataFrame:
    """Read segments in the order of their ids, each once.

    Raise InputError if one of them is missing.
    """
    ids = pl.Series("segment_id", as_ids(segment_ids), pl.String).unique(maintain_order=True)
    frame = workspace_tables.read(
        workspace, columns, where=workspace_tables.has_id(ids), row="place"
    )
    ordered = ids.to_frame().join(
        frame.unique("segment_id", keep="first"),
        on="segment_id",
        how="left",
        maintain_order="left",
    )
    missing = ordered.filter(pl.col("place").is_null())["segment_id"]
    if len(missing):
        raise InputError(f"{workspace.path}: no segment {missing[0]!r}")
    return ordered.select(frame.columns)


def further_hypotheses(row: dict[str, Any]) -> dict[str, str]:
    """Return the hypotheses of a segment by name, but for the source's own."""
    return {
        name: row[column]
        for name, column in hypothesis_names(row).items()
        if name != "asr" and isinstance(row[column], str)
    }


def align_lines(
    row: dict[str, Any], times: list[tuple[float, float]] | None = None, **compared: Any
) -> dict[str, list[WordPair]]:
    """Return the words of a segment aligned with each hypothesis, by name.

    The name "" is the source's own hypothesis, or the text alone.
    """
    lines = {"": row["asr_text"], **further_hypotheses(row)}
    return {
        name: align_words(row["text"] or "", heard, times, **compared)
        for name, heard in lines.items()
    }


class ClipPlayback(Playback):
    """Handler of a player's requests for the clips of segments alone.

    There is no context, no other channel, no time of a word, and no correction of bounds.
    """

    def __init__(self, segments: Segments) -> None:
        super().__init__()
        self.segments = segments

    def segment(self, *, number: int) -> dict[str, Any]:
        """Return id, facts and words of a segment, with the number of characters that are cut."""
        row = self.segments.row(number)
        lines = align_lines(row, **compared(self.segments.workspace))
        return described(row, lines, correction=None, rate=RATE, channels=1)

    def read(self, number: int, *, even: bool = True, **_options: Any) -> Sound:
        """Read the audio of a segment, see `read_sound`."""
        return _read_segment(self.segments, number, even=even)


class SegmentPlayback(Playback):
    """Handler of a player's requests.

    It has facts and words of a segment, its audio, and corrections of its bounds by `reviewer`.
    """

    def __init__(self, segments: Segments, reviewer: str) -> None:
        super().__init__()
        self.segments = segments
        self.reviewer = reviewer
        self.calls |= {"correct": self.correct, "undo_correction": self.undo_correction}
        self._corrected = {
            row["segment_id"]: row for row in corrections(segments.workspace).iter_rows(named=True)
        }

    def segment(self, *, number: int) -> dict[str, Any]:
        """Return id, facts, words and correction of a segment.

        With the words comes the number of characters that are cut.
        """
        row = self.segments.row(number)
        lines = self.segments.lines(number)
        return described(
            row,
            lines,
            correction=self._correction(row),
            rate=RATE,
            channels=row["recording_channels"],
        )

    def read(self, number: int, **options: Any) -> Sound:
        """Read the audio of a segment, see `read_sound`."""
        return _read_segment(self.segments, number, **options)

    def correct(self, *, number: int, start_ms: int, end_ms: int) -> dict[str, Any] | None:
        """Log bounds moved by milliseconds from those of the table; zeros withdraw a correction."""
        row = self.segments.row(number)
        was_start = row["start_sample"]
        was_end = row["end_sample"]
        rate = row["sampling_rate"]
        start = was_start + rescale(start_ms, _MS, rate)
        end = was_end + rescale(end_ms, _MS, rate)
        if not 0 <= start < end <= row["num_samples"]:
            raise InputError(
                f"{row['segment_id']}: samples {start} to {end} are not inside the "
                f"recording of {row['num_samples']}"
            )
        return self._correct(row, (start, end) if start_ms or end_ms else (None, None))

    def undo_correction(self, *, number: int) -> dict[str, Any] | None:
        """Undo the last correction: log the one before again, or a withdrawal without one."""
        row = self.segments.row(number)
        log = ReviewState.load(self.segments.workspace).correction_log.filter(
            segment_id=row["segment_id"],
            was_start=row["start_sample"],
            was_end=row["end_sample"],
        )
        in_force: list[tuple[int | None, int | None]] = []
        for bounds in log.select("start_sample", "end_sample").iter_rows():
            if bounds[0] is None:
                in_force.clear()
            elif bounds in in_force[-2:-1]:
                in_force.pop()  # this was an undo
            else:
                in_force.append(bounds)
        if not in_force:
            return None
        return self._correct(row, in_force[-2] if len(in_force) > 1 else (None, None))

    def _correct(
        self, row: dict[str, Any], bounds: tuple[int | None, int | None]
    ) -> dict[str, Any] | None:
        """Log corrected bounds, in samples, or their withdrawal; return what `_correction` does."""
        table_bounds = (row["start_sample"], row["end_sample"])
        correction = Correction(row["segment_id"], *bounds, *table_bounds, self.reviewer, utc_now())
        append_corrections(self.segments.workspace, [correction])
        self._corrected[row["segment_id"]] = asdict(correction)
        return self._correction(row)

    def _correction(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Return by how much the bounds are corrected.

        It is None if the table has other bounds by now.
        """
        last = self._corrected.get(row["segment_id"])
        rate = row["sampling_rate"]
        if last is None or last["start_sample"] is None or not rate:
            return None
        if (last["was_start"], last["was_end"]) != (row["start_sample"], row["end_sample"]):
            return None
        return {
            "reviewer": last["reviewer"],
            "start_ms": rescale(last["start_sample"] - last["was_start"], rate, _MS),
            "end_ms": rescale(last["end_sample"] - last["was_end"], rate, _MS),
        }


def _read_segment(segments: Segments, number: int, **options: Any) -> Sound:
    """Read the audio of a segment, see `read_sound`; raise AudioError if its folder is missing."""
    row = segments.row(number)
    if line := missing_folder(segments.workspace, [row["recording_id"]]):
        raise AudioError(line)
    return read_sound(segments.audio_root, row, **options)


def described(
    row: dict[str, Any], lines: dict[str, list[WordPair]], *further: str, **facts: Any
) -> dict[str, Any]:
    """Return what a player shows.

    It is id, facts and `further` ones, words, those of further hypotheses, and the number of cut
    characters.
    """
    unshown = max(0, len(row["text"] or "") - MOST_CHARACTERS)
    shown = {
        "segment_id": row["segment_id"],
        "facts": [*segment_facts(row), *further],
        "unshown": unshown,
    }
    named = {name: [pair._asdict() for pair in pairs] for name, pairs in lines.items()}
    return {**shown, "words": named.pop(""), "lines": list(named.items()), **facts}
