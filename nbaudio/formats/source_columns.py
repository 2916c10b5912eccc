"""Find columns of tables by their names, and read those of Parquet files and Arrow streams.

A name such as ``audio.path`` is that of one field of a struct.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import check_expansion, check_regular

#: Names that columns of tables usually have, the preferred first; other columns are found by our
#: own names alone.
USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "name": ("name", "path", "file"),
    "text": ("text", "transcript", "sentence"),
    "speaker_id": ("speaker_id", "speaker"),
    "segment_id": ("segment_id", "id"),
}

ARROW = ".arrow"  # streams, as Hugging Face's save_to_disk writes them
_NONE = "none"  # the value of an option that leaves a column out
_BATCH_BYTES = 64 << 20  # that a batch may unpack to
# Fields of Arrow's flatbuffers: the header of a message, and how the body of a batch is compressed.
_HEADER = 2
_COMPRESSION = 3


def schema_of(path: Path) -> pa.Schema:
    """Return the columns of a Parquet or Arrow file and their types."""
    check_regular(path)
    if path.suffix != ARROW:
        return pq.read_schema(path)
    with _stream(path) as (schema, _):
        return schema


def batches(path: Path, columns: Sequence[str] | None, *, rows: int) -> Iterator[pa.RecordBatch]:
    """Read columns of a file in batches of at most `rows`.

    If `columns` is None, all columns of a Parquet file are read. Raise InputError for a
    decompression bomb.
    """
    if path.suffix != ARROW:
        yield from _parquet(path, columns, rows)
        return
    with _stream(path) as (_, stored):
        for large in stored:
            for first in range(0, large.num_rows, rows):
                batch = large.slice(first, rows)
                chosen = {
                    name if name in batch.schema.names else name.partition(".")[0]: name
                    for name in columns or ()
                }
                yield pa.RecordBatch.from_arrays(
                    [_column(batch, name) for name in chosen.values()], names=list(chosen)
                )


def has_any_value(path: Path, leaf: str) -> bool:
    """Return whether any value of a struct's field is not null.

    Without statistics in Parquet, assume that one is.
    """
    if path.suffix == ARROW:
        column, _, field = leaf.rpartition(".")
        with _stream(path) as (_, stored):
            return any(
                pc.struct_field(batch[column], field).null_count < len(batch) for batch in stored
            )
    metadata = pq.read_metadata(path)
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    known = [
        (chunk.statistics, chunk.num_values) for chunk in chunks if chunk.path_in_schema == leaf
    ]
    return any(
        each is None or not each.has_null_count or each.null_count < count for each, count in known
    )


def _parquet(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    size = check_regular(path).st_size
    total = 0
    with pq.ParquetFile(path) as file:
        groups = range(file.num_row_groups)
        check_expansion(
            path, size, sum(file.metadata.row_group(group).total_byte_size for group in groups)
        )
        for group, longest in zip(groups, _longest_values(path, file, columns), strict=True):
            at_once = max(1, min(rows, _BATCH_BYTES // max(1, longest)))
            for batch in file.iter_batches(
                batch_size=at_once, row_groups=[group], columns=columns and list(columns)
            ):
                arrays = [
                    array.dictionary_decode() if hasattr(array, "dictionary_decode") else array
                    for array in batch.columns
                ]
                plain = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
                total += plain.nbytes
                check_expansion(path, size, total)
                yield plain


def _longest_values(
    path: Path, file: pq.ParquetFile, columns: Sequence[str] | None
) -> Iterator[int]:
    """Estimate the bytes of text in a row, for each row group.

    A value that is stored once may stand in a million rows.
    """
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    selected = [
        leaf
        for leaf in leaves
        if columns is None or any(f"{leaf.path}.".startswith(f"{name}.") for name in columns)
    ]
    texts = [leaf.path for leaf in selected if leaf.physical_type == "BYTE_ARRAY"]
    fixed = sum(leaf.length for leaf in selected if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY")
    with pq.ParquetFile(path, metadata=file.metadata, read_dictionary=texts) as as_dictionaries:
        for number in range(file.num_row_groups):
            # The first row brings the dictionary that all others refer to.
            first = (
                next(
                    as_dictionaries.iter_batches(batch_size=1, row_groups=[number], columns=texts),
                    None,
                )
                if texts
                else None
            )
            arrays = first.columns if first else []
            in_lists = sum(_longest(column) for column in arrays if hasattr(column, "values"))
            group = file.metadata.row_group(number)
            values = max(
                (group.column(place).num_values for place in range(group.num_columns)), default=0
            )
            check_expansion(path, path.stat().st_size, values * in_lists)
            yield fixed + sum(map(_longest, arrays))


def _longest(array: pa.Array) -> int:
    """Return the bytes of the longest values that a column refers to."""
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
            raise pa.ArrowInvalid(
                f"no Arrow stream, or damaged at its beginning ({error})"
            ) from error
        yield schema, (_batch(message, schema) for message in messages)


def _batch(message: pa.Message, schema: pa.Schema) -> pa.RecordBatch:
    """Read a batch that is no larger than its file."""
    if message.type != "record batch" or _is_compressed(message.metadata.to_pybytes()):
        raise pa.ArrowInvalid(
            "an Arrow stream with compression or dictionaries, which save_to_disk does not write"
        )
    return pa.ipc.read_record_batch(message, schema)


def _is_compressed(metadata: bytes) -> bool:
    """Return whether a message holds a compressed batch.

    Its flatbuffer is parsed as Arrow's Message.fbs defines it.
    """

    def pointed(position: int) -> int:
        return position + int(struct.unpack_from("<I", metadata, position)[0])

    def field(table: int, number: int) -> int:
        known = table - struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, known)[0]
        place = 4 + 2 * number
        return int(struct.unpack_from("<H", metadata, known + place)[0]) if place < size else 0

    message = pointed(0)
    return field(pointed(message + field(message, _HEADER)), _COMPRESSION) > 0


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch[name]
    column, _, field = name.rpartition(".")
    return pa.StructArray.from_arrays([pc.struct_field(batch[column], field)], names=[field])


def choose(
    source: Path,
    available: Sequence[str],
    chosen: Mapping[str, str | None],
    names: Mapping[str, Sequence[str]] = USUAL_NAMES,
) -> tuple[dict[str, str], list[str]]:
    """Find the column of each field, with a note on each guess.

    `chosen` has the name of a column, ``none`` for no column, or None for the first of `names` that
    there is.
    """
    columns: dict[str, str] = {}
    notes = []
    for key, column in chosen.items():
        if column is not None and column in available:
            columns[key] = column
        elif column is not None and column != _NONE:
            raise InputError(
                f"{source}: option {key}: there is no column {column!r}; "
                f"it has {', '.join(available)}"
            )
        elif column is None:
            candidates = names.get(key, (key,))
            similar = [
                name
                for candidate in candidates
                for name in available
                if name.strip().casefold() == candidate
            ]
            # An exact match takes precedence over one that differs in case.
            fits = list(
                dict.fromkeys([*(name for name in candidates if name in available), *similar])
            )
            if not fits:
                continue
            columns[key] = fits[0]
            if fits != [key]:
                others = f", not from {' or '.join(map(repr, fits[1:]))}" if fits[1:] else ""
                how = f"--option {key}=COLUMN selects another, {key}=none ignores it"
                notes.append(f"{key} is taken from column {fits[0]!r}{others}: {how}")
    return columns, sorted(notes)
