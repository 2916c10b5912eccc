"""Files that are written elsewhere, each under its final name whole or not at all.

Conventions: object stores show an object when all of it has come (multipart uploads are completed last). Other filesystems show
what is being written: there a file is written beside its name and moved onto it.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.storage.remote import Remote, RemoteStat
from nbaudio.storage.retry import RemoteNotFoundError, with_retries

# Stores of whole objects, and how their filesystems are told to hold few parts in memory.
_OBJECT_STORES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "s3": {"chunksize": 16 << 20, "max_concurrency": 2},
        "gs": {"chunksize": 16 << 20},
        "abfs": {"max_concurrency": 1},
    }
)
WRITABLE = (*_OBJECT_STORES, "hdfs", "memory")
_PARTIAL = ".partial"


def check_writable(address: str) -> None:
    """Refuse an address to which nothing can be written.

    Raises:
        InputError: its scheme is of another kind, or nothing stands behind it.

    Examples:
        >>> check_writable("s3://bucket/corpus")
    """
    scheme, _, path = address.partition("://")
    if scheme not in WRITABLE or "::" in address or not path.strip("/"):
        known = ", ".join(f"{name}://" for name in WRITABLE[:-1])
        raise InputError(f"{address}: nothing can be written there; a folder can be written, or {known} with bucket and folder")


def send(place: Remote, source: Path) -> RemoteStat:
    """Write a local file to a place.

    Returns:
        What the store tells of it now.

    Raises:
        NbaudioError: it could not be written, or is not as long as the file then.
    """

    def write() -> None:
        fs, path, scheme = place.located
        if scheme in _OBJECT_STORES:
            fs.put_file(str(source), path, **_OBJECT_STORES[scheme])
            return
        folder, _, name = path.rpartition("/")
        beside = f"{folder}/.{name}{_PARTIAL}"
        fs.makedirs(folder, exist_ok=True)
        fs.put_file(str(source), beside)
        fs.mv(beside, path)

    try:
        with_retries(place, write, done="written")
        found = place.status()
    except AudioError as error:
        raise NbaudioError(str(error)) from error
    if found.num_bytes != source.stat().st_size:
        raise NbaudioError(f"{place}: {found.num_bytes:,} of {source.stat().st_size:,} bytes are there after writing it")
    return found


def delete_file(place: Remote) -> None:
    """Remove a file, if it is there.

    Raises:
        NbaudioError: it could not be removed.
    """
    fs, path, _ = place.located
    try:
        with_retries(place, lambda: fs.rm_file(path), done="removed")
    except RemoteNotFoundError:
        return
    except AudioError as error:
        raise NbaudioError(str(error)) from error


def names(folder: Remote) -> Iterator[str]:
    """Names of all files below a folder, relative to it; none where there is no folder.

    Raises:
        NbaudioError: it could not be listed.
    """
    try:
        found = with_retries(folder, folder.names)
    except RemoteNotFoundError:
        return
    except AudioError as error:
        raise NbaudioError(str(error)) from error
    yield from sorted(found)


def tidy(folder: Remote) -> None:
    """Remove what killed runs left half-written below a folder: parts beside files, and uploads that nobody will complete."""
    for name in names(folder):
        if PurePosixPath(name).name.startswith(".") and name.endswith(_PARTIAL):
            delete_file(folder / name)
    fs, path, scheme = folder.located
    if scheme != "s3":
        return  # other stores drop such uploads by themselves
    bucket, _, prefix = path.partition("/")
    for upload in with_retries(folder, lambda: fs.list_multipart_uploads(bucket), done="listed"):
        if upload["Key"].startswith(f"{prefix}/"):
            with_retries(folder, partial(fs.abort_mpu, bucket, upload["Key"], upload["UploadId"]), done="tidied")
