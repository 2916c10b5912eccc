"""Connections of urllib3 that limit the time in which the header of a response comes.

Timeouts of urllib3 count the seconds without a byte, so that a header may come for ever.
"""

import socket
import threading
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from nbaudio.storage.network import SlowError


class _TimedHeader:
    """Raises SlowError where the header takes longer than twice the timeout."""

    sock: socket.socket
    timeout: Any

    def getresponse(self) -> Any:
        """Return the response, its header read."""
        limit_s = 2 * self.timeout
        is_late = threading.Event()
        timer = threading.Timer(limit_s, self._hang_up, [is_late])
        timer.daemon = True
        timer.start()
        late = SlowError(f"the header of its response did not come in {limit_s:,.0f} s", limit_s)
        try:
            response = super().getresponse()  # type: ignore[misc]
            if is_late.is_set():  # it ended where the connection did
                response.close()
                raise late
        except (OSError, HTTPException) as error:
            if is_late.is_set():
                raise late from error
            raise
        finally:
            timer.cancel()
        return response

    def _hang_up(self, is_late: threading.Event) -> None:
        is_late.set()
        with suppress(OSError, AttributeError):  # the connection has ended meanwhile
            self.sock.shutdown(socket.SHUT_RDWR)


class _TimedHTTPConnection(_TimedHeader, HTTPConnection):
    pass


class _TimedHTTPSConnection(_TimedHeader, HTTPSConnection):
    pass


class _TimedHTTPPool(HTTPConnectionPool):
    ConnectionCls: Any = _TimedHTTPConnection


class _TimedHTTPSPool(HTTPSConnectionPool):
    ConnectionCls: Any = _TimedHTTPSConnection


def limit_headers(pools: PoolManager) -> None:
    """Let connections that a manager opens from now on limit the time of headers."""
    pools.pool_classes_by_scheme = {"http": _TimedHTTPPool, "https": _TimedHTTPSPool}
