"""Read lists of files to download: tables, JSON lines, and archives by name."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import yaml

from nbaudio.audio.name_matching import is_audio
from nbaudio.core import bundled_files, hashing, input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.delimited import open_delimited
from nbaudio.formats.transcripts import Problem
from nbaudio.sources.download_ledger import LEDGER, Row, sha256_of
from nbaudio.storage.transfer import WebFile
from nbaudio.storage.urls import check_web_url, display_url, redact

_TABLES = (".csv", ".tsv")
_LINES = (".jsonl", ".ndjson")
_NAMED = "openslr"
_ALGORITHM = {32: "md5", 64: "sha256"}
_HASHES = tuple(_ALGORITHM.values())
# Filesystems allow names of 255 bytes, and `.name.partial` must fit.
_MAX_NAME_BYTES = 240
_EXPECTED_OBJECT = 'not a JSON object; expected one such as {"url": ...}'

# A row of a list and its place, or its place and why it cannot be read.
_Item = tuple[str, Mapping[str, Any] | str]


@dataclass
class DownloadList:
    """The files of a list, in order and each once.

    Attributes:
        wanted: the files.
        refused: the invalid rows, as those of the ledger.
        notes: what to report about how the list is read.
    """

    wanted: list[WebFile] = field(default_factory=list)
    refused: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_list(source: str | Path) -> DownloadList:
    """Read a list of files; see `nbaudio.download`.

    Raises:
        InputError: it cannot be read, has no column `url`, or names no known archive.
    """
    listed = DownloadList()
    is_named = str(source).startswith(f"{_NAMED}:")
    items = _named_items(str(source)) if is_named else _file_items(Path(source), listed.notes)
    wanted: dict[str, tuple[WebFile, str]] = {}
    for where, row in items:
        try:
            _add_item(wanted, row, where)
        except InputError as error:
            listed.refused.append(_refused_row(row, f"{where}: {error}"))
    listed.wanted += [item for item, _ in wanted.values()]
    return listed


def _refused_row(row: Mapping[str, Any] | str, reason: str) -> Row:
    """Return what the ledger holds about an invalid row."""
    cells = row if isinstance(row, Mapping) else {}
    refused = Row(None, _text(cells.get("name")), "failed", None, reason=reason)
    if url := _text(cells.get("url")):
        return replace(refused, url=display_url(url), url_sha256=sha256_of(url))
    return refused


def _text(value: object) -> str | None:
    """Return a text that is not empty; None for other values."""
    if isinstance(value, str):
        return value or None
    return None


def _file_items(path: Path, notes: list[str]) -> Iterator[_Item]:
    """Yield the rows of a file; add to `notes` how it is read."""
    kind = path.suffix.lower()
    if kind not in (*_TABLES, *_LINES):
        raise InputError(
            f"{path}: a list is a .csv, .tsv or .jsonl file, "
            f"or a name such as {_NAMED}:librispeech:dev-clean"
        )
    try:
        if kind in _LINES:
            yield from _line_items(path)
        else:
            yield from _table_items(path, notes)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: cannot be read as a list of URLs ({redact(one_line(error))})"
        ) from error


def _line_items(path: Path) -> Iterator[_Item]:
    """Yield the objects of JSON lines."""
    text = input_guards.read_all(path, most=input_guards.MOST_JSON_BYTES).decode("utf-8-sig")
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            row = None
            with suppress(ValueError, RecursionError):
                row = json.loads(line)
            if not isinstance(row, dict):
                row = _EXPECTED_OBJECT
            yield f"line {number}", row


def _table_items(path: Path, notes: list[str]) -> Iterator[_Item]:
    """Yield the rows of delimited text."""
    table = open_delimited(path, is_header=lambda names: "url" in names)
    if "url" not in table.header:
        has = redact(", ".join(table.header))  # URLs, if the header line is missing
        raise InputError(
            f"{path}: a column url is required, name and checksum are optional; it has {has}"
        )
    notes += [*table.notes, *(part.sentence() for part in table.not_read)]
    for row in table.rows():
        if isinstance(row, Problem):
            yield f"line {row.line}", redact(row.reason)
        else:
            yield f"line {row.line}", dict(zip(table.header, row.cells, strict=True))


def _add_item(
    wanted: dict[str, tuple[WebFile, str]], row: Mapping[str, Any] | str, where: str
) -> None:
    """Add a row of a list to the files and their places in the list.

    Raise InputError for an invalid one.
    """
    if isinstance(row, str):
        raise InputError(row)
    texts = {}
    for key in ("url", "name", "checksum", *_HASHES):
        value = row.get(key)
        if not (value is None or isinstance(value, str)):
            raise InputError(f"{key} {value!r} is not a string")
        texts[key] = value or ""
    url = check_web_url(texts["url"].strip())
    try:
        name = texts["name"] or unquote_to_bytes(urlsplit(url).path.rsplit("/", 1)[-1]).decode(
            "utf8"
        )
    except UnicodeDecodeError as error:
        raise InputError(
            f"{display_url(url)}: the end of the URL is not Unicode; give a name"
        ) from error
    checksum_texts = [
        texts["checksum"],
        *(f"{key}:{texts[key]}" for key in _HASHES if texts[key].strip()),
    ]
    checksums = set(map(_check_checksum, filter(str.strip, checksum_texts)))
    if len(checksums) > 1:
        raise InputError("two checksums that differ; keep one")
    file_name = _check_name(name)
    checksum = next(iter(checksums), None)
    item = WebFile(url, file_name, checksum, is_recording=is_audio(file_name))
    # Names that differ only in case are the same file on some systems.
    earlier, place = wanted.setdefault(item.name.casefold(), (item, where))
    if item.url != earlier.url:
        raise InputError(
            f"its name {item.name!r} is also that of {place}; "
            "give each another name in a column name"
        )
    if item != earlier:
        raise InputError(
            f"{place} has the same URL with another name or checksum; keep one of them"
        )


def _named_items(name: str) -> Iterator[_Item]:
    """Yield the archives of a name such as ``openslr:librispeech:dev-clean``."""
    archives = yaml.safe_load(
        bundled_files.bundled(f"data_manifests/{_NAMED}.yaml").read_text(encoding="utf8")
    )
    corpus, _, parts = name.removeprefix(f"{_NAMED}:").partition(":")
    if corpus not in archives:
        raise InputError(f"{name}: {_NAMED} holds {', '.join(archives)}, not {corpus!r}")
    for part in parts.split(","):
        if part not in archives[corpus]:
            raise InputError(f"{name}: {corpus} holds {', '.join(archives[corpus])}, not {part!r}")
        yield part, archives[corpus][part]


def _check_name(name: str) -> str:
    """Return the name in NFC.

    Raise InputError unless it is one plain, visible file name on every system.
    """
    name = unicodedata.normalize("NFC", name)
    num_bytes = len(name.encode(errors="surrogatepass"))
    refused = {
        "the URL does not end in a file name; give one in a column name": not name,
        "only one plain file name is allowed, no / or \\": "/" in name or "\\" in name,
        "control characters and broken Unicode are not allowed": {"Cc", "Cs"}
        & set(map(unicodedata.category, name)),
        "it must not begin with a dot, nor end in a dot or blank": name.startswith(".")
        or name.endswith((".", " ")),
        "it is reserved": hashing.RESERVED_DEVICE_NAMES.fullmatch(name)
        or name.casefold() == LEDGER,
        f"it has {num_bytes} bytes, at most {_MAX_NAME_BYTES} are allowed": num_bytes
        > _MAX_NAME_BYTES,
    }
    for why, holds in refused.items():
        if holds:
            raise InputError(f"name {name[:80]!r}: {why}")
    return name


def _check_checksum(text: str) -> str:
    """Return a checksum as ``algorithm:hex``."""
    algorithm, _, digits = text.strip().lower().rpartition(":")
    algorithm = algorithm or _ALGORITHM.get(len(digits), "")
    if _ALGORITHM.get(len(digits)) != algorithm or not re.fullmatch(r"[0-9a-f]+", digits):
        raise InputError(
            f"checksum {text[:80]!r}: expected sha256:<64 hex digits> or md5:<32 hex digits>"
        )
    return f"{algorithm}:{digits}"
