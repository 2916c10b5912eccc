"""Report of `select`: counts, losses with their causes, and warnings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import Report, fact_key
from nbaudio.core.source_splits import in_training, is_held_out, listed_splits, ordered_splits, split_role
from nbaudio.core.tables import GROUPING_RULES, LATER_RULES, seconds_column, without_audio
from nbaudio.selection.fixed_splits import FixedSplits
from nbaudio.selection.grouping import Grouping
from nbaudio.selection.leakage import GROUPS, leakage
from nbaudio.selection.parameters import HELD_OUT, Parameters
from nbaudio.selection.size_budget import MICROSECONDS, PCM
from nbaudio.storage.urls import is_url

_MUCH_REVIEWED = 0.1  # of train: warn


def select_report(
    where: Path,
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
    """Count the decisions in `chosen`, which is streamed; `reviews` has the ids of each review by its name."""
    timed = _timed(recordings, chosen, grouping.columns)
    kept = timed.filter(pl.col("split").is_not_null())
    lost = timed.filter(pl.col("reason").is_in(GROUPING_RULES))
    rejected = timed["reason"].cast(pl.String).drop_nulls().value_counts().sort("count", "reason", descending=[True, False])
    decided = by_hand["decision"].cast(pl.String).value_counts().sort("decision")
    leaks = leakage(chosen, keys=tuple(dict.fromkeys((*GROUPS, *grouping.columns))))
    own = grouping.losses[grouping.columns]
    taken = _taken_by(left_out, reviews)
    fixed_facts, fixed_warnings = fixed.report(chosen, grouping.columns)
    held_out = _held_out_in_train(kept)
    by_split = [{"split": name, "segments": count} for name, count in (held_out or {}).items()]
    facts: dict[str, Any] = {
        "segments": len(timed),
        "kept": len(kept),
        "hours": _hours(kept),
        **{split: _counts(kept.filter(pl.col("split") == split)) for split in listed_splits(kept["split"].unique())},
        "rejected": dict(rejected.iter_rows()),
        **fixed_facts,
        **({"by_hand": dict(decided.iter_rows())} if len(by_hand) else {}),
        **({"reviewed": [{"review": name, "segments": count} for name, count in taken.items()]} if taken else {}),
        **({} if held_out is None else {"source_held_out_in_train": by_split}),
        "leakage": {fact_key(check.removesuffix("_id")): shared for check, shared in leaks.select("check", "shared").iter_rows()},
        "lost_to_grouping": {"segments": len(lost), "hours": _hours(lost), "share": own.share if own else 0.0},
        **({"grouping_alternatives": grouping.alternatives()} if len(grouping.losses) > 1 else {}),
    }
    if budget := parameters.budget():
        size = parameters.clip_size
        basis = "upper bound, nothing measured" if size == PCM else "measured"
        facts["budget"] = {
            "limit": budget.show(budget.limit),
            "used": budget.show(budget.total(kept)),
            **({"estimate": f"{size.per_second / 1000:.1f} kB/s ({basis})"} if parameters.disk is not None else {}),
        }
    facts["parameters"] = {name: value for name, value in asdict(parameters).items() if name not in ("clip_size", "where")}
    facts["parameters"] |= {"where": list(parameters.where)} if parameters.where else {}
    facts["parameters"]["group_by"] = list(grouping.columns)
    if parameters.splits is not None and not is_url(parameters.splits):
        facts["parameters"]["splits"] = Path(parameters.splits).name  # the same from another folder
    warnings = [
        *_data_warnings(timed, parameters=parameters, preview=without_audio(recordings), columns=grouping.columns),
        *_split_warnings(timed, parameters, taken, fixed),
        *_size_warnings(timed.with_columns(fixed.rows["fixed"]).filter(pl.col("fixed") == pl.col("split")), parameters),
        *fixed_warnings,
        *_decision_warnings(chosen, parameters, by_hand),
        *grouping.warnings(lambda columns: f"'{parameters.command(where, group_by=tuple(columns))}'"),
    ]
    if held_out:
        warnings.append(
            f"{sum(held_out.values()):,} segments that the source holds out ({_listed(held_out)}) would be trained on; "
            f"'{parameters.command(where, splits='source', dev=None, test=None)}' keeps the source's splits"
        )
    return Report("select", facts, warnings=warnings)


def _timed(recordings: pl.DataFrame, chosen: pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Return what is counted of each segment."""
    rates = recordings.select("recording_id", "sampling_rate").lazy()
    held = [name for name in ("source_split",) if name in chosen.collect_schema()]
    timed = chosen.join(rates, on="recording_id", how="left", maintain_order="left").select(
        *("split", "reason", seconds_column()),
        *(pl.col(name).cast(pl.String).cast(pl.Categorical) for name in ("speaker_id", *held)),
        *(pl.col(key).is_null().alias(f"no {key}") for key in columns),
        is_unscored=pl.col("similarity").fill_nan(None).is_null(),
    )
    return timed.with_columns(micros=(pl.col("duration_s") * MICROSECONDS).round()).collect(engine="streaming")


def reasons_of(reasons: pl.Series, parameters: Parameters, taken: Mapping[str, int] | None = None) -> str:
    """Count the reasons of rejected segments, the most frequent first, with limits and the segments `taken` by each review."""
    limits = {
        "below_similarity": f"min_similarity {parameters.min_similarity:g}",
        "too_long": f"max_duration {parameters.max_duration:g}",
        "too_short": f"min_duration {parameters.min_duration:g}",
        "reviewed": _listed(taken or {}),
    }
    if budget := parameters.budget():
        limits["over_budget"] = budget.show(budget.limit)
    shown = {rule: f" ({limit})" for rule, limit in limits.items()}
    counts = reasons.cast(pl.String).drop_nulls().value_counts().sort("count", reasons.name, descending=[True, False])
    return ", ".join(f"{number:,} {rule}{shown.get(rule, '')}" for rule, number in counts.iter_rows())


