"""Lists of files to download: read and validated before the first request.

A name is one plain file name below the folder, never a path. An invalid row is refused with a reason, and the others are used;
only a list that cannot be read at all is an error. Checksums are ``sha256:`` or ``md5:`` and lower-case hex.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import polars as pl
import urllib3
import yaml

from nbaudio.core import input_guards
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.hashing import RESERVED_DEVICE_NAMES
from nbaudio.storage.download.ledger import LEDGER, DownloadItem, Row, sha256_of
from nbaudio.storage.urls import public_url, redact

_TABLES = {".csv": ",", ".tsv": "\t"}
_LINES = (".jsonl", ".ndjson")
_NAMED = "openslr"
_ALGORITHM = {32: "md5", 64: "sha256"}
_HASHES = tuple(_ALGORITHM.values())
# Filesystems allow names of 255 bytes, and `.name.partial` must fit.
_MAX_NAME_BYTES = 240


def read_list(source: str | Path) -> tuple[list[DownloadItem], list[Row]]:
    """Return the files of a list (see `download`), in order and each once, and its invalid rows as those of the ledger."""
    wanted: dict[str, tuple[DownloadItem, str]] = {}
    refused = []
    for where, row in _named_rows(str(source)) if str(source).startswith(f"{_NAMED}:") else _file_rows(Path(source)):
        try:
            _add_item(wanted, row, where)
        except InputError as error:
            said = row or {}
            url, name = (value if isinstance(value := said.get(key), str) and value else None for key in ("url", "name"))
            sha256 = url and sha256_of(url)
            refused.append(Row(url and display_url(url), name, "failed", url_sha256=sha256, reason=f"{where}: {error}"))
    return [one for one, _ in wanted.values()], refused


def check_name(name: str) -> str:
    """Return the name in NFC; raise InputError unless it is one plain, visible file name on every system."""
    name = unicodedata.normalize("NFC", name)
    num_bytes = len(name.encode(errors="surrogatepass"))
    refused = {
        "the URL does not end in a file name; give one in a column name": not name,
        "only one plain file name is allowed, no / or \\": "/" in name or "\\" in name,
        "control characters and broken Unicode are not allowed": {"Cc", "Cs"} & set(map(unicodedata.category, name)),
        "it must not begin with a dot, nor end in a dot or blank": name.startswith(".") or name.endswith((".", " ")),
        "it is reserved": RESERVED_DEVICE_NAMES.fullmatch(name) or name.casefold() == LEDGER,
        f"it has {num_bytes} bytes, at most {_MAX_NAME_BYTES} are allowed": num_bytes > _MAX_NAME_BYTES,
    }
    for why, holds in refused.items():
        if holds:
            raise InputError(f"name {name[:80]!r}: {why}")
    return name


def display_url(url: str) -> str:
    """Return a URL, even an invalid one, for messages and the ledger: short, without user, password and query."""
    return re.sub(r"^(\w+:/{0,2})?[^/]*:.*@", r"\1", public_url(url))[:200]


def check_url(url: str) -> str:
    """Return the URL; raise InputError unless it is an http or https URL without user and password."""
    try:
        parts = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError as error:
        raise InputError(f"{display_url(url)!r} is not a URL") from error
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InputError(f"{display_url(url)!r}: only http:// and https:// URLs are allowed")
    if parts.auth is not None:
        raise InputError(f"{parts.host}: a URL with a user or password is refused, since the ledger would store it")
    return url


def check_checksum(text: str) -> str:
    """Return a checksum as ``algorithm:hex``."""
    algorithm, _, digits = text.strip().lower().rpartition(":")
    algorithm = algorithm or _ALGORITHM.get(len(digits), "")
    if _ALGORITHM.get(len(digits)) != algorithm or not re.fullmatch(r"[0-9a-f]+", digits):
        raise InputError(f"checksum {text[:80]!r}: expected sha256:<64 hex digits> or md5:<32 hex digits>")
    return f"{algorithm}:{digits}"


def _add_item(wanted: dict[str, tuple[DownloadItem, str]], row: dict[str, Any] | None, where: str) -> None:
    """Add a row of a list to the files and their places in the list; raise InputError for an invalid one."""
    if row is None:
        raise InputError('not a JSON object; expected one such as {"url": ...}')
    texts = {}
    for key in ("url", "name", "checksum", *_HASHES):
        value = row.get(key)
        if not (value is None or isinstance(value, str)):
            raise InputError(f"{key} {value!r} is not a string")
        texts[key] = value or ""
    url = check_url(texts["url"].strip())
    try:
        name = texts["name"] or unquote_to_bytes(urlsplit(url).path.rsplit("/", 1)[-1]).decode("utf8")
    except UnicodeDecodeError as error:
        raise InputError(f"{display_url(url)}: the end of the URL is not Unicode; give a name") from error
    given = [texts["checksum"], *(f"{key}:{texts[key]}" for key in _HASHES if texts[key].strip())]
    checksums = set(map(check_checksum, filter(str.strip, given)))
    if len(checksums) > 1:
        raise InputError("two checksums that differ; keep one")
    one = DownloadItem(url, check_name(name), next(iter(checksums), None))
    # Names that differ only in case are the same file on some systems.
    before, there = wanted.setdefault(one.name.casefold(), (one, where))
    if one.url != before.url:
        raise InputError(f"its name {one.name!r} is also that of {there}; give each another name in a column name")
    if one != before:
        raise InputError(f"{there} has the same URL with another name or checksum; keep one of them")


def _file_rows(path: Path) -> Iterator[tuple[str, dict[str, Any] | None]]:
    kind = path.suffix.lower()
    if kind not in (*_TABLES, *_LINES):
        raise InputError(f"{path}: a list is a .csv, .tsv or .jsonl file, or a name such as {_NAMED}:librispeech:dev-clean")
    try:
        text = input_guards.read_all(path, most=input_guards.MOST_JSON_BYTES).decode("utf-8-sig")
        if kind in _LINES:
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    row = None
                    with suppress(ValueError, RecursionError):
                        row = json.loads(line)
                    yield f"line {number}", row if isinstance(row, dict) else None
            return
        table = pl.read_csv(text.encode(), separator=_TABLES[kind], infer_schema=False)
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read as a list of URLs ({redact(one_line(error))})") from error
    if "url" not in table.columns:
        has = redact(", ".join(table.columns))  # URLs, if the header line is missing
        raise InputError(f"{path}: a column url is required, name and checksum are optional; it has {has}")
    yield from ((f"row {number}", row) for number, row in enumerate(table.iter_rows(named=True), 1))


def _named_rows(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    known = yaml.safe_load(bundled(f"data_manifests/{_NAMED}.yaml").read_text(encoding="utf8"))
    corpus, _, parts = name.removeprefix(f"{_NAMED}:").partition(":")
    if corpus not in known:
        raise InputError(f"{name}: {_NAMED} holds {', '.join(known)}, not {corpus!r}")
    for part in parts.split(","):
        if part not in known[corpus]:
            raise InputError(f"{name}: {corpus} holds {', '.join(known[corpus])}, not {part!r}")
        yield part, known[corpus][part]
