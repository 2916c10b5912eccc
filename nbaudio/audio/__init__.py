"""Read and write audio: probe recordings, read exact windows, cut, encode and decode clips.

Positions are samples per channel at the recording's own rate, half open. A window is an array of shape (samples, channels), int16
where the source has at most 16 bits, else float32 in [-1, 1]. A clip is one channel, shape (samples,), int16.
"""

from typing import TYPE_CHECKING

from nbaudio.core import lazy_imports

if TYPE_CHECKING:
    from nbaudio.audio.encoding import ENCODERS as ENCODERS
    from nbaudio.audio.encoding import Encoding as Encoding
    from nbaudio.audio.encoding import codec_versions as codec_versions
    from nbaudio.audio.encoding import decode_clip as decode_clip
    from nbaudio.audio.encoding import decode_levels as decode_levels
    from nbaudio.audio.encoding import encode_clip as encode_clip
    from nbaudio.audio.encoding import encoder as encoder
    from nbaudio.audio.probing import Probe as Probe
    from nbaudio.audio.probing import probe as probe
    from nbaudio.audio.quantization import dequantize as dequantize
    from nbaudio.audio.quantization import quantize as quantize
    from nbaudio.audio.recordings import Recording as Recording
    from nbaudio.audio.recordings import open_recording as open_recording
    from nbaudio.audio.recordings import read_clip as read_clip
    from nbaudio.audio.recordings import resample_window as resample_window

__getattr__, __dir__, __all__ = lazy_imports.attach(__name__)
