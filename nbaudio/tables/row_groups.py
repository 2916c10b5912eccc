"""Read some rows of a Parquet file by their numbers.

Each row group is read by itself, so that the rows beside them are not kept in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.threads import in_threads


@dataclass(frozen=True)
class RowGroups:
    """Rows of a Parquet file, which stays open if another one takes its place.

    Attributes:
        file: all rows, scanned.
        starts: the number of the first row of each row group, and at last the number of all rows.
    """

    file: pl.LazyFrame
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.starts[-1])

    def groups(self) -> list[range]:
        """Return the numbers of the rows of each row group."""
        return [range(*ends) for ends in pairwise(self.starts.tolist())]

    def parts(self, rows: int) -> list[range]:
        """Return the numbers of rows, about `rows` in each part; a part has whole row groups."""
        ends = np.searchsorted(self.starts, [*range(0, len(self), rows), len(self)])
        return [range(*ends) for ends in pairwise(np.unique(self.starts[ends]).tolist())]

    def read(self, rows: range, columns: Sequence[str]) -> pl.DataFrame:
        """Return consecutive rows."""
        return self.file.slice(rows.start, len(rows)).select(columns).collect()

    def gather(self, numbers: NDArray[Any], columns: Sequence[str]) -> pl.DataFrame:
        """Return rows by their ascending numbers."""

        def read(group_numbers: NDArray[Any]) -> pl.DataFrame:
            first = int(group_numbers[0])
            return self.read(range(first, int(group_numbers[-1]) + 1), columns)[
                group_numbers - first
            ]

        groups = np.searchsorted(self.starts, numbers, side="right")
        ends = np.flatnonzero(np.diff(groups)) + 1
        parts = np.split(numbers, ends) if len(numbers) else []
        return pl.concat([self.read(range(0), columns), *in_threads(read, parts)])
