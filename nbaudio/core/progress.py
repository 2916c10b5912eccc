"""Progress of long work.

In a terminal it is a bar on standard error, in a log lines of text, in a notebook a bar that
becomes a line of text when it ends. Each says how much is done, how fast it goes and the time left.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

# A host is named after this many seconds of silence, and then at this interval where there is no
# bar.
_SILENT_S = 1.0
_REPEAT_S = 10.0


_watchers: ContextVar[tuple[Any, ...]] = ContextVar("watchers", default=())


@contextmanager
def listen_to_progress(watcher: Any) -> Iterator[None]:
    """Notify a watcher of the work that this thread does inside the context, in this thread.

    Several may watch at once. The methods of a watcher are `stage(what, total, unit)` when a stage
    begins, `advance(amount)` of the stage, and `note(line)` of an item that could not be used.
    """
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def progress_note(line: str) -> None:
    """Report an item that could not be used to all watchers."""
    for watcher in _watchers.get():
        watcher.note(line)


class _SilentHosts:
    """Requests in flight in this process, and the bars that name silent hosts.

    A silent host has stopped responding.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[object, tuple[str, float]] = {}
        self._bars: list[Callable[[str], object]] = []
        self._printed: dict[str, float] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def waiting(self, host: str) -> Iterator[None]:
        """Show the host's name once it has been silent for a while in this context.

        The context is one request or pause.
        """
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

    def on_message(self, host: str) -> None:
        """Record that a host has sent something."""
        now = time.monotonic()
        with self._lock:
            self._since.update(
                {key: (host, now) for key, (other, _) in self._since.items() if other == host}
            )

    @contextmanager
    def named_on(self, bar: Callable[[str], object]) -> Iterator[None]:
        """Name silent hosts on a bar, given as a function of its postfix."""
        self._bars.append(bar)
        try:
            yield
        finally:
            self._bars.remove(bar)

    def _run(self) -> None:
        """Name silent hosts until no request is in flight."""
        shown = ""
        while True:
            threading.Event().wait(_SILENT_S)
            with self._lock:
                now = time.monotonic()
                bars = list(self._bars)
                silent = [
                    (now - since, host)
                    for host, since in self._since.values()
                    if now - since >= _SILENT_S
                ]
                if not self._since and not shown:
                    self._thread = None
                    return
            hosts = sorted({host for _, host in silent})
            text = f"waiting for {', '.join(hosts)}, {max(silent)[0]:.0f} s" if silent else ""
            if text != shown:
                for bar in bars:
                    bar(text)
            if not bars:
                self._print(hosts, now)
            shown = text

    def _print(self, hosts: Sequence[str], now: float) -> None:
        """Name hosts on standard error, each after a while again."""
        for host in hosts:
            if now - self._printed.get(host, -_REPEAT_S) >= _REPEAT_S:
                self._printed[host] = now
                with suppress(OSError, ValueError):  # standard error is closed
                    print(f"waiting for {host}", file=sys.stderr, flush=True)


_silent_hosts = _SilentHosts()
waiting = _silent_hosts.waiting
on_message = _silent_hosts.on_message
naming_hosts = _silent_hosts.named_on


@contextmanager
def progress(
    what: str, total: float, unit: str, *, show: bool = True
) -> Iterator[Callable[[float], object]]:
    """Show how much of `total` is done, how fast it goes and the time left.

    Yield the function that adds a finished amount.

    Args:
        what: short name of the work, such as ``cut``.
        total: whole amount.
        unit: of the amounts, see `nbaudio.core.progress_text`, such as ``h of audio``.
        show: whether something is shown; watchers are notified either way.
    """
    watchers = _watchers.get()
    for watcher in watchers:
        watcher.stage(what.strip(), total, unit)
    with open_bar(what, total, unit, show=show) as bar, naming_hosts(bar.set_postfix_str):

        def advance(amount: float) -> None:
            # Shares of a whole add up to a little more than it; tqdm warns of that.
            bar.update(min(amount, total - bar.n))
            for watcher in watchers:
                watcher.advance(amount)

        yield advance


class FileBytes:
    """Progress in bytes over files that threads fetch.

    A length that is not known yet counts as the mean of those of the files that have begun.
    """

    def __init__(self, bar: Any, num_files: int) -> None:
        """Take the bar on which the bytes of `num_files` files are shown."""
        self._bar = bar
        self._num_files = num_files
        self._num_finished = 0
        self._lock = threading.Lock()
        self._hosts = ""
        self._begun = set[str]()
        self._missing: dict[str, int] = {}  # bytes to come of files that are being fetched

    def expect(self, name: str, num_bytes: int) -> None:
        """Set the bytes to come of a file that begins or continues."""
        with self._lock:
            self._missing[name] = num_bytes
            self._update_total(name)

    def advance(self, name: str, num_bytes: int) -> None:
        """Count bytes of a file that came."""
        with self._lock:
            self._missing[name] -= num_bytes
            self._bar.update(num_bytes)

    def finish(self, name: str) -> None:
        """Count a file as finished."""
        with self._lock:
            self._missing.pop(name, None)
            self._update_total(name)
            self._num_finished += 1
            self._show()

    def _update_total(self, name: str) -> None:
        self._begun.add(name)
        num_bytes = self._bar.n + max(sum(self._missing.values()), 0)
        self._bar.total = round(num_bytes * self._num_files / len(self._begun))

    def show_waiting(self, hosts: str) -> None:
        """Name the hosts that are waited for; none if it is empty."""
        with self._lock:
            self._hosts = hosts
            self._show()

    def _show(self) -> None:
        text = f"{self._num_finished:,} of {self._num_files:,} files"
        if self._hosts:
            text += f", {self._hosts}"
        self._bar.set_postfix_str(text, refresh=bool(self._hosts))


@contextmanager
def file_progress(what: str, num_files: int) -> Iterator[FileBytes]:
    """Show progress in bytes of files, with rate, time left and silent hosts."""
    with open_bar(what, 0, "bytes") as bar:
        shown = FileBytes(bar, num_files)
        with naming_hosts(shown.show_waiting):
            yield shown


def kernel_shell() -> Any:
    """Return the shell of the Jupyter kernel that runs this process; None without a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None


def open_bar(what: str, total: float, unit: str, *, show: bool = True) -> Any:
    """Open a bar for a terminal or a notebook, or lines for a log.

    The bar is a context manager with `n`, `total`, `update` and `set_postfix_str`, as in `tqdm`;
    the total may grow.
    """
    from nbaudio.core.progress_bars import LogLines, NoBar, TerminalBar

    shell = kernel_shell()
    # The output of another thread would land in whatever cell runs then.
    in_other_cell = shell is not None and threading.current_thread() is not threading.main_thread()
    if not show or in_other_cell:
        return NoBar(total)
    if shell is not None:
        from nbaudio.core.notebook_bar import NotebookBar

        return NotebookBar(what, total, unit, shell)
    # A terminal without a size, as of a container without a window, would show empty lines.
    if sys.stderr.isatty() and all(os.get_terminal_size(sys.stderr.fileno())):
        return TerminalBar(what, total, unit)
    return LogLines(what, total, unit)
