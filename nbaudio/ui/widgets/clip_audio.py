"""Audio and pictures of a segment for widgets.

Times inside a clip are seconds from its first sample.
"""

import io
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from nbaudio.audio import drawing, encode_clip, read_clip
from nbaudio.audio.pydub_bridge import normalize_loudness
from nbaudio.core.errors import AudioError, InputError
from nbaudio.reading import Corpus
from nbaudio.storage.location import LocationLike, location
from nbaudio.ui.widgets.base_widget import Handler, Response

RATE = 16000
LONGEST_S = 120.0  # seconds of a clip at most, whatever a table says
MOST_CONTEXT_S = 30.0
MOST_LANES = 8  # channels drawn one below another
_CACHED_SOUNDS = 4 + MOST_LANES
_MOST_COLUMNS = 4096
BANDS = drawing.BANDS
peaks = drawing.peaks
# NumPy's transform takes three times as long.
spectrogram = partial(drawing.spectrogram, rfft=fft.rfft)

# Pictures of saved pages have one color, the louder, the less transparent, to be legible on light
# and on dark pages.
_WIDTH = 400
_WAVE = 40
_BANDS = 40
_HIGHEST_HZ = 8000
_COLOR = (0x2B, 0x86, 0xC4, 0)  # at least 3:1 on white and on the darkest gray
_LEVELS = 16
# Levels of a spectrogram below this share are not drawn: noise makes most of the bytes.
_LEAST = 0.25

Row = dict[str, Any]


class Sound(NamedTuple):
    """Audio that a player plays, at `rate` Hz; its segment lasts from `start` to `end`, seconds."""

    samples: NDArray[np.int16]
    rate: int
    start: float
    end: float


def read_sound(
    root: LocationLike | None,
    row: Row,
    *,
    before: float = 0.0,
    after: float = 0.0,
    channel: str | None = None,
    even: bool = True,
) -> Sound:
    """Read at most `LONGEST_S` of a segment at `RATE` with context (seconds).

    `channel` is by default that of the segment, or the mix. `even` normalizes the loudness. Raise
    AudioError, with the reason, where there is no audio.
    """
    if not (0 <= before <= MOST_CONTEXT_S and 0 <= after <= MOST_CONTEXT_S):
        raise InputError(
            f"context of {before:g} s and {after:g} s: both must be from 0 to {MOST_CONTEXT_S:g} s"
        )
    path = row["recording_path"]
    start = row["start_sample"]
    end = row["end_sample"]
    rate = row["sampling_rate"]
    length = row["num_samples"]
    if root is None or None in (path, start, end, rate, length):
        raise AudioError("no sound: its recording is missing")
    if not 0 <= start < end <= length:
        raise AudioError("no sound: its times are not inside the recording")
    shown_end = min(end, start + round(LONGEST_S * rate))
    first = max(0, start - round(before * rate))
    last = min(length, shown_end + round(after * rate))
    channel = channel or row.get("source_channel") or "mix"
    samples = read_clip(
        location(root) / path, first, last, num_samples=length, rate=RATE, channel=channel
    )
    if even:
        samples = normalize_loudness(samples, RATE)
    return Sound(samples, RATE, (start - first) / rate, (shown_end - first) / rate)


def corpus_sound(corpus: Corpus, segment_id: str) -> Sound:
    """Read at most `LONGEST_S` of a clip of a corpus, at its own rate, as training gets it."""
    clip = corpus.read(segment_id)
    samples = np.asarray(clip.samples, np.int16)[: round(LONGEST_S * clip.rate)]
    return Sound(samples, clip.rate, 0.0, len(samples) / clip.rate)


def _check_columns(columns: int) -> None:
    """Raise InputError if a picture would be too wide."""
    if not 1 <= columns <= _MOST_COLUMNS:
        raise InputError(f"columns={columns}: must be from 1 to {_MOST_COLUMNS:,}")


