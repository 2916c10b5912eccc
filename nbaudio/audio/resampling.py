"""Cut clips of recordings: one channel, one rate and 16 bits."""

from math import gcd

import numpy as np
import soxr
from numpy.typing import NDArray

from nbaudio.audio.channels import channel_numbers
from nbaudio.audio.recording_reader import (
    Recording,
    Window,
    on_track,
    open_recording,
    read_around,
)
from nbaudio.core.errors import AudioError
from nbaudio.core.times import rescale
from nbaudio.storage.location import LocationLike

# Seconds read on each side when resampling; measured: from 0.01 s on, 8 to 48 kHz clips equal a
# conversion of the whole.
CONTEXT_S = 0.03


def read_clip(
    path: LocationLike,
    start: int,
    stop: int,
    *,
    num_samples: int | None = None,
    rate: int | None = 16000,
    channel: str = "mix",
) -> NDArray[np.int16]:
    """Cut one clip of a recording file.

    See `resample_window`, which cuts many clips of an open recording.

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
        return resample_window(
            recording, start, stop, num_samples=num_samples, rate=rate, channel=channel
        )


def resample_window(
    recording: Recording,
    start: int,
    stop: int,
    *,
    num_samples: int | None = None,
    rate: int | None = 16000,
    channel: str = "mix",
) -> NDArray[np.int16]:
    """Return samples [start, stop) of an open recording as one channel, shape (samples,).

    `start` and `stop` count samples at the recording's own rate. Each of them is converted to
    `rate` on its own, rounded half up; None keeps the recording's rate. Nothing is read beyond
    `num_samples`, the recording's length where it is known, as that may be a trailer. `channel` is
    as in `nbaudio.audio.channels`.

    Raises:
        AudioError: the window cannot be decoded or has no sample at `rate`, or the channel does not
            exist.
        InputError: an unknown channel.
    """
    track, own_channel = on_track(recording, channel)
    return _resampled(track, start, stop, num_samples=num_samples, rate=rate, channel=own_channel)


def _resampled(
    recording: Recording,
    start: int,
    stop: int,
    *,
    num_samples: int | None,
    rate: int | None,
    channel: str,
) -> NDArray[np.int16]:
    """See `resample_window`; `channel` is one of this track."""
    old_rate = recording.sampling_rate
    new_rate = rate or recording.sampling_rate
    first = rescale(start, old_rate, new_rate)
    last = rescale(stop, old_rate, new_rate)
    if first >= last:
        raise AudioError(f"samples {start} to {stop} are less than one sample at {new_rate:,} Hz")
    begin = start
    end = stop
    offset = 0
    if new_rate != old_rate:
        # Blocks of `old_block` samples become whole blocks of `new_block` samples: cutting at
        # blocks keeps the output grid.
        old_block = old_rate // gcd(old_rate, new_rate)
        new_block = new_rate // gcd(old_rate, new_rate)
        context = int(CONTEXT_S * old_rate) + old_block
        first_block = max(0, start - context) // old_block
        begin = first_block * old_block
        offset = first_block * new_block
        end = stop + context
        if num_samples is not None:
            end = min(num_samples, end)
    window = read_around(recording, start, stop, begin, end)
    mono, scale = _one_channel(window, channel)
    if new_rate != old_rate:
        mono = soxr.resample(mono.astype(np.float32, copy=False), old_rate, new_rate, quality="HQ")[
            first - offset : last - offset
        ]
    return _to_int16(mono, scale)


def _one_channel(window: Window, channel: str) -> tuple[Window, float]:
    """Return one channel and its factor to int16 full scale.

    It is exact, and not copied unless it has to be.
    """
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
    """Scale samples to int16 and clip them; raise AudioError for NaN."""
    if mono.dtype == np.int16:
        return np.ascontiguousarray(mono)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = mono * np.float32(scale)
    if np.isnan(scaled).any():
        raise AudioError("contains values that are not numbers (NaN or infinity)")
    return np.clip(np.rint(scaled, out=scaled), -32768, 32767, out=scaled).astype(np.int16)
