"""The work of one download: what is there, what is asked for again and when, and what is given up."""

import errno
import hashlib
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from nbaudio.core.errors import DiskFullError
from nbaudio.core.progress import progress, waiting
from nbaudio.storage.download.fetch import Fetcher, HttpClient, PermanentError, RetryableError, is_downloaded, partial_path
from nbaudio.storage.download.ledger import Ledger, Row
from nbaudio.storage.download.lists import DownloadItem
from nbaudio.storage.download.meter import ByteProgress
from nbaudio.storage.download.rate_limit import DownloadTask, RateLimitedQueue
from nbaudio.storage.network import Network
from nbaudio.storage.urls import redact

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_LONG_WORK_BYTES = 1_000_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Backoff:
    """How long to wait before another try.

    Attributes:
        seed: of the random share.
    """

    seed: int

    def before(self, url: str, failures: int) -> float:
        """Seconds before the next try: twice as many each time, a half of it by chance, so that clients don't come all at once.

        Examples:
            >>> pauses = Backoff(seed=42)
            >>> [0.25 * 2**n <= pauses.before("http://example.org/a.wav", n + 1) < 0.5 * 2**n for n in range(4)]
            [True, True, True, True]
        """
        key = f"{self.seed} {failures} {url}".encode(errors="surrogatepass")
        chance = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / 2**64
        return min(_FIRST_PAUSE * 2.0 ** max(failures - 1, 0), _LONGEST_PAUSE) * (0.5 + chance / 2)


