"""Hugging Face: a stream as a `datasets.IterableDataset`, of arrays or of an Audio column."""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError, MissingExtraError
from nbaudio.reading import Stream
from nbaudio.reading.adapters.arrays import ArrayForm, Dtype
from nbaudio.reading.order import Partition


def dataset(stream: Stream, *, shards: int = 16, dtype: Dtype = "float32", columns: Sequence[str] = ("text",)) -> Any:
    """A stream as a `datasets.IterableDataset`; iterated again, it gives the same.

    Workers of a DataLoader part its shards, and so does ``split_dataset_by_node``; make them a multiple of both, or else some
    read more than they give. ``state_dict`` and ``load_state_dict`` are exact without ``shuffle``; what is left of a shard is
    found by reading that shard again.

    Args:
        stream: of clips. Of ``give="encoded"`` the bytes go into a column of type Audio, which `datasets` decodes; else samples
            are arrays.
        shards: parts of the stream, which follow one another.
        dtype: see `ArrayForm`.
        columns: see `ArrayForm`.

    Returns:
        Rows of `segment_id`, the columns, and either `audio`, or `samples` and `sampling_rate`.

    Raises:
        MissingExtraError: datasets is not installed.
        InputError: an unknown type or column, no shards, or steps of the stream are lists, or it has begun.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError.naming("datasets", "datasets") from error
    if stream.listed:
        raise InputError("rows are single clips: make the stream without batch_s and consecutive")
    if shards < 1:
        raise InputError(f"shards must be 1 or more, not {shards}")
    form = ArrayForm(dtype, columns).check(stream.check_fresh().clips.frame)
    parts = [stream.share.part(number, shards) for number in range(shards)]
    features = None  # to encode arrays by their features costs more than to read them
    if stream.clips.decode is None:
        told = stream.clips.frame.select("segment_id", *columns).with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
        features = datasets.Features({**datasets.Features.from_arrow_schema(told.to_arrow().schema), "audio": datasets.Audio()})
    known = {"stream": stream, "form": form, "parts": parts}
    return datasets.IterableDataset.from_generator(_rows, features=features, gen_kwargs=known)


def _rows(stream: Stream, form: ArrayForm, parts: Sequence[Partition]) -> Iterator[dict[str, Any]]:
    for part in parts:
        for clip in stream.of(part):
            if clip.encoded is None:
                yield form.clip(clip)
            else:
                yield form.told(clip) | {"audio": {"bytes": clip.encoded, "path": None}}
