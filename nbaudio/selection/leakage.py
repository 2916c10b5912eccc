"""Leakage checks: what held-out splits share with any other split, by columns, sentences and audio.

Tables are read in slices.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from nbaudio.core.threads import in_threads
from nbaudio.selection.splits import usable_keys
from nbaudio.tables.dataframes import IN_ORDER, STREAMED, Frame, as_polars
from nbaudio.tables.parquet_files import ROWS_A_GROUP
from nbaudio.tables.split_names import is_held_out, ordered_splits
from nbaudio.text.near_duplicates import NearIndex, sentences

SENTENCE = "identical sentence"
NEAR_SENTENCE = "near-identical sentence"
AUDIO = "identical audio"
GROUPS = ("speaker_id", "recording_id")

CHECK_MEANINGS = {
    SENTENCE: (
        "equal but for case, punctuation, blanks, Unicode normal form and invisible characters"
    ),
    NEAR_SENTENCE: (
        "not equal, but edits (Levenshtein) in at most a tenth of the shorter one's "
        "characters; none is missed"
    ),
    AUDIO: (
        "equal bytes of the encoded clips, hence equal samples: "
        "all clips of a corpus are encoded alike"
    ),
}
"""Meanings of the checks that are not columns."""

_HASH = "audio_sha256"
_MAX_LISTED = 100

EXCEPTIONS = pl.Schema(
    dict.fromkeys(
        ("check", "split", "segment_id", "value", "other_split", "other_segment_id", "other_value"),
        pl.String,
    )
)
_MATCHES = pl.Schema([*EXCEPTIONS.items(), ("edits", pl.Int64())])


def grouping_columns(selection: Mapping[str, Any]) -> list[str]:
    """Return the columns to check in a corpus.

    They are `GROUPS`, and those that its selection was grouped by.
    """
    return list(dict.fromkeys((*GROUPS, *selection.get("parameters", {}).get("group_by", []))))


def exceptions(segments: Frame | pl.LazyFrame, *, keys: Sequence[str] = GROUPS) -> pl.DataFrame:
    """List every held-out segment that shares something with a segment of another split.

    It is listed once per check, as `EXCEPTIONS`.
    """
    table = _lazy(segments)
    usable_keys(pl.DataFrame(schema=table.collect_schema()), keys)
    values = _compared_values(table, keys)
    checks = _checks(segments, keys)
    all_splits = table.select(pl.col("split").cast(pl.String).unique()).collect(**STREAMED)
    splits = ordered_splits(all_splits.to_series())
    is_held_out_row = pl.col("split").cast(pl.String).is_in([*filter(is_held_out, splits)])
    needed = table.select(*_needed_columns(values, keys))
    held_out = needed.filter(is_held_out_row).collect(**STREAMED).select(_named(values))
    index = NearIndex(held_out[SENTENCE].drop_nulls().unique().sort())

    def matches_in(part: pl.DataFrame) -> list[pl.DataFrame]:
        rows = part.select(_named(values))
        return [_first(_matches(held_out, rows, check, index), splits) for check in checks]

    parts = needed.filter(pl.col("split").is_not_null()).collect_batches(
        chunk_size=ROWS_A_GROUP, **IN_ORDER
    )
    matches = _first_of_parts(in_threads(matches_in, parts), splits)
    order = pl.col("check").cast(pl.Enum(checks))
    return matches.sort(order, "segment_id").select(EXCEPTIONS.names())


def _first_of_parts(
    matches_of_parts: Iterable[Sequence[pl.DataFrame]], splits: Sequence[str]
) -> pl.DataFrame:
    """Keep the match to report for each held-out segment in a check, of all parts of a table.

    The matches in a part are at most as many as the held-out segments, however large the table is.
    """
    first = pl.DataFrame(schema=_MATCHES)
    further = list[pl.DataFrame]()
    for matches in matches_of_parts:
        further += matches
        if sum(map(len, further)) > 2 * len(first) + ROWS_A_GROUP:
            first = _first(pl.concat([first, *further]), splits)
            further = []
    return _first(pl.concat([first, *further]), splits)


def _compared_values(table: pl.LazyFrame, keys: Sequence[str]) -> dict[str, pl.Expr]:
    """Return what each check compares; near sentences are compared by their sentences."""
    values = {key: pl.col(key).cast(pl.String) for key in keys}
    values[SENTENCE] = sentences(pl.col("text"))
    if _HASH in table.collect_schema():
        values[AUDIO] = pl.col(_HASH)
    return values


def _named(values: Mapping[str, pl.Expr]) -> list[pl.Expr]:
    """Return the columns of segments that are compared: ids, splits, and a value by check."""
    compared = [value.alias(check) for check, value in values.items()]
    return [pl.col("segment_id"), pl.col("split").cast(pl.String), *compared]


def _needed_columns(values: Mapping[str, pl.Expr], keys: Sequence[str]) -> list[str]:
    """Return the columns of a table that values are computed of."""
    columns = ["segment_id", "split", "text", *keys]
    if AUDIO in values:
        columns.append(_HASH)
    return [*dict.fromkeys(columns)]


def leakage(segments: Frame | pl.LazyFrame, *, keys: Sequence[str] = GROUPS) -> pl.DataFrame:
    """Count what occurs in more than one split; see `exceptions`.

    Returns:
        One row per check: `check`, `shared` (number of values, such as speakers or sentences),
        `segments` (number of segments of dev and test concerned) and `examples` (up to three
        values, in order).

    Raises:
        InputError: a key is no column of `segments`.

    Examples:
        >>> texts = ["Hvala  lijepa", "hvala lijepa"]
        >>> rows = {"segment_id": ["a", "b"], "speaker_id": ["x", "y"], "text": texts}
        >>> segments = pl.DataFrame({**rows, "split": ["train", "test"]})
        >>> leakage(segments, keys=["speaker_id"]).rows()[:2]
        [('speaker_id', 0, 0, []), ('identical sentence', 1, 1, ['hvala lijepa'])]
    """
    values = pl.col("value")
    counts = (
        values.n_unique().alias("shared"),
        pl.len().alias("segments"),
        values.unique().sort().head(3).alias("examples"),
    )
    counted = exceptions(segments, keys=keys).group_by("check").agg(counts)
    checks = pl.DataFrame({"check": _checks(segments, keys)})
    return checks.join(counted, on="check", how="left", maintain_order="left").select(
        "check",
        pl.col("shared", "segments").fill_null(0).cast(pl.Int64),
        pl.col("examples").fill_null([]),
    )


def leakage_record(
    segments: Frame | pl.LazyFrame, *, keys: Sequence[str] = GROUPS
) -> dict[str, Any]:
    """Return the leakage checks as corpus.json holds them.

    Each check has `shared`, `segments` and the first exceptions.
    """
    rows = exceptions(segments, keys=keys)
    record = {}
    for check in _checks(segments, keys):
        of_check = rows.filter(pl.col("check") == check).drop("check")
        meaning = {}
        if check in CHECK_MEANINGS:
            meaning["means"] = CHECK_MEANINGS[check]
        record[check] = {
            **meaning,
            "shared": of_check["value"].n_unique(),
            "segments": len(of_check),
            "exceptions": of_check.head(_MAX_LISTED).to_dicts(),
        }
    return record


def _checks(segments: Frame | pl.LazyFrame, keys: Sequence[str]) -> list[str]:
    """Return the checks in order; that of audio needs hashes of it."""
    checks = [*dict.fromkeys(keys), SENTENCE, NEAR_SENTENCE]
    if _HASH in _lazy(segments).collect_schema():
        checks.append(AUDIO)
    return checks


def _lazy(segments: Frame | pl.LazyFrame) -> pl.LazyFrame:
    """Return segments as a query."""
    if isinstance(segments, pl.LazyFrame):
        return segments
    return as_polars(segments, "segments").lazy()


def _matches(
    held_out: pl.DataFrame, rows: pl.DataFrame, check: str, index: NearIndex
) -> pl.DataFrame:
    """Pair held-out segments with those of `rows` in another split.

    `index` is of all sentences that are held out.
    """
    if check == NEAR_SENTENCE:
        column = SENTENCE
        same = _near_values(rows[column].drop_nulls().unique(), index)
    else:
        column = check
        values = held_out[column].drop_nulls().unique()
        same = pl.DataFrame({"value": values, "other_value": values}).with_columns(
            edits=pl.lit(0, dtype=pl.Int64)
        )
    # Only the first segment of a split with a value is reported.
    right = rows.select("segment_id", other_split="split", other_value=column).join(
        same, on="other_value", how="semi"
    )
    right = right.group_by("other_value", "other_split").agg(other_segment_id=pl.min("segment_id"))
    left = held_out.select("split", "segment_id", value=column)
    pairs = (
        left.join(same, on="value")
        .join(right, on="other_value")
        .filter(pl.col("split") != pl.col("other_split"))
    )
    return pairs.with_columns(check=pl.lit(check)).select(_MATCHES.names())


def _near_values(values: pl.Series, index: NearIndex) -> pl.DataFrame:
    """Return `value`, a held-out sentence, and `other_value`, one of `values`, that are near.

    `edits` is the number of edits between them.
    """
    return index.among(values).select(
        "edits",
        value=pl.lit(index.sentences).gather("sentence"),
        other_value=pl.lit(values).gather("text"),
    )


def _first(matches: pl.DataFrame, splits: Sequence[str]) -> pl.DataFrame:
    """Keep the match to report for each held-out segment in a check."""
    order = ("edits", pl.col("other_split").cast(pl.Enum(splits)), "other_segment_id")
    return matches.sort(*order).unique(["check", "segment_id"], keep="first", maintain_order=True)
