"""Read and write audio: probe recordings, read exact windows, cut, encode and decode clips.

Positions are samples per channel at the recording's own rate, half open. A window is an array of
shape (samples, channels), int16 where the source has at most 16 bits, else float32 in [-1, 1]. A
clip is one channel, shape (samples,), int16.
"""

from typing import TYPE_CHECKING

from nbaudio.core import lazy_imports

if TYPE_CHECKING:  # isort: off
    from nbaudio.audio.encoding import (
        ENCODERS as ENCODERS,
        Encoding as Encoding,
        codec_versions as codec_versions,
    )
    from nbaudio.audio.encoding import (
        decode_clip as decode_clip,
        decode_levels as decode_levels,
        encode_clip as encode_clip,
    )
    from nbaudio.audio.encoding import encoder as encoder
    from nbaudio.audio.probing import Probe as Probe, probe as probe
    from nbaudio.audio.quantization import dequantize as dequantize, quantize as quantize
    from nbaudio.audio.recording_reader import (
        Recording as Recording,
        open_recording as open_recording,
    )
    from nbaudio.audio.resampling import read_clip as read_clip, resample_window as resample_window

__getattr__, __dir__, __all__ = lazy_imports.attach(__name__)
