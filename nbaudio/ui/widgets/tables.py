"""Tables as people read them: text to the left, numbers to the right with few decimals, nothing in a cell taken for markup."""

from dataclasses import dataclass
from html import escape
from typing import Any

import polars as pl

from nbaudio.core.frames import Frame, as_polars
from nbaudio.core.report import show

MOST_ROWS = 50

_LONGEST_CELL = 300
_LONGEST_WORD = 40


@dataclass(frozen=True)
class Table:
    """A frame as Jupyter shows it, the first rows of it.

    Attributes:
        frame: all of it, or its beginning.
        limit: how many rows are shown.
        total: how many rows there are, where `frame` is only the beginning.
    """

    frame: pl.DataFrame
    limit: int = MOST_ROWS
    total: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", as_polars(self.frame))

    def _repr_html_(self) -> str:
        right = {name for name, dtype in self.frame.schema.items() if dtype.is_numeric()}
        align = {name: f"text-align:{'right' if name in right else 'left'};vertical-align:top" for name in self.frame.columns}
        head = "".join(f'<th style="{align[name]}">{escape(name)}</th>' for name in self.frame.columns)
        rows = "".join(
            f"<tr>{''.join(_cell(value, align[name]) for name, value in row.items())}</tr>"
            for row in self.frame.head(self.limit).iter_rows(named=True)
        )
        hidden = (len(self.frame) if self.total is None else self.total) - self.limit
        more = f"<p>and {hidden:,} more rows</p>" if hidden > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows or '<tr><td>no rows</td></tr>'}</tbody></table>{more}"

    def __repr__(self) -> str:
        return repr(self.frame)


def table(frame: Frame, *, limit: int = MOST_ROWS) -> Table:
    """A pandas or polars frame to look at.

    Examples:
        >>> "&lt;script&gt;" in table(pl.DataFrame({"text": ["<script>"]}))._repr_html_()
        True
    """
    return Table(as_polars(frame), limit)


def _cell(value: Any, align: str) -> str:
    text = show(value)
    shown = text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]} …"
    words = shown.split()
    # Blanks are shown as they are: names differ in them. An id stays in one line, though it has hyphens.
    whole = len(words) == 1 and len(shown) <= _LONGEST_WORD
    wrap = "white-space:pre" if whole else "white-space:pre-wrap;overflow-wrap:anywhere"
    return f'<td dir="auto" style="{align};{wrap}">{escape(shown)}</td>'
