"""Progress of long work, with rate and time left: plain text that terminals, notebooks and saved notebooks all show.

Whoever runs a step in a thread can watch it: `watching` names somebody who hears of every stage, and of what is ledgered while it
runs. Several may watch at once.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from tqdm import tqdm


class Watcher(Protocol):
    """Somebody who hears of the work of one thread, in that thread."""

    def stage(self, what: str, total: float, unit: str) -> None:
        """A stage begins."""
        ...

    def advance(self, amount: float) -> None:
        """So much more of the stage is done."""
        ...

    def note(self, line: str) -> None:
        """Something could not be used."""
        ...


_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let somebody hear of the work that this thread does meanwhile."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def note(line: str) -> None:
    """Tell whoever is watching, if anybody, that something could not be used."""
    for watcher in _watchers.get():
        watcher.note(line)


@contextmanager
def progress(what: str, total: float, unit: str, *, show: bool = True) -> Iterator[Callable[[float], object]]:
    """Show how much of `total` is done.

    Args:
        what: the stage's name.
        total: the amount of work, in `unit`.
        unit: such as ``h`` of audio or ``shard``.
        show: False keeps silent.

    Examples:
        >>> with progress("cut", 2.0, "h", show=False) as advance:
        ...     _ = advance(0.5)
    """
    watchers = _watchers.get()
    for watcher in watchers:
        watcher.stage(what.strip(), total, unit)
    number = "{n:.2f}/{total:.2f}" if isinstance(total, float) else "{n:,}/{total:,}"
    times = "{elapsed} passed, {remaining} left, {rate_noinv_fmt}"
    layout = f"{{desc}} {{percentage:3.0f}}% |{{bar:24}}| {number} {unit}  {times}"
    with tqdm(
        total=total, desc=what, unit=f" {unit}", bar_format=layout, disable=not show, file=sys.stderr, mininterval=0.5, ascii=" ="
    ) as bar:

        def advance(amount: float) -> None:
            # Shares of a whole add up to a little more than it; tqdm warns of that.
            bar.update(min(amount, total - bar.n))
            for watcher in watchers:
                watcher.advance(amount)

        yield advance
