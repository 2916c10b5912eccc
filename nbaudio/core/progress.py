"""Progress of long work, with rate and time left: text in a terminal, an ipywidgets bar in a notebook (see `bars`).

A caller that runs a step in a thread follows it with `listen_to_progress`: its callback gets every stage and failure while it
runs. Several may watch at once.

A host that does not answer is named behind the bars that are shown; where there is no bar, on standard error.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Protocol

from nbaudio.core.bars import open_bar


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


# A host is named when it has been silent for so long, and then every so many seconds where there is no bar.
_SILENT_S, _REPEAT_S = 1.0, 10.0

_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def listen_to_progress(watcher: Watcher) -> Iterator[None]:
    """Let somebody hear of the work that this thread does meanwhile."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def progress_note(line: str) -> None:
    """Tell whoever is watching, if anybody, that something could not be used."""
    for watcher in _watchers.get():
        watcher.note(line)


class _Waits:
    """Requests that are underway in this process, and the bars that name the hosts that are silent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[object, tuple[str, float]] = {}
        self._bars: list[Callable[[str], object]] = []
        self._told: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def waiting(self, host: str) -> Iterator[None]:
        key = object()
        with self._lock:
            self._since[key] = (host, time.monotonic())
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="nbaudio-waits", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._since[key]

    def heard(self, host: str) -> None:
        now = time.monotonic()
        with self._lock:
            self._since.update({key: (host, now) for key, (other, _) in self._since.items() if other == host})

    @contextmanager
    def on(self, bar: Callable[[str], object]) -> Iterator[None]:
        with self._lock:
            self._bars.append(bar)
        try:
            yield
        finally:
            with self._lock:
                self._bars.remove(bar)

    def _run(self) -> None:
        shown = ""
        while True:
            threading.Event().wait(_SILENT_S)
            with self._lock:
                now, bars = time.monotonic(), list(self._bars)
                silent: dict[str, float] = {}
                for host, since in self._since.values():
                    if now - since >= _SILENT_S:
                        silent[host] = max(silent.get(host, 0.0), now - since)
                if not self._since and not shown:
                    self._thread = None
                    return
            text = f"waiting for {', '.join(sorted(silent))}, {max(silent.values()):.0f} s" if silent else ""
            if text != shown:
                for bar in bars:
                    bar(text)
            for host in silent if not bars else ():
                if now - self._told.get(host, -_REPEAT_S) >= _REPEAT_S:
                    self._told[host] = now
                    with suppress(OSError, ValueError):  # standard error is closed
                        print(f"waiting for {host}", file=sys.stderr, flush=True)
            shown = text


_waits = _Waits()
#: Names a host in what is shown, as soon as it has been silent for a while: a context for one request or pause.
waiting = _waits.waiting
#: Notes that a host has sent something.
on_message = _waits.heard
#: A bar, as a function of the words behind it, that names silent hosts for as long as the context lasts.
naming_hosts = _waits.on


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
    layout = f"{{desc}} {{percentage:3.0f}}% |{{bar}}| {number} {unit}  {times}{{postfix}}"
    with (
        open_bar(total=total, desc=what, of=unit, bar_format=layout, disable=not show) as bar,
        naming_hosts(bar.set_postfix_str),
    ):

        def advance(amount: float) -> None:
            # Shares of a whole add up to a little more than it; tqdm warns of that.
            bar.update(min(amount, total - bar.n))
            for watcher in watchers:
                watcher.advance(amount)

        yield advance
