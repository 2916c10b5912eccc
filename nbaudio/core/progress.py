"""Progress of long work: text on standard error in a terminal, in a notebook a bar with a line of text."""

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import Any, Protocol


class Watcher(Protocol):
    """Listener for the work of one thread; called in that thread."""

    def stage(self, what: str, total: float, unit: str) -> None:
        """Begin a stage."""

    def advance(self, amount: float) -> None:
        """Add a finished amount of the stage."""

    def note(self, line: str) -> None:
        """Report an item that could not be used."""


_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def listen_to_progress(watcher: Watcher) -> Iterator[None]:
    """Notify a watcher of the work that this thread does inside the context; several may watch at once."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def progress_note(line: str) -> None:
    """Report an item that could not be used to all watchers."""
    for watcher in _watchers.get():
        watcher.note(line)


def rate_and_time_left(done: float, seconds: float, remaining: float) -> tuple[float | None, float | None]:
    """Return the rate of `done` units in `seconds`, per second, and the seconds that `remaining` units take; None if unknown."""
    rate = done / seconds if done > 0 and seconds > 0 else 0.0
    return (rate, remaining / rate) if rate else (None, None)


@contextmanager
def progress(what: str, total: float, unit: str, *, show: bool = True) -> Iterator[Callable[[float], object]]:
    """Show how much of `total`, in `unit`, is done, unless `show` is False; yield the function that adds a finished amount."""
    watchers = _watchers.get()
    for watcher in watchers:
        watcher.stage(what.strip(), total, unit)
    number = "{n:.2f}/{total:.2f}" if isinstance(total, float) else "{n:,}/{total:,}"
    times = "{elapsed} passed, {remaining} left, {rate_noinv_fmt}"
    layout = f"{{desc}} {{percentage:3.0f}}% |{{bar}}| {number}{{unit}}  {times}"
    with open_bar(total=total, desc=what, unit=f" {unit}", bar_format=layout, disable=not show) as bar:

        def advance(amount: float) -> None:
            # Shares of a whole add up to a little more than it; tqdm warns of that.
            bar.update(min(amount, total - bar.n))
            for watcher in watchers:
                watcher.advance(amount)

        yield advance


def kernel_shell() -> Any:
    """Return the shell of the Jupyter kernel that runs this process; None without a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None


def open_bar(**options: Any) -> Any:
    """Open a `tqdm` bar for a terminal or a notebook."""
    from tqdm import tqdm

    shell = kernel_shell()
    if shell is None:
        text = options | {"bar_format": options["bar_format"].replace("{bar}", "{bar:24}")}
        return tqdm(**text, file=sys.stderr, mininterval=0.5, ascii=" =")
    # The output of another thread would land in whatever cell runs then.
    is_hidden = options.get("disable") or threading.current_thread() is not threading.main_thread()
    place = {"display_id": f"progress {time.time_ns()}"}

    class NotebookBar(tqdm):  # type: ignore[misc]
        """A bar in HTML, which needs neither a kernel nor an extension."""

        is_shown = False

        def display(self, *_: Any, **_named: Any) -> None:
            text = str(self)
            meter = f'<progress max="1" value="{min(1.0, self.n / (self.total or 1)):.3f}"></progress>'
            data = {"text/plain": text, "text/html": f"<div>{meter} {escape(text)}</div>"}
            shell.display_pub.publish(data, transient=place, update=self.is_shown)
            self.is_shown = True

    text = options | {"bar_format": options["bar_format"].replace("|{bar}| ", "")}
    return NotebookBar(**text | {"disable": is_hidden}, file=io.StringIO(), mininterval=0.2)
