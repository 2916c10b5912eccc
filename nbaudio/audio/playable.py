"""`pydub.AudioSegment` that plays in a notebook without ffmpeg; imported when one is made, as pydub is."""

import warnings
from base64 import b64encode

import numpy as np

from nbaudio.audio.encoding import encode_clip

with warnings.catch_warnings():  # it warns where there is no ffmpeg, and of its own old syntax
    warnings.simplefilter("ignore")
    from pydub import AudioSegment


class PlayableSegment(AudioSegment):  # type: ignore[misc]
    """An `AudioSegment`, and what is cut or made of it, that shows itself as an audio element."""

    def _repr_html_(self) -> str:
        """An audio element that holds the sound as FLAC of 16 bits; pydub's own asks ffmpeg for an MP3."""
        samples = np.frombuffer(self.set_sample_width(2).raw_data, "<i2").reshape(-1, self.channels)
        data = b64encode(encode_clip(samples, self.frame_rate, "flac")).decode("ascii")
        return f'<audio controls src="data:audio/flac;base64,{data}"></audio>'
