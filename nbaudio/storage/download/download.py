"""Download files from the web.

The input is a list; the output is a folder that `ingest` reads, with a ledger of all files.
"""

from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from nbaudio.core import atomic, progress
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tracebacks import interruptible
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
    read_list,
)
from nbaudio.storage.download.rate_limit import HostLimits
from nbaudio.storage.network import Network, RemoteRefusedError, with_retries

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
    bytes, sha256, checksum, reason. URLs are stored without user and query. docs/network.md has the
    defaults of tries, timeout, max_wait and max_size, and their environment variables.

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
        ["a.wav: row 1: 'ftp://example.org/a.wav': only http:// and https:// URLs are allowed"]
    """
    network = Network.of(timeout=timeout, tries=tries, max_wait=max_wait, max_size=max_size)
    for name, value in (
        ("connections", connections),
        ("per_host", per_host),
        ("per_second", per_second),
    ):
        if not value > 0:
            raise InputError(f"{name} is {value}; it must be more than 0")
    wanted, refused = read_list(source)
    folder = Path(out).absolute()
    with open_ledger(folder) as ledger:  # noqa: PLR1702
        ledger.forget(wanted)
        for bad in refused:
            ledger.add(bad)
        rest, notes = _find_missing(folder, ledger, wanted)
        with closing(http.HttpClient(connections=per_host, timeout=network.timeout)) as client:
            if rest:
                limits = HostLimits(
                    per_host=per_host, per_second=per_second, max_wait=network.max_wait
                )
                with byte_progress(len(rest)) as bar:
                    _Worker(folder, ledger, client, network, limits, bar).work_in_threads(
                        rest, connections, per_host
                    )
        rows = {one: row for one in wanted if (row := ledger.row(one))}
    done = {one: row for one, row in rows.items() if row.state == "done"}
    num_fetched = len(done.keys() & rest)
    problems = [f"{row.name}: {row.reason}" for row in rows.values() if row.state == "failed"]
    problems += [f"{bad.name or bad.url or 'the list'}: {bad.reason}" for bad in refused]
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
            "ledger": str(folder / LEDGER),
        },
        notes,
        first_lines(problems, str(folder / LEDGER)),
    )


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
