"""Names that a source gives to recordings: the names file, secrets in names, ids, and problems.

A names file states the file that a name means. `name_matching.resolve` finds the recording of each
name; then the source's own ids of recordings are found by name, and names without a recording
become problems.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
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

# Columns in which no signatures of URLs are removed: names are replaced as a whole, and texts stay
# as the source has them.
_NOT_REDACTED = ("name", "text", "text_raw", "asr_text")


class Resolved(NamedTuple):
    """Transcripts with redacted names, and the recordings that names mean.

    Attributes:
        transcripts: rows and problems, without secrets in URLs.
        audit: the recording of each name, and how it was found; see `name_matching.resolve`.
        rejected: paths of recordings that are rejected, with reasons.
        mapping: the names file: a path or URL for each name, both redacted.
    """

    transcripts: Transcripts
    audit: pl.DataFrame
    rejected: list[tuple[str, str]]
    mapping: Mapping[str, str]


def read_mapping(path: Path) -> dict[str, str]:
    """Read a names file; return the path or URL for each name.

    It is a .csv or .tsv with the columns `name` and `path`, or a Kaldi wav.scp without commands.

    Raises:
        InputError: it cannot be read, or a name has two different files.
    """
    pairs = _table_pairs(path) if path.suffix.lower() in TABLES else _scp_pairs(path)
    mapping: dict[str, str] = {}
    try:
        for line, name, file in pairs:
            earlier = mapping.setdefault(name, file)
            if earlier != file:
                raise InputError(
                    f"{path}, line {line}: {name!r} is {file!r} here and "
                    f"{earlier!r} before; keep one of them"
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
    """Yield the line, name and path of each row of a table.

    Raise InputError for a table without these columns, and for a row that cannot be read or has an
    empty name or path.
    """
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


@dataclass(frozen=True)
class RedactedNames:
    """Transcripts and a names file (`mapping`, a path or URL for each name) without secrets."""

    transcripts: Transcripts
    mapping: dict[str, str]


def redact_names(
    transcripts: Transcripts, mapping: Mapping[str, str], *, fetches: bool
) -> RedactedNames:
    """Return transcripts and a names file without secrets in URLs.

    The secrets may be in names of recordings, in other columns and in reasons of problems. If
    `fetches`, ingest would fetch URLs: then the name that is stored for one has a hash.
    """
    names = transcripts.rows.unique("name")["name"].drop_nulls()
    urls = names.filter(_contains_url(names)).to_list()
    # URLs that differ only in user and query get a hash; all do if ingest would fetch them, and are
    # rejected with it.
    stored = stored_names([*urls, *mapping, *mapping.values()], always=fetches)
    rows = transcripts.rows.map(partial(_redact_rows, stored=stored))
    problems = transcripts.problems
    if _contains_url(problems["reason"]).any():
        problems = problems.with_columns(
            pl.col("reason").map_elements(redact, return_dtype=pl.String)
        )
    stored_mapping = {
        stored.get(name, name): stored.get(file, file) for name, file in mapping.items()
    }
    return RedactedNames(replace(transcripts, rows=rows, problems=problems), stored_mapping)


def _redact_rows(rows: pl.DataFrame, *, stored: Mapping[str, str]) -> pl.DataFrame:
    """Return rows with the `stored` names, and without signatures in URLs of other columns."""
    if stored:
        rows = rows.with_columns(pl.col("name").replace(stored))
    columns = [
        column
        for column, dtype in rows.schema.items()
        if dtype == pl.String and column not in _NOT_REDACTED and _contains_url(rows[column]).any()
    ]
    if not columns:
        return rows
    return rows.with_columns(pl.col(columns).str.replace_all(SIGNED, "${1}..."))


def _contains_url(texts: pl.Series) -> pl.Series:
    """Return for each text whether a URL may be in it."""
    return texts.str.contains("://", literal=True)


def mapping_of_names(mapping: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return a mapping with its keys spelled as in `names`.

    A key that is none of the names becomes the name that differs from it in Unicode composition
    only, if there is one.
    """
    if not mapping:
        return {}
    by_composed = {composed(name): name for name in names}
    spelled = set(by_composed.values())
    mapping_of_spelled = {}
    for key, path in mapping.items():
        name = key
        if key not in spelled:
            name = by_composed.get(composed(key), key)
        mapping_of_spelled[name] = path
    return mapping_of_spelled


