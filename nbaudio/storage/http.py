"""Bounded HTTP requests over fsspec's aiohttp session: never read more than was announced or requested.

Conventions: bodies are taken as they are sent, never decompressed; what is sent compressed, though asked not to, is refused.
"""

import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import cache
from http import HTTPStatus
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from nbaudio.core.guards import MAX_TEXT_BYTES
from nbaudio.core.progress import on_message
from nbaudio.core.version import __version__
from nbaudio.storage.network import Network
from nbaudio.storage.retry import RemoteRefusedError

Result = TypeVar("Result")

_CHUNK_BYTES = 1 << 18
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


def options(scheme: str, network: Network) -> dict[str, Any]:
    """Of fsspec's filesystem for a scheme: bytes as they are, names as they are written, proxies and ~/.netrc of the user.

    fsspec's own settings go first.
    """
    import aiohttp
    from fsspec.config import conf

    own = {
        "trust_env": True,
        "timeout": aiohttp.ClientTimeout(total=None, sock_connect=network.timeout, sock_read=network.timeout),
        "headers": {"Accept-Encoding": "identity", "User-Agent": f"nbaudio/{__version__}"},
        "auto_decompress": False,
        "response_class": _bounded(),
    }
    return {"encoded": True, "client_kwargs": own | conf.get(scheme, {}).get("client_kwargs", {})}


def info(fs: Any, url: str, network: Network) -> dict[str, Any]:
    """What a server tells of a file: `size` (None where it does not say), `mimetype`, and its headers that name its version."""
    return _run(fs, _info(fs, url, network))


def read_range(fs: Any, url: str, start: int, stop: int, network: Network) -> bytes:
    """The bytes [start, stop).

    Raises:
        RefusedError: the server serves no ranges, or others than are asked for.
    """
    return _run(fs, _read_range(fs, url, start, stop, network))


def download(fs: Any, url: str, file: BinaryIO, num_bytes: int, network: Network) -> None:
    """Write a file of so many bytes to an open one.

    Raises:
        RefusedError: the server sends more.
    """
    _run(fs, _download(fs, url, file, num_bytes, network))


def _run(fs: Any, request: Coroutine[Any, Any, Result]) -> Result:
    from fsspec.asyn import sync

    result: Result = sync(fs.loop, lambda: request)
    return result


@asynccontextmanager
async def _answer(fs: Any, network: Network, method: str, url: str, **headers: str) -> AsyncIterator[Any]:
    """The answer to a request, after redirects; its body unread."""
    import asyncio

    session = await fs.set_session()
    settings = {"allow_redirects": True} | fs.kwargs | {"headers": {**fs.kwargs.get("headers", {}), **headers}}
    try:
        answer = await asyncio.wait_for(session.request(method, fs.encode_url(url), **settings), network.timeout)
    except TimeoutError:
        raise ConnectionError(f"no answer in {network.timeout:g} s") from None
    async with answer:
        yield answer


async def _info(fs: Any, url: str, network: Network) -> dict[str, Any]:
    from aiohttp import ServerDisconnectedError

    # Some servers allow GET alone.
    with suppress(ServerDisconnectedError):
        async with _answer(fs, network, "HEAD", url) as answer:
            status = answer.status
            if status < 400 or status in _BUSY or (status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED):
                answer.raise_for_status()
                found = _told(answer)
                if found["size"] is not None:
                    return found
    async with _answer(fs, network, "GET", url) as answer:
        answer.raise_for_status()
        return _told(answer)


def _told(answer: Any) -> dict[str, Any]:
    headers = answer.headers
    length = headers.get("Content-Length", "") if headers.get("Content-Encoding", "identity") in ("identity", "") else ""
    found = {"type": "file", "size": int(length) if length.isdecimal() else None}
    found["mimetype"] = headers.get("Content-Type", "").partition(";")[0].strip()
    return found | {name: headers[name] for name in ("ETag", "Last-Modified") if name in headers}


async def _read_range(fs: Any, url: str, start: int, stop: int, network: Network) -> bytes:
    async with _answer(fs, network, "GET", url, Range=f"bytes={start}-{stop - 1}") as answer:
        answer.raise_for_status()
        told = answer.headers.get("Content-Range", "")
        # All of a file is as good where all was asked for.
        whole = start == 0 and answer.headers.get("Content-Length") == str(stop)
        if answer.status != HTTPStatus.PARTIAL_CONTENT and not whole:
            raise RemoteRefusedError(f"{url}: the server serves no ranges")
        if not whole and not told.startswith(f"bytes {start}-"):
            raise RemoteRefusedError(f"{url}: bytes from {start:,} were asked for, {told[:80] or 'of no range'} came")
        data: bytes = await answer.read()
        return data


async def _download(fs: Any, url: str, file: BinaryIO, num_bytes: int, network: Network) -> None:
    async with _answer(fs, network, "GET", url) as answer:
        answer.raise_for_status()
        _check_plain(answer, url)
        left = num_bytes
        async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
            on_message(urlsplit(url).netloc)
            left -= len(chunk)
            if left < 0:
                raise RemoteRefusedError(f"{url}: the server sends more than the {num_bytes:,} bytes that it announced")
            file.write(chunk)


def _check_plain(answer: Any, url: str) -> None:
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding not in ("identity", ""):
        raise RemoteRefusedError(f"{url}: the server sends it compressed ({coding[:40]}), though asked not to")


@cache
def _bounded() -> type:
    """The class of answers whose body is read whole only up to what was asked for: a range, or a page."""
    import aiohttp

    class Bounded(aiohttp.ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.request_info.headers.get("Range", ""))
                most = int(asked[2]) - int(asked[1]) + 1 if asked else MAX_TEXT_BYTES
                url = str(self.request_info.url.with_query(None))
                _check_plain(self, url)
                data = bytearray()
                async for chunk in self.content.iter_chunked(_CHUNK_BYTES):
                    data += chunk
                    if len(data) > most:
                        self.close()
                        raise RemoteRefusedError(f"{url}: the server sends more than the {most:,} bytes that were asked for")
                self._body = bytes(data)
            return self._body

    return Bounded