def _decision_warnings(chosen: pl.LazyFrame, parameters: Parameters, by_hand: pl.DataFrame) -> Iterator[str]:
    """Warn of segments that people accepted but other rules reject, or that are below the threshold."""
    ids = by_hand.filter(pl.col("decision") == "accept")["segment_id"]
    said = chosen.filter(pl.col("segment_id").is_in(ids.implode())).select("reason", "similarity")
    accepted = said.collect(engine="streaming")
    if out := reasons_of(accepted["reason"], parameters):
        yield f"segments that were accepted by hand stay out: {out}"
    least = parameters.min_similarity
    if below := accepted.filter(pl.col("reason").is_null() & (pl.col("similarity").fill_nan(None) < least)).height:
        held = f"{below:,} segments below min_similarity {least:g} are in, accepted by hand"
        yield f"{held}: evidence covers those at or above it"


def _taken_by(left_out: pl.DataFrame, reviews: Mapping[str, set[str]]) -> dict[str, int]:
    """Count the segments that each review keeps out of train; a segment of several reviews counts for the first."""
    left = set(left_out.filter(pl.col("reason") == "reviewed")["segment_id"])
    taken = {}
    for name, ids in reviews.items():
        if number := len(left & ids):
            taken[name] = number
        left -= ids
    return taken


def _held_out_in_train(kept: pl.DataFrame) -> dict[str, int] | None:
    """Count the segments of train by the source's own held-out split; None if the source has no splits."""
    if "source_split" not in kept.columns:
        return None
    train = kept["source_split"].cast(pl.String).filter(in_training(kept["split"])).drop_nulls()
    counts = train.value_counts().sort("source_split").iter_rows()
    return {name: number for name, number in counts if split_role(name) in HELD_OUT}


def _split_warnings(chosen: pl.DataFrame, parameters: Parameters, taken: Mapping[str, int], fixed: FixedSplits) -> Iterator[str]:
    """Warn of splits that are empty though they were requested, or from which reviews removed many segments, with the causes."""
    sizes: dict[str | None, int] = dict(chosen["split"].cast(pl.String).value_counts().iter_rows())
    splits = ordered_splits(sizes)
    out = reasons_of(chosen["reason"], parameters, taken)
    held = "".join(f", {sizes[split]:,} in {split}" for split in splits if is_held_out(split))
    train, reviewed = sum(sizes[split] for split in splits if not is_held_out(split)), sum(taken.values())
    if len(chosen) and not train:
        what = "train is empty" if held else "nothing is kept"
        yield f"{what}; of {len(chosen):,} segments: {out or 'none is out'}{held}"
    elif reviewed >= _MUCH_REVIEWED * (train + reviewed):
        yield f"{reviewed:,} of {train + reviewed:,} segments for train were given to reviewers and stay out ({_listed(taken)})"
    fit = len(chosen.filter(pl.col("reason").is_null() | pl.col("reason").is_in(LATER_RULES)))
    for split in HELD_OUT:
        target = parameters.target(split, default=1)
        if train and split not in {split_role(name) for name in splits} and target.amount:
            by_default = getattr(parameters, split) is None
            why = f"5 % of the {fit:,} segments that pass the filters is less than one" if by_default else f"{target} hold none"
            if by_default and fixed.is_any:
                why = "nothing is left for it beside the segments whose split is fixed"
            yield f"{split} is empty: {why}{f' (out: {out})' if out else ''}; set a size, such as --{split} 10"


def _size_warnings(kept: pl.DataFrame, parameters: Parameters) -> Iterator[str]:
    """Warn of splits of which more is `kept` because it is fixed than was requested."""
    for name in HELD_OUT:
        own = kept.filter(pl.col("split").is_in([split for split in kept["split"].unique() if split_role(split) == name]))
        target = parameters.target(name, default=len(own))
        have = target._replace(amount=len(own) if target.unit == "segments" else int(own["micros"].sum()))
        if have.amount > target.amount:
            yield f"{name}: {target} requested, but {have} are fixed, and stay"


def _data_warnings(timed: pl.DataFrame, *, parameters: Parameters, preview: bool, columns: tuple[str, ...]) -> Iterator[str]:
    """Warn of missing audio, similarities and keys, and of a budget that is not reached."""
    after_filters = timed.filter(pl.col("reason").is_null() | pl.col("reason").is_in(LATER_RULES))
    kept = after_filters.filter(pl.col("reason").is_null())
    if preview:
        yield "no audio yet: a preview by the source's times; windows past the end of a recording are not detected"
    if unscored := int(after_filters["is_unscored"].sum()):
        yield f"{unscored:,} segments have no similarity and passed that filter"
    for key in columns:
        missing = int(after_filters[f"no {key}"].sum())
        if missing and missing == len(after_filters):
            yield f"{key} is empty: nothing is grouped by it"
        elif missing:
            yield f"{missing:,} segments have no {key} and are not grouped by it"
    if parameters.budget() and not (timed["reason"] == "over_budget").any() and len(kept):
        yield "the budget is not reached: everything that passed is kept"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items()) or "none"


def _hours(timed: pl.DataFrame) -> float:
    return round(float(timed["duration_s"].sum()) / 3600, 4)


def _counts(part: pl.DataFrame) -> dict[str, Any]:
    return {"segments": len(part), "hours": _hours(part), "speakers": part["speaker_id"].drop_nulls().n_unique()}
