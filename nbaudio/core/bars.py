"""Progress bars: of ipywidgets in a notebook, of text on standard error in a terminal.

A notebook's bar becomes one line of text when it ends, so that a saved notebook tells what was done without a kernel and without
a frontend.
"""

import sys
import threading
import time
from html import escape
from typing import Any

from tqdm import tqdm


def kernel_shell() -> Any:
    """The shell of the Jupyter kernel that runs this process; None without a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None


def open_bar(*, of: str = "", **options: Any) -> Any:
    """A `tqdm` bar for where this runs.

    In a thread of a kernel there is none: its output would land in whatever cell runs then; see `progress.watching`.

    Args:
        of: the unit that a notebook names at the end; that of `options` unless given.
        options: of `tqdm`; ``{bar}`` in `bar_format` is the place of the bar.
    """
    shell = kernel_shell()
    if shell is None:
        text = {**options, "bar_format": options["bar_format"].replace("{bar}", "{bar:24}")}
        return tqdm(**text, file=sys.stderr, mininterval=0.5, ascii=" =")
    if options.get("disable") or threading.current_thread() is not threading.main_thread():
        return tqdm(**{**options, "disable": True})
    return _notebook_bar(shell, of, options)


def _notebook_bar(shell: Any, of: str, options: dict[str, Any]) -> Any:
    from tqdm.notebook import tqdm as notebook_tqdm

    class NotebookBar(notebook_tqdm):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(**options, display=False, mininterval=0.2)
            self.container.children[1].layout.width = "220px"
            self._place = {"display_id": f"progress {id(self)} {time.time_ns()}"}
            shell.display_pub.publish(self.container._repr_mimebundle_(), transient=self._place)

        def display(self, *arguments: Any, **named: Any) -> None:
            # The total may grow.
            bar = self.container.children[1]
            bar.max, bar.bar_style = self.total or 1, bar.bar_style.replace("info", "")
            super().display(*arguments, **named)

        def close(self) -> None:
            if self.disable:
                return
            line = summary({**self.format_dict, **({"unit": of} if of else {})})
            super().close()
            meter = f'<progress max="1" value="{min(1.0, self.n / (self.total or 1)):.3f}"></progress>'
            said = {"text/plain": line, "text/html": f"<div>{meter} {escape(line)}</div>"}
            shell.display_pub.publish(said, transient=self._place, update=True)
            for widget in (*self.container.children, self.container):
                widget.close()

    return NotebookBar()


def summary(state: dict[str, Any]) -> str:
    """What a bar did, in words.

    Args:
        state: `format_dict` of `tqdm`.

    Examples:
        >>> bar = {"prefix": "verify", "unit": "shards", "unit_scale": False, "elapsed": 3.2}
        >>> summary({**bar, "n": 12, "total": 12}), summary({**bar, "n": 5, "total": 12})
        ('verify: 12 shards in 00:03', 'verify: 5 shards of 12 shards in 00:03, then stopped')
    """

    def amount(number: float) -> str:
        if state["unit_scale"]:
            return f"{tqdm.format_sizeof(number)}{state['unit']}"
        shown = f"{number:.2f}" if isinstance(state["total"], float) else f"{number:,}"
        return f"{shown} {state['unit']}"

    what, took = state["prefix"].strip().removesuffix(":"), tqdm.format_interval(state["elapsed"])
    # Shares of a whole add up to a little less than it.
    if state["n"] < 0.999 * (state["total"] or 0):
        return f"{what}: {amount(state['n'])} of {amount(state['total'])} in {took}, then stopped"
    return f"{what}: {amount(state['n'])} in {took}"
