"""One HTTP request of a download.

A partial file is continued only if its validator or a checksum proves it to be the same.
"""

import hashlib
import os
import re
import shutil
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

from urllib3 import BaseHTTPResponse

from nbaudio.core.atomic import disk_full_reason, sha256_file, size_of
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.name_matching import is_audio
from nbaudio.core.progress import on_message
from nbaudio.storage.base import NO_LENGTH
from nbaudio.storage.download.ledger import DownloadItem, Ledger, Row, check_url, display_url
from nbaudio.storage.download.rate_limit import HostLimits
from nbaudio.storage.http import (
    MAX_REDIRECTS,
    REDIRECTS,
    HttpClient,
    HttpStatusError,
    body_pieces,
    compressed_message,
    content_coding,
    content_length,
    is_chunked,
    is_other_version,
)
from nbaudio.storage.network import (
    MAX_UNKNOWN_LENGTH,
    RETRYABLE,
    Network,
    RemoteRefusedError,
    convert_error,
    retry_after,
)
from nbaudio.storage.urls import redact

_CHUNK_BYTES = 1 << 16
_PAGES = ("text/html", "application/xhtml+xml")
_PAGE_STARTS = (b"<!doctype html", b"<html")
_BLANKS = b"\xef\xbb\xbf \t\r\n"
_MESSAGES = ("application/json", "application/problem+json", "application/xml", "text/xml")
# Bytes of a body of unannounced length before its length is requested.
_UNANNOUNCED_BYTES = 16 << 20


class Transfer(NamedTuple):
    """A file that is being downloaded, as `with_retries` takes it."""

    wanted: DownloadItem
    network: Network

    @property
    def host(self) -> str:
        """The server with its port."""
        return urlsplit(self.wanted.url).netloc

    def __str__(self) -> str:
        return self.wanted.name


def partial_path(folder: Path, wanted: DownloadItem) -> Path:
    """Return the path of a file until it is complete."""
    return folder / f".{wanted.name}.partial"


class ByteProgress:
    """Progress in bytes, for threads, over files.

    A length that is not known yet counts as the mean of the known ones.
    """

    def __init__(self, bar: Any, num_files: int) -> None:
        self._bar = bar
        self._num_files = num_files
        self._lock = threading.Lock()
        self._num_known = self._num_done = 0
        self._left: dict[str, int] = {}  # bytes to come of files that have begun
        self._hosts = ""

    def expect(self, name: str, num_bytes: int) -> None:
        """Set the bytes to come of a file that begins or continues."""
        with self._lock:
            self._num_known += name not in self._left
            self._left[name] = num_bytes
            self._update_total()

    def advance(self, name: str, num_bytes: int) -> None:
        """Count bytes of a file that came."""
        with self._lock:
            self._left[name] -= num_bytes
            self._bar.update(num_bytes)

    def finish(self, name: str) -> None:
        """Count a file as finished."""
        with self._lock:
            self._left.pop(name, None)
            self._num_done += 1
            self._show(refresh=False)
            self._update_total()

    def show_waiting(self, hosts: str) -> None:
        """Name the hosts that are waited for; none if it is empty."""
        with self._lock:
            self._hosts = hosts
            self._show(refresh=True)

    def _show(self, *, refresh: bool) -> None:
        files = f"{self._num_done:,} of {self._num_files:,} files"
        self._bar.set_postfix_str(
            f"{files}, {self._hosts}" if self._hosts else files, refresh=refresh
        )

    def _update_total(self) -> None:
        known = self._bar.n + max(sum(self._left.values()), 0)
        num_unknown = self._num_files - max(self._num_known, self._num_done)
        self._bar.total = known + round(num_unknown * known / max(self._num_known, 1))


