"""Read some rows of a Parquet file: each row group by itself, so that the rows beside them are not kept in memory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.threads import in_threads


def read_rows(reader: Callable[[], Any], numbers: NDArray[Any], columns: Sequence[str]) -> pl.DataFrame:
    """Return rows by their ascending numbers; `reader` opens the file for one thread."""
    footer = reader().metadata
    starts = np.cumsum([0, *(footer.row_group(group).num_rows for group in range(footer.num_row_groups))])
    groups, firsts = np.unique(np.searchsorted(starts, numbers, side="right") - 1, return_index=True)

    def read(part: tuple[int, NDArray[Any]]) -> pl.DataFrame:
        group, within = part[0], part[1] - starts[part[0]]
        held = reader().read_row_groups([group], columns=list(columns), use_threads=False)
        return pl.DataFrame(pl.from_arrow(held.take(within)))

    none = pl.DataFrame(pl.from_arrow(reader().read_row_groups([], columns=list(columns))))
    parts = zip(groups.tolist(), np.split(numbers, firsts[1:]), strict=True) if len(numbers) else ()
    return pl.concat([none, *in_threads(read, parts)]).select(columns)
