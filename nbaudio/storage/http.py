"""HTTP over urllib3, and web folders as in fsspec.

Connections are pooled, proxies are used, and bodies are bounded and never decompressed.
"""

import io
import netrc
import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote, urljoin, urlsplit

from nbaudio.core import input_guards, progress, version
from nbaudio.core.errors import InputError
from nbaudio.storage import private_hosts, range_file, urls
from nbaudio.storage.network import (
    MAX_UNKNOWN_LENGTH,
    RETRYABLE,
    ChangedError,
    Network,
    RedirectError,
    RemoteRefusedError,
    SlowError,
    convert_error,
)

if TYPE_CHECKING:
    import urllib3

MAX_REDIRECTS = 10
REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS: Mapping[str, str] = {
    "Accept-Encoding": "identity",
    "User-Agent": f"nbaudio/{version.__version__}",
}
_CHUNK_BYTES = 1 << 18
# Connections that are kept open per host: more than threads, as urllib3 warns of each one that it
# discards.
_CONNECTIONS = 80
_PROXY_VARIABLES = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    # Set in a CGI script, where urllib ignores HTTP_PROXY: a client could have sent it as a header.
    "REQUEST_METHOD",
)
# A Content-Length with more digits is nonsense.
_MAX_DIGITS = 19
#: A server that is slower for twice the timeout fails.
MIN_BYTES_PER_S = 1000
# By run and URL: the headers that came with the first part that was read of a file, and identify
# its version. With too many files all are forgotten.
_MAX_VERSIONS = 100_000
_seen_versions: dict[tuple[str, str], dict[str, str]] = {}
_versions_lock = threading.Lock()
# Archives are read in larger blocks than recordings: their members are read from start to end.
_ARCHIVE_BLOCK_BYTES = 4 << 20
# The first group is the target of a link of a page, the second a URL in its text.
_LINK = re.compile(
    r"""<a\s+(?:[^>]*?\s+)?href=["']([^"']+)|(https?://[-a-zA-Z0-9@:%_+.~#?&/=]+)""", re.IGNORECASE
)


