"""Find clips without any signal: digital silence, and channels that cancel in their mix."""

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio.channels import channel_numbers
from nbaudio.audio.decode_errors import NO_SIGNAL
from nbaudio.audio.recording_reader import Recording, Window, on_track

# Channels cancel if their mean has less than this share (-40 dB) of the RMS of the loudest one.
# Encoders leave noise where the mean of the original is zero.
_CANCELLED_SHARE = 0.01
# Louder clips, in steps of 16 bits between the lowest and the highest sample, are no cancelled mix.
_QUIET_RANGE = 2048


def silence_reason(
    recording: Recording, start: int, stop: int, channel: str, clip: NDArray[np.int16]
) -> str | None:
    """Return why a clip has no signal; None if it has one.

    `clip`, shape (samples,), was cut from samples [start, stop) of the recording. A clip has no
    signal if all its samples are equal, or if it is a mix of channels that cancel. Raise AudioError
    if the window cannot be decoded.
    """
    lowest = int(clip.min())
    highest = int(clip.max())
    if highest - lowest > _QUIET_RANGE:
        return None
    recording, channel = on_track(recording, channel)
    numbers = channel_numbers(channel, recording.num_channels)
    if len(numbers) > 1 and is_cancelled(recording.read(start, stop)[:, numbers]):
        return (
            f"{NO_SIGNAL}: the channels cancel in their mix (one is the inverse of the other); "
            "cut one of them, such as by --channel left"
        )
    if highest == lowest:
        return f"{NO_SIGNAL}: all samples are equal (digital silence)"
    return None


def is_cancelled(window: Window) -> bool:
    """Return whether channels, shape (samples, channels), have a signal that their mean has not."""
    if not len(window):
        return False
    samples = window.astype(np.float64)
    samples -= samples.mean(axis=0)
    loudest = float(np.square(samples).mean(axis=0).max())
    mixed = float(np.square(samples.mean(axis=1)).mean())
    return loudest > 0 and mixed < loudest * _CANCELLED_SHARE**2


def has_signal(window: Window) -> bool:
    """Return whether any channel of a window, shape (samples, channels), is not constant."""
    return len(window) > 0 and bool((window != window[0]).any())