@dataclass
class DownloadRun:
    """What is done for one folder.

    Attributes:
        folder: where the files go.
        ledger: of the folder.
        network: limits.
        pauses: between tries.
        fetched: rows of what came.
        taken: how many names something else had.
        notes: worth knowing.
    """

    folder: Path
    ledger: Ledger
    network: Network
    pauses: Backoff
    fetched: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    taken: int = 0

    def look(self, wanted: list[DownloadItem]) -> list[DownloadItem]:
        """Those that are not there yet; names that something else has are told to the ledger."""
        sizes = [path.stat().st_size if (path := self.folder / one.name).is_file() else 0 for one in wanted]
        rest = []
        with (
            ThreadPoolExecutor(2) as pool,
            progress("look at files", sum(sizes) / 1e9, "GB", show=sum(sizes) > _LONG_WORK_BYTES) as advance,
        ):
            for one, size, there in zip(wanted, sizes, pool.map(self._present, wanted), strict=True):
                advance(size / 1e9)
                match there:
                    case Row():
                        if there != self.ledger.row(one.url, one.name):
                            self.ledger.add(there)
                    case str():
                        self.taken += 1
                        self.ledger.add(Row.of(one.url, one.name, "failed", reason=there))
                    case None:
                        rest.append(one)
                        if size:
                            self.notes.append(
                                f"{one.name} is not what was fetched, or not what is wanted now; it is fetched anew"
                            )
        return rest

    def fetch(self, rest: list[DownloadItem], web: HttpClient, turns: RateLimitedQueue, connections: int) -> None:
        """Take turns until there are none left."""
        if not rest:
            return
        with ByteProgress(len(rest)) as meter, ThreadPoolExecutor(connections) as pool:

            def advance(task: DownloadTask, came: int) -> None:
                meter.advance(task.wanted.name, came)
                if turns.stopped:
                    raise PermanentError("stopped")

            fetcher = Fetcher(
                self.folder, self.ledger, web, self.network, lambda task, coming: meter.expect(task.wanted.name, coming), advance
            )
            try:
                works = {pool.submit(self._work, fetcher, turns, meter) for _ in range(connections)}
                while works:
                    # Now and then, for a Ctrl-C that came just before the wait.
                    done, works = wait(works, timeout=1.0, return_when=FIRST_EXCEPTION)
                    for work in done:
                        work.result()
            except BaseException:
                turns.stop()
                web.hang_up()
                raise

    def _present(self, one: DownloadItem) -> Row | str | None:
        try:
            return is_downloaded(self.folder, self.ledger, one)
        except OSError as error:
            return f"what is there cannot be read: {error.strerror}"

    def _work(self, fetcher: Fetcher, turns: RateLimitedQueue, meter: ByteProgress) -> None:
        try:
            while (task := turns.take()) is not None:
                self._turn(task, fetcher, turns, meter)
        except BaseException as error:
            turns.stop()  # or the others would wait for this task's end
            if isinstance(error, OSError) and error.errno in _FULL:
                told = f"{self.folder}: {error.strerror}; make room and run the same again, what is done is kept"
                raise DiskFullError(told) from error
            raise

    def _turn(self, task: DownloadTask, fetcher: Fetcher, turns: RateLimitedQueue, meter: ByteProgress) -> None:
        if given_up := self.network.given_up(task.host):
            self._give_up(task, given_up, turns, meter)
            return
        began = time.monotonic()
        try:
            with waiting(task.host):
                row = fetcher.turn(task)
        except RetryableError as error:
            if fetcher.have(task.wanted) > task.reached:
                task.failures, task.reached, task.lost = -1, fetcher.have(task.wanted), 0.0
            task.failures += 1
            # Of a transfer that broke, the silence alone.
            failed = min(time.monotonic() - began, self.network.timeout)
            if not turns.stopped:
                self._again(task, error, failed, turns, meter)
        except PermanentError as error:
            self.network.succeeded(task.host)  # it answers
            if not turns.stopped:
                self._give_up(task, str(error), turns, meter)
        except OSError as error:
            if error.errno in _FULL:
                raise
            self._give_up(task, f"it cannot be written: {error.strerror}", turns, meter)
        else:
            if row is None:
                turns.again(task)
                return
            self.network.succeeded(task.host)
            self.fetched.append(row)
            meter.finish(row.name or "")
            turns.finish(task)

    def _again(
        self, task: DownloadTask, error: RetryableError, failed: float, turns: RateLimitedQueue, meter: ByteProgress
    ) -> None:
        now = time.monotonic()
        task.lost += failed + task.pause
        reason = redact(str(error), task.wanted.url, task.address)
        self.network.failed(task.host, failed + max(task.pause, turns.spacing), reason, now=now)
        task.pause = 0.0
        if error.pause is not None and not self.network.may_wait(task.host, error.pause, item=task.lost, now=now):
            most = self.network.max_wait
            reason = f"{reason}, and {task.host} asks for a pause of {error.pause:,.0f} s, at most {most:,.0f} are waited"
            (self._withdraw if error.pause > most else self._give_up)(task, reason, turns, meter)
        elif given_up := self.network.given_up(task.host):
            self._withdraw(task, given_up, turns, meter)
        elif task.failures >= self.network.tries or (task.failures and task.lost >= self.network.tries * self.network.timeout):
            self._give_up(task, f"{reason} ({task.failures} tries in a row without a new byte)", turns, meter)
        else:
            task.address, task.redirects, task.passed = task.wanted.url, 0, set()
            if error.pause is None:
                task.pause = self.pauses.before(task.wanted.url, task.failures)
            else:
                task.lost += error.pause
            turns.again(task, after=task.pause if error.pause is None else error.pause, rest=error.busy)

    def _withdraw(self, task: DownloadTask, reason: str, turns: RateLimitedQueue, meter: ByteProgress) -> None:
        """Give up a task and all others that wait for its host."""
        for other in turns.withdraw(task):
            self._fail(other, reason)
            meter.finish(other.wanted.name)
        self._give_up(task, reason, turns, meter)

    def _give_up(self, task: DownloadTask, reason: str, turns: RateLimitedQueue, meter: ByteProgress) -> None:
        self._fail(task, reason)
        meter.finish(task.wanted.name)
        turns.finish(task)

    def _fail(self, task: DownloadTask, reason: str) -> None:
        wanted = task.wanted
        # The next run goes on with the part, if there is one.
        partial = partial_path(self.folder, wanted)
        if partial.is_file() and not partial.stat().st_size:
            partial.unlink()
        part = self.ledger.part(wanted.url, wanted.name) if partial.exists() else None
        row = self.ledger.row(wanted.url, wanted.name)
        before = part or Row.of(wanted.url, wanted.name, "failed", sha256=row.sha256 if row else None)
        told = redact(reason, wanted.url, task.address)
        self.ledger.add(replace(before, state="failed", checksum=wanted.checksum, reason=told))
