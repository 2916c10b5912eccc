"""Arrow files of quantized audio for memory mapping.

They have a column `levels` of lists of uint8, without .npy headers, and the metadata.
"""

from collections.abc import Iterable
from itertools import accumulate, islice
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

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
        for part in metadata.iter_slices(_BATCH_ROWS):
            levels = [decode_levels(clip) for clip in islice(clips, len(part))]
            own = [len(each) for each in levels]
            edges = pa.array(list(accumulate(own, initial=0)), pa.int32())
            column = pa.ListArray.from_arrays(edges, pa.array(np.concatenate(levels)))
            columns = [each.combine_chunks() for each in metadata_table(part).columns]
            writer.write_batch(pa.record_batch([column, *columns], schema=schema))
            lengths += own
    starts: list[int] = []
    # The addresses of the values of each batch in the memory-mapped file are their offsets.
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
        first = mapped.read_buffer(1).address
        for number in range(reader.num_record_batches):
            column = reader.get_batch(number).column("levels")
            values = column.values.buffers()[1]
            starts += [
                (values.address if values else 0) - first + start
                for start in column.offsets.to_pylist()[:-1]
            ]
    return list(map(ClipLocation, starts, lengths))
