"""Clips to pydub and back, and two things that pydub does for listening: silence off the ends, one loudness for all.

Nothing here needs an ffmpeg on the machine, and nothing here touches a corpus: clips in shards stay as they were recorded.

Conventions: samples are int16, shape (samples,) for one channel, else (samples, channels); levels are dB below full scale (dBFS),
loudness is the root mean square.
"""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbaudio.core.errors import InputError

if TYPE_CHECKING:
    from pydub import AudioSegment

    from nbaudio.audio.playable import PlayableSegment

_MS = 1000
_STEP_MS = 10


def to_audiosegment(samples: NDArray[np.int16], rate: int) -> "PlayableSegment":
    """A `pydub.AudioSegment` of a clip or window, which plays in a notebook without ffmpeg.

    Args:
        samples: int16, shape (samples,) or (samples, channels).
        rate: Hz.

    Raises:
        InputError: the samples are not int16 or have another shape.

    Examples:
        >>> segment = to_audiosegment(np.zeros((8000, 2), dtype=np.int16), 16000)
        >>> segment.duration_seconds, segment.channels
        (0.5, 2)
    """
    if samples.dtype != np.int16 or samples.ndim not in (1, 2):
        raise InputError(f"samples must be int16 of shape (samples,) or (samples, channels), not {samples.dtype} {samples.shape}")
    from nbaudio.audio.playable import PlayableSegment

    channels = 1 if samples.ndim == 1 else samples.shape[1]
    return PlayableSegment(data=samples.astype("<i2").tobytes(), sample_width=2, frame_rate=rate, channels=channels)


def from_audiosegment(segment: "AudioSegment") -> tuple[NDArray[np.int16], int]:
    """Samples and rate (Hz) of a `pydub.AudioSegment`; other widths are brought to 16 bits.

    Examples:
        >>> clip = np.array([1, -2, 3], dtype=np.int16)
        >>> from_audiosegment(to_audiosegment(clip, 16000))
        (array([ 1, -2,  3], dtype=int16), 16000)
    """
    samples = np.frombuffer(segment.set_sample_width(2).raw_data, "<i2").astype(np.int16)
    return (samples if segment.channels == 1 else samples.reshape(-1, segment.channels)), int(segment.frame_rate)


def trim_silence(samples: NDArray[np.int16], rate: int, *, below_db: float = -45.0, keep_s: float = 0.1) -> NDArray[np.int16]:
    """Take silence off both ends.

    Args:
        samples: int16, shape (samples,) or (samples, channels).
        rate: Hz.
        below_db: stretches of 10 ms whose loudness is less are silence, dBFS.
        keep_s: seconds of silence that stay at each end.

    Returns:
        A view of `samples`; empty where all is silence.

    Examples:
        >>> clip = np.zeros(16000, dtype=np.int16)
        >>> clip[6400:8000] = 9000
        >>> trim_silence(clip, 16000, keep_s=0.05).shape
        (3200,)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pydub.silence import detect_leading_silence
    segment = to_audiosegment(samples, rate)
    leading = detect_leading_silence(segment, below_db, _STEP_MS)
    if leading >= len(segment):
        return samples[:0]
    trailing = detect_leading_silence(segment.reverse(), below_db, _STEP_MS)
    keep = round(keep_s * rate)
    first, last = leading * rate // _MS - keep, len(samples) - trailing * rate // _MS + keep
    return samples[max(0, first) : last]


def normalize_loudness(
    samples: NDArray[np.int16], rate: int, *, loudness_db: float = -20.0, peak_db: float = -1.0
) -> NDArray[np.int16]:
    """Bring a clip to a loudness, so that clips from many recordings can be listened to one after the other.

    Args:
        samples: int16, shape (samples,) or (samples, channels).
        rate: Hz.
        loudness_db: the root mean square wanted, dBFS.
        peak_db: the loudest sample stays below; it wins over `loudness_db`.

    Returns:
        The same shape; silence stays silence.

    Examples:
        >>> quiet = np.tile(np.array([100, -100], dtype=np.int16), 8000)
        >>> normalize_loudness(quiet, 16000, loudness_db=-20)[:2].tolist()
        [3276, -3277]
    """
    segment = to_audiosegment(samples, rate)
    if not segment.max:
        return samples
    gain = min(loudness_db - segment.dBFS, peak_db - segment.max_dBFS)
    return from_audiosegment(segment.apply_gain(gain))[0]
