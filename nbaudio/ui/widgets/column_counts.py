"""Distributions of columns, and the SQL conditions of a choice.

Each row has the number of its bin or value, which makes counting fast.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.core.report import show
from nbaudio.tables.stored_frame import Order
from nbaudio.ui.histogram_bins import are_equal

MOST_BINS = 40  # bars of a histogram
# Share of the rows at either end that go into one bin if they would take most of the axis
_TAIL = 0.005
_LONGEST_NAME = 200
_AT_ONCE = 1 << 20  # rows; more at once would take several times the memory of their codes


@dataclass(frozen=True)
class NumberBins:
    """Bins of a numeric column, the last one closed.

    `codes` is the bin of each row, or `len(edges) - 1` where there is no finite number.
    """

    column: str
    edges: NDArray[np.float64]
    codes: NDArray[np.uint8]

    def counts(self, rows: Order | None = None) -> NDArray[np.int64]:
        """Return the number of rows in each bin, and of those without a finite number.

        All rows are counted unless some are given.
        """
        return _count(self.codes, rows, len(self.edges))

    @property
    def constant(self) -> str | None:
        """The value of all rows that have a number, or ``none``; None where the values differ."""
        has_numbers = len(self.codes) and bool((self.codes < len(self.edges) - 1).any())
        if not has_numbers:
            return value_name(None)
        least, *_, greatest = (float(edge) for edge in self.edges)
        if not are_equal(least, greatest):
            return None
        if least.is_integer():
            return number_text(least)
        return f"{least:.10g}"

    def condition(self, first: int, last: int) -> str:
        """Return the condition for the bins `first` to `last`, which NaN and null never meet.

        It is empty if these are all bins.
        """
        bins = len(self.edges) - 1
        if not 0 <= first <= last < bins:
            raise InputError(f"{self.column}: bins {first} to {last}; there are {bins}")
        if (first, last) == (0, bins - 1):
            return ""
        name = quoted(self.column)
        below = "<=" if last == bins - 1 else "<"
        return (
            f"{name} >= {number_text(self.edges[first])} and {name} {below} "
            f"{number_text(self.edges[last + 1])}"
        )


@dataclass(frozen=True)
class ValueCounts:
    """Values of a column, the most frequent first.

    `codes` is the place of each row's value in `values`.
    """

    column: str
    values: pl.Series  # the different texts or booleans; null stands for no value
    codes: NDArray[Any]

    def counts(self, rows: Order | None = None) -> NDArray[np.int64]:
        """Return the number of rows with each value; of all rows unless given."""
        return _count(self.codes, rows, len(self.values))

    @property
    def constant(self) -> str | None:
        """The value of all rows; None where the values differ, and without rows."""
        return value_name(self.values[0]) if len(self.values) == 1 else None

    def search(self, text: str, most: int, picked: Sequence[object] = ()) -> tuple[list[int], int]:
        """Return the places of picked values and of the first `most` that contain a text.

        The second result is how many more values contain it.
        """
        names = self.values.cast(pl.String).fill_null(value_name(None)).str.to_lowercase()
        places = names.str.contains(text.lower(), literal=True).arg_true().to_list()
        picked_places = [
            place for value in picked for place in self.values.eq_missing(value).arg_true().head(1)
        ]
        return list(dict.fromkeys([*picked_places, *places[:most]])), max(0, len(places) - most)

    def condition(self, *picked: object) -> str:
        """Return the condition for some values; empty for none."""
        literals = [_literal(value) for value in picked if value is not None]
        column = quoted(self.column)
        parts = []
        if literals:
            parts.append(f"{column} in ({', '.join(literals)})")
        if None in picked:
            parts.append(f"{column} is null")
        if len(parts) > 1:
            return f"({' or '.join(parts)})"
        return "".join(parts)


@dataclass(frozen=True)
class Density:
    """Grid of two numeric columns, whose own bins have no codes.

    `codes` is the cell of each row, counted from below, or `cells` without finite numbers.
    """

    x: NumberBins
    y: NumberBins
    codes: NDArray[Any]
    cells: int

    def levels(self, rows: Order | None = None) -> NDArray[np.uint8]:
        """Return the density of each cell.

        It is 0 for no row, else from 32 for one row to 255 for the most, on a logarithmic scale.
        """
        counts = _count(self.codes, rows, self.cells + 1)[: self.cells]
        share = np.log1p(counts) / max(np.log1p(counts.max(initial=0.0)), 1e-9)
        return np.where(counts > 0, 32 + 223 * share, 0).astype(np.uint8)


def number_bins(column: pl.Series, most: int = MOST_BINS) -> NumberBins:
    """Return at most `most` bins of round width; long tails are in the outermost bins."""
    values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    edges = _edges(values[np.isfinite(values)], most)
    # A condition compares numbers of 32 bits with edges of 32 bits.
    if column.dtype == pl.Float32:
        borders = edges.astype(np.float32).astype(float)
    else:
        borders = edges
    codes = np.empty(len(values), dtype=np.uint8)
    for start in range(0, len(values), _AT_ONCE):
        part = values[start : start + _AT_ONCE]
        bins = (np.searchsorted(borders, part, side="right") - 1).clip(0, len(edges) - 2)
        codes[start : start + _AT_ONCE] = np.where(np.isfinite(part), bins, len(edges) - 1)
    return NumberBins(column.name, edges, codes)


def value_counts(column: pl.Series) -> ValueCounts:
    """Return the values of a column by falling number of rows, equal ones as they occur."""
    if column.dtype not in (pl.Boolean, pl.Categorical):
        column = column.cast(pl.String)
    frame = pl.DataFrame({"value": column})
    kinds = (
        frame.group_by("value", maintain_order=True)
        .agg(pl.len())
        .sort("len", descending=True, maintain_order=True)
    )
    kinds = kinds.with_row_index("code")
    codes = frame.join(kinds, on="value", how="left", nulls_equal=True, maintain_order="left")[
        "code"
    ]
    if column.dtype == pl.Boolean:
        values = kinds["value"]
    else:
        values = kinds["value"].cast(pl.String)
    return ValueCounts(
        column.name, values, codes.to_numpy().astype(np.min_scalar_type(len(values)))
    )


def density(x: pl.Series, y: pl.Series, size: tuple[int, int]) -> Density:
    """Return the grid of two columns with at most `size` cells across and up."""
    across = number_bins(x, size[0])
    up = number_bins(y, size[1])
    wide = len(across.edges) - 1
    high = len(up.edges) - 1
    codes = up.codes.astype(np.min_scalar_type((wide + 1) * (high + 1)))
    codes *= codes.dtype.type(wide)
    codes += across.codes
    codes[(across.codes == wide) | (up.codes == high)] = wide * high
    none = np.zeros(0, np.uint8)
    return Density(replace(across, codes=none), replace(up, codes=none), codes, wide * high)


def quoted(column: str) -> str:
    """Return the name of a column as conditions have it."""
    if column.isidentifier() and column.islower():
        return column
    return '"' + column.replace('"', '""') + '"'


def _literal(value: object) -> str:
    """Return a text or a logical value as conditions have it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + str(value).replace("'", "''") + "'"


