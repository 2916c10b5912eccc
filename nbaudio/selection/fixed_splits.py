"""Splits that are fixed before segments are divided.

They are given ones, and those of earlier versions of a corpus (docs/splits.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.selection.leakage import GROUPS, SENTENCE
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.row_values import with_values
from nbaudio.tables.schemas import EARLIER_SPLITS, SPLITS
from nbaudio.tables.segment_rules import GROUPING_RULES
from nbaudio.tables.split_names import in_training, is_held_out, ordered_splits, split_role
from nbaudio.text.near_duplicates import sentences

_OWN = ("segment_id", "split", "sentence")
_LISTED = 5


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
        return (
            []
            if self.is_any
            else [
                *texts,
                pl.lit(value=True).alias("may_hold_out"),
                pl.lit(value=False).alias("is_given"),
            ]
        )

    def preset(self, key: str) -> dict[str, str]:
        """Return the split of each value of a column: one of `SPLITS`, or "" if closed.

        Held-out splits precede train.
        """
        fixed = pl.col("fixed")
        earlier = pl.col("earlier")
        own = with_values(self.segments.select(value=pl.col(key).cast(pl.String)), self.rows)
        own = own.filter(fixed.is_not_null() | earlier.is_not_null()).select(
            "value", split=fixed.cast(pl.String)
        )
        known = [own.collect(**STREAMED)]
        if key in self.columns:
            known.append(
                self.earlier.select(
                    value=key, split=pl.when(~in_training(self.earlier["split"])).then("split")
                )
            )
        table = pl.concat(known).drop_nulls("value")
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
        return (
            {split_role(name) for name in self.rows.filter("is_given")["fixed"].unique()}
            if self.is_any
            else set()
        )

    def report(
        self, selection: pl.LazyFrame, keys: Sequence[str]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return facts and warnings for the report of a selection that was grouped by `keys`."""
        facts: dict[str, Any] = {}
        warnings: list[str] = []
        if not self.is_any:
            return facts, warnings
        needed = dict.fromkeys(("segment_id", "split", "reason", *GROUPS, *keys, "text"))
        texts = selection.select(*needed).cast({"split": pl.String, "reason": pl.String})
        chosen = texts.with_columns(_hashed(sentences(pl.col("text"))).alias("text")).collect(
            **STREAMED
        )
        if len(self.earlier):
            kept = chosen.select("split", earlier=self.rows["earlier"]).drop_nulls("split")
            for name, part in (
                ("kept_from_earlier", pl.col("earlier").is_not_null()),
                ("new", pl.col("earlier").is_null()),
            ):
                counts = dict(kept.filter(part)["split"].value_counts().iter_rows())
                facts[name] = {split: counts[split] for split in ordered_splits(counts)}
        if shared := list(self._shared(chosen, keys)):
            facts["shared_by_fixed_splits"] = shared
            listed = "; ".join(
                f"{row['check']}: {row['splits']} {row['shared']:,}" for row in shared
            )
            warnings.append(f"fixed splits share values, and stay as they are: {listed}")
        before = (
            self.earlier.filter(~in_training(self.earlier["split"]))
            .select("segment_id", before="split")
            .unique()
        )
        lost = before.join(chosen.drop_nulls("split"), on="segment_id", how="anti")
        if len(lost):
            reasons = lost.join(chosen, on="segment_id", how="left")["reason"].fill_null(
                "not in the tables"
            )
            causes = f"for these reasons: {_counted(reasons)}"
            warnings.append(
                f"{len(lost):,} of the segments that an earlier version held out are lost "
                f"({_counted(lost['before'])}), {causes}"
            )
        rejected = chosen.filter(
            in_training(self.rows["earlier"]) & chosen["reason"].is_in(GROUPING_RULES)
        )
        if ids := rejected["segment_id"].sort().to_list():
            facts["earlier_train_rejected"] = {"segments": len(ids), "first": ids[:_LISTED]}
            columns = ", ".join(dict.fromkeys((*keys, *self.columns)))
            named = ", ".join((*ids[:_LISTED], *(["..."] if len(ids) > _LISTED else [])))
            warnings.append(
                f"{len(ids):,} segments of the earlier train share {columns} with what is "
                f"held out, and are out: {named}"
            )
        return facts, warnings

    def _shared(self, chosen: pl.DataFrame, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield what several fixed splits share.

        Each row has `check`, `splits` and `shared`, the number of values. Only sentences of given
        splits are compared.
        """
        kept = chosen.with_columns(self.rows["fixed", "is_given"]).drop_nulls(["fixed", "split"])
        order = ordered_splits(kept["split"].unique())
        place = pl.col("split").replace_strict(order, range(len(order)), return_dtype=pl.Int64)
        held_out = pl.col("split").is_in([*filter(is_held_out, order)])
        for check in dict.fromkeys((*GROUPS, *keys, SENTENCE)):
            value = (
                pl.when("is_given").then("text")
                if check == SENTENCE
                else pl.col(check).cast(pl.String)
            )
            pairs = kept.select("split", value=value).drop_nulls().unique()
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


def fixed_splits(  # noqa: PLR0914
    segments: pl.DataFrame | pl.LazyFrame,
    *,
    given: pl.Series | None = None,
    earlier: pl.DataFrame | None = None,
) -> FixedSplits:
    """Fix the splits of segments, `given` or of `earlier` versions (as `EARLIER_SPLITS`).

    Raise InputError for a contradiction.
    """
    segments = segments.lazy()
    table = pl.DataFrame(schema=dict.fromkeys(_OWN, pl.String)) if earlier is None else earlier
    if missing := [name for name in _OWN if name not in table.columns]:
        raise InputError(
            f"{EARLIER_SPLITS}.parquet: the column {missing[0]} is missing; "
            f"columns are {', '.join(table.columns)}"
        )
    table = table.select(pl.all().cast(pl.String)).drop_nulls(["segment_id", "split"])
    if table.is_empty() and (given is None or given.null_count() == len(given)):
        return FixedSplits(segments, pl.DataFrame(), table)
    table = table.with_columns(_hashed(pl.col("sentence")).alias("sentence"))
    known = table.unique("segment_id", keep="first", maintain_order=True)
    own = [name for name in _columns(table, segments) if name != "segment_id"]
    text = _hashed(sentences(pl.col("text"))) if len(table) else pl.lit(None, dtype=pl.UInt64)
    held = segments.select("segment_id", *own, sentence=text).collect(**STREAMED)
    rows = held.with_columns(given=pl.lit(None, dtype=pl.String) if given is None else given).join(
        known.select("segment_id", earlier="split", before="sentence"),
        on="segment_id",
        how="left",
        maintain_order="left",
    )
    both = rows.filter(
        (pl.col("given") != pl.col("earlier"))
        & ~(in_training(rows["given"]) & in_training(rows["earlier"]))
    )
    for segment_id, now, before in (
        both.sort("segment_id").head(1).select("segment_id", "given", "earlier").iter_rows()
    ):
        more = f" ({len(both):,} such segments)" if len(both) > 1 else ""
        raise InputError(
            f"splits: segment {segment_id} is given as {now}, "
            f"but is {before} in an earlier version{more}; "
            f"if no corpus has these splits, remove {EARLIER_SPLITS}.parquet from the workspace"
        )

    was_train = in_training(rows["earlier"])
    was_held_out = ~in_training(rows["earlier"])
    train, held_out = (
        table.filter(in_training(table["split"]) == is_train) for is_train in (True, False)
    )
    sentence = pl.col("sentence")
    spoken = [
        sentence.is_in(
            pl.concat([before["sentence"], rows.filter(now)["sentence"]]).unique().implode()
        )
        for before, now in ((train, was_train), (held_out, was_held_out))
    ]
    is_unchanged = pl.lit(was_train).fill_null(value=False) & sentence.eq_missing(pl.col("before"))
    shares = [
        pl.col(name).cast(pl.String).is_in(held_out[name].drop_nulls().unique().implode())
        for name in own
    ]
    fixed = pl.coalesce("given", pl.when(pl.lit(was_held_out)).then("earlier"))
    not_train = pl.coalesce(
        pl.when(pl.any_horizontal(*shares, pl.lit(value=False))).then(pl.lit("crosses_splits")),
        pl.when(spoken[1] & ~is_unchanged).then(pl.lit("held_out_sentence")),
    )
    found = rows.select(
        pl.col("earlier").cast(pl.Categorical),
        fixed=fixed.cast(pl.Categorical),
        is_given=pl.col("given").is_not_null(),
        may_hold_out=~(pl.lit(was_train).fill_null(value=False) | spoken[0].fill_null(value=False)),
        not_train=pl.when(fixed.is_null()).then(not_train).cast(pl.Categorical),
    )
    return FixedSplits(segments, found, table)


def _columns(earlier: pl.DataFrame, segments: pl.LazyFrame) -> tuple[str, ...]:
    there = segments.collect_schema()
    return tuple(name for name in earlier.columns if name not in _OWN and name in there)


def _hashed(sentence: pl.Expr) -> pl.Expr:
    """Return 64-bit hashes of folded sentences, which take less memory than texts.

    Null stays null.
    """
    return pl.when(sentence.is_not_null()).then(sentence.hash())


def _counted(values: pl.Series) -> str:
    counts = values.value_counts().sort("count", values.name, descending=[True, False])
    return ", ".join(f"{name} {number:,}" for name, number in counts.iter_rows())
