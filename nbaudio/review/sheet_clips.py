"""The clips of review sheets and pages.

They are 16 kHz mono, WAV or MP3, which every player and every spreadsheet's host system opens.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import Recording, encode_clip, open_recording, resample_window
from nbaudio.core.atomic import write_bytes
from nbaudio.core.errors import AudioError, ExistsError
from nbaudio.core.hashing import clip_file_names
from nbaudio.core.progress import progress
from nbaudio.review.state import ReviewRecord
from nbaudio.storage.location import Location

RATE = 16000
ENCODINGS = ("wav", "mp3")  # and endings of names


@dataclass(frozen=True)
class ClipFile:
    """The file of a row's clip: its name, and the segments that the row shows something of."""

    row_hash: str
    segment_ids: set[str]
    name: str


def clip_files(record: ReviewRecord, encoding: str) -> list[ClipFile]:
    """Return the files of the clips of all rows of a review.

    They have the names of their segments. With control rows, all have a part of the hash of the row
    as well: a clip of another segment, or another part of it, must not take the name that the
    segment has in other reviews.
    """
    row_hashes = [*record.row_hashes(), *record.control_hashes()]
    named = [*record.segment_ids, *(row.segment_id for row in record.control_rows)]
    shown = [
        *({segment_id} for segment_id in record.segment_ids),
        *(row.segment_ids for row in record.control_rows),
    ]
    if record.control_rows:
        named = [f"{name}-{row_hash[:8]}" for name, row_hash in zip(named, row_hashes, strict=True)]
    names = clip_file_names(named, encoding)
    return [ClipFile(*row) for row in zip(row_hashes, shown, names, strict=True)]


@dataclass(frozen=True)
class Clip:
    """A clip of a segment: the row of the segment, the samples at 16 kHz, and the file."""

    row: Mapping[str, Any]
    samples: NDArray[np.int16]
    content: bytes


@dataclass(frozen=True)
class MissingClip:
    """A segment that has no clip, and the reason."""

    segment_id: str
    reason: str


def cut_clips(
    segments: pl.DataFrame, audio_root: Location | None, *, encoding: str
) -> Iterator[Clip | MissingClip]:
    """Yield the clips of segments in the order of the recordings, each of which is opened once.

    Nothing is yielded without audio.

    Args:
        segments: `segment_id`, `path`, `start_sample`, `end_sample`, `num_samples` and
            `source_channel`.
        audio_root: the folder of the recordings.
        encoding: of the clips, one of `ENCODINGS`.
    """
    if audio_root is None:
        return
    recordings = segments.sort("path", "start_sample", "segment_id").group_by(
        "path", maintain_order=True
    )
    with progress("clips", len(segments), "clips") as advance:
        for (path,), windows in recordings:
            yield from _clips_of_recording(audio_root / str(path), windows, encoding)
            advance(len(windows))


def _clips_of_recording(
    location: Location, segments: pl.DataFrame, encoding: str
) -> Iterator[Clip | MissingClip]:
    """Yield the clips of a recording; all are missing if it cannot be opened."""
    rows = segments.iter_rows(named=True)
    try:
        with open_recording(location) as recording:
            for row in rows:
                yield _clip(recording, row, encoding)
    except AudioError as error:
        for row in rows:
            yield MissingClip(row["segment_id"], str(error))


def _clip(recording: Recording, row: Mapping[str, Any], encoding: str) -> Clip | MissingClip:
    """Return the clip of a segment."""
    try:
        samples = resample_window(
            recording,
            row["start_sample"],
            row["end_sample"],
            num_samples=row["num_samples"],
            rate=RATE,
            channel=row["source_channel"] or "mix",
        )
        return Clip(row, samples, encode_clip(samples, RATE, encoding))
    except AudioError as error:
        return MissingClip(row["segment_id"], str(error))


def keep_clip(path: Path, content: bytes) -> None:
    """Write a clip unless it is there; raise ExistsError if another one is."""
    if not path.exists():
        write_bytes(path, content)
    elif path.read_bytes() != content:
        raise ExistsError(
            f"{path}: holds another clip; export to another folder, or move this one away"
        )
