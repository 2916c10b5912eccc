"""Timeouts, retries and size limits of requests (docs/ingest.md).

Hosts that only fail are skipped for the rest of a run.
"""

import errno
import os
import random
import re
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from nbaudio.core import atomic, input_guards, progress
from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.core.report import escape_control

#: Default size limits in bytes: of a file whose length the server announces, and of one whose
#: length it does not.
MAX_ANNOUNCED = 1_000_000_000_000
MAX_UNKNOWN_LENGTH = 1_000_000_000

_PREFIX = "NBAUDIO_"
# How to parse a limit, which values are valid, and how a message says so.
_KINDS: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], bool], str]] = {
    "timeout": (float, lambda value: 0 < value < float("inf"), "must be more than 0 seconds"),
    "tries": (int, lambda value: value >= 1, "must be a whole number, 1 or more"),
    "max_wait": (float, lambda value: value >= 0, "must be a number of seconds"),
    "max_size": (input_guards.parse_size, lambda value: value >= 1, "must be a size such as 50GB"),
}


@dataclass
class _Failing:
    """A host since its last success.

    Seconds in which several requests failed or waited at once are counted once.

    Attributes:
        spent: seconds of failed requests, with the pauses before them.
        waited: seconds of Retry-After.
        until: the time up to which seconds are counted, by `time.monotonic`.
        reason: of the last failure.
    """

    spent: float = 0.0
    waited: float = 0.0
    until: float = 0.0
    reason: str = ""


_lock = threading.Lock()
_failing: dict[tuple[str, str], _Failing] = {}


@dataclass(frozen=True)
class Network:
    """Limits of one run in seconds and bytes, picklable for workers.

    Hosts that failed are tried again under another `run`.
    """

    timeout: float = 15.0
    tries: int = 3
    max_wait: float = 45.0
    max_size: int | None = None  # None: `MAX_ANNOUNCED` or `MAX_UNKNOWN_LENGTH`
    run: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, **limits: Any) -> "Network":
        """Return the limits that are given, else those of the environment, else the defaults.

        A limit of None is not given. Raise InputError for a value that is not valid.
        """
        values: dict[str, Any] = {}
        for name, (parse, is_valid, requirement) in _KINDS.items():
            label = name
            text = limits.get(name)
            if text is None:
                label = f"--{name.replace('_', '-')} or {_PREFIX}{name.upper()}"
                text = os.environ.get(_PREFIX + name.upper()) or None
            if text is None:
                continue
            with suppress(ValueError, TypeError, InputError):
                values[name] = parse(text)
            if name not in values or not is_valid(values[name]):
                raise InputError(f"{label} is {text}; it {requirement}")
        return cls(**values)

    def check_size(self, place: object, num_bytes: int) -> None:
        """Raise InputError if the server announces a file larger than the limit."""
        most = self.max_size or MAX_ANNOUNCED
        if num_bytes > most:
            raise InputError(
                f"{place}: the server announces {num_bytes:,} bytes; "
                f"at most {most:,} are fetched (--max-size)"
            )

    def given_up(self, host: str) -> str | None:
        """Return why no further request is sent to a host in this run, or None."""
        state = _failing.get((self.run, host), _Failing())
        plain = self.tries * self.timeout
        lost = state.spent + state.waited
        if state.spent < 2 * plain and lost < 2 * max(plain, self.max_wait):
            return None
        return (
            f"skipped for the rest of this run: {host} has only failed for {lost:,.0f} s "
            f"({state.reason})"
        )

    def failed(self, host: str, seconds: float, reason: str, *, now: float) -> None:
        """Record a failed request that ended at `now`.

        `seconds` include the pause before it; of a transfer that broke, they are only those in
        which the host was silent or too slow.
        """
        with _lock:
            state = _failing.setdefault((self.run, host), _Failing())
            state.spent += max(0.0, now - max(now - seconds, state.until))
            state.until = max(state.until, now)
            state.reason = reason

    def may_wait(self, host: str, pause: float, *, item: float, now: float) -> bool:
        """Return whether the limits allow a Retry-After of `pause` seconds; if so, record it.

        `max_wait` is for the whole item, on which `item` seconds have been spent so far.
        """
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


class Place(Protocol):
    """A file or folder that requests are for; its text begins the messages about it."""

    @property
    def host(self) -> str:
        """The server with its port, or the bucket."""

    @property
    def network(self) -> Network:
        """The limits of its requests."""


@contextmanager
def environment(**limits: object) -> Iterator[None]:
    """Set the environment variables of the limits that are not None within the context."""
    variables = {
        _PREFIX + name.upper(): str(value) for name, value in limits.items() if value is not None
    }
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)


Result = TypeVar("Result")

