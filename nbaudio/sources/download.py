"""Download the files of a list.

The output is a folder that `ingest` reads, with a ledger of all files.
"""

import os
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from nbaudio.core import atomic, progress, threads
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tracebacks import interruptible
from nbaudio.sources.download_ledger import Ledger, open_ledger
from nbaudio.sources.download_lists import DownloadList, read_list
from nbaudio.storage.network import Network, RemoteRefusedError
from nbaudio.storage.rate_limit import LimitedClient
from nbaudio.storage.transfer import Transfer, WebFile, convert_write_errors, file_hashes
from nbaudio.storage.urls import redact

# Bytes from which on hashing shows progress.
_LONG_WORK_BYTES = 1_000_000_000


@interruptible
def download(
    source: str | Path,
    *,
    out: str | Path,
    connections: int = 4,
    per_host: int = 2,
    per_second: float = 4.0,
    tries: int | None = None,
    timeout: float | None = None,
    max_wait: float | None = None,
    max_size: str | int | None = None,
) -> Report:
    r"""Download the files of a list into a folder with a rate limit per host.

    After a kill, the same call does the rest.

    ``downloads.jsonl`` in the folder holds the state of each file: url, url_sha256, name, state,
    bytes, sha256, checksum, reason. URLs are stored without user and query. docs/ingest.md has the
    environment variables of tries, timeout, max_wait and max_size, ``--help`` their defaults.

    Args:
        source: a .csv, .tsv or .jsonl with `url` and optionally `name` and `checksum` (sha256 or
            md5); or archives by name, such as ``openslr:librispeech:dev-clean,test-clean``.
        out: the folder, new or from an earlier download.
        connections: at once, in all.
        per_host: connections at once to a host.
        per_second: requests to a host.
        tries: consecutive requests without a new byte before a file fails.
        timeout: seconds without a byte before a request fails.
        max_wait: seconds; files of a host that requires a longer pause (Retry-After) fail.
        max_size: of the largest file, in bytes or a size such as ``"50GB"``.

    Returns:
        Counts and bytes; problems one line each.

    Raises:
        InputError: the list, the folder or a parameter is invalid.
        ExistsError: another download writes to the folder.
        DiskFullError: finished files are kept, and the same call resumes.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "list.csv").write_text("url,name\nftp://example.org/a.wav,a.wav\n")
        >>> download(folder / "list.csv", out=folder / "audio").problems
        ["a.wav: line 2: 'ftp://example.org/a.wav': only http:// and https:// URLs are allowed"]
    """
    network = Network.of(timeout=timeout, tries=tries, max_wait=max_wait, max_size=max_size)
    for name, value in (
        ("connections", connections),
        ("per_host", per_host),
        ("per_second", per_second),
    ):
        if not value > 0:
            raise InputError(f"{name} is {value}; it must be more than 0")
    listed = read_list(source)
    folder = Path(out).absolute()
    with (
        open_ledger(folder, listed.wanted) as ledger,
        closing(LimitedClient(network, per_host=per_host, per_second=per_second)) as client,
    ):
        for row in listed.refused:
            ledger.add_invalid(row)
        files = _Files(folder, ledger, client)
        missing = files.find_missing(listed.wanted)
        listed.notes += [
            f"{file.name} has changed, or does not match the list any more; it is downloaded again"
            for file in missing
            if (folder / file.name).is_file()
        ]
        if missing:
            files.fetch(missing, connections, per_host)
        return _report(listed, ledger, missing)


