"""Redact secrets in the addresses of a source before they reach a table."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from nbaudio.formats.base import Transcripts
from nbaudio.storage.urls import SIGNED, redact, stored_names

# What was said is never changed, and names are treated on their own.
_KEPT = ("name", "text", "text_raw", "asr_text")


def redacted(
    transcripts: Transcripts, mapping: Mapping[str, str], *, fetches: bool = False
) -> tuple[Transcripts, dict[str, str]]:
    """Transcripts and names file with names of recordings as they are stored, and signatures in further columns left out.

    A name that is an address loses its user and query; those that differ in nothing else are told apart by a hash. Downloaded
    files are so found by the addresses that they came from.

    Args:
        transcripts: of a source.
        mapping: of a names file.
        fetches: whether names are addresses that ingest would fetch: one without its query is another file, so that all have a
            hash, with which they are refused.
    """
    names = transcripts.frame["name"].unique().drop_nulls()
    addresses = names.filter(names.str.contains("://", literal=True)).to_list()
    stored = stored_names([*addresses, *mapping, *mapping.values()], always=fetches)
    frame = transcripts.frame
    if stored:
        frame = frame.with_columns(pl.col("name").replace(stored))
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String and name not in _KEPT]
    holding = [name for name in texts if frame[name].str.contains("://", literal=True).any()]
    frame = frame.with_columns(pl.col(holding).str.replace_all(SIGNED, "${1}...")) if holding else frame
    problems = transcripts.problems
    if problems["reason"].str.contains("://", literal=True).any():
        problems = problems.with_columns(pl.col("reason").map_elements(redact, return_dtype=pl.String))
    pairs = {stored.get(name, name): stored.get(path, path) for name, path in mapping.items()}
    return replace(transcripts, frame=frame, problems=problems), pairs
