"""Resolve names of recordings.

This reads names files, redacts secrets in URLs, and finds the source's own ids of recordings.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nbaudio.audio.name_matching import composed, recording_id, resolve
from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats import kaldi
from nbaudio.formats.delimited import open_delimited, refuse_archive
from nbaudio.formats.transcripts import Problem, Transcripts
from nbaudio.storage.urls import SIGNED, redact, stored_names
from nbaudio.tables.rows import Rows

TABLES = (".csv", ".tsv")  # all other names files are a ``wav.scp``, whose keys are ids

_NOT_REDACTED = ("name", "text", "text_raw", "asr_text")  # names have their own treatment


class Resolved(NamedTuple):
    """Transcripts with redacted names, and the recording of each name.

    `audit` is that of `name_matching.resolve`. `rejected` has recordings that are rejected, with
    reasons.
    """

    transcripts: Transcripts
    audit: pl.DataFrame
    rejected: list[tuple[str, str]]
    mapping: Mapping[str, str]


def read_mapping(path: Path) -> dict[str, str]:
    """Read a names file.

    It is a .csv or .tsv with the columns `name` and `path`, or a Kaldi wav.scp without commands.
    """
    is_table = path.suffix.lower() in TABLES
    mapping: dict[str, str] = {}
    try:
        for line, name, value in _table_pairs(path) if is_table else _scp_pairs(path):
            if mapping.setdefault(name, value) != value:
                raise InputError(
                    f"{path}, line {line}: {name!r} is {value!r} here and "
                    f"{mapping[name]!r} before; keep one of them"
                )
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read as a list of names ({one_line(error)})"
        ) from error
    return mapping


def _scp_pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, key and file name of each line of a ``wav.scp``.

    Raise InputError for a line without a file name, or with a command.
    """
    content = input_guards.read_all(path, most=input_guards.MOST_JSON_BYTES)
    refuse_archive(path, content)
    text = content.decode("utf-8-sig")
    lines = (
        (number, line.rstrip("\r"))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    )
    for number, key, name in kaldi.split_pairs(lines):
        if not name:
            raise InputError(
                f"{path}, line {number}: expected a key, a space and a file name, not {key[:80]!r}"
            )
        if name.endswith("|"):
            raise InputError(f"{path}, line {number}: {key!r} {kaldi.COMMAND}")
        yield number, key, name


def _table_pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, name and path of each row of a table."""
    table = open_delimited(path, is_header={"name", "path"}.issubset)
    if not {"name", "path"} <= {*table.header}:
        raise InputError(
            f"{path}: expected the columns name and path; it has {', '.join(table.header)}"
        )
    for row in table.rows():
        if isinstance(row, Problem):
            raise InputError(
                f"{path}: cannot be read as a list of names: line {row.line}: {row.reason}"
            )
        cells = dict(zip(table.header, row.cells, strict=True))
        if not cells["name"] or not cells["path"]:
            missing = "name" if cells["path"] else "path"
            raise InputError(f"{path}, line {row.line}: the {missing} is empty")
        yield row.line, cells["name"], cells["path"]


def redact_names(
    transcripts: Transcripts, mapping: Mapping[str, str], *, fetches: bool
) -> tuple[Transcripts, dict[str, str]]:
    """Redact secrets in URLs.

    They may be in names of recordings, in further columns, in reasons of problems and in the names
    file.
    """
    rows = transcripts.rows
    problems = transcripts.problems
    names = rows.unique("name")["name"].drop_nulls()
    urls = names.filter(names.str.contains("://", literal=True)).to_list()
    # URLs that differ only in user and query get a hash; all do if ingest would fetch them, and are
    # rejected with it.
    stored = stored_names([*urls, *mapping, *mapping.values()], always=fetches)

    def redacted(frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows with redacted names, and without signatures in URLs of other columns."""
        renamed = frame.with_columns(pl.col("name").replace(stored)) if stored else frame
        texts = [
            name
            for name, dtype in renamed.schema.items()
            if dtype == pl.String and name not in _NOT_REDACTED
        ]
        with_urls = [
            name for name in texts if renamed[name].str.contains("://", literal=True).any()
        ]
        if not with_urls:
            return renamed
        return renamed.with_columns(pl.col(with_urls).str.replace_all(SIGNED, "${1}..."))

    if problems["reason"].str.contains("://", literal=True).any():
        problems = problems.with_columns(
            pl.col("reason").map_elements(redact, return_dtype=pl.String)
        )
    pairs = {stored.get(name, name): stored.get(path, path) for name, path in mapping.items()}
    return replace(transcripts, rows=rows.map(redacted), problems=problems), pairs


def mapping_of_names(mapping: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return a mapping whose keys are spelled as `names`, where only the composition differs."""
    spelled = {composed(name): name for name in names} if mapping else {}
    named = set(spelled.values())
    return {
        key if key in named else spelled.get(composed(key), key): path
        for key, path in mapping.items()
    }


def source_ids(mapping: Mapping[str, str], audit: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """Find the source's own ids of recordings, joined by blanks.

    They are the keys of a ``wav.scp`` (`mapping`), and `source_recording`.
    """
    by_name = dict(audit.select("name", "recording_id").iter_rows())
    by_path = dict(audit.drop_nulls("path").select("path", "recording_id").iter_rows())
    paths: dict[str, str | None] = {}
    if mapping:
        resolved = resolve(list(mapping.values()), list(by_path))
        paths = dict(resolved.select("name", "path").iter_rows())
    recording_ids = set(by_name.values())
    pairs: list[tuple[str, str]] = []
    for key, value in mapping.items():
        id_of_name = recording_id(value)
        candidates = (
            by_name.get(key),
            by_path.get(paths.get(value) or ""),
            by_name.get(value),
            id_of_name if id_of_name in recording_ids else None,
        )
        meant = next(filter(None, candidates), None)
        if meant:
            pairs.append((meant, key))
    if "source_recording" in rows.schema:
        named_ids = rows.unique("name", "source_recording").drop_nulls()
        pairs += [(by_name[name], key) for name, key in named_ids.iter_rows() if name in by_name]
    ids = pl.DataFrame(
        pairs, schema={"recording_id": pl.String, "source_recording": pl.String}, orient="row"
    )
    joined = pl.col("source_recording").unique(maintain_order=True).str.join(" ")
    return ids.group_by("recording_id", maintain_order=True).agg(joined)


def name_problems(source: str, resolved: Resolved) -> pl.DataFrame:
    """List names without a recording; where the one that they mean is rejected, with the reason."""
    missing = resolved.audit.filter(pl.col("decision") == "missing")["name"].to_list()
    why = dict(resolved.rejected)
    rejected = resolve(missing, list(why), mapping=resolved.mapping).filter(
        pl.col("path").is_not_null()
    )
    reasons = {
        name: f"no such recording ({path}: {why[path]})"
        for name, path in rejected.select("name", "path").iter_rows()
    }
    reason = (
        pl.when(pl.col("decision") == "ambiguous")
        .then(
            pl.format(
                "could mean {}; settle it with a names file", pl.col("candidates").list.join(", ")
            )
        )
        .otherwise(
            pl.col("name").replace_strict(
                reasons, default="no such recording", return_dtype=pl.String
            )
        )
    )
    return resolved.audit.filter(pl.col("path").is_null()).select(
        file=pl.lit(source), item="name", reason=reason
    )
