"""Download files from the web: a list in, a folder out that `ingest` reads, and a ledger of all files."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from nbaudio.core import atomic, progress
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, first_lines
from nbaudio.storage import http, urls
from nbaudio.storage.download.fetch import ByteProgress, Fetcher, PermanentError, RetryableError, find_complete, partial_path
from nbaudio.storage.download.ledger import LEDGER, DownloadItem, Ledger, Row, open_ledger, read_list
from nbaudio.storage.download.rate_limit import DownloadTask, RateLimitedQueue
from nbaudio.storage.network import Network, backoff_seconds

# Bytes from which on hashing shows progress.
_LONG_WORK_BYTES = 1_000_000_000
_LAYOUT = "{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt}  {elapsed} passed, {remaining} left, {rate_fmt}{postfix}"


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
    r"""Download the files of a list into a folder with a rate limit per host; after a kill, the same call does the rest.

    ``downloads.jsonl`` in the folder holds the state of each file: url, url_sha256, name, state, bytes, sha256, checksum, reason.
    URLs are stored without user and query. docs/network.md has the defaults of tries, timeout, max_wait and max_size, and their
    environment variables.

    Args:
        source: a .csv, .tsv or .jsonl with `url` and optionally `name` and `checksum` (sha256 or md5); or archives by name, such
            as ``openslr:librispeech:dev-clean,test-clean``.
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
    for name, value in (("connections", connections), ("per_host", per_host), ("per_second", per_second)):
        if not value > 0:
            raise InputError(f"{name} is {value}; it must be more than 0")
    wanted, refused = read_list(source)
    folder = Path(out).absolute()
    with open_ledger(folder) as ledger:
        ledger.forget(wanted)
        for bad in refused:
            ledger.add(bad)
        rest, notes = _find_missing(folder, ledger, wanted)
        with closing(http.HttpClient(connections=per_host, timeout=network.timeout)) as client:
            if rest:
                queue = RateLimitedQueue([DownloadTask(one, one.url) for one in rest], per_host=per_host, per_second=per_second)
                with byte_progress(len(rest)) as bar:
                    _Worker(folder, ledger, client, network, queue, bar).work_in_threads(connections)
        rows = {one: row for one in wanted if (row := ledger.row(one))}
    done = {one: row for one, row in rows.items() if row.state == "done"}
    num_fetched = len(done.keys() & rest)
    problems = [f"{row.name}: {row.reason}" for row in rows.values() if row.state == "failed"]
    problems += [f"{bad.name or bad.url or 'the list'}: {bad.reason}" for bad in refused]
    if unproven := sum(row.checksum is None for row in done.values()):
        notes.append(f"{unproven:,} of the files have no checksum; only their lengths were verified")
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


def _find_missing(folder: Path, ledger: Ledger, wanted: list[DownloadItem]) -> tuple[list[DownloadItem], list[str]]:
    """Return the files that are not complete, and notes on those that changed; write all others to the ledger."""
    sizes = [path.stat().st_size if (path := folder / one.name).is_file() else 0 for one in wanted]
    rest, notes = [], []
    with (
        ThreadPoolExecutor(2) as pool,
        progress.progress("look at files", sum(sizes) / 1e9, "GB", show=sum(sizes) > _LONG_WORK_BYTES) as advance,
    ):
        for one, size, row in zip(wanted, sizes, pool.map(partial(find_complete, folder, ledger), wanted), strict=True):
            advance(size / 1e9)
            if row is None:
                rest.append(one)
                if size:
                    notes.append(f"{one.name} has changed, or does not match the list any more; it is downloaded again")
            elif row.state == "failed" or row != ledger.row(one):
                ledger.add(row)
    return rest, notes


