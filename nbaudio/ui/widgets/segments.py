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
    stored: StoredFrame | None = None  # of a large table, whose frame is empty

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
        held = workspace_tables.scan(self.workspace, ["segment_id", "word_times"]).slice(
            row["place"], 1
        )
        # The table may have been written anew since.
        found = held.filter(pl.col("segment_id") == row["segment_id"]).collect()
        timed = [
            [(time["start"], time["end"]) for time in times]
            for times in found["word_times"].drop_nulls()
        ]
        return align_lines(row, timed[0] if timed else None, **compared(self.workspace))


def load_segments(
    workspace: str | Path | Workspace, segment_ids: Ids | None = None, *, stored: bool = False
) -> Segments:
    """Load all segments of a workspace, or those of `segment_ids` in that order.

    If `stored` is set, a large table is left in its file.
    """
    workspace = Workspace.open(workspace)
    hidden = (*_HEAVY, *INTERNAL_COLUMNS, "duration_s")
    names = [
        name
        for name in dict.fromkeys((*SEGMENTS, *workspace_tables.table_schema(workspace)))
        if name not in hidden
    ]
    recordings = workspace.recordings.unique("recording_id", keep="first")
    facts = recordings.select(
        "recording_id", "num_samples", recording_path="path", recording_channels="num_channels"
    )
    if (
        stored
        and workspace_tables.scan(workspace, ["segment_id"]).select(pl.len()).collect().item()
        > _MOST_IN_MEMORY
    ):
        types = pl.Schema({name: SEGMENTS[name] for name in names if name in SEGMENTS})
        joined = recordings.select("recording_id", "sampling_rate").join(facts, on="recording_id")
        held = StoredFrame(
            workspace_tables.table_path(workspace), names, schema=types, recordings=joined
        )
        return Segments(workspace, workspace.audio, pl.DataFrame(schema=held.schema), held)
    wanted = (
        None
        if segment_ids is None
        else pl.Series("segment_id", as_ids(segment_ids), pl.String).unique(maintain_order=True)
    )
    frame = workspace_tables.read(
        workspace,
        names,
        where=None if wanted is None else workspace_tables.has_id(wanted),
        row="place",
    )
    if wanted is not None:
        once = frame.unique("segment_id", keep="first")
        found = wanted.to_frame().join(once, on="segment_id", how="left", maintain_order="left")
        for missing in found.filter(pl.col("place").is_null())["segment_id"].head(1):
            raise InputError(f"{workspace.path}: no segment {missing!r}")
        frame = found.select(frame.columns)
    frame = with_durations(frame, recordings).join(
        facts, on="recording_id", how="left", maintain_order="left"
    )
    return Segments(workspace, workspace.audio, frame)


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
        row = self.segments.row(number)
        if line := missing_folder(self.segments.workspace, [row["recording_id"]]):
            raise AudioError(line)
        return read_sound(self.segments.audio_root, row, **options)

    def correct(self, *, number: int, start_ms: int, end_ms: int) -> dict[str, Any] | None:
        """Log bounds moved by milliseconds from those of the table; zeros withdraw a correction."""
        row = self.segments.row(number)
        was_start = row["start_sample"]
        was_end = row["end_sample"]
        rate = row["sampling_rate"]
        start = was_start + rescale(start_ms, _MS, rate)
        end = was_end + rescale(end_ms, _MS, rate)
        if not 0 <= start < end <= row["num_samples"]:
            held = row["num_samples"]
            raise InputError(
                f"{row['segment_id']}: samples {start} to {end} are not inside the "
                f"recording of {held}"
            )
        return self._correct(row, (start, end) if start_ms or end_ms else (None, None))

    def undo_correction(self, *, number: int) -> dict[str, Any] | None:
        """Log the correction before the last one once more, or a withdrawal if there was none."""
        row = self.segments.row(number)
        own = {
            "segment_id": row["segment_id"],
            "was_start": row["start_sample"],
            "was_end": row["end_sample"],
        }
        log = ReviewState.load(self.segments.workspace).correction_log.filter(**own)
        kept: list[tuple[int | None, int | None]] = []
        for bounds in log.select("start_sample", "end_sample").iter_rows():
            if bounds[0] is None:
                kept.clear()
            elif bounds in kept[-2:-1]:
                kept.pop()  # this was an undo
            else:
                kept.append(bounds)
        return self._correct(row, kept[-2] if len(kept) > 1 else (None, None)) if kept else None

    def _correct(
        self, row: dict[str, Any], bounds: tuple[int | None, int | None]
    ) -> dict[str, Any] | None:
        was = (row["start_sample"], row["end_sample"])
        correction = Correction(row["segment_id"], *bounds, *was, self.reviewer, utc_now())
        append_corrections(self.segments.workspace, [correction])
        self._corrected[row["segment_id"]] = asdict(correction)
        return self._correction(row)

    def _correction(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Return by how much the bounds are corrected.

        It is None if the table has other bounds by now.
        """
        found = self._corrected.get(row["segment_id"])
        rate = row["sampling_rate"]
        if found is None or found["start_sample"] is None or not rate:
            return None
        if (found["was_start"], found["was_end"]) != (row["start_sample"], row["end_sample"]):
            return None
        start, end = (
            rescale(found[f"{side}_sample"] - found[f"was_{side}"], rate, _MS)
            for side in ("start", "end")
        )
        return {"reviewer": found["reviewer"], "start_ms": start, "end_ms": end}


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