#: Seconds before the first retry; doubled before each further one.
FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 60.0
_MAX_REASON = 300  # characters of a reason in a message
#: Statuses below 500 that a retry may resolve.
RETRYABLE = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
_REFUSALS: Mapping[int, str] = {
    HTTPStatus.PRECONDITION_FAILED: (
        "was changed meanwhile by somebody else; run the same command again"
    ),
}
# Errors that a retry does not resolve.
_PERMANENT = (ValueError, TypeError, LookupError, tarfile.TarError, zipfile.BadZipFile)


class RemoteRefusedError(AudioError):
    """The server responded with a refusal."""


class RedirectError(ConnectionError):
    """Too many redirects, or a redirect to a URL that is not allowed.

    The message has nothing of the URL that may be secret: user, password and query.
    """


class SlowError(ConnectionError):
    """Fewer bytes came in some seconds than of the slowest server that is waited for."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class ChangedError(AudioError):
    """Parts of a file are of different versions."""


class RemoteNotFoundError(RemoteRefusedError):
    """The file or folder does not exist."""


@contextmanager
def convert_error(caught: type[Exception], raised: type[Exception]) -> Iterator[None]:
    """Convert errors of one class to another with the same message."""
    try:
        yield
    except caught as error:
        raise raised(str(error)) from error


@dataclass(frozen=True)
class _Failure:
    """A failed request that a retry may resolve.

    Attributes:
        reason: one line on the error.
        at: when it failed, by `time.monotonic`.
        seconds: how long it took.
        lost_s: those of them in which the host was silent or too slow.
        delay: seconds of a Retry-After; None without one.
        is_slow: whether too few bytes came.
    """

    reason: str
    at: float
    seconds: float
    lost_s: float
    delay: float | None
    is_slow: bool

    @classmethod
    def of(cls, error: Exception, began: float, timeout: float) -> "_Failure":
        """Describe the error, just now, of a request that began at some time."""
        now = time.monotonic()
        seconds = now - began
        lost_s = min(seconds, timeout)
        if isinstance(error, SlowError):
            lost_s = error.seconds
        return cls(
            reason=one_line_error(error),
            at=now,
            seconds=seconds,
            lost_s=lost_s,
            delay=_retry_after_of(error),
            is_slow=isinstance(error, SlowError),
        )


@dataclass(frozen=True)
class _Tries:
    """Failed tries in a row, without bytes between them.

    Attributes:
        count: how many; a slow one counts as two.
        since: when the first of them began, by `time.monotonic`.
        received: bytes that had been received by then.
    """

    count: int
    since: float
    received: int

    def after(self, failure: _Failure, received: int) -> "_Tries":
        """Return the tries after a further failure, when so many bytes have been received."""
        if failure.is_slow:  # a slow try takes as long as two
            return replace(self, count=self.count + 2)
        if received > self.received:
            return _Tries(0, failure.at, received)
        return replace(self, count=self.count + 1)


def with_retries(
    place: Place,
    request: Callable[[], Result],
    *,
    done: str = "read",
    proves: bool = True,
    received: Callable[[], int] = int,
    wait: Callable[[float], object] | None = None,
) -> Result:
    """Return the result of a request, with retries (docs/ingest.md).

    Before a retry it waits as long as Retry-After of the response says, else `backoff_seconds`.

    Args:
        place: what the request is for; it names the host and the limits.
        request: may be called several times.
        done: a verb for messages: what is done with the place.
        proves: whether a result shows that the host works.
        received: returns the bytes so far; tries are counted anew when there are more.
        wait: replaces `time.sleep`.

    Raises:
        AudioError: the place cannot be reached, or the server refuses.
    """
    network = place.network
    host = place.host
    tries = _Tries(0, time.monotonic(), received())
    pause = 0.0
    while True:
        if skipped := network.given_up(host):
            raise AudioError(f"{place}: {skipped}")
        began = time.monotonic()
        try:
            with progress.waiting(host):
                value = request()
        except NbaudioError:
            raise
        except Exception as error:
            # A further name would keep the error, and the connection in its traceback, until the
            # next garbage collection.
            error = _underlying(error)
            if _is_of_local_disk(error):
                raise
            if permanent := _permanent_error(place, error, done):
                network.succeeded(host)  # it responds
                # Without the cause, whose text may hold the signed URL of a redirect.
                raise permanent from None
            failure = _Failure.of(error, began, network.timeout)
        else:
            if proves:
                network.succeeded(host)
            return value
        tries = tries.after(failure, received())
        network.failed(host, pause + failure.lost_s, failure.reason, now=failure.at)
        if not _may_wait(place, failure, since=tries.since):
            raise AudioError(
                f"{place}: the server requires a wait of {failure.delay:,.0f} s "
                f"({failure.reason}); try later"
            )
        is_retried = done == "read" and _is_retried_by_hub(place, failure)
        if tries.count >= network.tries or is_retried:
            raise AudioError(
                f"{place}: could not be {done} in {tries.count} tries ({failure.reason})"
            )
        pause = 0.0  # a wait that the server requires is no time of a failed request
        wait_s = failure.delay
        if wait_s is None:
            pause = wait_s = backoff_seconds(tries.count)
        with progress.waiting(host):
            (wait or time.sleep)(wait_s)


def _may_wait(place: Place, failure: _Failure, *, since: float) -> bool:
    """Record the wait that a server requires; return whether its limits allow it, or it has none.

    `since` is when the tries of the item began.
    """
    if failure.delay is None:
        return True
    item_s = failure.at - since
    return place.network.may_wait(place.host, failure.delay, item=item_s, now=failure.at)


def _underlying(error: Exception) -> Exception:
    """Return the failure that a filesystem reports as a missing file, else the error itself."""
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        return error.__cause__
    return error


def _is_of_local_disk(error: Exception) -> bool:
    is_long_name = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
    return is_long_name or bool(atomic.disk_full_reason(error))


def _is_retried_by_hub(place: Place, failure: _Failure) -> bool:
    """Return whether the Hub's library has already retried a request, which then takes long."""
    return str(place).startswith("hf://") and failure.seconds > place.network.timeout


