"""Clips to bytes and back: small, complete files of one channel.

``flac`` and ``wav`` keep 16-bit samples and their rate. ``mulaw`` and ``linear`` are NumPy files (.npy) of 256 levels, uint8,
shape (samples,), which know neither their rate nor their law: the corpus says both.
"""

import io
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import av
import numpy as np
import soundfile as sf
import soxr
from numpy.typing import NDArray

from nbaudio.audio.flac import decode_flac
from nbaudio.audio.quantising import LAWS, quantise, restore
from nbaudio.errors import AudioError, look_up


class Encoding(NamedTuple):
    """An encoding: the extension of its files, samples and rate to bytes, bytes to samples and rate (None where not told)."""

    extension: str
    encode: Callable[[NDArray[np.int16], int], bytes]
    decode: Callable[[bytes], tuple[NDArray[np.int16], int | None]]


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


def _encode_levels(samples: NDArray[np.int16], rate: int, *, law: str) -> bytes:
    del rate
    file = io.BytesIO()
    np.save(file, quantise(samples, law), allow_pickle=False)
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
    return restore(decode_levels(data), law), None


ENCODERS: Mapping[str, Encoding] = MappingProxyType(
    {
        "flac": Encoding("flac", partial(_encode_pcm, container="FLAC"), _decode_pcm),
        "wav": Encoding("wav", partial(_encode_pcm, container="WAV"), _decode_pcm),
        **{law: Encoding("npy", partial(_encode_levels, law=law), partial(_decode_levels, law=law)) for law in LAWS},
    }
)


def encoder(name: str) -> Encoding:
    """The encoding of that name.

    Raises:
        InputError: there is none; names those that are.
    """
    return look_up(ENCODERS, name, "encoding")


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


def encode_mp3(samples: NDArray[np.int16], rate: int) -> bytes:
    """A clip as an MP3 to be heard by people, about 50 kbit/s at 16 kHz; the same samples give the same bytes.

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


def versions() -> dict[str, str]:
    """The versions of the libraries that decode, resample and encode: other versions may give other bytes."""
    return {
        "libsndfile": sf.__libsndfile_version__,
        "soxr": soxr.__libsoxr_version__,
        "ffmpeg": av.ffmpeg_version_info,
    }
