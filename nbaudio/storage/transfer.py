"""Fetch a file of the web to a path, with retries, and check what came.

A partial file is continued only if its validator or a checksum proves it to be the same.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import responses
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

from urllib3 import BaseHTTPResponse

from nbaudio.core.atomic import disk_full_reason, sha256_file, size_of
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.progress import on_message
from nbaudio.storage import http
from nbaudio.storage.network import (
    MAX_UNKNOWN_LENGTH,
    RETRYABLE,
    Network,
    RemoteRefusedError,
    convert_error,
    with_retries,
)
from nbaudio.storage.range_file import NO_LENGTH
from nbaudio.storage.rate_limit import LimitedClient

_CHUNK_BYTES = 1 << 16
_PAGES = ("text/html", "application/xhtml+xml")
_PAGE_START = re.compile(rb"[\xef\xbb\xbf \t\r\n]*(<!doctype html|<html)", re.IGNORECASE)
_PAGE_NAMES = ("", ".htm", ".html", ".xhtml")  # suffixes of files that may be web pages
_START_BYTES = 1000  # bytes at the start of a body in which a web page is recognized
_MESSAGES = ("application/json", "application/problem+json", "application/xml", "text/xml")
# Statuses of responses to a request of a range: it is sent, or it is not in the file.
_OF_RANGES = (HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
# Bytes of a body of unannounced length before its length is requested.
_UNANNOUNCED_BYTES = 16 << 20


@dataclass(frozen=True)
class WebFile:
    """A file of the web, with a checksum ``sha256:<hex>``, ``md5:<hex>`` or None.

    Its name has no folder; its suffix says what the file is.

    Attributes:
        is_recording: whether it is audio, for which a message such as JSON is not taken.
    """

    url: str
    name: str
    checksum: str | None = None
    is_recording: bool = False


@dataclass
class Transfer:
    """A file that is fetched to a path in one or more requests; a `network.Place`.

    Attributes:
        client: sends the requests.
        file: what is fetched.
        path: of the partial file.
        on_begin: called with the transfer when a request begins to write to the path.
        on_bytes: called with the number of bytes that were written.
        num_bytes: of the whole file of which the partial file is a part; None if unknown.
        validator: strong ETag, or date, of that file; None if unknown.
        start: bytes of the partial file that a request continues.
    """

    client: LimitedClient
    file: WebFile
    path: Path
    on_begin: Callable[["Transfer"], object]
    on_bytes: Callable[[int], object]
    num_bytes: int | None = None
    validator: str | None = None
    start: int = 0

    @property
    def host(self) -> str:
        """The server with its port."""
        return urlsplit(self.file.url).netloc

    @property
    def network(self) -> Network:
        """The limits of the requests."""
        return self.client.network

    def __str__(self) -> str:
        return self.file.name

    def fetch(self) -> str:
        """Fetch the whole file to the path; return its SHA-256 in hex.

        Raise AudioError with the reason, RemoteRefusedError if the server refuses or sends another
        file, OSError if the disk is full.
        """
        received = partial(size_of, self.path)
        wait = self.client.stopped.wait
        return with_retries(self, self._fetch_once, received=received, wait=wait)

    def _fetch_once(self) -> str:
        """Request what is missing, if anything, and return the SHA-256 of the whole file.

        All is requested where nothing could prove that the partial file is of the same version.
        """
        with convert_write_errors():
            is_provable = self.validator or (self.file.checksum and self.num_bytes)
            self.start = size_of(self.path) if is_provable else 0
            is_whole = self.start > 0 and self.start == self.num_bytes
            if not is_whole:
                self._receive()
            return self._verify()

    def _receive(self) -> None:
        """Write the bytes from `start`, or all if the server sends all."""
        headers = {"Range": f"bytes={self.start}-"} if self.start else {}
        if self.start and self.validator:
            headers["If-Range"] = self.validator
        with self.client.follow("GET", self.file.url, lambda _: headers) as response:
            self._accept(response)
            with self.path.open("ab" if self.start else "wb") as file:
                # First truncate, then record the version: a kill in between leaves an empty file,
                # never one of another version.
                self.on_begin(self)
                self._write(response, file)

    def _accept(self, response: BaseHTTPResponse) -> None:
        """Raise unless a response has the rest of the file, or all of it.

        If it has all of it, set `start` to 0, and `num_bytes` and `validator` to those of the
        response.
        """
        status = response.status
        headers = response.headers
        if status in RETRYABLE or status >= 500:
            raise http.HttpStatusError(status, headers)
        if self.start and status in _OF_RANGES:
            if status != HTTPStatus.PARTIAL_CONTENT or not self._is_rest(headers):
                raise self._discard("the file on the server does not match the partial file")
        elif status == HTTPStatus.OK:
            self.start = 0
            self.num_bytes = self._checked_length(headers)
            etag = headers.get("ETag", "")
            # What If-Range accepts
            self.validator = etag if etag.startswith('"') else headers.get("Last-Modified")
        else:
            reason = f"the server responded with {status} {responses.get(status, '')}"
            raise RemoteRefusedError(reason.rstrip())

    def _is_rest(self, headers: Mapping[str, str]) -> bool:
        """Return whether a range is the rest of the same file."""
        version: dict[str, str] = {}
        if self.validator:
            header = "ETag" if self.validator.startswith('"') else "Last-Modified"
            version = {header: self.validator}
        length = r"\d+" if self.num_bytes is None else self.num_bytes
        pattern = rf"\s*bytes {self.start}-\d+/({length}|\*)\s*"
        return (
            re.fullmatch(pattern, headers.get("Content-Range", "")) is not None
            and not http.is_other_version(version, headers)
            and not http.content_coding(headers, self.file.name)
        )

    def _checked_length(self, headers: Mapping[str, str]) -> int | None:
        """Return the announced length of a whole body; None if it has none.

        Raise RemoteRefusedError for a body that is not the file, is too large for the limits or for
        the disk, or of which nothing would prove that it is whole.
        """
        if coding := http.content_coding(headers, self.file.name):
            raise RemoteRefusedError(http.compressed_message(coding))
        if other := self._other_content(headers.get("Content-Type", "")):
            raise RemoteRefusedError(other)
        num_bytes = http.content_length(headers)
        if num_bytes is None and not (http.is_chunked(headers) or self.file.checksum):
            raise RemoteRefusedError(f"{NO_LENGTH}; give a checksum")
        with convert_error(InputError, RemoteRefusedError):
            self.network.check_size(self, num_bytes or 0)
        free = shutil.disk_usage(self.path.parent).free
        if (num_bytes or 0) > free:
            raise RemoteRefusedError(
                f"no space for its {num_bytes:,} bytes, {free:,} are free on the disk"
            )
        return num_bytes

    def _other_content(self, content_type: str, first_bytes: bytes = b"") -> str | None:
        """Return why a body is not the file: it is a login or an error page, or a message.

        Return None if it may be the file, as one with a checksum always may.
        """
        if self.file.checksum:
            return None
        kind = content_type.partition(";")[0].strip().lower()
        name = self.file.name.lower()
        is_page = kind in _PAGES or _PAGE_START.match(first_bytes)
        if is_page and Path(name).suffix not in _PAGE_NAMES:
            return (
                "the server sends a web page instead; "
                "open the URL in a browser, and give a checksum if it is right"
            )
        if kind in _MESSAGES and self.file.is_recording:
            return f"the server sends {kind} instead of a recording; give a checksum if it is right"
        return None

    def _write(self, response: BaseHTTPResponse, file: BinaryIO) -> None:
        """Append a body to the partial file, up to the length of the whole file."""
        most = self.num_bytes
        for chunk in http.body_pieces(response, _CHUNK_BYTES, self.network.timeout):
            on_message(self.host)
            num_bytes = file.tell() + len(chunk)
            if most is None and num_bytes > _UNANNOUNCED_BYTES:
                most = self._requested_length()
            if most is not None and num_bytes > most:
                unknown = "of a file of unannounced length that are fetched (--max-size)"
                what = unknown if self.num_bytes is None else "that it announced"
                raise self._discard(f"the server sends more than the {most:,} bytes {what}")
            file.write(chunk)
            self.on_bytes(len(chunk))
        if file.tell() < (self.num_bytes or 0):
            raise ConnectionError(f"the server sent {file.tell():,} of {self.num_bytes:,} bytes")

    def _requested_length(self) -> int:
        """Return the length that a HEAD request announces, or that of the network limits."""
        follow = self.client.follow
        with suppress(ConnectionError), follow("HEAD", self.file.url, lambda _: {}) as response:
            num_bytes = http.content_length(response.headers)
            if response.status == HTTPStatus.OK and num_bytes is not None:
                return num_bytes
        return self.network.max_size or MAX_UNKNOWN_LENGTH

    def _verify(self) -> str:
        """Make sure that the whole file is on the disk, and return its SHA-256.

        Discard it if it is a web page or has another checksum.
        """
        with self.path.open("rb") as file:
            other = self._other_content("", file.read(_START_BYTES))
            os.fsync(file.fileno())
        if other:
            raise self._discard(other)
        hashes = file_hashes(self.path, self.file.checksum)
        if hashes.checksum != self.file.checksum:
            raise self._discard(f"it has {hashes.checksum}, not {self.file.checksum}")
        return hashes.sha256

    def _discard(self, reason: str) -> Exception:
        """Remove the partial file, and return the error to raise.

        It is one that is retried where an earlier part was continued, as that part may be wrong.
        """
        self.path.unlink()
        if self.start:
            return ConnectionError(f"{reason}; download restarted")
        return RemoteRefusedError(f"{reason}; removed")


@contextmanager
def convert_write_errors() -> Iterator[None]:
    """Convert errors of files on this machine, but for a full disk, to AudioError."""
    try:
        yield
    except (ConnectionError, http.HttpStatusError):
        raise
    except OSError as error:
        if disk_full_reason(error):
            raise
        raise AudioError(f"it cannot be written: {error.strerror}") from error


class FileHashes(NamedTuple):
    """SHA-256 of a file in hex, and its checksum with the algorithm of another one, if any."""

    sha256: str
    checksum: str | None


def file_hashes(path: Path, checksum: str | None) -> FileHashes:
    """Return the hashes of a file, the second one to compare with `checksum`."""
    sha256 = sha256_file(path)
    if checksum is None or checksum.startswith("sha256:"):
        return FileHashes(sha256, checksum and f"sha256:{sha256}")
    with path.open("rb") as file:
        md5 = hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False))
    return FileHashes(sha256, f"md5:{md5.hexdigest()}")
