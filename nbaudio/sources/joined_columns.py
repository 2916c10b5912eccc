"""Columns that steps add to the segments table beside the source's own: further transcripts, hypotheses and facts."""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from typing import Any

import polars as pl

from nbaudio.core import tables
from nbaudio.core.errors import InputError
from nbaudio.storage.workspace import Workspace, locks_workspace

_PREFIXES = {"text": "text_", "hypothesis": "asr_text_", "column": ""}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SCORE = re.compile(r"(?:spoken_)?(?:similarity|wer|cer)_(.+)")
_OTHERS = {*tables.RESERVED, *tables.WRITTEN, *tables.SEGMENTS}


def check_name(workspace: Workspace, kind: str, name: str) -> str:
    """Return the column of a `text`, `hypothesis` or `column` of this name; raise InputError where a step cannot write it."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{kind} {name!r}: a name has letters from a to z, digits and underscores, and begins with a letter")
    column, held = _PREFIXES[kind] + name, tables.table_schema(workspace)
    texts, hypotheses = tables.text_names(held), tables.hypothesis_names(held)
    is_text = bool(tables.text_names([column]) or tables.hypothesis_names([column]))
    if name in {"text": {**hypotheses, "asr": ""}, "hypothesis": {**texts, "asr": ""}}.get(kind, {}):
        _refuse(held, name, f"{kind} {name!r}: another text has this name")
    if is_text == (kind == "column") or column in _OTHERS:
        _refuse(held, name, f"{kind} {name!r}: other steps write such a column")
    _check_joined(workspace, column, held)
    return column


def _check_joined(workspace: Workspace, column: str, held: Collection[str]) -> None:
    if column in held and column not in workspace.settings.get("joined", {}):
        _refuse(held, column, f"{workspace.path}: the source has a column {column}, which stays")


def _refuse(held: Collection[str], name: str, why: str) -> None:
    """Raise InputError with a name that no column ends with."""
    name = re.sub("^(asr_)?text_", "", name)
    free = next(free for n in count(2) if not any(each.endswith(free := f"{name}_{n}") for each in held))
    raise InputError(f"{why}; choose another name, such as {free}")


@locks_workspace("join")
def store_column(workspace: Workspace, column: str, values: pl.DataFrame, record: Mapping[str, Any]) -> dict[str, int]:
    """Write a column (`segment_id`, `value`; others get null), and drop scores of what changes; return counts of changes."""
    held = tables.table_schema(workspace)
    _check_joined(workspace, column, held)
    ids = tables.read(workspace, ["segment_id"])
    new = ids.join(values, on="segment_id", how="left", maintain_order="left")["value"].alias(column)
    old = tables.read(workspace, [column])[column] if column in held else pl.Series([None] * len(ids), dtype=new.dtype)
    same = new.eq_missing(old) if new.dtype == old.dtype else new.is_null() & old.is_null()
    kinds = {"new": old.is_null() & new.is_not_null(), "changed": old.is_not_null() & new.is_not_null() & ~same}
    kinds |= {"gone": old.is_not_null() & new.is_null(), "unchanged": same & new.is_not_null()}
    stale = [] if same.all() else _scores_of(column, held)
    settings = workspace.settings
    settings["joined"] = settings.get("joined", {}) | {column: dict(record)}

    def parts() -> Iterator[pl.DataFrame]:
        for start, part in zip(count(0, tables.ROWS_A_GROUP), tables.read_batches(workspace), strict=False):
            yield part.drop(stale).with_columns(new.slice(start, len(part)))

    workspace.save_together(settings=settings, segments=parts())
    return {kind: int(rows.sum()) for kind, rows in kinds.items()}


def _scores_of(column: str, held: Collection[str]) -> list[str]:
    """Return the columns with scores of a text or hypothesis, and of the agreement of hypotheses."""
    texts, hypotheses = tables.text_names([column]), tables.hypothesis_names([column])
    if not (names := {*texts, *hypotheses}):
        return []
    names |= {f"{t}_{h}" for t in texts or tables.text_names(held) for h in hypotheses or tables.hypothesis_names(held)}
    return [each for each in held if each in tables.AGREEMENT or ((score := _SCORE.fullmatch(each)) and score[1] in names)]
