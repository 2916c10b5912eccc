"""One sentence in place of the histogram of values that do not differ."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nbaudio.ui.histogram_bins import are_equal

# Values of which all but this share are equal would be one bar, too.
_OTHERS_SHARE = 0.01


def value_text(value: float, unit: str = "") -> str:
    """Return a value with its unit, with about four digits."""
    return f"{value:.4g} {unit}".strip().replace("-", "−")


def all_segments(number: int) -> str:
    """Return all segments in words."""
    return "the only segment" if number == 1 else f"all {number:,} segments"


def equal_values_sentence(
    values: NDArray[np.float64], show: Callable[[float], str] = value_text
) -> str:
    """Return a sentence if the values of segments are equal, or nearly all are, or there are none.

    Without one it is empty: the values need a histogram.

    Args:
        values: finite numbers, in any order.
        show: formats a value, with its unit.

    Examples:
        >>> equal_values_sentence(np.array([5.2, 5.2, 5.199999999999999]))
        '5.2 in all 3 segments'
        >>> equal_values_sentence(np.array([0.0] * 199 + [0.04]), "{:.0%}".format)
        '0% in 199 of 200 segments, 4% in the other'
        >>> equal_values_sentence(np.array([1.0, 2.0]))
        ''
    """
    if not len(values):
        return "no segment has a value"
    least = float(values.min())
    greatest = float(values.max())
    if are_equal(least, greatest):
        return f"{show(least)} in {all_segments(len(values))}"
    middle = float(np.median(values))
    others = values[values != middle]
    if len(others) > _OTHERS_SHARE * len(values):
        return ""
    equal = f"{len(values) - len(others):,} of {len(values):,} segments"
    return f"{show(middle)} in {equal}, {_others_text(others, show)}"


def _others_text(others: NDArray[np.float64], show: Callable[[float], str]) -> str:
    least = float(others.min())
    greatest = float(others.max())
    if len(others) == 1:
        return f"{show(least)} in the other"
    if are_equal(least, greatest):
        return f"{show(least)} in the others"
    return f"{show(least)} to {show(greatest)} in the others"
