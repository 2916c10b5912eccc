"""Audio in and out: what a recording is, exact windows of it, one channel at one rate, encoded clips.

Conventions: positions are samples per channel at the recording's own rate, half open; a window is an array of shape
(samples, channels), int16 where the source holds no more than 16 bits, else float32 in [-1, 1]; a clip is one channel,
shape (samples,), int16.
"""

from nbaudio.audio.clips import read_clip, resample_window
from nbaudio.audio.encoding import (
    ENCODERS,
    Encoding,
    codec_versions,
    decode_clip,
    decode_levels,
    encode_clip,
    encode_mp3,
    encoder,
)
from nbaudio.audio.probing import Probe, probe
from nbaudio.audio.quantization import dequantize, quantize
from nbaudio.audio.recordings import Recording, open_recording

__all__ = [
    "ENCODERS",
    "Encoding",
    "Probe",
    "Recording",
    "codec_versions",
    "decode_clip",
    "decode_levels",
    "dequantize",
    "encode_clip",
    "encode_mp3",
    "encoder",
    "open_recording",
    "probe",
    "quantize",
    "read_clip",
    "resample_window",
]
