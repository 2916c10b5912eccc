"""The table of a corpus: the places of all clips are in memory; further columns and rows are read when they are needed."""

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
from nbaudio.corpus.locations import PLACES, check_locations, values
from nbaudio.storage.folders import Folder

if TYPE_CHECKING:
    import polars as pl

TABLE = "segments.parquet"  # table of all clips in a corpus

_TEXTS = ("shard", "split", "recording_id")  # columns of few different texts
_FACTS = ("segment_id", "audio_sha256", "sampling_rate")
_NEIGHBORS = 64  # rows whose facts are converted at once
_GROUPS = 32  # row groups that are kept: a stream reads from a few shards at a time, each of which has one


class ClipTable:
    """The rows of a corpus, sorted by `shard`, `offset` and `segment_id`; can be pickled, and used after a fork."""

    def __init__(self, folder: Folder) -> None:
        """Read the places of all clips; raise InputError where there is no such table, or one is implausible."""
        self.folder = folder
        self._order: NDArray[np.int64] | None = None
        self._open()
        with self._reading():
            self._place = folder.loaded(TABLE, MAX_TEXT_BYTES)
        with self._reading():
            names = {*PLACES, "split"} & {*self.columns}
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names - {"segment_id", "audio_sha256"}}
        known: dict[str | None, str | None] = {}
        for group in self._groups:
            rows = self._read(group, tuple(names))
            check_locations(folder, rows)
            for name, part in parts.items():
                part.append(_values(rows[name], known))
        self._columns = {name: np.concatenate(part) for name, part in parts.items()}
        self._order = self._sorted()
        if self._order is not None:
            self._columns = {name: column[self._order] for name, column in self._columns.items()}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column in the order of the corpus; texts are objects."""
        if name not in self._columns:
            known: dict[str | None, str | None] = {}
            column = np.concatenate([_values(self._read(group, (name,))[name], known) for group in self._groups])
            self._columns[name] = column if self._order is None else column[self._order]
        return self._columns[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_whole", "_facts", "_source", "_footer", "_starts")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return cast("list[str]", self._footer.schema.to_arrow_schema().names)

    @cached_property
    def splits(self) -> dict[str, range]:
        """Positions of the clips of each split, which are contiguous, as a shard has one split."""
        found: dict[str, range] = {}
        for start, stop in pairwise(_edges(self["split"])):
            before = found.get(name := self["split"][start], range(start, start))
            found[name] = range(before.start, before.stop + stop - start)
        return found

    def facts(self, number: int) -> tuple[str, str, int]:
        """Return id, SHA-256 and sampling rate (Hz) of a clip by its position."""
        group, row = self._at(number)
        segment_ids, hashes, rates = self._facts(group, row // _NEIGHBORS)
        row %= _NEIGHBORS
        return segment_ids[row], hashes[row], rates[row]

    def row(self, number: int) -> dict[str, Any]:
        """Return the row of a clip by its position."""
        group, row = self._at(number)
        return cast("dict[str, Any]", self._whole(group).slice(row, 1).to_pylist()[0])

    def frame(self) -> "pl.DataFrame":
        """Read all rows and columns."""
        from nbaudio.core.tables import read_parquet

        with self._place.fetched() as path:
            return read_parquet(path).sort("shard", "offset", "segment_id")

    def _at(self, number: int) -> tuple[int, int]:
        """Return the row group of a clip, and the row in it."""
        row = number if self._order is None else int(self._order[number])
        group = bisect_right(self._starts, row) - 1
        return group, row - self._starts[group]

    def _open(self) -> None:
        self._whole = lru_cache(_GROUPS)(self._read)
        some = lru_cache(_GROUPS)(lambda group: self._read(group, _FACTS))

        @lru_cache(16 * _GROUPS)
        def facts(group: int, part: int) -> list[list[Any]]:
            return [column.to_pylist() for column in some(group).slice(part * _NEIGHBORS, _NEIGHBORS).columns]

        self._facts = facts

    def _read(self, group: int, names: Sequence[str] | None = None) -> pa.Table:
        with self._reading():
            # Without threads, which a forked process has not; a reader is for one thread.
            file = pq.ParquetFile(self._source, metadata=self._footer, read_dictionary=_TEXTS)
            return file.read_row_group(group, columns=names, use_threads=False) if len(self._starts) > 1 else file.read(names)

    @cached_property
    def _source(self) -> Any:
        if content := getattr(self._place, "content", None):
            return pa.BufferReader(content.data)
        with self._place.fetched() as path:
            return pa.OSFile(str(path))  # stays readable where a fetched copy is removed

    @cached_property
    def _footer(self) -> Any:
        return pq.ParquetFile(self._source).metadata

    @cached_property
    def _starts(self) -> list[int]:
        """The first row of each row group, and the number of rows."""
        sizes = [self._footer.row_group(group).num_rows for group in range(self._footer.num_row_groups)]
        return [0, *accumulate(sizes)]

    @property
    def _groups(self) -> range:
        return range(max(1, len(self._starts) - 1))  # without a row group too there are columns

    def _sorted(self) -> NDArray[np.int64] | None:
        """Return the rows of the file in order; None where they are in order."""
        shard, offset = self["shard"], self["offset"]
        edges = _edges(shard)
        falls = offset[1:] <= offset[:-1]
        falls[np.array(edges[1:-1], int) - 1] = False
        heads = shard[edges[:-1]].tolist()
        if all(one < other for one, other in pairwise(heads)) and not falls.any():
            return None
        ranks = {name: rank for rank, name in enumerate(sorted({*heads}))}
        shards = np.repeat([ranks[name] for name in heads], np.diff(edges))
        order = np.lexsort((offset, shards))
        if not (np.diff(offset[order]) | np.diff(shards[order])).all():  # two clips at one place
            order = np.lexsort((np.unique(self["segment_id"], return_inverse=True)[1], offset, shards))
        return order

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (InputError, pa.ArrowException, OSError, ValueError, MemoryError) as error:
            where = f"{self.folder}/{TABLE}: cannot be read; is {self.folder} a corpus?"
            raise InputError(f"{where} ({one_line(error)})") from error


@dataclass(frozen=True)
class Rows:
    """Rows of a table: those of a split."""

    table: ClipTable
    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.table[name][self.numbers.start : self.numbers.stop]


def _edges(column: NDArray[Any]) -> list[int]:
    """Return where runs of equal values begin, and the end."""
    return [*range(min(1, len(column))), *(np.flatnonzero(column[1:] != column[:-1]) + 1).tolist(), len(column)]


def _values(column: pa.ChunkedArray, known: dict[str | None, str | None]) -> NDArray[Any]:
    """Return a column as an array; equal texts of few are one object."""
    found = [np.zeros(0, object if pa.types.is_dictionary(column.type) else int)] * (not column.num_chunks)
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type) and not chunk.null_count:
            texts = np.array([known.setdefault(text, text) for text in chunk.dictionary.to_pylist()], object)
            found.append(texts[np.from_dlpack(chunk.indices)])
        else:
            found.append(values(chunk))
    return np.concatenate(found)
