"""Remote files and folders.

Uploads are written beside their names and moved, except to object stores, which show whole ones.
"""

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from nbaudio.core.atomic import atomic_write, raise_disk_full, sha256_file, size_of
from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.core.input_guards import check_expansion
from nbaudio.core.progress import on_message
from nbaudio.storage.cache import Cache
from nbaudio.storage.filesystems import (
    FilesystemPath,
    damage_of,
    filesystem_path,
    filter_names,
    list_files,
    list_links,
)
from nbaudio.storage.http import compressed_message
from nbaudio.storage.network import (
    Network,
    RemoteNotFoundError,
    RemoteRefusedError,
    convert_error,
    with_retries,
)
from nbaudio.storage.range_file import NO_LENGTH, FileStatus, RangeFile
from nbaudio.storage.urls import ARCHIVES, WEB, check_url, is_url

CHANGED_MESSAGE = "the file changed since it was ingested; run ingest again"

# Ranges are read if windows, of this many bytes each, are at most this share of the file. Other
# files are fetched whole.
_MAX_SHARE = 0.25
_WINDOW_BYTES = 1 << 20
_MIN_BYTES = 8 << 20
# A broken transfer is resumed in ranges of this size.
_PIECE_BYTES = 16 << 20
# Headers after their first byte of the formats in which a sample is found by computing or by a few
# reads: WAV and FLAC.
_SEEKABLE = re.compile(rb"(IFF|F64)....WAVE|LaC", re.DOTALL)

# Object stores, with options that keep few parts of an upload in memory.
_OBJECT_STORES: Mapping[str, Mapping[str, Any]] = {
    "s3": {"chunksize": 16 << 20, "max_concurrency": 2},
    "gs": {"chunksize": 16 << 20},
    "abfs": {"max_concurrency": 1},
}
# Larger copies of files whose bytes were read already are on the disk.
_MEMORY_FILE_BYTES = 16 << 20
_PARTIAL = ".partial"
# The Unix time at which an upload began, in the name of its file.
_BEGAN = re.compile(rf"\.([0-9a-f]{{8}})-\w+\{_PARTIAL}$")
_OLD_S = 86_400  # seconds after which an upload is that of a killed run

# Names of filesystems for what changes with the content, the most reliable first.
_VERSIONS = (
    "ETag",
    "etag",
    "blob_id",
    "md5Hash",
    "CRC",
    "Last-Modified",
    "LastModified",
    "last_modified",
    "mtime",
    "modified",
    "created",
)


class Content(NamedTuple):
    """Bytes of a file that were read with others, and its version."""

    file_bytes: bytes
    version: str | None


