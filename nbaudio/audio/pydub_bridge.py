"""Convert clips to pydub and back, and normalize their loudness (RMS, dBFS), for listening only; imported on demand."""

import warnings
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio.encoding import encode_clip
from nbaudio.core.errors import InputError

with warnings.catch_warnings():  # pydub warns of a missing ffmpeg and of its own old syntax
    warnings.simplefilter("ignore")
    from pydub import AudioSegment


class PlayableSegment(AudioSegment):  # type: ignore[misc]
    """An `AudioSegment` that displays as an audio element, as do all segments derived from it."""

    def _repr_html_(self) -> str:
        """Return an audio element with 16-bit FLAC; pydub's own needs ffmpeg to encode an MP3."""
        samples = np.frombuffer(self.set_sample_width(2).raw_data, "<i2").reshape(-1, self.channels)
        data = b64encode(encode_clip(samples, self.frame_rate, "flac")).decode("ascii")
        return f'<audio controls src="data:audio/flac;base64,{data}"></audio>'


def to_audiosegment(samples: NDArray[np.int16], rate: int) -> PlayableSegment:
    """Return samples at `rate` Hz as an `AudioSegment` that plays in a notebook; raise InputError for another dtype or shape."""
    if samples.dtype != np.int16 or samples.ndim not in (1, 2):
        raise InputError(f"samples must be int16 of shape (samples,) or (samples, channels), not {samples.dtype} {samples.shape}")
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    return PlayableSegment(data=samples.astype("<i2").tobytes(), sample_width=2, frame_rate=rate, channels=channels)


def from_audiosegment(segment: AudioSegment) -> tuple[NDArray[np.int16], int]:
    """Return samples and rate (Hz) of a `pydub.AudioSegment`, converted to 16 bits."""
    samples = np.frombuffer(segment.set_sample_width(2).raw_data, "<i2").astype(np.int16)
    return (samples if segment.channels == 1 else samples.reshape(-1, segment.channels)), int(segment.frame_rate)


def normalize_loudness(
    samples: NDArray[np.int16], rate: int, *, loudness_db: float = -20.0, peak_db: float = -1.0
) -> NDArray[np.int16]:
    """Bring a clip to a loudness (dBFS), but no sample above `peak_db` (dBFS); silence stays silence."""
    segment = to_audiosegment(samples, rate)
    if not segment.max:
        return samples
    gain = min(loudness_db - segment.dBFS, peak_db - segment.max_dBFS)
    return from_audiosegment(segment.apply_gain(gain))[0]
