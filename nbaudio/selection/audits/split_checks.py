"""Checks of splits, duplicates and ids: what occurs in two splits, or twice."""

from collections.abc import Callable

import polars as pl

from nbaudio.selection import leakage
from nbaudio.selection.audits.audited import Audited
from nbaudio.selection.audits.findings import (
    MOST_EXAMPLES,
    Check,
    Hits,
    Settings,
    example_rows,
    rows_where,
)
from nbaudio.tables.split_names import is_held_out
from nbaudio.text.near_duplicates import sentences

_SPLIT_AGAIN = "Split again: nbaudio select W --group-by speaker_id,recording_id."
_Find = Callable[[Audited, Settings], Hits]


def _shared(check: str, column: str) -> _Find:
    """Return a check of what held-out rows share with rows of another split.

    `check` is one of `leakage`, or a column; `column` is that which it needs.
    """

    def find(audited: Audited, _: Settings) -> Hits:
        rows = audited.shipped.filter(pl.col("split").is_not_null())
        held_out = [name for name in rows["split"].unique() if is_held_out(name)]
        compared = rows.select("segment_id", "split", *{"text", column})
        keys = [check] if check == column and check in leakage.GROUPS else []
        if column != "text":
            # Texts are not compared again by each check.
            compared = compared.with_columns(text=pl.lit(None, pl.String))
        pairs = leakage.exceptions(compared, keys=keys).filter(pl.col("check") == check)
        return Hits(len(pairs), int(rows["split"].is_in(held_out).sum()), _pairs(pairs))

    return find


def _pairs(pairs: pl.DataFrame) -> list[str]:
    """Return the first pairs of rows of two splits, each in one line."""
    return [
        f"{row['segment_id']} ({row['split']}) and {row['other_segment_id']} "
        f"({row['other_split']}): {str(row['value'])[:60]}"
        for row in pairs.head(MOST_EXAMPLES).iter_rows(named=True)
    ]


def _repeats(audited: Audited, keys: list[pl.Expr], *shown: str) -> Hits:
    """Return the rows that repeat an earlier row of their split in all keys, none of them null.

    They are counted of the rows that have all keys.
    """
    rows = audited.shipped
    keyed = rows.select(
        "segment_id",
        *shown,
        pl.col("split").alias("of_split"),
        *(key.alias(f"key_{number}") for number, key in enumerate(keys)),
    )
    names = [name for name in keyed.columns if name.startswith("key_")]
    present = keyed.drop_nulls(names).sort("segment_id")
    repeated = present.filter(~pl.struct("of_split", *names).is_first_distinct())
    return Hits(len(repeated), len(present), example_rows(repeated, *shown))


def _repeated_sentences(audited: Audited, _: Settings) -> Hits:
    return _repeats(audited, [sentences(pl.col("text")), pl.col("speaker_id")], "text")


def _repeated_clips(audited: Audited, _: Settings) -> Hits:
    return _repeats(audited, [pl.col("audio_sha256")], "audio_sha256")


def _colliding_ids(audited: Audited, _: Settings) -> Hits:
    source_id = pl.col("source_id")
    return rows_where(audited, source_id.is_not_null() & source_id.is_duplicated(), "source_id")


def _shared_check(name: str, check: str, column: str, limit: float, means: str) -> Check:
    """Return the check that splits share something."""
    return Check(name, means, limit, _SPLIT_AGAIN, _shared(check, column), ("split", column))


CHECKS = (
    _shared_check(
        "splits share speakers",
        "speaker_id",
        "speaker_id",
        0.0,
        "held-out rows whose speaker is in another split",
    ),
    _shared_check(
        "splits share recordings",
        "recording_id",
        "recording_id",
        0.0,
        "held-out rows whose recording is in another split",
    ),
    _shared_check(
        "splits share sentences",
        leakage.SENTENCE,
        "text",
        0.0,
        "held-out rows whose sentence is in another split; "
        f"{leakage.CHECK_MEANINGS[leakage.SENTENCE]}",
    ),
    _shared_check(
        "splits share near sentences",
        leakage.NEAR_SENTENCE,
        "text",
        0.01,
        "held-out rows with a near sentence in another split; "
        f"{leakage.CHECK_MEANINGS[leakage.NEAR_SENTENCE]}",
    ),
    _shared_check(
        "splits share clips",
        leakage.AUDIO,
        "audio_sha256",
        0.0,
        "held-out rows whose audio has the hash of a clip in another split",
    ),
    Check(
        "repeated sentences",
        "the speaker has said the sentence before, in the same split",
        0.05,
        "Keep one of each, or know that they count twice.",
        _repeated_sentences,
        ("text", "speaker_id"),
    ),
    Check(
        "repeated clips",
        "the audio has the hash of an earlier clip of the same split",
        0.0,
        "Keep one of each.",
        _repeated_clips,
        ("audio_sha256",),
    ),
    Check(
        "ids that collide",
        "the id of the row is that of another row",
        0.0,
        "Give each row an id of its own, such as the name of its file with its split.",
        _colliding_ids,
        ("source_id",),
    ),
)
