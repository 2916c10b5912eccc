"""Audio and pictures of a segment for widgets: what a player plays and draws.

Times inside a clip are seconds from the first sample that is played, which is one of the context if
there is any.
"""

import io
from collections.abc import Callable, Mapping
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

RATE = 16000  # Hz, at which segments of a workspace are played
LONGEST_S = 120.0  # seconds of a segment that are played, however long a table says it is
MOST_CONTEXT_S = 30.0  # seconds before, and as many after, a segment
MOST_LANES = 8  # channels that are drawn, one below another
_MOST_COLUMNS = 4096  # of a picture
_CACHED_SOUNDS = 4 + MOST_LANES  # the last clips, and the channels of one
BANDS = drawing.BANDS
peaks = drawing.peaks
# SciPy's transform takes a third of the time of NumPy's.
spectrogram = partial(drawing.spectrogram, rfft=fft.rfft)

# The picture of a clip in a saved page, in pixels. It has one color, which can be seen on light and
# on dark pages; what is louder is less transparent.
_PICTURE_WIDTH = 400
_WAVEFORM_HEIGHT = 40
_SPECTROGRAM_HEIGHT = 40
_HIGHEST_HZ = 8000
_COLOR = (0x2B, 0x86, 0xC4, 0)  # at least 3:1 on white and on the darkest gray
_NUM_OPACITIES = 16
# Levels below this share of the loudest possible one are not drawn: noise would make most of the
# bytes.
_LEAST_LEVEL = 0.25
# The loudest level of a clip is opaque, unless it is less than this above `_LEAST_LEVEL`: the noise
# of a silent clip stays pale.
_LEAST_LOUDEST = 0.3

Row = dict[str, Any]


