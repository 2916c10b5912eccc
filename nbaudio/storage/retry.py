"""Retry transient failures with exponential backoff and Retry-After; raise with the reason.

Filesystems of fsspec raise what their libraries raise; the HTTP status and headers are read from those errors here too.
"""

import errno
import itertools
import random
import re
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from nbaudio.core.atomic import disk_full_reason
from nbaudio.core.errors import AudioError, NbaudioError
from nbaudio.core.progress import waiting

if TYPE_CHECKING:
    from nbaudio.storage.remote import Remote

Result = TypeVar("Result")

#: Seconds before the first retry; doubled before each further one.
FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 60.0
#: Statuses below 500 that a retry may resolve.
RETRYABLE = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
# Errors that a retry does not resolve.
_PERMANENT = (ValueError, TypeError, LookupError, tarfile.TarError, zipfile.BadZipFile)


class RemoteRefusedError(AudioError):
    """The server responded with a refusal."""


class RedirectError(ConnectionError):
    """Too many redirects, or a redirect to an invalid URL; the message omits the URL, which may be signed."""


class RemoteNotFoundError(RemoteRefusedError):
    """The file or folder does not exist."""


@contextmanager
def convert_error(caught: type[Exception], raised: type[Exception]) -> Iterator[None]:
    """Convert errors of one class to another with the same message."""
    try:
        yield
    except caught as error:
        raise raised(str(error)) from error


def with_retries(
    place: "Remote", request: Callable[[], Result], *, done: str = "read", proves: bool = True, names_host: bool = True
) -> Result:
    """Return the result of a request; retry broken connections, short responses and statuses 408, 425, 429 and 5xx.

    `done` names the request in messages: ``read``, ``written``. `proves`: a result shows that the host works, which a response
    without content does not. `names_host`: progress names the host while it is silent. Raises RemoteNotFoundError,
    RemoteRefusedError, or AudioError if all tries failed, Retry-After exceeds `Network.max_wait`, or the host has only failed in
    this run.
    """
    network, host = place.network, place.host
    first, pause = time.monotonic(), 0.0
    for attempt in itertools.count(1):
        if given_up := network.given_up(host):
            raise AudioError(f"{place}: {given_up}")
        began = time.monotonic()
        try:
            with waiting(host) if names_host else nullcontext():
                result = request()
        except NbaudioError:
            raise
        except Exception as error:
            # Filesystems may report another failure as a missing file; the cause then says which.
            cause = error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error
            if disk_full_reason(cause) or (isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG):
                raise  # the local disk
            if permanent := _permanent_error(place, cause, done):
                network.succeeded(host)  # it responds
                # Without the cause, whose text may hold the signed URL of a redirect.
                raise permanent from None
            now, delay = time.monotonic(), _retry_after_of(cause)
            network.failed(host, min(now - began, network.timeout) + pause, one_line_error(cause), now=now)
            if delay is not None and not network.may_wait(host, delay, item=now - first, now=now):
                wish = f"the server requires a wait of {delay:,.0f} s ({one_line_error(cause)})"
                raise AudioError(f"{place}: {wish}; try later") from None
            # The Hub's library has already retried a request that took so long.
            retried = done == "read" and str(place).startswith("hf://") and now - began > network.timeout
            if attempt == network.tries or retried:
                raise AudioError(f"{place}: could not be {done} in {attempt} tries ({one_line_error(cause)})") from None
            pause = backoff_seconds(attempt, random.random()) if delay is None else 0.0  # noqa: S311 - spreads requests, no secret
            with waiting(host):
                time.sleep(pause if delay is None else delay)
        else:
            if proves:
                network.succeeded(host)
            return result
    raise AssertionError  # the last try has returned or raised


def backoff_seconds(failures: int, jitter: float) -> float:
    """Return the seconds before the next try: doubled with each failure, times 0.75 to 1.25 by a `jitter` from 0 to 1."""
    return min(FIRST_PAUSE_S * 2.0 ** min(max(failures - 1, 0), 100) * (0.75 + jitter / 2), _MAX_PAUSE_S)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110, 10.2.3), a number or a date; a date counts from the Date header."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        now = parsedate_to_datetime(headers["Date"]) if "Date" in headers else datetime.now(UTC)
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def http_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error (`status`), of Azure, Google, botocore or huggingface_hub, if it has one."""
    known = (getattr(each, name, None) for each in (error, _response(error)) for name in ("status", "status_code", "code"))
    found = next((each for each in known if isinstance(each, int)), None)
    return _boto_metadata(error).get("HTTPStatusCode") if found is None else found


def one_line_error(error: BaseException) -> str:
    """Return an error as one line without URLs, which may hold secrets."""
    if (status := http_status(error)) is not None:
        return f"the server responded with {status}"
    if isinstance(error, TimeoutError):  # its text depends on the library
        return "no response in time"
    return re.sub(r"\S+://\S+", "...", " ".join(str(error).split())) or type(error).__name__


def _response(error: BaseException) -> object:
    return getattr(error, "response", None)


def _boto_metadata(error: BaseException) -> Mapping[str, Any]:
    """Return what botocore keeps of a response (HTTPStatusCode, HTTPHeaders); s3fs raises its own error from botocore's."""
    for each in (error, error.__cause__):
        response = getattr(each, "response", None)
        if isinstance(response, Mapping) and isinstance(found := response.get("ResponseMetadata"), Mapping):
            return found
    return {}


def _retry_after_of(error: BaseException) -> float | None:
    known = (getattr(each, "headers", None) for each in (error, _response(error)))
    headers = next(filter(None, known), None) or _boto_metadata(error).get("HTTPHeaders")
    return retry_after({name.title(): value for name, value in headers.items()}) if isinstance(headers, Mapping) else None


def _permanent_error(place: "Remote", error: BaseException, done: str) -> AudioError | None:
    """Return the error to raise if a retry does not help, else None."""
    status = http_status(error)
    if isinstance(error, FileNotFoundError) or status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return RemoteNotFoundError(f"{place}: there is no such {'file' if done == 'read' else 'location'}")
    if isinstance(error, RedirectError):
        return RemoteRefusedError(f"{place}: {error}")
    if isinstance(error, PermissionError) or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        hint = " (HF_TOKEN, or 'hf auth login')" if str(place).startswith("hf://") else ""
        return RemoteRefusedError(f"{place}: may not be {done} with the credentials of this environment{hint}")
    if status is not None and 400 <= status < 500 and status not in RETRYABLE:
        changed = "was changed meanwhile by somebody else; run the same command again"
        return RemoteRefusedError(f"{place}: {changed if status == 412 else f'the server responded with {status}'}")
    if isinstance(error, _PERMANENT):
        hint = "; fetch the archive first, as with 'nbaudio download'" if "::" in str(place) else ""
        return AudioError(f"{place}: cannot be {done} ({one_line_error(error)}){hint}")
    return None
