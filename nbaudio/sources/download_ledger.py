"""State of every download: JSON lines, the last of which counts for a URL and name."""

import hashlib
import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from nbaudio.core import atomic
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.storage.transfer import WebFile
from nbaudio.storage.urls import public_url

LEDGER = "downloads.jsonl"

_Key = tuple[str | None, str | None]  # hash of the URL, and name
State = Literal["begun", "done", "failed"]


@dataclass(frozen=True)
class Row:
    """The state of one URL."""

    url: str | None  # without user and query; None if a row of the list has none
    name: str | None
    state: State  # begun: a partial file may exist
    url_sha256: str | None  # of the whole URL of the list, in hex
    bytes: int | None = None  # of the whole file, once the server has announced it
    # Of the file that was published under the name, now or before the download began again
    sha256: str | None = None
    checksum: str | None = None  # the expected one, which a file that is done has
    validator: str | None = None  # ETag or date of the version of the partial file
    reason: str | None = None  # why it failed


class Ledger:
    """The rows of one folder; threads may change them at the same time."""

    def __init__(self, path: Path, files: Iterable[WebFile]) -> None:
        """Read the rows of a folder to which a list of files is downloaded."""
        self.path = path
        self._lock = threading.Lock()
        # By hash and name, in the order of their last change
        self._rows: dict[_Key, Row] = {}
        for values in atomic.read_log(path):
            with suppress(TypeError):  # the URL of another line is examined again
                self._set(Row(**values))
        self._listed = set(map(_key, files))
        self._forget()
        self._write()
        self._file = path.open("a+b", buffering=0)

    def row(self, file: WebFile) -> Row | None:
        """Return the row of a file."""
        return self._rows.get(_key(file))

    def change(self, file: WebFile, state: State, **facts: Any) -> None:
        """Set the state of a file with facts that change; the others stay.

        The row survives a kill, and one that is done a power cut.
        """
        before = self.row(file)
        row = Row(public_url(file.url), file.name, state, sha256_of(file.url))
        if before and before.state == "done" and state != "done":
            row = replace(row, sha256=before.sha256)
        elif before:
            row = replace(before, state=state, reason=None)
        row = replace(row, checksum=file.checksum, **facts)
        if row != before or state != "done":
            self._add(row)

    def add_invalid(self, row: Row) -> None:
        """Add an invalid row of the list, unless a file of the list has its URL and name."""
        if (row.url_sha256, row.name) not in self._listed:
            self._add(row)

    def _add(self, row: Row) -> None:
        with self._lock:
            self._set(row)
            line = json.dumps(asdict(row)).encode()
            atomic.write_lines(self._file, [line], sync=row.state == "done")

    def close(self) -> None:
        """Write one row per URL."""
        self._file.close()
        self._write()

    def _set(self, row: Row) -> None:
        key = (row.url_sha256, row.name)
        self._rows.pop(key, None)
        self._rows[key] = row

    def _forget(self) -> None:
        """Drop rows that a corrected list no longer has.

        These are invalid rows, and files that are not done whose URL has another name now, or whose
        name, with its partial file, has another URL.
        """
        urls = {None, *(url for url, _ in self._listed)}
        names = {name for _, name in self._listed}
        self._rows = {
            key: row
            for key, row in self._rows.items()
            if row.state == "done" or key in self._listed or not (key[0] in urls or key[1] in names)
        }

    def _write(self) -> None:
        lines = [f"{json.dumps(asdict(row))}\n" for row in self._rows.values()]
        atomic.write_bytes(self.path, "".join(lines).encode())


@contextmanager
def open_ledger(folder: Path, files: Iterable[WebFile]) -> Iterator[Ledger]:
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
        for leftover in folder.glob(f".{LEDGER}.*.partial"):
            leftover.unlink()
        with closing(Ledger(folder / LEDGER, files)) as ledger:
            yield ledger


def sha256_of(url: str) -> str:
    """Return the hash of a whole URL, its identity."""
    return hashlib.sha256(url.encode("utf8", "surrogatepass")).hexdigest()


def _key(file: WebFile) -> _Key:
    return sha256_of(file.url), file.name
