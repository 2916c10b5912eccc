"""Report of `select`: counts, losses with their causes, and warnings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import Report, count, fact_key
from nbaudio.selection.fixed_splits import FixedSplits
from nbaudio.selection.grouping import Grouping
from nbaudio.selection.leakage import GROUPS, leakage
from nbaudio.selection.look_alikes import TOGETHER, joined_notes
from nbaudio.selection.near_held_out import NEAR_HELD_OUT
from nbaudio.selection.parameters import HELD_OUT, Parameters
from nbaudio.selection.size_budget import MICROSECONDS, PCM
from nbaudio.selection.unfilled_goals import noun, unfilled_warnings
from nbaudio.storage.urls import is_url
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.row_values import with_values
from nbaudio.tables.schemas import hypothesis_names
from nbaudio.tables.segment_rules import GROUPING_RULES, LATER_RULES, without_audio
from nbaudio.tables.segment_rules import NEAR_HELD_OUT as NEAR_REASON
from nbaudio.tables.split_names import (
    in_training,
    is_held_out,
    listed_splits,
    ordered_splits,
    split_role,
)
from nbaudio.text.speaker_names import SPEAKER, look_alikes

_MUCH_REVIEWED = 0.1  # of train: warn


def select_report(  # noqa: PLR0914
    recordings: pl.DataFrame,
    chosen: pl.LazyFrame,
    left_out: pl.DataFrame,
    *,
    parameters: Parameters,
    grouping: Grouping,
    reviews: Mapping[str, set[str]],
    by_hand: pl.DataFrame,
    fixed: FixedSplits,
) -> Report:
    """Count the decisions in `chosen`, which is streamed.

    `reviews` has the ids of each review by its name.
    """
    groups = _groups(recordings, chosen, parameters, grouping.columns, fixed)
    kept = groups.filter(pl.col("split").is_not_null())
    lost = groups.filter(pl.col("reason").is_in(GROUPING_RULES))
    rejected = _reasons(groups)
    decided = by_hand["decision"].cast(pl.String).value_counts().sort("decision")
    leaks = leakage(chosen, keys=tuple(dict.fromkeys((*GROUPS, *grouping.columns))))
    own = grouping.losses[grouping.columns]
    # The segments that each review keeps out of train; a segment of several reviews counts for the
    # first.
    left = set(left_out.filter(pl.col("reason") == "reviewed")["segment_id"])
    taken = dict[str, int]()
    for name, ids in reviews.items():
        if number := len(left & ids):
            taken[name] = number
        left -= ids
    fixed_report = fixed.report(chosen, grouping.columns)
    held_out: dict[str, int] = {}  # the segments of train by the source's own held-out split
    if has_splits := "source_split" in kept.columns:
        train = kept.filter(in_training(kept["split"])).drop_nulls("source_split")
        counts = (
            train.group_by("source_split").agg(pl.sum("segments")).sort("source_split").iter_rows()
        )
        held_out = {name: number for name, number in counts if split_role(name) in HELD_OUT}
    by_split = [{"split": name, "segments": count} for name, count in held_out.items()]
    facts: dict[str, Any] = {
        "segments": _number(groups),
        "kept": _number(kept),
        "hours": _hours(kept),
        **{
            split: _counts(kept.filter(pl.col("split") == split))
            for split in listed_splits(kept["split"].unique())
        },
        "rejected": dict(sorted(rejected.items(), key=lambda row: (-row[1], row[0]))),
        **fixed_report.facts,
        **({"by_hand": dict(decided.iter_rows())} if len(by_hand) else {}),
        **(
            {"reviewed": [{"review": name, "segments": count} for name, count in taken.items()]}
            if taken
            else {}
        ),
        **({"source_held_out_in_train": by_split} if has_splits else {}),
        "leakage": {
            fact_key(check.removesuffix("_id")): shared
            for check, shared in leaks.select("check", "shared").iter_rows()
        },
        "lost_to_grouping": {
            "segments": _number(lost),
            "hours": _hours(lost),
            "share": own.share if own else 0.0,
        },
        **({"grouping_alternatives": grouping.alternatives()} if len(grouping.losses) > 1 else {}),
    }
    if budget := parameters.budget():
        size = parameters.clip_size
        basis = "upper bound, nothing measured" if size == PCM else "measured"
        facts["budget"] = {
            "limit": budget.show(budget.limit),
            "used": budget.show(int(kept["cost"].sum())),
            **(
                {"estimate": f"{size / 1000:.1f} kB/s ({basis})"}
                if parameters.disk is not None
                else {}
            ),
        }
    facts["parameters"] = _parameter_facts(parameters, grouping.columns)
    warnings = [
        *_cut_warning(groups, parameters, grouping.columns, is_fixed=fixed.is_any),
        *_data_warnings(
            groups,
            parameters=parameters,
            preview=without_audio(recordings),
            columns=grouping.columns,
        ),
        *_split_warnings(groups, parameters, taken, fixed, grouping),
        *fixed_report.warnings,
        *_segment_warnings(chosen, parameters, by_hand),
        *grouping.warnings(),
    ]
    if held_out:
        warnings.append(
            f"{sum(held_out.values()):,} of the segments that the source holds out "
            f"({_listed(held_out)}) would be trained on; "
            "--splits source, without --dev and --test, keeps the source's splits"
        )
    return Report("select", facts, warnings=warnings)


def _parameter_facts(parameters: Parameters, columns: Sequence[str]) -> dict[str, Any]:
    """Return the parameters for the report, with the columns that the splits are grouped by."""
    facts = {
        name: value
        for name, value in asdict(parameters).items()
        if name not in ("clip_size", "where", "look_alikes", "near_held_out")
    }
    if parameters.near_held_out != NEAR_HELD_OUT:
        facts["near_held_out"] = parameters.near_held_out
    if parameters.look_alikes != TOGETHER:
        facts["look_alikes"] = parameters.look_alikes
    if parameters.where:
        facts["where"] = list(parameters.where)
    facts["group_by"] = list(columns)
    if parameters.splits is not None and not is_url(parameters.splits):
        facts["splits"] = Path(parameters.splits).name  # the same from another folder
    return facts


def _groups(
    recordings: pl.DataFrame,
    chosen: pl.LazyFrame,
    parameters: Parameters,
    columns: Sequence[str],
    fixed: FixedSplits,
) -> pl.DataFrame:
    """Count segments, their duration and their cost by all that the report tells apart.

    Durations are in whole microseconds.
    """
    rates = (
        recordings.select("recording_id", "sampling_rate")
        .unique("recording_id", keep="first")
        .lazy()
    )
    told = {f"no {key}": pl.col(key).is_null() for key in columns}
    told |= {
        "is_unscored": pl.col("similarity").fill_nan(None).is_null(),
        "fixed": pl.lit(None, dtype=pl.Categorical),
    }
    own = [name for name in ("speaker_id", "source_split") if name in chosen.collect_schema()]
    timed = chosen.join(rates, on="recording_id", how="left", maintain_order="left")
    micros = (seconds_column() * MICROSECONDS).round().cast(pl.Int64, strict=False)
    timed = timed.select("split", "reason", *own, **told, micros=micros)
    timed = with_values(timed.drop("fixed"), [fixed.rows["fixed"]]) if fixed.is_any else timed
    budget = parameters.budget()
    cost = budget.cost.sum() if budget else pl.lit(0)
    groups = timed.group_by("split", "reason", *own, *told).agg(
        pl.sum("micros"), cost=cost, segments=pl.len().cast(pl.Int64)
    )
    texts = dict.fromkeys(("split", "reason", *own, "fixed"), pl.String)
    return groups.collect(**STREAMED).cast(texts)  # type: ignore[arg-type]


def _number(groups: pl.DataFrame) -> int:
    return int(groups["segments"].sum())


def _reasons(groups: pl.DataFrame) -> dict[str, int]:
    """Return how many segments of the groups are rejected for each reason."""
    return dict(groups.drop_nulls("reason").group_by("reason").agg(pl.sum("segments")).iter_rows())


def count_reasons(reasons: pl.Series) -> dict[str, int]:
    """Return how often each reason occurs."""
    return dict(reasons.drop_nulls().value_counts().cast({reasons.name: pl.String}).iter_rows())


def reasons_of(
    counts: Mapping[str, int], parameters: Parameters, taken: Mapping[str, int] | None = None
) -> str:
    """List the reasons of rejected segments, the most frequent first.

    Reasons come with their limits and the segments `taken` by each review.
    """
    limits = {
        "below_similarity": f"min_similarity {parameters.min_similarity:g}",
        "too_long": f"max_duration {parameters.max_duration:g}",
        "too_short": f"min_duration {parameters.min_duration:g}",
        "reviewed": _listed(taken or {}),
    }
    if budget := parameters.budget():
        limits["over_budget"] = budget.show(budget.limit)
    shown = {rule: f" ({limit})" for rule, limit in limits.items()}
    ordered = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{number:,} {rule}{shown.get(rule, '')}" for rule, number in ordered)


def _segment_warnings(
    chosen: pl.LazyFrame, parameters: Parameters, by_hand: pl.DataFrame
) -> Iterator[str]:
    yield from _decision_warnings(chosen, parameters, by_hand)
    yield from _look_alike_warnings(chosen)


def _look_alike_warnings(chosen: pl.LazyFrame) -> Iterator[str]:
    """Warn of speakers in different splits whose ids look alike."""
    if SPEAKER not in chosen.collect_schema():
        return
    pairs = chosen.select(pl.col(SPEAKER, "split").cast(pl.String)).drop_nulls().unique()
    splits: dict[str, set[str]] = {}
    for speaker, split in pairs.collect(**STREAMED).sort(SPEAKER, "split").iter_rows():
        splits.setdefault(speaker, set()).add(split)
    apart = [
        group
        for group in look_alikes(splits)
        if len(set[str]().union(*(splits[speaker] for speaker in group))) > 1
    ]
    if apart:
        yield (
            f"{count(len(apart), 'groups')} of speakers whose ids look alike are in several "
            f"splits, such as {' and '.join(map(repr, apart[0]))}; if they are one person, ingest "
            "again with --option speakers=FILE, which merges them"
        )


def _decision_warnings(
    chosen: pl.LazyFrame, parameters: Parameters, by_hand: pl.DataFrame
) -> Iterator[str]:
    """Warn of segments that people accepted against the rules.

    Other rules reject these segments, or they are below the threshold.
    """
    ids = by_hand.filter(pl.col("decision") == "accept")["segment_id"]
    said = chosen.filter(pl.col("segment_id").is_in(ids.implode())).select("reason", "similarity")
    accepted = said.collect(**STREAMED)
    if out := reasons_of(count_reasons(accepted["reason"]), parameters):
        yield f"segments that were accepted by hand stay out: {out}"
    least = parameters.min_similarity
    if below := accepted.filter(
        pl.col("reason").is_null() & (pl.col("similarity").fill_nan(None) < least)
    ).height:
        segments = count(below, "segments")
        yield f"in, though below min_similarity {least:g}: {segments} accepted by hand"


def _split_warnings(
    groups: pl.DataFrame,
    parameters: Parameters,
    taken: Mapping[str, int],
    fixed: FixedSplits,
    grouping: Grouping,
) -> Iterator[str]:
    """Warn of splits that are not as requested.

    They are empty, lost many segments to reviews, or have more fixed segments than requested.
    """
    yield from _train_warnings(groups, parameters, taken)
    yield from joined_notes(fixed.joined_speakers, grouping.columns)
    yield from unfilled_warnings(grouping.unfilled, grouping.remedies)
    explained = {goal.split for goal in grouping.unfilled}
    splits = ordered_splits(groups["split"].unique())
    has_train = not all(map(is_held_out, splits))
    filled = {split_role(name) for name in splits} | explained
    for split in HELD_OUT:
        if has_train and split not in filled:
            yield from _empty_warning(groups, split, parameters, taken, fixed)
        if fixed.is_any:
            yield from _fixed_warning(groups, split, parameters)
            yield from _unfilled(groups, split, parameters)


def _train_warnings(
    groups: pl.DataFrame, parameters: Parameters, taken: Mapping[str, int]
) -> Iterator[str]:
    """Warn of a train split that is empty, or that lost many segments to reviews."""
    sizes: dict[str | None, int] = dict(
        groups.group_by("split").agg(pl.sum("segments")).iter_rows()
    )
    splits = ordered_splits(sizes)
    held_out = "".join(f", {sizes[split]:,} in {split}" for split in splits if is_held_out(split))
    train = sum(sizes[split] for split in splits if not is_held_out(split))
    reviewed = sum(taken.values())
    if len(groups) and not train:
        what = "train is empty" if held_out else "nothing is kept"
        out = reasons_of(_reasons(groups), parameters, taken)
        yield f"{what}; of {_number(groups):,} segments: {out or 'none is out'}{held_out}"
    elif reviewed >= _MUCH_REVIEWED * (train + reviewed):
        yield (
            f"{reviewed:,} of {train + reviewed:,} segments for train were given to reviewers "
            f"and stay out (by round: {_listed(taken)})"
        )
    yield from _near_warning(groups, train)


def _near_warning(groups: pl.DataFrame, train: int) -> Iterator[str]:
    """Warn where more than half of train is left out, as its sentences are near held-out ones."""
    near = _number(groups.filter(pl.col("reason") == NEAR_REASON))
    over_budget = _number(groups.filter(pl.col("reason") == "over_budget"))
    whole = near + over_budget + train
    if 2 * near > whole:
        yield (
            f"{near:,} of {whole:,} segments for train are left out, as their sentences are "
            "nearly those of dev or test (near_held_out); --near-held-out 1 keeps them"
        )


def _empty_warning(
    groups: pl.DataFrame,
    split: str,
    parameters: Parameters,
    taken: Mapping[str, int],
    fixed: FixedSplits,
) -> Iterator[str]:
    """Say why a split is empty, unless no segments were requested for it."""
    target = parameters.target(split, default=1)
    if not target.amount:
        return
    if getattr(parameters, split) is not None:
        why = f"{target} hold none"
    elif fixed.is_any:
        why = "nothing is left for it beside the segments whose split is fixed"
    else:
        is_fit = pl.col("reason").is_null() | pl.col("reason").is_in(LATER_RULES)
        fit = _number(groups.filter(is_fit))
        why = f"5 % of the {fit:,} segments that pass the filters is less than one"
    reasons = reasons_of(_reasons(groups), parameters, taken)
    out = f" (out: {reasons})" if reasons else ""
    yield f"{split} is empty: {why}{out}; set a size, such as --{split} 10"


def _fixed_warning(groups: pl.DataFrame, split: str, parameters: Parameters) -> Iterator[str]:
    """Warn of a split that has more fixed segments than were requested."""
    kept = groups.filter(pl.col("fixed") == pl.col("split"))
    names = [name for name in kept["split"].unique() if split_role(name) == split]
    own = kept.filter(pl.col("split").is_in(names))
    target = parameters.target(split, default=_number(own))
    have = target._replace(
        amount=_number(own) if target.unit == "segments" else int(own["micros"].sum())
    )
    if have.amount > target.amount:
        yield f"{split}: {target} requested, but {have} are fixed, and stay"


def _cut_warning(
    groups: pl.DataFrame, parameters: Parameters, columns: Sequence[str], *, is_fixed: bool
) -> Iterator[str]:
    """Say what exact sizes of dev and test lose, unless a budget is filled all the same.

    Segments that cross splits are counted where nothing else than these sizes makes splits.
    """
    sizes = [f"--{split}" for split in ("dev", "test") if getattr(parameters, split) is not None]
    is_exact = len(sizes) == len(HELD_OUT) and not is_fixed
    rules = ("crosses_splits", "beyond_split_size") if is_exact else ("beyond_split_size",)
    counts = _reasons(groups)
    reasons = {rule: counts[rule] for rule in rules if rule in counts}
    lost = sum(reasons.values())
    if not sizes or not columns or not lost or (groups["reason"] == "over_budget").any():
        return
    named = _listed(reasons) if len(reasons) > 1 else next(iter(reasons))
    kept = _number(groups.filter(pl.col("split").is_not_null()))
    names = [noun(column) for column in columns]
    whole = f"without {' and '.join(sizes)}, {' and '.join(names)} are held out whole; "
    yield (
        f"{lost:,} of {kept + lost:,} segments are lost to exact sizes ({named}): their "
        f"{' or '.join(names)} are in dev or test, which are full; "
        f"{'' if is_fixed else whole}larger sizes may lose less"
    )


def _unfilled(groups: pl.DataFrame, split: str, parameters: Parameters) -> Iterator[str]:
    """Warn of a split that has less than was requested, as fixed splits leave no more for it."""
    target = parameters.target(split, default=0)
    names = [name for name in groups["split"].unique().drop_nulls() if split_role(name) == split]
    filled = groups.filter(pl.col("split").is_in(names))
    have = target._replace(
        amount=_number(filled) if target.unit == "segments" else int(filled["micros"].sum())
    )
    # Hours are met within the duration of the longest segment.
    tolerance = 0 if target.unit == "segments" else int(parameters.max_duration * MICROSECONDS)
    if have.amount + tolerance < target.amount:
        yield (
            f"{split}: {target} requested, but {have} can be filled beside the segments whose "
            "split is fixed"
        )


def _data_warnings(
    groups: pl.DataFrame, *, parameters: Parameters, preview: bool, columns: tuple[str, ...]
) -> Iterator[str]:
    """Warn of missing audio, similarities and keys, and of a budget that is not reached."""
    after_filters = groups.filter(pl.col("reason").is_null() | pl.col("reason").is_in(LATER_RULES))
    kept = after_filters.filter(pl.col("reason").is_null())
    if preview:
        yield (
            "no audio yet: a preview by the source's times; windows past the end of a "
            "recording are not detected"
        )
    if unscored := _number(after_filters.filter("is_unscored")):
        yield f"{count(unscored, 'segments', 'have')} no similarity and passed that filter"
    for key in columns:
        missing = _number(after_filters.filter(f"no {key}"))
        if missing and missing == _number(after_filters):
            yield f"{key} is empty: nothing is grouped by it"
        elif missing:
            yield f"{count(missing, 'segments', 'have')} no {key}: nothing groups by it there"
    if parameters.budget() and not (groups["reason"] == "over_budget").any() and len(kept):
        yield "the budget is not reached: everything that passed is kept"


def first_warnings(segments: pl.LazyFrame, notes: Sequence[str]) -> list[str]:
    """Return what the warnings of a report begin with: a filter without effect, and `notes`."""
    return [*_unfiltered_warnings(segments), *notes]


def _unfiltered_warnings(segments: pl.LazyFrame) -> Iterator[str]:
    """Say that nothing was filtered by similarity, and why, where no segment has one."""
    hypotheses = hypothesis_names(segments.collect_schema())
    filled = {column: pl.col(column).count() for column in ("text", *hypotheses.values())}
    scored = pl.col("similarity").fill_nan(None).count()
    counts = segments.select(**filled, scored=scored, all=pl.len()).collect(**STREAMED)
    if counts["scored"].item() or not counts["all"].item():
        return
    usable = [name for name, column in hypotheses.items() if counts[column].item()]
    if not usable:
        reason = "no segment has a hypothesis"
    elif not counts["text"].item():
        reason = "no segment has a transcript"
    elif "asr" in usable:
        reason = "no segment has a score; run 'nbaudio score' first"
    else:
        reason = (
            "no segment has asr_text; score another hypothesis and filter by it, such as "
            f"--where 'similarity_{usable[0]} >= 0.8'"
        )
    yield f"nothing was filtered by similarity: {reason}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items()) or "none"


def _hours(groups: pl.DataFrame) -> float:
    return round(int(groups["micros"].sum()) / (3600 * MICROSECONDS), 4)


def _counts(part: pl.DataFrame) -> dict[str, Any]:
    return {
        "segments": _number(part),
        "hours": _hours(part),
        "speakers": part["speaker_id"].drop_nulls().n_unique(),
    }
