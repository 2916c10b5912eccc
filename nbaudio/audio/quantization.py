"""Quantize samples to 256 levels, as van den Oord et al., "WaveNet", 2016, section 2.2."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from nbaudio.core.errors import InputError

QUANTIZATIONS = ("mulaw", "linear")
_MU = 255
_FULL = 32768


def quantize(samples: NDArray[np.int16], law: str = "mulaw") -> NDArray[np.uint8]:
    """Return the levels of samples of any shape by ``mulaw`` or ``linear``.

    A sample x in [-1, 1] becomes floor((f(x) + 1) / 2 * 255 + 1/2), where f(x) is
    sign(x) ln(1 + 255 |x|) / ln(256) for mu-law, and x for linear.

    Raise InputError for another law.

    Examples:
        >>> quantize(np.array([-32768, -100, 0, 100, 32767], dtype=np.int16)).tolist()
        [0, 114, 128, 141, 255]
    """
    return _tables(law)[0][samples.view(np.uint16)]


def dequantize(levels: NDArray[np.uint8], law: str = "mulaw") -> NDArray[np.int16]:
    """Return the samples of levels of any shape, the inverse of `quantize` up to rounding.

    Raise InputError for an unknown law.

    Examples:
        >>> dequantize(np.array([0, 114, 128, 141, 255], dtype=np.uint8)).tolist()
        [-32768, -103, 3, 103, 32767]
    """
    return _tables(law)[1][levels]


@cache
def _tables(law: str) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
    """Return the level of every sample (by its bits as unsigned) and the sample of every level."""
    if law not in QUANTIZATIONS:
        raise InputError(f"quantization {law!r} is unknown; known are {', '.join(QUANTIZATIONS)}")
    x = np.arange(1 << 16, dtype=np.uint16).view(np.int16) / _FULL
    y = np.arange(_MU + 1) / _MU * 2 - 1
    if law == "mulaw":
        x = np.sign(x) * np.log1p(_MU * np.abs(x)) / np.log1p(_MU)
        y = np.sign(y) * np.expm1(np.abs(y) * np.log1p(_MU)) / _MU
    levels = np.floor((x + 1) / 2 * _MU + 0.5).astype(np.uint8)
    return levels, np.clip(np.rint(y * _FULL), -_FULL, _FULL - 1).astype(np.int16)