@dataclass(frozen=True)
class _Files:
    """The files of a folder, of which threads fetch the missing ones."""

    folder: Path
    ledger: Ledger
    client: LimitedClient

    def find_missing(self, files: list[WebFile]) -> list[WebFile]:
        """Return the files that must be fetched; the ledger gets the others."""
        sizes = {file: atomic.size_of(self.folder / file.name) for file in files}
        num_bytes = sum(sizes.values())
        show = num_bytes > _LONG_WORK_BYTES
        missing = []
        with progress.progress("look at", num_bytes / 1e9, "GB of files", show=show) as advance:
            checks = threads.ordered_map(self._is_missing, files, jobs=2)
            for file, is_missing in zip(files, checks, strict=True):
                advance(sizes[file] / 1e9)
                if is_missing:
                    missing.append(file)
        return missing

    def _is_missing(self, file: WebFile) -> bool:
        try:
            return not self._is_complete(file)
        except AudioError as error:
            self._fail(file, error)
            return False

    def fetch(self, files: list[WebFile], connections: int, per_host: int) -> None:
        """Fetch files, with progress.

        A file that a host lets wait keeps its thread, and others go on with the files of other
        hosts.
        """
        files_of_hosts: dict[str, list[WebFile]] = {}
        for file in files:
            files_of_hosts.setdefault(urlsplit(file.url).netloc, []).append(file)
        # The threads of a host share its queue.
        queues = [iter(queue) for queue in files_of_hosts.values()] * min(per_host, connections)
        with (
            progress.file_progress("fetch", len(files)) as shown,
            ThreadPoolExecutor(connections) as pool,
        ):
            futures = {pool.submit(self._fetch_queue, queue, shown) for queue in queues}
            try:
                _wait_for(futures)
            except BaseException:
                self.client.stop()
                raise

    def _fetch_queue(self, queue: Iterator[WebFile], shown: progress.FileBytes) -> None:
        """Fetch the files of a queue one after the other; failures go to the ledger."""
        for file in queue:
            try:
                self._fetch_file(file, shown)
            except AudioError as error:
                if self.client.stopped.is_set():
                    return
                if isinstance(error, RemoteRefusedError):
                    self.client.network.succeeded(urlsplit(file.url).netloc)  # it responds
                self._fail(file, error)
            shown.finish(file.name)

    def _fail(self, file: WebFile, error: AudioError) -> None:
        reason = str(error).removeprefix(f"{file.name}: ")
        self.ledger.change(file, "failed", reason=redact(reason, file.url))
        path = self._partial_path(file)
        if path.is_file() and not path.stat().st_size:
            path.unlink()

    def _is_complete(self, file: WebFile) -> bool:
        """Return whether a file is complete by its hash.

        Raise AudioError for another file of its name, which the ledger does not know.
        """
        row = self.ledger.row(file)
        sha256 = row.sha256 if row else None
        target = self.folder / file.name
        paths = []
        if sha256:
            # A kill may have come between the row and the move.
            paths = [target, self._partial_path(file)]
        elif file.checksum:
            paths = [target]
        try:
            for path in filter(Path.is_file, paths):
                hashes = file_hashes(path, file.checksum)
                if hashes == (sha256 or hashes.sha256, file.checksum):
                    path.replace(target)
                    self._set_done(file, target, hashes.sha256)
                    return True
        except OSError as error:
            raise AudioError(f"the existing file cannot be read: {error.strerror}") from error
        if not sha256 and os.path.lexists(target):
            raise AudioError(
                "another file has its name and is not overwritten; "
                "move it away, or give another name"
            )
        return False

    def _fetch_file(self, file: WebFile, shown: progress.FileBytes) -> None:
        """Fetch a file, or the rest of it; record it as done and give it its name."""
        path = self._partial_path(file)
        begin = partial(self._begin, shown)
        transfer = Transfer(self.client, file, path, begin, partial(shown.advance, file.name))
        row = self.ledger.row(file)
        if row and row.state != "done":  # the partial file is of this URL
            transfer.num_bytes = row.bytes
            transfer.validator = row.validator
        with atomic.raise_disk_full(self.folder), convert_write_errors():
            sha256 = transfer.fetch()
            # First the row: after a kill in between, the next run finds the complete partial file
            # and only moves it.
            self._set_done(file, path, sha256)
            path.replace(self.folder / file.name)

    def _begin(self, shown: progress.FileBytes, transfer: Transfer) -> None:
        facts = {"bytes": transfer.num_bytes, "validator": transfer.validator}
        self.ledger.change(transfer.file, "begun", **facts)
        shown.expect(transfer.file.name, (transfer.num_bytes or 0) - transfer.start)

    def _set_done(self, file: WebFile, path: Path, sha256: str) -> None:
        self.ledger.change(file, "done", bytes=path.stat().st_size, sha256=sha256)

    def _partial_path(self, file: WebFile) -> Path:
        """Return the path of a file until it is complete."""
        return self.folder / f".{file.name}.partial"


def _wait_for(futures: set[Future[None]]) -> None:
    """Wait for calls; raise the first error."""
    while futures:
        # A timeout, so that a Ctrl-C just before the wait is noticed.
        done, futures = wait(futures, timeout=1.0, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()


def _report(listed: DownloadList, ledger: Ledger, missing: list[WebFile]) -> Report:
    """Return the report of a download; `missing` are the files that were not there before."""
    rows = {file: row for file in listed.wanted if (row := ledger.row(file))}
    done = {file: row for file, row in rows.items() if row.state == "done"}
    failed = [row for row in rows.values() if row.state == "failed"] + listed.refused
    problems = [f"{row.name or row.url or 'the list'}: {row.reason}" for row in failed]
    if unproven := sum(row.checksum is None for row in done.values()):
        listed.notes.append(
            f"{unproven:,} of the files have no checksum; only their lengths were verified"
        )
    num_fetched = len(done.keys() & missing)
    facts = {
        "files": len(listed.wanted) + len(listed.refused),
        "there_before": len(done) - num_fetched,
        "fetched": num_fetched,
        "failed": len(problems),
        "bytes": sum(row.bytes or 0 for row in done.values()),
        "ledger": str(ledger.path),
    }
    return Report("download", facts, listed.notes, first_lines(problems, str(ledger.path)))
