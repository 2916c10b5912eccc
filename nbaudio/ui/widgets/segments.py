"""Segments of a widget: their facts, their words aligned with the hypothesis, and the requests of a player.

A segment is named by its row in the frame of the widget, which never changes. Word times are most of the table, hence they are
read on demand.
"""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core import tables
from nbaudio.core.dataframes import Ids, as_ids
from nbaudio.core.errors import InputError
from nbaudio.core.tables import NORMALIZED, SEGMENTS, with_durations
from nbaudio.core.times import rescale
from nbaudio.review.state import Correction, ReviewState, append_corrections, corrections
from nbaudio.storage.location import Location
from nbaudio.storage.workspace import Workspace
from nbaudio.text.aligned_words import MOST_CHARACTERS, WordPair, align_words
from nbaudio.text.score import normalization_steps
from nbaudio.ui.filters import INTERNAL_COLUMNS
from nbaudio.ui.widgets.clip_audio import RATE, Playback, Sound, read_lanes, read_sound

_HEAVY = ("word_times", "text_raw", *NORMALIZED)
_MS = 1000


@dataclass(frozen=True)
class Segments:
    """Segments of a workspace: all columns but the heaviest, `duration_s` and `INTERNAL_COLUMNS`; `place` is the table's row."""

    workspace: Workspace
    audio_root: Location | None
    frame: pl.DataFrame

    def row(self, number: int) -> dict[str, Any]:
        """Return the facts of a segment."""
        return self.frame.row(number, named=True)

    def words(self, number: int) -> list[WordPair]:
        """Align the words of a segment with those of the hypothesis, with times where they are known."""
        row = self.row(number)
        return align_words(row["text"] or "", row["asr_text"], self._word_times(row), steps=normalization_steps(self.workspace))

    def _word_times(self, row: dict[str, Any]) -> list[tuple[float, float]] | None:
        found = tables.scan(self.workspace, ["segment_id", "word_times"]).slice(row["place"], 1).collect()
        # The table may have been written anew since.
        if found.is_empty() or found["segment_id"][0] != row["segment_id"] or found["word_times"][0] is None:
            return None
        return [(time["start"], time["end"]) for time in found["word_times"][0]]


def load_segments(workspace: str | Path | Workspace, segment_ids: Ids | None = None) -> Segments:
    """Load all segments of a workspace, or those of `segment_ids` in that order."""
    workspace = Workspace.open(workspace)
    hidden = (*_HEAVY, *INTERNAL_COLUMNS, "duration_s")
    names = [name for name in dict.fromkeys((*SEGMENTS, *tables.table_schema(workspace))) if name not in hidden]
    frame = tables.read(workspace, names).with_row_index("place")
    if segment_ids is not None:
        wanted = pl.DataFrame({"segment_id": pl.Series(as_ids(segment_ids), dtype=pl.String)}).unique(maintain_order=True)
        found = wanted.join(frame.unique("segment_id", keep="first"), on="segment_id", how="left", maintain_order="left")
        for missing in found.filter(pl.col("place").is_null())["segment_id"].head(1):
            raise InputError(f"{workspace.path}: no segment {missing!r}")
        frame = found.select(frame.columns)
    recordings = workspace.recordings
    facts = recordings.select("recording_id", "num_samples", recording_path="path", recording_channels="num_channels")
    facts = facts.unique("recording_id", keep="first")
    frame = with_durations(frame, recordings.unique("recording_id", keep="first"))
    frame = frame.join(facts, on="recording_id", how="left", maintain_order="left")
    return Segments(workspace, workspace.audio, frame)


