"""`pydub.AudioSegment` that plays in a notebook without ffmpeg; a module of its own, since it imports pydub."""

import warnings
from base64 import b64encode

import numpy as np

from nbaudio.audio.encoding import encode_clip

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
