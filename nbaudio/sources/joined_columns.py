"""Columns that steps add to the segments table beside the source's own.

They are further transcripts, hypotheses and facts.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import polars as pl

from nbaudio.core import tables
from nbaudio.core.errors import InputError
from nbaudio.core.rows import Rows, with_starts
from nbaudio.storage.workspace import Workspace, locks_workspace

_PREFIXES = {"text": "text_", "hypothesis": "asr_text_", "column": ""}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SCORE = re.compile(r"(?:spoken_)?(?:similarity|wer|cer)_(.+)")
_OTHERS = {*tables.RESERVED, *tables.WRITTEN, *tables.SEGMENTS} - {tables.RAW_TEXT}


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
    held = tables.table_schema(workspace)
    texts = tables.text_names(held)
    hypotheses = tables.hypothesis_names(held)
    is_text = bool(tables.text_names([column]) or tables.hypothesis_names([column]))
    if name in {"text": {**hypotheses, "asr": ""}, "hypothesis": {**texts, "asr": ""}}.get(
        kind, {}
    ):
        _refuse(held, name, f"{kind} {name!r}: another text has this name")
    if is_text == (kind == "column") or column in _OTHERS:
        _refuse(held, name, f"{kind} {name!r}: other steps write such a column")
    _check_joined(workspace, column, held)
    return column


def _check_joined(workspace: Workspace, column: str, held: Collection[str]) -> None:
    if column == tables.RAW_TEXT and not workspace.has_raw_texts:
        return  # all tables have the column
    if column in held and column not in workspace.joined_columns:
        _refuse(held, column, f"{workspace.path}: the source has a column {column}, which stays")


def _refuse(held: Collection[str], name: str, why: str) -> None:
    """Raise InputError with a name that no column ends with."""
    name = re.sub("^(asr_)?text_", "", name)
    free = next(
        free for n in count(2) if not any(each.endswith(free := f"{name}_{n}") for each in held)
    )
    raise InputError(f"{why}; choose another name, such as {free}")


@locks_workspace("join")
def store_column(
    workspace: Workspace, column: str, values: Rows | pl.DataFrame, record: Mapping[str, Any]
) -> dict[str, int]:
    """Write the `value` of each `segment_id` or ascending `row`, else null, as a column.

    Scores of the column that no longer hold are dropped. Return counts of changes.
    """
    if isinstance(values, pl.DataFrame):
        ids = tables.read(workspace, ["segment_id"]).with_row_index("row")
        values = Rows.collect(
            [ids.join(values, on="segment_id", maintain_order="left").select("row", "value")]
        )
    held = tables.table_schema(workspace)
    _check_joined(workspace, column, held)
    dtype = values.schema["value"]
    kinds = dict.fromkeys(("new", "changed", "gone", "unchanged"), 0)
    same_everywhere = True
    for part, new in _beside(
        workspace, values, ["segment_id", column] if column in held else ["segment_id"]
    ):
        old = part[column] if column in held else pl.Series([None] * len(new), dtype=dtype)
        same = new.eq_missing(old) if dtype == old.dtype else new.is_null() & old.is_null()
        found = {
            "new": old.is_null() & new.is_not_null(),
            "changed": old.is_not_null() & new.is_not_null() & ~same,
        }
        found |= {"gone": old.is_not_null() & new.is_null(), "unchanged": same & new.is_not_null()}
        kinds = {kind: kinds[kind] + int(rows.sum()) for kind, rows in found.items()}
        same_everywhere &= bool(same.all())
    stale = [] if same_everywhere else _scores_of(column, held)
    settings = workspace.settings
    settings["joined"] = settings.get("joined", {}) | {column: dict(record)}
    parts = (
        part.drop(stale).with_columns(new.alias(column)) for part, new in _beside(workspace, values)
    )
    workspace.save_together(settings=settings, segments=parts)
    return kinds


def _beside(
    workspace: Workspace, values: Rows, columns: Sequence[str] | None = None
) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
    """Yield the segments table in batches, each with the value of every row."""
    batches = values.batches()
    left = next(batches)
    for start, part in with_starts(tables.read_batches(workspace, columns=columns)):
        end = start + len(part)
        while (left.is_empty() or left["row"][-1] < end) and (
            more := next(batches, None)
        ) is not None:
            left = pl.concat([left, more])
        here = left[: left["row"].search_sorted(end)]
        left = left[len(here) :]
        whole = pl.Series("value", [None] * len(part), dtype=values.schema["value"])
        yield part, whole.scatter(here["row"] - start, here["value"])


def _scores_of(column: str, held: Collection[str]) -> list[str]:
    """Return the columns with scores of a text or hypothesis.

    Those of the agreement of hypotheses are among them.
    """
    texts = tables.text_names([column])
    hypotheses = tables.hypothesis_names([column])
    if not (names := {*texts, *hypotheses}):
        return []
    names |= {
        f"{t}_{h}"
        for t in texts or tables.text_names(held)
        for h in hypotheses or tables.hypothesis_names(held)
    }
    return [
        each
        for each in held
        if each in tables.AGREEMENT or ((score := _SCORE.fullmatch(each)) and score[1] in names)
    ]
