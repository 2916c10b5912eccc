"""Audio and pictures of a segment for widgets; times inside a clip are seconds from its first sample."""

import struct
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from nbaudio.audio import drawing, encode_clip, open_recording, read_clip
from nbaudio.audio.pydub_bridge import normalize_loudness
from nbaudio.audio.recordings import MOST_SAMPLES
from nbaudio.core.errors import AudioError, InputError
from nbaudio.storage.location import Location, LocationLike, location
from nbaudio.ui.widgets.base import Handler, Response

RATE = 16000
LONGEST_S = 120.0  # of a live clip, whatever a table says
MOST_CONTEXT_S = 30.0
MOST_LANES = 8  # channels drawn one below another
_CACHED_SOUNDS = 4
_MOST_COLUMNS = 4096
BANDS, peaks = drawing.BANDS, drawing.peaks
spectrogram = partial(drawing.spectrogram, rfft=fft.rfft)  # NumPy's transform takes three times as long

# Pictures of saved pages have one color, the louder, the less transparent, to be legible on light and on dark pages.
_WIDTH, _WAVE, _BANDS = 400, 40, 40
_HIGHEST_HZ = 8000
_COLOR = bytes((0x2B, 0x86, 0xC4))  # at least 3:1 on white and on the darkest gray
_LEVELS = 16
_LEAST = 0.25  # levels of a spectrogram below this share are not drawn: noise makes most of the bytes

Row = dict[str, Any]


class Sound(NamedTuple):
    """Audio that a player plays, at `rate` Hz; its segment lasts from `start` to `end`, seconds."""

    samples: NDArray[np.int16]
    rate: int
    start: float
    end: float


def read_window(
    root: LocationLike | None, row: Row, *, longest_s: float, channel: str | None = None, **context: float
) -> tuple[NDArray[np.int16], int, int]:
    """Read at most `longest_s` seconds of a segment at `RATE` with the context of `_window`; by default its channel, or the mix.

    Also returns the first sample of the window and the sample where the segment ends or is cut, at the recording's rate.
    """
    place, first, shown_end, last = _window(root, row, longest_s, **context)
    channel = channel or row.get("source_channel") or "mix"
    return read_clip(place, first, last, num_samples=row["num_samples"], rate=RATE, channel=channel), first, shown_end


def _window(
    root: LocationLike | None, row: Row, longest_s: float, before: float = 0.0, after: float = 0.0
) -> tuple[Location, int, int, int]:
    """Return a segment's recording, the first sample of its window with context (seconds), where segment and window end."""
    path, start, end = row["recording_path"], row["start_sample"], row["end_sample"]
    rate, length = row["sampling_rate"], row["num_samples"]
    if root is None or None in (path, start, end, rate, length):
        raise AudioError("no sound: its recording is missing")
    if not 0 <= start < end <= length:
        raise AudioError("no sound: its times are not inside the recording")
    shown_end = min(end, start + round(longest_s * rate))
    first, last = max(0, start - round(before * rate)), min(length, shown_end + round(after * rate))
    return location(root) / path, first, shown_end, last


def read_sound(
    root: LocationLike | None, row: Row, *, before: float = 0.0, after: float = 0.0, channel: str | None = None, even: bool = True
) -> Sound:
    """Read a segment with its context, see `read_window`; `even` normalizes its loudness."""
    if not (0 <= before <= MOST_CONTEXT_S and 0 <= after <= MOST_CONTEXT_S):
        raise InputError(f"context of {before:g} s and {after:g} s: both must be from 0 to {MOST_CONTEXT_S:g} s")
    samples, first, shown_end = read_window(root, row, longest_s=LONGEST_S, before=before, after=after, channel=channel)
    if even:
        samples = normalize_loudness(samples, RATE)
    start, end = ((place - first) / row["sampling_rate"] for place in (row["start_sample"], shown_end))
    return Sound(samples, RATE, start, end)


def read_lanes(root: LocationLike | None, row: Row, *, before: float = 0.0, after: float = 0.0) -> NDArray[np.int16]:
    """Read the window of `read_sound` at its own rate: (samples, channels), at most `MOST_LANES`, the peak at full scale."""
    place, first, _, last = _window(root, row, LONGEST_S, before, after)
    with open_recording(place, windows=1, share=(last - first) / row["num_samples"]) as recording:
        if (last - first) * recording.num_channels > MOST_SAMPLES:
            seconds = (last - first) / recording.sampling_rate
            raise AudioError(f"{recording.num_channels} channels of {seconds:.0f} s are too many")
        window = np.nan_to_num(recording.read(first, last)[:, :MOST_LANES].astype(np.float32))
    loudest = float(np.abs(window).max(initial=0))
    return (window * np.float32(32767 / loudest)).astype(np.int16) if loudest else np.zeros(window.shape, dtype=np.int16)


