"""HTTP requests over fsspec's aiohttp session that never read more than was announced or requested.

Bodies are never decompressed; a body that is compressed although the request forbids it is refused.
"""

import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cache, wraps
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from nbaudio.core.guards import MAX_TEXT_BYTES
from nbaudio.core.progress import on_message
from nbaudio.core.version import __version__
from nbaudio.storage.network import Network
from nbaudio.storage.retry import RETRYABLE, RemoteRefusedError

Result = TypeVar("Result")

#: Sent with every request.
HEADERS: Mapping[str, str] = MappingProxyType({"Accept-Encoding": "identity", "User-Agent": f"nbaudio/{__version__}"})
_CHUNK_BYTES = 1 << 18
# Digits of a length that is not nonsense.
_MAX_DIGITS = 19


def content_length(headers: Mapping[str, str]) -> int | None:
    """Return the Content-Length of a response, if it has a valid one."""
    text = headers.get("Content-Length", "")
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def content_coding(headers: Mapping[str, str]) -> str | None:
    """Return how a body is compressed, or None."""
    coding = headers.get("Content-Encoding", "identity")
    return None if coding in ("identity", "") else coding[:40]


def options(scheme: str, network: Network) -> dict[str, Any]:
    """Return options of fsspec's filesystem for a scheme; the user's own settings of fsspec take precedence.

    URLs are not requoted, and the proxies of the environment and ~/.netrc are used.
    """
    import aiohttp
    from fsspec.config import conf

    own = {
        "trust_env": True,
        "timeout": aiohttp.ClientTimeout(total=None, sock_connect=network.timeout, sock_read=network.timeout),
        "headers": dict(HEADERS),
        "auto_decompress": False,
        "response_class": _bounded_response(),
    }
    return {"encoded": True, "client_kwargs": own | conf.get(scheme, {}).get("client_kwargs", {})}


def _synchronous(request: Callable[..., Coroutine[Any, Any, Result]]) -> Callable[..., Result]:
    """Run a request, whose first argument is a filesystem, in the event loop of that filesystem."""

    @wraps(request)
    def call(fs: Any, *arguments: Any) -> Result:
        from fsspec.asyn import sync

        result: Result = sync(fs.loop, request, fs, *arguments)
        return result

    return call


@asynccontextmanager
async def _response(fs: Any, network: Network, method: str, url: str, **headers: str) -> AsyncIterator[Any]:
    """Yield the successful response to a request, after redirects, with its body unread."""
    import asyncio

    session = await fs.set_session()
    settings = {"allow_redirects": True} | fs.kwargs | {"headers": {**fs.kwargs.get("headers", {}), **headers}}
    try:
        response = await asyncio.wait_for(session.request(method, fs.encode_url(url), **settings), network.timeout)
    except TimeoutError:
        raise ConnectionError(f"no answer in {network.timeout:g} s") from None
    async with response:
        yield response


@_synchronous
async def info(fs: Any, url: str, network: Network) -> dict[str, Any]:
    """Return what a server says of a file: `size` (or None), `mimetype`, and the headers that identify its version."""
    from aiohttp import ServerDisconnectedError

    # Some servers allow only GET.
    with suppress(ServerDisconnectedError):
        async with _response(fs, network, "HEAD", url) as response:
            status = response.status
            if status < 400 or status in RETRYABLE or (status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED):
                response.raise_for_status()
                found = _file_info(response.headers)
                if found["size"] is not None:
                    return found
    async with _response(fs, network, "GET", url) as response:
        response.raise_for_status()
        return _file_info(response.headers)


def _file_info(headers: Mapping[str, str]) -> dict[str, Any]:
    found = {"type": "file", "size": None if content_coding(headers) else content_length(headers)}
    found["mimetype"] = headers.get("Content-Type", "").partition(";")[0].strip()
    return found | {name: headers[name] for name in ("ETag", "Last-Modified") if name in headers}


@_synchronous
async def read_range(fs: Any, url: str, start: int, stop: int, network: Network) -> bytes:
    """Return the bytes [start, stop); raise RemoteRefusedError if the server serves no ranges, or another one."""
    async with _response(fs, network, "GET", url, Range=f"bytes={start}-{stop - 1}") as response:
        response.raise_for_status()
        range_ = response.headers.get("Content-Range", "")
        # A whole file is as good if all of it was requested.
        is_whole = start == 0 and response.headers.get("Content-Length") == str(stop)
        if response.status != HTTPStatus.PARTIAL_CONTENT and not is_whole:
            raise RemoteRefusedError(f"{url}: the server serves no ranges")
        if not is_whole and not range_.startswith(f"bytes {start}-"):
            raise RemoteRefusedError(f"{url}: bytes from {start:,} were asked for, {range_[:80] or 'of no range'} came")
        data: bytes = await response.read()
        return data


@_synchronous
async def download(fs: Any, url: str, file: BinaryIO, num_bytes: int, network: Network) -> None:
    """Write a body to an open file; raise RemoteRefusedError if the server sends more than `num_bytes`."""
    async with _response(fs, network, "GET", url) as response:
        response.raise_for_status()
        _check_not_compressed(response, url)
        left = num_bytes
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            on_message(urlsplit(url).netloc)
            left -= len(chunk)
            if left < 0:
                raise RemoteRefusedError(f"{url}: the server sends more than the {num_bytes:,} bytes that it announced")
            file.write(chunk)


def _check_not_compressed(response: Any, url: str) -> None:
    if coding := content_coding(response.headers):
        raise RemoteRefusedError(f"{url}: the server sends it compressed ({coding}), though asked not to")


@cache
def _bounded_response() -> type:
    """Return a response class that reads a whole body only up to the requested range, or up to the size of a page."""
    import aiohttp

    class BoundedResponse(aiohttp.ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.request_info.headers.get("Range", ""))
                most = int(asked[2]) - int(asked[1]) + 1 if asked else MAX_TEXT_BYTES
                url = str(self.request_info.url.with_query(None))
                _check_not_compressed(self, url)
                data = bytearray()
                async for chunk in self.content.iter_chunked(_CHUNK_BYTES):
                    data += chunk
                    if len(data) > most:
                        self.close()
                        raise RemoteRefusedError(f"{url}: the server sends more than the {most:,} bytes that were asked for")
                self._body = bytes(data)
            return self._body

    return BoundedResponse
