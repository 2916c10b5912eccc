"""Style of plots: colors, axes, bars, histograms and legends, the same in all of them."""

from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nbaudio.ui.plot_svg import Plot

# Of Okabe and Ito, 3:1 on white and on black: the orange is darker than theirs, the pale one is transparent.
BLUE, ORANGE, GREEN, RED, GRAY, PALE = "#0072B2", "#C08200", "#009E73", "#D55E00", "#8A8A8A", "#8A8A8A4D"
STYLES = ((BLUE, ""), (ORANGE, "//"), (GREEN, ".."), (RED, "xx"), (GRAY, "\\\\"))
SMALL = 8.5  # points
_LONGEST_LABEL = 36


def bar_style(color: str, hatch: str = "") -> dict[str, Any]:
    """Return the style of bars: pale ones have an outline, the others white hatches, both visible on white and on black."""
    pale = color == PALE
    return {"facecolor": color, "hatch": hatch, "edgecolor": GRAY if pale else "white", "linewidth": 0.8 if pale else 0}


def new_plot(height: float) -> Plot:
    """Return an empty plot of the usual width; inches."""
    return Plot(figsize=(9.5, height), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))


def new_axes(axes: Axes, title: str, *, x: str = "", y: str = "") -> Axes:
    """Give axes a title, labels and a grid."""
    axes.set_title(title, fontsize=11, loc="left", fontweight="bold")
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRAY, alpha=0.3, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def add_legend(plot: Plot, axes: Axes | None = None) -> None:
    """Put the legend of axes, by default the first, below the plot."""
    handles, labels = (axes or plot.axes[0]).get_legend_handles_labels()
    plot.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=SMALL)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label horizontal bars, the first on top, long names shortened."""
    shown = [name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…" for name in names]
    axes.set_yticks(np.arange(len(names)), shown, fontsize=SMALL, parse_math=False)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def draw_histogram(
    axes: Axes,
    values: Sequence[NDArray[np.float64]],
    *,
    bins: int | NDArray[np.float64],
    styles: Sequence[tuple[str, str]] = STYLES,
    labels: Sequence[str] = (),
) -> None:
    """Draw stacked histograms, one style each, with integer ticks."""
    edges = np.histogram_bin_edges(np.concatenate([np.empty(0), *values]), bins)
    drawn = np.array([np.histogram(part, edges)[0] for part in values]).reshape(len(values), len(edges) - 1)
    # A gap between bars, which an outline in the color of the ground would have to follow.
    widths, bases = 0.92 * np.diff(edges), drawn.cumsum(axis=0) - drawn
    for counts, base, style, label in zip(drawn, bases, cycle(styles), labels or cycle([""]), strict=False):
        axes.bar(edges[:-1], counts, widths, base, align="edge", label=label, **bar_style(*style))
    plot, what = axes.figure, axes.get_ylabel() or "segments"
    for bin_counts, span in zip(drawn.T, pairwise(edges), strict=True):
        if isinstance(plot, Plot) and any(bin_counts):
            parts = [f"{what}: {sum(bin_counts):,.0f}"]
            if len(labels) > 1:
                parts += [f"{label.rpartition(':')[0] or label}: {n:,.0f}" for label, n in zip(labels, bin_counts, strict=True)]
            text = f"{axes.get_xlabel()}: {span[0]:.3g} to {span[1]:.3g}\n" + "\n".join(parts)
            plot.show_on_hover(axes, text, x=span)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(visible=False, axis="x")


def show_time(seconds: float) -> str:
    """Format seconds in their best unit."""
    scale, unit = time_unit(seconds)
    return f"{seconds / scale:,.1f} {unit}"


def time_unit(most_s: float) -> tuple[float, str]:
    """Return divisor and name of the best unit for a number of seconds."""
    return (3600.0, "h") if most_s >= 2 * 3600 else (60.0, "min") if most_s >= 120 else (1.0, "s")
