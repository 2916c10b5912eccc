"""The filesystems behind addresses, through fsspec, which nobody else imports."""

import re
import threading
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

from nbaudio.errors import InputError, MissingExtraError
from nbaudio.limits import check_regular
from nbaudio.places.addresses import ARCHIVES, WEB
from nbaudio.places.patience import RefusedError
from nbaudio.version import __version__

# Package and extra of those that need more than the core.
_PACKAGES = MappingProxyType({"s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "abfs": ("adlfs", "azure")})
_CONNECT_S, _SILENCE_S = 30, 60

# Archives are read by one thread each, and their index is read once.
_ARCHIVE = threading.local()


class Place(NamedTuple):
    """Where something is: a filesystem of fsspec, the path in it, and the scheme of its address."""

    fs: Any
    path: str
    scheme: str

    @property
    def web(self) -> bool:
        """Whether it is on a web server."""
        return self.scheme in WEB


def place_of(address: str) -> Place:
    """The filesystem that an address names, and the path in it.

    Raises:
        MissingExtraError: the package for its scheme is not installed.
        InputError: the machine lacks something else for it.
    """
    scheme = urlsplit(address).scheme
    _check_archive(address, scheme)
    if scheme in ARCHIVES and getattr(_ARCHIVE, "address", None) == address:
        return cast(Place, _ARCHIVE.place)
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
    except OSError as error:
        if scheme == "hdfs" and re.search("libjvm|libhdfs", str(error)):
            raise InputError(f"{address}: Hadoop's own client is needed: Java in JAVA_HOME, libhdfs in HADOOP_HOME") from error
        raise
    if scheme == "tar":  # links and devices are no files, and those with holes have any size
        for member in fs.tar.getmembers():
            if member.issparse() or not (member.isfile() or member.isdir()):
                fs.index.pop(re.sub("/+", "/", member.name.rstrip("/")), None)
    place = Place(fs, path, scheme)
    if scheme in ARCHIVES:
        _ARCHIVE.address, _ARCHIVE.place = address, place
    return place


def _check_archive(address: str, scheme: str) -> None:
    """Refuse an archive on this machine that is no regular file."""
    archive = address.rpartition("::")[2]
    if scheme in ARCHIVES and "://" not in archive:
        check_regular(Path(archive))


def web_range(fs: Any, url: str, start: int, stop: int) -> bytes:
    """The bytes [start, stop) of a web file: fsspec's `cat_file` fetches all of it where the server knows no ranges.

    Raises:
        RefusedError: the server serves no ranges.
    """
    from fsspec.asyn import sync

    data: bytes = sync(fs.loop, _web_range, fs, url, start, stop)
    return data


async def _web_range(fs: Any, url: str, start: int, stop: int) -> bytes:
    session = await fs.set_session()
    headers = {**fs.kwargs.get("headers", {}), "Range": f"bytes={start}-{stop - 1}"}
    async with session.get(fs.encode_url(url), **{**fs.kwargs, "headers": headers}) as answer:
        answer.raise_for_status()
        told = answer.headers.get("Content-Range", "")
        # All of a file is as good where all was asked for.
        whole = start == 0 and answer.headers.get("Content-Length") == str(stop)
        if answer.status != HTTPStatus.PARTIAL_CONTENT and not whole:
            raise RefusedError(f"{url}: the server serves no ranges")
        if not whole and not told.startswith(f"bytes {start}-"):
            raise ConnectionError(f"bytes from {start:,} were asked for, {told or 'of no range'} came")
        data: bytes = await answer.read()
        return data


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
