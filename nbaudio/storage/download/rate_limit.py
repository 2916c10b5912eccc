"""Queue of downloads with limits per host; redirects and retries go through it again, under the host that sends the bytes."""

import heapq
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nbaudio.core.progress import waiting
from nbaudio.storage.download.ledger import DownloadItem


@dataclass
class DownloadTask:
    """A file that is being downloaded."""

    wanted: DownloadItem
    address: str  # of the next request; a redirect changes it
    failures: int = 0  # consecutive requests without a new byte
    reached: int = 0  # most bytes that the partial file ever had
    lost: float = 0.0  # seconds of failed requests and pauses since the last new byte, without time in the queue
    pause: float = 0.0  # seconds before the next try
    passed: set[str] = field(default_factory=set)  # URLs of the redirects that led to the URL
    host: str = ""  # of the URL, with its port


@dataclass
class _Host:
    queue: list[tuple[float, int, DownloadTask]] = field(default_factory=list)  # a heap, by earliest time and order
    active: int = 0
    free_at: float = 0.0


class RateLimitedQueue:
    """Tasks for any number of threads, in order, with limits per host; `spacing` is the seconds between requests to one."""

    def __init__(self, tasks: Sequence[DownloadTask], *, per_host: int, per_second: float) -> None:
        self._per_host = per_host
        self.spacing = 1 / per_second
        self._changed = threading.Condition()
        self._hosts: defaultdict[str, _Host] = defaultdict(_Host)
        self._order = itertools.count()
        self._left = len(tasks)
        self.stopped = False
        for task in tasks:
            self._enqueue(task, 0.0)

    def take(self) -> DownloadTask | None:
        """Return the next task as soon as the limits of its host allow it; None when no tasks are left."""
        with self._changed:
            while self._left and not self.stopped:
                now = time.monotonic()
                free = [host for host in self._hosts.values() if host.queue and host.active < self._per_host]
                host = min(free, key=lambda host: (max(host.free_at, host.queue[0][0], now), host.active), default=None)
                if host is None:
                    self._changed.wait()
                elif (ready := max(host.free_at, host.queue[0][0])) > now:
                    with waiting(host.queue[0][2].host):
                        self._changed.wait(ready - now)
                else:
                    host.active += 1
                    host.free_at = now + self.spacing
                    return heapq.heappop(host.queue)[2]
            return None

    def requeue(self, task: DownloadTask, *, after: float = 0.0, rest: bool = False) -> None:
        """Queue a task again after some seconds; `rest` sends no request to its host until then."""
        with self._changed:
            self._hosts[task.host].active -= 1
            ready = time.monotonic() + after
            if rest:
                self._hosts[task.host].free_at = max(self._hosts[task.host].free_at, ready)
            self._enqueue(task, ready)
            self._changed.notify_all()

    def finish(self, task: DownloadTask) -> None:
        """Count a task as finished."""
        with self._changed:
            self._hosts[task.host].active -= 1
            self._left -= 1
            self._changed.notify_all()

    def withdraw(self, task: DownloadTask) -> list[DownloadTask]:
        """Remove all other tasks of a task's host from the queue and return them in order."""
        with self._changed:
            queue, self._hosts[task.host].queue = self._hosts[task.host].queue, []
            self._left -= len(queue)
            self._changed.notify_all()
            return [task for _, _, task in sorted(queue)]

    def stop(self) -> None:
        """Return no more tasks."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()

    def _enqueue(self, task: DownloadTask, ready: float) -> None:
        task.host = urlsplit(task.address).netloc.rpartition("@")[2]
        heapq.heappush(self._hosts[task.host].queue, (ready, next(self._order), task))
