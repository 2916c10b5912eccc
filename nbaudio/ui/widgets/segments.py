"""The segments that a widget shows, and what it asks of one of them: its facts, its words, its sound.

Conventions: a segment is named by its row in the frame that the widget holds, which never changes; word times are read from
the workspace's own table when they are asked for, since they are most of it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.frames import Ids, as_ids
from nbaudio.core.tables import NORMALIZED, SEGMENTS, parquet_schema, with_durations
from nbaudio.storage.remote import Remote
from nbaudio.storage.workspace import Workspace
from nbaudio.text.score import normalization_steps
from nbaudio.ui.widgets.rows import INNER
from nbaudio.ui.widgets.sounds import Sound, read_sound
from nbaudio.ui.widgets.words import WordPair, align_words

_HEAVY = ("word_times", "text_raw", *NORMALIZED)


@dataclass(frozen=True)
class Segments:
    """Segments of a workspace, each with the facts of its recording.

    Attributes:
        workspace: where they are from.
        audio_root: where the recordings are; None without audio.
        frame: the columns of the table but the heaviest, `duration_s` (seconds), and `INNER`: `place` is the row in the table.
    """

    workspace: Workspace
    audio_root: Path | Remote | None
    frame: pl.DataFrame

    def row(self, number: int) -> dict[str, Any]:
        """The facts of a segment."""
        return self.frame.row(number, named=True)

    def sound(
        self,
        number: int,
        *,
        before: float = 0.0,
        after: float = 0.0,
        channel: str | None = None,
        even: bool = True,
        columns: int = 800,
    ) -> Sound:
        """What is heard and drawn of a segment; see `sounds.read_sound`.

        Raises:
            AudioError: there is nothing to hear; says why.
        """
        row = self.row(number)
        return read_sound(self.audio_root, row, before=before, after=after, channel=channel, even=even, columns=columns)

    def words(self, number: int) -> list[WordPair]:
        """The words of a segment beside those of the recogniser, with times where they are known."""
        row = self.row(number)
        return align_words(row["text"] or "", row["asr_text"], self._word_times(row), steps=normalization_steps(self.workspace))

    def _word_times(self, row: dict[str, Any]) -> list[tuple[float, float]] | None:
        table = pl.scan_parquet(self.workspace.path / "segments.parquet", glob=False)
        if "word_times" not in table.collect_schema():
            return None
        found = table.slice(row["place"], 1).select("segment_id", "word_times").collect()
        # The table may have been written anew since.
        if found.is_empty() or found["segment_id"][0] != row["segment_id"] or found["word_times"][0] is None:
            return None
        return [(time["start"], time["end"]) for time in found["word_times"][0]]


def load_segments(workspace: str | Path | Workspace, segment_ids: Ids | None = None) -> Segments:
    """Segments of a workspace for a widget.

    Args:
        workspace: the workspace.
        segment_ids: which ones, in the order to show, also as a pandas or polars table such as `SegmentTable.selected`; None for
            all of them as they are in the workspace's.

    Raises:
        InputError: a segment is not in the workspace.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp(), source="asr.json", audio=None)
        >>> segments = pl.DataFrame({"segment_id": ["a", "b"], "recording_id": ["r", "r"], "text": ["evo blic", "da"]})
        >>> workspace.save(recordings=pl.DataFrame({"recording_id": ["r"]}), segments=segments)
        >>> load_segments(workspace, ["b"]).row(0)["text"]
        'da'
    """
    workspace = Workspace.open(workspace)
    held = parquet_schema(workspace.path / "segments.parquet")
    names = [name for name in dict.fromkeys((*SEGMENTS, *held)) if name not in (*_HEAVY, *INNER, "duration_s")]
    frame = workspace.segment_columns(*names).with_row_index("place")
    if segment_ids is not None:
        frame = _picked(frame, as_ids(segment_ids), workspace)
    recordings = workspace.recordings
    facts = recordings.select("recording_id", "num_samples", recording_path="path").unique("recording_id", keep="first")
    frame = with_durations(frame, recordings.unique("recording_id", keep="first"))
    frame = frame.join(facts, on="recording_id", how="left", maintain_order="left")
    return Segments(workspace, workspace.audio_root, frame)


def _picked(frame: pl.DataFrame, wanted: list[str], workspace: Workspace) -> pl.DataFrame:
    order = pl.DataFrame({"segment_id": pl.Series(wanted, dtype=pl.String)}).unique(maintain_order=True)
    found = order.join(frame.unique("segment_id", keep="first"), on="segment_id", how="left", maintain_order="left")
    missing = found.filter(pl.col("place").is_null())
    if len(missing):
        raise InputError(f"{workspace.path}: no segment {missing['segment_id'][0]!r}")
    return found.select(frame.columns)
