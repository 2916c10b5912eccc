"""Requests made again after what passes, and given up with a reason where it lasts."""

import errno
import itertools
import random
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Protocol, TypeVar

from nbaudio.core.errors import AudioError, NbaudioError
from nbaudio.core.progress import waiting
from nbaudio.storage.atomic import disk_full_reason
from nbaudio.storage.http_errors import boto_metadata, http_status, is_bad_redirect, one_line_error
from nbaudio.storage.network import Network
from nbaudio.storage.retry_after import retry_after

Result = TypeVar("Result")

#: The pause after the first failure, in seconds; it doubles each time.
FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
# What another try does not mend.
_LASTING = (ValueError, TypeError, LookupError, tarfile.TarError, zipfile.BadZipFile)


class RequestTarget(Protocol):
    """What requests are made to."""

    @property
    def network(self) -> Network:
        """The limits."""
        ...

    @property
    def host(self) -> str:
        """Whose server it is, with its port."""
        ...


class RemoteRefusedError(AudioError):
    """The server answers, and does not do it."""


class RemoteNotFoundError(RemoteRefusedError):
    """It is not there."""


def with_retries(place: RequestTarget, request: Callable[[], Result], *, done: str = "read", proves: bool = True) -> Result:
    """The result of a request, made again after what passes: broken connections, short answers, busy or failing servers.

    Args:
        place: where; it has the limits, and its address is in messages.
        request: makes it.
        done: what it does to the place: ``read``, ``written``.
        proves: whether a result shows that the host is not one that only fails; answers without content don't.

    Raises:
        AbsentError: it is not there.
        RefusedError: it is not allowed.
        AudioError: it did not work in as many tries as are wanted, the server asks to wait longer than is wanted, or its host has
            only failed in this run.
        MissingExtraError: the package for its scheme is not installed.
    """
    network, host = place.network, place.host
    first, pause = time.monotonic(), 0.0
    for attempt in itertools.count(1):
        if given_up := network.given_up(host):
            raise AudioError(f"{place}: {given_up}")
        began = time.monotonic()
        try:
            with waiting(host):
                result = request()
        except NbaudioError:
            raise
        except Exception as error:  # filesystems raise what their libraries raise
            # fsspec takes any failed look at a web file for a missing one.
            cause = error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error
            if disk_full_reason(cause) or (isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG):
                raise  # the local disk
            if lasting := _lasting(place, cause, done):
                network.succeeded(host)  # it answers
                # Without the cause, whose words may hold the signed address of a redirect.
                raise lasting from None
            now, asked = time.monotonic(), _asked(cause)
            network.failed(host, min(now - began, network.timeout) + pause, one_line_error(cause), now=now)
            if asked is not None and not network.may_wait(host, asked, item=now - first, now=now):
                raise AudioError(
                    f"{place}: the server asks to wait {asked:,.0f} s ({one_line_error(cause)}); try later"
                ) from None
            if attempt == network.tries:
                raise AudioError(f"{place}: could not be {done} in {attempt} tries ({one_line_error(cause)})") from None
            pause = _pause(attempt) if asked is None else 0.0
            with waiting(host):
                time.sleep(pause if asked is None else asked)
        else:
            if proves:
                network.succeeded(host)
            return result
    raise AssertionError  # the last try has returned or raised


def _lasting(place: RequestTarget, error: BaseException, done: str) -> AudioError | None:
    """What another try does not mend, if it is that."""
    if _is_absent(error):
        return RemoteNotFoundError(f"{place}: there is no such {'file' if done == 'read' else 'place'}")
    if reason := _refusal(error, done):
        return RemoteRefusedError(f"{place}: {reason}")
    if isinstance(error, _LASTING):
        hint = "; fetch the archive first, as with 'nbaudio download'" if "::" in str(place) else ""
        return AudioError(f"{place}: cannot be {done} ({one_line_error(error)}){hint}")
    return None


def _is_absent(error: BaseException) -> bool:
    return isinstance(error, FileNotFoundError) or http_status(error) in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


def _refusal(error: BaseException, done: str) -> str | None:
    """Why the server does not do it, where it says so."""
    status = http_status(error)
    if is_bad_redirect(error):
        return "redirects go in a circle, or to what is no web address"
    if isinstance(error, PermissionError) or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"may not be {done} with the credentials of this environment"
    if status is not None and 400 <= status < 500 and status not in _PASSING:
        return f"the server says {status}"
    return None


def _asked(error: BaseException) -> float | None:
    """Seconds that the server asks to wait, if it does."""
    headers = getattr(error, "headers", None) or boto_metadata(error).get("HTTPHeaders")
    return retry_after({name.title(): value for name, value in headers.items()}) if isinstance(headers, Mapping) else None


def _pause(attempt: int) -> float:
    """Seconds before the next try: twice as long each time, with a random share."""
    return float(min(FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.75, 1.25), _LONGEST_PAUSE_S))  # noqa: S311
