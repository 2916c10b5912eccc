"""Files of columns, read alike: Parquet, and the Arrow streams (``.arrow``) that Hugging Face's ``save_to_disk`` writes.

Conventions: a field of a struct is named with a dot, such as ``audio.path``; of a batch then only that field is read. Arrow files
are mapped into memory, so that what is not asked for costs nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ARROW = ".arrow"


def schema_of(path: Path) -> pa.Schema:
    """The columns of a file and their types.

    Raises:
        pa.ArrowException: it is no such file.
        OSError: it cannot be read.
    """
    if path.suffix != ARROW:
        return pq.read_schema(path)
    with _stream(path) as stream:
        return stream.schema


def batches(path: Path, columns: Sequence[str], *, rows: int) -> Iterator[pa.RecordBatch]:
    """Some columns of a file, at most so many rows at a time.

    Raises:
        pa.ArrowException: it is damaged.
        OSError: it cannot be read.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.arrow"
        >>> table = pa.table({"audio": [{"bytes": b"RIFF", "path": "a.wav"}], "text": ["da"]})
        >>> with pa.ipc.new_stream(path, table.schema) as stream:
        ...     stream.write_table(table)
        >>> [batch.to_pylist() for batch in batches(path, ["audio.path"], rows=10)]
        [[{'audio': {'path': 'a.wav'}}]]
    """
    if path.suffix != ARROW:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=rows, columns=list(columns))
        return
    with _stream(path) as stream:
        for whole in stream:
            for first in range(0, whole.num_rows, rows):
                batch = whole.slice(first, rows)
                chosen = {name.partition(".")[0] if name not in batch.schema.names else name: name for name in columns}
                yield pa.RecordBatch.from_arrays([_column(batch, name) for name in chosen.values()], names=list(chosen))


def holds_any(path: Path, leaf: str) -> bool:
    """Whether any value of a struct's field is there; in Parquet by the statistics, without which it is taken to be."""
    if path.suffix == ARROW:
        column, _, field = leaf.rpartition(".")
        with _stream(path) as stream:
            return any(pc.struct_field(batch[column], field).null_count < len(batch) for batch in stream)
    metadata = pq.read_metadata(path)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in (group.column(place) for place in range(group.num_columns)):
            if column.path_in_schema == leaf:
                known = column.statistics
                if known is None or not known.has_null_count or known.null_count < group.num_rows:
                    return True
    return False


@contextmanager
def _stream(path: Path) -> Iterator[pa.RecordBatchStreamReader]:
    with pa.memory_map(str(path)) as source:
        try:
            stream = pa.ipc.open_stream(source)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"no Arrow stream, or damaged at its beginning ({error})") from error
        with stream:
            yield stream


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch[name]
    column, _, field = name.rpartition(".")
    return pa.StructArray.from_arrays([pc.struct_field(batch[column], field)], names=[field])
