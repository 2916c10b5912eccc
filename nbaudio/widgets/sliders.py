"""A slider for the threshold on similarity: what each position keeps, counted beforehand."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nbaudio import views
from nbaudio.workspace import Workspace

_STEP = 0.01
_BINS = 100
_WIDTH, _HEIGHT, _FOOT = 640, 150, 18


@dataclass(frozen=True)
class Counts:
    """What a threshold slider shows.

    Attributes:
        bins: segments per bin of similarity, `_BINS` equal ones from -1 to 1.
        curve: see `views.threshold_curve`.
    """

    bins: tuple[int, ...]
    curve: pl.DataFrame

    def line(self, value: float) -> str:
        """What a threshold keeps, in words."""
        row = self.curve.row(round((value + 1) / _STEP), named=True)
        return (
            f"at {value:.2f} kept: {row['segments']:,} segments ({row['segments_share']:.1%}), "
            f"{self._time(row['hours'])} ({row['hours_share']:.1%})"
        )

    def _time(self, hours: float) -> str:
        """Hours, or minutes where all of it is less than two hours."""
        return f"{hours:,.1f} hours" if self.curve["hours"][0] >= 2 else f"{60 * hours:,.1f} minutes"

    def svg(self, value: float) -> str:
        """The histogram, bars below the threshold hollow, and a line at the threshold."""
        width, most = _WIDTH / _BINS, max(1, *self.bins)
        bars = []
        for number, count in enumerate(self.bins):
            if count:
                height = count * _HEIGHT / most
                kept = -1 + 2 * number / _BINS >= value - 1e-9
                fill = 'fill="#0072B2"' if kept else 'fill="white" stroke="#8A8A8A"'
                bars.append(
                    f'<rect x="{number * width + 0.5:.1f}" y="{_HEIGHT - height:.1f}" width="{width - 1:.1f}" '
                    f'height="{height:.1f}" {fill}/>'
                )
        line = (value + 1) / 2 * _WIDTH
        ticks = "".join(
            f'<text x="{(tick + 1) / 2 * _WIDTH:.0f}" y="{_HEIGHT + 14}" font-size="11" text-anchor="{anchor}">{tick:g}</text>'
            for tick, anchor in ((-1, "start"), (-0.5, "middle"), (0, "middle"), (0.5, "middle"), (1, "end"))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT + _FOOT}" width="{_WIDTH}" role="img" '
            f'style="max-width:100%;background:white" aria-label="{escape(self.line(value))}">{"".join(bars)}'
            f'<line x1="0" x2="{_WIDTH}" y1="{_HEIGHT}" y2="{_HEIGHT}" stroke="#444"/>{ticks}'
            f'<line x1="{line:.1f}" x2="{line:.1f}" y1="0" y2="{_HEIGHT}" stroke="#D55E00" stroke-width="2" '
            'stroke-dasharray="6 3"/>'
            "</svg>"
        )


def count(workspace: str | Path | Workspace) -> Counts:
    """Count what a slider needs, once."""
    workspace = Workspace.open(workspace)
    similarity = workspace.segments["similarity"].fill_nan(None).drop_nulls().to_numpy()
    bins, _ = np.histogram(similarity, _BINS, (-1, 1))
    return Counts(tuple(bins.tolist()), views.threshold_curve(workspace, step=_STEP))


class ThresholdSlider:
    """A slider in a live notebook; in a saved page the same picture at the value that was chosen."""

    def __init__(self, counts: Counts, value: float) -> None:
        import ipywidgets

        self._counts = counts
        self._slider = ipywidgets.FloatSlider(value, min=-1, max=1, step=_STEP, description="similarity", readout_format=".2f")
        self._slider.layout.width = f"{_WIDTH}px"
        self._picture = ipywidgets.HTML()
        self._line = ipywidgets.Label()
        self._box = ipywidgets.VBox([self._slider, self._picture, self._line])
        self._slider.observe(self._show, "value")
        self._show()

    @property
    def value(self) -> float:
        """The threshold that the slider is at."""
        return round(float(self._slider.value), 2)

    def _show(self, _change: object = None) -> None:
        self._picture.value = self._counts.svg(self.value)
        self._line.value = self._counts.line(self.value)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        live: dict[str, Any] = self._box._repr_mimebundle_(include=include, exclude=exclude)
        return {**live, "text/html": f"{self._counts.svg(self.value)}<p>{escape(self._counts.line(self.value))}</p>"}


def threshold(workspace: str | Path | Workspace, value: float = 0.8) -> ThresholdSlider:
    """A slider over similarity that says at each position how many segments and hours it keeps.

    Args:
        workspace: a scored workspace.
        value: where it starts, from -1 to 1.

    Returns:
        The slider; its `value` is the threshold to select with.
    """
    return ThresholdSlider(count(workspace), min(1.0, max(-1.0, float(value))))
