"""What became of every address: a journal that a kill at any moment leaves readable.

Conventions: ``downloads.jsonl`` holds one row per address and name; while a download runs, rows are appended and the last one
counts. `state` is ``begun`` (a part may be there), ``done`` or ``failed``. Addresses are stored without user and query, which may
be secret; the hash of the whole address tells apart those that differ in nothing else.
"""

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from nbaudio.core.errors import ExistsError, InputError
from nbaudio.storage.atomic import atomic_write
from nbaudio.storage.urls import public_url, redact

LEDGER = "downloads.jsonl"


@dataclass(frozen=True)
class Row:
    """One address.

    Attributes:
        url: without user and query; None where a row of the list had none.
        url_sha256: of the whole address as the list has it, in hex.
        name: the file's.
        state: how far it is.
        bytes: the whole file's, None while the server has not said.
        sha256: of what was put in place under the name, now or before it was begun anew.
        checksum: the wanted one, which a file that is done has.
        validator: what the server calls this version of the file, to go on with a part of it: an ETag or a date.
        reason: why it failed.
    """

    url: str | None
    name: str | None
    state: Literal["begun", "done", "failed"]
    url_sha256: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    checksum: str | None = None
    validator: str | None = None
    reason: str | None = None

    @classmethod
    def of(cls, url: str, name: str, state: Literal["begun", "done", "failed"], **facts: Any) -> "Row":
        """The row of a whole address, which it does not hold."""
        return cls(public_url(url), name, state, url_sha256=sha256_of(url), **facts)


class Ledger:
    """The rows of one folder; threads may add at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._rows: dict[tuple[str | None, str | None], Row] = {}  # by hash and name, in the order of what was told last
        self._parts: dict[str | None, str | None] = {}  # the hash of the address whose bytes a name's part holds
        for line in path.read_bytes().splitlines() if path.exists() else []:
            if row := _read(line):
                self._set(row)
        self._write()
        self._file = path.open("a", encoding="utf8")

    def row(self, url: str, name: str) -> Row | None:
        """What is known of an address under a name."""
        return self._rows.get((sha256_of(url), name))

    def part(self, url: str, name: str) -> Row | None:
        """The row of an address whose bytes the part under a name holds; None when they are another's, or none were begun."""
        row = self.row(url, name)
        return row if row and row.state != "done" and self._parts.get(name) == row.url_sha256 else None

    def add(self, row: Row) -> None:
        """Add or replace a row; it outlives a kill, and one that is done a power cut."""
        with self._lock:
            self._set(row)
            self._file.write(_line(row))
            self._file.flush()
            if row.state == "done":
                os.fsync(self._file.fileno())

    def forget(self, told: set[tuple[str, str]]) -> None:
        """Drop failures that a list without those mistakes no longer has: rows without an address, addresses under another name.

        Args:
            told: addresses and names that are about to get a row anyway.
        """
        keys = {(sha256_of(url), name) for url, name in told}
        known = {url for url, _ in keys}
        with self._lock:
            self._rows = {
                key: row
                for key, row in self._rows.items()
                if row.state != "failed" or key in keys or not (row.url is None or row.url_sha256 in known)
            }

    def close(self) -> None:
        """One row per address again."""
        self._file.close()
        self._write()

    def _set(self, row: Row) -> None:
        self._rows.pop((row.url_sha256, row.name), None)
        self._rows[row.url_sha256, row.name] = row
        if row.state == "begun" or row.validator or row.bytes:
            self._parts[row.name] = row.url_sha256

    def _write(self) -> None:
        with atomic_write(self.path) as partial:
            partial.write_text("".join(map(_line, self._rows.values())), encoding="utf8")


@contextmanager
def open_ledger(folder: Path) -> Iterator[Ledger]:
    """The ledger of a folder, which is made; nobody else downloads there meanwhile.

    Raises:
        ExistsError: another download is at work there.
        InputError: the folder cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f".{LEDGER}.lock").open("wb")
    except OSError as error:
        raise InputError(f"{folder}: cannot be used as a folder for downloads ({error.strerror})") from error
    with lock:
        try:
            # The system lets go of it when the process ends, however that comes.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ExistsError(f"{folder}: another download is at work there; wait for it, or take another folder") from error
        for left in folder.glob(f".{LEDGER}.*.partial"):
            left.unlink()
        ledger = Ledger(folder / LEDGER)
        try:
            yield ledger
        finally:
            ledger.close()


def sha256_of(url: str) -> str:
    """The identity of an address: the hash of all of it.

    Examples:
        >>> sha256_of("https://example.org/a.wav?id=1")[:12]
        '215d2e633a81'
    """
    return hashlib.sha256(url.encode("utf8", "surrogatepass")).hexdigest()


def _line(row: Row) -> str:
    return json.dumps(asdict(row), ensure_ascii=True) + "\n"


def _read(line: bytes) -> Row | None:
    """A row, None where a line is cut off or not ours: what it told is found out anew."""
    try:
        values = json.loads(line)
        if "url_sha256" not in values:  # of a version that stored whole addresses
            url = values["url"]
            values |= {"url": url and public_url(url), "url_sha256": url and sha256_of(url)}
            values["reason"] = values["reason"] and redact(values["reason"], url or "")
        return Row(**{field.name: values[field.name] for field in fields(Row)})
    except (ValueError, KeyError, TypeError):
        return None
