"""The errors that nbaudio raises: each names the file or item, what is wrong with it, and what is allowed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_USER = re.compile(r"(https?://)[^/\s@]*@", re.IGNORECASE)
_QUERY = re.compile(r"""(https?://[^\s?#'"]*)[?#](?!\.\.\.)[^\s'")>]+?(?=[:,;.]*(?:[\s'")>]|$))""", re.IGNORECASE)


def strip_queries(text: str) -> str:
    """A text whose web addresses have no user, query or fragment, which may be secret.

    Examples:
        >>> strip_queries("https://me:word@host/a.wav?key=0&v=1: missing (see 'http://host/?b')")
        "https://host/a.wav?...: missing (see 'http://host/?...')"
    """
    return _QUERY.sub(r"\1?...", _USER.sub(r"\1", text)) if "://" in text else text


class NbaudioError(Exception):
    """Root of all errors that a user can mend; the command line shows its message as one line and exits with 2."""

    def __init__(self, *args: object) -> None:
        """Take a message; web addresses in it lose what may be secret."""
        super().__init__(*(strip_queries(arg) if isinstance(arg, str) else arg for arg in args))


class InputError(NbaudioError):
    """A file, table or parameter from outside is not usable."""


class AudioError(NbaudioError):
    """A recording cannot be opened, decoded or cut."""


class ExistsError(NbaudioError):
    """The target exists and holds something else: nothing is overwritten silently."""


class DiskFullError(NbaudioError):
    """Writing stopped for want of space; what is done is kept and the same call resumes."""


class WorkerLostError(NbaudioError):
    """Processes that do the work end before they have done it; what is done is kept and the same call resumes.

    Attributes:
        tasks: over which they were lost, and others that were underway then.
    """

    def __init__(self, message: str, tasks: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.tasks = tuple(tasks)


class EngineError(NbaudioError):
    """The engine that runs tasks failed, not a task: a cluster is not reached, or gives up; the message has the cause."""


class MissingExtraError(NbaudioError):
    """An optional package is needed; the message names the extra that brings it."""

    @classmethod
    def naming(cls, package: str, extra: str) -> "MissingExtraError":
        """The error for a package that `extra` would have brought.

        Examples:
            >>> str(MissingExtraError.naming("ray", "ray"))
            "ray is not installed: pip install 'nbaudio[ray]'"
        """
        return cls(f"{package} is not installed: pip install 'nbaudio[{extra}]'")


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Raise a failed import of an optional package as `MissingExtraError`.

    Raises:
        MissingExtraError: names the package, and the extra that brings it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError.naming(error.name or extra, extra) from error


def one_line(error: BaseException) -> str:
    r"""What an error says, in one line: its first line that says something, or else its type.

    Examples:
        >>> one_line(ValueError("\nparquet: out of specification\n\nThis error occurred with the following stack:\n[1] scan"))
        'parquet: out of specification'
        >>> one_line(MemoryError())
        'MemoryError'
    """
    return next((line for line in map(str.strip, str(error).splitlines()) if line), type(error).__name__)


def root_cause(error: BaseException) -> str:
    r"""The cause of an error whose text holds a traceback of Java or of a remote Python, in one line; else as of `one_line`.

    Examples:
        >>> root_cause(RuntimeError("Job aborted.\n\tat a.b\nCaused by: java.io.IOException: disk\n\tat c.d"))
        'java.io.IOException: disk'
        >>> root_cause(RuntimeError("Traceback (most recent call last):\n  File 'a'\nOSError: disk\n"))
        'OSError: disk'
    """
    lines = str(error).splitlines()
    if causes := [line.partition(":")[2].strip() for line in lines if line.lstrip().startswith(("Caused by:", ": "))]:
        return causes[-1]
    if any(line.lstrip().startswith("Traceback (most recent call last)") for line in lines):
        return next(line.strip() for line in reversed(lines) if line.strip() and not line.lstrip().startswith(("File ", "^")))
    return one_line(error)


def get_by_name(registry: Mapping[str, T], name: str, what: str) -> T:
    """The entry of that name.

    Raises:
        InputError: there is none; names those that are.

    Examples:
        >>> get_by_name({"flac": 1}, "flac", "encoding")
        1
    """
    if name not in registry:
        raise InputError(f"{what} {name!r} is unknown; known are {', '.join(registry)}")
    return registry[name]
