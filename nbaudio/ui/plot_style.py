"""Figures that show themselves as SVG without scripts, and their style.

The style covers colors, axes, bars, histograms and legends.

Black follows the theme, all text is escaped, and equal plots give equal SVG.
"""

import io
import re
import textwrap
import warnings
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from html import escape
from itertools import cycle, pairwise
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from nbaudio.ui.histogram_bins import equal_width_edges

# Of Okabe and Ito, 3:1 on white and on black: the orange is darker than theirs, the pale one is
# transparent.
BLUE = "#0072B2"
ORANGE = "#C08200"
GREEN = "#009E73"
RED = "#D55E00"
GRAY = "#8A8A8A"
PALE = "#8A8A8A4D"
STYLES = ((BLUE, ""), (ORANGE, "//"), (GREEN, ".."), (RED, "xx"), (GRAY, "\\\\"))
SMALL = 8.5  # points
TITLE = 11.0
_LONGEST_LABEL = 36
_SENTENCE_WIDTH = 34  # characters, in a third of a plot
# Where there is less room, a plot scrolls instead of shrinking: its smallest font has 9 CSS pixels.
_NARROWEST_PX = 760
_FONTS = "Verdana, 'DejaVu Sans', system-ui, sans-serif"
_TOOLTIP_STYLE = ".nbaudio-values rect:hover{fill-opacity:.15}"
# Class names are none of those of the widgets, whose style sheet holds for the whole page.
# JupyterLab removes style elements and SVG from notebooks that are not trusted: the PNG is shown
# there.
_NOTEBOOK_STYLE = (
    f".nbaudio-plot{{display:block!important}}.nbaudio-plot+img{{display:none}}{_TOOLTIP_STYLE}"
)

_Span = tuple[float, float]


