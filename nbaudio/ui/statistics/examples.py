"""Examples of a statistics page.

Each finding has a few segments, with their audio or a note why there is none.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path

import polars as pl

from nbaudio.core.errors import NbaudioError
from nbaudio.reading import open_corpus
from nbaudio.review.state import OK, UNSURE, ReviewState
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import views
from nbaudio.ui.segment_rows import SegmentRows
from nbaudio.ui.widgets.clip_audio import Row, Sound, corpus_sound
from nbaudio.ui.widgets.segments import load_segments
from nbaudio.ui.widgets.static_html import Clips, read_clips, read_saved_sound

LONGEST_S = 15  # of a clip
NEAREST = "Kept, with the lowest similarity"
WORST = "Lowest similarity of all"
REASONS = "One segment of each reason"
SPEAKERS = "One segment of each speaker"
FAULTS = "Judged as wrong"
_MOST_WORST = 4
_MOST_GROUPS = 12


def choose_examples(segments: SegmentRows, state: ReviewState | None) -> dict[str, dict[str, str]]:
    """Return for each finding the ids of its examples, with a label each.

    Among equal candidates, it takes the middle one by id.
    """
    kept = segments.filter(pl.col("decision").ne_missing("reject"))
    one = pl.col("segment_id").sort().get(pl.len() // 2)
    spoken = views.speakers(kept)["speaker_id"].drop_nulls().head(_MOST_GROUPS)
    reasons = views.reasons(segments)["reason"].head(_MOST_GROUPS)
    none = pl.DataFrame(schema={"segment_id": pl.String, "verdict": pl.String})
    faults = state.verdicts.filter(~pl.col("verdict").is_in([OK, UNSURE])) if state else none

    def lowest(frame: SegmentRows) -> dict[str, str]:
        scored = frame.filter(pl.col("similarity").is_finite()).read("similarity", "segment_id")
        found = scored.sort("similarity", "segment_id").head(_MOST_WORST)
        return dict.fromkeys(found["segment_id"], "")

    def of_each(column: str, frame: pl.DataFrame, values: pl.Series) -> dict[str, str]:
        found = dict(frame.group_by(column).agg(one).iter_rows())
        return {found[value]: f"{column}: {value}" for value in values if value in found}

    found = {
        NEAREST: lowest(kept),
        WORST: lowest(segments),
        REASONS: of_each("reason", segments.read("reason", "segment_id"), reasons),
        SPEAKERS: dict.fromkeys(
            of_each("speaker_id", kept.read("speaker_id", "segment_id"), spoken), ""
        ),
        FAULTS: of_each("verdict", faults, faults["verdict"].unique().sort()),
    }
    return {title: wanted for title, wanted in found.items() if wanted}


def read_examples(
    path: str | Path,
    state: ReviewState | None,
    segments: SegmentRows,
    groups: Mapping[str, Mapping[str, str]],
    *,
    audio: bool,
) -> dict[str, Clips]:
    """Return the clips of each group; without a review state, `path` is a corpus."""
    wanted = {segment_id for group in groups.values() for segment_id in group}
    found = segments.filter(pl.col("segment_id").is_in(list(wanted))).read(*segments.schema)
    rows = {row["segment_id"]: row for row in found.iter_rows(named=True)}
    listed = [
        (title, name, fact)
        for title, group in groups.items()
        for name, fact in group.items()
        if name in rows
    ]
    place = str(state.workspace.audio if state else path).rstrip("/")
    read = (
        (_workspace_audio(state.workspace, wanted) if state else _corpus_audio(str(path)))
        if audio
        else None
    )
    shown = ((rows[name], *([fact] if fact else [])) for _, name, fact in listed)
    clips = read_clips(shown, read, longest_s=LONGEST_S, encoding="mp3", folder=f"{place}/")
    return {
        title: Clips(
            tuple(clip for clip, (of, _, _) in zip(clips, listed, strict=True) if of == title)
        )
        for title in groups
    }


def _workspace_audio(workspace: Workspace, wanted: Collection[str]) -> Callable[[Row], Sound]:
    segments = load_segments(workspace, sorted(wanted))
    rows = {row["segment_id"]: row for row in segments.frame.iter_rows(named=True)}
    return lambda row: read_saved_sound(segments, rows[row["segment_id"]])


def _corpus_audio(path: str) -> Callable[[Row], Sound]:
    corpus = cache(lambda: open_corpus(path))

    def read(row: Row) -> Sound:
        if row["decision"] == "reject":
            raise NbaudioError("no sound: it is not in the corpus")
        return corpus_sound(corpus(), row["segment_id"])

    return read
