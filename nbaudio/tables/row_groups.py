"""Read some rows of a Parquet file.

Each row group is read by itself, so that the rows beside them are not kept in memory.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import polars as pl

from nbaudio.core.threads import in_threads


def read_rows(
    reader: Callable[[], Any], numbers: pl.Series, columns: Sequence[str]
) -> pl.DataFrame:
    """Return rows by their ascending numbers; `reader` opens the file for one thread."""
    footer = reader().metadata
    rows = numbers.cast(pl.Int64)
    sizes = (footer.row_group(group).num_rows for group in range(footer.num_row_groups))
    starts = pl.Series([0, *accumulate(sizes)], dtype=pl.Int64)
    groups = starts.search_sorted(rows, side="right").cast(pl.Int64) - 1
    parts = pl.DataFrame({"group": groups, "row": rows - starts.gather(groups)}).partition_by(
        "group", maintain_order=True
    )

    def read(part: pl.DataFrame) -> pl.DataFrame:
        held = reader().read_row_groups(
            [part["group"][0]], columns=list(columns), use_threads=False
        )
        return pl.DataFrame(pl.from_arrow(held.take(part["row"].to_arrow())))

    none = pl.DataFrame(pl.from_arrow(reader().read_row_groups([], columns=list(columns))))
    return pl.concat([none, *in_threads(read, parts)]).select(columns)
