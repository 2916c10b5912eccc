"""What is heard and drawn of a segment: a short WAV of its window, peaks and a spectrogram, all computed here.

Only the window is read. Conventions: the sound is 16 kHz, one channel; times inside it are seconds from its first sample; peaks
and spectrogram are bytes, one column per pixel of the picture.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from nbaudio.audio import encode_clip, read_clip
from nbaudio.audio.pydub_bridge import normalize_loudness
from nbaudio.core.errors import AudioError, InputError
from nbaudio.storage.remote import Remote

RATE = 16000
# A live clip is never longer, whatever a table says: it would be minutes of samples to send.
LONGEST_S = 120.0
MOST_CONTEXT_S = 30.0

_MOST_COLUMNS = 4096
_FRAME = 512  # 32 ms: harmonics of a voice apart, words still sharp
BANDS = _FRAME // 4
_QUIETEST_DB, _LOUDEST_DB = -100.0, -25.0


@dataclass(frozen=True)
class Sound:
    """A window of a recording to play and to draw.

    Attributes:
        wav: a complete WAV file, 16 kHz, one channel.
        peaks: int8, shape (columns, 2): least and greatest sample of each column.
        spectrogram: uint8, shape (columns, `BANDS`): level of each band from 0 to 8 kHz, lowest first.
        first: first sample of the window, at the recording's own rate.
        seconds: its length.
        start: where the segment begins in it, in seconds.
        end: where the segment ends in it, in seconds.
        cut: whether the segment is longer than what is played.
    """

    wav: bytes
    peaks: NDArray[np.int8]
    spectrogram: NDArray[np.uint8]
    first: int
    seconds: float
    start: float
    end: float
    cut: bool


def read_sound(
    root: Path | Remote | None,
    row: dict[str, Any],
    *,
    before: float = 0.0,
    after: float = 0.0,
    channel: str | None = None,
    even: bool = True,
    columns: int = 800,
) -> Sound:
    """Read a segment with some of what is around it.

    Args:
        root: where the recordings are; None without audio.
        row: of a segment: `recording_path`, `start_sample`, `end_sample`, `sampling_rate`, `num_samples`, and `source_channel`
            where it has one.
        before: seconds in front of it.
        after: seconds behind it.
        channel: ``mix``, ``left`` or ``right``; None takes the segment's own, else the mix.
        even: bring it to one loudness; False plays it as it was recorded.
        columns: columns of peaks and spectrogram.

    Raises:
        AudioError: there is nothing to hear; says why.
        InputError: `before`, `after` or `columns` are not usable.
    """
    if not (0 <= before <= MOST_CONTEXT_S and 0 <= after <= MOST_CONTEXT_S):
        raise InputError(f"context of {before:g} s and {after:g} s: both must be from 0 to {MOST_CONTEXT_S:g} s")
    if not 1 <= columns <= _MOST_COLUMNS:
        raise InputError(f"columns={columns}: must be from 1 to {_MOST_COLUMNS:,}")
    path, start, end, rate, length = (
        row[name] for name in ("recording_path", "start_sample", "end_sample", "sampling_rate", "num_samples")
    )
    if root is None or None in (path, start, end, rate, length):
        raise AudioError("no sound: its recording is not there")
    if not 0 <= start < end <= length:
        raise AudioError("no sound: its times are not inside the recording")
    shown_end = min(end, start + round(LONGEST_S * rate))
    first, last = max(0, start - round(before * rate)), min(length, shown_end + round(after * rate))
    channel = channel or row.get("source_channel") or "mix"
    samples = read_clip(root / path, first, last, num_samples=length, rate=RATE, channel=channel)
    if even:
        samples = normalize_loudness(samples, RATE)
    return Sound(
        wav=encode_clip(samples, RATE, "wav"),
        peaks=peaks(samples, columns),
        spectrogram=spectrogram(samples, columns),
        first=first,
        seconds=len(samples) / RATE,
        start=(start - first) / rate,
        end=(shown_end - first) / rate,
        cut=shown_end < end,
    )


def peaks(samples: NDArray[np.int16], columns: int) -> NDArray[np.int8]:
    """Least and greatest sample of each of `columns` stretches of equal length.

    Returns:
        int8 of shape (columns, 2), full scale is 127.

    Examples:
        >>> peaks(np.array([0, 32767, -32768, 0], dtype=np.int16), 2).tolist()
        [[0, 127], [-128, 0]]
    """
    # Fewer samples than columns: some stand in several.
    starts = np.arange(columns) * len(samples) // columns
    both = np.stack([np.minimum.reduceat(samples, starts), np.maximum.reduceat(samples, starts)], axis=1)
    return (both >> 8).astype(np.int8)


def spectrogram(samples: NDArray[np.int16], columns: int) -> NDArray[np.uint8]:
    """Levels of frequency bands over time.

    Returns:
        uint8 of shape (columns, `BANDS`), lowest band first, 0 for -100 dB below full scale and less, 255 for -25 dB and more.

    Examples:
        >>> tone = (100 * np.sin(2 * np.pi * 1000 / RATE * np.arange(RATE))).astype(np.int16)
        >>> int(spectrogram(tone, 10)[5].argmax()) * RATE // (2 * BANDS)
        1000
    """
    padded = np.pad(samples, (_FRAME // 2, _FRAME // 2 + 1))
    centres = ((np.arange(columns) + 0.5) * len(samples) / columns).astype(np.int64)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME)[centres]
    window = np.hanning(_FRAME).astype(np.float32) / (_FRAME / 4 * 32768)
    spectrum = fft.rfft(frames * window, axis=1)[:, : 2 * BANDS]  # NumPy's takes five times as long
    power = spectrum.real**2 + spectrum.imag**2
    power = np.maximum(power[:, ::2], power[:, 1::2])
    level = 10 * np.log10(power + np.float32(1e-12))
    share = (level - _QUIETEST_DB) / (_LOUDEST_DB - _QUIETEST_DB)
    levels: NDArray[np.uint8] = (share.clip(0, 1) * 255).astype(np.uint8)
    return levels