class Plot(Figure):
    """Figure that Jupyter shows with or without ``%matplotlib inline``, as SVG where it can."""

    alt_text = ""  # what the plot shows, with its main figures, for people who do not see it

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_saving = False
        self._is_placed = False
        self._values: list[tuple[Axes, str, _Span | None, _Span | None]] = []

    def show_on_hover(
        self, axes: Axes, text: str, *, x: _Span | None = None, y: _Span | None = None
    ) -> None:
        """Show a text while the pointer is over a part of the axes.

        `x` and `y` are in data coordinates; None is the whole width or height.
        """
        self._values.append((axes, text, x, y))

    def svg(self) -> str:
        """Return an SVG element for an HTML page.

        It scrolls in its own box where it is too narrow to be read.
        """
        drawn = self._saved(format="svg", transparent=True, metadata={"Date": None}).decode()
        drawn = drawn[drawn.index("<svg") : drawn.rindex("</svg>")]
        drawn = re.sub(
            r"^<svg[^>]*>|<metadata>.*?</metadata>|<style.*?</style>", "", drawn, flags=re.DOTALL
        )
        prefix = sha256(drawn.encode()).hexdigest()[:8]
        used = {
            name
            for tag in re.findall(r"<[^>]*>", drawn)
            for name in re.findall(r"#(\w+)[\")]", tag)
        }

        def adapt(tag: re.Match[str]) -> str:
            """Keep ids that are used, unique in the page; replace black and the font."""
            adapted = re.sub(
                r' id="([^"]*)"',
                lambda name: f' id="{prefix}{name[1]}"' if name[1] in used else "",
                tag[0],
            )
            adapted = re.sub(r'(xlink:href="|url\()#', rf"\1#{prefix}", adapted).replace(
                "xlink:href", "href"
            )
            adapted = re.sub(
                r" font-family: [^;]*;",
                "",
                re.sub(r"(font: [^'\"]*px) [^;\"]*", rf"\1 {_FONTS}", adapted),
            )
            return re.sub(r"\s+", " ", adapted).replace("#000000", "currentColor")

        # Texts and attributes have no bare angle brackets, so that nothing but tags is changed.
        drawn = re.sub(r">\s+<", "><", re.sub(r"<[^>]*>", adapt, drawn))
        width, height = self.get_size_inches() * 72
        style = (
            f"display:block;width:100%;min-width:{_NARROWEST_PX}px;"
            f"max-width:{width * 4 / 3:.0f}px;height:auto"
        )
        return (
            '<div class="nbaudio-scroll" role="group" tabindex="0" aria-label="Plot" '
            'style="overflow-x:auto">'
            f'<svg role="img" aria-label="{escape(self.alt_text)}" viewBox="0 0 {width:g} '
            f'{height:g}" style="{style}" '
            f'fill="currentColor" font-family="{_FONTS}" stroke-linejoin="round" '
            f'stroke-linecap="butt">{drawn}'
            '<g class="nbaudio-values" '
            f'fill-opacity="0">{"".join(self._hover_areas(width, height))}</g></svg></div>'
        )

    def _hover_areas(self, width: float, height: float) -> Iterator[str]:
        """Return transparent rectangles with texts, in units of the SVG."""
        for axes, text, *spans in self._values:
            limits = [sorted(axes.get_xlim()), sorted(axes.get_ylim())]
            (left, right), (low, high) = (
                [min(max(end, least), most) for end in (span or (least, most))]
                for span, (least, most) in zip(spans, limits, strict=True)
            )
            corners = self.transFigure.inverted().transform(
                axes.transData.transform([(left, low), (right, high)])
            )
            (x0, y0), (x1, y1) = ((x * width, (1 - y) * height) for x, y in corners)
            if x0 != x1 and y0 != y1:
                place = (
                    f'x="{min(x0, x1):.1f}" y="{min(y0, y1):.1f}" width="{abs(x1 - x0):.1f}" '
                    f'height="{abs(y1 - y0):.1f}"'
                )
                yield f"<rect {place}><title>{escape(text)}</title></rect>"

    def img(self) -> str:
        """Return an image element with the PNG."""
        return self._img(self._repr_png_())

    def _img(self, png: bytes) -> str:
        """Return an image element with a PNG."""
        return (
            f'<img alt="{escape(self.alt_text)}" '
            f'src="data:image/png;base64,{b64encode(png).decode()}" />'
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str | bytes]:
        """Return the HTML and the PNG, which is drawn once for both."""
        with self._placed():
            svg = self.svg()
            png = self._repr_png_()
        html = (
            f'<style>{_NOTEBOOK_STYLE}</style><div class="nbaudio-plot" '
            f'style="display:none">{svg}</div>{self._img(png)}'
        )
        return {"text/html": html, "image/png": png}

    def _repr_html_(self) -> str:
        return str(self._repr_mimebundle_()["text/html"])

    def _repr_png_(self) -> bytes:
        return self._saved(format="png", metadata={"Software": None})

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure; the draw that precedes that of a file does nothing.

        Matplotlib draws twice to save a figure with a layout, the first time to place its parts,
        which `place` has done.
        """
        if not (self._is_saving and self._layout() is not None):
            super().draw(renderer)

    def place(self) -> None:
        """Place all parts of the figure for all files that are made from now on.

        Without this, each file places them again, which takes as long as drawing them. Places do
        not depend on the kind of the file.
        """
        for axes in self.axes:
            # Where the axes are before the first layout, from which each layout begins.
            if (subplot := axes.get_subplotspec()) is not None:
                axes.set_subplotspec(subplot)
        layout = self._layout()
        if layout is not None:
            with _without_glyph_warnings():
                layout.execute(self)
        self._is_placed = True

    def _layout(self) -> ConstrainedLayoutEngine | None:
        """Return the layout that places the axes; None without axes."""
        engine = self.get_layout_engine()
        return engine if self.axes and isinstance(engine, ConstrainedLayoutEngine) else None

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """Place all parts once for the files that are made inside, unless `place` has done so."""
        was_placed = self._is_placed
        if not was_placed:
            self.place()
        try:
            yield
        finally:
            self._is_placed = was_placed

    def _saved(self, **options: Any) -> bytes:
        """Return the bytes of a file.

        They do not depend on files that were made before.
        """
        file = io.BytesIO()
        with (
            rc_context({"svg.fonttype": "none", "svg.hashsalt": "nbaudio"}),
            _without_glyph_warnings(),
            self._placed(),
        ):
            self._is_saving = True
            try:
                self.savefig(file, **options)
            finally:
                self._is_saving = False
        return file.getvalue()


@contextmanager
def _without_glyph_warnings() -> Iterator[None]:
    """Hide warnings about characters that the font lacks.

    These become boxes; a page of warnings about them would add nothing.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def bar_style(color: str, hatch: str = "") -> dict[str, Any]:
    """Return the style of bars.

    Pale bars have an outline, the others white hatches; both are visible on white and on black.
    """
    outline = {"edgecolor": "white", "linewidth": 0}
    if color == PALE:
        outline = {"edgecolor": GRAY, "linewidth": 0.8}
    return {"facecolor": color, "hatch": hatch, **outline}


def new_plot(height: float) -> Plot:
    """Return an empty plot of the usual width; inches."""
    return Plot(
        figsize=(9.5, height), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
    )