class Playback:
    """Handler of a player's requests; subclasses read the audio."""

    segment: Callable[..., dict[str, Any]]  # returns facts and words of a segment
    read: Callable[..., Sound]  # reads its audio; raises AudioError where there is none

    def __init__(self) -> None:
        self.calls: dict[str, Handler] = {
            "segment": self.segment,
            "clip": self.clip,
            "picture": self.picture,
        }
        # A zoomed picture is drawn from the window that is playing.
        self._sound = lru_cache(_CACHED_SOUNDS)(self.read)

    def clip(self, *, number: int, columns: int = 800, **options: Any) -> Response:
        """Return length, start and end of a segment, its peaks and spectrogram, and later its WAV.

        If it has no audio, return a note that says why.
        """
        _check_columns(columns)
        try:
            sound = self._sound(number, **options)
        except AudioError as error:
            return Response({"note": str(error)}, [], [])
        drawn = [
            peaks(sound.samples, columns).tobytes(),
            spectrogram(sound.samples, columns).tobytes(),
        ]
        facts = {"seconds": len(sound.samples) / sound.rate, "start": sound.start, "end": sound.end}
        return Response(facts, drawn, [encode_clip(sound.samples, sound.rate, "wav")])

    def picture(
        self,
        *,
        number: int,
        first: float,
        last: float,
        columns: int,
        lanes: int = 1,
        **options: Any,
    ) -> Response:
        """Return peaks and spectrogram of a clip from `first` to `last` seconds.

        With several `lanes` there are peaks of each channel.
        """
        _check_columns(columns)
        sound = self._sound(number, **options)
        if not 0 <= first < last:
            raise InputError(f"{first:g} to {last:g} s: not inside the clip")
        begin, end = (share * sound.rate / len(sound.samples) for share in (first, last))
        start = min(int(begin * len(sound.samples)), len(sound.samples) - 1)
        stop = max(start + 1, int(end * len(sound.samples)))
        waves = sound.samples[None]
        if lanes > 1:
            options_of_lanes = [
                options | {"channel": str(channel), "even": False}
                for channel in range(min(lanes, MOST_LANES))
            ]
            waves = np.stack(
                [self._sound(number, **lane_options).samples for lane_options in options_of_lanes]
            ).astype(np.float32)
            waves = (waves * (32767 / max(1.0, float(np.abs(waves).max())))).astype(np.int16)
        drawn = [peaks(wave[start:stop], columns).tobytes() for wave in waves]
        return Response({}, [*drawn, spectrogram(sound.samples, columns, begin, end).tobytes()], [])


def clip_picture(samples: NDArray[np.int16], rate: int) -> bytes:
    """Draw waveform and spectrogram of a clip at `rate` Hz, up to 8 kHz, as a PNG of some 10 kB."""
    wave = peaks(samples, _WIDTH).astype(np.float32)
    wave *= 0.95 / max(1.0, float(np.abs(wave).max()))
    rows = np.linspace(1, -1, _WAVE)[:, None]
    half = 1 / _WAVE
    drawn = (rows >= wave[:, 0] - half) & (rows <= wave[:, 1] + half)
    shown = max(_BANDS, min(BANDS, round(BANDS * 2 * _HIGHEST_HZ / rate)))
    starts = np.arange(_BANDS) * shown // _BANDS
    bands = (
        np.maximum.reduceat(spectrogram(samples, _WIDTH)[:, :shown], starts, axis=1).T[::-1] / 255
    )
    levels = (bands - _LEAST).clip(0, 1)
    levels /= max(0.3, float(levels.max()))
    levels = np.rint(np.concatenate([drawn, levels]) * (_LEVELS - 1)) * (255 // (_LEVELS - 1))
    from matplotlib.image import imsave  # takes a moment to import

    picture = np.full((*levels.shape, 4), _COLOR, dtype=np.uint8)
    out = io.BytesIO()
    picture[..., 3] = levels
    imsave(out, picture, format="png", pil_kwargs={"compress_level": 9, "pnginfo": None})
    return out.getvalue()