class HttpStatusError(OSError):
    """A response with an error status; its headers may hold Retry-After."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(f"the server responded with {status}")
        self.status = status
        self.headers = headers


class HttpClient:
    """Sends requests over connections that it keeps open, through the proxies of the environment.

    It keeps at most `connections` open per host. `timeout` is the longest time without a byte, in
    seconds.
    """

    def __init__(self, *, connections: int, timeout: float) -> None:
        """Set up pools of connections for direct requests, redirects and proxies.

        Raise InputError for a proxy of the environment that cannot be used.
        """
        import urllib3

        from nbaudio.storage.timed_connections import limit_headers, refuse_private_peers

        options: dict[str, Any] = {
            "maxsize": connections,
            "timeout": urllib3.Timeout(connect=timeout, read=timeout),
        }
        self._direct = urllib3.PoolManager(**options)
        limit_headers(self._direct)
        self._redirected = urllib3.PoolManager(**options)
        refuse_private_peers(self._redirected)
        self._proxies = {
            scheme: _proxy_pools(scheme, proxy, options)
            for scheme, proxy in urllib.request.getproxies().items()
            if scheme in urls.WEB
        }
        self._open: set[urllib3.BaseHTTPResponse] = set()  # responses whose bodies are being read

    @contextmanager
    def request(
        self, method: str, url: str, *, named: str | None = None, **headers: str
    ) -> Iterator["urllib3.BaseHTTPResponse"]:
        """Yield the response to one request, redirect or not, its body unread.

        `named` is the URL that a person or a list named, where a redirect from it led to `url`.
        Raise RedirectError if `named` has a public host and `url` a private one, else
        ConnectionError or ValueError.
        """
        from urllib3.exceptions import HTTPError, LocationValueError, ProtocolError
        from urllib3.util import parse_url

        pools = self._pools(url) if named is None else self._pools_of_redirect(named, url)
        options: dict[str, Any] = {
            "headers": {**_HEADERS, **headers},
            "preload_content": False,
            "redirect": False,
            "retries": False,
        }
        try:
            connections = pools.connection_from_url(url)
            num_opened = connections.num_connections
            if pools in (self._direct, self._redirected):
                # Pools of pools would look for the same connections again.
                target = parse_url(url).request_uri
                send = partial(connections.urlopen, method, target, **options)
            else:
                send = partial(pools.request, method, url, **options)
            try:
                response = send()
            except ProtocolError:
                if connections.num_connections != num_opened:
                    raise
                # No connection was opened for the request: it went over an idle one, which the
                # server had closed.
                response = send()
            self._open.add(response)
            try:
                yield response
            finally:
                self._open.discard(response)
                response.close()
        except LocationValueError:
            raise ValueError("no usable address") from None
        except HTTPError as error:
            raise _connection_error(error) from None

    @contextmanager
    def follow(
        self,
        method: str,
        url: str,
        headers: Callable[[str], Mapping[str, str]],
    ) -> Iterator["urllib3.BaseHTTPResponse"]:
        """Yield the response after redirects, its body unread.

        `headers` returns the headers of the request for a URL. Raise RedirectError for too many
        redirects, a loop, or a redirect to a URL that is not allowed.
        """
        address = url
        named: str | None = None
        passed = set[str]()
        while True:
            with self.request(method, address, named=named, **headers(address)) as response:
                if response.status not in REDIRECTS:
                    yield response
                    return
                passed.add(address)
                address = _redirect_target(address, response.headers.get("Location", ""), passed)
                named = url

    def connect(self, url: str, number: int) -> None:
        """Open connections for later requests, except through a proxy.

        Errors are ignored, as those requests raise them.
        """
        pools = self._pools(url)
        if pools is not self._direct:
            return
        with suppress(Exception), ThreadPoolExecutor(number) as threads:
            pool = pools.connection_from_url(url)
            # urllib3 has no public method that opens connections without a request.
            connections = [pool._get_conn() for _ in range(number)]
            list(threads.map(_connect_if_closed, connections))
            for connection in connections:
                pool._put_conn(connection)

    def _pools(self, url: str) -> "urllib3.PoolManager":
        """Return the pools of the proxy for a URL, or the direct ones if it has none."""
        parts = urlsplit(url)
        if not self._proxies or _bypasses_proxy(parts.hostname or "", _proxy_environment()):
            return self._direct
        return self._proxies.get(parts.scheme, self._direct)

    def _pools_of_redirect(self, named: str, url: str) -> "urllib3.PoolManager":
        """Return the pools for a URL to which a named one has redirected.

        Raise RedirectError if it leads from a public host to a private one. Where a proxy resolves
        names, only addresses and localhost are recognized as private.
        """
        pools = self._pools(url)
        is_direct = pools is self._direct
        is_named_directly = self._pools(named) is self._direct
        if private_hosts.is_private_url(named, resolves=is_named_directly):
            return pools  # who named a private host may be led to another one
        private_hosts.check_redirect(url, resolves=is_direct)
        # The name may have another address by the time of the connection, so that its pools check
        # the address, too.
        if is_direct:
            return self._redirected
        return pools

    def hang_up(self) -> None:
        """End all reads of other threads, so that no thread waits for a silent server."""
        for response in list(self._open):
            with suppress(OSError, RuntimeError, ValueError):  # the response has ended meanwhile
                response.shutdown()

    def close(self) -> None:
        """Close all connections."""
        for pool in (self._direct, self._redirected, *self._proxies.values()):
            pool.clear()


def _proxy_pools(scheme: str, proxy: str, options: Mapping[str, Any]) -> "urllib3.PoolManager":
    """Return pools of connections to the proxy of the environment for a scheme.

    Raise InputError if it cannot be used.
    """
    import urllib3

    from nbaudio.storage.timed_connections import limit_headers

    try:
        user = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else None
        pools = urllib3.ProxyManager(proxy, proxy_headers=headers, **options)
    except (ValueError, urllib3.exceptions.HTTPError) as error:
        raise InputError(
            f"{scheme}_proxy of the environment cannot be used: {urls.redact_log(str(error))}"
        ) from None
    limit_headers(pools)
    return pools


def _connect_if_closed(connection: Any) -> None:
    if connection.is_closed:
        connection.connect()


def _redirect_target(address: str, location: str, passed: Collection[str]) -> str:
    """Return the URL of a redirect; raise RedirectError for one that is not allowed."""
    if len(passed) > MAX_REDIRECTS:
        raise RedirectError(
            f"more than {MAX_REDIRECTS} redirects, the last to {urls.display_url(location)}"
        )
    try:
        target = urls.check_web_url(urljoin(address, location))
    except (InputError, ValueError) as error:
        raise RedirectError(f"redirected to a URL that is not allowed: {error}") from None
    if target in passed:
        raise RedirectError(f"a redirect loop: {urls.display_url(target)} twice")
    return target


def _connection_error(error: BaseException) -> ConnectionError:
    """Return an error of urllib3 as one of Python's, with the message of its cause."""
    cause = _innermost(error)
    if isinstance(cause, SlowError | RedirectError):
        return cause
    # IncompleteRead of urllib3 has these attributes.
    num_received = getattr(cause, "partial", None)
    num_missing = getattr(cause, "expected", None)
    if isinstance(num_received, int) and isinstance(num_missing, int):
        return ConnectionError(f"{num_received:,} of {num_received + num_missing:,} bytes came")
    # Without the memory addresses, and the pools or connections that urllib3 names.
    message = re.sub(r"<[^>]*>:? ?|\w+\(host=.*?\): ?", "", str(cause)) or type(cause).__name__
    if isinstance(cause, ConnectionResetError):
        return ConnectionResetError(message)
    return ConnectionError(message)


