"""Histograms of columns and a scatter of two, by which rows are chosen.

A range is brushed, values are picked, and a box is drawn.
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
_SAVED_WIDTH = 200  # pixels, as the height
_SAVED_HEIGHT = 60
SIZE = (80, 56)  # cells of a scatter across and up: a few kilobytes, whatever the number of rows

Rows = Callable[[], Order]
Box = tuple[int, int, int, int]


def _is_countable(dtype: pl.DataType) -> bool:
    """Return whether a column of a type has a histogram."""
    return dtype.is_numeric() or isinstance(
        dtype, pl.String | pl.Boolean | pl.Categorical | pl.Enum
    )


class Histograms(BaseWidget):
    """Histograms of columns of a frame, with the part of the rows in `rows()`.

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
        # By column, the first and last bin, or the values chosen.
        self._chosen: dict[str, tuple[int, int] | list[Any]] = {}
        self._searched: dict[str, str] = {}
        self._columns = list(columns)
        super().__init__(
            handlers(self, "histograms", "state", "show", "find", "brush", "pick", "clear")
        )

    @property
    def conditions(self) -> list[str]:
        """The SQL conditions of the choices, one per column."""
        ranges_first = sorted(self._chosen.items(), key=lambda item: isinstance(item[1], list))
        return [
            part
            for column, chosen in ranges_first
            if (part := self._distribution(column).condition(*chosen))
        ]

    def refresh(self, frame: TableFrame | None = None, changed: Sequence[str] = ()) -> None:
        """Count again.

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
            self._distributions[column] = (
                number_bins(values) if values.dtype.is_numeric() else value_counts(values)
            )
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

        It is the counts of all rows and of those that pass every filter.
        """
        distribution = self._distribution(column)
        every = distribution.counts()
        passing = distribution.counts(rows)
        if distribution.constant is not None:
            without = int(every[-1]) if isinstance(distribution, NumberBins) else 0
            return {
                "column": column,
                "constant": distribution.constant,
                "without": without if distribution.constant != value_name(None) else 0,
                "chosen": column in self._chosen,
            }
        if isinstance(distribution, NumberBins):
            bins = len(distribution.edges) - 1
            counts = {
                "all": every[:bins].tolist(),
                "passing": passing[:bins].tolist(),
                "without": int(every[bins]),
            }
            return {
                "column": column,
                "edges": distribution.edges.tolist(),
                **counts,
                "chosen": self._chosen.get(column),
            }
        picked = self._chosen.get(column, [])
        searched = self._searched.get(column, "")
        places, more = distribution.search(searched, MOST_VALUES, picked)
        values = [
            {"place": place, "name": value_name(value), "picked": value in picked}
            | {"all": int(every[place]), "passing": int(passing[place])}
            for place, value in zip(places, distribution.values[places], strict=True)
        ]
        facts = {
            "more": more,
            "kinds": len(distribution.values),
            "find": searched,
            "most": int(every.max(initial=1)),
        }
        return {"column": column, "values": values, **facts, "chosen": bool(picked)}

    def _show(self, *, columns: Sequence[str]) -> None:
        for column in columns:
            self._distribution(column)
        self._columns = list(columns)
        if hidden_columns := [column for column in self._chosen if column not in columns]:
            self._choose(dict.fromkeys(hidden_columns))
        self.refresh()

    def _find(self, *, column: str, text: str) -> None:
        self._searched[column] = text
        self.refresh()

    def _brush(self, *, column: str, first: int, last: int) -> None:
        self._choose(
            {column: (first, last) if self._distribution(column).condition(first, last) else None}
        )

    def _pick(self, *, column: str, place: int) -> None:
        """Choose a value, or remove it from the choice."""
        distribution = self._distribution(column)
        picked = self._chosen.get(column, [])
        if isinstance(distribution, NumberBins):
            raise InputError(f"{column} holds numbers: brush a range")
        value = distribution.values[place]
        others = [picked_value for picked_value in picked if picked_value != value]
        self._choose({column: others if value in picked else [*picked, value]})

    def _clear(self, *, column: str | None = None) -> None:
        self._choose(dict.fromkeys(self._chosen if column is None else (column,)))

    def _choose(self, chosen: Mapping[str, tuple[int, int] | list[Any] | None]) -> None:
        """Replace the choice of columns; None is no choice.

        All choices stay as they were if the filter fails.
        """
        before = self._chosen
        other_choices = {
            column: choice for column, choice in before.items() if column not in chosen
        }
        self._chosen = other_choices | {
            column: choice for column, choice in chosen.items() if choice
        }
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
            item = self._item(column, rows)
            shown = _saved(item)
            parts.append(f"<div><p><code>{escape(column)}</code></p>{shown}</div>")
        style = "display:flex;flex-wrap:wrap;gap:0 2em"
        return f'<div class="nbaudio-histograms" style="{style}">{"".join(parts)}</div>'


