"""Small pictures of clips for saved pages: waveform above spectrogram, as PNG.

One color on a transparent background, so that they are legible on light and on dark pages: the louder, the less transparent.
"""

import struct
import zlib
from base64 import b64encode
from html import escape

import numpy as np
from numpy.typing import NDArray

from nbaudio.ui.widgets.clip_audio import BANDS, peaks, spectrogram

_WIDTH, _WAVE, _BANDS = 400, 40, 40
_HIGHEST_HZ = 8000
_COLOR = bytes((0x2B, 0x86, 0xC4))  # at least 3:1 on white and on the darkest gray
_LEVELS = 16
# Levels of a spectrogram below this share are not drawn: noise makes most of the bytes.
_LEAST = 0.25


def clip_picture(samples: NDArray[np.int16], rate: int) -> bytes:
    """Draw waveform and spectrogram of a clip at `rate` Hz, up to 8 kHz, as a PNG of some 10 kB.

    Examples:
        >>> clip_picture(np.zeros(16000, dtype=np.int16), 16000)[1:4]
        b'PNG'
    """
    wave = peaks(samples, _WIDTH).astype(np.float32)
    wave *= 0.95 / max(1.0, float(np.abs(wave).max()))
    rows = np.linspace(1, -1, _WAVE)[:, None]
    half = 1 / _WAVE
    drawn = (rows >= wave[:, 0] - half) & (rows <= wave[:, 1] + half)
    shown = max(_BANDS, min(BANDS, round(BANDS * 2 * _HIGHEST_HZ / rate)))
    starts = np.arange(_BANDS) * shown // _BANDS
    bands = np.maximum.reduceat(spectrogram(samples, _WIDTH)[:, :shown], starts, axis=1).T[::-1] / 255
    levels = (bands - _LEAST).clip(0, 1)
    levels /= max(0.3, float(levels.max()))
    image = np.concatenate([drawn, levels]) * (_LEVELS - 1)
    return _png(np.rint(image).astype(np.uint8))


def _png(image: NDArray[np.uint8]) -> bytes:
    """Encode an image of `_LEVELS` levels of opacity, shape (height, width), an even number of columns."""
    height, width = image.shape
    packed = (image[:, ::2] << 4) | image[:, 1::2]
    scanlines = np.pad(packed, ((0, 0), (1, 0))).tobytes()  # each begins with its filter, 0
    opacity = bytes(255 * i // (_LEVELS - 1) for i in range(_LEVELS))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 4, 3, 0, 0, 0)),
        (b"PLTE", _COLOR * _LEVELS),
        (b"tRNS", opacity),
        (b"IDAT", zlib.compress(scanlines, 9)),
        (b"IEND", b""),
    )
    framed = (struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def picture_html(picture: bytes, segment_id: str, style: str = "") -> str:
    """Return an image element that holds a picture of a clip."""
    alt = f"waveform and spectrogram of {escape(segment_id)}"
    return f'<img alt="{alt}" style="display:block;{style}" src="data:image/png;base64,{b64encode(picture).decode()}" />'
