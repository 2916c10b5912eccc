"""This process and those that it starts: their standard error, and their end."""

import atexit
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from threading import RLock, Thread
from typing import IO

_DRIVER_CHECK_S = 0.2  # seconds between checks that the driver is alive
_STDERR = 2
_STDERR_LOCK = RLock()
_COPY_BYTES = 1 << 16


@contextmanager
def stderr_to(log: IO[bytes]) -> Iterator[None]:
    """Redirect the standard error of processes that start meanwhile to a file.

    The JVM prints tracebacks there.
    """
    sys.stderr.flush()
    with _stderr_is(log):
        yield


@contextmanager
def panics_are_silent() -> Iterator[None]:
    """Hide the report that Rust writes to the standard error when it panics.

    Other output to it is written at the end of the context, but not after an error. All threads
    share the standard error, so one thread at a time is in this context.
    """
    with _STDERR_LOCK, TemporaryFile() as log:
        try:
            os.fstat(_STDERR)
        except OSError:  # there is no standard error
            yield
            return
        with _stderr_is(log):
            yield
        log.seek(0)
        while written := log.read(_COPY_BYTES):
            os.write(_STDERR, written)


@contextmanager
def _stderr_is(log: IO[bytes]) -> Iterator[None]:
    """Redirect the standard error to a file, and back."""
    saved = os.dup(_STDERR)
    try:
        os.dup2(log.fileno(), _STDERR)
        yield
    finally:
        os.dup2(saved, _STDERR)
        os.close(saved)


def skip_garbage_collection_at_exit() -> None:
    """Collect no garbage while this process ends.

    Python runs its garbage collector several times at exit, which takes up to half a second with
    the modules of Polars, pyarrow and Jupyter. Functions of `atexit` and `weakref.finalize` run as
    usual.
    """
    atexit.register(gc.freeze)


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
