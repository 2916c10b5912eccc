"""Progress in bytes over files whose lengths become known one by one."""

import threading
from types import TracebackType

from nbaudio.core.progress import naming_hosts, open_bar

_LAYOUT = "{desc} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt}  {elapsed} passed, {remaining} left, {rate_fmt}{postfix}"


class ByteProgress:
    """A bar with rate and time left; threads may tell it things at the same time.

    A file whose length is not known yet is taken to be as long as the others are on average.

    Args:
        files: how many there are.
    """

    def __init__(self, files: int) -> None:
        self._lock = threading.Lock()
        self._files = files
        self._done = 0
        self._left: dict[str, int] = {}
        self._all_left = 0
        self._lengths: dict[str, int] = {}
        self._all_lengths = 0
        self._finished = self._waiting = ""
        self._bar = open_bar(total=0, desc="fetch", unit="B", unit_scale=True, bar_format=_LAYOUT)

    def expect(self, name: str, coming: int) -> None:
        """So many bytes of a file are to come, whatever was thought before."""
        with self._lock:
            self._all_left += coming - self._left.get(name, 0)
            self._left[name] = coming
            self._all_lengths += coming - self._lengths.get(name, 0)
            self._lengths[name] = coming
            self._estimate()

    def advance(self, name: str, came: int) -> None:
        """So many have come."""
        with self._lock:
            self._left[name] -= came
            self._all_left -= came
            self._bar.update(came)

    def finish(self, name: str) -> None:
        """Nothing more comes of a file."""
        with self._lock:
            self._all_left -= self._left.get(name, 0)
            self._left[name] = 0
            self._done += 1
            self._finished = f"{self._done:,}/{self._files:,} files"
            self._say(refresh=False)
            self._estimate()

    def wait(self, hosts: str) -> None:
        """Words about the hosts that are waited for; none when there are none."""
        with self._lock:
            self._waiting = hosts
            self._say(refresh=True)

    def _say(self, *, refresh: bool) -> None:
        self._bar.set_postfix_str(", ".join(filter(None, (self._finished, self._waiting))), refresh=refresh)

    def _estimate(self) -> None:
        unknown = self._files - max(len(self._lengths), self._done)
        mean = self._all_lengths / len(self._lengths) if self._lengths else 0
        self._bar.total = self._bar.n + max(self._all_left, 0) + round(unknown * mean)

    def __enter__(self) -> "ByteProgress":
        self._naming = naming_hosts(self.wait)
        self._naming.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._naming.__exit__(kind, error, trace)
        self._bar.close()
