"""How many bytes: sizes as people write them, and how large a corpus will be.

Conventions: sizes are whole bytes; kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB powers of 1024. Estimates are for
16 kHz mono FLAC, the default of `materialize`.
"""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from nbaudio.audio import encode_clip, read_clip
from nbaudio.core.channels import source_channel
from nbaudio.core.errors import AudioError
from nbaudio.core.times import rescale
from nbaudio.storage.remote import Remote

RATE = 16000
"""Rate in Hz that estimates are for."""


class ClipSize(NamedTuple):
    """What a clip takes in a corpus: bytes for each second of it, and bytes for each clip whatever its length."""

    per_second: float
    per_clip: int


# Up to three archive members of a clip (audio, metadata, text), each with a header of 512 bytes and padding to 512, the text
# itself and a row in segments.parquet.
_PER_CLIP = 3000

PCM = ClipSize(2.0 * RATE, _PER_CLIP)
"""The upper bound: FLAC keeps what it cannot compress as it is."""


def measure_clip_size(clips: pl.DataFrame, root: Path | Remote) -> ClipSize | None:
    """What clips take, measured by encoding some and taken three standard errors above their mean.

    Args:
        clips: the ones to encode, with `path` (relative to `root`), `start_sample`, `end_sample`, `source_channel`, and
            `num_samples` and `sampling_rate` of their recordings.
        root: the folder of the recordings.

    Returns:
        The size, or None when fewer than two clips can be read: `materialize` says why, here they only cannot be measured.
    """
    measured = []
    for path, start, end, channel, num_samples, rate in clips.select(
        "path", "start_sample", "end_sample", source_channel(clips), "num_samples", "sampling_rate"
    ).iter_rows():
        try:
            samples = read_clip(root / path, start, end, num_samples=num_samples, rate=RATE, channel=channel or "mix")
        except AudioError:
            continue
        measured.append((len(encode_clip(samples, RATE, encoding="flac")), rescale(end - start, rate, RATE)))
    if len(measured) < 2:
        return None
    size, length = np.array(measured, dtype=np.float64).T
    # A ratio estimate: the corpus is summed over seconds, so long clips count more than short ones.
    mean = size.sum() / length.sum()
    error = float(np.std(size - mean * length, ddof=1)) / (float(length.mean()) * math.sqrt(len(measured)))
    return ClipSize((float(mean) + 3 * error) * RATE, _PER_CLIP)
