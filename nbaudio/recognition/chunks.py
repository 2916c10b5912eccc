"""Cut recordings at pauses into chunks for a recognizer.

Samples are int16 at 16 kHz, positions count them from the start of the recording. Decisions are
made by frames of 20 ms. A chunk is at most some samples long, and chunks do not overlap. They cover
all but digital silence: samples that differ by at most 2 of 65,536 levels for 1 s or longer, of
which 0.2 s stay with the sound before and after.

A longer stretch of sound is cut in the second half of the longest chunk, in the last pause there:
the last place whose power, over 0.3 s, is within 3 dB of the lowest, and around it the quietest.
Where the first half is quieter by 10 dB, the second has no pause, and the first half is cut. What
is left at the end is at least 1 s long.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

RATE = 16000
#: Samples of a frame; edges of chunks are multiples of it, but for the end of a recording.
FRAME = 320
FRAME_S = FRAME / RATE
#: The limits of the longest chunk.
LEAST_SECONDS = 5.0
MOST_SECONDS = 600.0

_PAUSE = 15  # frames whose power is compared
_SILENT_LEVELS = 2  # by which the samples of a digitally silent frame differ at most
_SILENT_RUN = 50  # frames of digital silence that are left out
_SILENT_EDGE = 10  # frames of it that stay beside sound
_LEAST_REST = 50  # frames behind a cut
_PAUSE_RATIO = 10.0  # of the power of speech to that of a pause
_ALIKE_RATIO = 2  # of the power of one pause to that of another as good
_EARLIEST_SHARE = 8  # the first cut is behind this part of the longest chunk

Samples = NDArray[np.int16]
_Powers = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """Samples of a recording from the position `start`, shape (samples,)."""

    start: int
    samples: Samples

    @property
    def stop(self) -> int:
        """The position behind the last sample."""
        return self.start + len(self.samples)


class _Use(Enum):
    SEND = "send"
    LEAVE_OUT = "leave out"


@dataclass(frozen=True)
class _Cut:
    """How many of the first samples belong together, and whether they are a chunk."""

    num_samples: int
    use: _Use


@dataclass(frozen=True)
class _Frames:
    """Frames of 20 ms: the power without DC of each, as integers, and whether it is silent."""

    powers: _Powers
    are_silent: NDArray[np.bool_]

    @classmethod
    def of(cls, samples: Samples) -> "_Frames":
        """Divide samples into whole frames; a rest is left out."""
        frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
        wide = frames.astype(np.int64)
        # Integers, so that the sums are the same on every machine; 320 * 320 * 2^30 fits.
        powers = FRAME * np.square(wide).sum(axis=1) - np.square(wide.sum(axis=1))
        differences = frames.max(axis=1).astype(np.int32) - frames.min(axis=1)
        return cls(powers, differences <= _SILENT_LEVELS)


def cut_chunks(blocks: Iterable[Chunk], longest: int) -> Iterator[Chunk]:
    """Yield the chunks of blocks of samples, whose length does not matter.

    Blocks are in order; a chunk ends where the next block does not follow at once. `longest` is in
    samples.
    """
    pending = Chunk(0, np.empty(0, np.int16))
    for block in blocks:
        if block.start == pending.stop:
            pending = Chunk(pending.start, np.concatenate([pending.samples, block.samples]))
        else:
            yield from _cut_off(pending, longest, is_end=True).chunks
            pending = block
        cut_off = _cut_off(pending, longest, is_end=False)
        yield from cut_off.chunks
        pending = cut_off.rest
    yield from _cut_off(pending, longest, is_end=True).chunks


@dataclass(frozen=True)
class _CutOff:
    """Chunks that were cut off, and the rest behind them."""

    chunks: list[Chunk]
    rest: Chunk


def _cut_off(pending: Chunk, longest: int, *, is_end: bool) -> _CutOff:
    """Cut off the chunks that do not depend on samples that follow; at the end, all."""
    chunks: list[Chunk] = []
    rest = pending
    while len(rest.samples):
        cut = _next_cut(rest.samples, longest // FRAME, is_end=is_end)
        if cut is None:
            break
        if cut.use is _Use.SEND:
            chunks.append(Chunk(rest.start, rest.samples[: cut.num_samples]))
        rest = Chunk(rest.start + cut.num_samples, rest.samples[cut.num_samples :])
    return _CutOff(chunks, rest)


def quietest_place(samples: Samples) -> int:
    """Return the number of the sample in the middle of the quietest 0.3 s, a multiple of `FRAME`.

    It is 0 where there is no whole frame.
    """
    powers = _smoothed(_Frames.of(samples).powers)
    return _last_lowest(powers, 0, len(powers)) * FRAME


def _next_cut(pending: Samples, longest: int, *, is_end: bool) -> _Cut | None:
    """Return the first cut of samples; None where it depends on samples that follow.

    `longest` is in frames.
    """
    frames = _Frames.of(pending)
    num_frames = len(frames.powers)
    leading = _leading_silence(frames.are_silent)
    if leading == num_frames and is_end:
        return _Cut(len(pending), _Use.LEAVE_OUT)
    if leading >= _SILENT_RUN:
        return _Cut((leading - _SILENT_EDGE) * FRAME, _Use.LEAVE_OUT)
    if num_frames < longest + 2 * _LEAST_REST and not is_end:
        return None
    end_of_sound = _first_silence(frames.are_silent, longest, is_end=is_end)
    if end_of_sound is not None:
        return _Cut(end_of_sound * FRAME, _Use.SEND)
    if num_frames < longest or (num_frames == longest and len(pending) == longest * FRAME):
        return _Cut(len(pending), _Use.SEND)
    last = min(longest, num_frames - _LEAST_REST)
    return _Cut(_cut_in_sound(frames.powers, longest, last) * FRAME, _Use.SEND)


def _leading_silence(are_silent: NDArray[np.bool_]) -> int:
    """Return the number of silent frames at the beginning."""
    loud = np.flatnonzero(~are_silent)
    return int(loud[0]) if len(loud) else len(are_silent)


def _first_silence(are_silent: NDArray[np.bool_], longest: int, *, is_end: bool) -> int | None:
    """Return the frame at which a chunk ends because of digital silence; None without one.

    Silence at the end of the recording counts however short it is.
    """
    edges = np.flatnonzero(np.diff(np.r_[False, are_silent, False].astype(np.int8)))
    for first, end in edges.reshape(-1, 2):
        reaches_end = is_end and end == len(are_silent)
        is_long = end - first >= _SILENT_RUN or (reaches_end and end - first > _SILENT_EDGE)
        if first and is_long and first + _SILENT_EDGE <= longest:
            return int(first) + _SILENT_EDGE
    return None


def _cut_in_sound(powers: _Powers, longest: int, last: int) -> int:
    """Return the frame at which sound without silence is cut, at most `last`."""
    smoothed = _smoothed(powers)
    middle = longest // 2
    late = _last_pause(smoothed, middle, last + 1)
    early = _last_pause(smoothed, longest // _EARLIEST_SHARE, middle)
    if float(smoothed[early]) * _PAUSE_RATIO < float(smoothed[late]):
        return early
    return late


def _last_pause(smoothed: _Powers, first: int, end: int) -> int:
    """Return the quietest frame of the last pause among the frames [first, end)."""
    part = smoothed[first:end]
    is_quiet = part <= _ALIKE_RATIO * part.min()
    last = int(np.flatnonzero(is_quiet)[-1])
    loud = np.flatnonzero(~is_quiet[:last])
    start = int(loud[-1]) + 1 if len(loud) else 0
    return _last_lowest(smoothed, first + start, first + last + 1)


def _smoothed(powers: _Powers) -> _Powers:
    """Return the power of the 0.3 s around the beginning of each frame."""
    sums = np.r_[0, np.cumsum(powers)]
    numbers = np.arange(len(powers))
    first = np.maximum(numbers - _PAUSE // 2, 0)
    end = np.minimum(numbers + _PAUSE - _PAUSE // 2, len(powers))
    # At the edges there are fewer frames: their mean counts.
    smoothed: _Powers = (sums[end] - sums[first]) // (end - first)
    return smoothed


def _last_lowest(values: _Powers, first: int, end: int) -> int:
    """Return the number of the last of the lowest values in [first, end); `first` if empty."""
    backwards = values[first:end][::-1]
    return first + len(backwards) - 1 - int(backwards.argmin()) if len(backwards) else first