def new_axes(
    axes: Axes, title: str, *, x: str = "", y: str = "", title_size: float = TITLE
) -> Axes:
    """Give axes a title, labels and a grid; the size of the title is in points."""
    axes.set_title(title, fontsize=title_size, loc="left", fontweight="bold")
    axes.set(xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRAY, alpha=0.3, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def add_legend(plot: Plot, axes: Axes | None = None) -> None:
    """Put the legend of axes, by default the first, below the plot."""
    handles, labels = (axes or plot.axes[0]).get_legend_handles_labels()
    plot.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=len(labels),
        frameon=False,
        fontsize=SMALL,
    )


def _row_label(name: str) -> str:
    if len(name) <= _LONGEST_LABEL:
        return name
    return f"{name[: _LONGEST_LABEL - 1]}…"


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label horizontal bars, the first on top, long names shortened."""
    labels = list(map(_row_label, names))
    axes.set_yticks(np.arange(len(names)), labels, fontsize=SMALL, parse_math=False)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def write_sentence(axes: Axes, title: str, sentence: str) -> None:
    """Draw a sentence in place of a plot that would be empty or a single bar."""
    axes.set_title(title, fontsize=TITLE, loc="left", fontweight="bold")
    axes.set_axis_off()
    lines = textwrap.fill(f"{sentence[0].upper()}{sentence[1:].rstrip('.')}.", _SENTENCE_WIDTH)
    axes.text(0, 0.92, lines, transform=axes.transAxes, va="top", parse_math=False)


def draw_histogram(
    axes: Axes,
    values: Sequence[NDArray[np.float64]],
    *,
    bins: int | NDArray[np.float64],
    styles: Sequence[tuple[str, str]] = STYLES,
    labels: Sequence[str] = (),
    hold_tails: bool = False,
) -> None:
    """Draw stacked histograms, one style each, with integer ticks.

    Args:
        axes: with labels; that of the vertical axis says what is counted.
        values: of each histogram; finite.
        bins: number of bins, or their edges.
        styles: color and hatch of each histogram.
        labels: of each histogram, in the legend.
        hold_tails: whether the outermost bars hold what lies beyond them, too.
    """
    if isinstance(bins, int):
        edges = equal_width_edges(np.concatenate([np.empty(0), *values]), bins)
    else:
        edges = bins
    if hold_tails:
        values = [part.clip(edges[0], edges[-1]) for part in values]
    drawn = np.array([np.histogram(part, edges)[0] for part in values])
    drawn = drawn.reshape(len(values), len(edges) - 1)
    # A gap between bars, which an outline in the color of the ground would have to follow.
    widths = 0.92 * np.diff(edges)
    bases = drawn.cumsum(axis=0) - drawn
    for counts, base, style, label in zip(
        drawn, bases, cycle(styles), labels or cycle([""]), strict=False
    ):
        axes.bar(edges[:-1], counts, widths, base, align="edge", label=label, **bar_style(*style))
    _show_counts(axes, edges, _spans_in_words(edges, hold_tails=hold_tails), drawn, labels)
    axes.set_ylim(0, 1.06 * max(1, drawn.sum(axis=0).max(initial=0)))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(visible=False, axis="x")


def _spans_in_words(edges: NDArray[np.float64], *, hold_tails: bool) -> list[str]:
    """Return the range of each bin; the outermost are open if they hold what lies beyond them."""
    spans = [f"{least:.3g} to {greatest:.3g}" for least, greatest in pairwise(edges)]
    if hold_tails and len(spans) > 1:
        spans[0] = f"less than {edges[1]:.3g}"
        spans[-1] = f"{edges[-2]:.3g} or more"
    return spans


def _show_counts(
    axes: Axes,
    edges: NDArray[np.float64],
    spans: Sequence[str],
    drawn: NDArray[np.int64],
    labels: Sequence[str],
) -> None:
    """Show the counts of each bin on hover.

    `drawn` has a row for each histogram; `spans` are the bins in words.
    """
    plot = axes.figure
    if not isinstance(plot, Plot):
        return
    what = axes.get_ylabel() or "segments"
    value_name = re.split(r"[,\n]", axes.get_xlabel())[0]
    for bin_counts, span_text, span in zip(drawn.T, spans, pairwise(edges), strict=True):
        if not any(bin_counts):
            continue
        parts = [f"{what}: {sum(bin_counts):,.0f}"]
        if len(labels) > 1:
            parts += [
                f"{label.rpartition(':')[0] or label}: {number:,.0f}"
                for label, number in zip(labels, bin_counts, strict=True)
            ]
        lines = "\n".join([f"{value_name}: {span_text}", *parts])
        plot.show_on_hover(axes, lines, x=span)


def time_unit(most_s: float) -> tuple[float, str]:
    """Return divisor and name of the best unit for a number of seconds."""
    if most_s >= 2 * 3600:
        return 3600.0, "h"
    if most_s >= 120:
        return 60.0, "min"
    return 1.0, "s"
