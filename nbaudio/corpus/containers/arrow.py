"""Arrow files of quantized audio for memory mapping.

They have a column `levels` of lists of uint8, without .npy headers, and the metadata.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from nbaudio.audio import decode_levels
from nbaudio.corpus.containers.shard_files import ClipLocation, metadata_table

_BATCH_ROWS = 100  # rows per record batch, which readers load as a whole


def write(
    path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], **_: object
) -> list[ClipLocation]:
    """Write one Arrow file; see `registry.WriteShard`."""
    schema = pa.schema(
        [pa.field("levels", pa.list_(pa.uint8())), *metadata_table(metadata.clear()).schema]
    )
    clips = iter(audio)
    lengths: list[int] = []
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for rows in metadata.iter_slices(_BATCH_ROWS):
            levels = [decode_levels(clip) for clip in islice(clips, len(rows))]
            columns = [_list_column(levels), *_columns(rows)]
            writer.write_batch(pa.record_batch(columns, schema=schema))
            lengths += map(len, levels)
    return list(map(ClipLocation, _clip_offsets(path), lengths))


def _list_column(levels: Sequence[NDArray[np.uint8]]) -> pa.ListArray:
    """Return a column with a list of levels in each row."""
    edges = pa.array(list(accumulate(map(len, levels), initial=0)), pa.int32())
    return pa.ListArray.from_arrays(edges, pa.array(np.concatenate(levels)))


def _columns(rows: pl.DataFrame) -> list[pa.Array]:
    """Return the columns of metadata, each in one chunk."""
    return [column.combine_chunks() for column in metadata_table(rows).columns]


def _clip_offsets(path: Path) -> list[int]:
    """Return the offset of the first level of each row in an Arrow file.

    The addresses of the values of each batch in the memory-mapped file are their offsets.
    """
    offsets: list[int] = []
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
        first_address = mapped.read_buffer(1).address
        for number in range(reader.num_record_batches):
            column = reader.get_batch(number).column("levels")
            values = column.values.buffers()[1]
            values_address = values.address if values else 0
            values_offset = values_address - first_address
            offsets += [values_offset + start for start in column.offsets.to_pylist()[:-1]]
    return offsets
