"""Audio and pictures of a segment for widgets.

Times inside a clip are seconds from its first sample.
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
LONGEST_S = 120.0  # seconds of a clip at most, whatever a table says
MOST_CONTEXT_S = 30.0  # seconds before, and after, a segment
MOST_LANES = 8  # channels drawn one below another
_MOST_COLUMNS = 4096  # of a picture
_CACHED_SOUNDS = 4 + MOST_LANES  # the last clips, and the channels of one
BANDS = drawing.BANDS
peaks = drawing.peaks
# NumPy's transform takes three times as long.
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

    The segment begins and ends at `start` and `end`, in seconds from the first of the samples.
    """

    samples: NDArray[np.int16]  # of one channel
    rate: int  # in Hz
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
    """Read a segment of a recording at `RATE`, with context; at most `LONGEST_S` of the segment.

    Args:
        root: the folder or URL of the recordings; None if there is none.
        row: the segment, with columns of its recording: `recording_path`, `start_sample`,
            `end_sample`, `sampling_rate` and `num_samples`; with `source_channel`, if it has one.
        before: seconds of context before the segment.
        after: seconds of context after it.
        channel: the channel to play; that of the segment, or else the mix, unless given.
        even: whether the loudness is normalized, so that clips are equally loud.

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
    """Read at most `LONGEST_S` of a clip of a corpus, at its own rate, as training gets it."""
    clip = corpus.read(segment_id)
    samples = np.asarray(clip.samples, np.int16)[: round(LONGEST_S * clip.rate)]
    return Sound(samples, clip.rate, 0.0, len(samples) / clip.rate)


def _check_columns(columns: int) -> None:
    """Raise InputError if a picture would be too wide."""
    if not 1 <= columns <= _MOST_COLUMNS:
        raise InputError(f"columns={columns}: must be from 1 to {_MOST_COLUMNS:,}")


class Playback:
    """Handler of a player's requests. Subclasses define `segment` and `read`.

    Clips have numbers, from 0. A request can have further options, which `read` gets.
    """

    segment: Callable[..., dict[str, Any]]  # returns facts and words of a clip by its number
    read: Callable[..., Sound]  # reads its audio; raises AudioError where there is none

    def __init__(self) -> None:
        self.calls: dict[str, Handler] = {
            "segment": self.segment,
            "clip": self.clip,
            "picture": self.picture,
        }
        # A request for a part of a picture follows one for the clip, with the same audio.
        self._sound = lru_cache(_CACHED_SOUNDS)(self.read)

    def clip(self, *, number: int, columns: int = 800, **options: Any) -> Response:
        """Return times and pictures of a clip, and its audio.

        The answer has `seconds`, the length of the audio, and `start` and `end` of the segment in
        it. The buffers are peaks and spectrogram of `columns` columns. The buffer that is sent
        later is the audio as a WAV file. If there is no audio, the answer is a note that says why.
        """
        _check_columns(columns)
        try:
            sound = self._sound(number, **options)
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
        """Return pictures of a part of a clip, from `first` to `last` seconds.

        The buffers are peaks and spectrogram. With several `lanes`, the number of channels, there
        are peaks of each channel before the spectrogram.
        """
        _check_columns(columns)
        sound = self._sound(number, **options)
        if not 0 <= first < last:
            raise InputError(f"{first:g} to {last:g} s: not inside the clip")
        num_samples = len(sound.samples)
        begin_share = first * sound.rate / num_samples
        end_share = last * sound.rate / num_samples
        start = min(int(begin_share * num_samples), num_samples - 1)
        stop = max(start + 1, int(end_share * num_samples))
        waves = sound.samples[None]
        if lanes > 1:
            waves = self._channels(number, lanes, options)
        pictures = [peaks(wave[start:stop], columns).tobytes() for wave in waves]
        bands = spectrogram(sound.samples, columns, begin_share, end_share)
        return Response({}, [*pictures, bands.tobytes()], [])

    def _channels(
        self, number: int, num_channels: int, options: Mapping[str, Any]
    ) -> NDArray[np.int16]:
        """Return the channels of a clip, at most `MOST_LANES`, of shape (channels, samples).

        They have their loudness relative to each other; the loudest sample is at full scale.
        """
        channels = np.stack(
            [
                self._sound(number, **{**options, "channel": str(channel), "even": False}).samples
                for channel in range(min(num_channels, MOST_LANES))
            ]
        ).astype(np.float32)
        loudest = max(1.0, float(np.abs(channels).max()))
        return (channels * (32767 / loudest)).astype(np.int16)


def clip_picture(samples: NDArray[np.int16], rate: int) -> bytes:
    """Draw a clip at `rate` Hz, the waveform above the spectrogram up to 8 kHz.

    Return a PNG file of some 10 kB.
    """
    from matplotlib.image import imsave  # takes a moment to import

    opacities = np.concatenate([_draw_waveform(samples), _draw_spectrogram(samples, rate)])
    # Fewer opacities make a smaller file.
    steps = _NUM_OPACITIES - 1
    picture = np.full((*opacities.shape, 4), _COLOR, dtype=np.uint8)
    picture[..., 3] = np.rint(opacities * steps) * (255 // steps)
    file = io.BytesIO()
    imsave(file, picture, format="png", pil_kwargs={"compress_level": 9, "pnginfo": None})
    return file.getvalue()


def _draw_waveform(samples: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Return which pixels are on the waveform, from its least to its greatest sample."""
    extremes = peaks(samples, _PICTURE_WIDTH).astype(np.float32)
    extremes *= 0.95 / max(1.0, float(np.abs(extremes).max()))
    least = extremes[:, 0]
    greatest = extremes[:, 1]
    height = np.linspace(1, -1, _WAVEFORM_HEIGHT)[:, None]  # of a row of pixels
    # Silence is a thin line, not nothing.
    half_line = 1 / _WAVEFORM_HEIGHT
    drawn: NDArray[np.bool_] = (height >= least - half_line) & (height <= greatest + half_line)
    return drawn


def _draw_spectrogram(samples: NDArray[np.int16], rate: int) -> NDArray[np.float64]:
    """Return the opacity of each pixel, from 0 to 1, the highest frequency in the first row."""
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
