"""Axes of similarity that begin where the data is, and say so."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nbaudio.core.report import count

# At most this share of the values is below the axis; it is counted in the first bar.
_BELOW_SHARE = 0.02
_WIDEST_LEAST = 0.9
# The stretch of the axis that stays visible below a threshold.
_ROOM_BELOW = 0.05
_MOST_BARS = 50
_BAR_WIDTHS = (0.002, 0.005, 0.01, 0.02, 0.04)


@dataclass(frozen=True)
class SimilarityAxis:
    """Range of an axis, from `least` to 1.

    Attributes:
        least: where the axis begins; -1 or more.
        below: number of values that are less.
    """

    least: float
    below: int = 0

    @property
    def edges(self) -> NDArray[np.float64]:
        """Edges of at most 50 bars of a round width, increasing."""
        span = 1 - self.least
        width = next(width for width in _BAR_WIDTHS if span / width <= _MOST_BARS + 1e-6)
        return np.linspace(self.least, 1, round(span / width) + 1).round(6)

    def label(self, what: str) -> str:
        """Return the label of the axis of `what`, with its range and what lies below it."""
        label = f"{what}, {_signed(self.least)} to 1"
        if not self.below:
            return label
        below = count(self.below, "segments")
        return f"{label}\nfirst bar: with {below} below {_signed(self.least)}"

    def zoom(self, axes: Axes) -> None:
        """Draw the horizontal axis in this range."""
        margin = (1 - self.least) / 50
        axes.set_xlim(self.least - margin, 1 + margin)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def similarity_axis(
    values: NDArray[np.float64], *, threshold: float | None = None
) -> SimilarityAxis:
    """Return an axis that begins below all but 2 % of the values, and below a threshold.

    It begins at a round value: a tenth, or a fifth if that is negative. Without values it is the
    whole range, from -1 to 1.

    Args:
        values: finite similarities.
        threshold: has to be inside the axis.
    """
    if not len(values):
        return SimilarityAxis(-1.0)
    lowest = float(np.quantile(values, _BELOW_SHARE, method="lower"))
    if threshold is not None:
        lowest = min(lowest, threshold - _ROOM_BELOW)
    tenths = int(np.floor(min(lowest, _WIDEST_LEAST) * 10 + 1e-9))
    if tenths < 0:
        tenths -= tenths % 2
    least = max(-1.0, tenths / 10)
    return SimilarityAxis(least, int((values < least).sum()))


def _signed(value: float) -> str:
    """Return a number with a minus sign instead of a hyphen."""
    return f"{value:g}".replace("-", "−")
