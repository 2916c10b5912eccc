"""Ledger of downloads: the state of every URL, in JSON lines that stay readable after a kill at any moment.

``downloads.jsonl`` holds one row per URL and name; during a download, rows are appended and the last one counts. URLs
are stored without user and query, which may be secret; the hash of the whole URL tells apart those that differ in nothing
else.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from nbaudio.core.atomic import atomic_write, parse_lines, write_lines
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.core.locks import lock
from nbaudio.storage.urls import public_url, redact

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
    sha256: str | None = None  # of the file that was published under the name, now or before the download began again
    checksum: str | None = None  # the expected one, which a file that is done has
    validator: str | None = None  # ETag or date of the version of the partial file
    reason: str | None = None  # why it failed

    @classmethod
    def of(cls, wanted: DownloadItem, state: State, **facts: Any) -> "Row":
        """Return the row of a file, which does not hold its whole URL."""
        return cls(public_url(wanted.url), wanted.name, state, url_sha256=sha256_of(wanted.url), **facts)


class Ledger:
    """The rows of one folder; threads may add at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._rows: dict[tuple[str | None, str | None], Row] = {}  # by hash and name, in the order of their last change
        self._parts: dict[str | None, str | None] = {}  # hash of the URL whose bytes the partial file of a name holds
        for values in parse_lines(path.read_bytes()) if path.exists() else ():
            if row := _row(values):
                self._set(row)
        self._write()
        self._file = path.open("a+b", buffering=0)

    def row(self, wanted: DownloadItem) -> Row | None:
        """Return the row of a file."""
        return self._rows.get((sha256_of(wanted.url), wanted.name))

    def part(self, wanted: DownloadItem) -> Row | None:
        """Return the row of a file if the partial file of its name holds its bytes."""
        row = self.row(wanted)
        return row if row and row.state != "done" and self._parts.get(wanted.name) == row.url_sha256 else None

    def add(self, row: Row) -> None:
        """Add or replace a row; it survives a kill, and one that is done a power cut."""
        with self._lock:
            self._set(row)
            write_lines(self._file, [_line(row)], sync=row.state == "done")

    def forget(self, wanted: list[DownloadItem]) -> None:
        """Drop failures that a corrected list no longer has: rows without a URL, and URLs under another name."""
        keys = {(sha256_of(one.url), one.name) for one in wanted}
        known = {url for url, _ in keys}
        with self._lock:
            self._rows = {
                key: row
                for key, row in self._rows.items()
                if row.state != "failed" or key in keys or not (row.url is None or row.url_sha256 in known)
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
        with atomic_write(self.path) as partial:
            partial.write_bytes(b"".join(_line(row) + b"\n" for row in self._rows.values()))


@contextmanager
def open_ledger(folder: Path) -> Iterator[Ledger]:
    """Create a folder, lock it against other downloads (ExistsError if another one has the lock) and open its ledger."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f".{LEDGER}.lock").open("wb")
        is_locked = lock(file, wait=False)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used as a folder for downloads ({error.strerror})") from error
    with file:
        if not is_locked:
            raise ExistsError(f"{folder}: another download is active there; wait for it, or choose another folder")
        for left in folder.glob(f".{LEDGER}.*.partial"):
            left.unlink()
        with closing(Ledger(folder / LEDGER)) as ledger:
            yield ledger


def sha256_of(url: str) -> str:
    """Return the hash of a whole URL, its identity."""
    return hashlib.sha256(url.encode("utf8", "surrogatepass")).hexdigest()


def _line(row: Row) -> bytes:
    return json.dumps(asdict(row)).encode()


def _row(values: dict[str, Any]) -> Row | None:
    """Return the row of a line, or None if it is not one of ours: that URL is then examined again."""
    try:
        if "url_sha256" not in values:  # of a version that stored whole URLs
            url = values["url"]
            values |= {"url": url and public_url(url), "url_sha256": url and sha256_of(url)}
            values["reason"] = values["reason"] and redact(values["reason"], url or "")
        return Row(**{field.name: values[field.name] for field in fields(Row)})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
