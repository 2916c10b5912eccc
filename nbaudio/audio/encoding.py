"""Clips to bytes and back: small, complete files of one channel."""

import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import av
import numpy as np
import soundfile as sf
import soxr
from numpy.typing import NDArray

from nbaudio.errors import AudioError, InputError


class Encoding(NamedTuple):
    """How libsndfile names an encoding, and the extension of its files."""

    format: str
    subtype: str
    extension: str


ENCODERS: Mapping[str, Encoding] = MappingProxyType(
    {
        "flac": Encoding("FLAC", "PCM_16", "flac"),
        "wav": Encoding("WAV", "PCM_16", "wav"),
    }
)


def encoder(name: str) -> Encoding:
    """The encoding of that name.

    Raises:
        InputError: there is none; names those that are.
    """
    if name not in ENCODERS:
        raise InputError(f"encoding {name!r} is unknown; known are {', '.join(ENCODERS)}")
    return ENCODERS[name]


def encode_clip(samples: NDArray[np.int16], rate: int, encoding: Literal["flac", "wav"] | str = "flac") -> bytes:
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
    target = encoder(encoding)
    file = io.BytesIO()
    sf.write(file, samples, rate, format=target.format, subtype=target.subtype)
    return file.getvalue()


def decode_clip(data: bytes) -> tuple[NDArray[np.int16], int]:
    """Samples (int16, shape (samples,)) and rate (Hz) of an encoded clip.

    Raises:
        AudioError: the bytes are not a whole clip.
    """
    try:
        samples, rate = sf.read(io.BytesIO(data), dtype="int16")
    except sf.LibsndfileError as error:
        raise AudioError(f"an encoded clip of {len(data)} bytes cannot be decoded ({error})") from error
    return samples, rate


def versions() -> dict[str, str]:
    """The versions of the libraries that decode, resample and encode: other versions may give other bytes."""
    return {
        "libsndfile": sf.__libsndfile_version__,
        "soxr": soxr.__libsoxr_version__,
        "ffmpeg": av.ffmpeg_version_info,
    }
