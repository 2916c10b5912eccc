"""Hugging Face adapter: a stream as a `datasets.IterableDataset`.

Its samples are arrays, or an Audio column.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError, requires_extra
from nbaudio.reading import Stream
from nbaudio.reading.adapters.arrays import ArrayForm, Dtype
from nbaudio.reading.order import Partition


def dataset(
    stream: Stream,
    *,
    shards: int = 16,
    dtype: Dtype = "float32",
    columns: Sequence[str] = ("text",),
) -> Any:
    """Return a stream as a `datasets.IterableDataset`; iterating again repeats the same epoch.

    Workers of a DataLoader divide its shards, and so does ``split_dataset_by_node``; use a multiple
    of both, or else some read more than they yield. ``state_dict`` and ``load_state_dict`` are
    exact without ``shuffle``; they resume by reading the current shard again.

    The stream is read as `shards` parts, one after the other. Rows have `segment_id`, the columns,
    and `samples` and `sampling_rate`; with ``give="encoded"`` a column `audio` of type Audio
    instead, which `datasets` decodes. See `nbaudio.reading.adapters` on `dtype` and `columns`.

    Raises:
        MissingExtraError: datasets is not installed.
        InputError: an unknown type or column, no shards, or a stream that has begun or whose steps
            are lists.
    """
    with requires_extra("datasets"):
        import datasets
    if stream.listed:
        raise InputError("rows are single clips: create the stream without batch_s and consecutive")
    if shards < 1:
        raise InputError(f"shards must be 1 or more, not {shards}")
    form = ArrayForm(dtype, columns).check(stream.check_fresh().clips.rows.table.columns)
    parts = [stream.share.part(number, shards) for number in range(shards)]
    features = None  # encoding arrays by their features costs more than reading them
    if stream.clips.decode is None:
        rows = stream.clips.rows.table.frame().select("segment_id", *columns)
        rows = rows.with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
        features = datasets.Features(
            {
                **datasets.Features.from_arrow_schema(rows.to_arrow().schema),
                "audio": datasets.Audio(),
            }
        )
    arguments = {"stream": stream, "form": form, "parts": parts}
    return datasets.IterableDataset.from_generator(_rows, features=features, gen_kwargs=arguments)


def _rows(stream: Stream, form: ArrayForm, parts: Sequence[Partition]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the parts of a stream."""
    for part in parts:
        for clip in stream.of(part):
            if clip.encoded is None:
                yield form.clip(clip)
            else:
                yield form.metadata(clip) | {"audio": {"bytes": clip.encoded, "path": None}}
