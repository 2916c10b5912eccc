"""Errors of nbaudio: each message names the file or item, the problem and the allowed values."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from nbaudio.core.tracebacks import render_traceback

T = TypeVar("T")

_USER = re.compile(r"(https?://)[^/\s@]*@", re.IGNORECASE)
_QUERY = re.compile(
    r"""(https?://[^\s?#'"]*)[?#](?!\.\.\.)[^\s'")>]+?(?=[:,;.]*(?:[\s'")>]|$))""", re.IGNORECASE
)


def strip_queries(text: str) -> str:
    """Redact user, query and fragment of all URLs in a text, since they may hold secrets."""
    if "://" in text:
        return _QUERY.sub(r"\1?...", _USER.sub(r"\1", text))
    return text


def _without_queries(argument: object) -> object:
    if isinstance(argument, str):
        return strip_queries(argument)
    return argument


class NbaudioError(Exception):
    """Base class of all errors that a user can fix.

    The command line prints the message as one line and exits with 2; a notebook shows that line,
    and ``%tb`` the traceback.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*map(_without_queries, args))

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows of the error."""
        return render_traceback(self)


class InputError(NbaudioError):
    """An input file, table or parameter is not usable."""


class AudioError(NbaudioError):
    """A recording cannot be opened, decoded or cut."""


class ExistsError(NbaudioError):
    """The target exists with other content; nothing is overwritten silently."""


class DiskFullError(NbaudioError):
    """The disk is full; finished work is kept and the same call resumes."""


class WorkerLostError(NbaudioError):
    """Worker processes died while they ran `tasks`.

    Finished work is kept and the same call resumes.
    """

    def __init__(self, message: str, tasks: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.tasks = tuple(tasks)


class EngineError(NbaudioError):
    """The engine failed, not a task: the cluster is unreachable or gave up.

    The message has the cause.
    """


class MissingExtraError(NbaudioError):
    """An optional package is missing; the message names the extra that installs it."""

    @classmethod
    def naming(cls, package: str, extra: str) -> "MissingExtraError":
        """Return the error for a missing package of an extra."""
        return cls(f"{package} is not installed: pip install 'nbaudio[{extra}]'")


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Raise MissingExtraError where an import of an optional package fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError.naming(error.name or extra, extra) from error


def one_line(error: BaseException) -> str:
    """Return the first line of an error's message that is not blank, else its type."""
    return next(
        (line for line in map(str.strip, str(error).splitlines()) if line), type(error).__name__
    )


def root_cause(error: BaseException) -> str:
    """Return the cause of an error in one line.

    It is taken from the traceback of Java or a remote Python in the message; without one, return
    `one_line`.
    """
    lines = str(error).splitlines()
    if causes := [
        line.partition(":")[2].strip()
        for line in lines
        if line.lstrip().startswith(("Caused by:", ": "))
    ]:
        return causes[-1]
    if any(line.lstrip().startswith("Traceback (most recent call last)") for line in lines):
        return next(
            line.strip()
            for line in reversed(lines)
            if line.strip() and not line.lstrip().startswith(("File ", "^"))
        )
    return one_line(error)


def get_by_name(registry: Mapping[str, T], name: str, what: str) -> T:
    """Return an entry; raise InputError with the known names where there is none."""
    if name not in registry:
        raise InputError(f"{what} {name!r} is unknown; known are {', '.join(registry)}")
    return registry[name]
