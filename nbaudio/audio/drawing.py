"""Pictures of a clip: peaks for its waveform, and its spectrogram; one column per pixel."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FRAME = 512  # 32 ms at 16 kHz: separates harmonics of a voice and keeps words sharp
BANDS = _FRAME // 4
_QUIETEST_DB = -100.0
_LOUDEST_DB = -25.0


def peaks(samples: NDArray[np.int16], columns: int) -> NDArray[np.int8]:
    """Return the least and the greatest sample of each of `columns` equal parts.

    The result is int8 of shape (columns, 2), with a full scale of 127.
    """
    # With fewer samples than columns, some samples are in several columns.
    starts = np.arange(columns) * len(samples) // columns
    extremes = np.stack(
        [np.minimum.reduceat(samples, starts), np.maximum.reduceat(samples, starts)], axis=1
    )
    return (extremes >> 8).astype(np.int8)


def spectrogram(
    samples: NDArray[np.int16],
    columns: int,
    begin: float = 0.0,
    end: float = 1.0,
    *,
    rfft: Callable[..., Any] = np.fft.rfft,
) -> NDArray[np.uint8]:
    """Return the levels of bands, lowest first, from `begin` to `end` (shares of the length).

    The result is uint8 of shape (columns, `BANDS`), from -100 dBFS (0) to -25 dBFS (255).
    """
    padded = np.pad(samples, (_FRAME // 2, _FRAME // 2 + 1))
    centers = (
        (begin + (end - begin) * (np.arange(columns) + 0.5) / columns) * len(samples)
    ).astype(np.int64)
    centers = centers.clip(0, len(samples))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME)[centers]
    window = np.hanning(_FRAME).astype(np.float32) / (_FRAME / 4 * 32768)
    spectrum = rfft(frames * window, axis=1)[:, : 2 * BANDS]
    power = spectrum.real**2 + spectrum.imag**2
    power = np.maximum(power[:, ::2], power[:, 1::2])
    level = 10 * np.log10(power + np.float32(1e-12))
    share = (level - _QUIETEST_DB) / (_LOUDEST_DB - _QUIETEST_DB)
    levels: NDArray[np.uint8] = (share.clip(0, 1) * 255).astype(np.uint8)
    return levels
