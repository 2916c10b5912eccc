"""Filter and sort a frame by SQL conditions, text search and columns; orders are row numbers of the frame (uint32)."""

from functools import reduce
from operator import and_

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.conditions import LONGEST_TEXT, condition_mask
from nbaudio.core.errors import InputError

# Columns needed to find the audio of a segment, hidden from the user.
INTERNAL_COLUMNS = ("recording_path", "sampling_rate", "num_samples", "place")

Order = NDArray[np.uint32]


def sort_and_filter(
    frame: pl.DataFrame, *, where: str = "", find: str = "", sort: str = "", descending: bool = False, narrowed: str = ""
) -> Order:
    """Return the numbers of rows that meet both conditions and contain a text; equal rows keep their order, nulls are last."""
    columns = visible_columns(frame)
    masks = [condition_mask(frame, text, columns) for text in (where.strip(), narrowed.strip()) if text]
    if find:
        if len(find) > LONGEST_TEXT:
            raise InputError(f"find: a text of {len(find):,} characters; at most {LONGEST_TEXT:,} are allowed")
        # A literal in a case-insensitive regular expression; lower-casing the columns first takes ten times as long.
        pattern = "(?i)" + pl.escape_regex(find)
        texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        found = pl.any_horizontal(pl.col(name).str.contains(pattern).fill_null(value=False) for name in texts)
        masks.append(frame.select(found).to_series() if texts else pl.repeat(value=False, n=len(frame), eager=True))
    kept: Order = reduce(and_, masks).arg_true().to_numpy().astype(np.uint32) if masks else np.arange(len(frame), dtype=np.uint32)
    if not sort:
        return kept
    if sort not in columns:
        raise InputError(f"sort: no column {sort!r}; columns are {', '.join(columns)}")
    column = frame[sort]
    if column.dtype.is_float():
        column = column.fill_nan(None)
    if column.dtype.is_nested():
        raise InputError(f"sort: {sort} holds lists, which have no order")
    values = pl.DataFrame({"value": column if len(kept) == len(column) else column[kept]})
    by_value = values.select(pl.arg_sort_by("value", descending=descending, nulls_last=True, maintain_order=True))
    arranged: Order = kept[by_value.to_series().to_numpy()]
    return arranged


def visible_columns(frame: pl.DataFrame) -> list[str]:
    """Return the columns of a frame without those that the widgets have joined to segments."""
    return [name for name in frame.columns if name not in INTERNAL_COLUMNS or "recording_path" not in frame.columns]
