"""Connections of urllib3 that limit the time of headers, or that lead to public addresses only.

Timeouts of urllib3 count the seconds without a byte, so that a header may come for ever.
"""

import socket
import threading
from contextlib import suppress
from http.client import HTTPException
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from nbaudio.storage import private_hosts
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


class _PublicPeer:
    """Raises RedirectError where the host has a private address."""

    def _new_conn(self) -> socket.socket:
        connection: socket.socket = super()._new_conn()  # type: ignore[misc]
        private_hosts.check_peer(connection)
        return connection


class _PublicHTTPConnection(_PublicPeer, _TimedHTTPConnection):
    pass


class _PublicHTTPSConnection(_PublicPeer, _TimedHTTPSConnection):
    pass


class _TimedHTTPPool(HTTPConnectionPool):
    ConnectionCls: Any = _TimedHTTPConnection


class _TimedHTTPSPool(HTTPSConnectionPool):
    ConnectionCls: Any = _TimedHTTPSConnection


class _PublicHTTPPool(HTTPConnectionPool):
    ConnectionCls: Any = _PublicHTTPConnection


class _PublicHTTPSPool(HTTPSConnectionPool):
    ConnectionCls: Any = _PublicHTTPSConnection


def limit_headers(pools: PoolManager) -> None:
    """Let connections that a manager opens from now on limit the time of headers."""
    pools.pool_classes_by_scheme = {"http": _TimedHTTPPool, "https": _TimedHTTPSPool}


def refuse_private_peers(pools: PoolManager) -> None:
    """Let connections that a manager opens from now on fail where they lead to private addresses.

    They limit the time of headers, too.
    """
    pools.pool_classes_by_scheme = {"http": _PublicHTTPPool, "https": _PublicHTTPSPool}
