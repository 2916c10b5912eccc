"""Progress of long work, with rate and time left: plain text that terminals, notebooks and saved notebooks all show."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm


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
    number = "{n:.2f}/{total:.2f}" if isinstance(total, float) else "{n:,}/{total:,}"
    times = "{elapsed} passed, {remaining} left, {rate_noinv_fmt}"
    layout = f"{{desc}} {{percentage:3.0f}}% |{{bar:24}}| {number} {unit}  {times}"
    with tqdm(
        total=total, desc=what, unit=f" {unit}", bar_format=layout, disable=not show, file=sys.stderr, mininterval=0.5, ascii=" ="
    ) as bar:
        # Shares of a whole add up to a little more than it; tqdm warns of that.
        yield lambda amount: bar.update(min(amount, total - bar.n))
