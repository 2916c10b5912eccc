"""Filesystems of URLs, and recursive listings of them.

The web has `HttpFiles`, all others are those of fsspec.
"""

import re
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote, unquote, urlsplit

from nbaudio.core.errors import InputError, MissingExtraError
from nbaudio.core.input_guards import check_regular
from nbaudio.storage import http, hub
from nbaudio.storage.network import FIRST_PAUSE_S, Network, backoff_seconds
from nbaudio.storage.urls import ARCHIVES, WEB, stays_inside

# Package and extra of the schemes that need more than the core.
_PACKAGES = {"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "abfs": ("adlfs", "azure")}
# s3fs retries inside a request of ours, because it sends large files in parts.
_S3_TRIES = 2
# A large file takes many requests. One that fails at once is repeated, at most so many times and in
# so many seconds. One that times out is not repeated, as it has taken its time already.
_S3_REQUEST_TRIES = 8
_S3_REQUEST_S = 5.0
_S3_FIRST_PAUSE_S = 0.1
_MAX_DEPTH = 30
_PIECE_BYTES = 1 << 20

# The archive that this thread reads: its index is read once.
_ARCHIVE = threading.local()


class FilesystemPath(NamedTuple):
    """A filesystem, a path in it, and the scheme of the URL."""

    fs: Any
    path: str
    scheme: str


def filesystem_path(address: str, network: Network) -> FilesystemPath:
    """Return the filesystem and the path of a URL.

    Raise MissingExtraError if the package for its scheme is not installed.
    """
    scheme = urlsplit(address).scheme
    archive = address.rpartition("::")[2]
    if scheme in ARCHIVES and "://" not in archive:
        check_regular(Path(archive))
    if scheme in ARCHIVES and getattr(_ARCHIVE, "address", None) == address:
        return cast(FilesystemPath, _ARCHIVE.place)
    if scheme in WEB:
        return FilesystemPath(
            http.HttpFiles(network), quote(address, safe="%/:=&~+!$,;'@()*[]"), scheme
        )
    if scheme == "hf":
        return FilesystemPath(hub.hub_filesystem(network), address.removeprefix("hf://"), scheme)
    fs, path = _open_filesystem(address, scheme, network)
    if scheme == "s3":
        fs.retries = _S3_TRIES
        fs.s3.meta.events.register(
            "needs-retry.s3", s3_retry_seconds, unique_id="nbaudio-retry-seconds"
        )
    # Only regular files: links and devices are none, and sparse files have any size
    if scheme == "tar":
        _read_past_damage(fs)
        for member in fs.tar.getmembers():
            if member.issparse() or not (member.isfile() or member.isdir()):
                fs.index.pop(re.sub("/+", "/", member.name.rstrip("/")), None)
    place = FilesystemPath(fs, path, scheme)
    if scheme in ARCHIVES:
        _ARCHIVE.address = address
        _ARCHIVE.place = place
    return place


def s3_retry_seconds(
    response: tuple[Any, Any] | None,
    attempts: int,
    caught_exception: Exception | None,
    request_dict: Mapping[str, Any],
    **_: object,
) -> float | None:
    """Return the seconds before a request to S3 is sent again, or None to let it fail.

    This is a handler of botocore's event `needs-retry`, which it calls after each response and
    each failure, with its own names of parameters.
    """
    from botocore.exceptions import ConnectionClosedError

    began = request_dict["context"].setdefault("nbaudio_began", time.monotonic())
    pause = backoff_seconds(attempts) * _S3_FIRST_PAUSE_S / FIRST_PAUSE_S
    if attempts >= _S3_REQUEST_TRIES or time.monotonic() + pause - began > _S3_REQUEST_S:
        return None
    if response is None:
        if isinstance(caught_exception, ConnectionClosedError):
            return pause
        return None
    http_response = response[0]
    if http_response.status_code < 500 or "Retry-After" in http_response.headers:
        return None
    return pause


def _open_filesystem(address: str, scheme: str, network: Network) -> tuple[Any, str]:
    """Return the filesystem of fsspec for a URL, and the path in it.

    Raise MissingExtraError if its package is not installed, InputError if it cannot be used.
    """
    archive = address.rpartition("::")[2]
    try:
        from fsspec.config import conf
        from fsspec.core import filesystem, url_to_fs

        if archive != address and urlsplit(archive).scheme in WEB:
            fs = filesystem(
                scheme, fo=http.HttpFiles(network).open(archive), skip_instance_cache=True
            )
            return fs, fs._strip_protocol(address.partition("::")[0])
        options: dict[str, Any] = {}
        if scheme not in ("memory", *ARCHIVES):
            options["use_listings_cache"] = False  # listings are never served from fsspec's cache
        if scheme == "s3":
            timeout = network.timeout / _S3_TRIES
            limits = {
                "connect_timeout": timeout,
                "read_timeout": timeout,
                "retries": {"max_attempts": 0},
            }
            options["config_kwargs"] = limits | conf.get(scheme, {}).get("config_kwargs", {})
        return url_to_fs(address, **options)  # type: ignore[no-any-return]
    except ImportError as error:
        package, extra = _PACKAGES.get(scheme, ("", ""))
        if not extra:
            raise InputError(f"{address}: {error}") from error
        raise MissingExtraError.naming(package, extra) from error
    except OSError as error:
        if scheme == "hdfs" and re.search("libjvm|libhdfs", str(error)):
            raise InputError(
                f"{address}: Hadoop's own client is needed: Java in JAVA_HOME, "
                "libhdfs in HADOOP_HOME"
            ) from error
        raise


def _read_past_damage(fs: Any) -> None:
    """Set `fs.damage`: what is wrong with a tar, or None; index what follows a damaged header.

    As in `archives.TarContents`, reading goes on with the next intact header.
    """
    if hasattr(fs, "damage"):
        return  # fsspec keeps its filesystems
    file = fs.tar.fileobj
    file.seek(fs.tar.offset)
    block = file.read(tarfile.BLOCKSIZE)
    if not block:
        fs.damage = "its end marker is missing: it may be truncated"
    elif block.strip(b"\0"):
        fs.damage = "a header in it is damaged: the file there is lost, what follows is read"
        file.seek(0)
        fs.tar = tarfile.TarFile(fileobj=file, ignore_zeros=True)
        fs._index()
    elif any(piece.strip(b"\0") for piece in iter(partial(file.read, _PIECE_BYTES), b"")):
        fs.damage = (
            "what follows its end marker is not read; ingest the folder that "
            "'tar --ignore-zeros' unpacks"
        )
    else:
        fs.damage = None


def damage_of(place: FilesystemPath) -> str | None:
    """Return what is wrong with the archive of a filesystem, if that is known."""
    if place.scheme == "tar":
        return getattr(place.fs, "damage", None)
    return None


def filter_names(
    names: Iterable[str], wanted: Callable[[str], bool]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the wanted names that are not hidden, sorted, and the refused ones.

    Refused are those that point outside their folder; each has a reason.
    """
    paths = []
    refused = []
    for name in sorted(names):
        if not wanted(name) or any(
            part.startswith(".") and part not in (".", "..") for part in name.split("/")
        ):
            continue
        if stays_inside(name):
            paths.append(name)
        else:
            refused.append((name, "its name points outside the audio folder"))
    return paths, refused


def list_files(fs: Any, folder: str, levels: int) -> Iterator[str]:
    """Yield the files below a folder; FileNotFoundError if it does not exist."""
    # Folders below the second level take one request each: one for all of them would hold the facts
    # of all files at once.
    for entry in fs.ls(folder, detail=True):
        name = entry["name"].rstrip("/")
        if entry["type"] != "directory":
            yield name
        elif name.strip("/") == folder.strip("/"):
            continue  # a marker object of the folder itself, which stores may hold
        elif levels:
            yield from list_files(fs, name, levels - 1)
        else:
            yield from fs.find(name)


def list_links(fs: http.HttpFiles, top: str) -> set[str]:
    """Return the files that the pages of a web folder and its subfolders link to.

    They are relative to the folder.
    """
    top = f"{top.rstrip('/')}/"
    names: set[str] = set()
    seen = {top}
    folders = [top]
    while folders:
        folder = folders.pop()
        for link in fs.ls(folder):
            # Servers link to the same page in another order: ?C=M;O=A.
            if link in seen or not link.startswith(folder) or "?" in link or "#" in link:
                continue
            seen.add(link)
            name = unquote(link.removeprefix(top))
            if not link.endswith("/"):
                names.add(name)
            elif name.count("/") <= _MAX_DEPTH and stays_inside(name.rstrip("/")):
                folders.append(link)
    return names
