"""Addresses of what lies elsewhere: which are taken, and what of them is never written down.

Conventions: an address is that of a folder or file: https://host/folder, s3://bucket/a.json, zip://folder::https://host/a.zip.
With nothing behind the scheme (``s3://``) it stands for all addresses of that scheme. It never holds credentials: those come from
the environment and the files that the filesystems read themselves.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from nbaudio.core.errors import InputError, strip_queries

#: Schemes that are known.
SCHEMES = ("http", "https", "s3", "gs", "abfs", "hdfs", "zip", "tar", "memory")
WEB = ("http", "https")
ARCHIVES = ("zip", "tar")
# Values of a query that are shorter may stand in a text by chance.
_SHORTEST_SECRET = 4


def is_url(text: str) -> bool:
    """Whether a text is the address of something, not the path of a local file.

    Examples:
        >>> is_url("s3://bucket/a"), is_url("zip://::a.zip"), is_url("a/b c.wav")
        (True, True, False)
    """
    return "://" in text


def check_url(address: str) -> str:
    """The address, if nothing is wrong with it; the path of a local archive in it is made absolute.

    Raises:
        InputError: its scheme is not known, or it holds a password or a query, which are secrets and would be written down; the
            message leaves them out.

    Examples:
        >>> check_url("https://host/a%20b")
        'https://host/a%20b'
    """
    shown = redact_url(address)
    parts = address.split("::")
    for part in parts:
        scheme = part.partition("://")[0] if "://" in part else "file"
        if scheme not in SCHEMES and not (len(parts) > 1 and scheme == "file" and part != parts[0]):
            raise InputError(f"{shown}: scheme {scheme!r} is unknown; known are {', '.join(SCHEMES)}")
        if scheme in ARCHIVES and part == parts[-1]:
            raise InputError(
                f"{shown}: wanted is {scheme}://FOLDER-INSIDE::ARCHIVE, such as {scheme}://::https://host/a.{scheme}"
            )
        user = part.partition("://")[2].partition("/")[0].rpartition("@")[0]
        if ":" in user or (user and scheme in WEB):
            raise InputError(f"{shown}: a name or password has no place in an address; put it in ~/.netrc or the environment")
        if scheme in WEB and ("?" in part or "#" in part):
            raise InputError(
                f"{shown}: queries are not taken: they hold secrets, and addresses are written down; "
                "fetch such files with 'nbaudio download', which keeps no query, and name their folder"
            )
    first, *others = parts
    # The archive of a chain may be a local file: workers have other working directories.
    return "::".join((first, *(part if "://" in part else str(Path(part).absolute()) for part in others)))


def redact_url(name: str) -> str:
    """An address without what may be secret in it; other names as they are.

    Examples:
        >>> redact_url("https://me:word@host/a.wav?sig=0"), redact_url("why? me@home.wav")
        ('https://...@host/a.wav?...', 'why? me@home.wav')
    """
    named = re.sub(r"://[^/@:]*:[^/@]*@|(?<=http)://[^/@]*@|(?<=https)://[^/@]*@", "://...@", name)
    return re.sub(r"(https?://[^?#]*)[?#].*", r"\1?...", named, flags=re.DOTALL)


def public_url(address: str) -> str:
    """A web address without user, query and fragment, as it is stored.

    Examples:
        >>> public_url("https://me:word@host:80/a.wav?sig=0#t"), public_url("HTTP://a?b@c:d")
        ('https://host:80/a.wav', 'HTTP://a')
    """
    scheme, colon, rest = re.split(r"[?#]", address, maxsplit=1)[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{colon}{host.rpartition('@')[2]}{slash}{path}"


def stored_names(names: Iterable[str], *, always: bool = False) -> dict[str, str]:
    """How names are stored of which some are addresses with a password or, on the web, a user or query: without those.

    Addresses that differ in nothing else get a part of the hash of the whole address instead.

    Args:
        names: as a source spells them.
        always: give a hash to all of them.

    Returns:
        The stored name by each name that changes.

    Examples:
        >>> stored_names(["a?b.wav", "https://host/a.wav?sig=0"])
        {'https://host/a.wav?sig=0': 'https://host/a.wav'}
        >>> sorted(stored_names(["https://host/get?id=1", "https://host/get?id=2"]).values())
        ['https://host/get?sha256=61d9790ea0d4a9c1', 'https://host/get?sha256=6f14a378d45d488c']
    """
    whole = {name: public_url(name) for name in names if "://" in name and redact_url(name) != name}
    counts = Counter(whole.values())
    hashes = {name: hashlib.sha256(name.encode("utf8", "replace")).hexdigest()[:16] for name in whole}
    return {name: f"{short}?sha256={hashes[name]}" if always or counts[short] > 1 else short for name, short in whole.items()}


def redact(text: str, *addresses: str) -> str:
    """Redact the secrets of the requested addresses in a text, such as a server's answer.

    Examples:
        >>> redact("no such key: 0123 for me", "https://me:word@host/a?sig=0123&v=2")
        'no such key: ... for me'
    """
    for address in addresses:
        try:
            parts = urlsplit(address)
            values = [parts.query, parts.fragment, *(value for _, value in parse_qsl(parts.query)), parts.password or ""]
        except ValueError:
            values = [address]
        for value in sorted({value for each in values for value in (each, quote(each))}, key=len, reverse=True):
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, "...")
    return strip_queries(text)


#: Parameters of addresses whose names say that they prove a right to read, and their values.
SIGNED = (
    r"(?i)([?&;#][\w.%-]*(?:sig|signature|key|key[_-]?(?:pair[_-]?)?id|token|secret|passw(?:or)?d|credential|policy|auth)=)"
    r"""[^&;#\s"'<>\\]+"""
)

_SECRET = re.compile(
    r"""(?i)(\b(?!\w*error)[\w-]*(?:key|token|secret|passw(?:or)?d|credential|signature|\bsig)[\w-]*["']?\s*[=:]\s*)[^\s,;]+"""
)


def redact_log(text: str) -> str:
    """Words for a log: addresses without what may be secret in them, keys, tokens and passwords without their values.

    Examples:
        >>> redact_log("s3://me:word@bucket/a failed with aws_secret_key=abc, token: 'xyz'; key of 3 clips")
        's3://...@bucket/a failed with aws_secret_key=..., token: ...; key of 3 clips'
    """
    return redact_url(_SECRET.sub(r"\1...", text))


def stays_inside(name: str) -> bool:
    """Whether a relative path stays in its folder.

    Examples:
        >>> stays_inside("./a/b.wav"), stays_inside("a/../../b.wav"), stays_inside("/b.wav")
        (True, False, False)
    """
    return "\0" not in name and not {"", ".", ".."} & set(name.removeprefix("./").split("/"))
