"""Checks of what `score` and `measure` have written, or of clips that were drawn and decoded."""

from collections.abc import Callable

import polars as pl

from nbaudio.selection.audits.audited import Audited
from nbaudio.selection.audits.findings import Check, Hits, Settings, rows_where

_LISTEN = (
    "Listen to some: nbaudio review export W --out s.xlsx; or leave them out: "
    "nbaudio select W --where '{}'."
)
Find = Callable[[Audited, Settings], Hits]
# Seconds and share by which a decoded clip may differ from its declared duration.
_MOST_DIFFERENCE_S = 0.1
_MOST_DIFFERENCE = 0.02


def _where(column: str, condition: pl.Expr, *shown: str) -> Find:
    """Return a check of the rows that have a value in a column."""

    def find(audited: Audited, _: Settings) -> Hits:
        return rows_where(audited, condition, *shown, among=pl.col(column).is_not_null())

    return find


def _signal(name: str, means: str, is_met: pl.Expr, condition: str, limit: float) -> Check:
    """Return the check of a column that `measure` writes; `condition` says the same to `select`."""
    (column,) = is_met.meta.root_names()
    mend = _LISTEN.format(f"not ({condition})")
    return Check(name, means, limit, mend, _where(column, is_met, "text"), (column,))


def _other_duration(audited: Audited, _: Settings) -> Hits:
    declared = pl.col("duration_s")
    difference = (pl.col("decoded_s") - declared).abs()
    most = pl.max_horizontal(pl.lit(_MOST_DIFFERENCE_S), _MOST_DIFFERENCE * declared)
    among = pl.col("decoded_s").is_not_null() & declared.is_not_null()
    return rows_where(audited, difference > most, "duration_s", "decoded_s", among=among)


CHECKS = (
    Check(
        "unreadable audio",
        "a drawn clip cannot be decoded",
        0.0,
        "Replace the files, or leave the rows out.",
        _where("audio_problem", pl.col("audio_problem") != "", "audio_problem"),
        ("audio_problem",),
    ),
    Check(
        "declared against decoded durations",
        "a drawn clip is shorter or longer than its row declares, by 0.1 s and 2 %",
        0.0,
        "Correct the durations, or replace files that broke off.",
        _other_duration,
        ("decoded_s", "duration_s"),
    ),
    _signal(
        "clipped audio",
        "more than 1 sample in 1,000 is clipped",
        pl.col("clipped_share") > 0.001,
        "clipped_share > 0.001",
        0.05,
    ),
    _signal(
        "noisy audio",
        "a signal-to-noise ratio below 10 dB",
        pl.col("snr_db") < 10,
        "snr_db < 10",
        0.05,
    ),
    _signal(
        "telephone band",
        "no sound above 4 kHz",
        pl.col("bandwidth_hz") < 4000,
        "bandwidth_hz < 4000",
        0.05,
    ),
    _signal(
        "digital silence",
        "digital silence in over 30 % of the clip",
        pl.col("silence_share") > 0.3,
        "silence_share > 0.3",
        0.01,
    ),
    _signal(
        "offset of the signal",
        "a DC offset above 0.02 of full scale",
        pl.col("dc_offset").abs() > 0.02,
        "abs(dc_offset) > 0.02",
        0.02,
    ),
    _signal(
        "cut at the beginning",
        "speech runs through the start of the clip",
        pl.col("cut_start"),
        "cut_start",
        0.1,
    ),
    _signal(
        "cut at the end",
        "speech runs through the end of the clip",
        pl.col("cut_end"),
        "cut_end",
        0.1,
    ),
    _signal(
        "texts unlike the hypothesis",
        "a similarity to the recognizer's text below 0.5",
        pl.col("similarity") < 0.5,
        "similarity < 0.5",
        0.01,
    ),
)