def _innermost(error: BaseException) -> BaseException:
    """Return the error that urllib3 has wrapped, however often: the last argument that is one."""
    while wrapped := [inner for inner in error.args if isinstance(inner, BaseException)]:
        error = wrapped[-1]
    return error


def is_chunked(headers: Mapping[str, str]) -> bool:
    """Return whether a body comes in chunks, of which the last marks its end."""
    return "chunked" in headers.get("Transfer-Encoding", "").lower()


def content_length(headers: Mapping[str, str]) -> int | None:
    """Return the Content-Length of a response, if it has a valid one and it counts.

    It does not count for a body in chunks (RFC 9112, 6.3).
    """
    if is_chunked(headers):
        return None
    text = headers.get("Content-Length", "")
    if text.isdecimal() and len(text) <= _MAX_DIGITS:
        return int(text)
    return None


def content_coding(headers: Mapping[str, str], name: str) -> str | None:
    """Return how the body of a file of this name or URL is compressed for the transfer, or None.

    It is None for .gz and .tgz: some servers announce a coding for these, but mean the file itself.
    """
    coding = headers.get("Content-Encoding", "identity").strip().lower()
    if coding in ("identity", "") or name.lower().endswith((".gz", ".tgz")):
        return None
    return coding[:40]


def body_pieces(response: "urllib3.BaseHTTPResponse", size: int, timeout: float) -> Iterator[bytes]:
    """Yield a body in pieces of at least `size` bytes but for the last, not unpacked.

    All bytes that came before an error are yielded before it is raised. Raise `SlowError` if fewer
    than `MIN_BYTES_PER_S` come over twice the `timeout`.
    """
    pace = _Pace(2 * timeout)
    pending = bytearray()
    try:
        while piece := response.read1(size, decode_content=False):
            pending += piece
            pace.count(len(piece))
            if len(pending) >= size:
                yield bytes(pending)
                pending.clear()
    except Exception:
        if pending:
            yield bytes(pending)
        raise
    if pending:
        yield bytes(pending)