def source_ids(mapping: Mapping[str, str], audit: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """Return the source's own ids of each recording, joined by blanks, as `source_recording`.

    They are the keys of a ``wav.scp`` (`mapping`), and the values of `source_recording` in `rows`.
    Recordings without one are left out.
    """
    id_of_name = dict(audit.select("name", "recording_id").iter_rows())
    pairs = _ids_of_keys(mapping, audit)
    if "source_recording" in rows.schema:
        named_ids = rows.unique("name", "source_recording").drop_nulls()
        pairs += [
            (id_of_name[name], source_id)
            for name, source_id in named_ids.iter_rows()
            if name in id_of_name
        ]
    ids = pl.DataFrame(
        pairs, schema={"recording_id": pl.String, "source_recording": pl.String}, orient="row"
    )
    joined = pl.col("source_recording").unique(maintain_order=True).str.join(" ")
    return ids.group_by("recording_id", maintain_order=True).agg(joined)


def _ids_of_keys(mapping: Mapping[str, str], audit: pl.DataFrame) -> list[tuple[str, str]]:
    """Return the recording that each key of a ``wav.scp`` means, if there is one, with the key.

    Transcripts may name a recording by its key, by the file of the ``wav.scp``, or otherwise.
    """
    if not mapping:
        return []
    id_of_name = dict(audit.select("name", "recording_id").iter_rows())
    id_of_path = dict(audit.drop_nulls("path").select("path", "recording_id").iter_rows())
    resolved = resolve(list(mapping.values()), list(id_of_path))
    path_of_file = dict(resolved.select("name", "path").iter_rows())
    recording_ids = set(id_of_name.values())
    pairs: list[tuple[str, str]] = []
    for key, file in mapping.items():
        meant_id = (
            id_of_name.get(key)
            or id_of_path.get(path_of_file.get(file) or "")
            or id_of_name.get(file)
            or recording_id(file)
        )
        if meant_id in recording_ids:
            pairs.append((meant_id, key))
    return pairs


def name_problems(source: str, resolved: Resolved) -> pl.DataFrame:
    """Return a problem of `source` for each name without a recording: `file`, `item`, `reason`.

    The reason says whether the name is ambiguous, means a rejected recording, or none at all.
    """
    reasons = _reasons_of_rejected(resolved)
    is_ambiguous = pl.col("decision") == "ambiguous"
    is_shared = pl.col("candidates").list.len() == 1
    could_mean = pl.format(
        "could mean {}{}; settle it with a names file",
        pl.col("candidates").list.join(", "),
        pl.when(is_shared).then(pl.lit(" as names in other folders could")).otherwise(pl.lit("")),
    )
    not_found = pl.col("name").replace_strict(
        reasons, default="no such recording", return_dtype=pl.String
    )
    return resolved.audit.filter(pl.col("path").is_null()).select(
        file=pl.lit(source),
        item="name",
        reason=pl.when(is_ambiguous).then(could_mean).otherwise(not_found),
    )


def _reasons_of_rejected(resolved: Resolved) -> dict[str, str]:
    """Return by name the reason of those missing names that mean a rejected recording."""
    is_missing = pl.col("decision") == "missing"
    missing = resolved.audit.filter(is_missing)["name"].to_list()
    reason_of_path = dict(resolved.rejected)
    among_rejected = resolve(missing, list(reason_of_path), mapping=resolved.mapping)
    candidates = among_rejected.drop_nulls("path").select("name", "path")
    return {
        name: f"no such recording ({path}: {reason_of_path[path]})"
        for name, path in candidates.iter_rows()
    }
