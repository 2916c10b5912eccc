"""Atomic uploads to object stores and remote filesystems.

Object stores show an object only when it is complete. Other filesystems show partial files: there a file is written beside its
name and moved onto it.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from nbaudio.core.errors import AudioError, InputError, NbaudioError
from nbaudio.storage.base import FileStatus
from nbaudio.storage.retry import convert_error, with_retries

if TYPE_CHECKING:
    from nbaudio.storage.remote import Remote

# Object stores, with options that keep few parts of an upload in memory.
_OBJECT_STORES: Mapping[str, Mapping[str, Any]] = {
    "s3": {"chunksize": 16 << 20, "max_concurrency": 2},
    "gs": {"chunksize": 16 << 20},
    "abfs": {"max_concurrency": 1},
}
WRITABLE = (*_OBJECT_STORES, "hdfs", "memory")
_PARTIAL = ".partial"


def check_writable(address: str) -> None:
    """Raise InputError for an address that nothing can be written to."""
    scheme, _, path = address.partition("://")
    if scheme not in WRITABLE or "::" in address or not path.strip("/"):
        known = ", ".join(f"{name}://" for name in WRITABLE[:-1])
        raise InputError(f"{address}: cannot be written; give a folder, or {known} with bucket and folder")


def send(place: "Remote", source: Path) -> FileStatus:
    """Upload a local file and return its size and version in the store; raise NbaudioError if that fails."""

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

    with convert_error(AudioError, NbaudioError):
        with_retries(place, write, done="written")
        found = place.status()
    if found.num_bytes != source.stat().st_size:
        raise NbaudioError(f"{place}: {found.num_bytes:,} of {source.stat().st_size:,} bytes are there after the upload")
    return found


def tidy(folder: "Remote") -> None:
    """Remove what killed runs left below a folder: temporary files, and multipart uploads that were never completed."""
    for name in folder.files():
        if PurePosixPath(name).name.startswith(".") and name.endswith(_PARTIAL):
            (folder / name).remove()
    fs, path, scheme = folder.located
    if scheme != "s3":
        return  # other stores delete such uploads by themselves
    bucket, _, prefix = path.partition("/")
    for upload in with_retries(folder, lambda: fs.list_multipart_uploads(bucket), done="listed"):
        if upload["Key"].startswith(f"{prefix}/"):
            with_retries(folder, partial(fs.abort_mpu, bucket, upload["Key"], upload["UploadId"]), done="tidied")