def value_name(value: object) -> str:
    """Return a value as the page shows it."""
    return "none" if value is None else show(value)[:_LONGEST_NAME]


def number_text(value: float) -> str:
    """Return a number as conditions have it, exactly."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(float(value))


def _count(codes: NDArray[Any], rows: Order | None, kinds: int) -> NDArray[np.int64]:
    """Return the number of rows with each code from 0 to `kinds`, of all rows unless given."""
    chosen = codes if rows is None else codes[rows]
    parts = np.array_split(chosen, len(chosen) // _AT_ONCE + 1)
    return np.asarray(sum(np.bincount(part, minlength=kinds) for part in parts))


def _edges(values: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return the edges of bins that hold all values, two at least."""
    if not len(values):
        return np.array([0.0, 1.0])
    least = float(values.min())
    greatest = float(values.max())
    axis = _axis_of(values)
    width = (axis.high / 2 - axis.low / 2) * 2 / (most - 2)
    if are_equal(least, greatest) or not 1e-300 < width < math.inf:
        return np.array([least, greatest])
    edges = _with_outermost(_round_edges(axis, width), least, greatest)
    if not 1 < len(edges) <= most + 1:
        return np.linspace(least, greatest, most + 1)
    return edges


@dataclass(frozen=True)
class _Axis:
    """The part of an axis that has bins of equal width."""

    low: float
    high: float


def _axis_of(values: NDArray[np.float64]) -> _Axis:
    """Return an axis for values, without tails that would take most of it.

    The values are put into another order.
    """
    least = float(values.min())
    greatest = float(values.max())
    shares = [_TAIL, 1 - _TAIL]
    low, high = np.quantile(values, shares, method="nearest", overwrite_input=True).tolist()
    # A tail that is no longer than the body is shown as well.
    body = high - low
    if low - least <= body or not body:
        low = least
    if greatest - high <= body or not body:
        high = greatest
    return _Axis(low, high)


def _round_edges(axis: _Axis, width: float) -> NDArray[np.float64]:
    """Return edges at multiples of a round step, which is at least about a width."""
    unit = 10.0 ** math.floor(math.log10(width))
    step = next(times * unit for times in (1, 2, 5, 10) if times * unit >= width * (1 - 1e-9))
    first = math.floor(axis.low / step)
    last = math.ceil(axis.high / step)
    digits = max(0, -math.floor(math.log10(step)))
    return np.round(np.arange(first, max(last, first + 1) + 1) * step, min(digits, 300))


def _with_outermost(
    edges: NDArray[np.float64], least: float, greatest: float
) -> NDArray[np.float64]:
    """Return edges with the least and the greatest value, where these are beyond them."""
    outermost = [value for value in (least, greatest) if value < edges[0] or value > edges[-1]]
    return np.unique(np.append(edges, outermost))
