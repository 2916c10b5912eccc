"""Figure that shows itself as SVG without scripts: black follows the theme, all text is escaped, equal plots give equal SVG."""

import io
import re
import warnings
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_NARROWEST_PX = 760  # narrower, a plot scrolls instead of shrinking: its smallest font has 9 CSS pixels
_FONTS = "Verdana, 'DejaVu Sans', system-ui, sans-serif"
_TOOLTIP_STYLE = ".nbaudio-values rect:hover{fill-opacity:.15}"
# Class names are none of those of the widgets, whose style sheet holds for the whole page.
# JupyterLab removes style elements and SVG from notebooks that are not trusted: the PNG is shown there.
_NOTEBOOK_STYLE = f".nbaudio-plot{{display:block!important}}.nbaudio-plot+img{{display:none}}{_TOOLTIP_STYLE}"

_Span = tuple[float, float]


class Plot(Figure):
    """Figure that Jupyter shows with or without ``%matplotlib inline``, as SVG where it can."""

    alt_text = ""  # what the plot shows, with its main figures, for people who do not see it

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._values: list[tuple[Axes, str, _Span | None, _Span | None]] = []

    def show_on_hover(self, axes: Axes, text: str, *, x: _Span | None = None, y: _Span | None = None) -> None:
        """Show a text while the pointer is over a part of the axes (data coordinates; None for the whole width or height)."""
        self._values.append((axes, text, x, y))

    def svg(self) -> str:
        """Return an SVG element for an HTML page: it scrolls in its own box where it is too narrow to be read."""
        drawn = self._saved(format="svg", transparent=True, metadata={"Date": None}).decode()
        drawn = drawn[drawn.index("<svg") : drawn.rindex("</svg>")]
        drawn = re.sub(r"^<svg[^>]*>|<metadata>.*?</metadata>|<style.*?</style>", "", drawn, flags=re.DOTALL)
        prefix = sha256(drawn.encode()).hexdigest()[:8]
        used = {name for tag in re.findall(r"<[^>]*>", drawn) for name in re.findall(r"#(\w+)[\")]", tag)}

        def adapt(tag: re.Match[str]) -> str:
            """Keep ids that are used, unique in the page; replace black and the font."""
            kept = re.sub(r' id="([^"]*)"', lambda name: f' id="{prefix}{name[1]}"' if name[1] in used else "", tag[0])
            kept = re.sub(r'(xlink:href="|url\()#', rf"\1#{prefix}", kept).replace("xlink:href", "href")
            kept = re.sub(r" font-family: [^;]*;", "", re.sub(r"(font: [^'\"]*px) [^;\"]*", rf"\1 {_FONTS}", kept))
            return re.sub(r"\s+", " ", kept).replace("#000000", "currentColor")

        # Texts and attributes have no bare angle brackets, so that nothing but tags is changed.
        drawn = re.sub(r">\s+<", "><", re.sub(r"<[^>]*>", adapt, drawn))
        width, height = self.get_size_inches() * 72
        style = f"display:block;width:100%;min-width:{_NARROWEST_PX}px;max-width:{width * 4 / 3:.0f}px;height:auto"
        return (
            '<div class="nbaudio-scroll" role="group" tabindex="0" aria-label="Plot" style="overflow-x:auto">'
            f'<svg role="img" aria-label="{escape(self.alt_text)}" viewBox="0 0 {width:g} {height:g}" style="{style}" '
            f'fill="currentColor" font-family="{_FONTS}" stroke-linejoin="round" stroke-linecap="butt">{drawn}'
            f'<g class="nbaudio-values" fill-opacity="0">{"".join(self._hover_areas(width, height))}</g></svg></div>'
        )

    def _hover_areas(self, width: float, height: float) -> Iterator[str]:
        """Return transparent rectangles with texts, in units of the SVG."""
        for axes, text, *spans in self._values:
            limits = [sorted(axes.get_xlim()), sorted(axes.get_ylim())]
            (left, right), (low, high) = (
                [min(max(end, least), most) for end in (span or (least, most))]
                for span, (least, most) in zip(spans, limits, strict=True)
            )
            corners = self.transFigure.inverted().transform(axes.transData.transform([(left, low), (right, high)]))
            (x0, y0), (x1, y1) = ((x * width, (1 - y) * height) for x, y in corners)
            if x0 != x1 and y0 != y1:
                place = f'x="{min(x0, x1):.1f}" y="{min(y0, y1):.1f}" width="{abs(x1 - x0):.1f}" height="{abs(y1 - y0):.1f}"'
                yield f"<rect {place}><title>{escape(text)}</title></rect>"

    def img(self) -> str:
        """Return an image element with the PNG."""
        return f'<img alt="{escape(self.alt_text)}" src="data:image/png;base64,{b64encode(self._repr_png_()).decode()}" />'

    def _repr_html_(self) -> str:
        return f'<style>{_NOTEBOOK_STYLE}</style><div class="nbaudio-plot" style="display:none">{self.svg()}</div>{self.img()}'

    def _repr_png_(self) -> bytes:
        return self._saved(format="png", metadata={"Software": None})

    def _saved(self, **options: Any) -> bytes:
        """Return the bytes of a file; characters missing from the font are boxes, about which a page of warnings adds nothing."""
        file = io.BytesIO()
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "nbaudio"}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            self.savefig(file, **options)
        return file.getvalue()
