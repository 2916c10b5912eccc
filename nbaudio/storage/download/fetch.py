"""One request of one file: what the server says, what of it is kept, and when a file is whole.

Conventions: bytes go to `.name.partial` beside the final name, which they get when length and checksum are right. A part is
continued only where the server confirms by its validator (ETag or date) that the file is the same, or where a checksum will
prove it; in every other case the file is begun anew. Bytes are kept as they are sent, never decompressed.
"""

import hashlib
import os
import re
import shutil
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urljoin, urlsplit

import urllib3

from nbaudio.core.errors import InputError
from nbaudio.core.progress import on_message
from nbaudio.core.version import __version__
from nbaudio.storage.download.ledger import Ledger, Row
from nbaudio.storage.download.lists import DownloadItem, check_url, display_url
from nbaudio.storage.download.rate_limit import DownloadTask
from nbaudio.storage.network import MAX_UNKNOWN_LENGTH, Network
from nbaudio.storage.retry_after import retry_after
from nbaudio.storage.urls import redact_log

MOST_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_BUSY = (429, 503)
_PASSING = (408, 425, *_BUSY)
_CHUNK = 1 << 16
# Of a number of bytes that is meant.
_MOST_DIGITS = 20
# Bytes of unannounced length that are taken before the server is asked how many there are.
_FREE_BYTES = 16 << 20
_HEADERS = MappingProxyType({"Accept-Encoding": "identity", "User-Agent": f"nbaudio/{__version__}"})


class RetryableError(Exception):
    """Another turn may help: `pause` is what the server asks for in seconds, `busy` says that its host needs the rest."""

    def __init__(self, reason: str, *, pause: float | None = None, busy: bool = False) -> None:
        super().__init__(reason)
        self.pause = pause
        self.busy = busy


class PermanentError(Exception):
    """No further turn of this run will help."""


class HttpClient:
    """Connections, through the proxies that the environment names.

    Args:
        connections: that are kept open to a host.
        timeout: seconds without a byte.

    Raises:
        InputError: a proxy of the environment cannot be used.
    """

    def __init__(self, *, connections: int, timeout: float) -> None:
        limit = urllib3.Timeout(connect=timeout, read=timeout)
        self._direct = urllib3.PoolManager(maxsize=connections, timeout=limit)
        self._proxies: dict[str, urllib3.PoolManager] = {}
        self._open: set[urllib3.BaseHTTPResponse] = set()
        for scheme, proxy in urllib.request.getproxies().items():
            if scheme in ("http", "https"):
                try:
                    self._proxies[scheme] = urllib3.ProxyManager(proxy, maxsize=connections, timeout=limit)
                except (ValueError, urllib3.exceptions.HTTPError) as error:
                    raise InputError(f"{scheme}_proxy of the environment cannot be used: {redact_log(str(error))}") from None

    @contextmanager
    def get(self, url: str, headers: Mapping[str, str], method: str = "GET") -> Iterator[urllib3.BaseHTTPResponse]:
        """The answer to one request, its body unread."""
        parts = urlsplit(url)
        bypass = urllib.request.proxy_bypass(parts.hostname or "")
        pool = self._direct if bypass else self._proxies.get(parts.scheme, self._direct)
        answer = pool.request(method, url, headers=headers, preload_content=False, redirect=False, retries=False)
        self._open.add(answer)
        try:
            yield answer
        finally:
            self._open.discard(answer)
            answer.close()

    def hang_up(self) -> None:
        """End whatever other threads are reading, so that nobody waits for a server that says nothing."""
        for answer in list(self._open):
            with suppress(OSError, RuntimeError, ValueError):  # it ended by itself meanwhile
                answer.shutdown()

    def close(self) -> None:
        """Let all connections go."""
        for pool in (self._direct, *self._proxies.values()):
            pool.clear()


def partial_path(folder: Path, wanted: DownloadItem) -> Path:
    """Where the bytes of a file go until it is whole."""
    return folder / f".{wanted.name}.partial"


