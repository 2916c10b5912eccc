"""An HTTP client with limits per host.

Redirects keep those of the host that sends the bytes.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nbaudio.core.errors import AudioError
from nbaudio.storage.http import HttpClient, HttpStatusError
from nbaudio.storage.network import Network, retry_after

if TYPE_CHECKING:
    import urllib3


class LimitedClient(HttpClient):
    """A client that sends so many requests to each host at once, and a second.

    No request is sent while a host rests (Retry-After), which is at most `max_wait` seconds. A
    longer Retry-After changes nothing: the item fails, and the host's other items go on.
    """

    def __init__(self, network: Network, *, per_host: int, per_second: float) -> None:
        """Limit requests to `per_host` at once and `per_second` for each host."""
        super().__init__(connections=per_host, timeout=network.timeout)
        self.network = network
        self.stopped = threading.Event()
        self._spacing = 1 / per_second
        self._lock = threading.Lock()
        self._slots = defaultdict[tuple[str, str], threading.Semaphore](
            lambda: threading.Semaphore(per_host)
        )
        self._free_at = defaultdict[str, float](float)

    @contextmanager
    def request(
        self, method: str, url: str, *, named: str | None = None, **headers: str
    ) -> Iterator["urllib3.BaseHTTPResponse"]:
        """Yield the response as `HttpClient` does, when a request may be sent.

        Raise AudioError if the client is stopped.
        """
        host = urlsplit(url).netloc
        with self._lock:
            slot = self._slots[host, method]  # a HEAD request is sent while a GET is answered
        with (
            slot,
            self._pauses(host),
            super().request(method, url, named=named, **headers) as response,
        ):
            self._check_running()
            yield response

    def stop(self) -> None:
        """End the requests of all threads, and send no further ones."""
        self.stopped.set()
        self.hang_up()

    def _check_running(self) -> None:
        if self.stopped.is_set():
            raise AudioError("stopped")

    def _reserve(self, host: str) -> float:
        """Return the seconds until a request may be sent; none left reserves it."""
        self._check_running()
        with self._lock:
            now = time.monotonic()
            pause = self._free_at[host] - now
            if pause <= 0:
                self._free_at[host] = now + self._spacing
            return pause

    @contextmanager
    def _pauses(self, host: str) -> Iterator[None]:
        """Wait until a request may be sent; after an error, let the host rest (Retry-After)."""
        while (pause := self._reserve(host)) > 0:
            self.stopped.wait(pause)
        try:
            yield
        except HttpStatusError as error:
            seconds = retry_after(error.headers) or 0.0
            if seconds <= self.network.max_wait:
                free_at = time.monotonic() + seconds
                with self._lock:
                    self._free_at[host] = max(self._free_at[host], free_at)
            raise