@dataclass(frozen=True)
class Fetcher:
    """Sends requests until `limits` are stopped."""

    folder: Path
    ledger: Ledger
    client: HttpClient
    network: Network
    limits: HostLimits
    bar: ByteProgress

    def fetch(self, task: Transfer) -> Row:
        """Send a request, follow its redirects, and return the row of the complete file.

        Raise AudioError or OSError.
        """
        row = self.ledger.part(task.wanted)
        have = (
            size_of(partial_path(self.folder, task.wanted))
            if row and (row.validator or task.wanted.checksum)
            else 0
        )
        if row and have and have == row.bytes:
            return self._publish(task.wanted, row, joined=True)
        headers = {"Range": f"bytes={have}-"} if have else {}
        if row and have and row.validator:
            headers["If-Range"] = row.validator
        address = task.wanted.url
        named: str | None = None
        passed = set[str]()
        try:  # noqa: PLR1702
            while True:
                with (
                    self.limits.request(urlsplit(address).netloc),
                    self.client.request("GET", address, named=named, **headers) as response,
                ):
                    if response.status not in REDIRECTS:
                        return self._handle(task, address, response, row, have)
                    passed.add(address)
                    named = task.wanted.url
                    address = _redirected(address, response.headers.get("Location", ""), passed)
        except (ConnectionError, HttpStatusError):
            raise
        except OSError as error:
            if disk_full_reason(error):
                raise
            raise AudioError(f"it cannot be written: {error.strerror}") from error

    def _handle(
        self, task: Transfer, address: str, response: BaseHTTPResponse, row: Row | None, have: int
    ) -> Row:
        status = response.status
        headers = response.headers
        if status in RETRYABLE or status >= 500:
            self.limits.rest(urlsplit(address).netloc, retry_after(headers) or 0.0)
            raise HttpStatusError(status, headers)
        if status in (206, 416) and row and have:
            if status == 206 and _is_rest(headers, row, have):
                return self._write_body(
                    task, address, response, replace(row, state="begun", reason=None), "ab"
                )
            partial_path(self.folder, task.wanted).unlink(missing_ok=True)
            raise ConnectionError(
                "the file on the server does not match the partial file; download restarted"
            )
        if status != 200:
            said = f"the server responded with {status} {response.reason or ''}".strip()
            raise RemoteRefusedError(redact(said, task.wanted.url, address))
        announced = self._check_body(task.wanted, headers)
        before = self.ledger.row(task.wanted)
        # What If-Range accepts: a strong ETag, else the date of the last change.
        validator = (
            etag
            if (etag := headers.get("ETag", "")).startswith('"')
            else headers.get("Last-Modified")
        )
        begun = Row.of(
            task.wanted,
            "begun",
            bytes=announced,
            checksum=task.wanted.checksum,
            validator=validator,
        )
        return self._write_body(
            task, address, response, replace(begun, sha256=before.sha256 if before else None), "wb"
        )

    def _check_body(self, wanted: DownloadItem, headers: Mapping[str, str]) -> int | None:
        """Return the announced length of a body.

        Raise RemoteRefusedError for a body that is not the file, too large or of no length.
        """
        name = wanted.name.lower()
        if coding := content_coding(headers, name):
            raise RemoteRefusedError(compressed_message(coding))
        kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if other := _other_content(wanted, kind):
            raise RemoteRefusedError(other)
        announced = content_length(headers)
        if announced is None and not (is_chunked(headers) or wanted.checksum):
            raise RemoteRefusedError(f"{NO_LENGTH}; give a checksum")
        if announced is not None:
            with convert_error(InputError, RemoteRefusedError):
                self.network.check_size("it", announced)
            free = shutil.disk_usage(self.folder).free
            if announced > free:
                raise RemoteRefusedError(
                    f"no space for its {announced:,} bytes, {free:,} are free on the disk"
                )
        return announced

    def _max_bytes(self, named: str, address: str) -> int:
        """Return the limit of a body of unannounced length at the address that a URL led to.

        It is the length that a HEAD request announces, or that of the network limits.
        """
        after = named if address != named else None
        with suppress(ConnectionError), self.client.request("HEAD", address, named=after) as head:
            if (
                head.status == HTTPStatus.OK
                and (length := content_length(head.headers)) is not None
            ):
                return length
        return self.network.max_size or MAX_UNKNOWN_LENGTH

    def _write_body(
        self,
        task: Transfer,
        address: str,
        response: BaseHTTPResponse,
        begun: Row,
        mode: Literal["ab", "wb"],
    ) -> Row:
        is_over = False
        most = begun.bytes
        with partial_path(self.folder, task.wanted).open(mode) as file:
            # First truncate, then write the row: a kill in between leaves an empty file, never one
            # of another version.
            self.ledger.add(begun)
            self.bar.expect(task.wanted.name, max((begun.bytes or 0) - file.tell(), 0))
            for chunk in self._pieces(task, response, is_start=mode == "wb"):
                have = file.tell() + len(chunk)
                if most is None and have > _UNANNOUNCED_BYTES:
                    most = self._max_bytes(task.wanted.url, address)
                if is_over := most is not None and have > most:
                    break
                file.write(chunk)
                self.bar.advance(task.wanted.name, len(chunk))
                if self.limits.stopped.is_set():
                    raise AudioError("stopped")
            have = file.tell()
        if is_over:
            partial_path(self.folder, task.wanted).unlink()
            if mode == "ab":
                raise ConnectionError(
                    "the server sends more bytes than are missing; download restarted"
                )
            unknown = "of a file of unannounced length that are fetched (--max-size)"
            what = unknown if begun.bytes is None else "that it announced"
            raise RemoteRefusedError(
                f"the server sends more than the {most:,} bytes {what}; removed"
            )
        if begun.bytes is not None and have < begun.bytes:
            raise ConnectionError(f"the server sent {have:,} of {begun.bytes:,} bytes")
        return self._publish(task.wanted, begun, joined=mode == "ab")

    def _pieces(
        self, task: Transfer, response: BaseHTTPResponse, *, is_start: bool
    ) -> Iterator[bytes]:
        """Yield a body in pieces; raise RemoteRefusedError if its start is not that of the file."""
        for piece in body_pieces(response, _CHUNK_BYTES, self.network.timeout):
            on_message(task.host)
            if is_start and (other := _other_content(task.wanted, "", piece)):
                partial_path(self.folder, task.wanted).unlink()
                raise RemoteRefusedError(other)
            is_start = False
            yield piece

    def _publish(self, wanted: DownloadItem, begun: Row, *, joined: bool) -> Row:
        """Verify the checksum of a complete file and move it to its final name.

        `joined` is whether the file came in parts.
        """
        partial = partial_path(self.folder, wanted)
        sha256, checksum = _hashes(partial, wanted.checksum)
        if checksum != wanted.checksum:
            partial.unlink()
            if joined:
                raise ConnectionError(
                    f"the joined parts have {checksum}, not {wanted.checksum}; download restarted"
                )
            raise RemoteRefusedError(f"it has {checksum}, not {wanted.checksum}; removed")
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        done = replace(
            begun,
            state="done",
            bytes=partial.stat().st_size,
            sha256=sha256,
            checksum=checksum,
            reason=None,
        )
        # First the row: after a kill in between, the next run finds the complete partial file and
        # only moves it.
        self.ledger.add(done)
        partial.replace(self.folder / wanted.name)
        return done


