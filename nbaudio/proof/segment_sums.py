"""Sums over the segments of a workspace, from which bounds are computed.

Segments of one kind, which all bounds treat alike, are one row with their number, hours and words.
Segments that were judged or drawn, and those of frames that were removed, have a row each.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import numpy as np
import polars as pl
from polars import selectors as cs

from nbaudio.core.threads import in_threads
from nbaudio.review.fixed_rules import FixedRule, has_selected_duration
from nbaudio.review.population import SECONDS, WORDS, Bools, Population
from nbaudio.review.sampling import Strata
from nbaudio.review.state import CONTENT_COLUMNS, frame_contents
from nbaudio.tables import workspace_tables
from nbaudio.tables.buckets import Buckets, bucket_count, store, write_buckets
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.parquet_files import reading_parquet
from nbaudio.tables.rows import with_starts
from nbaudio.tables.schemas import columns_or_nulls
from nbaudio.tables.workspace import Workspace

TICKS = 705_600_000
"""Ticks in a second. The usual sampling rates divide it: durations are whole numbers of ticks."""

_FLAGS = ("is_there", "accepted", "without", "left_out", "reviewable", "has_duration")
_FACTS = pl.Schema(
    {"key": pl.UInt64, "split": pl.String, "similarity": pl.Float64, "content": pl.UInt64}
    | dict.fromkeys(_FLAGS, pl.Boolean)
    | {"next_stratum": pl.Int32}
    | dict.fromkeys(("ticks", "words"), pl.Int64)
)
_FRAME = pl.Schema(
    {"key": pl.UInt64, "stratum": pl.Int32, "content": pl.UInt64}
    | {"similarity": pl.Float64, "has_duration": pl.Boolean, "group": pl.UInt64}
)
_RULE = pl.Schema(
    {"key": pl.UInt64, "first_draw": pl.Int32, "split": pl.String}
    | {"seconds": pl.Float64, "words": pl.Int64}
)
_BATCHES_OF_CONTENTS = 64  # of 16,384 segments, 8 bytes each
_contents_of_batches = OrderedDict[bytes, pl.Series]()
_CUT = "cut_"  # with the number of kinds: the column with their `cut`
_ROWS_AS_LARGE = 16  # Rows of numbers that take about as much memory as a row with texts.
_SUMS = ("segments", "ticks", "words", "segments_counted", "ticks_counted", "words_counted")
_LARGEST = ("segments_largest", "ticks_largest", "words_largest")
_KIND = pl.exclude(*_SUMS, *_LARGEST)  # the columns that are equal for all segments of a kind
_KEY = pl.col("segment_id").hash().alias("key")


@dataclass(frozen=True)
class Kinds:
    """What sums tell apart, beside what every claim needs."""

    column: str = "similarity"  # a column of numbers
    sign: int = 1  # -1: thresholds are on the negated numbers
    cuts: Sequence[float] | None = None  # thresholds on it, ascending; None: `ProofState.cuts`
    without: Sequence[str] = ()  # ids of segments that do not ship
    by_risk: bool = False  # tell apart the strata of a next round by risk
    by: str = ""  # tell apart the groups of this column that rounds have fixed; empty for none


@dataclass(frozen=True)
class RoundFrame:
    """What a round could draw: its sampling frame, which is stored as a table."""

    table: str  # the name of the table in the workspace
    strata: pl.DataFrame  # `stratum`, `weight`, `rate` and `size`, in order of their names
    place: int  # the place of its draw in the order of all draws
    later: pl.Series  # segments that were added or changed after the draw
    by: str = ""  # the column whose groups the table has; empty for none


def read_sums(
    population: Population,
    several_kinds: Sequence[Kinds],
    *,
    strata: Strata | None,
    frames: Sequence[RoundFrame],
    rules: Sequence[FixedRule],
    alone: pl.Series,
) -> list[pl.DataFrame]:
    """Read the segments in sums; those that were removed come last.

    Args:
        population: the segments.
        several_kinds: what else is told apart, in one table of sums for each. All have `cuts`, and
            the same `without` and `by`. Segments are read once for all.
        strata: what the next round would draw from; None if that is not told apart.
        frames: what rounds could draw.
        rules: the rules that rounds have fixed.
        alone: ids of segments that get a row each; frames have the tombstones of withdrawn ones.

    Returns:
        Columns that tell kinds apart:

        - `key`: the hash of the id where the row is one segment;
        - `is_there` (not removed), `accepted`, `without` (it does not ship), `left_out` (as
          `Population.left_out`), `reviewable`, `has_duration` (one that `select` takes), `split`;
        - `cut`: how many thresholds keep it, -1 without a number, 0 if it was removed;
          `next_stratum`, -1 for none;
        - `stratum_frame_K` (null: not in it) and `valid_frame_K` (it is as it was drawn);
        - `fixed_draw`, `fixed_cut`, `fixed_has_duration`: the place of the first draw that could
          take it, and how many thresholds kept it and its duration then;
        - `group`, the hash of the group of `Kinds.by` in the first frame that has it, else null;
        - `first_draw_rule_R` (the first draw that counts), `split_rule_R`, and of removed segments
          `seconds_rule_R` and `words_rule_R`, of rule number R.

        Then `segments`, `ticks` and `words` in all; of each of these, how many segments have more
        than 0 (`words_counted`), and the largest value of one (`words_largest`).
    """
    num_buckets = _count_buckets(len(population), tables=1 + len(frames) + len(rules))
    population.release()  # its arrays, which the joined rows need the memory of
    with TemporaryDirectory(prefix="nbaudio-") as path:
        folder = Path(path)
        parts = _read_facts(population, several_kinds, strata, with_contents=bool(frames))
        facts = store(parts, folder / "facts", _facts_schema(num_kinds=len(several_kinds)))
        segments = _divide(facts, num_buckets, folder)
        frame_by_suffix = {f"_frame_{number}": frame for number, frame in enumerate(frames)}
        frame_buckets = {
            suffix: _divide_frame(population.state.workspace, frame, num_buckets, folder)
            for suffix, frame in frame_by_suffix.items()
        }
        rule_buckets = {
            f"_rule_{rule.number}": _divide_rule(
                population.state.workspace, rule, num_buckets, folder
            )
            for rule in rules
        }
        sums: list[list[pl.DataFrame]] = [[] for _ in several_kinds]
        for bucket in range(num_buckets):
            joined = _joined(segments, frame_buckets, rule_buckets, bucket)
            rows = _summed_columns(joined, frame_by_suffix, alone.hash(), several_kinds[0].by)
            for number, kinds in enumerate(several_kinds):
                sums[number].append(_sum(_with_cuts(rows, number, kinds)))
    return [_sum(pl.concat(of_kinds)).sort(~pl.col("is_there"), _KIND) for of_kinds in sums]


def read_segment_rows(
    workspace: Workspace, segments: pl.DataFrame, frames: Sequence[RoundFrame], ids: pl.Series
) -> pl.DataFrame:
    """Return a row for each of some segments that are there or in a frame.

    Args:
        workspace: the workspace.
        segments: rows of `Population.read`, which are those with `ids` and maybe others.
        frames: what rounds could draw.
        ids: ids of the segments; frames have the tombstones of withdrawn ones.

    Returns:
        `key`, `is_there`, and of each frame `stratum_frame_K` and `valid_frame_K`, as `read_sums`
        has them.
    """
    segments = segments.filter(pl.col("segment_id").is_in(ids.implode()))
    rows = segments.select(_KEY, is_there=pl.lit(value=True), content=frame_contents(segments))
    is_valid = []
    for number, frame in enumerate(frames):
        suffix = f"_frame_{number}"
        in_frame = _frame_rows(workspace, frame, ids).collect(**STREAMED)
        in_frame = in_frame.select("key", pl.col("stratum", "content").name.suffix(suffix))
        rows = rows.join(in_frame, on="key", how="full", coalesce=True)
        is_valid.append(_is_valid(suffix, frame))
    is_there = pl.col("is_there").fill_null(value=False)
    return rows.select("key", is_there, cs.starts_with("stratum_frame_"), *is_valid).sort("key")


def _count_buckets(num_segments: int, *, tables: int) -> int:
    """Return the number of buckets for so many segments, whose rows of all tables are joined."""
    return bucket_count(num_segments * tables // _ROWS_AS_LARGE)


def _divide(rows: pl.LazyFrame, count: int, folder: Path) -> Buckets:
    """Divide rows by their key, in a new folder within `folder`."""
    buckets = Path(mkdtemp(dir=folder)) / "buckets"
    return write_buckets(rows, pl.col("key") % count, count=count, folder=buckets)


def _divide_frame(workspace: Workspace, frame: RoundFrame, count: int, folder: Path) -> Buckets:
    """Divide the rows of a frame; raise InputError where its table is not usable."""
    path = workspace_tables.table_path(workspace, frame.table)
    with reading_parquet(path, checked=True):
        return _divide(_frame_rows(workspace, frame), count, folder)


def _divide_rule(workspace: Workspace, rule: FixedRule, count: int, folder: Path) -> Buckets:
    """Divide the rows of a rule; raise InputError where its table is not usable."""
    path = workspace_tables.table_path(workspace, rule.table)
    with reading_parquet(path, checked=True):
        rows = workspace_tables.scan(workspace, table=rule.table).with_columns(_KEY)
        return _divide(rows.select(_RULE.names()).cast(_RULE), count, folder)


def _facts_schema(*, num_kinds: int) -> pl.Schema:
    """Return the schema of what `_read_facts` yields for so many kinds."""
    cuts = {_cut_name(number): pl.Int32() for number in range(num_kinds)}
    return pl.Schema({**_FACTS, **cuts})


def _read_facts(
    population: Population,
    several_kinds: Sequence[Kinds],
    strata: Strata | None,
    *,
    with_contents: bool,
) -> Iterator[pl.DataFrame]:
    """Yield what is needed of each segment that is there, batch by batch, in order.

    Contents are null without `with_contents`: they are compared with those of frames, and to hash
    them takes most of the time.
    """
    context = _FactsContext(
        kinds=several_kinds,
        reviewable=population.reviewable,
        left_out=population.left_out["segment_id"].implode(),
        strata=strata,
        has_duration=has_selected_duration(population.state),
        with_contents=with_contents,
    )
    columns = (
        "text",
        "split",
        "decision",
        "similarity",
        *(kinds.column for kinds in several_kinds),
    )
    return in_threads(context.facts_of_batch, with_starts(population.batches(columns)))


@dataclass(frozen=True)
class _FactsContext:
    """What the rows of `_read_facts` depend on beside the segments; see `read_sums`."""

    kinds: Sequence[Kinds]
    reviewable: Bools
    left_out: pl.Series
    strata: Strata | None
    has_duration: pl.Expr
    with_contents: bool

    def facts_of_batch(self, numbered: tuple[int, pl.DataFrame]) -> pl.DataFrame:
        """Return the facts of a batch of segments, which comes with the number of its first."""
        start, batch = numbered
        places = slice(start, start + len(batch))
        without = pl.Series(self.kinds[0].without, dtype=pl.String).implode()
        ticks = pl.when(SECONDS.is_finite()).then((SECONDS * TICKS).round())
        stratum = pl.lit(-1) if self.strata is None else pl.Series(self.strata.number[places])
        content = _contents(batch) if self.with_contents else None
        return batch.select(
            _KEY,
            is_there=pl.lit(value=True),
            accepted=pl.col("decision").eq_missing("accept"),
            without=pl.col("segment_id").is_in(without),
            left_out=pl.col("segment_id").is_in(self.left_out),
            reviewable=pl.Series(self.reviewable[places]),
            has_duration=self.has_duration,
            split="split",
            next_stratum=stratum,
            similarity="similarity",
            ticks=ticks.cast(pl.Int64, strict=False).fill_null(0),
            words=WORDS,
            content=content,
            **{_cut_name(number): _cut(batch, kinds) for number, kinds in enumerate(self.kinds)},
        )


def _contents(batch: pl.DataFrame) -> pl.Series:
    """Return `frame_contents` of a batch, which the views of a notebook compute once.

    Those of the latest `_BATCHES_OF_CONTENTS` batches are in memory, by a hash of the columns that
    contents depend on.
    """
    key = hashlib.blake2b(batch.select(CONTENT_COLUMNS).hash_rows().to_numpy().tobytes()).digest()
    contents = _contents_of_batches.get(key)
    if contents is None:
        contents = frame_contents(batch)
        _contents_of_batches[key] = contents
        if len(_contents_of_batches) > _BATCHES_OF_CONTENTS:
            _contents_of_batches.popitem(last=False)  # one call, as several threads are here
    return contents


def _cut_name(number: int) -> str:
    """Return the column with `cut` of the kinds with a number."""
    return f"{_CUT}{number}"


def _cut(batch: pl.DataFrame, kinds: Kinds) -> pl.Series:
    """Return how many thresholds keep each segment, -1 without a number."""
    values = batch.select(kinds.sign * number_column(kinds.column)).to_series()
    cut = np.searchsorted(np.array(kinds.cuts), values.fill_null(np.nan).to_numpy(), side="right")
    return pl.Series(cut).set(values.is_null(), -1)


def number_column(name: str) -> pl.Expr:
    """Return a column, or `duration_s`, as numbers, null for NaN."""
    if name == "duration_s":
        return SECONDS.fill_nan(None)
    return pl.col(name).cast(pl.Float64).fill_nan(None)


def _frame_rows(
    workspace: Workspace, frame: RoundFrame, ids: pl.Series | None = None
) -> pl.LazyFrame:
    """Return the rows of a frame, or those of segments with `ids`, with the columns `_FRAME`.

    Columns that frames of earlier versions lack are null.
    """
    rows = workspace_tables.scan(workspace, ("segment_id", *_FRAME), table=frame.table)
    if ids is not None:
        rows = rows.filter(pl.col("segment_id").is_in(ids.implode()))
    strata = frame.strata["stratum"]
    number = pl.col("stratum").replace_strict(strata, range(len(strata)), return_dtype=pl.Int32)
    rows = rows.with_columns(_KEY, number)
    return rows.select(columns_or_nulls(_FRAME, rows.collect_schema()))


def _joined(
    segments: Buckets,
    frame_buckets: Mapping[str, Buckets],
    rule_buckets: Mapping[str, Buckets],
    bucket: int,
) -> pl.DataFrame:
    """Join a bucket of the segments with those of frames and of rules, by suffix of their columns.

    Of frames all rows are taken, of rules those of segments that are there or in a frame.
    """
    rows = segments.read(bucket)
    for suffix, buckets in frame_buckets.items():
        side = _read_with_suffix(buckets, bucket, suffix)
        rows = rows.join(side, on="key", how="full", coalesce=True)
    for suffix, buckets in rule_buckets.items():
        rows = rows.join(_read_with_suffix(buckets, bucket, suffix), on="key", how="left")
    return rows.with_columns(pl.col("is_there").fill_null(value=False))


def _read_with_suffix(buckets: Buckets, bucket: int, suffix: str) -> pl.DataFrame:
    """Read a bucket, with a suffix at its columns but the key."""
    return buckets.read(bucket).select("key", pl.exclude("key").name.suffix(suffix))


def _summed_columns(
    joined: pl.DataFrame, frames: Mapping[str, RoundFrame], alone: pl.Series, by: str
) -> pl.DataFrame:
    """Return the columns of `read_sums` for each segment; `by` is the column of groups.

    `cut` and `fixed_cut` are null. `_with_cuts` fills them in, from the last columns here.
    """
    rows = joined.with_columns(fixed=_fixed(frames)).unnest("fixed")
    is_alone = pl.col("key").is_in(alone.implode()) | ~pl.col("is_there")
    of_removed = cs.expand_selector(rows, cs.starts_with("seconds_rule_", "words_rule_"))
    amounts = [pl.lit(1, pl.Int64).alias("segments"), pl.col("ticks", "words").fill_null(0)]
    return rows.select(
        pl.when(is_alone).then("key").alias("key"),
        pl.col(_FLAGS).fill_null(value=False),
        "split",
        pl.lit(None, pl.Int32).alias("cut"),
        pl.col("next_stratum").fill_null(-1),
        cs.starts_with("stratum_frame_", "first_draw_rule_", "split_rule_"),
        *(_is_valid(suffix, frame) for suffix, frame in frames.items()),
        "fixed_draw",
        "fixed_has_duration",
        pl.lit(None, pl.Int64).alias("fixed_cut"),
        _group(by, frames).alias("group"),
        *(pl.when(~pl.col("is_there")).then(name).alias(name) for name in of_removed),
        *amounts,
        *((amount > 0).cast(pl.Int64).name.suffix("_counted") for amount in amounts),
        *(amount.name.suffix("_largest") for amount in amounts),
        cs.starts_with(_CUT),
        "fixed_similarity",
    )


def _group(by: str, frames: Mapping[str, RoundFrame]) -> pl.Expr:
    """Return the group of each segment in the first frame that stores groups of the column."""
    with_groups = [suffix for suffix, frame in frames.items() if by and frame.by == by]
    if not with_groups:
        return pl.lit(None, pl.UInt64)
    return pl.coalesce(
        f"group{suffix}" for suffix in sorted(with_groups, key=lambda name: frames[name].place)
    )


def _with_cuts(rows: pl.DataFrame, number: int, kinds: Kinds) -> pl.DataFrame:
    """Return `_summed_columns` with the cuts of the kinds with a number, and of no others."""
    similarity = rows["fixed_similarity"].fill_null(np.nan).to_numpy()
    fixed_cut = pl.Series(np.searchsorted(np.array(kinds.cuts), similarity, side="right"))
    with_cuts = rows.with_columns(cut=pl.col(_cut_name(number)).fill_null(0), fixed_cut=fixed_cut)
    return with_cuts.drop(cs.starts_with(_CUT), "fixed_similarity")


def _is_valid(suffix: str, frame: RoundFrame) -> pl.Expr:
    """Return whether each segment is as a frame has it."""
    is_later = pl.col("key").is_in(frame.later.hash().implode())
    is_same = (pl.col("content") == pl.col(f"content{suffix}")).fill_null(value=False)
    return (is_same & ~is_later).alias(f"valid{suffix}")


def _fixed(frames: Mapping[str, RoundFrame]) -> pl.Expr:
    """Return the similarity and duration that each segment had in the first frame that has it.

    Frames of earlier versions have none: for them it is what the segment has now.
    """
    fixed = pl.struct(
        fixed_draw=pl.lit(None, pl.Int32),
        fixed_similarity=pl.lit(None, pl.Float64),
        fixed_has_duration=pl.lit(value=True),
    )
    # The last frame comes first, so that an earlier one that has the segment replaces its values.
    for suffix, frame in sorted(frames.items(), key=lambda item: item[1].place, reverse=True):
        had_duration = pl.col(f"has_duration{suffix}")
        is_earlier = had_duration.is_null()
        similarity = pl.when(is_earlier).then("similarity").otherwise(f"similarity{suffix}")
        in_frame = pl.struct(
            fixed_draw=pl.lit(frame.place, pl.Int32),
            fixed_similarity=similarity,
            fixed_has_duration=pl.coalesce(had_duration, "has_duration", pl.lit(value=True)),
        )
        fixed = pl.when(pl.col(f"stratum{suffix}").is_not_null()).then(in_frame).otherwise(fixed)
    return fixed


def _sum(rows: pl.DataFrame) -> pl.DataFrame:
    """Sum the rows of each kind."""
    return rows.group_by(_KIND).agg(pl.col(_SUMS).sum(), pl.col(_LARGEST).max())
