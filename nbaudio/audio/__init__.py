"""Read and write audio: probe recordings, read exact windows, cut, encode and decode clips.

Positions are samples per channel at the recording's own rate, half open. A window is an array of shape (samples, channels), int16
where the source has at most 16 bits, else float32 in [-1, 1]. A clip is one channel, shape (samples,), int16.
"""

from nbaudio.audio.encoding import ENCODERS, Encoding, codec_versions, decode_clip, decode_levels, encode_clip, encoder
from nbaudio.audio.probing import Probe, probe
from nbaudio.audio.quantization import dequantize, quantize
from nbaudio.audio.recordings import Recording, open_recording, read_clip, resample_window

__all__ = ["ENCODERS", "Encoding", "Probe", "Recording", "codec_versions", "decode_clip", "decode_levels", "dequantize"]
__all__ += ["encode_clip", "encoder", "open_recording", "probe", "quantize", "read_clip", "resample_window"]
