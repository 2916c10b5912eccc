"""Whose turn it is: many files and connections, and no host is asked more often than is polite.

Conventions: one turn is one request. A redirect or another try is another turn, under the host that it goes to, so that rate,
connections and pauses hold for whoever serves the bytes. Times are seconds of the monotonic clock.
"""

import heapq
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nbaudio.core.progress import waiting
from nbaudio.storage.download.lists import DownloadItem


@dataclass
class DownloadTask:
    """A file on its way.

    Attributes:
        wanted: the file.
        address: where the next request goes; a redirect moves it.
        redirects: how many led there.
        passed: addresses that they led through.
        failures: in a row, without a new byte.
        reached: the most bytes that were ever there.
        lost: seconds that failed requests and pauses took since a byte came, without those in which others had their turns.
        pause: seconds, before the next try.
        host: whose turn it takes, with its port.
    """

    wanted: DownloadItem
    address: str
    redirects: int = 0
    failures: int = 0
    reached: int = 0
    lost: float = 0.0
    pause: float = 0.0
    passed: set[str] = field(default_factory=set)
    host: str = ""


@dataclass
class _Host:
    waiting: list[tuple[float, int, DownloadTask]] = field(default_factory=list)  # a heap: when it may, in what order
    active: int = 0
    free_at: float = 0.0


class RateLimitedQueue:
    """Tasks, handed out to any number of threads.

    Args:
        tasks: all there are; a host's are begun in this order.
        per_host: connections at once to a host.
        per_second: requests to a host.

    Attributes:
        spacing: seconds between requests to a host.
        stopped: whether there are no more turns.
    """

    def __init__(self, tasks: Iterable[DownloadTask], *, per_host: int, per_second: float) -> None:
        self._per_host = per_host
        self.spacing = 1 / per_second
        self._changed = threading.Condition()
        self._hosts: defaultdict[str, _Host] = defaultdict(_Host)
        self._order = itertools.count()
        self._left = 0
        self.stopped = False
        for task in tasks:
            self._left += 1
            self._enqueue(task, 0.0)

    def take(self) -> DownloadTask | None:
        """The next task, as soon as its host may be asked; None when there are no more."""
        with self._changed:
            while self._left and not self.stopped:
                now = time.monotonic()
                open_ = [host for host in self._hosts.values() if host.waiting and host.active < self._per_host]
                host = min(open_, key=lambda host: (max(host.free_at, host.waiting[0][0], now), host.active), default=None)
                if host is None:
                    self._changed.wait()
                elif (ready := max(host.free_at, host.waiting[0][0])) > now:
                    with waiting(host.waiting[0][2].host):
                        self._changed.wait(ready - now)
                else:
                    host.active += 1
                    host.free_at = now + self.spacing
                    return heapq.heappop(host.waiting)[2]
            return None

    def again(self, task: DownloadTask, *, after: float = 0.0, rest: bool = False) -> None:
        """Another turn for a task, at its address, after some seconds; `rest`: its host is left alone for as long."""
        with self._changed:
            self._hosts[task.host].active -= 1
            ready = time.monotonic() + after
            if rest:
                self._hosts[task.host].free_at = max(self._hosts[task.host].free_at, ready)
            self._enqueue(task, ready)
            self._changed.notify_all()

    def finish(self, task: DownloadTask) -> None:
        """A task needs no more turns."""
        with self._changed:
            self._hosts[task.host].active -= 1
            self._left -= 1
            self._changed.notify_all()

    def withdraw(self, task: DownloadTask) -> list[DownloadTask]:
        """All other tasks that wait for this one's host; they count as finished."""
        with self._changed:
            waiting, self._hosts[task.host].waiting = self._hosts[task.host].waiting, []
            self._left -= len(waiting)
            self._changed.notify_all()
            return [task for _, _, task in sorted(waiting)]

    def stop(self) -> None:
        """No more turns for anybody."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def _enqueue(self, task: DownloadTask, ready: float) -> None:
        task.host = urlsplit(task.address).netloc.rpartition("@")[2]
        heapq.heappush(self._hosts[task.host].waiting, (ready, next(self._order), task))
