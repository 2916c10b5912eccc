"""The table of a corpus, with the places of all clips in memory.

Further columns and rows are read when they are needed.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nbaudio.core.errors import InputError, one_line
from nbaudio.core.input_guards import MAX_TEXT_BYTES
from nbaudio.corpus.clip_locations import PLACES, check_locations, values
from nbaudio.storage.folders import Folder

if TYPE_CHECKING:
    import polars as pl

TABLE = "segments.parquet"  # table of all clips in a corpus

# Columns of few different texts: equal texts are one object in memory.
_TEXTS = ("shard", "split", "recording_id")
# Columns that differ in each row: they are read row group by row group when they are needed.
_FACTS = ("segment_id", "audio_sha256", "sampling_rate")
# Row groups that stay in memory: a stream reads from a few shards at a time, each of which has one.
_GROUPS = 32


class ClipTable:
    """The rows of a corpus, sorted by `shard` and `offset`; a position is a number in this order.

    It can be used after a fork, and by several threads.
    """

    def __init__(self, folder: Folder) -> None:
        """Read the places of all clips.

        Raise InputError where there is no such table, or one of the places is implausible.
        """
        self.folder = folder
        self._order: NDArray[np.int64] | None = None
        with self._reading():
            self._place = folder.loaded(TABLE, MAX_TEXT_BYTES)
            has_split = "split" in self.columns
        self._whole = lru_cache(_GROUPS)(self._read)
        self._facts = lru_cache(_GROUPS)(
            lambda group: [column.to_pylist() for column in self._read(group, _FACTS).columns]
        )
        self._columns = self._checked_columns()
        order = _sorted_order(self["shard"], self["offset"])
        if order is not None:
            self._columns = {name: column[order] for name, column in self._columns.items()}
            self._order = order
        if has_split:
            # Computed now, which drops the column: it is read with the others.
            self.splits  # noqa: B018

    def __reduce__(self) -> tuple[Any, ...]:
        return ClipTable, (self.folder,)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column; texts are objects."""
        if name not in self._columns:
            column = self._column(name)
            if self._order is not None:
                column = column[self._order]
            self._columns[name] = column
        return self._columns[name]

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return cast("list[str]", self._footer.schema.to_arrow_schema().names)

    @cached_property
    def splits(self) -> dict[str, range]:
        """Positions of the clips of each split, which are contiguous, as a shard has one split.

        The column `split` is dropped from memory.
        """
        positions: dict[str, range] = {}
        split = self["split"]
        for start, stop in pairwise(_edges(split)):
            name = split[start]
            before = positions.get(name, range(start, start))
            positions[name] = range(before.start, before.stop + stop - start)
        del self._columns["split"]
        return positions

    def facts(self, number: int) -> tuple[str, str, int]:
        """Return id, SHA-256 and sampling rate (Hz) of a clip by its position."""
        group, row = self._at(number)
        segment_ids, hashes, rates = self._facts(group)
        return segment_ids[row], hashes[row], rates[row]

    def find(self, segment_ids: Sequence[str]) -> list[int | None]:
        """Return the positions of clips by their ids; None where there is no such clip."""
        hashes, numbers = self._hashes
        wanted = np.array([hash(segment_id) for segment_id in segment_ids], np.int64)
        ends = (np.searchsorted(hashes, wanted, side).tolist() for side in ("left", "right"))
        candidates = [numbers[start:end].tolist() for start, end in zip(*ends, strict=True)]
        return [
            self._with_id(segment_id, positions)
            for segment_id, positions in zip(segment_ids, candidates, strict=True)
        ]

    def _with_id(self, segment_id: str, positions: list[int]) -> int | None:
        """Return the last position whose clip has an id; None if there is none.

        A single position is returned without a check of its id.
        """
        if len(positions) == 1:
            return positions[0]
        matching = (number for number in positions if self.facts(number)[0] == segment_id)
        return max(matching, default=None)

    @cached_property
    def _hashes(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The 64-bit hashes of the ids in ascending order, and the positions of their clips.

        They take 12 bytes a clip.
        """
        groups = (
            self._read(group, ["segment_id"])["segment_id"]
            for group in range(len(self._starts) - 1)
        )
        hashes = np.fromiter(
            (hash(text) for ids in groups for text in ids.to_pylist()), np.int64, len(self)
        )
        if self._order is not None:
            hashes = hashes[self._order]
        numbers = np.argsort(hashes).astype(np.int32)
        return hashes[numbers], numbers

    def row(self, number: int) -> dict[str, Any]:
        """Return the row of a clip by its position."""
        group, row = self._at(number)
        return cast("dict[str, Any]", self._whole(group).slice(row, 1).to_pylist()[0])

    def frame(self) -> "pl.DataFrame":
        """Read all rows and columns."""
        from nbaudio.tables.parquet_files import read_parquet

        with self._place.fetched() as path:
            return read_parquet(path).sort("shard", "offset", "segment_id")

    def _at(self, number: int) -> tuple[int, int]:
        """Return the row group of a clip, and the row in it, by its position."""
        row = number if self._order is None else int(self._order[number])
        group = bisect_right(self._starts, row) - 1
        return group, row - self._starts[group]

    def _checked_columns(self) -> dict[str, NDArray[Any]]:
        """Read and check the places of all clips; return their columns, and `split` if present.

        Columns of `_FACTS`, such as ids, are checked only. The rows are in the order of the table.
        """
        names = [name for name in (*PLACES, "split") if name in self.columns]
        columns = {name: self._empty_column(name) for name in names if name not in _FACTS}
        texts = dict[str, str]()
        for start, rows in self._row_groups(names):
            check_locations(self.folder, rows)
            for name, column in columns.items():
                columns[name] = _filled(column, start, rows[name], texts)
        return columns

    def _column(self, name: str) -> NDArray[Any]:
        """Read a column, in the order of the table."""
        column = self._empty_column(name)
        texts = dict[str, str]()
        for start, rows in self._row_groups([name]):
            column = _filled(column, start, rows[name], texts)
        return column

    def _empty_column(self, name: str) -> NDArray[Any]:
        """Return an array for the rows of a column, of a type that its values may widen."""
        if name in _TEXTS:
            return np.empty(len(self), object)
        return np.empty(len(self), np.int8)

    def _row_groups(self, names: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """Yield the first row of each row group with its columns, one group in memory at a time."""
        file = self._file()
        # A table without row groups has columns, too.
        for group, start in enumerate(self._starts[:-1] or [0]):
            yield start, self._read(group, names, file)

    def _file(self) -> Any:
        """Return a reader, which is for one thread.

        It uses no threads itself, as a forked process has none of them.
        """
        return pq.ParquetFile(self._source, metadata=self._footer, read_dictionary=_TEXTS)

    def _read(self, group: int, names: Sequence[str] | None = None, file: Any = None) -> pa.Table:
        """Read columns of a row group.

        Args:
            group: the number of the row group.
            names: the columns; all by default.
            file: the reader (see `_file`); a new one by default.
        """
        with self._reading():
            file = file or self._file()
            if len(self._starts) > 1:
                return file.read_row_group(group, columns=names, use_threads=False)
            return file.read(names)

    @cached_property
    def _source(self) -> Any:
        """The bytes in memory or the open file that readers of the table use."""
        if content := getattr(self._place, "content", None):
            return pa.BufferReader(content.file_bytes)
        with self._place.fetched() as path:
            return pa.OSFile(str(path))  # stays readable where a fetched copy is removed

    @cached_property
    def _footer(self) -> Any:
        """The metadata of the Parquet file, which is read once."""
        return pq.ParquetFile(self._source).metadata

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each row group, and the number of rows."""
        return [
            0,
            *accumulate(
                self._footer.row_group(group).num_rows
                for group in range(self._footer.num_row_groups)
            ),
        ]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors of reading the table into InputError."""
        try:
            yield
        except (InputError, pa.ArrowException, OSError, ValueError, MemoryError) as error:
            where = f"{self.folder}/{TABLE}: cannot be read; is {self.folder} a corpus?"
            raise InputError(f"{where} ({one_line(error)})") from error


@dataclass(frozen=True)
class SplitRows:
    """The rows of a split: columns by name, as those of `ClipTable`; `numbers` are positions."""

    table: ClipTable
    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.table[name][self.numbers.start : self.numbers.stop]


def _filled(
    column: NDArray[Any], start: int, values_of_rows: pa.ChunkedArray, texts: dict[str, str]
) -> NDArray[Any]:
    """Write values into a column from row `start` on; return it, in a wider type if they need it.

    `texts` are the texts of earlier rows, see `_values`.
    """
    for chunk in values_of_rows.chunks:
        part = _values(chunk, texts)
        column = column.astype(np.promote_types(column.dtype, part.dtype), copy=False)
        column[start : start + len(part)] = part
        start += len(part)
    return column


def _edges(column: NDArray[Any]) -> list[int]:
    """Return where runs of equal values begin, and the length of the column."""
    return [
        *range(min(1, len(column))),
        *(np.flatnonzero(column[1:] != column[:-1]) + 1).tolist(),
        len(column),
    ]


def _sorted_order(shards: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the order of rows by the names of shards, then by offset; None if they have it."""
    edges = _edges(shards)
    names = shards[edges[:-1]].tolist()
    falling = np.flatnonzero(offsets[1:] < offsets[:-1]) + 1
    if np.isin(falling, edges).all() and all(name < after for name, after in pairwise(names)):
        return None
    ranks = {name: rank for rank, name in enumerate(sorted({*names}))}
    ranks_of_runs = np.array([ranks[name] for name in names], np.int32)
    return np.lexsort((offsets, np.repeat(ranks_of_runs, np.diff(edges))))


def _values(column: pa.Array, texts: dict[str, str]) -> NDArray[Any]:
    """Return a column as an array.

    Equal texts of a dictionary column are one object: that in `texts`, to which new ones are added.
    """
    if not pa.types.is_dictionary(column.type) or column.null_count:
        return values(column)
    values_of_codes = np.array(
        [texts.setdefault(text, text) for text in column.dictionary.to_pylist()], object
    )
    return cast("NDArray[Any]", values_of_codes[np.from_dlpack(column.indices)])