def _check_columns(columns: int) -> None:
    if not 1 <= columns <= _MOST_COLUMNS:
        raise InputError(f"columns={columns}: must be from 1 to {_MOST_COLUMNS:,}")


class Playback:
    """Handler of a player's requests; subclasses read the audio."""

    segment: Callable[..., dict[str, Any]]  # returns facts and words of a segment
    read: Callable[..., Sound]  # reads its audio; raises AudioError where there is none

    def __init__(self) -> None:
        self.calls: dict[str, Handler] = {"segment": self.segment, "clip": self.clip, "picture": self.picture}
        self._sound = lru_cache(_CACHED_SOUNDS)(self.read)  # a zoomed picture is drawn from the window that is playing
        self._lanes = lru_cache(1)(self.read_lanes)

    def read_lanes(self, number: int, *, before: float, after: float) -> NDArray[np.int16]:
        """Read the same with all channels, shape (samples, channels)."""
        raise NotImplementedError

    def clip(self, *, number: int, columns: int = 800, **options: Any) -> Response:
        """Return length, start and end of a segment, its peaks and spectrogram, later its WAV; or a note why it has no audio."""
        _check_columns(columns)
        try:
            sound = self._sound(number, **options)
        except AudioError as error:
            return Response({"note": str(error)}, [], [])
        drawn = [peaks(sound.samples, columns).tobytes(), spectrogram(sound.samples, columns).tobytes()]
        facts = {"seconds": len(sound.samples) / sound.rate, "start": sound.start, "end": sound.end}
        return Response(facts, drawn, [encode_clip(sound.samples, sound.rate, "wav")])

    def picture(self, *, number: int, first: float, last: float, columns: int, lanes: bool = False, **options: Any) -> Response:
        """Return peaks, of each channel with `lanes`, and spectrogram of a clip from `first` to `last` seconds, as buffers."""
        _check_columns(columns)
        sound = self._sound(number, **options)
        if not 0 <= first < last:
            raise InputError(f"{first:g} to {last:g} s: not inside the clip")
        window = self._lanes(number, before=options["before"], after=options["after"]) if lanes else sound.samples[:, None]
        begin, end = (share * sound.rate / len(sound.samples) for share in (first, last))
        drawn = [peaks(_part(lane, begin, end), columns).tobytes() for lane in window.T]
        return Response({}, [*drawn, spectrogram(sound.samples, columns, begin, end).tobytes()], [])


def _part(samples: NDArray[np.int16], begin: float, end: float) -> NDArray[np.int16]:
    """Return the samples between two shares of them, at least one."""
    start = min(int(begin * len(samples)), len(samples) - 1)
    return samples[start : max(start + 1, int(end * len(samples)))]


def clip_picture(samples: NDArray[np.int16], rate: int) -> bytes:
    """Draw waveform and spectrogram of a clip at `rate` Hz, up to 8 kHz, as a PNG of some 10 kB."""
    wave = peaks(samples, _WIDTH).astype(np.float32)
    wave *= 0.95 / max(1.0, float(np.abs(wave).max()))
    rows, half = np.linspace(1, -1, _WAVE)[:, None], 1 / _WAVE
    drawn = (rows >= wave[:, 0] - half) & (rows <= wave[:, 1] + half)
    shown = max(_BANDS, min(BANDS, round(BANDS * 2 * _HIGHEST_HZ / rate)))
    starts = np.arange(_BANDS) * shown // _BANDS
    bands = np.maximum.reduceat(spectrogram(samples, _WIDTH)[:, :shown], starts, axis=1).T[::-1] / 255
    levels = (bands - _LEAST).clip(0, 1)
    levels /= max(0.3, float(levels.max()))
    return _png(np.rint(np.concatenate([drawn, levels]) * (_LEVELS - 1)).astype(np.uint8))


def _png(image: NDArray[np.uint8]) -> bytes:
    """Encode an image of `_LEVELS` levels of opacity, shape (height, width), an even number of columns."""
    height, width = image.shape
    scanlines = np.pad((image[:, ::2] << 4) | image[:, 1::2], ((0, 0), (1, 0))).tobytes()  # each begins with its filter, 0
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 4, 3, 0, 0, 0)),
        (b"PLTE", _COLOR * _LEVELS),
        (b"tRNS", bytes(255 * i // (_LEVELS - 1) for i in range(_LEVELS))),
        (b"IDAT", zlib.compress(scanlines, 9)),
        (b"IEND", b""),
    )
    framed = (struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)
