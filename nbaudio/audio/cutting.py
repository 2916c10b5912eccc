"""Cut clips from recordings: one channel, one rate, 16 bits.

A clip equals, to float rounding, the same stretch of the whole recording converted at once: the resampler gets the samples around
the window, on the same output grid.
"""

from math import gcd

import numpy as np
import soxr
from numpy.typing import NDArray

from nbaudio.audio.recordings import Recording, Window, open_recording
from nbaudio.core.channels import channel_numbers
from nbaudio.core.errors import AudioError
from nbaudio.core.times import rescale
from nbaudio.storage.base import LocationLike

# Seconds read on each side of a window when resampling. Measured: from 0.01 s on, clips from 8 to 48 kHz sources equal the
# conversion of the whole recording to the last bit of rounding.
CONTEXT_S = 0.03
#: Limit of a clip, over all channels: 90 minutes at 48 kHz, 512 MB, which a FLAC of 1 MB holds if it is silent.
MOST_SAMPLES = 1 << 28


def read_clip(
    path: LocationLike, start: int, stop: int, *, num_samples: int | None = None, rate: int | None = 16000, channel: str = "mix"
) -> NDArray[np.int16]:
    """Cut one clip of a recording file; see `resample_window`, which cuts many clips of an open recording.

    Examples:
        >>> import tempfile, soundfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "a.wav"
        >>> soundfile.write(path, np.zeros((48000, 2)), 48000)
        >>> read_clip(path, 12000, 36000).shape
        (8000,)
    """
    share = (stop - start) / num_samples if num_samples else 1.0
    with open_recording(path, windows=1, share=share) as recording:
        return resample_window(recording, start, stop, num_samples=num_samples, rate=rate, channel=channel)


def resample_window(
    recording: Recording, start: int, stop: int, *, num_samples: int | None = None, rate: int | None = 16000, channel: str = "mix"
) -> NDArray[np.int16]:
    """Return samples [start, stop) of an open recording, at its own rate, as one channel at `rate`, shape (samples,).

    Each bound is converted to the new rate on its own, rounded half up; None keeps the recording's. Nothing is read beyond
    `num_samples`, the recording's length where it is known, as that may be a trailer. `channel` is as in `nbaudio.core.channels`.

    Raises:
        AudioError: the window cannot be decoded or has no sample at `rate`, or the channel does not exist.
        InputError: an unknown channel.
    """
    own, new = recording.sampling_rate, rate or recording.sampling_rate
    if (stop - start) * recording.num_channels > MOST_SAMPLES:
        raise AudioError(
            f"samples {start} to {stop} are {(stop - start) / own / 60:,.0f} minutes, too many for one clip; "
            f"at most {MOST_SAMPLES / own / 60 / recording.num_channels:,.0f} of such a recording are taken"
        )
    first, last = rescale(start, own, new), rescale(stop, own, new)
    if first >= last:
        raise AudioError(f"samples {start} to {stop} are less than one sample at {new:,} Hz")
    begin, end, offset = start, stop, 0
    if new != own:
        # Blocks of `own_block` samples become whole blocks of `new_block` samples: cutting at blocks keeps the output grid.
        own_block, new_block = own // gcd(own, new), new // gcd(own, new)
        context = int(CONTEXT_S * own) + own_block
        first_block = max(0, start - context) // own_block
        begin, offset = first_block * own_block, first_block * new_block
        end = stop + context if num_samples is None else min(num_samples, stop + context)
    window = recording.read(begin, end)
    if begin + len(window) < stop:
        raise AudioError(f"samples {start} to {stop} do not exist, the recording ends after {begin + len(window)}")
    mono, scale = _one_channel(window, channel)
    if new != own:
        resampled = soxr.resample(mono.astype(np.float32, copy=False), own, new, quality="HQ")
        mono = resampled[first - offset : last - offset]
    return _to_int16(mono, scale)


def _one_channel(window: Window, channel: str) -> tuple[Window, float]:
    """Return one channel and its factor to int16 full scale: exact, and without a copy where none is needed."""
    scale = 1.0 if window.dtype == np.int16 else 32768.0
    first, *others = channel_numbers(channel, window.shape[1])
    if not others:
        return window[:, first], scale
    with np.errstate(invalid="ignore", over="ignore"):  # `_to_int16` raises for NaN
        mixed = np.add(window[:, first], window[:, others[0]], dtype=np.float32)
        for other in others[1:]:
            mixed += window[:, other]
    return mixed, scale / (1 + len(others))


def _to_int16(mono: Window, scale: float) -> NDArray[np.int16]:
    if mono.dtype == np.int16:
        return np.ascontiguousarray(mono)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = mono * np.float32(scale)
    if np.isnan(scaled).any():
        raise AudioError("contains values that are not numbers (NaN or infinity)")
    return np.clip(np.rint(scaled, out=scaled), -32768, 32767, out=scaled).astype(np.int16)
