"""What IPython shows of an error: one line in the cell that failed, all of it by ``%tb``.

IPython calls the method `_render_traceback_` of an error wherever it shows one.
"""

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from nbaudio.core.report import escape_control

P = ParamSpec("P")
R = TypeVar("R")

STOPPED = "stopped; run the cell again to continue"
# Module and name of the magic ``%tb``, in all versions of IPython.
_MAGIC = ("IPython.core.magics.execution", "tb")


def render_traceback(error: BaseException, line: str | None = None) -> list[str]:
    """Return the lines that IPython shows of an error: all for ``%tb``, otherwise one.

    That is `line`, or type and message of the error. If either fails, it is the type.
    """
    try:
        if _is_asked_for():
            return _whole_traceback(error)
        return [line or error_line(error)]
    except Exception:  # noqa: BLE001 - IPython would show the traceback of this one
        return [type(error).__name__]


def error_line(error: BaseException) -> str:
    r"""Return type and message of an error in one line, with control characters escaped.

    Examples:
        >>> print(error_line(ValueError("a\x1b.wav:\n  no such file")))
        ValueError: a\x1b.wav: no such file
        >>> print(error_line(ValueError()))
        ValueError
    """
    name = type(error).__name__
    message = escape_control(" ".join(str(error).split()))
    if not message:
        return name
    return f"{name}: {message}"


def interruptible(function: Callable[P, R]) -> Callable[P, R]:
    """Let IPython show an interrupt of a command as the line `STOPPED`.

    The error stays the KeyboardInterrupt that it is: a subclass would change the exit code of a
    program.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; mark an interrupt as stopped and raise it again."""
        try:
            return function(*args, **kwargs)
        except KeyboardInterrupt as interrupt:
            try:
                _show_as_stopped(interrupt)
            except KeyboardInterrupt as again:  # Polars makes two of one Ctrl-C
                _show_as_stopped(again)
                raise
            raise

    return call


def _show_as_stopped(interrupt: KeyboardInterrupt) -> None:
    vars(interrupt)["_render_traceback_"] = _render_last_interrupt


def _render_last_interrupt() -> list[str]:
    # IPython has stored the error there. A reference to itself would keep its frames in memory.
    return render_traceback(getattr(sys, "last_value", None) or KeyboardInterrupt(), STOPPED)


def _is_asked_for() -> bool:
    """Return whether this thread runs the magic ``%tb``."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == _MAGIC:
            return True
        frame = frame.f_back
    return False


def _whole_traceback(error: BaseException) -> list[str]:
    """Return the traceback as IPython shows it in its current mode (``%xmode``)."""
    ipython: Any = sys.modules["IPython"]
    description = (type(error), error, error.__traceback__)
    try:
        lines: list[str] = ipython.get_ipython().InteractiveTB.structured_traceback(*description)
    except Exception:  # noqa: BLE001 - it reads sources and shows values, which may fail
        return traceback.format_exception(*description)
    return lines
