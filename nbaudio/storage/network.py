"""Timeouts, retries and size limits of requests; hosts that only fail are skipped for the rest of a run.

Environment variables set the limits for Python functions, notebooks and workers; options of the command line take precedence:

    NBAUDIO_TIMEOUT   --timeout    seconds without a byte before a request fails
    NBAUDIO_TRIES     --tries      consecutive failed requests before an item fails
    NBAUDIO_MAX_WAIT  --max-wait   seconds that a server may ask to wait for an item (Retry-After)
    NBAUDIO_MAX_SIZE  --max-size   size of the largest file that is fetched
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import parse_size

#: Default size limits in bytes: of a file whose length the server announces, and of one whose length it does not.
MAX_ANNOUNCED = 1_000_000_000_000
MAX_UNKNOWN_LENGTH = 1_000_000_000

_PREFIX = "NBAUDIO_"
# How to parse a limit, which values are valid, and how a message says so.
_KINDS: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], bool], str]] = {
    "timeout": (float, lambda value: 0 < value < float("inf"), "must be more than 0 seconds"),
    "tries": (int, lambda value: value >= 1, "must be a whole number, 1 or more"),
    "max_wait": (float, lambda value: value >= 0, "must be a number of seconds"),
    "max_size": (parse_size, lambda value: value >= 1, "must be a size such as 50GB"),
}


@dataclass
class _Failing:
    """A host since its last success: seconds of failed requests (parallel ones once) and of Retry-After; last reason."""

    spent: float = 0.0
    waited: float = 0.0
    until: float = 0.0
    reason: str = ""


_lock = threading.Lock()
_failing: dict[tuple[str, str], _Failing] = {}


@dataclass(frozen=True)
class Network:
    """Limits of one run in seconds and bytes; picklable, so that workers have the same.

    With the defaults, an item that only fails costs at most 60 s (three tries of 15 s and the pauses between them, or pauses of
    up to 45 s by Retry-After and a last try), and a host that only fails at most 120 s over all its items: no request to it is
    sent after 90 s have been lost. `run` identifies the run: hosts that failed are tried again in the next one. `max_size` None
    means `MAX_ANNOUNCED` or `MAX_UNKNOWN_LENGTH`.
    """

    timeout: float = 15.0
    tries: int = 3
    max_wait: float = 45.0
    max_size: int | None = None
    run: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, **given: Any) -> "Network":
        """Return the limits that are given and not None, else those of the environment, else the defaults."""
        found: dict[str, Any] = {}
        for name, (kind, usable, wanted) in _KINDS.items():
            called, value = name, given.get(name)
            if value is None:
                called = f"--{name.replace('_', '-')} or {_PREFIX}{name.upper()}"
                value = os.environ.get(_PREFIX + name.upper()) or None
            if value is None:
                continue
            with suppress(ValueError, TypeError, InputError):
                found[name] = kind(value)
            if name not in found or not usable(found[name]):
                raise InputError(f"{called} is {value}; it {wanted}")
        return cls(**found)

    def check_size(self, place: object, num_bytes: int) -> None:
        """Raise InputError if the server announces a file larger than the limit."""
        most = self.max_size or MAX_ANNOUNCED
        if num_bytes > most:
            raise InputError(f"{place}: the server announces {num_bytes:,} bytes; at most {most:,} are fetched (--max-size)")

    def given_up(self, host: str) -> str | None:
        """Return why no further request is sent to a host in this run, or None."""
        state, plain = _failing.get((self.run, host), _Failing()), self.tries * self.timeout
        lost = state.spent + state.waited
        if state.spent < 2 * plain and lost < 2 * max(plain, self.max_wait):
            return None
        return f"skipped for the rest of this run: {host} has only failed for {lost:,.0f} s ({state.reason})"

    def failed(self, host: str, seconds: float, reason: str, *, now: float) -> None:
        """Record a failed request of so many seconds, with the pause before it, of a broken transfer only the silence."""
        with _lock:
            state = _failing.setdefault((self.run, host), _Failing())
            state.spent += max(0.0, now - max(now - seconds, state.until))
            state.until = max(state.until, now)
            state.reason = reason

    def may_wait(self, host: str, pause: float, *, item: float, now: float) -> bool:
        """Record the seconds of a Retry-After; return whether `max_wait` allows them after `item` seconds for the item so far."""
        with _lock:
            state = _failing.setdefault((self.run, host), _Failing())
            more = max(0.0, now + pause - max(now, state.until))
            most = 2 * max(self.tries * self.timeout, self.max_wait)
            if item + pause > self.max_wait or state.spent + state.waited + more > most:
                return False
            state.waited += more
            state.until = max(state.until, now + pause)
            return True

    def succeeded(self, host: str) -> None:
        """Record a request that did not fail."""
        with _lock:
            _failing.pop((self.run, host), None)


@contextmanager
def environment(**given: object) -> Iterator[None]:
    """Set the environment variables of the limits that are not None within the context."""
    names = {_PREFIX + name.upper(): str(value) for name, value in given.items() if value is not None}
    before = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(names)
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
