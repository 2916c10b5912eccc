"""Checks of durations, speakers, licenses, consent, and of declared against real numbers."""

import polars as pl

from nbaudio.selection.audits.audited import Audited
from nbaudio.selection.audits.findings import MOST_EXAMPLES, Check, Hits, Settings, rows_where

_DURATION = pl.col("duration_s")
_REFUSED = ("", "0", "false", "n", "no", "none", "refused", "unknown", "withdrawn")
_UNLICENSED = ("", "none", "null", "unknown", "n/a")


def _too_long(audited: Audited, settings: Settings) -> Hits:
    return rows_where(audited, settings.max_duration < _DURATION, "duration_s", "text")


def _no_duration(audited: Audited, _: Settings) -> Hits:
    """Rows without a duration; that of a clip to the end of its recording is not declared."""
    is_none = _DURATION.is_null() | ~_DURATION.is_finite() | (_DURATION <= 0)
    is_open = pl.col("is_open").fill_null(value=False) & _DURATION.is_null()
    return rows_where(audited, is_none & ~is_open, "duration_s", "text", among=~is_open)


def _no_speaker(audited: Audited, _: Settings) -> Hits:
    return rows_where(audited, ~pl.col("speaker_id").str.contains(r"\S").fill_null(value=False))


def _unlicensed(audited: Audited, _: Settings) -> Hits:
    """Rows without a license; those of a dataset with one as a whole have it."""
    value = pl.col("license").str.strip_chars().str.to_lowercase()
    has_none = value.is_null() | value.is_in(_UNLICENSED)
    if audited.license is not None:
        return Hits(0, len(audited.shipped))
    return rows_where(audited, has_none, "license")


def _no_consent(audited: Audited, _: Settings) -> Hits:
    value = pl.col("consent").str.strip_chars().str.to_lowercase()
    return rows_where(audited, value.is_null() | value.is_in(_REFUSED), "consent")


def _declared_rows(audited: Audited, _: Settings) -> Hits:
    """Rows that a split has more or less than it declares, of its declared or real rows.

    The larger number of both is taken, so that the share is at most 1.
    """
    splits = audited.shipped["split"].drop_nulls().value_counts()
    real_rows = dict.fromkeys(audited.declared, 0) | dict(splits.iter_rows())
    numbers = [
        (split, audited.declared.get(split, 0), real) for split, real in sorted(real_rows.items())
    ]
    examples = [
        f"{split}: {declared:,} declared, {real:,} there"
        for split, declared, real in numbers
        if declared != real
    ]
    difference = sum(abs(declared - real) for _, declared, real in numbers)
    return Hits(difference, sum(max(row[1:]) for row in numbers), examples[:MOST_EXAMPLES])


CHECKS = (
    Check(
        "clips longer than a model takes",
        "longer than --max-duration (30 s)",
        0.0,
        "Leave them out: nbaudio select W --max-duration 30, or cut them.",
        _too_long,
        ("duration_s",),
    ),
    Check(
        "no duration",
        "the duration is missing, zero or negative",
        0.0,
        "Decode them: nbaudio audit TARGET --audio 200; leave out what cannot be decoded.",
        _no_duration,
        ("duration_s",),
    ),
    Check(
        "no speaker",
        "the speaker is missing or blank",
        0.05,
        "Bring them in: nbaudio join W FILE --on segment_id --column speaker_id.",
        _no_speaker,
        ("speaker_id",),
    ),
    Check(
        "no license",
        "neither the row nor the dataset has a license",
        0.0,
        "Declare it in the card: nbaudio materialize W --out CORPUS --license NAME.",
        _unlicensed,
    ),
    Check(
        "no consent",
        "the row has a consent field that is missing or refused",
        0.0,
        "Withdraw them: nbaudio withdraw W --segments FILE --why TEXT.",
        _no_consent,
        ("consent",),
    ),
    Check(
        "declared against real rows",
        "rows more or less than the card or corpus.json declares",
        0.0,
        "Publish the missing files, or correct num_examples in the card.",
        _declared_rows,
    ),
)
