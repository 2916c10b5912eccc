"""Examples of a statistics page: a few segments for each finding.

They come with their audio, or with a note why there is none.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nbaudio.core.errors import NbaudioError
from nbaudio.reading import open_corpus
from nbaudio.review.state import OK, UNSURE, ReviewState
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import views
from nbaudio.ui.segment_rows import SegmentRows
from nbaudio.ui.widgets.clip_audio import Row, Sound, corpus_sound
from nbaudio.ui.widgets.segments import load_segments
from nbaudio.ui.widgets.static_html import Clips, StaticClip, read_clips, read_saved_sound

LONGEST_S = 15  # seconds of audio that a clip has at most
# Findings, as titles on the page.
NEAREST = "Kept, with the lowest similarity"
WORST = "Lowest similarity of all"
REASONS = "One segment of each reason"
SPEAKERS = "One segment of each speaker"
FAULTS = "Judged as wrong"
_MOST_WORST = 4  # segments
_MOST_GROUPS = 12  # reasons, or speakers


def choose_examples(segments: SegmentRows, state: ReviewState | None) -> dict[str, dict[str, str]]:
    """Return for each finding the ids of its examples, with the label of each, "" for none.

    Findings without an example are left out. Without a review state there are no faults. Of several
    segments with the same reason, speaker or fault, the middle one by id is taken.
    """
    kept_segments = segments.filter(pl.col("decision").ne_missing("reject"))
    speakers = views.speakers(kept_segments)["speaker_id"].drop_nulls().head(_MOST_GROUPS)
    reasons = views.reasons(segments)["reason"].head(_MOST_GROUPS)
    of_speakers = _one_of_each(
        "speaker_id", kept_segments.read("speaker_id", "segment_id"), speakers
    )
    examples = {
        NEAREST: dict.fromkeys(_with_lowest_similarity(kept_segments), ""),
        WORST: dict.fromkeys(_with_lowest_similarity(segments), ""),
        REASONS: _one_of_each("reason", segments.read("reason", "segment_id"), reasons),
        SPEAKERS: dict.fromkeys(of_speakers, ""),
    }
    if state:
        examples[FAULTS] = _one_of_each_fault(state)
    return {finding: labels for finding, labels in examples.items() if labels}


def _with_lowest_similarity(segments: SegmentRows) -> list[str]:
    """Return the ids of the segments with the lowest similarity."""
    scored = segments.filter(pl.col("similarity").is_finite()).read("similarity", "segment_id")
    return scored.sort("similarity", "segment_id").head(_MOST_WORST)["segment_id"].to_list()


def _one_of_each(column: str, segments: pl.DataFrame, values: pl.Series) -> dict[str, str]:
    """Return the id of one segment with each value of a column, labeled with the value."""
    middle_id = pl.col("segment_id").sort().get(pl.len() // 2)
    ids = dict(segments.group_by(column).agg(middle_id).iter_rows())
    return {ids[value]: f"{column}: {value}" for value in values if value in ids}


def _one_of_each_fault(state: ReviewState) -> dict[str, str]:
    """Return the id of one segment with each verdict that names faults, labeled with it."""
    faults = state.verdicts.filter(~pl.col("verdict").is_in([OK, UNSURE]))
    return _one_of_each("verdict", faults, faults["verdict"].unique().sort())


def read_examples(
    path: str | Path,
    state: ReviewState | None,
    segments: SegmentRows,
    groups: Mapping[str, Mapping[str, str]],
    *,
    audio: bool,
) -> dict[str, Clips]:
    """Return the clips of the examples of each finding.

    Args:
        path: the corpus, or the workspace of `state`.
        state: the review state of a workspace; None for a corpus.
        segments: the segments that the examples are among; others are left out.
        groups: as `choose_examples` returns it.
        audio: read the audio; it is MP3, `LONGEST_S` at most.
    """
    segment_ids = {segment_id for group in groups.values() for segment_id in group}
    is_example = pl.col("segment_id").is_in(list(segment_ids))
    examples = segments.filter(is_example).read(*segments.schema)
    rows = {row["segment_id"]: row for row in examples.iter_rows(named=True)}
    placed = [
        _PlacedExample(title, rows[segment_id], label)
        for title, group in groups.items()
        for segment_id, label in group.items()
        if segment_id in rows
    ]
    place = state.workspace.audio if state else path
    read = None
    if audio and state:
        read = _workspace_audio(state.workspace, segment_ids)
    elif audio:
        read = _corpus_audio(str(path))
    rows_and_labels = (
        (example.row, example.label) if example.label else (example.row,) for example in placed
    )
    # One call for all findings: the audio of a page has a limit.
    clips = read_clips(
        rows_and_labels, read, longest_s=LONGEST_S, encoding="mp3", folder=f"{place}/"
    )
    clips_of: dict[str, list[StaticClip]] = {title: [] for title in groups}
    for example, clip in zip(placed, clips, strict=True):
        clips_of[example.title].append(clip)
    return {title: Clips(tuple(of_title)) for title, of_title in clips_of.items()}


class _PlacedExample(NamedTuple):
    """An example: the finding that it is shown for, its segment and its label."""

    title: str
    row: Row
    label: str


def _workspace_audio(workspace: Workspace, segment_ids: Collection[str]) -> Callable[[Row], Sound]:
    """Return a function that reads the audio of a segment, which is one of `segment_ids`."""
    segments = load_segments(workspace, sorted(segment_ids))
    rows = {row["segment_id"]: row for row in segments.frame.iter_rows(named=True)}
    return lambda row: read_saved_sound(segments, rows[row["segment_id"]])


def _corpus_audio(path: str) -> Callable[[Row], Sound]:
    """Return a function that reads the clip of a segment; rejected ones raise NbaudioError."""
    corpus = cache(lambda: open_corpus(path))  # opened when the first clip is read

    def read(row: Row) -> Sound:
        if row["decision"] == "reject":
            raise NbaudioError("no sound: it is not in the corpus")
        return corpus_sound(corpus(), row["segment_id"])

    return read
