"""Recordings that lie elsewhere, on web servers, in object stores or in archives, through fsspec, which nobody else imports.

A local folder has no part in this. What is elsewhere is fetched whole into a bounded cache on the disk and read there, so that
its samples are those of a local file; a large one of which little is wanted is read in ranges (`Remote.ranges`).
"""

import errno
import random
import re
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import quote, unquote, urlsplit

from nbaudio.addresses import ARCHIVES, WEB, check_address, inside
from nbaudio.cache import Cache
from nbaudio.errors import AudioError, InputError, MissingExtraError, NbaudioError
from nbaudio.files import sha256_file
from nbaudio.ranges import RangedFile
from nbaudio.version import __version__

Result = TypeVar("Result")

# Package and extra of those that need more than the core.
_PACKAGES = MappingProxyType({"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "abfs": ("adlfs", "azure")})


CHANGED = "the file changed since it was ingested; run ingest again"

#: How often a request is made before it is given up, and the pause after the first failure, in seconds; it doubles each time.
TRIES = 5
FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
# What another try does not mend.
_LASTING = (ValueError, TypeError, LookupError, tarfile.TarError, zipfile.BadZipFile)
_CONNECT_S, _SILENCE_S = 30, 60

# Ranges are read where they are at most this share of the file, each window taken as one jump; smaller files come whole.
_MOST_SHARE = 0.25
_JUMP_BYTES = 1 << 20
_LEAST_BYTES = 8 << 20
# Kinds of which a place in the sound is a place in the file, or found by a few looks: what follows their first letter.
_SEEKABLE = re.compile(rb"(IFF|F64)....WAVE|LaC", re.DOTALL)

# What filesystems call that which changes with the content, the surest first.
_VERSIONS = ("ETag", "etag", "md5Hash", "CRC", "Last-Modified", "LastModified", "last_modified", "mtime", "modified", "created")
_DEEPEST = 30


class Status(NamedTuple):
    """What a server tells of a file: its size, and something that changes with its content (ETag or time), if anything."""

    num_bytes: int
    version: str | None


@dataclass(frozen=True)
class Remote:
    """A file or folder that lies elsewhere; ``/`` goes down from a folder, as with paths.

    Attributes:
        root: address of the folder, checked.
        cache: where its files are kept.
        path: below the folder; a whole address where the folder is a bare scheme.
        sha256: of the file's bytes where it is known; other bytes are refused.
    """

    root: str
    cache: Cache
    path: str = ""
    sha256: str | None = None

    def __truediv__(self, path: str) -> "Remote":
        return Remote(self.root, self.cache, f"{self.path}/{path}" if self.path else path)

    def __str__(self) -> str:
        if not self.path or self.is_scheme:
            return self.path or self.root
        inside, chain, outside = self.root.partition("::")
        path = quote(self.path) if urlsplit(self.root).scheme in WEB else self.path
        return f"{inside}{'' if inside.endswith('/') else '/'}{path}{chain}{outside}"

    def __getstate__(self) -> dict[str, Any]:  # what is cached stays in its process
        return {"root": self.root, "cache": self.cache, "path": self.path, "sha256": self.sha256}

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self.path).name

    def status(self) -> Status:
        """Size and version now.

        Raises:
            AudioError: it is not there, may not be read, or the server does not say how long it is.
        """
        info = _patiently(self, lambda: self._place.fs.info(self._place.path))
        if info.get("type") == "directory":
            raise AudioError(f"{self}: a folder, not a file")
        if info.get("size") is None:
            raise AudioError(f"{self}: the server does not say how long it is, so that a broken connection would look whole")
        version = next((info[name] for name in _VERSIONS if info.get(name)), None)
        return Status(int(info["size"]), None if version is None else str(version))

    @contextmanager
    def fetched(self, status: Status | None = None) -> Iterator[Path]:
        """The whole file on the disk, held in the cache for as long as the context lasts.

        Args:
            status: what was told of it just now, if so.

        Raises:
            AudioError: it cannot be had; an error inside the context that names the local file is made to name the address.
        """
        found = status or self.status()

        def fetch(partial: Path) -> None:
            _patiently(self, lambda: self._download(partial, found.num_bytes))
            if self.sha256 is not None and sha256_file(partial) != self.sha256:
                raise AudioError(f"{self}: {CHANGED}")

        with self.cache.held(self._identity(found), found.num_bytes, fetch) as path:
            try:
                yield path
            except AudioError as error:
                raise AudioError(str(error).replace(str(path), str(self))) from error

    def ranges(self, status: Status, *, windows: int, share: float) -> RangedFile | None:
        """A file that reads ranges where that is cheaper than the whole file, else None.

        It is cheaper from 8 MB on, where `share` of the file and 1 MB for each window make no more than a quarter of it; unless
        the file is in the cache already. The server must serve ranges and tell versions, and the file must be WAV or FLAC.

        Args:
            status: what was told of it just now.
            windows: how many will be read.
            share: of the recording that they are.
        """
        cost = share * status.num_bytes + windows * _JUMP_BYTES
        if status.num_bytes < _LEAST_BYTES or cost > _MOST_SHARE * status.num_bytes:
            return None
        if not status.version or "::" in self.root or self.cache.holds(self._identity(status)):
            return None

        def check() -> None:
            if self.status() != status:
                raise AudioError(f"{self}: the file changed while it was read")

        def read(start: int, stop: int) -> bytes:
            return _patiently(self, lambda: self._range(start, stop, status.num_bytes))

        try:
            # From behind the start: a server that knows no ranges says so, and does not send all.
            if not _SEEKABLE.match(read(1, 12)):
                return None
        except RefusedError:
            return None
        return RangedFile(read, check, status.num_bytes)

    def listing(self, wanted: Callable[[str], bool]) -> tuple[list[str], list[tuple[str, str]]] | None:
        """Files below the folder, hidden ones left out.

        Args:
            wanted: whether a name is.

        Returns:
            Paths relative to the folder, sorted; and path and reason of what is not taken. None where the server gives no list.

        Raises:
            InputError: the folder cannot be listed, or is not there.
        """
        if self.is_scheme:
            return None
        try:
            found = _patiently(self, self._links if self._place.web else self._names)
        except AudioError as error:
            if self._place.web and isinstance(error, RefusedError):
                return None
            raise InputError(str(error)) from error
        paths, refused = [], []
        for name in sorted(found):
            parts = name.split("/")
            if not wanted(name) or any(part.startswith(".") and part not in (".", "..") for part in parts):
                continue
            if inside(name):
                paths.append(name)
            else:
                refused.append((name, "its name leads out of the audio folder"))
        return None if self._place.web and not paths and not refused else (paths, refused)

    def _names(self) -> set[str]:
        fs, top, _ = self._place
        found = fs.find(top)
        if not found and not fs.exists(top):
            raise FileNotFoundError(str(self))
        prefix = f"{top.rstrip('/')}/" if top.strip("/") else ""
        return {name.removeprefix(prefix).removeprefix("/") for name in found}

    def _links(self) -> set[str]:
        """What the pages of a web folder link to below it."""
        fs, top, _ = self._place
        top = f"{top.rstrip('/')}/"
        names: set[str] = set()
        seen, folders = {top}, [top]
        while folders:
            folder = folders.pop()
            for link in fs.ls(folder, detail=False):
                # Servers link to themselves in other orders: ?C=M;O=A.
                if link in seen or not link.startswith(folder) or "?" in link or "#" in link:
                    continue
                seen.add(link)
                name = unquote(link.removeprefix(top))
                if not link.endswith("/"):
                    names.add(name)
                elif name.count("/") <= _DEEPEST and inside(name.rstrip("/")):
                    folders.append(link)
        return names

    def _identity(self, status: Status) -> str:
        return f"{self}\n{status.num_bytes}\n{status.version}"

    def _download(self, partial: Path, num_bytes: int) -> None:
        self._place.fs.get_file(self._place.path, str(partial))
        if (found := partial.stat().st_size) != num_bytes:
            raise ConnectionError(f"{found:,} of {num_bytes:,} bytes came")

    def _range(self, start: int, stop: int, size: int) -> bytes:
        fs, path, web = self._place
        data: bytes
        if web:
            try:
                with fs.open(path, "rb", block_size=_JUMP_BYTES, cache_type="none", size=size) as file:
                    file.seek(start)
                    data = file.read(stop - start)
            except ValueError as error:  # aiohttp's own are none
                raise RefusedError(f"{self}: the server serves no ranges") from error
        else:
            data = fs.cat_file(path, start=start, end=stop)
        if len(data) != stop - start:
            raise ConnectionError(f"{len(data):,} of {stop - start:,} bytes came")
        return data

    @property
    def is_scheme(self) -> bool:
        """Whether it stands for all addresses of its scheme."""
        return self.root.endswith("://") and "::" not in self.root

    @cached_property
    def _place(self) -> "_Place":
        if self.is_scheme:
            return _place(self.path)
        fs, top, web = _place(self.root)
        if not self.path:
            return _Place(fs, top, web)
        path = quote(self.path) if web else self.path
        return _Place(fs, f"{top.rstrip('/')}/{path}" if top else path, web)


class RefusedError(AudioError):
    """The server answers, and does not give it: not there, not allowed."""


class _Place(NamedTuple):
    """Where something is: a filesystem of fsspec, the path in it, and whether it is the web."""

    fs: Any
    path: str
    web: bool


def remote(address: str, cache: Cache) -> Remote:
    """The folder at an address; nothing is asked of it yet.

    Raises:
        InputError: its scheme is not known, or it holds a password or a query, which are secrets and would be written down.
    """
    return Remote(re.sub(r"(?<![/:])/+$", "", check_address(address)), cache)


# Archives are read by one thread each, and their index is read once.
_ARCHIVE = threading.local()


def _place(address: str) -> _Place:
    """The filesystem that an address names, and the path in it."""
    scheme = urlsplit(address).scheme
    if scheme in ARCHIVES and getattr(_ARCHIVE, "address", None) == address:
        return cast(_Place, _ARCHIVE.place)
    try:
        from fsspec.core import url_to_fs

        options: dict[str, Any]
        if "::" in address:
            options = {web: _web_options(web) for web in WEB if f"{web}://" in address}
        elif scheme in WEB:
            options = _web_options(scheme)
        else:
            # Without its lists of before: what is asked for is how things are now.
            options = {} if scheme == "memory" else {"use_listings_cache": False}
        fs, path = url_to_fs(quote(address, safe="%/:=&~+!$,;'@()*[]") if scheme in WEB else address, **options)
    except ImportError as error:
        package, extra = _PACKAGES.get(scheme, ("", ""))
        if not extra:
            raise InputError(f"{address}: {error}") from error
        raise MissingExtraError.naming(package, extra) from error
    place = _Place(fs, path, scheme in WEB)
    if scheme in ARCHIVES:
        _ARCHIVE.address, _ARCHIVE.place = address, place
    return place


def _web_options(scheme: str) -> dict[str, Any]:
    """Bytes as they are, names as they are written, proxies and ~/.netrc of the user; fsspec's own settings go first."""
    import aiohttp
    from fsspec.config import conf

    own = {
        "trust_env": True,
        "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S),
        "headers": {"Accept-Encoding": "identity", "User-Agent": f"nbaudio/{__version__}"},
    }
    return {"encoded": True, "client_kwargs": own | conf.get(scheme, {}).get("client_kwargs", {})}


def _patiently(place: Remote, request: Callable[[], Result]) -> Result:
    """The result of a request, made again after what passes: broken connections, short answers, busy or failing servers.

    Raises:
        AudioError: it is not there, not allowed, or did not work in `TRIES` times.
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
            status = getattr(cause, "status", None)
            if isinstance(cause, FileNotFoundError) or status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
                raise RefusedError(f"{place}: there is no such file") from error
            if isinstance(cause, PermissionError) or status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise RefusedError(f"{place}: may not be read with the credentials of this environment") from error
            if isinstance(status, int) and 400 <= status < 500 and status not in _PASSING:
                raise RefusedError(f"{place}: the server says {status}") from error
            if isinstance(cause, _LASTING):
                hint = "; fetch the archive first, as with 'nbaudio download'" if "::" in place.root else ""
                raise AudioError(f"{place}: cannot be read ({_plainly(cause)}){hint}") from error
            if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise  # the local disk
            if attempt == TRIES:
                raise AudioError(f"{place}: could not be read in {TRIES} tries ({_plainly(cause)})") from error
            time.sleep(_pause(cause, attempt))
    raise AssertionError  # the last try has returned or raised


def _pause(error: BaseException, attempt: int) -> float:
    """Seconds before the next try: what the server asks for, else twice as long each time, with a random share."""
    asked = (getattr(error, "headers", None) or {}).get("Retry-After", "")
    pause = float(asked) if asked.isdecimal() else FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311
    return min(pause, _LONGEST_PAUSE_S)


def _plainly(error: BaseException) -> str:
    """An error in one line, without addresses, which may hold secrets."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return f"the server says {status}"
    return re.sub(r"\S+://\S+", "...", " ".join(str(error).split())) or type(error).__name__
