"""Rows of a large Parquet file that stay there.

A column is read when it is needed, a page by the row groups of its rows.
"""

import copy
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.threads import in_threads
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.parquet_files import open_parquet
from nbaudio.tables.row_groups import read_rows
from nbaudio.tables.schemas import conform

_ROWS_AT_ONCE = 1 << 16  # read for a condition or an order
_PREFIX = 16  # bytes of a text that order it; UTF-8 has the order of code points
_SORTED_AT_ONCE = 1 << 16  # about so many rows, of which each 64th is drawn
_TIMES = ("recording_id", "start_sample", "end_sample")
_CODED = pl.Schema({"recording_id": pl.Categorical()})
_DECIMALS = ("source_start", "source_end")  # of durations that have no samples

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
        self._reader = open_parquet(path)
        footer = self._reader().metadata
        self._repeated = _repeated(footer)
        self._starts = np.cumsum(
            [0, *(footer.row_group(group).num_rows for group in range(footer.num_row_groups))]
        )
        bounds = np.unique(
            np.searchsorted(self._starts, [*range(0, len(self), _ROWS_AT_ONCE), len(self)])
        )
        self.parts = [range(*each) for each in pairwise(bounds.tolist())] or [range(0)]
        """Numbers of row groups that are read at once."""
        self._types = schema or pl.Schema()
        self._path = path
        self._recordings = (
            None
            if recordings is None
            else recordings.with_columns(pl.col("recording_id").cast(pl.Categorical))
        )
        self._held = self._reader().schema_arrow.names
        self._shortest = [name for name in (*self._repeated, *self._held) if name in self._held][:1]
        self._kept: dict[str, pl.Series] = {}
        self._further = pl.DataFrame(schema={"place": pl.UInt32})
        stored = list(columns or self._held)
        joined = (
            () if recordings is None else ("sampling_rate", "duration_s", *recordings.columns[2:])
        )
        self.columns = [*(["place"] if recordings is not None else []), *stored, *joined]
        self.schema = self.part(range(0), self.columns).schema

    def __len__(self) -> int:
        return int(self._starts[-1])

    def with_further(self, rows: pl.DataFrame) -> "StoredFrame":
        """Return the same rows with the further columns of `rows`.

        Their column `place` is the number of the row; rows that it lacks have null.
        """
        other = copy.copy(self)
        other._further = rows.cast({"place": pl.UInt32})
        other._kept = {}
        further = rows.drop("place").schema
        other.columns = [*(name for name in self.columns if name not in further), *further]
        other.schema = pl.Schema(
            {name: further.get(name) or self.schema[name] for name in other.columns}
        )
        return other

    def select(self, what: pl.Expr) -> pl.DataFrame:
        """Evaluate an expression, row by row, over the columns that it names."""
        names = list(dict.fromkeys(what.meta.root_names()))
        return pl.concat(
            in_threads(lambda groups: self.part(groups, names).select(what), self.parts)
        )

    def __getitem__(self, name: str) -> pl.Series:
        """Return a column, texts as categories; the last one of numbers stays in memory."""
        if name not in self._kept:
            coded = pl.col(pl.String).cast(pl.Categorical)
            values = in_threads(
                lambda groups: self.part(groups, [name]).with_columns(coded), self.parts
            )
            column = pl.concat(values).to_series().rechunk()
            if not self.is_narrow(name):
                return column
            self._kept = {name: column}
        return self._kept[name]

    def release(self) -> None:
        """Drop the column in memory."""
        self._kept.clear()

    def bounds(self, groups: range) -> slice:
        """Return the numbers of the rows of row groups."""
        return slice(int(self._starts[groups.start]), int(self._starts[groups.stop]))

    def part(self, groups: range, names: Sequence[str]) -> pl.DataFrame:
        """Return columns of row groups."""
        own = self.bounds(groups)
        for decimals in ((), _DECIMALS):  # which are read if there are no samples
            reader = self._reader(
                read_dictionary=["recording_id"] if self._is_joined(names) else []
            )
            table = reader.read_row_groups(
                groups, columns=self._needed(names, decimals), use_threads=False
            )
            frame = self._joined(
                pl.DataFrame(pl.from_arrow(table)),
                names,
                np.arange(own.start, own.stop, dtype=np.uint32),
            )
            if (
                "duration_s" not in names
                or self._recordings is None
                or not frame["duration_s"].has_nulls()
            ):
                break
        return frame

    def contains(self, groups: range, names: Sequence[str], pattern: str) -> pl.Series:
        """Return whether one of the texts of each row of row groups contains a pattern.

        Repeated texts are searched once.
        """
        own = self.bounds(groups)
        found = np.zeros(own.stop - own.start, bool)
        held = [name for name in names if name in self._held]
        reader = self._reader(read_dictionary=self._repeated)
        for column in reader.read_row_groups(groups, columns=held, use_threads=False).columns:
            done = 0
            for chunk in column.chunks:
                is_coded = hasattr(chunk, "dictionary")
                texts = pl.Series(pl.from_arrow(chunk.dictionary if is_coded else chunk)).cast(
                    pl.String
                )
                hits = texts.str.contains(pattern).fill_null(value=False).to_numpy()
                rows = found[done : (done := done + len(chunk))]
                rows |= (
                    np.append(hits, False)[chunk.indices.fill_null(len(hits))] if is_coded else hits
                )
        further = [name for name in names if name in self._further.columns[1:]]
        for texts in self.part(groups, further) if further else ():
            found |= texts.str.contains(pattern).fill_null(value=False).to_numpy()
        return pl.Series(found)

    def order(self, name: str, numbers: Order, *, descending: bool) -> Iterator[float | Order]:  # noqa: PLR0915
        """Sort rows by a column, stably, nulls last.

        Yield the share of the work that is done, and at the end the sorted rows. Texts are ordered
        by their first bytes.
        """
        self.release()
        dtype = self.schema[name]
        is_text = dtype in (pl.String, pl.Categorical)
        is_float = dtype.is_float() or dtype.is_decimal()
        key_type = (
            pl.Float64 if is_float else pl.UInt64 if is_text or dtype == pl.UInt64 else pl.Int64
        )
        keys = np.empty((1 + is_text, len(self)), f"{key_type()}".lower())
        missing = np.zeros(len(self), bool)

        def read(groups: range) -> float:
            own = self.bounds(groups)
            column = self.part(groups, [name]).to_series()
            column = column.cast(pl.Float64).fill_nan(None) if is_float else column
            missing[own] = column.is_null().to_numpy()
            values = (
                column.cast(pl.String)
                if is_text
                else column.to_physical().cast(key_type).fill_null(0)
            )
            keys[:, own] = _prefixes(values) if is_text else values.to_numpy()
            return float(own.stop / len(self) / 2)

        yield from in_threads(read, self.parts)
        if len(numbers) < len(self):
            keys = keys[:, numbers]
            missing = missing[numbers]
        if descending:
            (np.negative if is_float else np.invert)(keys, out=keys)
        # Sorted by ranges of the first key that differs, so that nothing takes long.
        first = keys[int(is_text and len(numbers) and keys[0].min() == keys[0].max())]
        step = _SORTED_AT_ONCE // 64
        edges = np.sort(first[::64][~missing[::64]])[step::step]
        # Each has a range of its own, which is in order
        frequent = edges[1:][edges[1:] == edges[:-1]]
        edges = np.unique(
            np.append(
                edges,
                np.nextafter(frequent, np.inf) if is_float else frequent + frequent.dtype.type(1),
            )
        )
        nulls = len(edges) + 1
        divided = np.empty(len(first), np.uint32)

        def divide(start: int) -> NDArray[np.intp]:
            """Sort the rows of a block, and their keys, by the number of their range.

            Return where each range begins.
            """
            block = slice(start, start + 2 * _SORTED_AT_ONCE)
            ranges = np.searchsorted(edges, first[block], side="right").astype(np.uint16)
            ranges[missing[block]] = nulls
            rows = np.argsort(ranges, kind="stable")
            divided[block] = rows + start
            for each in keys:
                each[block] = each[block][rows]
            return start + np.searchsorted(ranges[rows], np.arange(nulls + 2))

        blocks = []
        for starts in in_threads(divide, range(0, max(1, len(first)), 2 * _SORTED_AT_ONCE)):
            blocks.append(starts)
            yield 0.5

        def sort(number: int) -> Order:
            parts = [
                slice(*starts[number : number + 2])
                for starts in blocks
                if starts[number] < starts[number + 1]
            ]
            rows = np.concatenate([divided[part] for part in parts]) if parts else divided[:0]
            if number == nulls or all(
                (keys[:, part] == keys[:, parts[0].start, None]).all() for part in parts
            ):
                return rows
            return rows[np.lexsort(np.hstack([keys[::-1, part] for part in parts]))]

        order = np.empty(len(first), np.uint32)
        done = 0
        for number, rows in enumerate(in_threads(sort, range(nulls + 1))):
            order[done : (done := done + len(rows))] = rows
            yield 0.5 + number / (nulls + 1) / 2
        yield order if len(numbers) == len(self) else numbers[order]

    def sample(self, name: str, numbers: NDArray[np.uint32], most: int) -> tuple[pl.Series, int]:
        """Return the values of a column in some of the rows, about `most` in all, and a step.

        With a step of n, one in n of the row groups that hold such rows is read.
        """
        shown = np.zeros(len(self), bool)
        shown[numbers] = True
        held = [group for group, own in enumerate(np.split(shown, self._starts[1:-1])) if own.any()]
        step = -(-int(np.diff(self._starts)[held].sum()) // most) or 1
        parts = (range(group, group + 1) for group in held[::step])
        values = [
            self.part(part, [name]).to_series().filter(pl.Series(shown[self.bounds(part)]))
            for part in parts
        ]
        return pl.concat([pl.Series(name, [], self.schema[name]), *values]), step

    def rows(self, numbers: NDArray[Any], columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return rows by their numbers, in that order."""
        names = list(columns or self.columns)
        order = np.argsort(numbers, kind="stable")
        frame = read_rows(self._reader, pl.Series(numbers[order]), self._needed(names))
        return self._joined(frame, names, numbers[order])[np.argsort(order)]

    def row(self, number: int, *, named: Literal[True]) -> dict[str, Any]:
        """Return the values of a row by name."""
        return self.rows(np.array([number])).row(0, named=named)

    def is_narrow(self, name: str) -> bool:
        """Return whether a column takes at most 8 bytes a row."""
        return self.schema[name].is_numeric() or self.schema[name] in (
            pl.Boolean,
            pl.Enum,
            pl.Categorical,
        )

    def _is_joined(self, names: Sequence[str]) -> bool:
        known = {*self._held, *self._types, *self._further.columns[1:]}
        return self._recordings is not None and not known.issuperset(names)

    def _needed(self, names: Sequence[str], decimals: Sequence[str] = _DECIMALS) -> list[str]:
        """Return the columns of the file that some columns are made of."""
        needed = dict.fromkeys((*names, *((*_TIMES, *decimals) if self._is_joined(names) else ())))
        return [name for name in needed if name in self._held] or self._shortest

    def _joined(
        self, frame: pl.DataFrame, names: Sequence[str], numbers: NDArray[Any]
    ) -> pl.DataFrame:
        """Return columns of rows with the types that are asked for.

        They include what the recordings give.
        """
        if self._recordings is not None and self._is_joined(names):
            times = {
                name: dtype for name, dtype in self._types.items() if name in (*_TIMES, *_DECIMALS)
            }
            # Codes are joined twice as fast as texts
            frame = conform(frame, pl.Schema({**times, **_CODED}), str(self._path))
            wanted = [
                name
                for name in self._recordings.columns
                if name in (*_TIMES, "sampling_rate", *names)
            ]
            frame = frame.join(
                self._recordings.select(wanted),
                on="recording_id",
                how="left",
                maintain_order="left",
            )
            frame = frame.with_columns(seconds_column(), place=pl.Series(numbers, dtype=pl.UInt32))
        types = {name: dtype for name, dtype in self._types.items() if name in names}
        frame = conform(frame, pl.Schema(types), str(self._path))
        if further := [name for name in names if name in self._further.columns[1:]]:
            numbered = pl.DataFrame({"place": pl.Series(numbers, dtype=pl.UInt32)})
            frame = frame.with_columns(
                numbered.join(self._further, on="place", how="left", maintain_order="left").select(
                    further
                )
            )
        return frame.select(names)


def _repeated(footer: Any) -> list[str]:
    """Return the columns of texts that a Parquet file writes as numbers of texts."""
    middle = range(footer.num_row_groups // 2, footer.num_row_groups)[:1]
    chunks = [
        footer.row_group(group).column(i) for group in middle for i in range(footer.num_columns)
    ]
    texts = [chunk for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"]
    return [
        chunk.path_in_schema
        for chunk in texts
        if chunk.total_uncompressed_size < 4 * chunk.num_values
    ]


def _prefixes(column: pl.Series) -> NDArray[np.uint64]:
    """Return the first bytes of texts as numbers of the same order.

    The first row has the numbers of the first eight bytes, the second those of the others.
    """
    texts = column.fill_null("").rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[: len(column) + 1]
    letters = np.append(np.frombuffer(data or b"", np.uint8), np.zeros(_PREFIX, np.uint8))
    prefix = np.lib.stride_tricks.sliding_window_view(letters, _PREFIX)[starts[:-1]]
    lengths = np.diff(starts)
    short = np.flatnonzero(lengths < _PREFIX)
    prefix[short] *= np.arange(_PREFIX) < lengths[short, None]
    return prefix.view(">u8").T
