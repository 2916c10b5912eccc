"""Examples of a statistics page: a few segments for each finding, with their audio, or a note why there is none."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import encode_clip, encoder
from nbaudio.core import tables
from nbaudio.core.channels import source_channel
from nbaudio.core.errors import NbaudioError
from nbaudio.reading import Corpus, open_corpus
from nbaudio.review.state import OK, UNSURE, ReviewState
from nbaudio.storage.workspace import Workspace
from nbaudio.ui import views
from nbaudio.ui.widgets.clip_audio import RATE, clip_picture, read_window
from nbaudio.ui.widgets.static_html import MOST_BYTES, Clips, StaticClip, static_clip

LONGEST_S = 15  # of a clip
NEAREST, WORST, REASONS, SPEAKERS, FAULTS = (
    "Kept, with the lowest similarity",
    "Lowest similarity of all",
    "One segment of each reason",
    "One segment of each speaker",
    "Judged as wrong",
)
_MOST_WORST, _MOST_GROUPS = 4, 12
_MOST_FAILURES = 5  # an unreachable server fails for each clip, after its timeouts
_Read = Callable[[dict[str, Any]], tuple[NDArray[np.int16], int, bool]]  # samples, rate, whether the segment is longer


def choose_examples(segments: pl.DataFrame, state: ReviewState | None) -> dict[str, dict[str, str]]:
    """Return for each finding the ids of its examples, with a label each; among equal candidates, the middle one by id."""
    kept, one = segments.filter(pl.col("decision").ne_missing("reject")), pl.col("segment_id").sort().get(pl.len() // 2)
    spoken = views.speakers(kept)["speaker_id"].drop_nulls().head(_MOST_GROUPS)
    reasons = views.reasons(segments)["reason"].head(_MOST_GROUPS)
    none = pl.DataFrame(schema={"segment_id": pl.String, "verdict": pl.String})
    faults = state.verdicts.filter(~pl.col("verdict").is_in([OK, UNSURE])) if state else none

    def lowest(frame: pl.DataFrame) -> dict[str, str]:
        found = frame.filter(pl.col("similarity").is_finite()).sort("similarity", "segment_id").head(_MOST_WORST)
        return dict.fromkeys(found["segment_id"], "")

    def of_each(column: str, frame: pl.DataFrame, values: pl.Series) -> dict[str, str]:
        found = dict(frame.group_by(column).agg(one).iter_rows())
        return {found[value]: f"{column}: {value}" for value in values if value in found}

    found = {
        NEAREST: lowest(kept),
        WORST: lowest(segments),
        REASONS: of_each("reason", segments, reasons),
        SPEAKERS: dict.fromkeys(of_each("speaker_id", kept, spoken), ""),
        FAULTS: of_each("verdict", faults, faults["verdict"].unique().sort()),
    }
    return {title: wanted for title, wanted in found.items() if wanted}


def read_examples(
    path: str | Path, state: ReviewState | None, segments: pl.DataFrame, groups: Mapping[str, Mapping[str, str]], *, audio: bool
) -> dict[str, Clips]:
    """Return the clips of each group; without a review state, `path` is a corpus."""
    wanted = {segment_id for group in groups.values() for segment_id in group}
    rows = {row["segment_id"]: row for row in segments.filter(pl.col("segment_id").is_in(wanted)).iter_rows(named=True)}
    place = str(state.workspace.audio if state else path).rstrip("/")
    read, closed, left, failures = None, None, MOST_BYTES, 0

    def reason(error: Exception) -> str:  # without the folder on this machine
        return f"no sound: {str(error).removeprefix('no sound: ').replace(f'{place}/', '')}"

    if audio:
        try:
            read = _workspace_audio(state.workspace, wanted) if state else _corpus_audio(open_corpus(path))
        except (NbaudioError, OSError) as error:
            closed = reason(error)

    def clip(row: dict[str, Any], fact: str) -> StaticClip:
        nonlocal left, failures
        sound, note, picture = None, closed, None
        if read and failures >= _MOST_FAILURES:
            note = f"no sound: it was not tried after {failures} clips that could not be read"
        elif read:
            try:
                samples, rate, longer = read(row)
                failures, note = 0, f"the first {LONGEST_S} s of it" if longer else None
                sound = encode_clip(samples, rate, "mp3" if rate in encoder("mp3").rates else "flac")
                picture = clip_picture(samples, rate)
            except (NbaudioError, OSError) as error:
                note = reason(error)
                failures += not str(error).startswith("no sound: ")
        if sound and len(sound) > left:
            sound, note = None, f"no sound: the page holds {MOST_BYTES / 1e6:g} MB of it already"
        left -= len(sound or b"")
        return static_clip(row, sound, note, picture, *([fact] if fact else []))

    shown = {title: {name: fact for name, fact in group.items() if name in rows} for title, group in groups.items()}
    return {title: Clips(tuple(clip(rows[name], fact) for name, fact in group.items())) for title, group in shown.items()}


def _workspace_audio(workspace: Workspace, wanted: Collection[str]) -> _Read:
    given = tables.scan(workspace, ["segment_id", "source_channel"]).filter(pl.col("segment_id").is_in(wanted)).collect()
    channels = dict(given.select("segment_id", source_channel(given)).iter_rows())
    recordings = workspace.recordings.unique("recording_id", keep="first").select("recording_id", "path", "num_samples")
    known = {recording_id: facts for recording_id, *facts in recordings.iter_rows()}

    def read(row: dict[str, Any]) -> tuple[NDArray[np.int16], int, bool]:
        path, length = known.get(row["recording_id"], (None, None))
        placed = {**row, "recording_path": path, "num_samples": length, "source_channel": channels.get(row["segment_id"])}
        samples, _, end = read_window(workspace.audio, placed, longest_s=LONGEST_S)
        return samples, RATE, end < row["end_sample"]

    return read


def _corpus_audio(corpus: Corpus) -> _Read:
    def read(row: dict[str, Any]) -> tuple[NDArray[np.int16], int, bool]:
        if row["decision"] == "reject":
            raise NbaudioError("no sound: it is not in the corpus")
        [clip] = corpus.read_many([row["segment_id"]])
        samples, most = np.asarray(clip.samples, np.int16), LONGEST_S * clip.sampling_rate
        return samples[:most], clip.sampling_rate, len(samples) > most

    return read
