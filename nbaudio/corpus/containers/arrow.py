"""Arrow files of quantised audio, to be mapped into memory: `levels` (a list of uint8), and a column for each of the metadata.

`datasets.load_dataset("arrow", ...)`, polars, and pyarrow, which copies nothing, read them. A clip's levels are one byte range of
the file; its .npy header, which follows from their number, is not kept.
"""

from collections.abc import Iterable
from itertools import accumulate, islice
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from nbaudio.corpus.containers.base import ClipLocation, raw_levels
from nbaudio.corpus.containers.parquet import metadata_fields, without_categories

# Of a batch, which a reader has in its hands at once.
_ROWS = 100


def write(path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None) -> list[ClipLocation]:
    """Write one Arrow file; see `containers.WriteShard`."""
    del extension, rate
    fields = metadata_fields(metadata)
    schema = pa.schema([pa.field("levels", pa.list_(pa.uint8())), *fields])
    clips = iter(audio)
    lengths: list[int] = []
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for part in metadata.iter_slices(_ROWS):
            levels = [raw_levels(clip) for clip in islice(clips, len(part))]
            own = [len(each) for each in levels]
            column = pa.ListArray.from_arrays(
                pa.array(list(accumulate(own, initial=0)), pa.int32()),
                pa.array(np.frombuffer(b"".join(levels), np.uint8)),
            )
            described = without_categories(part).to_arrow().cast(pa.schema(fields)).combine_chunks()
            columns = [each.combine_chunks() for each in described.columns]
            writer.write_batch(pa.record_batch([column, *columns], schema=schema))
            lengths += own
    return _places(path, lengths)


def _places(path: Path, lengths: list[int]) -> list[ClipLocation]:
    """Where each clip's levels are: the values of a batch lie together, and are seen at their place in the mapped file."""
    starts: list[int] = []
    with pa.memory_map(str(path)) as mapped, pa.ipc.open_file(mapped) as reader:
        first = mapped.read_buffer(1).address
        for number in range(reader.num_record_batches):
            levels = reader.get_batch(number).column("levels")
            values = levels.values.buffers()[1]
            starts += [(values.address if values else 0) - first + start for start in levels.offsets.to_pylist()[:-1]]
    return [ClipLocation(start, length) for start, length in zip(starts, lengths, strict=True)]