def _is_rest(headers: Mapping[str, str], row: Row, have: int) -> bool:
    """Return whether a range is the rest of a partial file of `have` bytes.

    It begins where the partial file ends, in a file of the same length and version.
    """
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", "").strip())
    if not found or int(found[1]) != have or content_coding(headers, row.name or ""):
        return False
    validator = row.validator or ""
    kind = "ETag" if validator.startswith('"') else "Last-Modified"
    is_changed = bool(validator) and is_other_version({kind: validator}, headers)
    return not is_changed and (row.bytes is None or found[2] in ("*", str(row.bytes)))


def _other_content(wanted: DownloadItem, kind: str, start: bytes = b"") -> str | None:
    """Return why a body is not the file: it is a login or an error page, or a message.

    `kind` is its media type, and `start` its first bytes. Return None if it may be the file, as one
    with a checksum always may.
    """
    if wanted.checksum:
        return None
    name = wanted.name.lower()
    is_page = kind in _PAGES or start.lstrip(_BLANKS)[:14].lower().startswith(_PAGE_STARTS)
    if is_page and Path(name).suffix not in ("", ".htm", ".html", ".xhtml"):
        return (
            "the server sends a web page instead; open the URL in a browser, "
            "and give a checksum if it is right"
        )
    if kind in _MESSAGES and is_audio(name):
        return f"the server sends {kind} instead of a recording; give a checksum if it is right"
    return None


def find_complete(folder: Path, ledger: Ledger, wanted: DownloadItem) -> Row | None:
    """Return the row of a file that is complete by its hash.

    Return a failed row if another file has its name, else None.
    """
    row = ledger.row(wanted)
    final = folder / wanted.name
    partial = partial_path(folder, wanted)
    try:  # noqa: PLR1702
        if row and row.sha256:
            # A kill may have come between the row and the move.
            for path in (final, partial):
                is_same_size = path.is_file() and path.stat().st_size == row.bytes
                if is_same_size and _hashes(path, wanted.checksum) == (row.sha256, wanted.checksum):
                    path.replace(final)
                    return replace(row, state="done", checksum=wanted.checksum, reason=None)
            return None
        if final.is_file() and wanted.checksum:
            sha256, checksum = _hashes(final, wanted.checksum)
            if checksum == wanted.checksum:
                return Row.of(
                    wanted, "done", bytes=final.stat().st_size, sha256=sha256, checksum=checksum
                )
    except OSError as error:
        return Row.of(
            wanted, "failed", reason=f"the existing file cannot be read: {error.strerror}"
        )
    if final.is_symlink() or final.exists():
        reason = (
            "another file has its name and is not overwritten; move it away, or give another name"
        )
        return Row.of(wanted, "failed", reason=reason)
    return None


def _hashes(path: Path, checksum: str | None) -> tuple[str, str | None]:
    """Return the SHA-256 of a file, and its checksum by the algorithm of `checksum`.

    The second value is None if `checksum` is None.
    """
    sha256 = sha256_file(path)
    if checksum is None or checksum.startswith("sha256:"):
        return sha256, checksum and f"sha256:{sha256}"
    with path.open("rb") as file:
        return (
            sha256,
            "md5:"
            f"{hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()}",
        )


def _redirected(address: str, location: str, passed: Collection[str]) -> str:
    """Return the URL of a redirect; raise RemoteRefusedError for one that is not allowed."""
    if len(passed) > MAX_REDIRECTS:
        raise RemoteRefusedError(
            f"more than {MAX_REDIRECTS} redirects, the last to {display_url(location)}"
        )
    try:
        target = check_url(urljoin(address, location))
    except (InputError, ValueError) as error:
        raise RemoteRefusedError(f"redirected to a URL that is not allowed: {error}") from error
    if target in passed:
        raise RemoteRefusedError(f"a redirect loop: {display_url(target)} twice")
    return target
