"""Splits that are fixed before segments are divided.

They are given ones, and those of earlier versions of a corpus (docs/select.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.selection.leakage import GROUPS, SENTENCE
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.rejection_reasons import GROUPING_REASONS
from nbaudio.tables.row_values import with_values
from nbaudio.tables.schemas import EARLIER_SPLITS, SPLITS
from nbaudio.tables.split_names import in_training, is_held_out, ordered_splits, split_role
from nbaudio.text.near_duplicates import sentences

_FIELDS = ("segment_id", "split", "sentence")  # of earlier segments; the others are keys
_LISTED = 5


@dataclass(frozen=True)
class FixedSplitsReport:
    """Facts and warnings for the report of `select`."""

    facts: dict[str, Any]
    warnings: list[str]


@dataclass(frozen=True)
class FixedSplits:
    """Fixed splits, and what follows from them and from `earlier` versions.

    For each of the `segments`, `rows` has in their order `fixed` (the split, or null), `is_given`,
    `earlier` (its split in an earlier version, or null), `may_hold_out`, and `not_train`, the
    reason for which the segment cannot be in train, or null; texts are categorical. It is empty
    where nothing is fixed. In `segments` and `earlier`, speakers have the ids of `joined_speakers`.
    """

    segments: pl.LazyFrame
    rows: pl.DataFrame
    earlier: pl.DataFrame  # the segments of earlier versions, as in the table `EARLIER_SPLITS`
    # The id that stands for each speaker who has several; see `nbaudio.selection.look_alikes`.
    joined_speakers: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the earlier versions were grouped by.

        Columns that the segments do not have are left out.
        """
        return _columns(self.earlier, self.segments)

    @property
    def is_any(self) -> bool:
        """Whether anything is fixed."""
        return self.rows.width > 0

    def values(self) -> list[pl.Expr]:
        """Return the columns of `rows` if nothing is fixed, and none otherwise.

        All rows then have the same values.
        """
        texts = [pl.lit(None).alias(name) for name in ("fixed", "earlier", "not_train")]
        if self.is_any:
            return []
        return [
            *texts,
            pl.lit(value=True).alias("may_hold_out"),
            pl.lit(value=False).alias("is_given"),
        ]

    def preset(self, key: str) -> dict[str, str]:
        """Return the split of each value of a column: one of `SPLITS`, or "" if closed.

        Held-out splits precede train.
        """
        fixed = pl.col("fixed")
        earlier = pl.col("earlier")
        segments = with_values(self.segments.select(value=pl.col(key).cast(pl.String)), self.rows)
        segments = segments.filter(fixed.is_not_null() | earlier.is_not_null()).select(
            "value", split=fixed.cast(pl.String)
        )
        values = [segments.collect(**STREAMED)]
        if key in self.columns:
            is_held_out = ~in_training(self.earlier["split"])
            values.append(self.earlier.select(value=key, split=pl.when(is_held_out).then("split")))
        table = pl.concat(values).drop_nulls("value")
        table = table.with_columns(
            split=pl.when(in_training(table["split"])).then(pl.lit("train")).otherwise("split")
        )
        split = pl.col("split").list.first()
        is_one = (pl.col("split").list.len() == 1) & split.is_in(SPLITS)
        none = pl.col("split").list.len() == 0
        named = pl.when(none).then(pl.lit("train")).when(is_one).then(split).otherwise(pl.lit(""))
        return dict(
            table.group_by("value")
            .agg(pl.col("split").drop_nulls().unique())
            .select("value", named)
            .iter_rows()
        )

    def given_roles(self) -> set[str | None]:
        """Return what the given splits are for."""
        if self.is_any:
            return {split_role(name) for name in self.rows.filter("is_given")["fixed"].unique()}
        return set()

    def report(self, selection: pl.LazyFrame, keys: Sequence[str]) -> FixedSplitsReport:
        """Return the report of a selection that was grouped by `keys`; it is empty without splits.

        `selection` are the segments with the `split` and `reason` that `select` decided.
        """
        if not self.is_any:
            return FixedSplitsReport({}, [])
        needed = dict.fromkeys(("segment_id", "split", "reason", *GROUPS, *keys, "text"))
        texts = selection.select(*needed).cast({"split": pl.String, "reason": pl.String})
        chosen = texts.with_columns(_hashed(sentences(pl.col("text"))).alias("text")).collect(
            **STREAMED
        )
        shared = list(self._shared(chosen, keys))
        rejected = self._rejected_train(chosen)
        facts: dict[str, Any] = self._sizes_by_version(chosen) if len(self.earlier) else {}
        if shared:
            facts["shared_by_fixed_splits"] = shared
        if rejected:
            facts["earlier_train_rejected"] = {
                "segments": len(rejected),
                "first": rejected[:_LISTED],
            }
        warnings = [
            *_shared_warning(shared),
            *self._lost_warning(chosen),
            *self._rejected_warning(rejected, keys),
        ]
        return FixedSplitsReport(facts, warnings)

    def _sizes_by_version(self, chosen: pl.DataFrame) -> dict[str, dict[str, int]]:
        """Return the sizes of splits: of what earlier versions had, and of what is new."""
        selected = chosen.select("split", earlier=self.rows["earlier"]).drop_nulls("split")
        is_earlier = pl.col("earlier").is_not_null()
        return {
            "kept_from_earlier": _split_sizes(selected.filter(is_earlier)),
            "new": _split_sizes(selected.filter(~is_earlier)),
        }

    def _lost_warning(self, chosen: pl.DataFrame) -> Iterator[str]:
        """Warn of segments that an earlier version held out, and that are not selected now."""
        before = (
            self.earlier.filter(~in_training(self.earlier["split"]))
            .select("segment_id", before="split")
            .unique()
        )
        lost = before.join(chosen.drop_nulls("split"), on="segment_id", how="anti")
        if lost.is_empty():
            return
        reasons = lost.join(chosen, on="segment_id", how="left")["reason"]
        causes = _counted(reasons.fill_null("not in the tables"))
        yield (
            f"{len(lost):,} of the segments that an earlier version held out are lost "
            f"({_counted(lost['before'])}), for these reasons: {causes}"
        )

    def _rejected_train(self, chosen: pl.DataFrame) -> list[str]:
        """Return, in order, the ids of earlier train segments that cross splits now."""
        rejected = chosen.filter(
            in_training(self.rows["earlier"]) & chosen["reason"].is_in(GROUPING_REASONS)
        )
        return rejected["segment_id"].sort().to_list()

    def _rejected_warning(self, rejected: Sequence[str], keys: Sequence[str]) -> Iterator[str]:
        """Warn of earlier train segments that are rejected, by their ids."""
        if not rejected:
            return
        columns = ", ".join(dict.fromkeys((*keys, *self.columns)))
        shown = list(rejected[:_LISTED])
        if len(rejected) > _LISTED:
            shown.append("...")
        named = ", ".join(shown)
        yield (
            f"{len(rejected):,} segments of the earlier train share {columns} with what is "
            f"held out, and are out: {named}"
        )

    def _shared(self, chosen: pl.DataFrame, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield what several fixed splits share.

        Each row has `check`, `splits` and `shared`, the number of values. Only sentences of given
        splits are compared.
        """
        fixed = chosen.with_columns(self.rows["fixed", "is_given"]).drop_nulls(["fixed", "split"])
        order = ordered_splits(fixed["split"].unique())
        place = pl.col("split").replace_strict(order, range(len(order)), return_dtype=pl.Int64)
        held_out = pl.col("split").is_in([*filter(is_held_out, order)])
        for check in dict.fromkeys((*GROUPS, *keys, SENTENCE)):
            value: pl.Expr
            if check == SENTENCE:
                value = pl.when("is_given").then("text")
            else:
                value = pl.col(check).cast(pl.String)
            pairs = fixed.select("split", value=value).drop_nulls().unique()
            several = pairs.group_by("value").agg(
                pl.col("split").sort_by(place), is_held_out=held_out.any()
            )
            several = several.filter(pl.col("is_held_out") & (pl.col("split").list.len() > 1))
            counts = (
                several.group_by(splits=pl.col("split").list.join(" and "))
                .agg(shared=pl.len())
                .sort("splits")
            )
            yield from ({"check": check, **row} for row in counts.iter_rows(named=True))


def fixed_splits(
    segments: pl.DataFrame | pl.LazyFrame,
    *,
    given_split: pl.Series | None = None,
    earlier: pl.DataFrame | None = None,
) -> FixedSplits:
    """Fix the splits of segments, `given_split` or of `earlier` versions (as `EARLIER_SPLITS`).

    Raise InputError for a contradiction.
    """
    segments = segments.lazy()
    table = _earlier_segments(earlier)
    if table.is_empty() and (given_split is None or given_split.null_count() == len(given_split)):
        return FixedSplits(segments, pl.DataFrame(), table)
    table = table.with_columns(_hashed(pl.col("sentence")).alias("sentence"))
    rows = _with_earlier(segments, table, given_split)
    _check_agreement(rows)
    return FixedSplits(segments, _decided(rows, table, _columns(table, segments)), table)


def _earlier_segments(earlier: pl.DataFrame | None) -> pl.DataFrame:
    """Return the segments of earlier versions as texts, without those that have no id or split.

    Raise InputError if a column is missing.
    """
    if earlier is None:
        return pl.DataFrame(schema=dict.fromkeys(_FIELDS, pl.String))
    if missing := [name for name in _FIELDS if name not in earlier.columns]:
        raise InputError(
            f"{EARLIER_SPLITS}.parquet: the column {missing[0]} is missing; "
            f"columns are {', '.join(earlier.columns)}"
        )
    return earlier.select(pl.all().cast(pl.String)).drop_nulls(["segment_id", "split"])


def _with_earlier(
    segments: pl.LazyFrame, table: pl.DataFrame, given_split: pl.Series | None
) -> pl.DataFrame:
    """Return the segments, in order, with what is given and what earlier versions had.

    The columns are `segment_id`, those that earlier versions were grouped by, `sentence` (hashed;
    null if there are no earlier versions), `given`, and of an earlier version: `earlier`, its
    split, and `before`, its sentence.
    """
    if len(table):
        text = _hashed(sentences(pl.col("text")))
    else:
        text = pl.lit(None, dtype=pl.UInt64)
    rows = segments.select("segment_id", *_columns(table, segments), sentence=text)
    first = table.unique("segment_id", keep="first", maintain_order=True)
    split: pl.Series | pl.Expr = pl.lit(None, dtype=pl.String)
    if given_split is not None:
        split = given_split
    return (
        rows.collect(**STREAMED)
        .with_columns(given=split)
        .join(
            first.select("segment_id", earlier="split", before="sentence"),
            on="segment_id",
            how="left",
            maintain_order="left",
        )
    )


def _check_agreement(rows: pl.DataFrame) -> None:
    """Raise InputError for a segment that is given another split than an earlier version has.

    Splits for training are alike.
    """
    differing = rows.filter(
        (pl.col("given") != pl.col("earlier"))
        & ~(in_training(rows["given"]) & in_training(rows["earlier"]))
    )
    if differing.is_empty():
        return
    first = differing.sort("segment_id").row(0, named=True)
    more = f" ({len(differing):,} such segments)" if len(differing) > 1 else ""
    raise InputError(
        f"splits: segment {first['segment_id']} is given as {first['given']}, "
        f"but is {first['earlier']} in an earlier version{more}; "
        f"if no corpus has these splits, remove {EARLIER_SPLITS}.parquet from the workspace"
    )


def _decided(rows: pl.DataFrame, table: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return the `rows` of `FixedSplits`, of what `_with_earlier` returns.

    `table` are the segments of earlier versions, grouped by `columns`.
    """
    is_train = in_training(table["split"])
    train = table.filter(is_train)
    held_out = table.filter(~is_train)
    was_train = in_training(rows["earlier"])
    in_earlier_train = pl.lit(was_train).fill_null(value=False)
    is_train_sentence = _is_sentence_of(train, rows.filter(was_train))
    is_held_out_sentence = _is_sentence_of(held_out, rows.filter(~was_train))
    is_unchanged = in_earlier_train & pl.col("sentence").eq_missing(pl.col("before"))
    fixed = pl.coalesce("given", pl.when(pl.lit(~was_train)).then("earlier"))
    not_train = pl.coalesce(
        pl.when(_shares_value(held_out, columns)).then(pl.lit("crosses_splits")),
        pl.when(is_held_out_sentence & ~is_unchanged).then(pl.lit("held_out_sentence")),
    )
    return rows.select(
        pl.col("earlier").cast(pl.Categorical),
        fixed=fixed.cast(pl.Categorical),
        is_given=pl.col("given").is_not_null(),
        may_hold_out=~(in_earlier_train | is_train_sentence.fill_null(value=False)),
        not_train=pl.when(fixed.is_null()).then(not_train).cast(pl.Categorical),
    )


def _is_sentence_of(*tables: pl.DataFrame) -> pl.Expr:
    """Return whether the sentence of a segment is in one of the tables; null if it has none."""
    values = pl.concat([table["sentence"] for table in tables])
    return pl.col("sentence").is_in(values.unique().implode())


def _shares_value(table: pl.DataFrame, columns: Sequence[str]) -> pl.Expr:
    """Return whether a segment has a value of one of the columns that is in the table."""
    shares = [
        pl.col(name).cast(pl.String).is_in(table[name].drop_nulls().unique().implode())
        for name in columns
    ]
    return pl.any_horizontal(*shares, pl.lit(value=False))


def _columns(earlier: pl.DataFrame, segments: pl.LazyFrame) -> tuple[str, ...]:
    """Return the columns that earlier versions were grouped by and that segments have."""
    schema = segments.collect_schema()
    return tuple(name for name in earlier.columns if name not in _FIELDS and name in schema)


def _split_sizes(selected: pl.DataFrame) -> dict[str, int]:
    """Return the number of segments of each split, in the order of splits."""
    counts = dict(selected["split"].value_counts().iter_rows())
    return {split: counts[split] for split in ordered_splits(counts)}


def _shared_warning(shared: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Warn of what fixed splits share, as `FixedSplits._shared` yields it."""
    if shared:
        listed = "; ".join(f"{row['check']}: {row['splits']} {row['shared']:,}" for row in shared)
        yield f"fixed splits share values, and stay as they are: {listed}"


def _hashed(sentence: pl.Expr) -> pl.Expr:
    """Return 64-bit hashes of folded sentences, which take less memory than texts.

    Null stays null.
    """
    return pl.when(sentence.is_not_null()).then(sentence.hash())


def _counted(values: pl.Series) -> str:
    """List values with their counts, the most frequent first."""
    counts = values.value_counts().sort("count", values.name, descending=[True, False])
    return ", ".join(f"{name} {number:,}" for name, number in counts.iter_rows())
