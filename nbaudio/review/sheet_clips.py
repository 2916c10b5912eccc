"""The clips beside a review sheet: 16 kHz mono, WAV or MP3, which every player and every spreadsheet's host system opens."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from nbaudio.core.atomic import atomic_write
from nbaudio.core.errors import AudioError, ExistsError
from nbaudio.core.progress import progress
from nbaudio.storage.base import Location

if TYPE_CHECKING:
    from nbaudio.audio import Recording

RATE = 16000
#: Encodings of clips, which are also the endings of their names.
ENCODINGS = ("wav", "mp3")


def write_clips(segments: pl.DataFrame, audio_root: Location, folder: Path, *, encoding: str = "wav") -> dict[str, str]:
    """Cut each segment into its `clip` (a file name); return reasons by segment id for the clips that could not be cut.

    Every recording is opened once and read in order. Raise ExistsError if the folder holds another clip under the same name.
    """
    from nbaudio.audio import open_recording

    failed: dict[str, str] = {}
    with progress("clips", len(segments), "clips") as advance:
        for (path,), windows in segments.sort("path", "start_sample", "segment_id").group_by("path", maintain_order=True):
            try:
                with open_recording(audio_root / str(path)) as recording:
                    for row in windows.iter_rows(named=True):
                        failed |= _cut(recording, row, folder / row["clip"], encoding)
            except AudioError as error:
                failed |= dict.fromkeys(windows["segment_id"], str(error))
            advance(len(windows))
    return failed


def _cut(recording: "Recording", row: Mapping[str, Any], path: Path, encoding: str) -> dict[str, str]:
    """Write one clip; return why it failed by segment id, empty if it did not."""
    from nbaudio.audio import encode_clip, resample_window

    start, end, channel = row["start_sample"], row["end_sample"], row["source_channel"] or "mix"
    try:
        samples = resample_window(recording, start, end, num_samples=row["num_samples"], rate=RATE, channel=channel)
    except AudioError as error:
        return {row["segment_id"]: str(error)}
    data = encode_clip(samples, RATE, "mp3" if encoding == "mp3" else "wav")
    if not path.exists():
        with atomic_write(path) as partial:
            partial.write_bytes(data)
    elif path.read_bytes() != data:
        raise ExistsError(f"{path}: holds another clip; export to another folder, or move this one away")
    return {}