class Sound(NamedTuple):
    """Audio that a player plays: a segment with context.

    Attributes:
        samples: one channel, of shape (samples,).
        rate: their sampling rate in Hz.
        start: where the segment begins, in seconds from the first sample.
        end: where it ends.
    """

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
    """Read a segment of a recording at `RATE`, with context.

    Of the segment, the first `LONGEST_S` are read. Context beyond the recording is left out.

    Args:
        root: the folder or URL of the recordings; None if there is none.
        row: the segment, with columns of its recording: `recording_path`, `start_sample`,
            `end_sample`, `sampling_rate` and `num_samples`; with `source_channel`, if it has one.
        before: seconds of context before the segment.
        after: seconds of context after it.
        channel: the channel to play; by default that of the segment, or else the mix.
        even: normalize the loudness, so that clips are equally loud.

    Raises:
        InputError: the context is longer than `MOST_CONTEXT_S`.
        AudioError: there is no audio; the message is the reason.
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
    """Read the first `LONGEST_S` of a clip of a corpus, at its own rate, as training gets it."""
    clip = corpus.read(segment_id)
    samples = np.asarray(clip.samples, np.int16)[: round(LONGEST_S * clip.rate)]
    return Sound(samples, clip.rate, 0.0, len(samples) / clip.rate)


class Playback:
    """Handler of a player's requests about clips, which have numbers, from 0.

    Subclasses define two methods, which take the options that they know:

    - `segment(*, number)` returns facts and words of a clip;
    - `read(number, **options)` returns its audio, or raises AudioError with the reason. The options
      are those of `read_sound` but for `root` and `row`.

    Attributes:
        calls: the handlers by the names of requests, for `BaseWidget`.
    """

    segment: Callable[..., dict[str, Any]]
    read: Callable[..., Sound]

    def __init__(self) -> None:
        self.calls: dict[str, Handler] = {
            "segment": self.segment,
            "clip": self.clip,
            "picture": self.picture,
        }
        # A request for a part of a picture follows one for the clip, with the same audio.
        self._read_cached = lru_cache(_CACHED_SOUNDS)(self.read)

    def clip(self, *, number: int, columns: int = 800, **options: Any) -> Response:
        """Return times and pictures of a clip, and later its audio.

        Args:
            number: the number of the clip.
            columns: the width of the pictures in pixels.
            options: as for `read`.

        Returns:
            The answer has `seconds`, the length of the audio, and `start` and `end` of the segment
            in it; without audio only `note`, the reason. The buffers are `peaks` and `spectrogram`,
            and later the audio as a WAV file.
        """
        _check_columns(columns)
        try:
            sound = self._read_cached(number, **options)
        except AudioError as error:
            return Response({"note": str(error)}, [], [])
        times = {"seconds": len(sound.samples) / sound.rate, "start": sound.start, "end": sound.end}
        pictures = [
            peaks(sound.samples, columns).tobytes(),
            spectrogram(sound.samples, columns).tobytes(),
        ]
        return Response(times, pictures, [encode_clip(sound.samples, sound.rate, "wav")])

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
        """Return pictures of a part of a clip, without audio.

        Args:
            number: the number of the clip.
            first: where the part begins, in seconds from the first sample.
            last: where it ends.
            columns: the width of the pictures in pixels.
            lanes: the number of channels that are drawn one below another; 1 draws the channel that
                is played.
            options: as for `read`.

        Returns:
            The buffers are `peaks` of each lane, and `spectrogram` of the channel that is played.
        """
        _check_columns(columns)
        sound = self._read_cached(number, **options)
        if not 0 <= first < last:
            raise InputError(f"{first:g} to {last:g} s: not inside the clip")
        num_samples = len(sound.samples)
        # Shares of the clip, as `spectrogram` takes them; at least one sample is drawn.
        begin_share = first * sound.rate / num_samples
        end_share = last * sound.rate / num_samples
        start = min(int(begin_share * num_samples), num_samples - 1)
        stop = max(start + 1, int(end_share * num_samples))
        if lanes > 1:
            waves = self._read_channels(number, min(lanes, MOST_LANES), options)
        else:
            waves = sound.samples[np.newaxis]
        pictures = [peaks(wave[start:stop], columns).tobytes() for wave in waves]
        bands = spectrogram(sound.samples, columns, begin_share, end_share)
        return Response({}, [*pictures, bands.tobytes()], [])

    def _read_channels(
        self, number: int, num_channels: int, options: Mapping[str, Any]
    ) -> NDArray[np.int16]:
        """Return the first channels of a clip, of shape (channels, samples).

        One gain for all keeps their loudness relative to each other: the loudest sample of all is
        at full scale.
        """
        sounds = [
            self._read_cached(number, **{**options, "channel": str(channel), "even": False})
            for channel in range(num_channels)
        ]
        channels = np.stack([sound.samples for sound in sounds]).astype(np.float32)
        loudest = max(1.0, float(np.abs(channels).max()))
        return (channels * (32767 / loudest)).astype(np.int16)


def _check_columns(columns: int) -> None:
    """Raise InputError if a picture would be too wide."""
    if not 1 <= columns <= _MOST_COLUMNS:
        raise InputError(f"columns={columns}: must be from 1 to {_MOST_COLUMNS:,}")


def clip_picture(samples: NDArray[np.int16], rate: int) -> bytes:
    """Draw a clip at `rate` Hz, the waveform above the spectrogram up to 8 kHz.

    Return a PNG file of some 10 kB.
    """
    from matplotlib.image import imsave  # takes a moment to import

    opacities = np.concatenate([_waveform_pixels(samples), _spectrogram_opacities(samples, rate)])
    # Fewer opacities make a smaller file.
    steps = _NUM_OPACITIES - 1
    picture = np.full((*opacities.shape, 4), _COLOR, dtype=np.uint8)
    picture[..., 3] = np.rint(opacities * steps) * (255 // steps)
    file = io.BytesIO()
    # Level 9 would take 40 ms instead of 3, for a tenth of the bytes.
    imsave(file, picture, format="png", pil_kwargs={"compress_level": 6, "pnginfo": None})
    return file.getvalue()


def _waveform_pixels(samples: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Return which pixels are on the waveform, from its least to its greatest sample.

    The result has shape (`_WAVEFORM_HEIGHT`, `_PICTURE_WIDTH`).
    """
    extremes = peaks(samples, _PICTURE_WIDTH).astype(np.float32)
    extremes *= 0.95 / max(1.0, float(np.abs(extremes).max()))
    least = extremes[:, 0]
    greatest = extremes[:, 1]
    height = np.linspace(1, -1, _WAVEFORM_HEIGHT)[:, None]  # of a row of pixels
    # Silence is a thin line, not nothing.
    half_line = 1 / _WAVEFORM_HEIGHT
    pixels: NDArray[np.bool_] = (height >= least - half_line) & (height <= greatest + half_line)
    return pixels


def _spectrogram_opacities(samples: NDArray[np.int16], rate: int) -> NDArray[np.float64]:
    """Return the opacity of each pixel of the spectrogram, from 0 to 1.

    The result has shape (`_SPECTROGRAM_HEIGHT`, `_PICTURE_WIDTH`), the highest frequency in the
    first row.
    """
    # The bands reach up to half the rate.
    num_bands = round(BANDS * 2 * _HIGHEST_HZ / rate)
    num_bands = max(_SPECTROGRAM_HEIGHT, min(BANDS, num_bands))
    levels = spectrogram(samples, _PICTURE_WIDTH)[:, :num_bands]
    # A row of pixels shows the loudest of its bands.
    first_bands = np.arange(_SPECTROGRAM_HEIGHT) * num_bands // _SPECTROGRAM_HEIGHT
    rows = np.maximum.reduceat(levels, first_bands, axis=1).T[::-1]
    opacities: NDArray[np.float64] = (rows / 255 - _LEAST_LEVEL).clip(0, 1)
    opacities /= max(_LEAST_LOUDEST, float(opacities.max()))
    return opacities
