"""Tombstones: hashes that stand for what was withdrawn, without naming it.

Speakers, recordings and segments can be withdrawn.
"""

import hashlib

import polars as pl

WITHDRAWN = "withdrawn"
"""Name of the workspace table of withdrawn speakers, recordings and segments: `TOMBSTONES`."""

TOMBSTONES = pl.Schema({"kind": pl.String, "sha256": pl.String, "reason": pl.String})
"""What was withdrawn, not by name.

The columns are `kind` (``speaker``, ``recording`` or ``segment``), the `tombstone` of its id, and
the reason.
"""


def tombstone(kind: str, key: str) -> str:
    """Return the hash that stands for a withdrawn id: hex SHA-256."""
    return hashlib.sha256(f"{kind} {key}".encode("utf8", "surrogatepass")).hexdigest()


def merged(*parts: pl.DataFrame) -> pl.DataFrame:
    """Return tables of `TOMBSTONES` as one, sorted; a second withdrawal keeps the first reason."""
    return (
        pl.concat(parts)
        .unique(["kind", "sha256"], keep="first", maintain_order=True)
        .sort("kind", "sha256")
    )


def is_withdrawn(rows: pl.DataFrame, withdrawn: pl.DataFrame) -> pl.Series:
    """Return whether each row (`segment_id`, `recording_id`, `speaker_id`) has a tombstone."""
    return withdrawal_reasons(rows, withdrawn).is_not_null()


def withdrawal_reasons(rows: pl.DataFrame, withdrawn: pl.DataFrame) -> pl.Series:
    """Return why each row (`segment_id`, `recording_id`, `speaker_id`) was withdrawn.

    The reason is null for a row that was not.
    """
    kinds = ("segment", "recording", "speaker")
    return pl.select(
        pl.coalesce(reasons(kind, rows[f"{kind}_id"], withdrawn) for kind in kinds)
    ).to_series()


def reasons(kind: str, ids: pl.Series, withdrawn: pl.DataFrame) -> pl.Series:
    """Return why each id was withdrawn, null if it was not; `withdrawn` are `TOMBSTONES`."""
    why = dict(
        withdrawn.filter(pl.col("kind") == kind)
        .select("sha256", pl.col("reason").fill_null(""))
        .iter_rows()
    )
    reasons_by_id = {}
    if why:
        reasons_by_id = {key: why.get(tombstone(kind, key)) for key in ids.drop_nulls().unique()}
    return ids.replace_strict(reasons_by_id, default=None, return_dtype=pl.String)