@dataclass(frozen=True)
class Fetcher:
    """Takes turns for the files of one folder.

    Attributes:
        folder: where they go.
        ledger: of the folder.
        web: connections.
        network: limits.
        expect: told the task and how many bytes are to come.
        advance: told the task and how many came; may raise to stop.
    """

    folder: Path
    ledger: Ledger
    web: HttpClient
    network: Network
    expect: Callable[[DownloadTask, int], None]
    advance: Callable[[DownloadTask, int], None]

    def have(self, wanted: DownloadItem) -> int:
        """Bytes of its part."""
        try:
            return partial_path(self.folder, wanted).stat().st_size
        except FileNotFoundError:
            return 0

    def turn(self, task: DownloadTask) -> Row | None:
        """One request.

        Returns:
            The row of the file when it is whole and in place; None when the task was sent to another address.

        Raises:
            Again: another turn may help.
            Never: this address is of no use.
        """
        wanted = task.wanted
        row = self.ledger.part(wanted.url, wanted.name)
        have = self.have(wanted) if row and (row.validator or wanted.checksum) else 0
        if row and have and have == row.bytes:
            return self._publish(wanted, row, joined=True)
        headers = dict(_HEADERS)
        if row and have:
            headers["Range"] = f"bytes={have}-"
            if row.validator:
                headers["If-Range"] = row.validator
        try:
            with self.web.get(task.address, headers) as answer:
                return self._read(task, answer, row, have)
        except (urllib3.exceptions.LocationParseError, urllib3.exceptions.LocationValueError):
            raise PermanentError(f"{display_url(task.address)}: no usable address") from None
        except urllib3.exceptions.HTTPError as error:
            raise RetryableError(_plainly(error)) from None

    def _read(self, task: DownloadTask, answer: urllib3.BaseHTTPResponse, row: Row | None, have: int) -> Row | None:
        status = answer.status
        if status in _REDIRECTS:
            _redirect(task, answer)
            return None
        if status in _PASSING or status >= 500:
            raise RetryableError(f"the server says {_said(answer)}", pause=retry_after(answer.headers), busy=status in _BUSY)
        if status in (206, 416) and row and have:
            if status == 206 and _fits(answer, have, row.bytes):
                return self._body(task, answer, replace(row, state="begun", reason=None), "ab")
            partial_path(self.folder, task.wanted).unlink(missing_ok=True)
            raise RetryableError("what the server has no longer fits the part that was there; begun anew")
        if status != 200:
            raise PermanentError(f"the server says {_said(answer)}")
        coding = answer.headers.get("Content-Encoding", "identity")
        if coding != "identity" and not task.wanted.name.lower().endswith((".gz", ".tgz")):
            raise PermanentError(f"the server sends it compressed ({coding}), though asked not to")
        if _is_page(answer, task.wanted):
            raise PermanentError(
                "the server sends a web page in its place; open the address in a browser, and give a checksum if it is right"
            )
        length = answer.headers.get("Content-Length", "")
        chunked = "chunked" in answer.headers.get("Transfer-Encoding", "")
        announced = int(length) if length.isdecimal() and len(length) < _MOST_DIGITS and not chunked else None
        if announced is None and not (chunked or task.wanted.checksum):
            raise PermanentError(
                "the server does not say how long it is, so that a broken connection would look whole; give a checksum"
            )
        if announced is not None:
            self._check_size(announced)
        before = self.ledger.row(task.wanted.url, task.wanted.name)
        begun = Row.of(
            task.wanted.url,
            task.wanted.name,
            "begun",
            sha256=before.sha256 if before else None,
            bytes=announced,
            checksum=task.wanted.checksum,
            validator=_validator(answer),
        )
        return self._body(task, answer, begun, "wb")

    def _check_size(self, announced: int) -> None:
        try:
            self.network.check_size("it", announced)
        except InputError as error:
            raise PermanentError(str(error)) from error
        free = shutil.disk_usage(self.folder).free
        if announced > free:
            raise PermanentError(f"no space for its {announced:,} bytes, {free:,} are free on the disk")

    def _most(self, task: DownloadTask) -> int:
        """Bytes that a body may have whose length is not announced: those that the header alone tells, or the limit."""
        with suppress(urllib3.exceptions.HTTPError), self.web.get(task.address, _HEADERS, method="HEAD") as head:
            length = head.headers.get("Content-Length", "")
            if head.status == HTTPStatus.OK and length.isdecimal() and len(length) < _MOST_DIGITS:
                return int(length)
        return self.network.max_size or MAX_UNKNOWN_LENGTH

    def _body(self, task: DownloadTask, answer: urllib3.BaseHTTPResponse, begun: Row, mode: Literal["ab", "wb"]) -> Row:
        most, is_over = begun.bytes, False
        with partial_path(self.folder, task.wanted).open(mode) as file:
            # Emptied first, told after: a kill in between leaves an empty part, never one of another version.
            self.ledger.add(begun)
            self.expect(task, max((begun.bytes or 0) - file.tell(), 0))
            for chunk in answer.stream(_CHUNK, decode_content=False):
                on_message(task.host)
                have = file.tell() + len(chunk)
                if most is None and have > _FREE_BYTES:
                    most = self._most(task)
                if is_over := most is not None and have > most:
                    break
                file.write(chunk)
                self.advance(task, len(chunk))
            have = file.tell()
        if is_over:
            partial_path(self.folder, task.wanted).unlink()
            if mode == "ab":
                raise RetryableError("the server sends more than the part lacks; begun anew")
            what = (
                "that it announced"
                if begun.bytes is not None
                else "of a file of unannounced length that are fetched (--max-size)"
            )
            raise PermanentError(f"the server sends more than the {most:,} bytes {what}; removed")
        if begun.bytes is not None and have < begun.bytes:
            raise RetryableError(f"the server sent {have:,} of {begun.bytes:,} bytes")
        return self._publish(task.wanted, begun, joined=mode == "ab")

    def _publish(self, wanted: DownloadItem, begun: Row, *, joined: bool) -> Row:
        partial = partial_path(self.folder, wanted)
        sha256, right = digest(partial, wanted.checksum)
        if wanted.checksum and right != wanted.checksum:
            partial.unlink()
            if joined:
                raise RetryableError(f"the joined parts have {right}, not {wanted.checksum}; begun anew")
            raise PermanentError(f"it has {right}, not {wanted.checksum}; removed")
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        done = replace(begun, state="done", bytes=partial.stat().st_size, sha256=sha256, checksum=wanted.checksum, reason=None)
        # Told first: killed in between, the next run finds the part whole and only moves it.
        self.ledger.add(done)
        partial.replace(self.folder / wanted.name)
        return done


