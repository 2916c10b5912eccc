"""Filter and sort a frame by SQL conditions, text search and columns; orders are row numbers of the frame (uint32)."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.conditions import LONGEST_TEXT, condition_error, parse_condition
from nbaudio.core.errors import InputError

# Columns needed to find the audio of a segment, hidden from the user.
INTERNAL_COLUMNS = ("recording_path", "recording_channels", "sampling_rate", "num_samples", "place")

Order = NDArray[np.uint32]

# Most values searched for similar ones.
_MOST_VALUES = 10_000


def sort_and_filter(
    frame: pl.DataFrame, *, where: str = "", find: str = "", sort: str = "", descending: bool = False, narrowed: str = ""
) -> Order:
    """Return the numbers of rows that meet two SQL conditions and contain a text, whatever its case; empty options are ignored.

    Equal rows keep their order; nulls and NaN come last. Errors of `where`, `narrowed` and `sort` are `InputError`.
    """
    kept = _filter(frame, [text for text in (where.strip(), narrowed.strip()) if text], find)
    if not sort:
        return kept
    if sort not in frame.columns:
        near = get_close_matches(sort, frame.columns, n=3)
        raise InputError(
            f"sort: no column {sort!r}; "
            + (f"did you mean {' or '.join(near)}?" if near else f"columns are {', '.join(_columns(frame))}")
        )
    column = frame[sort]
    if column.dtype.is_float():
        column = column.fill_nan(None)
    if column.dtype.is_nested():
        raise InputError(f"sort: {sort} holds lists, which have no order")
    values = pl.DataFrame({"value": column if len(kept) == len(column) else column[kept]})
    by_value = values.select(pl.arg_sort_by("value", descending=descending, nulls_last=True, maintain_order=True))
    arranged: Order = kept[by_value.to_series().to_numpy()]
    return arranged


def _filter(frame: pl.DataFrame, wheres: Sequence[str], find: str) -> Order:
    columns = _columns(frame)
    conditions = [parse_condition(where, frame.schema, columns) for where in wheres]
    if find:
        if len(find) > LONGEST_TEXT:
            raise InputError(f"find: a text of {len(find):,} characters; at most {LONGEST_TEXT:,} are allowed")
        # A literal in a case-insensitive regular expression; lower-casing the columns first takes ten times as long.
        pattern = "(?i)" + re.sub(r"([\\.+*?()|\[\]{}^$#&\-~])", r"\\\1", find)
        texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        conditions.append(pl.any_horizontal(pl.lit(value=False), *(pl.col(name).str.contains(pattern) for name in texts)))
    if not conditions:
        return np.arange(len(frame), dtype=np.uint32)
    try:
        mask = frame.select(pl.all_horizontal(condition.fill_null(value=False) for condition in conditions)).to_series()
    except pl.exceptions.PolarsError as error:
        raise condition_error(" and ".join(wheres), error, columns) from error
    if len(mask) != len(frame):  # a constant
        mask = pl.Series([bool(mask[0])]).new_from_index(0, len(frame))
    return mask.arg_true().to_numpy().astype(np.uint32)


def _columns(frame: pl.DataFrame) -> list[str]:
    return [name for name in frame.columns if name not in INTERNAL_COLUMNS]


def similar_values(frame: pl.DataFrame, where: str) -> str:
    """Return which text of a filter no row has, with similar values; empty if there is none."""
    for name, value in re.findall(r"\b(\w+)\s*==?\s*'([^']*)'", where):
        if frame.schema.get(name) in (pl.String, pl.Categorical) or isinstance(frame.schema.get(name), pl.Enum):
            held = frame[name].cast(pl.String).drop_nulls().unique().sort()
            if value not in held:
                near = get_close_matches(value, held.head(_MOST_VALUES).to_list(), n=3)
                return f"no {name} '{value}'" + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")
    return ""
