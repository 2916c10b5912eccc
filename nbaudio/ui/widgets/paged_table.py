"""`table`: any frame as a plain table; a long one in pages."""

import polars as pl

from nbaudio.core.dataframes import Frame, as_polars
from nbaudio.ui.widgets.base import BaseWidget, esm
from nbaudio.ui.widgets.static_html import MOST_ROWS, Table, cell_text


class PagedTable(BaseWidget):
    """Frame in pages of `limit` rows; a saved page has the first one."""

    _esm = esm("core", "paged_table")

    def __init__(self, frame: pl.DataFrame, limit: int = MOST_ROWS) -> None:
        self.frame, self._limit = frame, limit
        super().__init__({"page": self._page})

    def _page(self, *, number: int) -> dict[str, object]:
        """Return a page (the last one if `number` is past the end): number from 0, number of pages, columns, rows as texts."""
        last = (len(self.frame) - 1) // self._limit
        number = max(0, min(number, last))
        columns = [{"name": name, "number": dtype.is_numeric()} for name, dtype in self.frame.schema.items()]
        rows = [[*map(cell_text, row)] for row in self.frame.slice(number * self._limit, self._limit).iter_rows()]
        place = {"number": number, "pages": last + 1, "first": number * self._limit + 1, "all": len(self.frame)}
        return {**place, "columns": columns, "rows": rows}

    def static_html(self) -> str:
        """Return the first page and the number of rows after it."""
        return Table(self.frame, self._limit)._repr_html_()

    _repr_html_ = static_html

    def __repr__(self) -> str:
        return repr(self.frame)


def table(frame: Frame, *, limit: int = MOST_ROWS) -> Table | PagedTable:
    """Show a pandas or polars frame: numbers to the right with few decimals, nothing in a cell taken for markup.

    Args:
        frame: the frame.
        limit: rows of a page; a longer frame has further pages while the kernel runs, a saved notebook has the first one.

    Examples:
        >>> "&lt;script&gt;" in table(pl.DataFrame({"text": ["<script>"]}))._repr_html_()
        True
        >>> "and 20 more rows" in table(pl.DataFrame({"n": range(70)}))._repr_html_()
        True
    """
    shown = as_polars(frame)
    return PagedTable(shown, limit) if len(shown) > limit > 0 else Table(shown, limit)