def is_downloaded(folder: Path, ledger: Ledger, wanted: DownloadItem) -> Row | str | None:
    """Whether a file is there already, by its hash.

    Returns:
        Its row when it is, a reason when its name is taken by something else, None when it is to be fetched.
    """
    row, final, partial = ledger.row(wanted.url, wanted.name), folder / wanted.name, partial_path(folder, wanted)
    if row and row.sha256:
        # A kill may have come between the row and the move.
        for path in (final, partial):
            if path.is_file() and path.stat().st_size == row.bytes:
                sha256, right = digest(path, wanted.checksum)
                if sha256 == row.sha256 and right == wanted.checksum:
                    path.replace(final)
                    return replace(row, state="done", checksum=wanted.checksum, reason=None)
        return None
    if final.is_file() and wanted.checksum:
        sha256, right = digest(final, wanted.checksum)
        if right == wanted.checksum:
            size = final.stat().st_size
            return Row.of(wanted.url, wanted.name, "done", bytes=size, sha256=sha256, checksum=wanted.checksum)
    if final.is_symlink() or final.exists():
        return "something else has its name, and nothing is overwritten; move it away, or give another name"
    return None


def digest(path: Path, checksum: str | None) -> tuple[str, str | None]:
    """SHA-256 of a file as hex, and its checksum in the algorithm of another one, from one reading."""
    algorithm = checksum.partition(":")[0] if checksum else "sha256"
    sha256 = hashlib.sha256()
    other = sha256 if algorithm == "sha256" else hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            sha256.update(chunk)
            if other is not sha256:
                other.update(chunk)
    return sha256.hexdigest(), f"{algorithm}:{other.hexdigest()}" if checksum else None


def _redirect(task: DownloadTask, answer: urllib3.BaseHTTPResponse) -> None:
    task.redirects += 1
    if task.redirects > MOST_REDIRECTS:
        raise PermanentError(
            f"more than {MOST_REDIRECTS} redirects, the last to {display_url(answer.headers.get('Location', ''))}"
        )
    try:
        target = check_url(urljoin(task.address, answer.headers.get("Location", "")))
    except (InputError, ValueError) as error:
        raise PermanentError(f"redirected to a place that is not allowed: {error}") from error
    task.passed.add(task.address)
    if target in task.passed:
        raise PermanentError(f"redirects go in a circle: {display_url(target)} twice")
    task.address = target


def _fits(answer: urllib3.BaseHTTPResponse, have: int, total: int | None) -> bool:
    """Whether a partial answer begins where the part ends, in a file of the same length."""
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", "").strip())
    return found is not None and int(found[1]) == have and (total is None or found[2] in ("*", str(total)))


def _is_page(answer: urllib3.BaseHTTPResponse, wanted: DownloadItem) -> bool:
    """Whether a login or an apology comes instead of the file."""
    suffix = Path(wanted.name).suffix.lower()
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind == "text/html" and suffix not in ("", ".htm", ".html") and not wanted.checksum


def _validator(answer: urllib3.BaseHTTPResponse) -> str | None:
    """What If-Range takes: a strong ETag, else the date of the last change."""
    etag = answer.headers.get("ETag", "")
    return etag if etag.startswith('"') else answer.headers.get("Last-Modified")


def _said(answer: urllib3.BaseHTTPResponse) -> str:
    return f"{answer.status} {answer.reason or ''}".strip()


def _plainly(error: urllib3.exceptions.HTTPError) -> str:
    """A failed connection in one line without the addresses of objects."""
    cause: BaseException = error
    while isinstance(inner := next((one for one in reversed(cause.args) if isinstance(one, BaseException)), None), BaseException):
        cause = inner
    text = re.sub(r"<[^>]*>:? ?|\w+\(host=.*?\): ?", "", str(cause)) or type(cause).__name__
    return f"the connection failed: {text}"
