"""Limits of the requests of downloads, per host.

Redirects keep those of the host that sends the bytes.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from nbaudio.core.errors import AudioError


class HostLimits:
    """Limits of the requests to each host: so many at once and per second.

    No request is sent while a host rests, which is at most `max_wait` seconds.
    """

    def __init__(self, *, per_host: int, per_second: float, max_wait: float) -> None:
        self._spacing = 1 / per_second
        self._max_wait = max_wait
        self._lock = threading.Lock()
        self._slots: defaultdict[str, threading.Semaphore] = defaultdict(
            lambda: threading.Semaphore(per_host)
        )
        self._free_at: defaultdict[str, float] = defaultdict(float)
        self.stopped = threading.Event()

    @contextmanager
    def request(self, host: str) -> Iterator[None]:
        """Wait until a request may be sent; raise AudioError where the downloads are stopped."""
        with self._lock:
            slot = self._slots[host]
        with slot:
            while (pause := self._pause(host)) > 0:
                self.stopped.wait(pause)
            yield

    def rest(self, host: str, seconds: float) -> None:
        """Send no request to a host for some seconds (Retry-After).

        More than `max_wait` change nothing: the item fails, and the host's other items go on.
        """
        if seconds > self._max_wait:
            return
        with self._lock:
            self._free_at[host] = max(self._free_at[host], time.monotonic() + seconds)

    def _pause(self, host: str) -> float:
        """Return the seconds until a request may be sent; none left reserves it."""
        if self.stopped.is_set():
            raise AudioError("stopped")
        with self._lock:
            now = time.monotonic()
            pause = self._free_at[host] - now
            if pause <= 0:
                self._free_at[host] = now + self._spacing
            return pause
