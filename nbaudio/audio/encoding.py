"""Encode clips of one channel to complete small files and decode them.

Lossy files declare their encoder delay.
"""

import io
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio.quantization import QUANTIZATIONS, dequantize, quantize
from nbaudio.core.errors import AudioError, InputError, get_by_name
from nbaudio.core.interrupts import interrupts_deferred

# Hard to distinguish from the original, for one channel of speech. Samples come up to an eighth of
# a millisecond early.
_OPUS_BITS_A_SECOND = 32_000
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
_MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)


class Encoding(NamedTuple):
    """An encoding of clips; `rates` are those supported, in Hz, or empty if any is.

    `decode` returns samples and rate; the rate is None if the file does not declare it. A clip of
    speech has about `bits_a_sample` for each sample, and `bits_a_second` for each second.
    """

    extension: str
    encode: Callable[[NDArray[np.int16], int], bytes]
    decode: Callable[[bytes | memoryview], tuple[NDArray[np.int16], int | None]]
    rates: tuple[int, ...] = ()
    bits_a_sample: int = 0
    bits_a_second: int = 0

    def check_rate(self, rate: int | None) -> None:
        """Raise InputError, with the supported rates, for a rate that is not among them."""
        if rate is not None and self.rates and rate not in self.rates:
            raise InputError(
                f"{self.extension} has no rate of {rate} Hz; it has "
                f"{', '.join(map(str, self.rates))}"
            )


def _write_pcm(
    samples: NDArray[np.int16], rate: int, *, container: str, subtype: str = "PCM_16"
) -> bytes:
    """Return a clip as a file that libsndfile writes; the container is ``WAV`` or ``FLAC``."""
    import soundfile as sf

    file = io.BytesIO()
    sf.write(file, samples, rate, format=container, subtype=subtype)
    return file.getvalue()


def _decode_pcm(encoded: bytes | memoryview) -> tuple[NDArray[np.int16], int | None]:
    """Decode WAV or FLAC; raise AudioError for a damaged file."""
    if encoded[:4] == b"fLaC" and (decoded := _decode_flac(encoded)):
        return decoded
    import soundfile as sf

    try:
        samples, rate = sf.read(io.BytesIO(encoded), dtype="int16")
    except (sf.LibsndfileError, MemoryError) as error:
        raise AudioError(
            f"an encoded clip of {len(encoded)} bytes cannot be decoded ({error})"
        ) from error
    return samples, rate


def _decode_flac(encoded: bytes | memoryview) -> tuple[NDArray[np.int16], int] | None:
    """Decode FLAC of one channel and 16 bits by dr_flac, twice as fast as libsndfile.

    Return None for any other FLAC, and for a damaged one.
    """
    ffi, lib = _dr_flac()
    flac = lib.ma_dr_flac_open_memory(ffi.from_buffer(encoded), len(encoded), ffi.NULL)
    if not flac:
        return None
    try:
        count = flac.totalPCMFrameCount
        if flac.channels != 1 or flac.bitsPerSample != 16 or not count:
            return None
        samples = np.empty(count, np.int16)
        if (
            lib.ma_dr_flac_read_pcm_frames_s16(flac, count, ffi.from_buffer("short[]", samples))
            == count
        ):
            return samples, flac.sampleRate
    except (MemoryError, ValueError):  # a damaged header
        pass
    finally:
        lib.ma_dr_flac_close(flac)
    return None


@cache
def _dr_flac() -> tuple[Any, Any]:
    import miniaudio  # whose own functions copy all samples while they hold the interpreter

    return miniaudio.ffi, miniaudio.lib


def _encode_opus(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return a clip as an Ogg file with Opus; equal samples give equal bytes."""
    import av

    file = io.BytesIO()
    # Bit-exact: no random stream number and no encoder version in the file.
    with av.open(file, "w", format="ogg", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libopus", rate=rate, layout="mono")
        stream.bit_rate = _OPUS_BITS_A_SECOND
        stream.codec_context.flags |= av.codec.context.Flags.bitexact.value
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], format="s16", layout="mono")
        frame.sample_rate = rate
        frame.pts = 0
        frame.time_base = Fraction(1, rate)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def _encode_levels(samples: NDArray[np.int16], _rate: int, *, law: str) -> bytes:
    file = io.BytesIO()
    np.save(file, quantize(samples, law), allow_pickle=False)
    return file.getvalue()


def decode_levels(data: bytes | memoryview) -> NDArray[np.uint8]:
    """Return the levels of a quantized clip: uint8, shape (samples,).

    Raise AudioError for anything else.
    """
    try:
        levels: NDArray[np.uint8] = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise AudioError(f"{len(data)} bytes are not the levels of a clip ({error})") from error
    if levels.dtype != np.uint8 or levels.ndim != 1:
        raise AudioError(
            "levels of a clip are uint8 of shape (samples,), "
            f"not {levels.dtype} of shape {levels.shape}"
        )
    return levels


def _decode_levels(
    encoded: bytes | memoryview, *, law: str
) -> tuple[NDArray[np.int16], int | None]:
    return dequantize(decode_levels(encoded), law), None


ENCODERS: Mapping[str, Encoding] = MappingProxyType(
    {
        "flac": Encoding(
            "flac", partial(_write_pcm, container="FLAC"), _decode_pcm, bits_a_sample=9
        ),
        "wav": Encoding("wav", partial(_write_pcm, container="WAV"), _decode_pcm, bits_a_sample=16),
        "opus": Encoding(
            "opus", _encode_opus, _decode_pcm, _OPUS_RATES, bits_a_second=_OPUS_BITS_A_SECOND
        ),
        "mp3": Encoding(
            "mp3",
            partial(_write_pcm, container="MP3", subtype="MPEG_LAYER_III"),
            _decode_pcm,
            _MP3_RATES,
            bits_a_sample=3,
        ),
        **{
            law: Encoding(
                "npy",
                partial(_encode_levels, law=law),
                partial(_decode_levels, law=law),
                bits_a_sample=8,
            )
            for law in QUANTIZATIONS
        },
    }
)


def encoder(name: str) -> Encoding:
    """Return the encoding of a name; raise InputError with the known names."""
    return get_by_name(ENCODERS, name, "encoding")


def encode_clip(samples: NDArray[np.int16], rate: int, encoding: str = "flac") -> bytes:
    """Encode a clip, shape (samples,), at `rate` Hz as a complete file by a key of `ENCODERS`.

    Equal samples give equal bytes.

    Examples:
        >>> clip = np.arange(-500, 500, dtype=np.int16)
        >>> bool((decode_clip(encode_clip(clip, 16000))[0] == clip).all())
        True
    """
    with interrupts_deferred():
        return encoder(encoding).encode(samples, rate)


def decode_clip(
    data: bytes | memoryview, encoding: str = "flac"
) -> tuple[NDArray[np.int16], int | None]:
    """Return the samples, shape (samples,), and the rate (Hz) of bytes from `encode_clip`.

    The rate is None where the file does not declare it. `encoding` is a key of `ENCODERS`; ``flac``
    reads ``wav`` too. Raise AudioError where the bytes are not a complete clip.
    """
    with interrupts_deferred():
        return encoder(encoding).decode(data)


def codec_versions() -> dict[str, str]:
    """Return the versions of the libraries that decode, resample and encode.

    Other versions may give other bytes.
    """
    import av
    import soundfile as sf
    import soxr

    return {
        "libsndfile": sf.__libsndfile_version__,
        "soxr": soxr.__libsoxr_version__,
        "ffmpeg": av.ffmpeg_version_info,
    }
