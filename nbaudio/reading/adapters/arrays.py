"""Clips and padded batches as dictionaries of NumPy arrays, for JAX and for the other adapters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from nbaudio.core.errors import InputError, get_by_name
from nbaudio.reading import Clip, Stream

Dtype = Literal["float32", "int16"]

_FULL = np.float32(32768)
_SILENCE = 128  # the level of silence


@dataclass(frozen=True)
class ArrayForm:
    """The type of samples and the columns to include; see `nbaudio.reading.adapters`."""

    dtype: Dtype = "float32"
    columns: Sequence[str] = ("text",)

    def check(self, column_names: Sequence[str]) -> "ArrayForm":
        """Return itself; raise InputError for an unknown type or column."""
        get_by_name({"float32": 1, "int16": 1}, self.dtype, "type of samples")
        if unknown := [name for name in self.columns if name not in column_names]:
            raise InputError(
                f"column {unknown[0]!r} is unknown; known are {', '.join(column_names)}"
            )
        return self

    def step(self, step: Clip | Sequence[Clip]) -> dict[str, Any]:
        """Return a clip, or a padded batch where the step is a list."""
        if isinstance(step, Clip):
            return self.clip(step)
        return padded([self.clip(clip) for clip in step])

    def metadata(self, clip: Clip) -> dict[str, Any]:
        """Return a clip's id and columns."""
        row = clip.metadata
        return {"segment_id": clip.segment_id, **{name: row[name] for name in self.columns}}

    def clip(self, clip: Clip) -> dict[str, Any]:
        """Return one clip."""
        samples: Any = clip.samples
        if self.dtype == "float32" and samples.dtype == np.int16:
            samples = samples / _FULL
        return self.metadata(clip) | {"samples": samples, "sampling_rate": clip.sampling_rate}


def array_form(stream: Stream, *, dtype: Dtype, columns: Sequence[str]) -> ArrayForm:
    """Return the validated form for a stream, which must not give encoded clips."""
    if stream.clips.decode is None:
        raise InputError(
            "the stream yields encoded clips: create it with give='samples' or give='levels'"
        )
    return ArrayForm(dtype, columns).check(stream.clips.rows.table.columns)


def batches(
    stream: Stream,
    *,
    size: int = 16,
    multiple: int = 1,
    dtype: Dtype = "float32",
    columns: Sequence[str] = ("text",),
) -> Iterator[dict[str, Any]]:
    """Yield padded batches, from the stream's state on.

    `stream.state_dict` between two batches determines which comes next.

    Where steps are single clips, a batch has `size` of them, the last one perhaps fewer; otherwise
    each step is a batch. Batches are padded to a `multiple` of so many samples, so that code
    compiled for a shape is reused. `segment_id` and columns are lists; `samples` (clips, samples),
    `lengths` and `sampling_rate` (clips,) arrays. See `nbaudio.reading.adapters`.

    Raises:
        InputError: a number below 1, an unknown type or column, or a stream of encoded clips.
    """
    for name, value in (("size", size), ("multiple", multiple)):
        if value < 1:
            raise InputError(f"{name} must be 1 or more, not {value}")
    form = array_form(stream, dtype=dtype, columns=columns)
    steps = iter(stream)
    for step in steps:
        if isinstance(step, Clip):
            clips = [step, *islice(steps, size - 1)]
        else:
            clips = step
        yield padded([form.clip(clip) for clip in clips], multiple=multiple)


def padded(clips: Sequence[dict[str, Any]], *, multiple: int = 1) -> dict[str, Any]:
    """Return clips as a batch, padded to a multiple of so many samples.

    With `multiple` 1 this is the length of the longest clip.
    """
    batch: dict[str, Any] = {name: [clip[name] for clip in clips] for name in clips[0]}
    lengths = np.array([len(clip_samples) for clip_samples in batch["samples"]])
    dtype = batch["samples"][0].dtype
    silence = _SILENCE if dtype == np.uint8 else 0
    samples = np.full((len(clips), -(-lengths.max() // multiple) * multiple), silence, dtype)
    for row, clip_samples in zip(samples, batch["samples"], strict=True):
        row[: len(clip_samples)] = clip_samples
    return batch | {
        "samples": samples,
        "lengths": lengths,
        "sampling_rate": np.array(batch["sampling_rate"]),
    }