def _saved(item: Mapping[str, Any]) -> str:
    """Return the HTML of a column's histogram in a saved page."""
    if "constant" in item:
        rest = f"; {item['without']:,} without a number" if item["without"] else ""
        return f"<p>{'' if rest else 'all: '}{escape(item['constant'])}{rest}</p>"
    return _picture(item) if "edges" in item else _counts(item)


def _picture(item: Mapping[str, Any]) -> str:
    """Return the bars of a numeric column as SVG."""
    most = max(1, *item["all"])
    edges = item["edges"]
    bars = []
    for name, color in (("all", "#9a9a9a"), ("passing", "#0072b2")):
        heights = [
            (place, round(_SAVED_HEIGHT * count / most, 1))
            for place, count in enumerate(item[name])
            if count
        ]
        drawn = "".join(
            f"M{place * 10} {_SAVED_HEIGHT}v-{height:g}h9v{height:g}z" for place, height in heights
        )
        bars.append(f'<path d="{drawn}" fill="{color}"></path>')
    label = f"{sum(item['passing']):,} of {sum(item['all']):,} rows, {edges[0]:g} to {edges[-1]:g}"
    width = 10 * len(item["all"])
    svg = (
        f'<svg role="img" aria-label="{escape(item["column"])}: '
        f'{label}" viewBox="0 0 {width} {_SAVED_HEIGHT}"'
    )
    style = f"width:{_SAVED_WIDTH}px;height:{_SAVED_HEIGHT}px"
    return f'{svg} preserveAspectRatio="none" style="{style}">{"".join(bars)}</svg><p>{label}</p>'


def _counts(item: Mapping[str, Any]) -> str:
    """Return the values of a column that are shown, with their counts, as an HTML table."""
    rows = [
        {item["column"]: value["name"], "shown": value["passing"], "of": value["all"]}
        for value in item["values"]
    ]
    frame = pl.DataFrame(rows, {item["column"]: pl.String, "shown": pl.Int64, "of": pl.Int64})
    return Table(frame, MOST_VALUES, len(frame) + item["more"])._repr_html_()


class Scatter(BaseWidget):
    """Density of the rows in `rows()` over two columns.

    A box calls `changed`, and a click calls `found` with the number of a row.
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
        scored = (
            "wer" if name == "asr" else f"wer_{name}" for name in hypothesis_names(frame.columns)
        )
        systems = [name for name in scored if name in self.columns and frame[name].count()]
        usual = (
            name
            for name in ("duration_s", "similarity", "wer", "start_sample")
            if name in self.columns
        )
        first = list(dict.fromkeys([*(systems if len(systems) > 1 else usual), *self.columns]))[:2]
        self._axes = (first[0], first[-1])
        self._box: Box | None = None  # first and last cell across, first and last cell up
        self._density: Density | None = None
        calls = handlers(self, "scatter", "state", "nearest")
        super().__init__({**calls, "scatter.axes": self._set_axes, "scatter.box": self._choose})

    @property
    def conditions(self) -> list[str]:
        """The SQL conditions of the box; none without one."""
        if self._box is None:
            return []
        grid = self._grid()
        return [
            part
            for part in (grid.x.condition(*self._box[:2]), grid.y.condition(*self._box[2:]))
            if part
        ]

    def refresh(self) -> None:
        """Request new densities."""
        self.version += 1

    def _grid(self) -> Density:
        """Return the density of the two axes, counted once."""
        if self._density is None:
            self._density = density(self._frame[self._axes[0]], self._frame[self._axes[1]], SIZE)
        return self._density

    def _state(self) -> Response:
        """Return axes and box, and the levels of all rows and of those that pass every filter.

        The levels are buffers.
        """
        grid = self._grid()
        rows = self._rows()
        facts = {"columns": self.columns, "axes": self._axes, "box": self._box, "shown": len(rows)}
        facts |= {"x": grid.x.edges.tolist(), "y": grid.y.edges.tolist()}
        return Response(facts, [grid.levels().tobytes(), grid.levels(rows).tobytes()], [])

    def _set_axes(self, *, x: str, y: str) -> None:
        if unknown := [name for name in (x, y) if name not in self.columns]:
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
        """Return the number of the row nearest to a point, among those that pass every filter.

        The point is given in cells.
        """
        grid = self._grid()
        rows = self._rows()
        rows = rows[grid.codes[rows] < grid.cells]
        if not len(rows):
            return None
        distance = np.zeros(len(rows))
        for bins, at in ((grid.x, x), (grid.y, y)):
            values = self._frame[bins.column].cast(pl.Float64).to_numpy()[rows]
            distance += (
                (np.interp(values, bins.edges, np.arange(len(bins.edges))) - at) / len(bins.edges)
            ) ** 2
        number = int(rows[distance.argmin()])
        self._show_row(number)
        return number