class _Worker(Fetcher):
    """Downloads the files of a queue, in any number of threads."""

    def work_in_threads(self, connections: int) -> None:
        with ThreadPoolExecutor(connections) as pool:
            try:
                futures = {pool.submit(self.work) for _ in range(connections)}
                while futures:
                    # A timeout, so that a Ctrl-C just before the wait is noticed.
                    done, futures = wait(futures, timeout=1.0, return_when=FIRST_EXCEPTION)
                    for future in done:
                        future.result()
            except BaseException:
                self.queue.stop()
                self.client.hang_up()
                raise

    def work(self) -> None:
        try:
            with atomic.raise_disk_full(self.folder):
                while (task := self.queue.take()) is not None:
                    self._download(task)
        except BaseException:
            self.queue.stop()  # other threads would wait for the end of this task
            raise

    def _download(self, task: DownloadTask) -> None:
        if given_up := self.network.given_up(task.host):
            self._give_up(task, given_up)
            return
        began = time.monotonic()
        try:
            with progress.waiting(task.host):
                row = self.fetch(task)
        except RetryableError as error:
            have = atomic.size_of(partial_path(self.folder, task.wanted))
            if have > task.reached:
                task.failures, task.reached, task.lost = -1, have, 0.0
            task.failures += 1
            # Of a broken transfer, only the silence.
            failed = min(time.monotonic() - began, self.network.timeout)
            if not self.queue.stopped:
                self._retry(task, error, failed)
        except PermanentError as error:
            self.network.succeeded(task.host)  # it responds
            if not self.queue.stopped:
                self._give_up(task, str(error))
        except OSError as error:
            if atomic.disk_full_reason(error):
                raise
            self._give_up(task, f"it cannot be written: {error.strerror}")
        else:
            if row is None:
                self.queue.requeue(task)
                return
            self.network.succeeded(task.host)
            self.bar.finish(task.wanted.name)
            self.queue.finish(task)

    def _retry(self, task: DownloadTask, error: RetryableError, failed: float) -> None:
        """Queue a task again after a pause, or give it up; `failed` is the seconds of the failed request."""
        now = time.monotonic()
        task.lost += failed + task.pause
        reason = urls.redact(str(error), task.wanted.url, task.address)
        self.network.failed(task.host, failed + max(task.pause, self.queue.spacing), reason, now=now)
        task.pause = 0.0
        if error.pause is not None and not self.network.may_wait(task.host, error.pause, item=task.lost, now=now):
            most = self.network.max_wait
            reason = f"{reason}, and {task.host} requires a wait of {error.pause:,.0f} s, more than the limit of {most:,.0f} s"
            self._give_up(task, reason, self.queue.withdraw(task) if error.pause > most else ())
        elif given_up := self.network.given_up(task.host):
            self._give_up(task, given_up, self.queue.withdraw(task))
        elif task.failures >= self.network.tries or (task.failures and task.lost >= self.network.tries * self.network.timeout):
            self._give_up(task, f"{reason} ({task.failures} tries in a row without a new byte)")
        else:
            task.address, task.passed = task.wanted.url, set()
            if error.pause is None:
                task.pause = backoff_seconds(task.failures)
            task.lost += error.pause or 0.0
            self.queue.requeue(task, after=error.pause or task.pause, rest=error.pause is not None)

    def _give_up(self, task: DownloadTask, reason: str, others: Iterable[DownloadTask] = ()) -> None:
        """Write the failure of a task, and of others of its host, to the ledger, and finish the task."""
        for one in (*others, task):
            # The next run resumes a partial file.
            partial_file = partial_path(self.folder, one.wanted)
            if partial_file.is_file() and not partial_file.stat().st_size:
                partial_file.unlink()
            part = self.ledger.part(one.wanted) if partial_file.exists() else None
            row = self.ledger.row(one.wanted)
            before = part or Row.of(one.wanted, "failed", sha256=row.sha256 if row else None)
            redacted = urls.redact(reason, one.wanted.url, one.address)
            self.ledger.add(replace(before, state="failed", checksum=one.wanted.checksum, reason=redacted))
            self.bar.finish(one.wanted.name)
        self.queue.finish(task)


@contextmanager
def byte_progress(num_files: int) -> Iterator[ByteProgress]:
    """Show progress in bytes, with rate, time left and silent hosts."""
    with progress.open_bar(total=0, desc="fetch", unit="B", unit_scale=True, bar_format=_LAYOUT) as bar:
        shown = ByteProgress(bar, num_files)
        with progress.naming_hosts(shown.show_waiting):
            yield shown
