"""State of every download: JSON lines, the last of which counts for a URL and name."""

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import urllib3

from nbaudio.core import atomic, hashing
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.storage.urls import public_url

LEDGER = "downloads.jsonl"

State = Literal["begun", "done", "failed"]


@dataclass(frozen=True)
class DownloadItem:
    """A file to download, with a checksum ``sha256:<hex>``, ``md5:<hex>`` or None."""

    url: str
    name: str
    checksum: str | None = None


@dataclass(frozen=True)
class Row:
    """The state of one URL."""

    url: str | None  # without user and query; None if a row of the list has none
    name: str | None
    state: State  # begun: a partial file may exist
    url_sha256: str | None = None  # of the whole URL of the list, in hex
    bytes: int | None = None  # of the whole file, once the server has announced it
    sha256: str | None = (
        # Of the file that was published under the name, now or before the download began again
        None
    )
    checksum: str | None = None  # the expected one, which a file that is done has
    validator: str | None = None  # ETag or date of the version of the partial file
    reason: str | None = None  # why it failed

    @classmethod
    def of(cls, wanted: DownloadItem, state: State, **facts: Any) -> "Row":
        """Return the row of a file, which does not hold its whole URL."""
        return cls(
            public_url(wanted.url), wanted.name, state, url_sha256=sha256_of(wanted.url), **facts
        )


class Ledger:
    """The rows of one folder; threads may add at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        # By hash and name, in the order of their last change
        self._rows: dict[tuple[str | None, str | None], Row] = {}
        # Hash of the URL whose bytes the partial file of a name holds
        self._parts: dict[str | None, str | None] = {}
        names = [field.name for field in fields(Row)]
        for values in atomic.parse_lines(path.read_bytes()) if path.exists() else ():
            if values.keys() >= set(names):  # the URL of another line is examined again
                self._set(Row(**{name: values[name] for name in names}))
        self._write()
        self._file = path.open("a+b", buffering=0)

    def row(self, wanted: DownloadItem) -> Row | None:
        """Return the row of a file."""
        return self._rows.get((sha256_of(wanted.url), wanted.name))

    def part(self, wanted: DownloadItem) -> Row | None:
        """Return the row of a file if the partial file of its name holds its bytes."""
        row = self.row(wanted)
        return (
            row
            if row and row.state != "done" and self._parts.get(wanted.name) == row.url_sha256
            else None
        )

    def add(self, row: Row) -> None:
        """Add or replace a row; it survives a kill, and one that is done a power cut."""
        with self._lock:
            self._set(row)
            atomic.write_lines(
                self._file, [json.dumps(asdict(row)).encode()], sync=row.state == "done"
            )

    def forget(self, wanted: list[DownloadItem]) -> None:
        """Drop failures that a corrected list no longer has.

        These are rows without a URL, and URLs under another name.
        """
        keys = {(sha256_of(one.url), one.name) for one in wanted}
        known = {url for url, _ in keys}
        with self._lock:
            self._rows = {
                key: row
                for key, row in self._rows.items()
                if row.state != "failed"
                or key in keys
                or not (row.url is None or row.url_sha256 in known)
            }

    def close(self) -> None:
        """Write one row per URL."""
        self._file.close()
        self._write()

    def _set(self, row: Row) -> None:
        self._rows.pop((row.url_sha256, row.name), None)
        self._rows[row.url_sha256, row.name] = row
        if row.state == "begun" or row.validator or row.bytes:
            self._parts[row.name] = row.url_sha256

    def _write(self) -> None:
        atomic.write_bytes(
            self.path,
            "".join(f"{json.dumps(asdict(row))}\n" for row in self._rows.values()).encode(),
        )


@contextmanager
def open_ledger(folder: Path) -> Iterator[Ledger]:
    """Create a folder, lock it against other downloads and open its ledger.

    Raise ExistsError if another download has the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f".{LEDGER}.lock").open("wb")
        is_locked = atomic.lock(file, wait=False)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be used as a folder for downloads ({error.strerror})"
        ) from error
    with file:
        if not is_locked:
            raise ExistsError(
                f"{folder}: another download is active there; wait for it, or choose another folder"
            )
        for left in folder.glob(f".{LEDGER}.*.partial"):
            left.unlink()
        with closing(Ledger(folder / LEDGER)) as ledger:
            yield ledger


def sha256_of(url: str) -> str:
    """Return the hash of a whole URL, its identity."""
    return hashlib.sha256(url.encode("utf8", "surrogatepass")).hexdigest()


_ALGORITHM = {32: "md5", 64: "sha256"}
HASHES = tuple(_ALGORITHM.values())
"""Names of algorithms of checksums."""

# Filesystems allow names of 255 bytes, and `.name.partial` must fit.
_MAX_NAME_BYTES = 240


def check_name(name: str) -> str:
    """Return the name in NFC.

    Raise InputError unless it is one plain, visible file name on every system.
    """
    name = unicodedata.normalize("NFC", name)
    num_bytes = len(name.encode(errors="surrogatepass"))
    refused = {
        "the URL does not end in a file name; give one in a column name": not name,
        "only one plain file name is allowed, no / or \\": "/" in name or "\\" in name,
        "control characters and broken Unicode are not allowed": {"Cc", "Cs"}
        & set(map(unicodedata.category, name)),
        "it must not begin with a dot, nor end in a dot or blank": name.startswith(".")
        or name.endswith((".", " ")),
        "it is reserved": hashing.RESERVED_DEVICE_NAMES.fullmatch(name)
        or name.casefold() == LEDGER,
        f"it has {num_bytes} bytes, at most {_MAX_NAME_BYTES} are allowed": num_bytes
        > _MAX_NAME_BYTES,
    }
    for why, holds in refused.items():
        if holds:
            raise InputError(f"name {name[:80]!r}: {why}")
    return name


def display_url(url: str) -> str:
    """Return a URL, even an invalid one, for messages and the ledger.

    It is short, without user, password and query.
    """
    return re.sub(r"^(\w+:/{0,2})?[^/]*:.*@", r"\1", public_url(url))[:200]


def check_url(url: str) -> str:
    """Return the URL if it is one of the web.

    Raise InputError unless it is an http or https URL without user and password.
    """
    try:
        parts = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError as error:
        raise InputError(f"{display_url(url)!r} is not a URL") from error
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InputError(f"{display_url(url)!r}: only http:// and https:// URLs are allowed")
    if parts.auth is not None:
        raise InputError(
            f"{parts.host}: a URL with a user or password is refused, "
            "since the ledger would store it"
        )
    return url


def check_checksum(text: str) -> str:
    """Return a checksum as ``algorithm:hex``."""
    algorithm, _, digits = text.strip().lower().rpartition(":")
    algorithm = algorithm or _ALGORITHM.get(len(digits), "")
    if _ALGORITHM.get(len(digits)) != algorithm or not re.fullmatch(r"[0-9a-f]+", digits):
        raise InputError(
            f"checksum {text[:80]!r}: expected sha256:<64 hex digits> or md5:<32 hex digits>"
        )
    return f"{algorithm}:{digits}"
