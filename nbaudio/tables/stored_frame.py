"""Rows of a large Parquet file, which are read when they are needed.

A column is read when it is needed, a page by the row groups of its rows.
"""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.threads import in_threads
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.parquet_files import open_parquet
from nbaudio.tables.schemas import conform

_ROWS_AT_ONCE = 1 << 16  # rows that are read at once for a condition or an order
_PREFIX = 16  # first bytes of a text, which give its order; UTF-8 orders as code points do
_TIMES = ("recording_id", "start_sample", "end_sample")
# Columns that give the duration where there are no samples.
_DECIMALS = ("source_start", "source_end")
_SORTED_AT_ONCE = 1 << 18  # rows of a range, about
_DRAWN = 64  # every 64th row is drawn to find the ranges

Order = NDArray[np.uint32]  # numbers of rows


class StoredFrame:
    """Rows of a Parquet file, with what tables use of a `polars.DataFrame`.

    The file may be replaced meanwhile. `recordings` are joined to segments.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None = None,
        *,
        schema: pl.Schema | None = None,
        recordings: pl.DataFrame | None = None,
    ) -> None:
        """Open a Parquet file, with some of its columns in the given order.

        `schema` has types that replace those of the file; `recordings` are joined by their ids.
        """
        self._path = path
        self._file = open_parquet(path)
        self._file_columns = self._file.file.collect_schema().names()
        self._types = schema or pl.Schema()
        self._recordings = recordings
        self._further = pl.DataFrame(schema={"place": pl.UInt32})
        self._column: dict[str, pl.Series] = {}
        self.parts = self._file.parts(_ROWS_AT_ONCE) or [range(0)]
        """Numbers of rows that are read at once."""
        self.columns = list(columns or self._file_columns)
        if recordings is not None:
            joined = ("sampling_rate", "duration_s", *recordings.columns[2:])
            self.columns = ["place", *self.columns, *joined]
        self.schema = self.part(range(0), self.columns).schema

    def __len__(self) -> int:
        return len(self._file)

    def with_further(self, rows: pl.DataFrame) -> "StoredFrame":
        """Return the same rows with the further columns of `rows`.

        Their column `place` is the number of the row; rows that it lacks have null.
        """
        other = copy.copy(self)
        other._further = rows.cast({"place": pl.UInt32})
        other._column = {}
        further = rows.drop("place").schema
        other.columns = [*(name for name in self.columns if name not in further), *further]
        other.schema = pl.Schema(
            {name: further.get(name) or self.schema[name] for name in other.columns}
        )
        return other

    def select(self, what: pl.Expr) -> pl.DataFrame:
        """Evaluate an expression, row by row, over the columns that it names."""
        names = list(dict.fromkeys(what.meta.root_names()))
        return pl.concat(in_threads(lambda rows: self.part(rows, names).select(what), self.parts))

    def __getitem__(self, name: str) -> pl.Series:
        """Return a column, texts as categories; the last one of numbers stays in memory."""
        if name not in self._column:
            is_text = self.schema[name] == pl.String
            values = pl.col(name).cast(pl.Categorical) if is_text else pl.col(name)
            column = self.select(values).to_series().rechunk()
            if not self.is_narrow(name):
                return column
            self._column = {name: column}
        return self._column[name]

    def release(self) -> None:
        """Drop the column in memory."""
        self._column.clear()

    def part(self, rows: range, names: Sequence[str]) -> pl.DataFrame:
        """Return columns of consecutive rows."""
        numbers = np.arange(rows.start, rows.stop, dtype=np.uint32)
        frame = self._completed(self._file.read(rows, self._needed(names)), names, numbers)
        if "duration_s" in names and frame["duration_s"].has_nulls():
            needed = self._needed((*names, *_DECIMALS))
            frame = self._completed(self._file.read(rows, needed), names, numbers)
        return frame

    def rows(self, numbers: NDArray[Any], columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return rows by their numbers, in that order."""
        names = list(columns or self.columns)
        order = np.argsort(numbers, kind="stable")
        ascending = numbers[order]
        frame = self._file.gather(ascending, self._needed((*names, *_DECIMALS)))
        return self._completed(frame, names, ascending)[np.argsort(order)]

    def row(self, number: int, *, named: Literal[True]) -> dict[str, Any]:
        """Return the values of a row by name."""
        return self.rows(np.array([number])).row(0, named=named)

    def order(self, name: str, numbers: Order, *, descending: bool) -> Iterator[float | Order]:
        """Sort rows by a column, stably, nulls last.

        Yield the share of the work that is done, and at the end the sorted rows. Texts are ordered
        by their first bytes.
        """
        self.release()
        keys = in_threads(lambda rows: _sort_key(self.part(rows, [name]).to_series()), self.parts)
        parts = []
        for rows, part in zip(self.parts, keys, strict=True):
            parts.append(part)
            yield rows.stop / max(1, len(self)) / 2
        values = pl.concat(parts)
        parts.clear()
        if len(numbers) != len(self):
            values = values.gather(numbers)
        places = []
        for sorted_part in sorted_by_ranges(values, _SORTED_AT_ONCE, descending=descending):
            places.append(sorted_part)
            yield 1 / 2
        yield numbers[pl.concat(places).to_numpy()]

    def sample(self, name: str, numbers: NDArray[np.uint32], most: int) -> tuple[pl.Series, int]:
        """Return the values of a column in some of the rows, about `most` in all, and a step.

        With a step of n, one in n of the row groups that hold such rows is read.
        """
        is_shown = np.zeros(len(self), bool)
        is_shown[numbers] = True
        groups = [
            group for group in self._file.groups() if is_shown[group.start : group.stop].any()
        ]
        step = -(-sum(map(len, groups)) // most) or 1
        values = [
            self.part(rows, [name]).to_series().filter(pl.Series(is_shown[rows.start : rows.stop]))
            for rows in groups[::step]
        ]
        return pl.concat([pl.Series(name, [], self.schema[name]), *values]), step

    def is_narrow(self, name: str) -> bool:
        """Return whether a column takes at most 8 bytes a row."""
        return self.schema[name].is_numeric() or self.schema[name] in (
            pl.Boolean,
            pl.Enum,
            pl.Categorical,
        )

    def _is_joined(self, names: Sequence[str]) -> bool:
        """Return whether some of the columns are made of the recordings."""
        others = {*self._file_columns, *self._types, *self._further.columns[1:]}
        return self._recordings is not None and not others.issuperset(names)

    def _needed(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the file that some columns are made of, one at least."""
        needed = dict.fromkeys(names)
        if self._is_joined(names):
            needed |= dict.fromkeys(_TIMES)
        return [name for name in needed if name in self._file_columns] or self._file_columns[:1]

    def _completed(
        self, frame: pl.DataFrame, names: Sequence[str], numbers: NDArray[Any]
    ) -> pl.DataFrame:
        """Return columns of rows, of which `frame` has those of the file, by the rows' numbers.

        They have the types that are asked for, and include what the recordings give.
        """
        is_joined = self._is_joined(names)
        needed = {*names}
        if is_joined:
            needed |= {*_TIMES, *_DECIMALS}
        types = {name: dtype for name, dtype in self._types.items() if name in needed}
        frame = conform(frame, pl.Schema(types), str(self._path))
        frame = frame.with_columns(place=pl.Series(numbers, dtype=pl.UInt32))
        if is_joined and self._recordings is not None:
            wanted = {"recording_id", "sampling_rate", *names}
            facts = self._recordings.select(pl.selectors.by_name(wanted, require_all=False))
            frame = frame.join(facts, on="recording_id", how="left", maintain_order="left")
            frame = frame.with_columns(seconds_column())
        if not {*self._further.columns[1:]}.isdisjoint(names):
            frame = frame.join(self._further, on="place", how="left", maintain_order="left")
        return frame.select(names)


def _sort_key(values: pl.Series) -> pl.Series:
    """Return numbers of the same order as some values; of a text, its first bytes as a number."""
    if values.dtype.is_float():
        return values.fill_nan(None)
    if values.dtype not in (pl.String, pl.Categorical):
        numbers = values.to_physical()
        return numbers if numbers.dtype.is_integer() else numbers.cast(pl.Int8)
    begin = values.cast(pl.String).cast(pl.Binary).bin.slice(0, _PREFIX)
    if (begin.bin.size() < _PREFIX).any():
        begin = (begin + pl.Series([bytes(_PREFIX)])).bin.slice(0, _PREFIX)
    return begin.bin.reinterpret(dtype=pl.UInt128, endianness="big")


def sorted_by_ranges(values: pl.Series, at_once: int, *, descending: bool) -> Iterator[pl.Series]:
    """Yield the places of values in their order, stably, nulls last.

    Values of one range at a time, about `at_once`, are sorted in a thread, so that nothing takes
    long. The first results are empty: the range of each value is not known yet.
    """
    sample = values.drop_nulls().gather_every(_DRAWN).sort()
    edges = sample.gather_every(at_once // _DRAWN)[1:].unique(maintain_order=True)
    last = len(edges) + 1

    def ranges_from(start: int) -> pl.Series:
        part_values = values.slice(start, at_once)
        numbers = edges.search_sorted(part_values, side="right").cast(pl.UInt16)
        return numbers.set(part_values.is_null(), last)

    parts = []
    for part in in_threads(ranges_from, range(0, max(1, len(values)), at_once)):
        parts.append(part)
        yield pl.Series("place", dtype=pl.UInt32)
    ranges = pl.concat(parts)

    def sorted_places(number: int) -> pl.Series:
        """Return the places of the values of one range, in their order."""
        places = (ranges == number).arg_true().alias("place")
        rows = pl.DataFrame([values.gather(places).alias("value"), places])
        return rows.sort(
            "value",
            descending=descending,
            nulls_last=True,
            maintain_order=True,
            multithreaded=False,  # several ranges are sorted at once
        )["place"]

    numbers = reversed(range(last)) if descending else range(last)
    yield from in_threads(sorted_places, (*numbers, last))
