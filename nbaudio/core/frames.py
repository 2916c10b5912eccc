"""Tables and ids as callers have them: pandas or polars in, polars inside.

Every public function that takes a table or ids passes them through `as_polars`, `as_series` or `as_ids`. pandas is imported
when a table is not of polars.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import polars as pl

from nbaudio.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    Frame = pl.DataFrame | pd.DataFrame
    Column = pl.Series | pd.Series[Any]
else:
    Frame, Column = pl.DataFrame, pl.Series

Ids = Iterable[str] | Frame
"""Segment ids: texts, a pandas or polars Series of them, or a table with a column `segment_id`."""


def as_polars(frame: Any, what: str = "table") -> pl.DataFrame:
    """A table of pandas or polars as a polars frame.

    Of a pandas frame, levels of the index that have a name, or that are not whole numbers, become columns; NaN, None and NA
    become null; categories become text, and so do values that polars has no type for.

    Args:
        frame: a DataFrame or a Series.
        what: it is, for the error.

    Raises:
        InputError: it is something else, or two of its columns have one name.

    Examples:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"speaker_id": ["a", "a", "b"], "similarity": [0.5, 1.0, float("nan")]})
        >>> as_polars(frame.groupby("speaker_id").mean()).rows()
        [('a', 0.75), ('b', None)]
    """
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.Series):
        return frame.to_frame()
    import pandas as pd

    if isinstance(frame, pd.Series):
        frame = frame.to_frame()
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"{what}: must be a pandas or polars DataFrame, not {type(frame).__name__}")
    names = [" ".join(map(str, name)).strip() if isinstance(name, tuple) else str(name) for name in frame.columns]
    columns = []
    for number, name in enumerate(frame.index.names):
        level = frame.index.get_level_values(number)
        label = "index" if name is None else str(name)
        telling = name is not None or (len(level) and not pd.api.types.is_integer_dtype(level.dtype))
        if telling and label not in names:
            columns.append(_column(label, level.to_series()))
    columns += [_column(name, frame.iloc[:, number]) for number, name in enumerate(names)]
    try:
        return pl.DataFrame(columns)
    except pl.exceptions.DuplicateError as error:
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{what}: two columns are called {twice!r}") from error


def as_series(values: Any) -> pl.Series:
    """Convert a pandas or polars Series, or any other values, to a polars Series by the rules of `as_polars`.

    Examples:
        >>> import pandas as pd
        >>> as_series(pd.Series(["da", None], index=[7, 3])).to_list()
        ['da', None]
    """
    if isinstance(values, pl.Series):
        return values
    if hasattr(values, "array"):  # of pandas
        return _column("" if values.name is None else str(values.name), values)
    return pl.Series(values=values)


def as_ids(ids: Any, what: str = "segment_ids") -> list[str]:
    """Segment ids as a list, in their order.

    Args:
        ids: one id, or as of `Ids`.
        what: they are, for the error.

    Raises:
        InputError: one is no text, or a table has no column `segment_id`.

    Examples:
        >>> as_ids(pl.DataFrame({"segment_id": ["b", "a"], "wer": [0.1, 0.2]}))
        ['b', 'a']
    """
    if isinstance(ids, str):
        return [ids]
    if hasattr(ids, "columns"):
        frame = as_polars(ids, what)
        if "segment_id" not in frame.columns:
            raise InputError(f"{what}: no column segment_id; columns are {', '.join(frame.columns) or 'none'}")
        ids = frame["segment_id"]
    try:
        found = list(ids)
    except TypeError as error:
        raise InputError(f"{what}: must be ids or a table with a column segment_id, not {type(ids).__name__}") from error
    if odd := [one for one in found if not isinstance(one, str)]:
        raise InputError(f"{what}: an id is a text, not {odd[0]!r}")
    return found


def _column(name: str, values: "pd.Series[Any]") -> pl.Series:
    import pandas as pd

    try:
        found: pl.Series = pl.from_pandas(values)
    except (pl.exceptions.PolarsError, ArithmeticError, NotImplementedError, TypeError, ValueError):  # Arrow's are of these
        found = pl.Series(dtype=pl.Object)
    if found.dtype == pl.Object or isinstance(found.dtype, pl.BaseExtension):
        known = (None if pd.api.types.is_scalar(value) and pd.isna(value) else str(value) for value in values)
        found = pl.Series(known, dtype=pl.String)
    elif isinstance(found.dtype, pl.Categorical | pl.Enum):
        found = found.cast(pl.String)
    return found.alias(name)
