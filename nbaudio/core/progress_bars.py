"""Bars of progress in a terminal, and lines of progress in a log."""

import sys
import time
from types import TracebackType
from typing import IO, Any, Self

from tqdm import tqdm

from nbaudio.core.progress_text import final_text, state_text

LAYOUT = "{desc} {percentage:3.0f} % |{bar}| {state}{postfix}"

# What a terminal of 80 columns has room for.
_BAR_WIDTH = 10
_REDRAW_S = 0.5
# A log has a line after this many seconds, and sooner where the work waits for a host.
_LINE_S = 30.0
_WAITING_LINE_S = 10.0


class StateText:
    """Mixin for bars of `tqdm`: fills `state` in their layout with a text on the work.

    A class that derives from it and from a class of `tqdm` sets `work_unit` first.
    """

    work_unit: str
    n: float
    total: float

    @property
    def format_dict(self) -> dict[str, Any]:
        """What the layout can name."""
        facts: dict[str, Any] = super().format_dict  # type: ignore[misc]
        text = state_text(self.work_unit, self.n, self.total, facts["elapsed"])
        return {**facts, "state": text}


class TerminalBar(StateText, tqdm):  # type: ignore[misc]
    """Bar on standard error, which is a terminal."""

    def __init__(self, what: str, total: float, unit: str) -> None:
        """Show a bar for `total` of a unit, named `what`."""
        self.work_unit = unit
        super().__init__(
            total=total,
            desc=what,
            bar_format=LAYOUT.replace("{bar}", f"{{bar:{_BAR_WIDTH}}}"),
            ascii=" =",
            file=sys.stderr,
            mininterval=_REDRAW_S,
        )


class NoBar:
    """Stands for a bar where nothing is shown."""

    def __init__(self, total: float) -> None:
        self.n = 0.0
        self.total = total

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing."""

    def update(self, amount: float) -> None:
        """Add a finished amount."""
        self.n += amount

    # Positional as tqdm has it.
    def set_postfix_str(self, text: str, refresh: bool = True) -> None:  # noqa: FBT001, FBT002
        """Do nothing."""


class LogLines(NoBar):
    """Lines on standard error, which is no terminal: some while the work goes on, and the last."""

    def __init__(self, what: str, total: float, unit: str) -> None:
        super().__init__(total)
        self._what = what.strip()
        self._unit = unit
        self._postfix = ""
        self._file: IO[str] = sys.stderr
        self._began = self._printed = time.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._print(final_text(self._unit, self.n, self.total, time.monotonic() - self._began))

    def update(self, amount: float) -> None:
        """Add a finished amount."""
        super().update(amount)
        self._print_state(_LINE_S)

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:  # noqa: FBT001, FBT002
        """Set what follows the state, such as the hosts that are waited for."""
        self._postfix = text
        if refresh and text:
            self._print_state(_WAITING_LINE_S)

    def _print_state(self, interval_s: float) -> None:
        """Print a line if the last one is older than `interval_s`."""
        now = time.monotonic()
        if now - self._printed >= interval_s:
            self._printed = now
            self._print(state_text(self._unit, self.n, self.total, now - self._began))

    def _print(self, text: str) -> None:
        postfix = f", {self._postfix}" if self._postfix else ""
        try:
            print(f"{self._what}: {text}{postfix}", file=self._file, flush=True)
        except (OSError, ValueError):  # standard error is closed
            return
