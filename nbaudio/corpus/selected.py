"""The segments table behind a corpus: choose the transcript to ship, hash the decisions, keep a copy."""

import os
import shutil
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.tables import SEGMENTS, conform, parquet_schema, parquet_slices
from nbaudio.corpus.plan import digest
from nbaudio.corpus.publish import write_table
from nbaudio.storage.atomic import atomic_write
from nbaudio.text.near import sentences

_SOURCE = "text_source"


def check_text(table: Path, text: str | None, *, judged: bool) -> None:
    """Let pass the name of a further transcript that the table has.

    Args:
        table: the segments table.
        text: the name, without ``text_``; None for `text` itself.
        judged: whether reviewers judged `text`: what they said then holds for the same words only.

    Raises:
        InputError: there is no such column, accepted segments have a transcript but not this one, or one with other words than
            those that were judged.
    """
    if text is None:
        return
    held = parquet_schema(table)
    if (column := f"text_{text}") not in held or held[column] != pl.String:
        texts = (name for name in held if name.startswith("text_") and name not in ("text_corrected", "text_origin"))
        known = sorted(name.removeprefix("text_") for name in texts)
        hint = "'nbaudio score W --normalize STEP' makes text_normalized"
        raise InputError(f"{table}: text {text!r}: no column {column}; there are {', '.join(known) or 'none'}; {hint}")
    if _SOURCE in held:
        raise InputError(f"{table}: the column {_SOURCE!r} would be written over; rename it")
    is_empty = (pl.col(column).fill_null("") == "") & (pl.col("text").fill_null("") != "")
    rules = {f"no {column}; run select again": is_empty}
    if judged:
        other = sentences(pl.col("text")).ne_missing(sentences(pl.col(column)))
        rules[f"other words in {column} than in text, which reviewers were given"] = other
    accepted = pl.scan_parquet(table, glob=False).filter(pl.col("decision") == "accept").select("segment_id", "text", column)
    for what, broken in rules.items():
        count, first = accepted.filter(broken).select(pl.len(), pl.first("segment_id")).collect().row(0)
        if count:
            raise InputError(f"{table}: {count:,} accepted segments ({first} the first) have {what}")


def selection_hash(table: Path, text: str | None) -> str:
    """A hash of what was decided about every segment, and of the transcripts that are shipped."""
    decided = ("segment_id", "decision", "split", "text", "reason")
    parts = (conform(_shipped(part, text), SEGMENTS, "segments") for part in parquet_slices(table))
    return digest(part.select(decided) for part in parts)


def freeze_table(source: Path, target: Path, text: str | None) -> Path:
    """The table as it is now, in a file of its own: a hard link where possible, written anew where it ships another text."""
    target.unlink(missing_ok=True)
    if text is not None:
        with atomic_write(target, sync=False) as partial:
            write_table(partial, (_shipped(part, text) for part in parquet_slices(source)))
        return target
    try:
        os.link(source, target)
    except OSError:
        with atomic_write(target, sync=False) as partial:
            shutil.copyfile(source, partial)
    return target


def _shipped(part: pl.DataFrame, text: str | None) -> pl.DataFrame:
    """Rows with the chosen transcript as `text`; the source's stays as ``text_source``."""
    return part if text is None else part.rename({"text": _SOURCE, f"text_{text}": "text"})
