"""One page of HTML out of sections: whole in itself, it loads nothing and runs nothing.

Conventions: every text is escaped, and cells isolate their direction (see `widgets.static_html`). The page forbids the browser
all but its own style and its own pictures, so that nothing in it could reach out even if it tried.
"""

from base64 import b64encode
from collections.abc import Sequence
from html import escape

from nbaudio.ui.statistics.sections import Section
from nbaudio.ui.widgets.static_html import table

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f1f1f; background: #fff }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.7rem; overflow-wrap: anywhere }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; border-bottom: 2px solid #0072B2 }
h3 { font-size: 1rem; margin: .8rem 0 .3rem }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem }
nav a { color: #00557F }
p { margin: .4rem 0; max-width: 60rem }
figure { margin: 1rem 0 }
img { max-width: 100%; height: auto }
.tables { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; align-items: flex-start }
.tables > div { max-width: 100%; overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd }
th { background: #eef3f6 }
td { max-width: 34rem; unicode-bidi: isolate; font-variant-numeric: tabular-nums }
@media print { nav { display: none } h2, h3 { break-after: avoid } figure, tr { break-inside: avoid } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_page(title: str, sections: Sequence[Section]) -> str:
    """A page.

    Args:
        title: its heading.
        sections: its parts, in order.

    Examples:
        >>> "&lt;b&gt;" in render_page("<b>", [Section("Overview", "", {})])
        True
    """
    links = "".join(f'<a href="#{number}">{escape(section.title)}</a>' for number, section in enumerate(sections))
    parts = "".join(_section(number, section) for number, section in enumerate(sections))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n'
        f'<body>\n<h1 dir="auto">{escape(title)}</h1>\n<nav>{links}</nav>\n{parts}</body>\n</html>\n'
    )


def _section(number: int, section: Section) -> str:
    plot = ""
    if section.plot is not None:
        data = b64encode(section.plot).decode()
        plot = (
            f'<figure><img src="data:image/png;base64,{data}" alt="{escape(section.title)}: {escape(section.about)}"></figure>\n'
        )
    tables = "".join(
        f"<div><h3>{escape(caption)}</h3>{table(frame)._repr_html_()}</div>\n" for caption, frame in section.tables.items()
    )
    return (
        f'<section id="{number}">\n<h2>{escape(section.title)}</h2>\n<p>{escape(section.about)}</p>\n{plot}'
        f'<div class="tables">\n{tables}</div>\n</section>\n'
    )
