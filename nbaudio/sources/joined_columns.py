"""Columns that steps add to the segments table beside the source's own.

They are further transcripts, hypotheses and facts.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.tables import parquet_files, schemas, workspace_tables
from nbaudio.tables.buckets import PART_ROWS, Buckets, write_row_buckets
from nbaudio.tables.workspace import Workspace, locks_workspace

_PREFIXES = {"text": "text_", "hypothesis": "asr_text_", "column": ""}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SCORE = re.compile(r"(?:spoken_)?(?:similarity|wer|cer)_(.+)")
_OTHERS = {*schemas.RESERVED, *schemas.WRITTEN, *schemas.SEGMENTS} - {schemas.RAW_TEXT}


def check_name(workspace: Workspace, kind: str, name: str) -> str:
    """Return the column of a `text`, `hypothesis` or `column` of this name.

    Raise InputError if a step cannot write it.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{kind} {name!r}: a name has letters from a to z, digits and underscores, "
            "and begins with a letter"
        )
    column = _PREFIXES[kind] + name
    columns = workspace_tables.table_schema(workspace)
    texts = schemas.text_names(columns)
    hypotheses = schemas.hypothesis_names(columns)
    is_text = bool(schemas.text_names([column]) or schemas.hypothesis_names([column]))
    if name in {"text": {**hypotheses, "asr": ""}, "hypothesis": {**texts, "asr": ""}}.get(
        kind, {}
    ):
        _refuse(columns, name, f"{kind} {name!r}: another text has this name")
    if is_text == (kind == "column") or column in _OTHERS:
        _refuse(columns, name, f"{kind} {name!r}: other steps write such a column")
    _check_joined(workspace, column, columns)
    return column


def _check_joined(workspace: Workspace, column: str, columns: Collection[str]) -> None:
    if column == schemas.RAW_TEXT and not workspace.has_raw_texts:
        return  # all tables have the column
    if column in columns and column not in workspace.joined_columns:
        _refuse(columns, column, f"{workspace.path}: the source has a column {column}, which stays")


def _refuse(columns: Collection[str], name: str, why: str) -> None:
    """Raise InputError with a name that no column ends with."""
    name = re.sub("^(asr_)?text_", "", name)
    free = next(
        free
        for n in count(2)
        if not any(column.endswith(free := f"{name}_{n}") for column in columns)
    )
    raise InputError(f"{why}; choose another name, such as {free}")


@locks_workspace("join")
def store_column(
    workspace: Workspace,
    column: str,
    values: pl.LazyFrame | pl.DataFrame,
    record: Mapping[str, Any],
) -> dict[str, int]:
    """Write the `value` of segments, by their number `row` or by `segment_id`, as a column.

    It is null for others. Scores of the column that no longer hold are dropped. Return counts of
    changes.
    """
    columns = workspace_tables.table_schema(workspace)
    _check_joined(workspace, column, columns)
    with scratch_folder(workspace.path) as folder:
        by_row = write_row_buckets(
            _numbered(workspace, values.lazy()),
            num_rows=parquet_files.num_rows(workspace_tables.table_path(workspace)),
            folder=folder / "values",
        )
        kinds = _count_changes(workspace, by_row, column, columns)
        is_same = kinds["new"] == kinds["changed"] == kinds["gone"] == 0 and column in columns
        stale = [] if is_same else _scores_of(column, columns)
        settings = workspace.settings
        settings["joined"] = settings.get("joined", {}) | {column: dict(record)}
        parts = (
            part.drop(stale).with_columns(new.alias(column))
            for part, new in _beside(workspace, by_row)
        )
        workspace.save_together(settings=settings, segments=parts)
    return kinds


def _numbered(workspace: Workspace, values: pl.LazyFrame) -> pl.LazyFrame:
    """Return values by `row`, the number of the segment from 0."""
    if "row" in values.collect_schema():
        return values.select("row", "value")
    ids = workspace_tables.scan(workspace, ["segment_id"]).with_row_index("row")
    return ids.join(values, on="segment_id").select("row", "value")


def _count_changes(
    workspace: Workspace, by_row: Buckets, column: str, columns: Collection[str]
) -> dict[str, int]:
    """Count the values that are new, changed, gone and unchanged in a column.

    All are new in a column that is not among the `columns` of the table.
    """
    kinds = dict.fromkeys(("new", "changed", "gone", "unchanged"), 0)
    dtype = by_row.schema["value"]
    read = [column] if column in columns else ["segment_id"]
    for part, new in _beside(workspace, by_row, read):
        old = pl.Series([None] * len(new), dtype=dtype)
        if column in columns:
            old = part[column]
        is_same = new.eq_missing(old) if dtype == old.dtype else new.is_null() & old.is_null()
        has_both = old.is_not_null() & new.is_not_null()
        kinds["new"] += int((old.is_null() & new.is_not_null()).sum())
        kinds["changed"] += int((has_both & ~is_same).sum())
        kinds["gone"] += int((old.is_not_null() & new.is_null()).sum())
        kinds["unchanged"] += int((is_same & new.is_not_null()).sum())
    return kinds


def _beside(
    workspace: Workspace, by_row: Buckets, columns: Sequence[str] | None = None
) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
    """Yield the segments table in batches, each with the value of every row."""
    batches = workspace_tables.read_batches(workspace, columns=columns, rows=PART_ROWS)
    for number, part in enumerate(batches):
        rows = pl.int_range(len(part), dtype=pl.UInt32, eager=True) + number * PART_ROWS
        values = pl.DataFrame({"row": rows}).join(
            by_row.read(number), on="row", how="left", maintain_order="left"
        )
        yield part, values["value"]


def _scores_of(column: str, columns: Collection[str]) -> list[str]:
    """Return the columns with scores of a text or hypothesis.

    Those of the agreement of hypotheses are among them.
    """
    texts = schemas.text_names([column])
    hypotheses = schemas.hypothesis_names([column])
    if not (names := {*texts, *hypotheses}):
        return []
    names |= {
        f"{t}_{h}"
        for t in texts or schemas.text_names(columns)
        for h in hypotheses or schemas.hypothesis_names(columns)
    }
    return [
        name
        for name in columns
        if name in schemas.AGREEMENT or ((score := _SCORE.fullmatch(name)) and score[1] in names)
    ]
