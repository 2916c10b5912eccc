"""Progress of long work.

In a terminal it is text on standard error, in a notebook a bar that becomes a line of text when it
ends.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from html import escape
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


def rate_and_time_left(
    done: float, seconds: float, remaining: float
) -> tuple[float | None, float | None]:
    """Return the rate of the work per second, and the seconds that the rest takes.

    So far, `done` units took `seconds`, and `remaining` units are left. Both are None if unknown.
    """
    rate = done / seconds if done > 0 and seconds > 0 else 0.0
    return (rate, remaining / rate) if rate else (None, None)


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
        shown = ""
        while True:  # noqa: PLR1702
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
            for host in hosts if not bars else ():
                if now - self._printed.get(host, -_REPEAT_S) >= _REPEAT_S:
                    self._printed[host] = now
                    with suppress(OSError, ValueError):  # standard error is closed
                        print(f"waiting for {host}", file=sys.stderr, flush=True)
            shown = text


_silent_hosts = _SilentHosts()
waiting = _silent_hosts.waiting
on_message = _silent_hosts.on_message
naming_hosts = _silent_hosts.named_on


@contextmanager
def progress(
    what: str, total: float, unit: str, *, show: bool = True
) -> Iterator[Callable[[float], object]]:
    """Show how much of `total`, in `unit`, is done, unless `show` is False.

    Yield the function that adds a finished amount.
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


def kernel_shell() -> Any:
    """Return the shell of the Jupyter kernel that runs this process; None without a kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell if hasattr(shell, "kernel") else None


def open_bar(*, of: str = "", **options: Any) -> Any:
    """Open a `tqdm` bar for a terminal or a notebook.

    `of` is the unit in a notebook's final line, by default that of `options`.
    """
    from tqdm import tqdm

    shell = kernel_shell()
    if shell is None:
        text = options | {"bar_format": options["bar_format"].replace("{bar}", "{bar:24}")}
        return tqdm(**text, file=sys.stderr, mininterval=0.5, ascii=" =")
    # The output of another thread would land in whatever cell runs then.
    if options.get("disable") or threading.current_thread() is not threading.main_thread():
        return tqdm(**options | {"disable": True})
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
            bar.max = self.total or 1
            bar.bar_style = bar.bar_style.replace("info", "")
            super().display(*arguments, **named)

        def close(self) -> None:
            if self.disable:
                return
            line = summary({**self.format_dict, **({"unit": of} if of else {})})
            super().close()
            meter = (
                f'<progress max="1" value="{min(1.0, self.n / (self.total or 1)):.3f}"></progress>'
            )
            final = {"text/plain": line, "text/html": f"<div>{meter} {escape(line)}</div>"}
            shell.display_pub.publish(final, transient=self._place, update=True)
            for widget in (*self.container.children, self.container):
                widget.close()

    return NotebookBar()


def summary(state: dict[str, Any]) -> str:
    """Return the final line of a bar, from its `tqdm.format_dict`."""
    from tqdm import tqdm

    form = ":.2f} {unit}" if isinstance(state["total"], float) else ":,} {unit}"
    done, total = (
        "{" + name + ("_fmt}{unit}" if state["unit_scale"] else form) for name in ("n", "total")
    )
    layout = f"{{desc}}: {done} in {{elapsed}}"
    # Shares of a whole add up to a little less than it.
    if state["n"] < 0.999 * (state["total"] or 0):
        layout = f"{{desc}}: {done} of {total} in {{elapsed}}, then stopped"
    return str(
        tqdm.format_meter(
            **state | {"bar_format": layout, "prefix": state["prefix"].strip().removesuffix(":")}
        )
    )
