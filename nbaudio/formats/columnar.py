"""Files of columns, read alike: Parquet, and the Arrow streams (``.arrow``) that Hugging Face's ``save_to_disk`` writes.

Conventions: a field of a struct is named with a dot, such as ``audio.path``; of a batch then only that field is read. Arrow files
are mapped into memory, so that what is not asked for costs nothing; compressed ones, which nobody writes, are refused. A value
that is there once may stand in a million rows of Parquet: of such ones few are unpacked at a time, and counted.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nbaudio.core.guards import check_expansion, check_regular

ARROW = ".arrow"
# What a batch may unpack to.
_BATCH_BYTES = 64 << 20
# Fields of Arrow's flatbuffers: the header of a message, and how the body of a batch is compressed.
_HEADER, _COMPRESSION = 2, 3


def schema_of(path: Path) -> pa.Schema:
    """The columns of a file and their types.

    Raises:
        pa.ArrowException: it is no such file.
        OSError: it cannot be read.
    """
    check_regular(path)
    if path.suffix != ARROW:
        return pq.read_schema(path)
    with _stream(path) as (schema, _):
        return schema


def batches(path: Path, columns: Sequence[str] | None, *, rows: int) -> Iterator[pa.RecordBatch]:
    """Some columns of a file, all of a Parquet file for None, at most so many rows at a time.

    Raises:
        pa.ArrowException: it is damaged.
        OSError: it cannot be read.
        InputError: it is a bomb.

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
        yield from _parquet(path, columns, rows)
        return
    with _stream(path) as (_, wholes):
        for whole in wholes:
            for first in range(0, whole.num_rows, rows):
                batch = whole.slice(first, rows)
                chosen = {name.partition(".")[0] if name not in batch.schema.names else name: name for name in columns or ()}
                yield pa.RecordBatch.from_arrays([_column(batch, name) for name in chosen.values()], names=list(chosen))


def has_any_value(path: Path, leaf: str) -> bool:
    """Whether any value of a struct's field is there; in Parquet by the statistics, without which it is taken to be."""
    check_regular(path)
    if path.suffix == ARROW:
        column, _, field = leaf.rpartition(".")
        with _stream(path) as (_, wholes):
            return any(pc.struct_field(batch[column], field).null_count < len(batch) for batch in wholes)
    metadata = pq.read_metadata(path)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in (group.column(place) for place in range(group.num_columns)):
            if column.path_in_schema == leaf:
                known = column.statistics
                if known is None or not known.has_null_count or known.null_count < group.num_rows:
                    return True
    return False


def _parquet(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    size, total = check_regular(path).st_size, 0
    with pq.ParquetFile(path) as file:
        groups = range(file.num_row_groups)
        check_expansion(path, size, sum(file.metadata.row_group(group).total_byte_size for group in groups))
        for group, longest in zip(groups, _longest_values(path, file, columns), strict=True):
            at_once = max(1, min(rows, _BATCH_BYTES // max(1, longest)))
            found = file.iter_batches(batch_size=at_once, row_groups=[group], columns=columns and list(columns))
            for batch in map(_plain, found):
                total += batch.nbytes
                check_expansion(path, size, total)
                yield batch


def _longest_values(path: Path, file: pq.ParquetFile, columns: Sequence[str] | None) -> Iterator[int]:
    """Bytes that the texts of a row may have, for each row group; lists of them are checked as if all were that long."""
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    wanted = [leaf for leaf in leaves if columns is None or any(f"{leaf.path}.".startswith(f"{name}.") for name in columns)]
    texts = [leaf.path for leaf in wanted if leaf.physical_type == "BYTE_ARRAY"]
    fixed = sum(leaf.length for leaf in wanted if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY")
    with pq.ParquetFile(path, metadata=file.metadata, read_dictionary=texts) as as_dictionaries:
        for number in range(file.num_row_groups):
            # The first row brings all values that others refer to.
            first = next(as_dictionaries.iter_batches(batch_size=1, row_groups=[number], columns=texts), None) if texts else None
            held = first.columns if first else []
            in_lists = sum(_longest(column) for column in held if hasattr(column, "values"))
            group = file.metadata.row_group(number)
            values = max((group.column(place).num_values for place in range(group.num_columns)), default=0)
            check_expansion(path, path.stat().st_size, values * in_lists)
            yield fixed + sum(map(_longest, held))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Texts in place of numbers of texts."""
    columns = [column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _longest(array: pa.Array) -> int:
    """Bytes of the longest values that a column refers to."""
    if isinstance(array, pa.DictionaryArray):
        return pc.max(pc.binary_length(array.dictionary)).as_py() or 0
    if isinstance(array, pa.StructArray):
        return sum(map(_longest, array.flatten()))
    return _longest(array.values) if hasattr(array, "values") else 0


@contextmanager
def _stream(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    check_regular(path)
    with pa.memory_map(str(path)) as source:
        try:
            messages = pa.ipc.MessageReader.open_stream(source)
            schema = pa.ipc.read_schema(messages.read_next_message())
        except (pa.ArrowInvalid, StopIteration) as error:
            raise pa.ArrowInvalid(f"no Arrow stream, or damaged at its beginning ({error})") from error
        yield schema, (_batch(message, schema) for message in messages)


def _batch(message: pa.Message, schema: pa.Schema) -> pa.RecordBatch:
    """A batch that is no larger than its file."""
    if message.type != "record batch" or _is_compressed(message.metadata.to_pybytes()):
        raise pa.ArrowInvalid("an Arrow stream with compression or dictionaries, which save_to_disk does not write")
    return pa.ipc.read_record_batch(message, schema)


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message holds a compressed batch: its flatbuffer, as Arrow's Message.fbs says, has tables of fields."""

    def pointed(position: int) -> int:
        return position + int(struct.unpack_from("<I", metadata, position)[0])

    def field(table: int, number: int) -> int:
        known = table - struct.unpack_from("<i", metadata, table)[0]
        size, place = struct.unpack_from("<H", metadata, known)[0], 4 + 2 * number
        return int(struct.unpack_from("<H", metadata, known + place)[0]) if place < size else 0

    message = pointed(0)
    return field(pointed(message + field(message, _HEADER)), _COMPRESSION) > 0


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch[name]
    column, _, field = name.rpartition(".")
    return pa.StructArray.from_arrays([pc.struct_field(batch[column], field)], names=[field])
