"""Convert clips to pydub, and normalize their loudness (RMS, dBFS), for listening only.

The module is imported on demand.
"""

import warnings
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio.encoding import encode_clip

with warnings.catch_warnings():  # pydub warns of a missing ffmpeg and of its own old syntax
    warnings.simplefilter("ignore")
    from pydub import AudioSegment

_LOUDNESS_DB = -20.0
_PEAK_DB = -1.0


class PlayableSegment(AudioSegment):  # type: ignore[misc]
    """An `AudioSegment` that displays as an audio element, as do all segments derived from it."""

    def _repr_html_(self) -> str:
        """Return an audio element with 16-bit FLAC; pydub's own needs ffmpeg to encode an MP3."""
        samples = np.frombuffer(self.set_sample_width(2).raw_data, "<i2").reshape(-1, self.channels)
        encoded = b64encode(encode_clip(samples, self.frame_rate, "flac")).decode("ascii")
        return f'<audio controls src="data:audio/flac;base64,{encoded}"></audio>'


def to_audiosegment(samples: NDArray[np.int16], rate: int) -> PlayableSegment:
    """Return a clip, shape (samples,), as an `AudioSegment` that plays in a notebook.

    `rate` is in Hz.
    """
    return PlayableSegment(
        data=samples.astype("<i2").tobytes(), sample_width=2, frame_rate=rate, channels=1
    )


def normalize_loudness(samples: NDArray[np.int16], rate: int) -> NDArray[np.int16]:
    """Bring a clip to a loudness of -20 dBFS, with no sample above -1 dBFS.

    Silence stays silence.
    """
    segment = to_audiosegment(samples, rate)
    if not segment.max:
        return samples
    louder = segment.apply_gain(min(_LOUDNESS_DB - segment.dBFS, _PEAK_DB - segment.max_dBFS))
    return np.frombuffer(louder.raw_data, "<i2").astype(np.int16)
