"""Convert clips to pydub and back, and normalize their loudness, without ffmpeg; used for listening only, never for shards.

Samples are int16, shape (samples,) for one channel, else (samples, channels). Levels are dBFS; loudness is the root mean square.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbaudio.core.errors import InputError

if TYPE_CHECKING:
    from pydub import AudioSegment

    from nbaudio.audio.playable import PlayableSegment


def to_audiosegment(samples: NDArray[np.int16], rate: int) -> "PlayableSegment":
    """Convert a clip or window to a `pydub.AudioSegment` that plays in a notebook without ffmpeg.

    Args:
        samples: int16, shape (samples,) or (samples, channels).
        rate: Hz.

    Raises:
        InputError: another dtype or shape.
    """
    if samples.dtype != np.int16 or samples.ndim not in (1, 2):
        raise InputError(f"samples must be int16 of shape (samples,) or (samples, channels), not {samples.dtype} {samples.shape}")
    from nbaudio.audio.playable import PlayableSegment

    channels = 1 if samples.ndim == 1 else samples.shape[1]
    return PlayableSegment(data=samples.astype("<i2").tobytes(), sample_width=2, frame_rate=rate, channels=channels)


def from_audiosegment(segment: "AudioSegment") -> tuple[NDArray[np.int16], int]:
    """Return samples and rate (Hz) of a `pydub.AudioSegment`, converted to 16 bits."""
    samples = np.frombuffer(segment.set_sample_width(2).raw_data, "<i2").astype(np.int16)
    return (samples if segment.channels == 1 else samples.reshape(-1, segment.channels)), int(segment.frame_rate)


def normalize_loudness(
    samples: NDArray[np.int16], rate: int, *, loudness_db: float = -20.0, peak_db: float = -1.0
) -> NDArray[np.int16]:
    """Bring a clip to a loudness (dBFS), so that clips of many recordings can be compared by ear; silence stays silence.

    No sample exceeds `peak_db` (dBFS), which takes precedence over `loudness_db`.
    """
    segment = to_audiosegment(samples, rate)
    if not segment.max:
        return samples
    gain = min(loudness_db - segment.dBFS, peak_db - segment.max_dBFS)
    return from_audiosegment(segment.apply_gain(gain))[0]
