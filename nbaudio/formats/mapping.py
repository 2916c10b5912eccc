"""Files that say which recording a name means: a Kaldi ``wav.scp``, or a table of the user's own choices."""

import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from nbaudio.core import guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.names import recording_id, resolve

TABLES = {".csv": ",", ".tsv": "\t"}
"""Endings of names files that are tables, and their separators; all others are a ``wav.scp``, whose keys are ids."""


def read_mapping(path: Path) -> dict[str, str]:
    """Names, and what they stand for.

    Args:
        path: a table with the columns `name` and `path` when it ends in .csv or .tsv, else lines of a key, a blank and the rest.
            Commands (``... |``), which Kaldi would run, are refused.

    Raises:
        InputError: it cannot be read, or two lines disagree; names file and line.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "wav.scp"
        >>> _ = path.write_text("reco000 10 5 2019 -  12. sjednica [WoEEFk8lcDA].wav")
        >>> read_mapping(path)
        {'reco000': '10 5 2019 -  12. sjednica [WoEEFk8lcDA].wav'}
    """
    separator = TABLES.get(path.suffix.lower())
    try:
        text = guards.read_all(path, most=guards.MOST_JSON_BYTES).decode("utf-8-sig")
        pairs = _scp_pairs(path, text) if separator is None else _table_pairs(path, text, separator)
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read as a list of names ({one_line(error)})") from error
    mapping: dict[str, str] = {}
    for line, name, value in pairs:
        if mapping.setdefault(name, value) != value:
            raise InputError(f"{path}, line {line}: {name!r} is {value!r} here and {mapping[name]!r} before; keep one of them")
    return mapping


def source_ids(mapping: Mapping[str, str], audit: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """What the source calls its recordings: the keys of a ``wav.scp``, or what the reader found.

    Args:
        mapping: keys, and the names or paths that they stand for.
        audit: as of `names.resolve`.
        frame: as of `Transcripts`; its `source_recording` counts, where there is one.

    Returns:
        `recording_id` and `source_recording`, one row per recording that has one; several ids of one file have blanks between.

    Examples:
        >>> audit = pl.DataFrame({"name": ["a [HlauTe_NK6U].wav"], "path": [None], "recording_id": ["HlauTe_NK6U"]})
        >>> source_ids({"reco000": "a  [HlauTe_NK6U].wav"}, audit.cast(pl.String), audit.select("name")).rows()
        [('HlauTe_NK6U', 'reco000')]
    """
    by_name = dict(audit.select("name", "recording_id").iter_rows())
    by_path = dict(audit.drop_nulls("path").select("path", "recording_id").iter_rows())
    paths = dict(resolve(list(mapping.values()), list(by_path)).select("name", "path").iter_rows()) if mapping else {}
    known = set(by_name.values())
    pairs: list[tuple[str, str]] = []
    for key, value in mapping.items():
        guess = recording_id(value)
        meant = (by_name.get(key), by_path.get(paths.get(value) or ""), by_name.get(value), guess if guess in known else None)
        pairs += [(found, key) for found in [next(filter(None, meant), None)] if found]
    if "source_recording" in frame.columns:
        own = frame.select("name", "source_recording").drop_nulls().unique(maintain_order=True)
        pairs += [(by_name[name], key) for name, key in own.iter_rows() if name in by_name]
    ids = pl.DataFrame(pairs, schema={"recording_id": pl.String, "source_recording": pl.String}, orient="row")
    return ids.group_by("recording_id", maintain_order=True).agg(
        pl.col("source_recording").unique(maintain_order=True).str.join(" ")
    )


def _scp_pairs(path: Path, text: str) -> list[tuple[int, str, str]]:
    pairs = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        found = re.fullmatch(r"[ \t]*([^ \t]+)[ \t]+([^ \t].*?)[ \t\r]*", line)
        if not found:
            raise InputError(f"{path}, line {number}: a key, a blank and a file name are wanted, not {line.strip()[:80]!r}")
        if found[2].endswith("|"):
            raise InputError(f"{path}, line {number}: {found[1]!r} is a command; nothing is run, only file names are allowed")
        pairs.append((number, found[1], found[2]))
    return pairs


def _table_pairs(path: Path, text: str, separator: str) -> list[tuple[int, str, str]]:
    table = pl.read_csv(text.encode(), separator=separator, infer_schema=False)
    if not {"name", "path"} <= set(table.columns):
        raise InputError(f"{path}: the columns name and path are wanted; it has {', '.join(table.columns)}")
    empty = table.filter(pl.any_horizontal(pl.col("name", "path").is_null()))
    if len(empty):
        raise InputError(f"{path}: {len(empty)} rows lack a name or a path, such as {empty.row(0)}")
    return [(line, name, value) for line, (name, value) in enumerate(table.select("name", "path").iter_rows(), 2)]
