"""Rows of a large Parquet file that stay there: a column is read when it is needed, a page by the row groups of its rows."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.tables import conform, open_parquet, seconds_column

_ROWS_AT_ONCE = 1 << 18  # read for a condition or an order
_MOST_KEPT_BYTES = 200_000_000  # of columns without texts, kept from one condition or order to the next
_PREFIX = 16  # bytes of a text that order it; UTF-8 has the order of code points
_TIMES = ("recording_id", "start_sample", "end_sample", "source_start", "source_end")


class StoredFrame:
    """What tables use of a `polars.DataFrame`, of a file that may be replaced meanwhile; `recordings` are joined to segments."""

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None = None,
        *,
        schema: pl.Schema | None = None,
        recordings: pl.DataFrame | None = None,
    ) -> None:
        self._file = open_parquet(path)
        footer = self._file.metadata
        self._starts = np.cumsum([0, *(footer.row_group(group).num_rows for group in range(footer.num_row_groups))])
        self._types, self._recordings, self._path = schema or pl.Schema(), recordings, path
        held = self._file.schema_arrow.names
        self._held = set(held)
        self._kept: dict[str, pl.Series] = {}
        self.advance: Callable[[float], object] = lambda _share: None  # called while a column is read
        stored = list(columns or held)
        joined = () if recordings is None else ("sampling_rate", "duration_s", *recordings.columns[2:])
        self.columns = [*(["place"] if recordings is not None else []), *stored, *joined]
        self.schema = self._read([], self.columns).schema

    def __len__(self) -> int:
        return int(self._starts[-1])

    def select(self, what: pl.Expr) -> pl.DataFrame:
        """Evaluate a condition, row by row, over the columns that it names."""
        names = list(dict.fromkeys(what.meta.root_names()))
        if names and 8 * len(self) * len(names) <= _MOST_KEPT_BYTES and all(map(self._is_narrow, names)):
            return pl.DataFrame([self[name] for name in names]).select(what)
        return pl.concat([part.select(what) for part in self._parts(names)])

    def __getitem__(self, name: str) -> pl.Series:
        """Return a column."""
        if name not in self._kept:
            column = pl.concat([part[name] for part in self._parts([name])]).rechunk()
            if not self._is_narrow(name):
                return column
            while self._kept and sum(each.estimated_size() for each in (column, *self._kept.values())) > _MOST_KEPT_BYTES:
                del self._kept[next(iter(self._kept))]
            self._kept[name] = column
        return self._kept[name]

    def release(self) -> None:
        """Drop the cached columns."""
        self._kept.clear()

    def text_order(self, name: str, numbers: NDArray[np.uint32], *, descending: bool) -> NDArray[np.int64]:
        """Return the order of rows by the first bytes of a text; equal ones keep their order, nulls are last."""
        self.release()
        keys = np.empty((2, len(self)), np.uint64)
        missing, done = np.zeros(len(self), bool), 0
        for part in self._parts([name]):
            own = slice(done, done := done + len(part))
            missing[own] = part[name].is_null().to_numpy()
            texts = part[name].fill_null("").rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
            _, offsets, data = texts.buffers()
            starts = np.frombuffer(offsets, np.int64)[: len(part) + 1]
            letters = np.append(np.frombuffer(data or b"", np.uint8), np.zeros(_PREFIX, np.uint8))
            prefix = np.lib.stride_tricks.sliding_window_view(letters, _PREFIX)[starts[:-1]]
            prefix[np.arange(_PREFIX) >= np.diff(starts)[:, None]] = 0
            keys[:, own] = (~prefix if descending else prefix).view(">u8").T
        if len(numbers) < len(self):
            keys, missing = keys[:, numbers], missing[numbers]
        return np.lexsort((*keys[::-1], *([missing] if missing.any() else [])))  # a key less takes less memory

    def sample(self, name: str, numbers: NDArray[np.uint32], most: int) -> pl.Series:
        """Return some values of a column in rows, from whole row groups, at most about `most`."""
        step = -(-len(numbers) // most) or 1
        if self._is_narrow(name):
            return self[name].gather(numbers[::step])
        return self.rows(numbers[self._groups(numbers) % step == 0], [name]).to_series()

    def rows(self, numbers: NDArray[Any], columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return rows by their numbers, in that order."""
        names, groups = list(columns or self.columns), self._groups(numbers)
        places = [np.flatnonzero(groups == group) for group in np.unique(groups)]
        parts = [self._read([group], names, numbers[own] - self._starts[group]) for own in places for group in groups[own[:1]]]
        order: NDArray[np.int64] = np.argsort(np.concatenate([np.zeros(0, np.int64), *places]))
        return pl.concat([self._read([], names), *parts])[order]

    def row(self, number: int, *, named: Literal[True]) -> dict[str, Any]:
        """Return the values of a row by name."""
        return self.rows(np.array([number])).row(0, named=named)

    def _groups(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        return np.searchsorted(self._starts, numbers, side="right") - 1

    def _is_narrow(self, name: str) -> bool:
        return self.schema[name].is_numeric() or self.schema[name] in (pl.Boolean, pl.Enum, pl.Categorical)

    def _parts(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield columns of all rows, some row groups at a time."""
        bounds = np.unique(np.searchsorted(self._starts, [*range(0, len(self), _ROWS_AT_ONCE), len(self)]))
        for first, last in pairwise(bounds):
            yield self._read(list(range(first, last)), names)
            self.advance(float(self._starts[last]) / len(self))
        if len(bounds) < 2:
            yield self._read([], names)

    def _read(self, groups: list[int], names: Sequence[str], within: NDArray[Any] | None = None) -> pl.DataFrame:
        """Return columns of row groups, or of the rows `within` them, with what the recordings give."""
        is_joined = self._recordings is not None and any(name not in self._held and name not in self._types for name in names)
        needed = [name for name in dict.fromkeys((*names, *(_TIMES if is_joined else ()))) if name in self._held]
        table = self._file.read_row_groups(groups, columns=needed or list(self._held)[:1])
        frame = pl.DataFrame(pl.from_arrow(table.take(within) if within is not None else table))
        types = pl.Schema({name: dtype for name, dtype in self._types.items() if name in names or (is_joined and name in _TIMES)})
        frame = conform(frame, types, str(self._path))
        if is_joined and self._recordings is not None:
            frame = frame.join(self._recordings, on="recording_id", how="left", maintain_order="left")
            start = int(self._starts[groups[0]]) if groups else 0
            places = np.arange(len(frame)) if within is None else within
            frame = frame.with_columns(seconds_column(), place=pl.Series(places + start, dtype=pl.UInt32))
        return frame.select(names)
