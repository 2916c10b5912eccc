"""Read columns of Parquet files by ranges: the footer and the chunks of these columns, no more.

A dataset with embedded audio has its texts in one part in a hundred of its bytes.
"""

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nbaudio.core.errors import InputError, one_line
from nbaudio.core.input_guards import check_expansion
from nbaudio.core.threads import ordered_map
from nbaudio.storage.range_file import SeekableFile

#: Returns the bytes [start, stop) of a file.
ReadRange = Callable[[int, int], bytes]

_TAIL_BYTES = 64 << 10
_END = b"PAR1"
# Length of the footer, and the magic bytes.
_END_BYTES = 8
# Chunks with fewer bytes between them are read in one request.
_HOLE_BYTES = 8 << 10
# Row groups that are read and decoded at once.
_GROUPS = 32
_JOBS = 8


@dataclass(frozen=True)
class RangedParquet:
    """A Parquet file of which only parts are read.

    Attributes:
        name: for messages.
        read: returns the bytes of a range.
        size: bytes of the file.
        footer: what the file holds, and where.
    """

    name: str
    read: ReadRange
    size: int
    footer: pq.FileMetaData

    @classmethod
    def open(cls, name: str, read: ReadRange, size: int) -> "RangedParquet":
        """Read the footer of a file; raise InputError if there is none."""
        try:
            return cls(name, read, size, _read_footer(read, size))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(f"{name}: not a readable Parquet file ({one_line(error)})") from error

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self.footer.schema.to_arrow_schema()

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self.footer.num_rows)

    @property
    def group_starts(self) -> list[int]:
        """The first row of each row group, and the number of rows at the end."""
        starts = [0]
        for group in range(self.footer.num_row_groups):
            starts.append(starts[-1] + self.footer.row_group(group).num_rows)
        return starts

    def group_bytes(self, leaf: str) -> list[int]:
        """Return the stored bytes of a leaf column in each row group."""
        return [
            sum(stop - start for start, stop in self._chunks(group, [leaf]))
            for group in range(self.footer.num_row_groups)
        ]

    def frames(self, leaves: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield some columns, named as leaves such as ``audio.path``, some row groups at a time.

        Raise InputError if they cannot be decoded.
        """
        groups = range(self.footer.num_row_groups)
        for first in range(0, len(groups), _GROUPS):
            yield self._decoded(groups[first : first + _GROUPS], leaves)

    def group(self, number: int, leaves: Sequence[str]) -> pa.Table:
        """Return some columns of a row group; raise InputError if they cannot be decoded."""
        return self._table([number], leaves)

    def _decoded(self, groups: Sequence[int], leaves: Sequence[str]) -> pl.DataFrame:
        """Return columns of row groups with fields of structs as columns of their own."""
        texts = [leaf for leaf in leaves if self._is_text(leaf)]
        table = self._table(groups, leaves, as_dictionaries=texts)
        expanded = sum(map(_text_bytes, table.columns))
        check_expansion(self.name, self.size, expanded)
        columns: dict[str, pl.Series] = {}
        for leaf in leaves:
            column, _, field = leaf.partition(".")
            values = pl.Series(leaf, table.column(column))
            if field:
                values = values.struct.field(field).alias(leaf)
            if leaf in texts:
                values = values.cast(pl.String)
            columns[leaf] = values
        return pl.DataFrame(columns)

    def _is_text(self, leaf: str) -> bool:
        """Return whether a column is of texts, of which equal ones are stored once.

        Fields of structs are left out: pyarrow reads none of several row groups as dictionaries.
        """
        columns = map(self.footer.schema.column, range(len(self.footer.schema)))
        return any(
            column.path == leaf == column.name and column.physical_type == "BYTE_ARRAY"
            for column in columns
        )

    def _table(
        self, groups: Sequence[int], leaves: Sequence[str], as_dictionaries: Sequence[str] = ()
    ) -> pa.Table:
        """Return columns of row groups as pyarrow reads them, some of them as dictionaries."""
        check_expansion(self.name, self.size, self._unpacked_bytes(groups, leaves))
        ranges = _joined([span for group in groups for span in self._chunks(group, leaves)])
        try:
            chunks = list(ordered_map(lambda span: self.read(*span), ranges, jobs=_JOBS))
            stored = _StoredRanges(self.read, self.size, [start for start, _ in ranges], chunks)
            with pq.ParquetFile(
                stored, metadata=self.footer, read_dictionary=list(as_dictionaries)
            ) as file:
                return file.read_row_groups(list(groups), columns=list(leaves), use_threads=False)
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise InputError(f"{self.name}: cannot be read ({one_line(error)})") from error

    def _chunks(self, group: int, leaves: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield the ranges of columns in a row group."""
        for chunk in self._chunk_facts(group, leaves):
            start = (
                chunk.has_dictionary_page and chunk.dictionary_page_offset
            ) or chunk.data_page_offset
            stop = start + chunk.total_compressed_size
            if not 0 < start <= stop <= self.size:
                raise InputError(f"{self.name}: {chunk.path_in_schema} lies outside of the file")
            yield start, stop

    def _unpacked_bytes(self, groups: Sequence[int], leaves: Sequence[str]) -> int:
        """Return the bytes of columns of row groups when they are decompressed."""
        return sum(
            chunk.total_uncompressed_size
            for group in groups
            for chunk in self._chunk_facts(group, leaves)
        )

    def _chunk_facts(self, group: int, leaves: Sequence[str]) -> Iterator[pq.ColumnChunkMetaData]:
        """Yield what the footer says about columns of a row group."""
        facts = self.footer.row_group(group)
        for number in range(facts.num_columns):
            if facts.column(number).path_in_schema in leaves:
                yield facts.column(number)


def _read_footer(read: ReadRange, size: int) -> pq.FileMetaData:
    """Return the footer of a file, which is at its end; raise ValueError if there is none."""
    tail = read(max(0, size - _TAIL_BYTES), size)
    if len(tail) < _END_BYTES or tail[-len(_END) :] != _END:
        raise ValueError("it has no footer")
    length = int.from_bytes(tail[-_END_BYTES : -len(_END)], "little") + _END_BYTES
    if length > size:
        raise ValueError("its footer is longer than the file")
    if length > len(tail):
        tail = read(size - length, size)
    return pq.read_metadata(pa.BufferReader(tail))


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, those joined that nearly touch."""
    ranges: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if ranges and start <= ranges[-1][1] + _HOLE_BYTES:
            ranges[-1] = (ranges[-1][0], max(stop, ranges[-1][1]))
        else:
            ranges.append((start, stop))
    return ranges


class _StoredRanges(SeekableFile):
    """A file of which some ranges are in memory; others are read when they are needed."""

    def __init__(
        self, read: ReadRange, size: int, starts: Sequence[int], chunks: Sequence[bytes]
    ) -> None:
        super().__init__(size)
        self._read = read
        self._starts = starts
        self._chunks = chunks

    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        stop = min(self._size, self._position + len(buffer))
        content = self._stored(self._position, stop)
        if stop <= self._position:
            content = b""
        elif content is None:
            content = self._read(self._position, stop)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def _stored(self, start: int, stop: int) -> bytes | memoryview | None:
        """Return the bytes of a range that is in memory, else None."""
        place = bisect.bisect_right(self._starts, start) - 1
        if place < 0:
            return None
        first = start - self._starts[place]
        last = stop - self._starts[place]
        chunk = self._chunks[place]
        return memoryview(chunk)[first:last] if last <= len(chunk) else None


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Return the decoded size in bytes of a dictionary-encoded column; 0 for other columns.

    A text that is stored once may stand in a million rows.
    """
    total = 0
    for chunk in column.chunks:
        if isinstance(chunk, pa.DictionaryArray) and len(chunk.dictionary):
            lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
            total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def leaves_of(schema: pa.Schema) -> Mapping[str, pa.DataType]:
    """Return the columns of plain values by name, with fields of structs as ``audio.path``.

    Lists, maps and bytes are left out.
    """
    leaves: dict[str, pa.DataType] = {}
    for field in schema:
        if pa.types.is_struct(field.type):
            inner = {f"{field.name}.{part.name}": part.type for part in field.type}
            leaves |= {name: kind for name, kind in inner.items() if _is_plain(kind)}
        elif _is_plain(field.type):
            leaves[field.name] = field.type
    return leaves


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether values are texts, numbers, dates or truth values."""
    is_bytes = (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )
    return not pa.types.is_nested(kind) and not is_bytes
