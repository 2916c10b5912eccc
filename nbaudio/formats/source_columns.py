"""Find columns of tables by their names, and read those of Parquet files and Arrow streams.

A name such as ``audio.path`` is that of one field of a struct.
"""

import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import check_expansion, check_regular

# Endings of the names of times; others say no unit, which is seconds then.
_IN_SECONDS = ("", "_s", "_sec", "_secs", "_seconds", "_ss.msec")  # the last one is ELAN's
_IN_MILLISECONDS = ("_ms", "_msec", "_msecs", "_millis", "_milliseconds")
_IN_SAMPLES = ("_sample", "_samples")


def _times(*names: str) -> tuple[str, ...]:
    """Return names of times with all endings that say a unit which is read, samples last."""
    of_time = (name + ending for name in names for ending in (*_IN_SECONDS, *_IN_MILLISECONDS))
    of_samples = (name + ending for name in names for ending in _IN_SAMPLES)
    return (*of_time, *of_samples)


#: Names that columns of tables usually have, the preferred first; other columns are found by our
#: own names alone. Case, blanks and punctuation do not count.
USUAL_NAMES: Mapping[str, Sequence[str]] = {
    "name": (
        *("name", "path", "file", "audio_filepath", "audio_path", "audio_file", "audio_filename"),
        *("file_path", "file_name", "wav_path", "wav_file", "wav_filename", "wav", "audio"),
        *("recording", "recording_id"),
    ),
    "text": (
        *("text", "transcript", "sentence", "transcription", "normalized_text"),
        *("reference", "reference_text", "ref", "ref_text"),
    ),
    "asr_text": (
        *("asr_text", "asr", "hypothesis", "hypothesis_text", "hyp", "hyp_text"),
        *("pred_text", "predicted_text", "prediction", "pred"),
    ),
    "speaker_id": ("speaker_id", "speaker", "client_id", "spk_id", "spk", "speaker_name"),
    "segment_id": ("segment_id", "id", "utt_id", "utterance_id"),
    "start": _times(
        *("start", "start_time", "source_start", "begin", "begin_time", "onset", "tmin", "from"),
        *("segment_start", "seg_start", "xmin"),
    ),
    "end": _times(
        *("end", "end_time", "source_end", "stop", "stop_time", "tmax", "to"),
        *("segment_end", "seg_end", "xmax"),
    ),
    "duration": _times("duration", "dur", "audio_duration", "length"),
}

#: Units of times, as the option `times` of `ingest table` names them.
SECONDS = "s"
MILLISECONDS = "ms"
SAMPLES = "samples"
UNITS = (SECONDS, MILLISECONDS, SAMPLES)

_SAID_SECONDS = re.compile(r"[\W_](?:s|secs?|seconds?|ss\.msec)[\W_]*$", re.IGNORECASE)
_SAID_SAMPLES = re.compile(r"(?:[\W_]samples?|Samples?)[\W_]*$")
_MILLISECONDS = re.compile(r"(?:[\W_](?:ms|msecs?|millis|milliseconds?)|Ms|Millis)[\W_]*$")
ARROW = ".arrow"  # ending of Arrow streams, as Hugging Face's save_to_disk writes them
NONE = "none"  # value of an option that leaves a column out
_BATCH_BYTES = 64 << 20  # most bytes of an unpacked batch
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
                chosen = {_stored_name(name, batch): name for name in columns or ()}
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
    chunk_statistics = [
        (chunk.statistics, chunk.num_values) for chunk in chunks if chunk.path_in_schema == leaf
    ]
    return any(
        statistics is None or not statistics.has_null_count or statistics.null_count < count
        for statistics, count in chunk_statistics
    )


