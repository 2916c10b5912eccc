"""Processes that this one starts: their standard error, and their end with it."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import IO

_DRIVER_CHECK_S = 0.2  # between checks that the driver is alive


@contextmanager
def stderr_to(log: IO[bytes]) -> Iterator[None]:
    """Redirect the standard error of processes that start meanwhile to a file.

    The JVM prints tracebacks there.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def exit_with_driver(driver: int) -> None:
    """Exit this process when its parent has ended, and leave interrupts to the parent.

    Workers of a killed run would write at the same time as the next run. Ctrl-C reaches all
    processes of a terminal or kernel; libraries that call Python, as soundfile does, drop the
    KeyboardInterrupt and go on with a wrong value.
    """
    # Programs that this process starts do not inherit a handler, as they would SIG_IGN.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_DRIVER_CHECK_S)
        os._exit(1)

    Thread(target=watch, name="nbaudio driver", daemon=True).start()
