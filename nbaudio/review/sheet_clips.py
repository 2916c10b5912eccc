"""The clips of review sheets and pages.

They are 16 kHz mono, WAV or MP3, which every player and every spreadsheet's host system opens.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import encode_clip, open_recording, resample_window
from nbaudio.core.atomic import write_bytes
from nbaudio.core.errors import AudioError, ExistsError
from nbaudio.core.progress import progress
from nbaudio.storage.location import Location

RATE = 16000
ENCODINGS = ("wav", "mp3")  # and endings of names


def cut_clips(
    segments: pl.DataFrame, audio_root: Location | None, failed: dict[str, str], *, encoding: str
) -> Iterator[tuple[dict[str, Any], NDArray[np.int16], bytes]]:
    """Yield the rows of segments in the order of the recordings, with samples and clip of each.

    Reasons for missing clips go to `failed`. Each recording is opened once. Without audio there are
    no clips, and no reasons.
    """
    if audio_root is None:
        return
    with progress("clips", len(segments), "clips") as advance:  # noqa: PLR1702
        for (path,), windows in segments.sort("path", "start_sample", "segment_id").group_by(
            "path", maintain_order=True
        ):
            rows = windows.iter_rows(named=True)
            try:
                with open_recording(audio_root / str(path)) as recording:
                    for row in rows:
                        window = (row["start_sample"], row["end_sample"])
                        channel = row["source_channel"] or "mix"
                        try:
                            samples = resample_window(
                                recording,
                                *window,
                                num_samples=row["num_samples"],
                                rate=RATE,
                                channel=channel,
                            )
                            yield row, samples, encode_clip(samples, RATE, encoding)
                        except AudioError as error:
                            failed[row["segment_id"]] = str(error)
            except AudioError as error:
                failed |= {row["segment_id"]: str(error) for row in rows}
            advance(len(windows))


def keep_clip(path: Path, data: bytes) -> None:
    """Write a clip unless it is there; raise ExistsError if another one is."""
    if not path.exists():
        write_bytes(path, data)
    elif path.read_bytes() != data:
        raise ExistsError(
            f"{path}: holds another clip; export to another folder, or move this one away"
        )