def _parquet(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of a Parquet file, within the limits of its size; see `batches`."""
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
                arrays = list(map(_without_dictionary, batch.columns))
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
            arrays: list[pa.Array] = []
            if texts:
                batches = as_dictionaries.iter_batches(
                    batch_size=1, row_groups=[number], columns=texts
                )
                first = next(batches, None)
                arrays = first.columns if first else []
            in_lists = sum(_longest(column) for column in arrays if hasattr(column, "values"))
            group = file.metadata.row_group(number)
            values = max(
                (group.column(place).num_values for place in range(group.num_columns)), default=0
            )
            check_expansion(path, path.stat().st_size, values * in_lists)
            yield fixed + sum(map(_longest, arrays))


def _stored_name(name: str, batch: pa.RecordBatch) -> str:
    """Return the column that a name is, or that has the field it names."""
    return name if name in batch.schema.names else name.partition(".")[0]


def _without_dictionary(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.DictionaryArray):
        return array.dictionary_decode()
    return array


def _longest(array: pa.Array) -> int:
    """Return the bytes of the longest values that a column refers to."""
    if isinstance(array, pa.DictionaryArray):
        return pc.max(pc.binary_length(array.dictionary)).as_py() or 0
    if isinstance(array, pa.StructArray):
        return sum(map(_longest, array.flatten()))
    if hasattr(array, "values"):
        return _longest(array.values)
    return 0


@contextmanager
def _stream(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Yield the schema of an Arrow stream, and its batches, within the limits of its size.

    Raise pa.ArrowInvalid if the file does not begin as a stream.
    """
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
        vtable = table - struct.unpack_from("<i", metadata, table)[0]
        size = struct.unpack_from("<H", metadata, vtable)[0]
        place = 4 + 2 * number
        if place < size:
            return int(struct.unpack_from("<H", metadata, vtable + place)[0])
        return 0

    message = pointed(0)
    return field(pointed(message + field(message, _HEADER)), _COMPRESSION) > 0


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch[name]
    column, _, field = name.rpartition(".")
    return pa.StructArray.from_arrays([pc.struct_field(batch[column], field)], names=[field])


def plain_name(column: str) -> str:
    """Return the name of a column without case, blanks and punctuation."""
    return re.sub(r"[\W_]+", "", column.casefold())


def unit_of(column: str) -> str | None:
    """Return the unit that the name of a column of times says: one of `UNITS`, or None.

    Examples:
        >>> [unit_of(name) for name in ("start_ms", "End [ms]", "startMs", "items")]
        ['ms', 'ms', 'ms', None]
        >>> [unit_of(name) for name in ("start_s", "endSamples", "offset_samples", "samples")]
        ['s', 'samples', 'samples', None]
        >>> unit_of("Begin Time - ss.msec")
        's'
    """
    plain = plain_name(column)
    if _SAID_SECONDS.search(column) or plain in _PLAIN_NAMES[SECONDS]:
        return SECONDS
    if _MILLISECONDS.search(column) or plain in _PLAIN_NAMES[MILLISECONDS]:
        return MILLISECONDS
    if _SAID_SAMPLES.search(column) or plain in _PLAIN_NAMES[SAMPLES]:
        return SAMPLES
    return None


def _plain_names(endings: tuple[str, ...]) -> frozenset[str]:
    """Return the plain names of columns of times that have one of some endings."""
    return frozenset(
        plain_name(name)
        for key in ("start", "end", "duration")
        for name in USUAL_NAMES[key]
        if name.endswith(endings)
    )


_PLAIN_NAMES = {
    SECONDS: _plain_names(_IN_SECONDS[1:]),
    MILLISECONDS: _plain_names(_IN_MILLISECONDS),
    SAMPLES: _plain_names(_IN_SAMPLES),
}


def choose(
    source: Path,
    available: Sequence[str],
    chosen: Mapping[str, str | None],
    names: Mapping[str, Sequence[str]] = USUAL_NAMES,
    unfit: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> tuple[dict[str, str], list[str]]:
    """Find the column of each field, with a note on each guess.

    `chosen` has the name of a column, ``none`` for no column, or None for the first of `names` that
    there is, without the columns that are `unfit` for the field.
    """
    columns: dict[str, str] = {}
    notes = []
    for key, column in chosen.items():
        if column is not None and column in available:
            columns[key] = column
        elif column is not None and column != NONE:
            raise InputError(
                f"{source}: option {key}: there is no column {column!r}; "
                f"it has {', '.join(available)}"
            )
        elif column is None:
            fits = _fitting(names.get(key, (key,)), available, unfit.get(key, ()))
            if not fits:
                continue
            columns[key] = fits[0]
            if fits != [key]:
                notes.append(_note_on_choice(key, *fits))
    return columns, sorted(notes)


def _note_on_choice(key: str, column: str, *others: str) -> str:
    """Say which column a field is taken from, and which others it could be."""
    taken = f"{key} is taken from column {column!r}"
    if others:
        taken += f", not from {' or '.join(map(repr, others))}"
    return f"{taken}: --option {key}=COLUMN selects another, {key}=none ignores it"


def _fitting(
    candidates: Sequence[str], available: Sequence[str], unfit: Collection[str]
) -> list[str]:
    """Return the columns that have one of some names, the preferred first.

    A column that is called exactly so takes precedence over one that differs in case, blanks or
    punctuation.
    """
    usable = [name for name in available if name not in unfit]
    exact = [name for name in candidates if name in usable]
    by_name: dict[str, list[str]] = {}
    for name in usable:
        by_name.setdefault(plain_name(name), []).append(name)
    similar = [name for candidate in candidates for name in by_name.get(plain_name(candidate), ())]
    return list(dict.fromkeys([*exact, *similar]))
