"""Connections of urllib3 that limit the time of headers, or that lead to public addresses only.

A timeout of urllib3 is the longest time without a byte: a server that sends a byte of the header
now and then is never too slow for it. Here, the whole header has to come in twice the timeout.
"""

import io
import socket
import time
from http.client import HTTPResponse
from typing import Any, cast

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

from nbaudio.storage import private_hosts
from nbaudio.storage.network import SlowError

_HEADER_TIMEOUTS = 2  # a header may take that many timeouts


class _HeaderReader(io.RawIOBase):
    """Reader of a socket that raises SlowError if the header takes longer than its limit."""

    def __init__(self, reader: io.RawIOBase, sock: socket.socket) -> None:
        """Start the time of the header; `reader` is the one of the socket."""
        self._reader = reader
        self._sock = sock
        self._timeout = cast(float, sock.gettimeout())  # never None: `HttpClient` has a timeout
        self._limit_s = _HEADER_TIMEOUTS * self._timeout
        self._deadline: float | None = time.monotonic() + self._limit_s  # None after the header

    def end_header(self) -> None:
        """Read what follows with the timeout of the socket alone."""
        self._deadline = None
        self._sock.settimeout(self._timeout)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read available bytes into a buffer and return their number; wait for the first."""
        if self._deadline is None:
            return self._reader.readinto(buffer)
        remaining_s = self._deadline - time.monotonic()
        if remaining_s <= 0:
            raise self._late()
        if remaining_s >= self._timeout:
            return self._reader.readinto(buffer)  # the timeout of the socket comes first
        self._sock.settimeout(remaining_s)
        try:
            return self._reader.readinto(buffer)
        except TimeoutError as error:
            raise self._late() from error

    def close(self) -> None:
        """Close the reader of the socket, too."""
        self._reader.close()
        super().close()

    def _late(self) -> SlowError:
        message = f"the header of its response did not come in {self._limit_s:,.0f} s"
        return SlowError(message, self._limit_s)


class _TimedResponse(HTTPResponse):
    """A response whose header is read by `_HeaderReader`."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._header_reader = _HeaderReader(self.fp.detach(), sock)
        self.fp = io.BufferedReader(self._header_reader)

    def begin(self) -> None:
        """Read the header."""
        super().begin()
        self._header_reader.end_header()


class _TimedHTTPConnection(HTTPConnection):
    response_class: Any = _TimedResponse


class _TimedHTTPSConnection(HTTPSConnection):
    response_class: Any = _TimedResponse


class _PublicPeer:
    """Mixin of connections: raise RedirectError if the server has a private address.

    The address is that of the open connection, which no later answer of a name server changes.
    """

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
    """Let connections that a pool manager opens from now on limit the time of headers."""
    pools.pool_classes_by_scheme = {"http": _TimedHTTPPool, "https": _TimedHTTPSPool}


def refuse_private_peers(pools: PoolManager) -> None:
    """Let connections that a pool manager opens from now on fail if they lead to private addresses.

    They limit the time of headers, too.
    """
    pools.pool_classes_by_scheme = {"http": _PublicHTTPPool, "https": _PublicHTTPSPool}
