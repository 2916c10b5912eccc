"""Tables as polars holds them: conversion from pandas, and options that stream a query.

All public functions take tables, columns and ids of pandas or polars. Pandas is imported late.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import polars as pl

from nbaudio.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    Frame = pl.DataFrame | pd.DataFrame
    Column = pl.Series | pd.Series[Any]
else:
    Frame = pl.DataFrame
    Column = pl.Series


class _Streamed(TypedDict):
    engine: Literal["streaming"]
    optimizations: pl.QueryOptFlags


# `check_order_observe` of polars 2.1 drops the order of rows of a streamed join.
_KEEP_ORDER = pl.QueryOptFlags(check_order_observe=False)
STREAMED = _Streamed(engine="streaming", optimizations=_KEEP_ORDER)
"""Options of `pl.LazyFrame.collect` for tables that need not fit into memory."""
IN_ORDER: Any = {"maintain_order": True, "optimizations": _KEEP_ORDER}
"""Options of `collect_batches` and `sink_parquet`, which always stream, to keep the row order."""

# What `pl.from_pandas` raises of a type that it cannot convert. Errors of Arrow, which it calls,
# are subclasses of the built-in ones here.
_CONVERSION_ERRORS = (
    pl.exceptions.PolarsError,
    ArithmeticError,
    NotImplementedError,
    TypeError,
    ValueError,
)

Ids = Iterable[str] | Frame
"""Segment ids: strings, a Series of pandas or polars, or a table with a column `segment_id`."""


def as_polars(frame: Any, what: str = "table") -> pl.DataFrame:
    """Convert a table of pandas or polars to polars.

    NaN and NA become null, categories and objects become text. Index levels come first, as columns:
    those that have a name, and those without one unless they number the rows.

    Args:
        frame: a DataFrame of pandas or polars, or a Series of pandas, which is a table of a column.
        what: what the table is, for the error.

    Raises:
        InputError: `frame` is no table, or two of its columns have the same name.
    """
    if isinstance(frame, pl.DataFrame):
        return frame
    import pandas as pd

    if isinstance(frame, pd.Series):
        frame = frame.to_frame()
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"{what}: must be a pandas or polars DataFrame, not {type(frame).__name__}"
        )
    names = [_column_name(name) for name in frame.columns]
    columns = _index_columns(frame.index, names)
    columns += [_column(name, frame.iloc[:, number]) for number, name in enumerate(names)]
    try:
        return pl.DataFrame(columns)
    except pl.exceptions.DuplicateError as error:
        names = [column.name for column in columns]
        repeated_name = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what}: two columns are called {repeated_name!r}") from error


def _column_name(name: Any) -> str:
    """Return the name of a column of pandas as text; the levels of a name are joined by spaces."""
    if isinstance(name, tuple):
        return " ".join(map(str, name)).strip()
    return str(name)


def _index_columns(index: "pd.Index[Any]", column_names: Sequence[str]) -> list[pl.Series]:
    """Return the levels of the index of a table that are to be columns.

    These are levels with a name, and those without one unless they are integers, which number the
    rows. The column of a level without a name is `index`. A level with the name of a column of the
    table is left out: `set_index(..., drop=False)` gives both the same values.
    """
    import pandas as pd

    columns = []
    for number, name in enumerate(index.names):
        level = index.get_level_values(number)
        numbers_rows = len(level) == 0 or pd.api.types.is_integer_dtype(level.dtype)
        if name is None and numbers_rows:
            continue
        label = "index" if name is None else str(name)
        if label not in column_names:
            columns.append(_column(label, level.to_series()))
    return columns


def as_series(values: Any) -> pl.Series:
    """Convert a Series of pandas or polars, or a sequence of values, to a polars Series.

    A Series of pandas is converted as a column is by `as_polars`. One without a name, like other
    values, gives a Series called "".
    """
    if isinstance(values, pl.Series):
        return values
    is_pandas = hasattr(values, "array")
    if is_pandas:
        name = "" if values.name is None else str(values.name)
        return _column(name, values)
    return pl.Series(values=values)


def as_ids(ids: Any, what: str = "segment_ids") -> list[str]:
    """Return segment ids as a list, in order.

    Args:
        ids: an id, or several as in `Ids`.
        what: the name of the argument, for the error.

    Raises:
        InputError: `ids` are not ids, or a table without a column `segment_id`.
    """
    if isinstance(ids, str):
        return [ids]
    is_table = hasattr(ids, "columns")
    if is_table:
        frame = as_polars(ids, what)
        if "segment_id" not in frame.columns:
            raise InputError(
                f"{what}: no column segment_id; columns are {', '.join(frame.columns) or 'none'}"
            )
        ids = frame["segment_id"]
    try:
        segment_ids = ids.to_list() if isinstance(ids, pl.Series) else list(ids)
    except TypeError as error:
        raise InputError(
            f"{what}: must be ids or a table with a column segment_id, not {type(ids).__name__}"
        ) from error
    for value in segment_ids:
        if not isinstance(value, str):
            raise InputError(f"{what}: an id is a text, not {value!r}")
    return segment_ids


def _column(name: str, values: "pd.Series[Any]") -> pl.Series:
    """Convert a column of pandas.

    Categories, objects, and types that polars lacks become text; what is missing becomes null.
    """
    try:
        column: pl.Series = pl.from_pandas(values)
    except _CONVERSION_ERRORS:
        column = _as_texts(values)
    if column.dtype == pl.Object or isinstance(column.dtype, pl.BaseExtension):
        column = _as_texts(values)
    elif isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    return column.alias(name)


def _as_texts(values: "pd.Series[Any]") -> pl.Series:
    """Return a column of pandas as texts, and null where a value is missing."""
    import pandas as pd

    texts = (
        None if pd.api.types.is_scalar(value) and pd.isna(value) else str(value) for value in values
    )
    return pl.Series(texts, dtype=pl.String)
