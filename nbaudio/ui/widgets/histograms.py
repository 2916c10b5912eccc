"""Histograms of columns and a scatter of two columns, in which rows of a table are chosen.

A reader brushes a range of a numeric column, picks values of another one, or draws a box in the
scatter. Each choice becomes an SQL condition.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl
import traitlets

from nbaudio.core.errors import InputError
from nbaudio.tables.schemas import hypothesis_names
from nbaudio.tables.stored_frame import Order
from nbaudio.ui.filters import TableFrame, visible_columns
from nbaudio.ui.widgets.base_widget import BaseWidget, Response, esm, handlers
from nbaudio.ui.widgets.column_counts import (
    Density,
    NumberBins,
    ValueCounts,
    density,
    number_bins,
    value_counts,
    value_name,
)
from nbaudio.ui.widgets.static_html import Table

MOST_VALUES = 8  # values shown of a column; others are found by a search
# The size of the bars of a numeric column in a saved page, in pixels.
_SAVED_WIDTH = 200
_SAVED_HEIGHT = 60
SIZE = (80, 56)  # cells of a scatter across and up: a few kilobytes, whatever the number of rows

Rows = Callable[[], Order]  # returns the numbers of the rows that pass every filter
Box = tuple[int, int, int, int]  # first and last cell across, first and last cell up
# The first and last bin of a numeric column, or the picked values of another one.
_Choice = tuple[int, int] | list[Any]


def _is_countable(dtype: pl.DataType) -> bool:
    """Return whether a column of a type has a histogram."""
    return dtype.is_numeric() or isinstance(
        dtype, pl.String | pl.Boolean | pl.Categorical | pl.Enum
    )


class Histograms(BaseWidget):
    """Histograms of columns of a frame: the counts of all rows, and of those that `rows()` returns.

    Each choice calls `changed`.
    """

    _esm = esm("core", "range_handles", "histograms")
    version = traitlets.Int(0).tag(sync=True)  # another one makes the front end request the counts

    def __init__(
        self, frame: TableFrame, columns: Sequence[str], rows: Rows, changed: Callable[[], None]
    ) -> None:
        self._frame = frame
        self._rows = rows
        self._changed = changed
        self._distributions: dict[str, NumberBins | ValueCounts] = {}
        self._chosen: dict[str, _Choice] = {}
        self._searched: dict[str, str] = {}  # the text that values of a column were searched for
        self._columns = list(columns)
        super().__init__(
            handlers(self, "histograms", "state", "show", "find", "brush", "pick", "clear")
        )

    @property
    def conditions(self) -> list[str]:
        """The SQL conditions of the choices, at most one per column, those of ranges first."""
        ranges_first = sorted(self._chosen.items(), key=lambda item: isinstance(item[1], list))
        conditions = [
            self._distribution(column).condition(*choice) for column, choice in ranges_first
        ]
        return [condition for condition in conditions if condition]

    def refresh(self, frame: TableFrame | None = None, changed: Sequence[str] = ()) -> None:
        """Make the front end request the counts again.

        `frame` replaces the present one, from which it differs in the columns `changed` only.
        """
        if frame is not None:
            self._frame = frame
            for column in changed:
                self._distributions.pop(column, None)
        self.version += 1

    def _distribution(self, column: str) -> NumberBins | ValueCounts:
        """Return the distribution of a column, counted once; raise InputError if it has none."""
        if column not in self._distributions:
            if column not in self._frame.columns or not _is_countable(self._frame.schema[column]):
                raise InputError(
                    f"{column}: there is no histogram; columns with one are "
                    f"{', '.join(self._countable())}"
                )
            values = self._frame[column]
            if values.dtype.is_numeric():
                self._distributions[column] = number_bins(values)
            else:
                self._distributions[column] = value_counts(values)
        return self._distributions[column]

    def _countable(self) -> list[str]:
        return [
            name for name in visible_columns(self._frame) if _is_countable(self._frame.schema[name])
        ]

    def _state(self) -> dict[str, Any]:
        rows = self._rows()
        items = [self._item(column, rows) for column in self._columns]
        return {"columns": self._countable(), "items": items, "chosen": len(self._chosen)}

    def _item(self, column: str, rows: Order) -> dict[str, Any]:
        """Return what the front end draws of a column.

        This is one of three forms: the one value of all rows, the bins of a numeric column, or the
        most frequent values of another one. Bins and values have two counts: of all rows, and of
        `rows`, which pass every filter.
        """
        distribution = self._distribution(column)
        if distribution.constant is not None:
            item = self._constant_item(distribution, distribution.constant)
        elif isinstance(distribution, NumberBins):
            item = self._bins_item(distribution, rows)
        else:
            item = self._values_item(distribution, rows)
        return {"column": column, **item}

    def _constant_item(
        self, distribution: NumberBins | ValueCounts, constant: str
    ) -> dict[str, Any]:
        """Describe a column with one value: the value, and the number of rows that have none."""
        without = 0
        if isinstance(distribution, NumberBins) and constant != value_name(None):
            without = int(distribution.counts()[-1])
        chosen = distribution.column in self._chosen
        return {"constant": constant, "without": without, "chosen": chosen}

    def _bins_item(self, distribution: NumberBins, rows: Order) -> dict[str, Any]:
        """Return edges and counts of the bins, and how many rows are without a number."""
        *counts, without = distribution.counts().tolist()
        *passing, _ = distribution.counts(rows).tolist()
        return {
            "edges": distribution.edges.tolist(),
            "all": counts,
            "passing": passing,
            "without": without,
            "chosen": self._chosen.get(distribution.column),
        }

    def _values_item(self, distribution: ValueCounts, rows: Order) -> dict[str, Any]:
        """Return the picked values and the most frequent ones that contain the searched text."""
        counts = distribution.counts()
        passing = distribution.counts(rows)
        picked = self._chosen.get(distribution.column, [])
        searched = self._searched.get(distribution.column, "")
        places, more = distribution.search(searched, MOST_VALUES, picked)
        values = [
            {
                "place": place,
                "name": value_name(value),
                "picked": value in picked,
                "all": int(counts[place]),
                "passing": int(passing[place]),
            }
            for place, value in zip(places, distribution.values[places], strict=True)
        ]
        return {
            "values": values,
            "more": more,
            "kinds": len(distribution.values),
            "find": searched,
            "most": int(counts.max(initial=1)),
            "chosen": bool(picked),
        }

    def _show(self, *, columns: Sequence[str]) -> None:
        """Show the histograms of other columns; choices of columns that are hidden are removed."""
        for column in columns:
            self._distribution(column)  # raises InputError before anything is changed
        self._columns = list(columns)
        hidden_columns = [column for column in self._chosen if column not in columns]
        if hidden_columns:
            self._choose(dict.fromkeys(hidden_columns))
        self.refresh()

    def _find(self, *, column: str, text: str) -> None:
        """Show the values of a column that contain a text."""
        self._searched[column] = text
        self.refresh()

    def _brush(self, *, column: str, first: int, last: int) -> None:
        """Choose the bins `first` to `last` of a column; all bins are no choice."""
        if self._distribution(column).condition(first, last):
            self._choose({column: (first, last)})
        else:
            self._choose({column: None})

    def _pick(self, *, column: str, place: int) -> None:
        """Add the value at a place to the choice, or remove it if it is already chosen."""
        distribution = self._distribution(column)
        if isinstance(distribution, NumberBins):
            raise InputError(f"{column} holds numbers: brush a range")
        value = distribution.values[place]
        picked = self._chosen.get(column, [])
        if value in picked:
            choice = [picked_value for picked_value in picked if picked_value != value]
        else:
            choice = [*picked, value]
        self._choose({column: choice})

    def _clear(self, *, column: str | None = None) -> None:
        """Remove the choice of a column, or of all columns."""
        if column is None:
            self._choose(dict.fromkeys(self._chosen))
        else:
            self._choose({column: None})

    def _choose(self, choices: Mapping[str, _Choice | None]) -> None:
        """Replace the choices of some columns; None and an empty list are no choice.

        If the filter fails, all choices stay as they were.
        """
        before = self._chosen
        all_choices: dict[str, _Choice | None] = {
            **{column: choice for column, choice in before.items() if column not in choices},
            **choices,
        }
        self._chosen = {column: choice for column, choice in all_choices.items() if choice}
        try:
            self._changed()
        except InputError:
            self._chosen = before
            raise

    def static_html(self) -> str:
        """Return the histograms as pictures and tables, with the part that passes all filters."""
        rows = self._rows()
        parts = []
        for column in self._columns:
            html = _saved_html(self._item(column, rows))
            parts.append(f"<div><p><code>{escape(column)}</code></p>{html}</div>")
        style = "display:flex;flex-wrap:wrap;gap:0 2em"
        return f'<div class="nbaudio-histograms" style="{style}">{"".join(parts)}</div>'


def _saved_html(item: Mapping[str, Any]) -> str:
    """Return the HTML of an item of `Histograms`, in any of its three forms, for a saved page."""
    if "constant" in item:
        return _constant_html(item)
    if "edges" in item:
        return _bars_html(item)
    return _values_html(item)


def _constant_html(item: Mapping[str, Any]) -> str:
    """Return the one value of a column, and how many rows have no number."""
    value = escape(item["constant"])
    if item["without"]:
        return f"<p>{value}; {item['without']:,} without a number</p>"
    return f"<p>all: {value}</p>"


def _bars_html(item: Mapping[str, Any]) -> str:
    """Return the bars of a numeric column as SVG, with a line of text below.

    A bar is 9 units wide, with a space of 1 unit behind it. Bars of the rows that pass are drawn
    over those of all rows.
    """
    most = max(1, *item["all"])
    paths = []
    for counts, color in ((item["all"], "#9a9a9a"), (item["passing"], "#0072b2")):
        bars = []
        for place, number in enumerate(counts):
            if number:
                height = round(_SAVED_HEIGHT * number / most, 1)
                bars.append(f"M{place * 10} {_SAVED_HEIGHT}v-{height:g}h9v{height:g}z")
        paths.append(f'<path d="{"".join(bars)}" fill="{color}"></path>')
    edges = item["edges"]
    label = f"{sum(item['passing']):,} of {sum(item['all']):,} rows, {edges[0]:g} to {edges[-1]:g}"
    width = 10 * len(item["all"])
    svg = (
        f'<svg role="img" aria-label="{escape(item["column"])}: '
        f'{label}" viewBox="0 0 {width} {_SAVED_HEIGHT}"'
    )
    style = f"width:{_SAVED_WIDTH}px;height:{_SAVED_HEIGHT}px"
    return f'{svg} preserveAspectRatio="none" style="{style}">{"".join(paths)}</svg><p>{label}</p>'


def _values_html(item: Mapping[str, Any]) -> str:
    """Return the values of a column that are shown, with their counts, as an HTML table."""
    rows = [
        {item["column"]: value["name"], "shown": value["passing"], "of": value["all"]}
        for value in item["values"]
    ]
    frame = pl.DataFrame(rows, {item["column"]: pl.String, "shown": pl.Int64, "of": pl.Int64})
    return Table(frame, MOST_VALUES, len(frame) + item["more"])._repr_html_()


class Scatter(BaseWidget):
    """Density of rows over two numeric columns: of all rows, and of those that `rows()` returns.

    A box calls `changed`, and a click calls `show_row` with the number of the nearest row.
    """

    _esm = esm("core", "range_handles", "scatter")
    # Another version makes the front end request the densities.
    version = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        frame: TableFrame,
        rows: Rows,
        changed: Callable[[], None],
        show_row: Callable[[int], None],
    ) -> None:
        self._frame = frame
        self._rows = rows
        self._changed = changed
        self._show_row = show_row
        self.columns = [name for name in visible_columns(frame) if frame.schema[name].is_numeric()]
        self._axes = _first_axes(frame, self.columns)
        self._box: Box | None = None
        self._density: Density | None = None
        calls = handlers(self, "scatter", "state", "nearest")
        super().__init__({**calls, "scatter.axes": self._set_axes, "scatter.box": self._choose})

    @property
    def conditions(self) -> list[str]:
        """The SQL conditions of the box; none without one."""
        if self._box is None:
            return []
        grid = self._grid()
        conditions = (grid.x.condition(*self._box[:2]), grid.y.condition(*self._box[2:]))
        return [condition for condition in conditions if condition]

    def refresh(self) -> None:
        """Request new densities."""
        self.version += 1

    def _grid(self) -> Density:
        """Return the density of the two axes, counted once."""
        if self._density is None:
            self._density = density(self._frame[self._axes[0]], self._frame[self._axes[1]], SIZE)
        return self._density

    def _state(self) -> Response:
        """Return axes and box, and as buffers the levels of all rows and of those that pass."""
        grid = self._grid()
        rows = self._rows()
        state = {
            "columns": self.columns,
            "axes": self._axes,
            "box": self._box,
            "shown": len(rows),
            "x": grid.x.edges.tolist(),
            "y": grid.y.edges.tolist(),
        }
        return Response(state, [grid.levels().tobytes(), grid.levels(rows).tobytes()], [])

    def _set_axes(self, *, x: str, y: str) -> None:
        """Show two other columns, without a box."""
        unknown = [name for name in (x, y) if name not in self.columns]
        if unknown:
            raise InputError(f"{unknown[0]} is no numeric column")
        self._axes = (x, y)
        self._density = None
        self._choose(box=None)

    def _choose(self, *, box: Box | None) -> None:
        """Choose the cells of a box, None for all; the box stays as it was if the filter fails."""
        before = self._box
        self._box = box and (box[0], box[1], box[2], box[3])
        try:
            self._changed()
        except InputError:
            self._box = before
            raise

    def _nearest(self, *, x: float, y: float) -> int | None:
        """Show the row nearest to a point, among those that pass every filter; return its number.

        `x` and `y` count cells from the lower left corner. Without such a row, return None.
        """
        grid = self._grid()
        rows = self._rows()
        has_numbers = grid.codes[rows] < grid.cells  # in both columns
        rows = rows[has_numbers]
        if not len(rows):
            return None
        # The squared distance, in parts of the axes.
        distance = np.zeros(len(rows))
        for axis, position in ((grid.x, x), (grid.y, y)):
            values = self._frame[axis.column].cast(pl.Float64).to_numpy()[rows]
            cells = np.interp(values, axis.edges, np.arange(len(axis.edges)))
            distance += ((cells - position) / len(axis.edges)) ** 2
        number = int(rows[distance.argmin()])
        self._show_row(number)
        return number


def _first_axes(frame: TableFrame, columns: Sequence[str]) -> tuple[str, str]:
    """Return the columns that a scatter begins with, out of its numeric `columns`.

    These are the WER of two recognizers, if several have one; otherwise the first two columns of a
    usual order. A single column is both axes.
    """
    rates = ["wer" if name == "asr" else f"wer_{name}" for name in hypothesis_names(frame.columns)]
    rates_with_values = [name for name in rates if name in columns and frame[name].count()]
    if len(rates_with_values) > 1:
        preferred = rates_with_values
    else:
        usual = ("duration_s", "similarity", "wer", "start_sample")
        preferred = [name for name in usual if name in columns]
    axes = list(dict.fromkeys([*preferred, *columns]))[:2]
    return axes[0], axes[-1]