@dataclass(frozen=True)
class Remote:
    """A remote file or folder; see `LocalPath`.

    Failed listings raise InputError or NbaudioError, failed writes NbaudioError.
    """

    root: str  # validated address of the folder
    cache: Cache | None = None  # keeps fetched files; None deletes them after use
    path: str = ""  # below the folder; a whole address if the folder is a bare scheme
    sha256: str | None = None  # of the file, if known; other bytes are refused
    # The bytes, if they have been read already
    content: Content | None = field(default=None, repr=False)
    network: Network = field(default_factory=Network.of, repr=False, compare=False)
    local: ClassVar[None] = None

    def __truediv__(self, path: str) -> "Remote":
        if is_url(path) and not (self.is_scheme and path.startswith(self.root)):
            return remote(path, self.cache, self.network)
        if self.path:
            path = f"{self.path}/{path}"
        return replace(self, path=path, sha256=None, content=None)

    def __str__(self) -> str:
        if not self.path or self.is_scheme:
            return self.path or self.root
        inside, chain, outside = self.root.partition("::")
        path = quote(self.path) if urlsplit(self.root).scheme in WEB else self.path
        return f"{inside.removesuffix('/')}/{path}{chain}{outside}"

    def __getstate__(self) -> dict[str, Any]:  # without cached properties
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def name(self) -> str:
        """Last part of the path, or of the address."""
        path = self.path
        if not path:
            path = self.root.partition("::")[0].partition("://")[2]
            if urlsplit(self.root).scheme in WEB:
                path = unquote(path)
        return PurePosixPath(path).name

    @property
    def parent(self) -> "Remote":
        """Folder that holds this file or folder."""
        if self.path:
            return replace(self, path=self.path.rpartition("/")[0], sha256=None, content=None)
        inside, chain, outside = self.root.partition("::")
        scheme, _, path = inside.partition("://")
        return replace(
            self,
            root=f"{scheme}://{path.rpartition('/')[0]}{chain}{outside}",
            sha256=None,
            content=None,
        )

    @property
    def host(self) -> str:
        """The server with its port, or the bucket; of an archive, that of the archive."""
        address = (self.path if self.is_scheme else self.root).rpartition("::")[2]
        if address.startswith("hf://"):
            return "the Hugging Face Hub"
        return urlsplit(address).netloc or "this machine"

    def status(self) -> FileStatus:
        """Return size and version.

        Raise AudioError if the file cannot be read or its length is unknown.
        """
        if self.content is not None:
            return FileStatus(len(self.content.file_bytes), self.content.version)
        file_facts = self._info()
        if file_facts.get("type") == "directory":
            raise AudioError(f"{self}: a folder, not a file")
        if file_facts.get("size") is None:
            coding = file_facts.get("coding")
            reason = compressed_message(coding) if coding else NO_LENGTH
            raise AudioError(f"{self}: {reason}")
        with convert_error(InputError, RemoteRefusedError):
            if file_facts.get("compress_size") is not None:  # of a zip's members
                check_expansion(self, file_facts["compress_size"], file_facts["size"])
            self.network.check_size(self, int(file_facts["size"]))
        versions = (str(file_facts[name]) for name in _VERSIONS if file_facts.get(name))
        return FileStatus(int(file_facts["size"]), next(versions, None))

    def loaded(self, most: int) -> "Remote":
        """Return the file with its content, fetched in one request on the web.

        Return it without the content if it has more than `most` bytes.
        """
        if not self._is_on_web:
            size = self.status().num_bytes
            if size > most:
                return self
            file_bytes = self.read(0, size) if size else b""
            return replace(self, content=Content(file_bytes, None))
        content = with_retries(self, lambda: self.located.fs.cat_whole(self.located.path, most))
        if content is None:
            return self
        return replace(self, content=Content(content, None))

    def connect(self, number: int) -> None:
        """Open connections for later requests, if the address is on the web."""
        if self._is_on_web:
            self.located.fs.connect(self.located.path, number)

    @contextmanager
    def fetched(self, status: FileStatus | None = None) -> Iterator[Path]:
        """Yield a local copy of the whole file, held in the cache within the context.

        Errors within the context name the address instead of the copy.
        """
        current = status or self.status()

        def fetch(partial: Path) -> None:
            self.download(partial, current)
            self._check_sha256(partial)

        with ExitStack() as stack:
            if self.content is not None:
                path = stack.enter_context(_temporary_file(self.content))
                self._check_sha256(path)
            elif self.cache is None:
                path = Path(
                    stack.enter_context(tempfile.TemporaryDirectory(prefix="nbaudio-")), "fetched"
                )
                with atomic_write(path, sync=False) as partial:
                    fetch(partial)
            else:
                path = stack.enter_context(
                    self.cache.pinned(self._identity(current), current.num_bytes, fetch)
                )
            try:
                yield path
            except NbaudioError as error:
                raise type(error)(str(error).replace(str(path), str(self))) from error

    def _check_sha256(self, copy: Path) -> None:
        """Raise AudioError unless a local copy has the hash of the file, if that is known."""
        if self.sha256 is not None and sha256_file(copy) != self.sha256:
            raise AudioError(f"{self}: {CHANGED_MESSAGE}")

    def download(self, target: Path, status: FileStatus) -> None:
        """Download the file to `target`, continuing a partial download.

        `status` is the current one of the file.
        """
        free = shutil.disk_usage(target.parent).free
        if status.num_bytes > free:
            raise AudioError(
                f"{self}: no space for its {status.num_bytes:,} bytes, "
                f"{free:,} are free on the disk"
            )
        with_retries(self, lambda: self._download(target, status), received=lambda: size_of(target))

    def read(self, start: int, stop: int) -> bytes:
        """See `LocalPath.read`."""
        return with_retries(self, lambda: self._range(start, stop))

    def is_folder(self) -> bool:
        """See `LocalPath.is_folder`."""
        file_facts = self._info()
        is_page = (
            self._is_on_web
            and file_facts.get("mimetype") == "text/html"
            and not self.name.endswith((".html", ".htm"))
        )
        return file_facts.get("type") == "directory" or is_page

    def ranges(self, windows: int, share: float) -> tuple[FileStatus, RangeFile | None]:
        """See `LocalPath.ranges`.

        Ranges are read of WAV and FLAC from a server with ranges and versions, unless the file is
        cached.
        """
        status = self.status()
        cost = share * status.num_bytes + windows * _WINDOW_BYTES
        if status.num_bytes < _MIN_BYTES or cost > _MAX_SHARE * status.num_bytes:
            return status, None
        if (
            not status.version
            or "::" in self.root
            or (self.cache and self.cache.holds(self._identity(status)))
        ):
            return status, None

        if self._is_on_web:
            self.located.fs.forget_version(self.located.path)
        with suppress(RemoteRefusedError):
            # Not from byte 0: a server without ranges then refuses instead of sending the whole
            # file.
            if _SEEKABLE.match(self.read(1, 12)):
                return status, RangeFile(
                    self.read, partial(self._check_unchanged, status), status.num_bytes
                )
        return status, None

    def listing(
        self, wanted: Callable[[str], bool]
    ) -> tuple[list[str], list[tuple[str, str]]] | None:
        """See `LocalPath.listing`; None also for a web server that refuses to list.

        Raise InputError if the folder cannot be listed.
        """
        if self.is_scheme:
            return None
        try:
            names = with_retries(self, self._names)
        except AudioError as error:
            if self._is_on_web and isinstance(error, RemoteRefusedError):
                return None
            raise InputError(str(error)) from error
        paths, refused = filter_names(names, wanted)
        if damage := damage_of(self.located):
            refused.append((self.root.rpartition("/")[2], damage))
        if self._is_on_web and not paths and not refused:
            return None
        return paths, refused

    def files(self) -> Iterator[str]:
        """See `LocalPath.files`."""
        with convert_error(AudioError, NbaudioError), suppress(RemoteNotFoundError):
            yield from sorted(with_retries(self, self._names))

    def names(self) -> Iterator[str]:
        """See `LocalPath.names`; there are none on the web and on the Hub."""
        if self._is_on_web or self.is_scheme or self.located.scheme == "hf":
            return
        fs, top, _ = self.located
        with suppress(RemoteNotFoundError, RemoteRefusedError):
            yield from (
                PurePosixPath(name).name
                for name in with_retries(self, lambda: fs.ls(top, detail=False))
            )

    @contextmanager
    def new(self) -> Iterator[Path]:
        """Yield a local path to write to; upload the file when the context succeeds."""
        with tempfile.TemporaryDirectory(prefix="nbaudio-") as folder:
            with atomic_write(Path(folder) / self.name, sync=False) as partial:
                yield partial
            self.put(Path(folder) / self.name)

    def put(self, source: Path) -> FileStatus:
        """Upload a local file under this name, which appears when it is complete."""
        with convert_error(AudioError, NbaudioError):
            self._write(
                lambda fs, path, options: fs.put_file(str(source), path, **options), "written"
            )
            status = self.status()
        if status.num_bytes != source.stat().st_size:
            raise NbaudioError(
                f"{self}: {status.num_bytes:,} of {source.stat().st_size:,} bytes are "
                "there after the upload"
            )
        return status

    def create(self, source: Path) -> None:
        """Upload a small local file unless there is one of this name.

        Of several writers, one does so.
        """
        with convert_error(AudioError, NbaudioError):
            self._write(
                lambda fs, path, options: fs.put_file(str(source), path, **options),
                "written",
                new=True,
            )

    def copy_from(self, source: object) -> FileStatus:
        """Let the server copy a file of the same scheme to this name."""
        origin = remote(str(source)).located.path
        with convert_error(AudioError, NbaudioError):
            self._write(lambda fs, path, _: fs.cp_file(origin, path), "copied")
            return self.status()

    def _write(
        self,
        write: Callable[[Any, str, Mapping[str, Any]], object],
        done: str,
        *,
        new: bool = False,
    ) -> None:
        """Call `write` in a way that the file appears when it is complete.

        Its arguments are filesystem, path and options for uploads. A `new` file replaces no other.
        HDFS does not rename to a name that exists: to replace a file, it is removed first.
        """
        writer = f"{int(time.time()):x}-{os.urandom(4).hex()}"

        def publish() -> None:
            """Write the file under its name, or beside it and move it."""
            fs, path, scheme = self.located
            if new and fs.exists(path):
                return
            if scheme in _OBJECT_STORES:
                options = {"mode": "create"} if new else _OBJECT_STORES[scheme]
                with suppress(FileExistsError):  # which only "create" raises
                    write(fs, path, options)
                return
            folder, _, name = path.rpartition("/")
            beside = f"{folder}/.{name}.{writer}{_PARTIAL}"
            fs.makedirs(folder, exist_ok=True)
            write(fs, beside, {})
            try:
                fs.mv(beside, path)
            except OSError:
                if not fs.exists(path):
                    raise
                fs.rm_file(beside if new else path)
                if not new:
                    fs.mv(beside, path)

        with_retries(self, publish, done=done)

    def forget(self, num_bytes: int | None, version: str | None) -> None:
        """See `LocalPath.forget`."""
        if self.cache is not None and num_bytes is not None:
            self.cache.forget(self._identity(FileStatus(num_bytes, version)))

    def tidy(self, *, older_than_s: float = 0) -> None:
        """See `LocalPath.tidy`; also remove multipart uploads that were never completed."""
        latest = time.time() - older_than_s
        for name in self.files():
            if PurePosixPath(name).name.startswith(".") and name.endswith(_PARTIAL):
                began = _BEGAN.search(name)
                if began is None or int(began[1], 16) <= latest:
                    (self / name).remove()
        fs, path, scheme = self.located
        if scheme != "s3":
            return  # other stores delete such uploads by themselves
        bucket, _, prefix = path.partition("/")
        for upload in with_retries(self, lambda: fs.list_multipart_uploads(bucket), done="listed"):
            if upload["Key"].startswith(f"{prefix}/") and upload["Initiated"].timestamp() <= latest:
                with_retries(
                    self,
                    partial(fs.abort_mpu, bucket, upload["Key"], upload["UploadId"]),
                    done="tidied",
                )

    def remove(self) -> None:
        """See `LocalPath.remove`; raise NbaudioError if it cannot be removed."""
        fs, path, _ = self.located
        with convert_error(AudioError, NbaudioError), suppress(RemoteNotFoundError):
            with_retries(self, lambda: fs.rm_file(path), done="removed")

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Tidy a folder that runs write to, as in `LocalPath.shared`.

        Without locks, only what is old is removed.
        """
        self.tidy(older_than_s=_OLD_S)
        yield

    def with_sha256(self, sha256: str | None) -> "Remote":
        """See `LocalPath.with_sha256`."""
        return replace(self, sha256=sha256)

    def _info(self) -> dict[str, Any]:
        return with_retries(self, lambda: self.located.fs.info(self.located.path), proves=False)

    def _names(self) -> set[str]:
        """Return all files below the folder, relative to it.

        It must be called through `with_retries`.
        """
        fs, top, scheme = self.located
        if scheme in WEB:
            return list_links(fs, top)
        prefix = f"{top.rstrip('/')}/" if top.strip("/") else ""
        names = {name.removeprefix(prefix) for name in list_files(fs, top, levels=1)}
        # Archives may hold absolute names, which are reported and refused.
        if scheme in ARCHIVES:
            return names
        return {name.removeprefix("/") for name in names}

    def _identity(self, status: FileStatus) -> str:
        return f"{self}\n{status.num_bytes}\n{status.version}"

    def _download(self, partial: Path, status: FileStatus) -> None:
        """Fetch the whole file; on the web, resume with the missing bytes.

        Files from the Hub are fetched in ranges, as its library shows bars.
        """
        num_fetched = size_of(partial)
        (fs, path, scheme) = self.located
        if status.version and (
            scheme == "hf" or (self._is_on_web and 0 < num_fetched < status.num_bytes)
        ):
            # By a server without ranges
            with (
                suppress(RemoteRefusedError),
                partial.open("ab") as file,
            ):
                for start in range(num_fetched, status.num_bytes, _PIECE_BYTES):
                    file.write(self._range(start, min(start + _PIECE_BYTES, status.num_bytes)))
                    on_message(self.host)
                self._check_unchanged(status)
                return
        options: dict[str, int] = {}
        if scheme in WEB:
            options = {"num_bytes": status.num_bytes}
        elif scheme == "s3":
            options = {"max_concurrency": 1}  # one part in memory at a time
        fs.get_file(path, str(partial), **options)
        if (num_fetched := partial.stat().st_size) != status.num_bytes:
            raise ConnectionError(f"{num_fetched:,} of {status.num_bytes:,} bytes came")

    def _check_unchanged(self, status: FileStatus) -> None:
        if self.status() != status:
            raise AudioError(f"{self}: the file changed while it was read")

    def _range(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) by one request; raise ConnectionError for fewer."""
        fs, path, scheme = self.located
        # The Hub's filesystem would read ahead.
        options = {"cache_type": "none", "size": stop} if scheme == "hf" else {}
        content: bytes = fs.cat_file(path, start=start, end=stop, **options)
        if len(content) != stop - start:
            raise ConnectionError(f"{len(content):,} of {stop - start:,} bytes came")
        return content

    @property
    def is_scheme(self) -> bool:
        """Whether the address is a bare scheme such as ``s3://``, which stands for all its URLs."""
        return self.root.endswith("://") and "::" not in self.root

    @property
    def _is_on_web(self) -> bool:
        return urlsplit(self.root).scheme in WEB

    @cached_property
    def located(self) -> FilesystemPath:
        """Its filesystem and path."""
        if self.is_scheme:
            return filesystem_path(self.path, self.network)
        fs, top, scheme = filesystem_path(self.root, self.network)
        if not self.path:
            return FilesystemPath(fs, top, scheme)
        path = quote(self.path) if scheme in WEB else self.path
        if top:
            path = f"{top.rstrip('/')}/{path}"
        return FilesystemPath(fs, path, scheme)