def backoff_seconds(failures: int) -> float:
    """Return the seconds before the next try.

    They are doubled with each failure, times a random number from 0.75 to 1.25.
    """
    jitter = random.uniform(0.75, 1.25)  # noqa: S311 - spreads requests, no secret
    return min(FIRST_PAUSE_S * 2.0 ** min(max(failures - 1, 0), 100) * jitter, _MAX_PAUSE_S)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110, 10.2.3), a number or a date.

    A date counts from the Date header.
    """
    # Imported on demand, so that the command line starts faster
    from email.utils import (
        parsedate_to_datetime,
    )

    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        now = datetime.now(UTC)
        if "Date" in headers:
            now = parsedate_to_datetime(headers["Date"])
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, if it has one.

    It is known of errors with a `status`, and of Azure, Google, botocore and huggingface_hub.
    """
    for source in (error, getattr(error, "response", None)):
        for name in ("status", "status_code", "code"):
            status = getattr(source, name, None)
            if isinstance(status, int):
                return status
    return _boto_metadata(error).get("HTTPStatusCode")


def one_line_error(error: BaseException) -> str:
    """Return an error as one short line without URLs, which may hold secrets."""
    if (status := http_status(error)) is not None:
        return f"the server responded with {status}"
    if isinstance(error, TimeoutError):  # its text depends on the library
        return "no response in time"
    text = re.sub(r"\S+://\S+", "...", " ".join(str(error).split())) or type(error).__name__
    return escape_control(text[:_MAX_REASON])  # of the server, perhaps


def _boto_metadata(error: BaseException) -> Mapping[str, Any]:
    """Return what botocore keeps of a response (HTTPStatusCode, HTTPHeaders).

    S3fs raises its own error from botocore's.
    """
    for source in (error, error.__cause__):
        response = getattr(source, "response", None)
        if isinstance(response, Mapping):
            metadata = response.get("ResponseMetadata")
            if isinstance(metadata, Mapping):
                return metadata
    return {}


def _retry_after_of(error: BaseException) -> float | None:
    """Return the seconds of the Retry-After of an error; None without one."""
    headers = (
        getattr(error, "headers", None)
        or getattr(getattr(error, "response", None), "headers", None)
        or _boto_metadata(error).get("HTTPHeaders")
    )
    if not isinstance(headers, Mapping):
        return None
    return retry_after({name.title(): value for name, value in headers.items()})


def _permanent_error(place: Place, error: BaseException, done: str) -> AudioError | None:
    """Return the error to raise if no retry resolves a failure, else None."""
    status = http_status(error)
    if isinstance(error, FileNotFoundError) or status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        kind = "file" if done == "read" else "location"
        return RemoteNotFoundError(f"{place}: there is no such {kind}")
    if isinstance(error, RedirectError):
        return RemoteRefusedError(f"{place}: {error}")
    if isinstance(error, PermissionError) or status in (
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
    ):
        hint = ""
        if str(place).startswith("hf://"):
            hint = " (HF_TOKEN, or 'hf auth login')"
        return RemoteRefusedError(
            f"{place}: may not be {done} with the credentials of this environment{hint}"
        )
    if status is not None and 400 <= status < 500 and status not in RETRYABLE:
        reason = _REFUSALS.get(status, f"the server responded with {status}")
        return RemoteRefusedError(f"{place}: {reason}")
    if isinstance(error, _PERMANENT):
        hint = ""
        if "::" in str(place):
            hint = "; fetch the archive first, as with 'nbaudio download'"
        return AudioError(f"{place}: cannot be {done} ({one_line_error(error)}){hint}")
    return None
