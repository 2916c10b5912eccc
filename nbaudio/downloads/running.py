"""The work of one download: what is there, what is asked for again and when, and what is given up."""

import errno
import hashlib
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from nbaudio.downloads.fetching import Again, Fetcher, Never, Web, partial_of, present
from nbaudio.downloads.ledger import Ledger, Row
from nbaudio.downloads.lists import Wanted
from nbaudio.downloads.meter import Meter
from nbaudio.downloads.turns import Task, Turns
from nbaudio.errors import DiskFullError
from nbaudio.progress import progress

_FIRST_PAUSE = 1.0
_LONG_WORK_BYTES = 1_000_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Pauses:
    """How long to wait before another try, and when to give up.

    Attributes:
        tries: in a row without a new byte.
        longest: seconds.
        seed: of the random share.
    """

    tries: int
    longest: float
    seed: int

    def before(self, url: str, failures: int) -> float:
        """Seconds before the next try: twice as many each time, a half of it by chance, so that clients don't come all at once.

        Examples:
            >>> pauses = Pauses(6, 900.0, seed=42)
            >>> [0.5 * 2**n <= pauses.before("http://example.org/a.wav", n + 1) < 2**n for n in range(4)]
            [True, True, True, True]
        """
        key = f"{self.seed} {failures} {url}".encode(errors="surrogatepass")
        chance = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / 2**64
        return min(_FIRST_PAUSE * 2.0 ** max(failures - 1, 0), self.longest) * (0.5 + chance / 2)


@dataclass
class Run:
    """What is done for one folder.

    Attributes:
        folder: where the files go.
        ledger: of the folder.
        pauses: between tries.
        fetched: rows of what came.
        taken: how many names something else had.
        notes: worth knowing.
    """

    folder: Path
    ledger: Ledger
    pauses: Pauses
    fetched: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    taken: int = 0

    def look(self, wanted: list[Wanted]) -> list[Wanted]:
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
                        self.ledger.add(Row(one.url, one.name, "failed", reason=there))
                    case None:
                        rest.append(one)
                        if size:
                            self.notes.append(
                                f"{one.name} is not what was fetched, or not what is wanted now; it is fetched anew"
                            )
        return rest

    def fetch(self, rest: list[Wanted], web: Web, turns: Turns, connections: int) -> None:
        """Take turns until there are none left."""
        if not rest:
            return
        with Meter(len(rest)) as meter, ThreadPoolExecutor(connections) as pool:

            def advance(task: Task, came: int) -> None:
                meter.advance(task.wanted.name, came)
                if turns.stopped:
                    raise Never("stopped")

            fetcher = Fetcher(self.folder, self.ledger, web, lambda task, coming: meter.expect(task.wanted.name, coming), advance)
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

    def _present(self, one: Wanted) -> Row | str | None:
        try:
            return present(self.folder, self.ledger, one)
        except OSError as error:
            return f"what is there cannot be read: {error.strerror}"

    def _work(self, fetcher: Fetcher, turns: Turns, meter: Meter) -> None:
        try:
            while (task := turns.take()) is not None:
                self._turn(task, fetcher, turns, meter)
        except BaseException as error:
            turns.stop()  # or the others would wait for this task's end
            if isinstance(error, OSError) and error.errno in _FULL:
                told = f"{self.folder}: {error.strerror}; make room and run the same again, what is done is kept"
                raise DiskFullError(told) from error
            raise

    def _turn(self, task: Task, fetcher: Fetcher, turns: Turns, meter: Meter) -> None:
        try:
            row = fetcher.turn(task)
        except Again as error:
            if not turns.stopped:
                self._again(task, error, fetcher.have(task.wanted), turns, meter)
        except Never as error:
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
            self.fetched.append(row)
            meter.finish(row.name or "")
            turns.finish(task)

    def _again(self, task: Task, error: Again, have: int, turns: Turns, meter: Meter) -> None:
        if have > task.reached:
            task.failures, task.reached = 0, have
        else:
            task.failures += 1
        if error.pause is not None and error.pause > self.pauses.longest:
            asked = f"{task.host} asks for a pause of {error.pause:,.0f} s, at most {self.pauses.longest:,.0f} are waited"
            reason = f"{error}, and {asked}"
            for other in turns.withdraw(task):
                self._fail(other.wanted, reason)
                meter.finish(other.wanted.name)
            self._give_up(task, reason, turns, meter)
        elif task.failures >= self.pauses.tries:
            self._give_up(task, f"{error} ({task.failures} tries in a row without a new byte)", turns, meter)
        else:
            task.address, task.redirects = task.wanted.url, 0
            after = self.pauses.before(task.wanted.url, task.failures) if error.pause is None else error.pause
            turns.again(task, after=after, rest=error.busy)

    def _give_up(self, task: Task, reason: str, turns: Turns, meter: Meter) -> None:
        self._fail(task.wanted, reason)
        meter.finish(task.wanted.name)
        turns.finish(task)

    def _fail(self, wanted: Wanted, reason: str) -> None:
        # The next run goes on with the part, if there is one.
        partial = partial_of(self.folder, wanted)
        if partial.is_file() and not partial.stat().st_size:
            partial.unlink()
        part = self.ledger.part(wanted.url, wanted.name) if partial.exists() else None
        row = self.ledger.row(wanted.url, wanted.name)
        before = part or Row(wanted.url, wanted.name, "failed", sha256=row.sha256 if row else None)
        self.ledger.add(replace(before, state="failed", checksum=wanted.checksum, reason=reason))
