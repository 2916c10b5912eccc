"""Audio of a segment for widgets: read its window, and compute peaks and a spectrogram to draw.

Audio is 16 kHz mono; times inside a clip are seconds from its first sample; peaks and spectrogram have one column per pixel.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from nbaudio.audio import encode_clip, read_clip
from nbaudio.audio.pydub_bridge import normalize_loudness
from nbaudio.core.errors import AudioError, InputError
from nbaudio.storage.base import LocationLike
from nbaudio.storage.location import location
from nbaudio.ui.widgets.base import Response

RATE = 16000
# Longest live clip, whatever a table says: more would be minutes of samples to send.
LONGEST_S = 120.0
MOST_CONTEXT_S = 30.0

_MOST_COLUMNS = 4096
_FRAME = 512  # 32 ms: separates harmonics of a voice and keeps words sharp
BANDS = _FRAME // 4
_QUIETEST_DB, _LOUDEST_DB = -100.0, -25.0


def read_window(
    root: LocationLike | None,
    row: dict[str, Any],
    *,
    longest_s: float,
    before: float = 0.0,
    after: float = 0.0,
    channel: str | None = None,
) -> tuple[NDArray[np.int16], int, int]:
    """Read at most `longest_s` seconds of a segment with context (seconds) at `RATE`; without `channel` its own, or the mix.

    Also returns the first sample of the window and the sample where the segment ends or is cut, at the recording's rate.
    """
    path, start, end, rate, length = (
        row[name] for name in ("recording_path", "start_sample", "end_sample", "sampling_rate", "num_samples")
    )
    if root is None or None in (path, start, end, rate, length):
        raise AudioError("no sound: its recording is missing")
    if not 0 <= start < end <= length:
        raise AudioError("no sound: its times are not inside the recording")
    shown_end = min(end, start + round(longest_s * rate))
    first, last = max(0, start - round(before * rate)), min(length, shown_end + round(after * rate))
    channel = channel or row.get("source_channel") or "mix"
    return read_clip(location(root) / path, first, last, num_samples=length, rate=RATE, channel=channel), first, shown_end


def read_clip_audio(
    root: LocationLike | None,
    row: dict[str, Any],
    *,
    before: float = 0.0,
    after: float = 0.0,
    channel: str | None = None,
    even: bool = True,
    columns: int = 800,
) -> Response:
    """Read a segment with its context, see `read_window`; `even` normalizes its loudness.

    Returns length of the window and start and end of the segment in it; peaks and spectrogram as buffers; the WAV as a later one.
    """
    if not (0 <= before <= MOST_CONTEXT_S and 0 <= after <= MOST_CONTEXT_S):
        raise InputError(f"context of {before:g} s and {after:g} s: both must be from 0 to {MOST_CONTEXT_S:g} s")
    if not 1 <= columns <= _MOST_COLUMNS:
        raise InputError(f"columns={columns}: must be from 1 to {_MOST_COLUMNS:,}")
    samples, first, shown_end = read_window(root, row, longest_s=LONGEST_S, before=before, after=after, channel=channel)
    if even:
        samples = normalize_loudness(samples, RATE)
    start, end = ((place - first) / row["sampling_rate"] for place in (row["start_sample"], shown_end))
    drawn = [peaks(samples, columns).tobytes(), spectrogram(samples, columns).tobytes()]
    return Response({"seconds": len(samples) / RATE, "start": start, "end": end}, drawn, [encode_clip(samples, RATE, "wav")])


def peaks(samples: NDArray[np.int16], columns: int) -> NDArray[np.int8]:
    """Return least and greatest sample of each of `columns` equal parts: int8 of shape (columns, 2), full scale is 127."""
    # With fewer samples than columns, some samples are in several columns.
    starts = np.arange(columns) * len(samples) // columns
    both = np.stack([np.minimum.reduceat(samples, starts), np.maximum.reduceat(samples, starts)], axis=1)
    return (both >> 8).astype(np.int8)


def spectrogram(samples: NDArray[np.int16], columns: int) -> NDArray[np.uint8]:
    """Return levels of frequency bands from 0 to 8 kHz over time: uint8 of shape (columns, `BANDS`), lowest band first.

    0 is -100 dB below full scale or less, 255 is -25 dB or more.
    """
    padded = np.pad(samples, (_FRAME // 2, _FRAME // 2 + 1))
    centers = ((np.arange(columns) + 0.5) * len(samples) / columns).astype(np.int64)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME)[centers]
    window = np.hanning(_FRAME).astype(np.float32) / (_FRAME / 4 * 32768)
    spectrum = fft.rfft(frames * window, axis=1)[:, : 2 * BANDS]  # NumPy's takes five times as long
    power = spectrum.real**2 + spectrum.imag**2
    power = np.maximum(power[:, ::2], power[:, 1::2])
    level = 10 * np.log10(power + np.float32(1e-12))
    share = (level - _QUIETEST_DB) / (_LOUDEST_DB - _QUIETEST_DB)
    levels: NDArray[np.uint8] = (share.clip(0, 1) * 255).astype(np.uint8)
    return levels
