"""Edges of histogram bins for values of any span, also where all values are equal."""

import numpy as np
from numpy.typing import NDArray

# Values whose span is a smaller share of their size differ by rounding only, such as 5.2 and
# 5.199999999999999, the durations of two clips of one length.
_LEAST_RELATIVE_SPAN = 1e-10


def are_equal(least: float, greatest: float) -> bool:
    """Return whether two numbers differ by rounding only, if at all."""
    half_span = greatest / 2 - least / 2
    return half_span <= _LEAST_RELATIVE_SPAN * max(abs(least), abs(greatest)) / 2


def equal_width_edges(values: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """Return the edges of `bins` bins of equal width that hold all values.

    Values that do not differ, but for rounding, get one bin around them; no values get one bin
    from 0 to 1.

    Args:
        values: finite numbers, in any order.
        bins: number of bins.

    Returns:
        Increasing edges; one more than there are bins.
    """
    if not len(values):
        return np.array([0.0, 1.0])
    least = float(values.min())
    greatest = float(values.max())
    size = max(abs(least), abs(greatest))
    # Halves, as the span of huge values of both signs is no finite number.
    half_span = greatest / 2 - least / 2
    if are_equal(least, greatest) or half_span < np.finfo(float).tiny * bins:
        margin = max(0.5, size * 1e-3)
        return np.array([least - margin, greatest + margin])
    return 2 * np.linspace(least / 2, greatest / 2, bins + 1)
