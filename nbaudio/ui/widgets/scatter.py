"""Scatter of two numeric columns, as a grid of densities; a box chooses rows, a click finds the nearest one."""

from collections.abc import Callable

import numpy as np
import polars as pl
import traitlets

from nbaudio.core.errors import InputError
from nbaudio.ui.filters import INTERNAL_COLUMNS, Order
from nbaudio.ui.widgets.base import BaseWidget, Handler, Response, esm
from nbaudio.ui.widgets.column_counts import Density, density

# Cells across and up: a few kilobytes, whatever the number of rows.
SIZE = (80, 56)

Box = tuple[int, int, int, int]


class Scatter(BaseWidget):
    """Density of the rows in `rows()` over two columns; a box calls `changed`, a click `found` with the number of a row."""

    _esm = esm("core", "range_handles", "scatter")
    version = traitlets.Int(0).tag(sync=True)  # another one makes the front end request the densities

    def __init__(
        self, frame: pl.DataFrame, rows: Callable[[], Order], changed: Callable[[], None], found: Callable[[int], None]
    ) -> None:
        self._frame, self._rows, self._changed, self._found = frame, rows, changed, found
        self.columns = [name for name, dtype in frame.schema.items() if dtype.is_numeric() and name not in INTERNAL_COLUMNS]
        likely = [name for name in ("duration_s", "similarity", "wer", "start_sample") if name in self.columns]
        first = list(dict.fromkeys([*likely, *self.columns]))[:2]
        self._axes = (first[0], first[-1]) if first else None
        self._box: Box | None = None  # first and last cell across, first and last cell up
        self._density: Density | None = None
        calls: dict[str, Handler] = {
            "scatter.state": self._state,
            "scatter.axes": self._set_axes,
            "scatter.box": self._choose,
            "scatter.nearest": self._nearest,
        }
        super().__init__(calls)

    @property
    def conditions(self) -> list[str]:
        """The SQL conditions of the box; none without one."""
        if self._box is None:
            return []
        found = self._grid()
        return [part for part in (found.x.condition(*self._box[:2]), found.y.condition(*self._box[2:])) if part]

    def refresh(self) -> None:
        """Request new densities."""
        self.version += 1

    def _grid(self) -> Density:
        if self._axes is None:
            raise InputError("there are no numeric columns")
        if self._density is None:
            self._density = density(self._frame[self._axes[0]], self._frame[self._axes[1]], SIZE)
        return self._density

    def _state(self) -> Response:
        """Return axes and box, and the levels of all rows and of those that pass every filter as buffers."""
        if self._axes is None:
            return Response({"columns": []}, [], [])
        found, rows = self._grid(), self._rows()
        facts = {"columns": self.columns, "axes": self._axes, "box": self._box, "shown": len(rows)}
        facts |= {"x": found.x.edges.tolist(), "y": found.y.edges.tolist()}
        return Response(facts, [found.levels().tobytes(), found.levels(rows).tobytes()], [])

    def _set_axes(self, *, x: str, y: str) -> None:
        if unknown := [name for name in (x, y) if name not in self.columns]:
            raise InputError(f"{unknown[0]} is no numeric column")
        self._axes, self._density = (x, y), None
        if self._box is None:
            self.refresh()
        else:
            self._choose(box=None)

    def _choose(self, *, box: Box | None) -> None:
        """Choose the cells of a box, None for all; the box stays as it was if the filter fails."""
        before, self._box = self._box, box and (box[0], box[1], box[2], box[3])
        try:
            self._changed()
        except InputError:
            self._box = before
            raise

    def _nearest(self, *, x: float, y: float) -> int | None:
        """Find the row nearest to a point, given in cells, among those that pass every filter; return its number."""
        found, rows = self._grid(), self._rows()
        rows = rows[found.codes[rows] < found.cells]
        if not len(rows):
            return None
        distance = np.zeros(len(rows))
        for bins, at in ((found.x, x), (found.y, y)):
            values = self._frame[bins.column].cast(pl.Float64).to_numpy()[rows]
            distance += ((np.interp(values, bins.edges, np.arange(len(bins.edges))) - at) / len(bins.edges)) ** 2
        number = int(rows[distance.argmin()])
        self._found(number)
        return number
