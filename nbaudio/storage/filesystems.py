"""The filesystems behind addresses, through fsspec, which nobody else imports."""

import re
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

from nbaudio.core.errors import InputError, MissingExtraError
from nbaudio.core.guards import check_regular
from nbaudio.storage import http
from nbaudio.storage.network import Network
from nbaudio.storage.urls import ARCHIVES, WEB

# Package and extra of those that need more than the core.
_PACKAGES = MappingProxyType({"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "abfs": ("adlfs", "azure")})
# s3fs makes a request again within one of ours, as it sends large files in parts.
_S3_TRIES = 2

# Archives are read by one thread each, and their index is read once.
_ARCHIVE = threading.local()


class FilesystemPath(NamedTuple):
    """Where something is: a filesystem of fsspec, the path in it, and the scheme of its address."""

    fs: Any
    path: str
    scheme: str

    @property
    def web(self) -> bool:
        """Whether it is on a web server."""
        return self.scheme in WEB


def filesystem_path(address: str, network: Network) -> FilesystemPath:
    """The filesystem that an address names, and the path in it.

    Raises:
        MissingExtraError: the package for its scheme is not installed.
        InputError: the machine lacks something else for it.
    """
    scheme = urlsplit(address).scheme
    _check_archive(address, scheme)
    if scheme in ARCHIVES and getattr(_ARCHIVE, "address", None) == address:
        return cast(FilesystemPath, _ARCHIVE.place)
    try:
        from fsspec.core import url_to_fs

        outer = address.rpartition("::")[2]
        if outer != address and urlsplit(outer).scheme in WEB:
            # Of a server that fails one request is enough; fsspec makes two.
            outer_fs, url = url_to_fs(outer, **_options(outer, network))
            http.info(outer_fs, url, network)
        quoted = quote(address, safe="%/:=&~+!$,;'@()*[]") if scheme in WEB else address
        fs, path = url_to_fs(quoted, **_options(address, network))
    except ImportError as error:
        package, extra = _PACKAGES.get(scheme, ("", ""))
        if not extra:
            raise InputError(f"{address}: {error}") from error
        raise MissingExtraError.naming(package, extra) from error
    except OSError as error:
        if scheme == "hdfs" and re.search("libjvm|libhdfs", str(error)):
            raise InputError(f"{address}: Hadoop's own client is needed: Java in JAVA_HOME, libhdfs in HADOOP_HOME") from error
        raise
    if scheme == "s3":
        fs.retries = _S3_TRIES
    if scheme == "tar":  # links and devices are no files, and those with holes have any size
        for member in fs.tar.getmembers():
            if member.issparse() or not (member.isfile() or member.isdir()):
                fs.index.pop(re.sub("/+", "/", member.name.rstrip("/")), None)
    place = FilesystemPath(fs, path, scheme)
    if scheme in ARCHIVES:
        _ARCHIVE.address, _ARCHIVE.place = address, place
    return place


def _check_archive(address: str, scheme: str) -> None:
    """Refuse an archive on this machine that is no regular file."""
    archive = address.rpartition("::")[2]
    if scheme in ARCHIVES and "://" not in archive:
        check_regular(Path(archive))


def _options(address: str, network: Network) -> dict[str, Any]:
    """What the filesystem of an address is told."""
    scheme = urlsplit(address).scheme
    if "::" in address:
        return {each: http.options(each, network) for each in WEB if f"{each}://" in address}
    if scheme in WEB:
        return http.options(scheme, network)
    if scheme == "memory":
        return {}
    # Without its lists of before: what is asked for is how things are now.
    own: dict[str, Any] = {"use_listings_cache": False}
    if scheme == "s3":
        from fsspec.config import conf

        timeout = network.timeout / _S3_TRIES
        waits = {"connect_timeout": timeout, "read_timeout": timeout, "retries": {"max_attempts": 0}}
        own["config_kwargs"] = waits | conf.get(scheme, {}).get("config_kwargs", {})
    return own
