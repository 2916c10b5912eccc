"""URLs of files and folders: validation, and redaction of secrets.

A bare scheme (``s3://``) stands for all of its URLs.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from nbaudio.core.errors import InputError, redact_urls

#: Supported schemes, and those that can be written to.
SCHEMES = ("http", "https", "s3", "gs", "abfs", "hdfs", "hf", "zip", "tar", "memory")
WRITABLE = ("s3", "gs", "abfs", "hdfs", "memory")
WEB = ("http", "https")
ARCHIVES = ("zip", "tar")
# A dataset on the Hugging Face Hub, with a revision and a path in it.
_HUB_DATASET = re.compile(r"hf://(datasets/[\w.-]+/[\w.-]+(@[^@:?#]+|/[^@?#]*)?)?")
# Shorter values of a query may occur in a text by chance.
_MIN_SECRET_CHARACTERS = 4


def is_url(text: str) -> bool:
    """Return whether a text is a URL, not a local path."""
    return "://" in text


def check_url(address: str) -> str:
    """Return a valid URL, with absolute paths of archives.

    Raise InputError for unknown schemes, passwords and queries.
    """
    shown = redact_url(address)
    parts = address.split("::")
    for part in parts:
        scheme = part.partition("://")[0] if "://" in part else "file"
        if scheme not in SCHEMES and not (len(parts) > 1 and scheme == "file" and part != parts[0]):
            raise InputError(
                f"{shown}: scheme {scheme!r} is unknown; known are {', '.join(SCHEMES)}"
            )
        if scheme in ARCHIVES and part == parts[-1]:
            wanted = (
                f"{scheme}://FOLDER-INSIDE::ARCHIVE, such as {scheme}://::https://host/a.{scheme}"
            )
            raise InputError(f"{shown}: expected {wanted}")
        if scheme == "hf" and not _HUB_DATASET.fullmatch(part):
            raise InputError(
                f"{shown}: expected hf://datasets/OWNER/NAME, or hf://datasets/OWNER/NAME@REVISION"
            )
        user = part.partition("://")[2].partition("/")[0].rpartition("@")[0]
        if ":" in user or (user and scheme in WEB):
            raise InputError(
                f"{shown}: a URL must not contain a user or password; "
                "put them into ~/.netrc or the environment"
            )
        if scheme in WEB and ("?" in part or "#" in part):
            raise InputError(
                f"{shown}: queries are refused: they may hold secrets, and URLs are stored; "
                "fetch such files with 'nbaudio download', which keeps no query, "
                "and name their folder"
            )
    first, *others = parts
    # A local archive: workers have other working directories.
    return "::".join(
        (first, *(part if "://" in part else str(Path(part).absolute()) for part in others))
    )


def check_writable(address: str) -> None:
    """Raise InputError for an address that nothing can be written to."""
    scheme, _, path = address.partition("://")
    if scheme not in WRITABLE or "::" in address or not path.strip("/"):
        schemes = ", ".join(f"{name}://" for name in WRITABLE[:-1])
        hint = "; 'nbaudio publish' uploads a finished corpus there" if scheme == "hf" else ""
        raise InputError(
            f"{address}: cannot be written; give a folder, or {schemes} with bucket and "
            f"folder{hint}"
        )


def redact_url(name: str) -> str:
    """Replace what may be secret in a URL; other names stay as they are."""
    named = re.sub(r"://[^/@:]*:[^/@]*@|(?<=http)://[^/@]*@|(?<=https)://[^/@]*@", "://...@", name)
    without_query = re.sub(r"((?:https?|hf)://[^?#]*)[?#].*", r"\1?...", named, flags=re.DOTALL)
    # Elsewhere a name may have a question mark: s3://bucket/what?.wav.
    return re.sub(r"(\w+://[^?]*)\?[\w.-]+=.*", r"\1?...", without_query, flags=re.DOTALL)


def public_url(address: str) -> str:
    """Return a web URL without user, query and fragment, as it is stored."""
    scheme, colon, rest = re.split(r"[?#]", address, maxsplit=1)[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{colon}{host.rpartition('@')[2]}{slash}{path}"


def display_url(url: str) -> str:
    """Return a URL, even an invalid one, for messages: short, without user, password and query."""
    return re.sub(r"^(\w+:/{0,2})?[^/]*:.*@", r"\1", public_url(url))[:200]


def check_web_url(url: str) -> str:
    """Return an http or https URL, which may have a query.

    Raise InputError for other URLs, and for one with user or password.
    """
    import urllib3

    try:
        parts = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError as error:
        raise InputError(f"{display_url(url)!r} is not a URL") from error
    if parts.scheme not in WEB or not parts.host:
        raise InputError(f"{display_url(url)!r}: only http:// and https:// URLs are allowed")
    if parts.auth is not None:
        raise InputError(
            f"{parts.host}: a URL with a user or password is refused, since URLs are stored"
        )
    return url


def stored_names(names: Iterable[str], *, always: bool = False) -> dict[str, str]:
    """Map URLs with user or query to the names that are stored.

    Names have a hash if they would be equal, or `always`.
    """
    whole = {name: public_url(name) for name in names if "://" in name and redact_url(name) != name}
    counts = Counter(whole.values())
    hashes = {
        name: hashlib.sha256(name.encode("utf8", "replace")).hexdigest()[:16] for name in whole
    }
    return {
        name: f"{short}?sha256={hashes[name]}" if always or counts[short] > 1 else short
        for name, short in whole.items()
    }


def redact(text: str, *addresses: str) -> str:
    """Redact secrets of the requested URLs in a text, such as the reason of a response."""
    for address in addresses:
        try:
            parts = urlsplit(address)
            values = [
                parts.query,
                parts.fragment,
                *(value for _, value in parse_qsl(parts.query)),
                parts.password or "",
            ]
        except ValueError:
            values = [address]
        for value in sorted(
            {value for secret in values for value in (secret, quote(secret))}, key=len, reverse=True
        ):
            if len(value) >= _MIN_SECRET_CHARACTERS:
                text = text.replace(value, "...")
    return redact_urls(text)


#: Parameters of signed URLs, by their names, with their values.
SIGNED = (
    r"(?i)([?&;#][\w.%-]*"
    r"(?:sig|signature|key|key[_-]?(?:pair[_-]?)?id|token|secret|passw(?:or)?d|credential|policy"
    r"|auth)=)"
    r"""[^&;#\s"'<>\\]+"""
)

_SECRET = re.compile(
    r"(?i)(\b(?!\w*error)"
    r"[\w-]*(?:key|token|secret|passw(?:or)?d|credential|signature|\bsig)[\w-]*"
    r"""["']?\s*[=:]\s*)[^\s,;]+"""
)


def redact_log(text: str) -> str:
    """Redact URLs, and the values of keys, tokens and passwords, in a message for a log."""
    return redact_url(_SECRET.sub(r"\1...", text))


def stays_inside(name: str) -> bool:
    """Return whether a relative path stays in its folder."""
    return "\0" not in name and not {"", ".", ".."} & set(name.removeprefix("./").split("/"))