class SegmentPlayback(Playback):
    """Handler of a player's requests: facts and words of a segment, its audio, corrections of its bounds by `reviewer`."""

    def __init__(self, segments: Segments, reviewer: str) -> None:
        super().__init__()
        self.segments = segments
        self.reviewer = reviewer
        self.calls |= {"correct": self.correct, "undo_correction": self.undo_correction}
        self._corrected = {row["segment_id"]: row for row in corrections(segments.workspace).iter_rows(named=True)}

    def segment(self, *, number: int) -> dict[str, Any]:
        """Return id, facts, words (with the number of characters that are cut) and correction of a segment."""
        row, words = self.segments.row(number), self.segments.words(number)
        return described(row, words, correction=self._correction(row), rate=RATE, channels=row["recording_channels"])

    def read(self, number: int, **options: Any) -> Sound:
        """Read the audio of a segment, see `read_sound`."""
        return read_sound(self.segments.audio_root, self.segments.row(number), **options)

    def read_lanes(self, number: int, *, before: float, after: float) -> NDArray[np.int16]:
        """Read all channels of a segment, see `clip_audio.read_lanes`."""
        return read_lanes(self.segments.audio_root, self.segments.row(number), before=before, after=after)

    def correct(self, *, number: int, start_ms: int, end_ms: int) -> dict[str, Any] | None:
        """Log bounds moved by milliseconds from those of the table; zeros withdraw a correction."""
        row = self.segments.row(number)
        was_start, was_end, rate = row["start_sample"], row["end_sample"], row["sampling_rate"]
        start, end = was_start + rescale(start_ms, _MS, rate), was_end + rescale(end_ms, _MS, rate)
        if not 0 <= start < end <= row["num_samples"]:
            where = f"are not inside the recording of {row['num_samples']}"
            raise InputError(f"{row['segment_id']}: samples {start} to {end} {where}")
        return self._correct(row, (start, end) if start_ms or end_ms else (None, None))

    def undo_correction(self, *, number: int) -> dict[str, Any] | None:
        """Log the correction before the last one once more, or a withdrawal if there was none."""
        row = self.segments.row(number)
        kept: list[tuple[int | None, int | None]] = []
        for each in ReviewState.load(self.segments.workspace).correction_log:
            if (each.segment_id, each.was_start, each.was_end) != (row["segment_id"], row["start_sample"], row["end_sample"]):
                continue
            bounds = (each.start_sample, each.end_sample)
            if each.start_sample is None:
                kept.clear()
            elif bounds in kept[-2:-1]:
                kept.pop()  # this was an undo
            else:
                kept.append(bounds)
        return self._correct(row, kept[-2] if len(kept) > 1 else (None, None)) if kept else None

    def _correct(self, row: dict[str, Any], bounds: tuple[int | None, int | None]) -> dict[str, Any] | None:
        was = (row["start_sample"], row["end_sample"])
        correction = Correction(row["segment_id"], *bounds, *was, self.reviewer, utc_now())
        append_corrections(self.segments.workspace, [correction])
        self._corrected[row["segment_id"]] = asdict(correction)
        return self._correction(row)

    def _correction(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """Return by how much the bounds are corrected; None if the table has other bounds by now."""
        found, rate = self._corrected.get(row["segment_id"]), row["sampling_rate"]
        if found is None or found["start_sample"] is None or not rate:
            return None
        if (found["was_start"], found["was_end"]) != (row["start_sample"], row["end_sample"]):
            return None
        return {
            "reviewer": found["reviewer"],
            "start_ms": rescale(found["start_sample"] - found["was_start"], rate, _MS),
            "end_ms": rescale(found["end_sample"] - found["was_end"], rate, _MS),
        }


def described(row: dict[str, Any], words: list[WordPair], *further: str, **facts: Any) -> dict[str, Any]:
    """Return what a player shows of a segment: id, facts and `further` ones, words, and how many characters of them are cut."""
    unshown = max(0, len(row["text"] or "") - MOST_CHARACTERS)
    shown = {"segment_id": row["segment_id"], "facts": [*segment_facts(row), *further], "unshown": unshown}
    return {**shown, "words": [pair._asdict() for pair in words], **facts}


def segment_facts(row: dict[str, Any]) -> list[str]:
    """Return speaker, duration and similarity of a segment as short texts."""
    facts = [row["speaker_id"] or "speaker not known"]
    if row["duration_s"] is not None:
        facts.append(f"{row['duration_s']:.1f} s")
    if row["similarity"] is not None:
        facts.append(f"similarity {row['similarity']:.{2 if row['similarity'] <= 0.95 or row['similarity'] == 1 else 4}f}")
    return facts


def utc_now() -> str:
    """Return the current time, ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
