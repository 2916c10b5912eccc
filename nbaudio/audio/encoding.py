"""Clips to bytes and back: small, complete files of one channel.

``flac`` and ``wav`` keep 16-bit samples and their rate. ``opus`` and ``mp3`` lose some of the sound, not its length: encoders'
delays are told in the files, and decoders take them off again (Opus comes up to an eighth of a millisecond early). ``mulaw`` and
``linear`` are NumPy files (.npy) of 256 levels, uint8, shape (samples,), which know neither their rate nor their law: the corpus
says both.
"""

import io
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import soundfile as sf
import soxr
from numpy.typing import NDArray

from nbaudio.audio.flac import decode_flac
from nbaudio.audio.quantization import QUANTIZATIONS, dequantize, quantize
from nbaudio.core.errors import AudioError, InputError, get_by_name

# Speech of one channel is hard to tell from the original then.
_OPUS_BITS_A_SECOND = 32_000
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
_MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)


class Encoding(NamedTuple):
    """An encoding.

    Attributes:
        extension: of its files.
        encode: samples and rate to bytes.
        decode: bytes to samples and rate (None where it is not told).
        rates: Hz that it can have; any where empty.
    """

    extension: str
    encode: Callable[[NDArray[np.int16], int], bytes]
    decode: Callable[[bytes], tuple[NDArray[np.int16], int | None]]
    rates: tuple[int, ...] = ()

    def check_rate(self, rate: int | None) -> None:
        """Refuse a rate that it cannot have.

        Raises:
            InputError: names those that it can.
        """
        if rate is not None and self.rates and rate not in self.rates:
            raise InputError(f"{self.extension} has no rate of {rate} Hz; it has {', '.join(map(str, self.rates))}")


def _encode_pcm(samples: NDArray[np.int16], rate: int, *, container: str) -> bytes:
    file = io.BytesIO()
    sf.write(file, samples, rate, format=container, subtype="PCM_16")
    return file.getvalue()


def _decode_pcm(data: bytes) -> tuple[NDArray[np.int16], int | None]:
    if found := decode_flac(data):
        return found
    try:
        samples, rate = sf.read(io.BytesIO(data), dtype="int16")
    except sf.LibsndfileError as error:
        raise AudioError(f"an encoded clip of {len(data)} bytes cannot be decoded ({error})") from error
    return samples, rate


def _encode_opus(samples: NDArray[np.int16], rate: int) -> bytes:
    import av

    file = io.BytesIO()
    # Bit-exact: no random number of the stream, no version of the encoder in the file.
    with av.open(file, "w", format="ogg", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libopus", rate=rate, layout="mono")
        stream.bit_rate = _OPUS_BITS_A_SECOND
        stream.codec_context.flags |= av.codec.context.Flags.bitexact.value
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def encode_mp3(samples: NDArray[np.int16], rate: int) -> bytes:
    """A clip as an MP3, about 50 kbit/s at 16 kHz; the same samples give the same bytes.

    Args:
        samples: int16, shape (samples,).
        rate: Hz, one of those that MP3 knows, such as 16000.

    Examples:
        >>> len(encode_mp3(np.zeros(16000, dtype=np.int16), 16000)) < 16000
        True
    """
    file = io.BytesIO()
    sf.write(file, samples, rate, format="MP3", subtype="MPEG_LAYER_III")
    return file.getvalue()


def _encode_levels(samples: NDArray[np.int16], rate: int, *, law: str) -> bytes:
    del rate
    file = io.BytesIO()
    np.save(file, quantize(samples, law), allow_pickle=False)
    return file.getvalue()


def decode_levels(data: bytes) -> NDArray[np.uint8]:
    """Levels of a quantised clip: uint8, shape (samples,).

    Raises:
        AudioError: the bytes are none.
    """
    try:
        levels = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise AudioError(f"{len(data)} bytes are no levels of a clip ({error})") from error
    if levels.dtype != np.uint8 or levels.ndim != 1:
        raise AudioError(f"levels of a clip are uint8 of shape (samples,), not {levels.dtype} of shape {levels.shape}")
    found: NDArray[np.uint8] = levels
    return found


def _decode_levels(data: bytes, *, law: str) -> tuple[NDArray[np.int16], int | None]:
    return dequantize(decode_levels(data), law), None


ENCODERS: Mapping[str, Encoding] = MappingProxyType(
    {
        "flac": Encoding("flac", partial(_encode_pcm, container="FLAC"), _decode_pcm),
        "wav": Encoding("wav", partial(_encode_pcm, container="WAV"), _decode_pcm),
        "opus": Encoding("opus", _encode_opus, _decode_pcm, _OPUS_RATES),
        "mp3": Encoding("mp3", encode_mp3, _decode_pcm, _MP3_RATES),
        **{law: Encoding("npy", partial(_encode_levels, law=law), partial(_decode_levels, law=law)) for law in QUANTIZATIONS},
    }
)


def encoder(name: str) -> Encoding:
    """The encoding of that name.

    Raises:
        InputError: there is none; names those that are.
    """
    return get_by_name(ENCODERS, name, "encoding")


def encode_clip(samples: NDArray[np.int16], rate: int, encoding: str = "flac") -> bytes:
    """A clip as the bytes of a complete file; the same samples give the same bytes.

    Args:
        samples: int16, shape (samples,).
        rate: Hz.
        encoding: a key of `ENCODERS`.

    Examples:
        >>> clip = np.arange(-500, 500, dtype=np.int16)
        >>> bool((decode_clip(encode_clip(clip, 16000))[0] == clip).all())
        True
    """
    return encoder(encoding).encode(samples, rate)


def decode_clip(data: bytes, encoding: str = "flac") -> tuple[NDArray[np.int16], int | None]:
    """Samples (int16, shape (samples,)) and rate (Hz; None where the encoding does not tell) of an encoded clip.

    Args:
        data: what `encode_clip` gave.
        encoding: a key of `ENCODERS`; ``flac`` reads ``wav`` too.

    Raises:
        AudioError: the bytes are not a whole clip.

    Examples:
        >>> clip = np.array([0, 100, -20000], dtype=np.int16)
        >>> decode_clip(encode_clip(clip, 8000, "mulaw"), "mulaw")[0].tolist()
        [3, 103, -20260]
    """
    return encoder(encoding).decode(data)


def codec_versions() -> dict[str, str]:
    """The versions of the libraries that decode, resample and encode: other versions may give other bytes."""
    import av

    return {
        "libsndfile": sf.__libsndfile_version__,
        "soxr": soxr.__libsoxr_version__,
        "ffmpeg": av.ffmpeg_version_info,
    }
