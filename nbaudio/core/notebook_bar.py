"""Bar of progress in a notebook, which becomes a line of text when the work ends."""

import time
from html import escape
from typing import Any

from tqdm.notebook import tqdm

from nbaudio.core.progress_bars import LAYOUT, StateText
from nbaudio.core.progress_text import final_text

_REDRAW_S = 0.2
_WIDTH = "220px"


class NotebookBar(StateText, tqdm):  # type: ignore[misc]
    """Widget in the output of a cell, in place of which the last line is saved.

    `shell` is that of the kernel.
    """

    def __init__(self, what: str, total: float, unit: str, shell: Any) -> None:
        """Display the bar in the current cell."""
        self.work_unit = unit
        self._what = what.strip()
        self._shell = shell
        super().__init__(
            total=total, desc=what, bar_format=LAYOUT, display=False, mininterval=_REDRAW_S
        )
        self.container.children[1].layout.width = _WIDTH
        self._place = {"display_id": f"progress {id(self)} {time.time_ns()}"}
        shell.display_pub.publish(self.container._repr_mimebundle_(), transient=self._place)

    def display(self, *arguments: Any, **named: Any) -> None:
        """Redraw the bar; the total may have grown."""
        bar = self.container.children[1]
        bar.max = self.total or 1
        bar.bar_style = bar.bar_style.replace("info", "")
        super().display(*arguments, **named)

    def close(self) -> None:
        """Put the last line in place of the widget."""
        if self.disable:
            return
        elapsed = self.format_dict["elapsed"]
        line = f"{self._what}: {final_text(self.work_unit, self.n, self.total, elapsed)}"
        super().close()
        share = min(1.0, self.n / (self.total or 1))
        meter = f'<progress max="1" value="{share:.3f}"></progress>'
        final = {"text/plain": line, "text/html": f"<div>{meter} {escape(line)}</div>"}
        self._shell.display_pub.publish(final, transient=self._place, update=True)
        for widget in (*self.container.children, self.container):
            widget.close()
