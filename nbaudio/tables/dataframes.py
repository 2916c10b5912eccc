"""Convert tables, columns and ids of pandas or polars, which all public functions take, to polars.

Pandas is imported late.
"""

from collections.abc import Iterable
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


# This optimization of polars 2.1 loses the order of a streamed join
_ORDERED = pl.QueryOptFlags(check_order_observe=False)
STREAMED = _Streamed(engine="streaming", optimizations=_ORDERED)
"""Arguments of `pl.LazyFrame.collect` for tables that need not fit into memory."""
IN_ORDER: Any = {"maintain_order": True, "optimizations": _ORDERED}
"""The same for `collect_batches` and `sink_parquet`."""

Ids = Iterable[str] | Frame
"""Segment ids: strings, a Series of pandas or polars, or a table with a column `segment_id`."""


def as_polars(frame: Any, what: str = "table") -> pl.DataFrame:
    """Convert a table of pandas or polars to polars.

    Named or non-integer index levels become columns, NaN and NA become null, and categories and
    objects become text.
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
    names = [
        " ".join(map(str, name)).strip() if isinstance(name, tuple) else str(name)
        for name in frame.columns
    ]
    columns = []
    for number, name in enumerate(frame.index.names):
        level = frame.index.get_level_values(number)
        label = "index" if name is None else str(name)
        telling = name is not None or (
            len(level) and not pd.api.types.is_integer_dtype(level.dtype)
        )
        if telling and label not in names:
            columns.append(_column(label, level.to_series()))
    columns += [_column(name, frame.iloc[:, number]) for number, name in enumerate(names)]
    try:
        return pl.DataFrame(columns)
    except pl.exceptions.DuplicateError as error:
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what}: two columns are called {twice!r}") from error


def as_series(values: Any) -> pl.Series:
    """Convert a Series of pandas or polars, or any other values, to a polars Series.

    The rules are those of `as_polars`.
    """
    if isinstance(values, pl.Series):
        return values
    if hasattr(values, "array"):  # pandas
        return _column("" if values.name is None else str(values.name), values)
    return pl.Series(values=values)


def as_ids(ids: Any, what: str = "segment_ids") -> list[str]:
    """Return segment ids as a list, in order, from one id or any kind of `Ids`.

    Raise InputError, naming `what`, for anything else.
    """
    if isinstance(ids, str):
        return [ids]
    if hasattr(ids, "columns"):
        frame = as_polars(ids, what)
        if "segment_id" not in frame.columns:
            raise InputError(
                f"{what}: no column segment_id; columns are {', '.join(frame.columns) or 'none'}"
            )
        ids = frame["segment_id"]
    try:
        segment_ids = list(ids)
    except TypeError as error:
        raise InputError(
            f"{what}: must be ids or a table with a column segment_id, not {type(ids).__name__}"
        ) from error
    if odd := [value for value in segment_ids if not isinstance(value, str)]:
        raise InputError(f"{what}: an id is a text, not {odd[0]!r}")
    return segment_ids


def _column(name: str, values: "pd.Series[Any]") -> pl.Series:
    """Convert a column of pandas; objects and types that polars lacks become text."""
    import pandas as pd

    try:
        column: pl.Series = pl.from_pandas(values)
    except (
        pl.exceptions.PolarsError,
        ArithmeticError,
        NotImplementedError,
        TypeError,
        ValueError,
    ):  # bases of Arrow's errors
        column = pl.Series(dtype=pl.Object)
    if column.dtype == pl.Object or isinstance(column.dtype, pl.BaseExtension):
        texts = (
            None if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)
            for value in values
        )
        column = pl.Series(texts, dtype=pl.String)
    elif isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    return column.alias(name)
