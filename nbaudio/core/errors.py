"""Errors of nbaudio: each message names the file or item, the problem and the allowed values."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from nbaudio.core.tracebacks import render_traceback

T = TypeVar("T")

# User and password of a URL; the group is what stands before them.
_USER = re.compile(r"([a-z][a-z0-9+.-]*://)[^/\s@'\"]*@", re.IGNORECASE)
# Query and fragment of a URL; the group is the URL before them. The names of files in a store, such
# as s3://bucket/what?.wav, may have these characters: there only ?name=value is a query.
_QUERY = re.compile(
    r"""
    (
        https?://[^\s?#'"]*
        | [a-z][a-z0-9+.-]*://[^\s?'"]*(?=\?[\w.-]+=)
    )
    [?#]
    (?!\.\.\.)                       # they are redacted already
    [^\s'")>]+?
    (?=[:,;.]*(?:[\s'")>]|$))        # punctuation after a URL is that of the sentence
    """,
    re.IGNORECASE | re.VERBOSE,
)

# How lines of a traceback of Java begin that state an error: a cause, and the error itself as Py4J
# prints it.
_JAVA_CAUSES = ("Caused by:", ": ")
# How lines of a traceback of Python begin that state no error: a place, and marks below its code.
_PYTHON_FRAME = ("File ", "^")


def redact_urls(text: str) -> str:
    """Remove user, query and fragment of all URLs in a text: they may be secret.

    A query or a fragment, or both, become `?...`.

    Examples:
        >>> redact_urls("https://me:word@host/a.wav?key=0: missing")
        'https://host/a.wav?...: missing'
    """
    if "://" not in text:
        return text
    without_users = _USER.sub(r"\1", text)
    return _QUERY.sub(r"\1?...", without_users)


def _redacted(argument: object) -> object:
    if isinstance(argument, str):
        return redact_urls(argument)
    return argument


class NbaudioError(Exception):
    """Base class of all errors that a user can fix; `redact_urls` is applied to the message.

    The command line prints the message as one line and exits with 2; a notebook shows that line,
    and ``%tb`` the traceback.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*map(_redacted, args))

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows of the error."""
        return render_traceback(self)


class InputError(NbaudioError):
    """An input file, table or parameter is not usable."""


class AudioError(NbaudioError):
    """A recording cannot be opened, decoded or cut."""


class ExistsError(NbaudioError):
    """The target exists with other content, which is not overwritten."""


class DiskFullError(NbaudioError):
    """The disk is full; finished work is kept and the same call resumes."""


class WorkerLostError(NbaudioError):
    """Worker processes died.

    Finished work is kept and the same call resumes.

    Attributes:
        tasks: what they were running, as it was handed to the engine.
    """

    def __init__(self, message: str, tasks: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.tasks = tuple(tasks)


class EngineError(NbaudioError):
    """The engine failed, not a task: its cluster is unreachable or gave up.

    The message has the cause.
    """


class MissingExtraError(NbaudioError):
    """An optional package is missing; the message names the extra that installs it."""

    @classmethod
    def naming(cls, package: str, extra: str) -> "MissingExtraError":
        """Return the error that names a missing package and the extra that installs it."""
        return cls(f"{package} is not installed: pip install 'nbaudio[{extra}]'")


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Raise MissingExtraError where an import of an optional package fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError.naming(error.name or extra, extra) from error


def one_line(error: BaseException) -> str:
    """Return the first line of an error's message that is not blank, else the type of the error."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip()
    return type(error).__name__


def root_cause(error: BaseException) -> str:
    """Return in one line what caused the error of an engine.

    Its message may contain a traceback: of Java, which begins with the last error and ends with
    what caused it, or of a remote Python, which ends with the error. Without one, return
    `one_line`.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    java_causes = [line for line in lines if line.startswith(_JAVA_CAUSES)]
    if java_causes:
        return java_causes[-1].partition(":")[2].strip()
    if any(line.startswith("Traceback (most recent call last)") for line in lines):
        return next(line for line in reversed(lines) if not line.startswith(_PYTHON_FRAME))
    return one_line(error)


def get_by_name(registry: Mapping[str, T], name: str, what: str) -> T:
    """Return the entry of a registry; raise InputError with the names in it if there is none.

    `what` is what an entry is, for the message: "encoding" or "container".
    """
    if name not in registry:
        raise InputError(f"{what} {name!r} is unknown; known are {', '.join(registry)}")
    return registry[name]