@contextmanager
def _temporary_file(content: Content) -> Iterator[Path]:
    """Yield a file of these bytes, which is removed afterwards.

    Small ones are in memory, as disks take milliseconds to remove a file.
    """
    with ExitStack() as stack:
        path = None
        if len(content.file_bytes) <= _MEMORY_FILE_BYTES:
            path = stack.enter_context(_memory_file(content))
        yield path or stack.enter_context(_disk_file(content))


@contextmanager
def _memory_file(content: Content) -> Iterator[Path | None]:
    """Yield a file of these bytes in memory, or None on a system that has no such files."""
    if sys.platform != "linux" or not Path("/proc/self/fd").exists():
        yield None
        return
    with open(os.memfd_create("nbaudio"), "wb") as file:  # noqa: PTH123 - by its number
        file.write(content.file_bytes)
        file.flush()
        # Not "self": other programs may be given the path.
        yield Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")


@contextmanager
def _disk_file(content: Content) -> Iterator[Path]:
    """Yield a file of these bytes in the folder for temporary files."""
    with tempfile.NamedTemporaryFile(prefix="nbaudio-", buffering=0) as file:
        path = Path(file.name)
        with raise_disk_full(path):
            path.write_bytes(content.file_bytes)
        yield path


def remote(address: str, cache: Cache | None = None, network: Network | None = None) -> Remote:
    """Return the remote file or folder at an address, without a request.

    Raise InputError if it or a limit is invalid.
    """
    return Remote(
        re.sub(r"(?<![/:])/+$", "", check_url(address)), cache, network=network or Network.of()
    )
