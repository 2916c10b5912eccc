"""TensorFlow adapter: a stream as a tf.data.Dataset.

Threads of the stream read and decode ahead of TensorFlow.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import Any

import numpy as np
import polars as pl

from nbaudio.audio import decode_levels
from nbaudio.core.errors import InputError, requires_extra
from nbaudio.reading import Stream
from nbaudio.reading.adapters.arrays import Dtype, array_form


def dataset(stream: Stream, *, dtype: Dtype = "float32", columns: Sequence[str] = ("text",)) -> Any:
    """Return a stream as a prefetched tf.data.Dataset, in the stream's order.

    Iterating again gives the next epoch.

    Items are dictionaries; see `nbaudio.reading.adapters`, also on `dtype`. Columns are of text and
    numbers; null text becomes empty, a null number NaN. TensorFlow cannot save the state of a
    Python generator. The first epoch begins at the stream's state, so ``stream.load_state_dict``
    with ``taken`` set to the number of steps seen resumes after them.

    Raises:
        MissingExtraError: tensorflow is not installed.
        InputError: an unknown type or column, or one of lists; a stream of encoded clips.
    """
    with requires_extra("tensorflow"):
        import tensorflow as tf
    form = array_form(stream, dtype=dtype, columns=columns)
    frame = stream.clips.rows.table.frame()
    kinds = {name: _kind(frame[name]) for name in columns}
    samples = "uint8" if stream.clips.decode is decode_levels else dtype
    types = {"segment_id": "string", **kinds, "sampling_rate": "int64"}
    outer: tuple[None, ...] = ()
    if stream.listed:
        types["lengths"] = "int64"
        outer = (None,)
    signature = {name: tf.TensorSpec(outer, kind) for name, kind in types.items()}
    signature["samples"] = tf.TensorSpec((*outer, None), samples)
    epochs = chain(
        [stream],
        (stream.of(stream.share, epoch=number) for number in count(stream.epoch.epoch + 1)),
    )

    def steps() -> Iterator[dict[str, Any]]:
        for step in next(epochs):
            arrays = form.step(step)
            yield arrays | {name: _filled(arrays[name], kind) for name, kind in kinds.items()}

    options = tf.data.Options()
    options.deterministic = True
    # The stream has one rank's part already.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return (
        tf.data.Dataset.from_generator(steps, output_signature=signature)
        .with_options(options)
        .prefetch(tf.data.AUTOTUNE)
    )


def _kind(column: pl.Series) -> str:
    """Return the name of TensorFlow's type of a column; raise InputError for lists."""
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return "string"
    if not column.dtype.is_numeric():
        raise InputError(
            f"column {column.name!r} is {column.dtype}; TensorFlow takes text and numbers"
        )
    if column.dtype.is_integer() and not column.null_count():
        return "int64"
    return "float64"


def _filled(value: Any, kind: str) -> Any:
    """Return a value or list of values with the empty text or NaN for null."""
    nothing = "" if kind == "string" else np.nan
    if isinstance(value, list):
        return [nothing if item is None else item for item in value]
    return nothing if value is None else value