class _Pace:
    """Counts the bytes that come, in one span of so many seconds after another."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._began = time.monotonic()
        self._num_bytes = 0

    def count(self, num_bytes: int) -> None:
        """Count bytes that came; raise SlowError at the end of a span with too few."""
        self._num_bytes += num_bytes
        seconds = time.monotonic() - self._began
        if seconds < self._span_s:
            return
        if self._num_bytes < MIN_BYTES_PER_S * seconds:
            reason = f"only {self._num_bytes:,} bytes came in {seconds:,.0f} s"
            raise SlowError(reason, seconds)
        self._began += seconds
        self._num_bytes = 0


def _proxy_environment() -> tuple[str | None, ...]:
    """Return the values of the environment variables about proxies.

    They are the key of what is cached about the environment, which may change while the program
    runs.
    """
    return tuple(map(os.environ.get, _PROXY_VARIABLES))


@cache
def _bypasses_proxy(host: str, _proxy_environment: tuple[str | None, ...]) -> bool:
    """Return whether a host is reached without a proxy.

    It is cached because urllib looks through the whole environment, which takes longer than a
    request.
    """
    return bool(urllib.request.proxy_bypass(host))


def _client(timeout: float) -> HttpClient:
    """Return the client of all threads for a timeout and the environment as it is now."""
    key = (timeout, *_proxy_environment())
    client = _clients.get(key)
    if client is None:
        # Another thread may have stored one meanwhile, which then is the client of both.
        new_client = HttpClient(connections=_CONNECTIONS, timeout=timeout)
        client = _clients.setdefault(key, new_client)
    return client


_clients: dict[Any, HttpClient] = {}
# A forked process must not use the connections of its parent.
os.register_at_fork(after_in_child=_clients.clear)


def _authorization(url: str) -> dict[str, str]:
    """Return the header with the credentials of a host.

    They are in ~/.netrc, or in the file that NETRC names.
    """
    with suppress(OSError, netrc.NetrcParseError, RuntimeError):  # a user without a home
        path = _netrc_path(os.environ.get("NETRC"), os.environ.get("HOME"))
        status = path.stat()
        entries = _netrc_entries(path, status.st_mtime_ns, status.st_size)
        if credentials := entries.authenticators(urlsplit(url).hostname or ""):
            import urllib3

            return urllib3.make_headers(basic_auth=f"{credentials[0]}:{credentials[2]}")
    return {}


@lru_cache(maxsize=1)
def _netrc_path(named: str | None, _home: str | None) -> Path:
    """Return the path of the netrc file; the home folder depends on the environment."""
    return Path(named or Path.home() / ".netrc")


@lru_cache(maxsize=1)
def _netrc_entries(path: Path, _modified_ns: int, _num_bytes: int) -> netrc.netrc:
    """Return the content of a netrc file, which is parsed again when it changes."""
    return netrc.netrc(path)


@dataclass(frozen=True)
class HttpFiles:
    """Files and folders of web servers.

    It has the methods of an fsspec filesystem that `Remote` calls.
    """

    network: Network

    def info(self, url: str) -> dict[str, Any]:
        """Return what a server reports about a file.

        It has `size` (or None), `coding` if the body is compressed, `mimetype`, and the headers
        that identify its version. A body in chunks is read to count its bytes.
        """
        announced = self._info_from_head(url)
        if announced is not None and announced["size"] is not None:
            return announced
        with self._request("GET", url) as response:
            file_facts = _file_info(response.headers, url)
            if is_chunked(response.headers) and file_facts["coding"] is None:
                file_facts["size"] = self._count_bytes(response, url)
            return file_facts

    def _info_from_head(self, url: str) -> dict[str, Any] | None:
        """Return what a server reports about a file without its body; None if it refuses to."""
        try:
            # Some servers reset the connection where they do not know HEAD.
            with suppress(ConnectionResetError), self._request("HEAD", url) as response:
                file_facts = _file_info(response.headers, url)
                response.drain_conn()
                return file_facts
        except HttpStatusError as error:
            is_server_error = error.status >= 500 and error.status != HTTPStatus.NOT_IMPLEMENTED
            if error.status in RETRYABLE or is_server_error:
                raise
            # With any other status, the server may still allow GET.
        return None

    def _count_bytes(self, response: "urllib3.BaseHTTPResponse", url: str) -> int:
        """Return the length of a body in chunks, which must be complete."""
        most = self.network.max_size or MAX_UNKNOWN_LENGTH
        which = "of a file of unannounced length that are fetched (--max-size)"
        return sum(map(len, self._chunks(response, url, most, which=which)))

    def cat_file(self, url: str, *, start: int, end: int) -> bytes:
        """Return the bytes [start, end).

        Raise RemoteRefusedError if the server does not support ranges, or sends another one.
        """
        with self._request("GET", url, Range=f"bytes={start}-{end - 1}") as response:
            content_range = response.headers.get("Content-Range", "")
            # A server without ranges sends the whole file, which is right if all was requested.
            is_whole = start == 0 and content_length(response.headers) == end
            if response.status != HTTPStatus.PARTIAL_CONTENT and not is_whole:
                raise RemoteRefusedError(f"{url}: the server does not support range requests")
            if not is_whole and not content_range.startswith(f"bytes {start}-"):
                raise RemoteRefusedError(
                    f"{url}: bytes from {start:,} were requested, "
                    f"{content_range[:80] or 'no range'} was received"
                )
            self._check_version(url, response.headers)
            return self._body(response, url, end - start, which="that were requested")

    def forget_version(self, url: str) -> None:
        """Let the next part of a file be of any version, as no other part is read with it."""
        with _versions_lock:
            _seen_versions.pop((self.network.run, url), None)

    def connect(self, url: str, number: int) -> None:
        """Open connections for later requests."""
        _client(self.network.timeout).connect(url, number)

    def cat_whole(self, url: str, most: int) -> bytes | None:
        """Return a whole file; None where it has more than `most` bytes.

        Raise RemoteRefusedError where no length is announced and no end is marked.
        """
        with self._request("GET", url) as response:
            size = _file_info(response.headers, url)["size"]
            if size is None and is_chunked(response.headers):
                return self._chunks_up_to(response, url, most)
            if size is None:
                raise RemoteRefusedError(f"{url}: {range_file.NO_LENGTH}")
            if size > most:
                return None
            return self._body(response, url, size, which="that it announced")

    def _chunks_up_to(
        self, response: "urllib3.BaseHTTPResponse", url: str, most: int
    ) -> bytes | None:
        """Return a body in chunks; None if it has more than `most` bytes."""
        body = bytearray()
        for chunk in self._chunks(response, url, MAX_UNKNOWN_LENGTH, which="that are fetched"):
            body += chunk
            if len(body) > most:
                return None
        return bytes(body)

    def get_file(self, url: str, path: str, *, num_bytes: int) -> None:
        """Write a file to a local path.

        Raise RemoteRefusedError if the server sends more than `num_bytes`.
        """
        with self._request("GET", url) as response, Path(path).open("wb") as file:
            # The whole file may be of a new version; parts that are read later must be of it, too.
            self.forget_version(url)
            self._check_version(url, response.headers)
            for chunk in self._chunks(response, url, num_bytes, which="that it announced"):
                progress.on_message(urlsplit(url).netloc)
                file.write(chunk)

    def ls(self, url: str) -> list[str]:
        """Return the URLs that the page of a folder links to below it."""
        top = f"{url.rstrip('/')}/"
        with self._request("GET", url) as response:
            page = b""
            if _mimetype(response.headers) in ("text/html", ""):
                page = self._body(
                    response, url, input_guards.MAX_TEXT_BYTES, which="that were requested"
                )
        linked_urls = {
            urljoin(top, link or text)
            for link, text in _LINK.findall(page.decode("utf8", "ignore"))
        }
        return sorted(address for address in linked_urls if address.startswith(top))

    def open(self, url: str) -> BinaryIO:
        """Open a file that reads ranges, for archives."""

        def read(start: int, stop: int) -> bytes:
            # An AudioError would look like the end of the archive
            with convert_error(RemoteRefusedError, ValueError):
                return self.cat_file(url, start=start, end=stop)

        size = self.info(url)["size"]
        if size is None:
            raise ValueError("the server does not announce its length")
        return io.BufferedReader(
            range_file.RangeFile(read, lambda: None, size, _ARCHIVE_BLOCK_BYTES)
        )

    @contextmanager
    def _request(
        self, method: str, url: str, **headers: str
    ) -> Iterator["urllib3.BaseHTTPResponse"]:
        """Yield the response after redirects, with its body unread.

        Raise HttpStatusError for an error status.
        """

        def headers_for(address: str) -> dict[str, str]:
            return {**_authorization(address), **headers}

        with _client(self.network.timeout).follow(method, url, headers_for) as response:
            if response.status >= 400:
                raise HttpStatusError(response.status, response.headers)
            yield response

    def _body(
        self, response: "urllib3.BaseHTTPResponse", url: str, most: int, *, which: str
    ) -> bytes:
        """Return a body of at most `most` bytes; see `_chunks` for `which` and errors."""
        return b"".join(self._chunks(response, url, most, which=which))

    def _chunks(
        self, response: "urllib3.BaseHTTPResponse", url: str, most: int, *, which: str
    ) -> Iterator[bytes]:
        """Yield the chunks of a body.

        Raise RemoteRefusedError if it is compressed, or has more than `most` bytes. `which` says in
        the message which bytes these are, such as ``that were requested``.
        """
        if coding := content_coding(response.headers, url):
            raise RemoteRefusedError(f"{url}: {compressed_message(coding)}")
        left = most
        for chunk in body_pieces(response, _CHUNK_BYTES, self.network.timeout):
            left -= len(chunk)
            if left < 0:
                raise RemoteRefusedError(
                    f"{url}: the server sends more than the {most:,} bytes {which}"
                )
            yield chunk

    def _check_version(self, url: str, headers: Mapping[str, str]) -> None:
        """Raise ChangedError if another part of the file, read in this run, had another version."""
        version = _version_headers(headers)
        with _versions_lock:
            if len(_seen_versions) > _MAX_VERSIONS:
                _seen_versions.clear()
            seen_version = _seen_versions.setdefault((self.network.run, url), version)
        if is_other_version(seen_version, version):
            raise ChangedError(f"{url}: the file changed while it was read")


def _version_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a response that identify the version of a file."""
    return {name: headers[name] for name in ("ETag", "Last-Modified") if headers.get(name)}


def is_other_version(version: Mapping[str, str], headers: Mapping[str, str]) -> bool:
    """Return whether the headers of a response differ from those of an earlier version of a file.

    A header that the response does not have is no difference.
    """
    return any(headers.get(name, value) != value for name, value in version.items())


def compressed_message(coding: str) -> str:
    """Return the reason for which a compressed body is refused."""
    return f"the server sends it compressed ({coding}), which was not requested"


def _mimetype(headers: Mapping[str, str]) -> str:
    return headers.get("Content-Type", "").partition(";")[0].strip()


def _file_info(headers: Mapping[str, str], url: str) -> dict[str, Any]:
    """Return what the headers of a response say about a file; see `HttpFiles.info`."""
    coding = content_coding(headers, url)
    size = None if coding else content_length(headers)
    facts = {"type": "file", "size": size, "coding": coding, "mimetype": _mimetype(headers)}
    return facts | _version_headers(headers)
