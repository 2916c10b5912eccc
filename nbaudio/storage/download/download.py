"""Download files from the web into a folder, with a ledger of all files."""

from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from nbaudio.core import atomic, progress
from nbaudio.core.errors import AudioError
from nbaudio.core.report import Report, first_lines
from nbaudio.storage import http, urls
from nbaudio.storage.download.fetch import (
    ByteProgress,
    Fetcher,
    Transfer,
    find_complete,
    partial_path,
)
from nbaudio.storage.download.ledger import (
    LEDGER,
    DownloadItem,
    Ledger,
    Row,
    open_ledger,
)
from nbaudio.storage.download.rate_limit import HostLimits
from nbaudio.storage.network import Network, RemoteRefusedError, with_retries

# Bytes from which on hashing shows progress.
_LONG_WORK_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Rate:
    """How fast files are fetched: connections at once in all and to a host, requests a second."""

    connections: int
    per_host: int
    per_second: float


def download_files(
    wanted: list[DownloadItem], refused: list[Row], *, out: Path, rate: Rate, network: Network
) -> Report:
    """Download files into a folder; see `nbaudio.download`.

    `refused` are rows of the list that are no files, for ledger and report.
    """
    with open_ledger(out) as ledger:
        ledger.forget(wanted)
        for invalid in refused:
            ledger.add(invalid)
        missing, notes = _find_missing(out, ledger, wanted)
        _fetch(out, ledger, missing, rate, network)
        rows = {item: row for item in wanted if (row := ledger.row(item))}
    done = {item: row for item, row in rows.items() if row.state == "done"}
    num_fetched = len(done.keys() & missing)
    problems = [f"{row.name}: {row.reason}" for row in rows.values() if row.state == "failed"]
    problems += [
        f"{invalid.name or invalid.url or 'the list'}: {invalid.reason}" for invalid in refused
    ]
    if unproven := sum(row.checksum is None for row in done.values()):
        notes.append(
            f"{unproven:,} of the files have no checksum; only their lengths were verified"
        )
    return Report(
        "download",
        {
            "files": len(wanted) + len(refused),
            "there_before": len(done) - num_fetched,
            "fetched": num_fetched,
            "failed": len(problems),
            "bytes": sum(row.bytes or 0 for row in done.values()),
            "ledger": str(out / LEDGER),
        },
        notes,
        first_lines(problems, str(out / LEDGER)),
    )


def _fetch(
    folder: Path, ledger: Ledger, missing: list[DownloadItem], rate: Rate, network: Network
) -> None:
    """Fetch files in threads, with progress."""
    with closing(http.HttpClient(connections=rate.per_host, timeout=network.timeout)) as client:
        if not missing:
            return
        limits = HostLimits(
            per_host=rate.per_host, per_second=rate.per_second, max_wait=network.max_wait
        )
        with byte_progress(len(missing)) as bar:
            worker = _Worker(folder, ledger, client, network, limits, bar)
            worker.work_in_threads(missing, rate.connections, rate.per_host)


def _find_missing(
    folder: Path, ledger: Ledger, wanted: list[DownloadItem]
) -> tuple[list[DownloadItem], list[str]]:
    """Return the files that are not complete, and notes on those that changed.

    Write all others to the ledger.
    """
    sizes = [path.stat().st_size if (path := folder / one.name).is_file() else 0 for one in wanted]
    rest = []
    notes = []
    with (  # noqa: PLR1702
        ThreadPoolExecutor(2) as pool,
        progress.progress(
            "look at", sum(sizes) / 1e9, "GB of files", show=sum(sizes) > _LONG_WORK_BYTES
        ) as advance,
    ):
        for one, size, row in zip(
            wanted, sizes, pool.map(partial(find_complete, folder, ledger), wanted), strict=True
        ):
            advance(size / 1e9)
            if row is None:
                rest.append(one)
                if size:
                    notes.append(
                        f"{one.name} has changed, or does not match the list any more; "
                        "it is downloaded again"
                    )
            elif row.state == "failed" or row != ledger.row(one):
                ledger.add(row)
    return rest, notes


class _Worker(Fetcher):
    """Downloads files in threads.

    A file that a host lets wait keeps its thread, and others go on with the files of other hosts.
    """

    def work_in_threads(self, wanted: list[DownloadItem], connections: int, per_host: int) -> None:
        tasks: dict[str, list[Transfer]] = {}
        for one in wanted:
            task = Transfer(one, self.network)
            tasks.setdefault(task.host, []).append(task)
        # The threads of a host share its queue.
        queues = [iter(of_host) for of_host in tasks.values()] * min(per_host, connections)
        with ThreadPoolExecutor(connections) as pool:  # noqa: PLR1702
            try:
                futures = {pool.submit(self._work, queue) for queue in queues}
                while futures:
                    # A timeout, so that a Ctrl-C just before the wait is noticed.
                    done, futures = wait(futures, timeout=1.0, return_when=FIRST_EXCEPTION)
                    for future in done:
                        future.result()
            except BaseException:
                self.limits.stopped.set()
                self.client.hang_up()
                raise

    def _work(self, queue: Iterator[Transfer]) -> None:
        for task in queue:
            received = partial(atomic.size_of, partial_path(self.folder, task.wanted))
            try:
                with atomic.raise_disk_full(self.folder):
                    with_retries(
                        task,
                        partial(self.fetch, task),
                        received=received,
                        wait=self.limits.stopped.wait,
                    )
            except AudioError as error:
                if self.limits.stopped.is_set():
                    return
                if isinstance(error, RemoteRefusedError):
                    self.network.succeeded(task.host)  # it responds
                self._write_failure(task.wanted, str(error).removeprefix(f"{task}: "))
            self.bar.finish(task.wanted.name)

    def _write_failure(self, wanted: DownloadItem, reason: str) -> None:
        # The next run resumes a partial file.
        partial_file = partial_path(self.folder, wanted)
        if partial_file.is_file() and not partial_file.stat().st_size:
            partial_file.unlink()
        part = self.ledger.part(wanted) if partial_file.exists() else None
        row = self.ledger.row(wanted)
        before = part or Row.of(wanted, "failed", sha256=row.sha256 if row else None)
        self.ledger.add(
            replace(
                before,
                state="failed",
                checksum=wanted.checksum,
                reason=urls.redact(reason, wanted.url),
            )
        )


@contextmanager
def byte_progress(num_files: int) -> Iterator[ByteProgress]:
    """Show progress in bytes, with rate, time left and silent hosts."""
    with progress.open_bar("fetch", 0, "bytes") as bar:
        shown = ByteProgress(bar, num_files)
        with progress.naming_hosts(shown.show_waiting):
            yield shown
