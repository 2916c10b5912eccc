"""Lhotse adapter: a stream as a lazy CutSet whose recordings are in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio import decode_levels, encode_clip
from nbaudio.core.errors import InputError, requires_extra
from nbaudio.reading import Clip, Stream


def cuts(stream: Stream) -> Any:
    """Return a stream as a lazy CutSet.

    ``cut.load_audio()`` returns exactly the clip's samples, which threads have decoded ahead.

    Iterating again repeats the same epoch. Workers of a DataLoader (a sampler in an
    ``IterableDatasetWrapper``) divide the stream. The rank is the stream's: give it either to the
    stream or to the sampler, not to both.

    Each cut has one recording and one supervision, named as the segment, with its text, speaker,
    and all other metadata in ``custom``. Steps that are lists give their cuts one after the other,
    a clip of several windows once for each. With ``give="encoded"`` cuts hold a clip's bytes, and
    Lhotse decodes them.

    Raises:
        MissingExtraError: lhotse is not installed.
        InputError: the stream yields levels, or has started.
    """
    with requires_extra("lhotse"):
        from lhotse import CutSet
    if stream.clips.decode is decode_levels:
        raise InputError("the stream yields levels: create it with give='samples'")
    return CutSet(_Cuts(stream.check_fresh()))


@dataclass(eq=False)
class _Cuts:
    stream: Stream

    def __iter__(self) -> Iterator[Any]:
        from torch.utils.data import get_worker_info

        for step in self.stream.of(self.stream.share, worker=get_worker_info()):
            if isinstance(step, list):
                yield from map(_cut, step)
            else:
                yield _cut(step)


def _cut(clip: Clip) -> Any:
    """Return a clip as a cut of Lhotse, with its audio in memory."""
    from lhotse import MonoCut, Recording, SupervisionSegment
    from lhotse.audio import AudioSource

    row = clip.metadata
    rate = clip.sampling_rate
    samples = cast("NDArray[np.int16]", clip.samples)
    duration = row["num_samples"] / rate
    source = AudioSource("memory", [0], clip.encoded or encode_clip(samples, rate, "wav"))
    recording = Recording(clip.segment_id, [source], rate, row["num_samples"], duration)
    supervision = SupervisionSegment(
        clip.segment_id,
        clip.segment_id,
        0,
        duration,
        text=row["text"],
        speaker=row["speaker_id"],
        custom=row,
    )
    return MonoCut(clip.segment_id, 0, duration, 0, supervisions=[supervision], recording=recording)
