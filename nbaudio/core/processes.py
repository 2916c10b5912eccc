"""Processes that this one starts: their standard error, and their end with it."""

import os
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
    """Exit this process when its parent has ended.

    Workers of a killed run would write at the same time as the next run.
    """

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_DRIVER_CHECK_S)
        os._exit(1)

    Thread(target=watch, name="nbaudio driver", daemon=True).start()
