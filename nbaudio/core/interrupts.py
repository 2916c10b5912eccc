"""Delay or block Ctrl-C while code runs that an interrupt would break."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Raise an interrupt at the end of the context, which must be short.

    Libraries in C that write to or read from an object of Python drop a KeyboardInterrupt that is
    raised there, and go on with a wrong value.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # interrupts reach the main thread alone, and may be ignored
        return
    interrupts: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if interrupts:
            handler(signal.SIGINT, None)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in processes that start meanwhile, until `processes.exit_with_driver`.

    One that imports its libraries would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
