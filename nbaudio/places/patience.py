"""Requests made again after what passes, and given up with a reason where it lasts."""

import errno
import random
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeVar

from nbaudio.errors import AudioError, NbaudioError
from nbaudio.files import full_disk
from nbaudio.places.answers import metadata_of, plainly, status_of
from nbaudio.places.servers import retry_after

Result = TypeVar("Result")

#: How often a request is made before it is given up, and the pause after the first failure, in seconds; it doubles each time.
TRIES = 5
FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
#: Seconds; a server that asks for a longer pause is given up.
LONGEST_ASKED_S = 900.0
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
# What another try does not mend.
_LASTING = (ValueError, TypeError, LookupError, tarfile.TarError, zipfile.BadZipFile)


class RefusedError(AudioError):
    """The server answers, and does not do it."""


class AbsentError(RefusedError):
    """It is not there."""


def patiently(place: object, request: Callable[[], Result], *, done: str = "read") -> Result:
    """The result of a request, made again after what passes: broken connections, short answers, busy or failing servers.

    Args:
        place: its address, for messages.
        request: makes it.
        done: what it does to the place: ``read``, ``written``.

    Raises:
        AbsentError: it is not there.
        RefusedError: it is not allowed.
        AudioError: it did not work in `TRIES` times, or the server asks to wait longer than `LONGEST_ASKED_S`.
        MissingExtraError: the package for its scheme is not installed.
    """
    for attempt in range(1, TRIES + 1):
        try:
            return request()
        except NbaudioError:
            raise
        except Exception as error:  # filesystems raise what their libraries raise
            # fsspec takes any failed look at a web file for a missing one.
            cause = error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error
            if _is_absent(cause):
                raise AbsentError(f"{place}: there is no such {'file' if done == 'read' else 'place'}") from error
            if reason := _refusal(cause, done):
                raise RefusedError(f"{place}: {reason}") from error
            if isinstance(cause, _LASTING):
                hint = "; fetch the archive first, as with 'nbaudio download'" if "::" in str(place) else ""
                raise AudioError(f"{place}: cannot be {done} ({plainly(cause)}){hint}") from error
            if full_disk(cause) or (isinstance(cause, OSError) and cause.errno == errno.ENAMETOOLONG):
                raise  # the local disk
            asked = _asked(cause)
            if asked is not None and asked > LONGEST_ASKED_S:
                raise AudioError(f"{place}: the server asks to wait {asked:,.0f} s ({plainly(cause)}); try later") from error
            if attempt == TRIES:
                raise AudioError(f"{place}: could not be {done} in {TRIES} tries ({plainly(cause)})") from error
            time.sleep(_pause(attempt) if asked is None else asked)
    raise AssertionError  # the last try has returned or raised


def _is_absent(error: BaseException) -> bool:
    return isinstance(error, FileNotFoundError) or status_of(error) in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)


def _refusal(error: BaseException, done: str) -> str | None:
    """Why the server does not do it, where it says so."""
    status = status_of(error)
    if isinstance(error, PermissionError) or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f"may not be {done} with the credentials of this environment"
    if status is not None and 400 <= status < 500 and status not in _PASSING:
        return f"the server says {status}"
    return None


def _asked(error: BaseException) -> float | None:
    """Seconds that the server asks to wait, if it does."""
    headers = getattr(error, "headers", None) or metadata_of(error).get("HTTPHeaders")
    return retry_after({name.title(): value for name, value in headers.items()}) if isinstance(headers, Mapping) else None


def _pause(attempt: int) -> float:
    """Seconds before the next try: twice as long each time, with a random share."""
    return float(min(FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.75, 1.25), _LONGEST_PAUSE_S))  # noqa: S311
