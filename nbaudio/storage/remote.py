"""A file or folder that lies elsewhere."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.core.guards import check_expansion
from nbaudio.core.progress import on_message
from nbaudio.storage import http
from nbaudio.storage.atomic import atomic_write, sha256_file
from nbaudio.storage.cache import Cache
from nbaudio.storage.filesystems import FilesystemPath, filesystem_path
from nbaudio.storage.listings import files, filter_names, links
from nbaudio.storage.network import Network
from nbaudio.storage.range_file import RangeFile
from nbaudio.storage.retry import RemoteRefusedError, with_retries
from nbaudio.storage.urls import ARCHIVES, WEB, check_url

CHANGED_MESSAGE = "the file changed since it was ingested; run ingest again"

# Ranges are read where they are at most this share of the file, each window taken as one jump; smaller files come whole.
_MOST_SHARE = 0.25
_JUMP_BYTES = 1 << 20
_LEAST_BYTES = 8 << 20
# What a broken transfer goes on by.
_PIECE_BYTES = 16 << 20
# Kinds of which a place in the sound is a place in the file, or found by a few looks: what follows their first letter.
_SEEKABLE = re.compile(rb"(IFF|F64)....WAVE|LaC", re.DOTALL)

# What filesystems call that which changes with the content, the surest first.
_VERSIONS = ("ETag", "etag", "md5Hash", "CRC", "Last-Modified", "LastModified", "last_modified", "mtime", "modified", "created")


class RemoteStat(NamedTuple):
    """What a server tells of a file: its size, and something that changes with its content (ETag or time), if anything."""

    num_bytes: int
    version: str | None


class Content(NamedTuple):
    """The bytes of a file that was come upon, and its version."""

    data: bytes
    version: str | None


@dataclass(frozen=True)
class Remote:
    """A file or folder that lies elsewhere; ``/`` goes down from a folder, as with paths.

    Attributes:
        root: address of the folder, checked.
        cache: where its files are kept; None keeps them no longer than they are used.
        path: below the folder; a whole address where the folder is a bare scheme.
        sha256: of the file's bytes where it is known; other bytes are refused.
        content: its bytes where they are here already.
        network: how long its server is waited for.
    """

    root: str
    cache: Cache | None = None
    path: str = ""
    sha256: str | None = None
    content: Content | None = field(default=None, repr=False)
    network: Network = field(default_factory=Network.of, repr=False, compare=False)

    def __truediv__(self, path: str) -> "Remote":
        return replace(self, path=f"{self.path}/{path}" if self.path else path, sha256=None, content=None)

    def __str__(self) -> str:
        if not self.path or self.is_scheme:
            return self.path or self.root
        inside, chain, outside = self.root.partition("::")
        path = quote(self.path) if urlsplit(self.root).scheme in WEB else self.path
        return f"{inside}{'' if inside.endswith('/') else '/'}{path}{chain}{outside}"

    def __getstate__(self) -> dict[str, Any]:  # what is cached stays in its process
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def name(self) -> str:
        """The last part."""
        own = self.root.partition("::")[0].partition("://")[2]
        return PurePosixPath(self.path or (unquote(own) if urlsplit(self.root).scheme in WEB else own)).name

    @property
    def parent(self) -> "Remote":
        """The folder that it is in."""
        if self.path:
            return replace(self, path=self.path.rpartition("/")[0], sha256=None, content=None)
        inside, chain, outside = self.root.partition("::")
        scheme, _, path = inside.partition("://")
        return replace(self, root=f"{scheme}://{path.rpartition('/')[0]}{chain}{outside}", sha256=None, content=None)

    @property
    def host(self) -> str:
        """The server or bucket, with its port; of an archive, where that lies."""
        address = (self.path if self.is_scheme else self.root).rpartition("::")[2]
        return urlsplit(address).netloc or "this machine"

    def status(self) -> RemoteStat:
        """Size and version now.

        Raises:
            AudioError: it is not there, may not be read, or the server does not say how long it is.
        """
        if self.content is not None:
            return RemoteStat(len(self.content.data), self.content.version)
        info = self._info()
        if info.get("type") == "directory":
            raise AudioError(f"{self}: a folder, not a file")
        if info.get("size") is None:
            raise AudioError(f"{self}: the server does not say how long it is, so that a broken connection would look whole")
        if info.get("compress_size") is not None:  # of a zip's members
            try:
                check_expansion(self, info["compress_size"], info["size"])
            except InputError as error:
                raise RemoteRefusedError(str(error)) from error
        try:
            self.network.check_size(self, int(info["size"]))
        except InputError as error:
            raise RemoteRefusedError(str(error)) from error
        version = next((info[name] for name in _VERSIONS if info.get(name)), None)
        return RemoteStat(int(info["size"]), None if version is None else str(version))

    @contextmanager
    def fetched(self, status: RemoteStat | None = None) -> Iterator[Path]:
        """The whole file on the disk, held in the cache for as long as the context lasts.

        Args:
            status: what was told of it just now, if so.

        Raises:
            AudioError: it cannot be had; an error inside the context that names the local file is made to name the address.
        """
        found = status or self.status()

        def fetch(partial: Path) -> None:
            if self.content is not None:
                partial.write_bytes(self.content.data)
            else:
                self.download(partial, found)
            if self.sha256 is not None and sha256_file(partial) != self.sha256:
                raise AudioError(f"{self}: {CHANGED_MESSAGE}")

        with ExitStack() as stack:
            if self.cache is None or self.content is not None:
                path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nbaudio-")), "fetched")
                with atomic_write(path, sync=False) as partial:
                    fetch(partial)
            else:
                path = stack.enter_context(self.cache.held(self._identity(found), found.num_bytes, fetch))
            try:
                yield path
            except NbaudioError as error:
                raise type(error)(str(error).replace(str(path), str(self))) from error

    def download(self, target: Path, status: RemoteStat) -> None:
        """Write the whole file to a path.

        Args:
            target: which holds nothing, or the beginning of that very file.
            status: what was told of it just now.

        Raises:
            AudioError: it cannot be had.
        """
        free = shutil.disk_usage(target.parent).free
        if status.num_bytes > free:
            raise AudioError(f"{self}: no space for its {status.num_bytes:,} bytes, {free:,} are free on the disk")
        while True:
            before = _size(target)
            try:
                return with_retries(self, lambda: self._download(target, status))
            except RemoteRefusedError:
                raise
            except AudioError:
                if _size(target) < before + _PIECE_BYTES:
                    raise  # a large file may break off now and then

    def whole(self, most: int) -> bytes | None:
        """All bytes of a small file; None where there are more than `most`.

        Raises:
            AudioError: they cannot be had.
        """
        size = self.status().num_bytes
        if size > most:
            return None
        return self.read(0, size) if size else b""

    def read(self, start: int, stop: int) -> bytes:
        """The bytes [start, stop).

        Raises:
            AudioError: they cannot be had, all of them.
        """
        return with_retries(self, lambda: self._range(start, stop))

    def is_folder(self) -> bool:
        """Whether it is a folder; on the web, whether a page comes instead of a file.

        Raises:
            AudioError: it is not there, or may not be read.
        """
        info = self._info()
        is_page = self._on_web and info.get("mimetype") == "text/html" and not self.name.endswith((".html", ".htm"))
        return info.get("type") == "directory" or is_page

    def ranges(self, status: RemoteStat, *, windows: int, share: float) -> RangeFile | None:
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
        if not status.version or "::" in self.root or (self.cache and self.cache.holds(self._identity(status))):
            return None

        def check() -> None:
            if self.status() != status:
                raise AudioError(f"{self}: the file changed while it was read")

        def read(start: int, stop: int) -> bytes:
            return with_retries(self, lambda: self._range(start, stop))

        try:
            # From behind the start: a server that knows no ranges says so, and does not send all.
            if not _SEEKABLE.match(read(1, 12)):
                return None
        except RemoteRefusedError:
            return None
        return RangeFile(read, check, status.num_bytes)

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
            found = with_retries(self, self._links if self._on_web else self.names)
        except AudioError as error:
            if self._on_web and isinstance(error, RemoteRefusedError):
                return None
            raise InputError(str(error)) from error
        paths, refused = filter_names(found, wanted)
        return None if self._on_web and not paths and not refused else (paths, refused)

    def _info(self) -> dict[str, Any]:
        def info() -> dict[str, Any]:
            fs, path, scheme = self.located
            found: dict[str, Any] = http.info(fs, path, self.network) if scheme in WEB else fs.info(path)
            return found

        return with_retries(self, info, proves=False)

    def names(self) -> set[str]:
        """All files below the folder, relative to it; one request, as `with_retries` makes it."""
        fs, top, scheme = self.located
        prefix = f"{top.rstrip('/')}/" if top.strip("/") else ""
        names = {name.removeprefix(prefix) for name in files(fs, top, levels=1)}
        # Archives may hold absolute names, which are told and not taken.
        return names if scheme in ARCHIVES else {name.removeprefix("/") for name in names}

    def _links(self) -> set[str]:
        fs, top, _ = self.located
        return links(fs, top)

    def _identity(self, status: RemoteStat) -> str:
        return f"{self}\n{status.num_bytes}\n{status.version}"

    def _download(self, partial: Path, found: RemoteStat) -> None:
        """Fetch the whole file; on the web, what has come stays and the rest is asked for."""
        held = _size(partial)
        if not (self._on_web and found.version and 0 < held < found.num_bytes and self._resumed(partial, held, found)):
            fs, path, scheme = self.located
            if scheme in WEB:
                with partial.open("wb") as file:
                    http.download(fs, path, file, found.num_bytes, self.network)
            else:
                # Without parts in memory at once.
                fs.get_file(path, str(partial), **({"max_concurrency": 1} if scheme == "s3" else {}))
        if (held := partial.stat().st_size) != found.num_bytes:
            raise ConnectionError(f"{held:,} of {found.num_bytes:,} bytes came")

    def _resumed(self, partial: Path, held: int, found: RemoteStat) -> bool:
        """Append what is missing; whether the server does so."""
        try:
            with partial.open("ab") as file:
                for start in range(held, found.num_bytes, _PIECE_BYTES):
                    file.write(self._range(start, min(start + _PIECE_BYTES, found.num_bytes)))
                    on_message(self.host)
        except RemoteRefusedError:
            return False
        if self.status() != found:
            raise AudioError(f"{self}: the file changed while it was read")
        return True

    def _range(self, start: int, stop: int) -> bytes:
        fs, path, scheme = self.located
        on_web = scheme in WEB
        data: bytes = http.read_range(fs, path, start, stop, self.network) if on_web else fs.cat_file(path, start=start, end=stop)
        if len(data) != stop - start:
            raise ConnectionError(f"{len(data):,} of {stop - start:,} bytes came")
        return data

    @property
    def is_scheme(self) -> bool:
        """Whether it stands for all addresses of its scheme."""
        return self.root.endswith("://") and "::" not in self.root

    @property
    def _on_web(self) -> bool:
        return urlsplit(self.root).scheme in WEB

    @cached_property
    def located(self) -> FilesystemPath:
        """Its filesystem, and its path there."""
        if self.is_scheme:
            return filesystem_path(self.path, self.network)
        fs, top, scheme = filesystem_path(self.root, self.network)
        if not self.path:
            return FilesystemPath(fs, top, scheme)
        path = quote(self.path) if scheme in WEB else self.path
        return FilesystemPath(fs, f"{top.rstrip('/')}/{path}" if top else path, scheme)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def remote(address: str, cache: Cache | None = None, network: Network | None = None) -> Remote:
    """The file or folder at an address; nothing is asked of it yet.

    Args:
        address: see `nbaudio.storage.urls`.
        cache: where its files are kept.
        network: how long its server is waited for; as the environment says unless given.

    Raises:
        InputError: a limit in the environment is not usable; its scheme is not known, or it holds a password or a query, which
            are secrets and would be written down.
    """
    return Remote(re.sub(r"(?<![/:])/+$", "", check_url(address)), cache, network=network or Network.of())
