"""The report of `select`: counts, losses with their causes, and warnings."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.budget import MICRO
from nbaudio.leakage import GROUPS, leakage
from nbaudio.report import Report, fact_key, tally
from nbaudio.selection.grouping import Grouping
from nbaudio.selection.parameters import HELD_OUT, LATER_RULES, Parameters
from nbaudio.sizes import PCM
from nbaudio.source_splits import role
from nbaudio.splits import LOST
from nbaudio.tables import SPLITS, text_column, with_durations, without_audio

_MUCH = 0.1
"""The share of train from which on it is said that reviews took it."""


def select_report(
    where: Path,
    recordings: pl.DataFrame,
    chosen: pl.DataFrame,
    *,
    parameters: Parameters,
    grouping: Grouping,
    reviews: Mapping[str, set[str]],
    by_hand: pl.DataFrame,
) -> Report:
    """Count what was decided.

    Args:
        where: the workspace's folder, for commands that messages propose.
        recordings: the recordings table.
        chosen: the segments table with the decisions.
        parameters: what was asked for.
        grouping: what the splits were grouped by.
        reviews: the segments of each review, by its name.
        by_hand: what people decided, as of `review.decisions`.
    """
    counted = chosen.drop({"text", "text_normalized", "asr_text", "word_times"} - {*grouping.columns}, strict=False)
    timed = with_durations(counted, recordings).with_columns(micros=(pl.col("duration_s") * MICRO).round())
    kept = timed.filter(pl.col("split").is_not_null())
    lost = timed.filter(pl.col("reason").is_in(LOST))
    rejected = chosen["reason"].drop_nulls().value_counts().sort("count", "reason", descending=[True, False])
    leaks = leakage(chosen, keys=tuple(dict.fromkeys((*GROUPS, *grouping.columns))))
    own = grouping.losses[grouping.columns]
    alternatives = {"grouping_alternatives": grouping.alternatives()} if len(grouping.losses) > 1 else {}
    taken = _taken_by(chosen, reviews)
    held_out = _held_out_in_train(kept)
    facts: dict[str, Any] = {
        "segments": len(chosen),
        "kept": len(kept),
        "hours": _hours(kept),
        **{split: _counts(kept.filter(pl.col("split") == split)) for split in SPLITS},
        "rejected": dict(rejected.iter_rows()),
        **(
            {"by_hand": dict(by_hand["decision"].cast(pl.String).value_counts().sort("decision").iter_rows())}
            if len(by_hand)
            else {}
        ),
        **({"reviewed": tally(taken, "review", "segments")} if taken else {}),
        **({} if held_out is None else {"source_held_out_in_train": tally(held_out, "split", "segments")}),
        "leakage": {fact_key(check.removesuffix("_id")): shared for check, shared in leaks.select("check", "shared").iter_rows()},
        "lost_to_grouping": {"segments": len(lost), "hours": _hours(lost), "share": own.share if own else 0.0},
        **alternatives,
    }
    budget = parameters.budget()
    if budget:
        size = parameters.clip_size
        basis = "upper bound, nothing measured" if size == PCM else "measured"
        facts["budget"] = {
            "limit": budget.show(budget.limit),
            "used": budget.show(budget.total(kept)),
            **({"estimate": f"{size.per_second / 1000:.1f} kB/s ({basis})"} if parameters.disk is not None else {}),
        }
    facts["parameters"] = {name: value for name, value in asdict(parameters).items() if name != "clip_size"}
    facts["parameters"]["group_by"] = list(grouping.columns)
    warnings = [
        *_warnings(timed, parameters=parameters, preview=without_audio(recordings), columns=grouping.columns),
        *_of_splits(chosen, parameters, taken),
        *_of_decisions(timed, parameters, by_hand),
        *grouping.warnings(lambda columns: f"'{parameters.command(where, group_by=tuple(columns))}'"),
    ]
    if held_out:
        warnings.append(
            f"{sum(held_out.values()):,} segments that the source holds out ({_told(held_out)}) would be trained on: select does "
            "not follow source_split; ingest the source's other splits alone to keep them out of train"
        )
    return Report("select", facts, warnings=warnings)


def reasons_of(reasons: pl.Series, parameters: Parameters, taken: Mapping[str, int] | None = None) -> str:
    """What put segments out, by number, the most telling first; empty where nothing did.

    Args:
        reasons: of each segment, null where none.
        parameters: whose limits are named.
        taken: what reviews took, by the name of the review.

    Examples:
        >>> reasons_of(pl.Series(["too_long", None, "reviewed", "too_long"]), Parameters(), {"sheet": 1})
        '2 too_long (max_duration 20), 1 reviewed (sheet 1)'
    """
    limits: dict[str, str] = {
        **{
            rule: f"{name} {getattr(parameters, name):g}"
            for rule, name in (
                ("below_similarity", "min_similarity"),
                ("too_long", "max_duration"),
                ("too_short", "min_duration"),
            )
        },
        "reviewed": _told(taken or {}),
    }
    if budget := parameters.budget():
        limits["over_budget"] = budget.show(budget.limit)
    counts = reasons.drop_nulls().value_counts().sort("count", reasons.name, descending=[True, False])
    return ", ".join(
        f"{number:,} {rule}" + (f" ({limits[rule]})" if rule in limits else "") for rule, number in counts.iter_rows()
    )


def _of_decisions(timed: pl.DataFrame, parameters: Parameters, by_hand: pl.DataFrame) -> list[str]:
    """What became of segments that people accepted: out for other rules, or in beside the threshold."""
    found = []
    accepted = timed.join(by_hand.filter(pl.col("decision") == "accept"), on="segment_id", how="semi")
    if out := reasons_of(accepted["reason"], parameters):
        found.append(f"segments that were accepted by hand stay out: {out}")
    below = accepted.filter(pl.col("reason").is_null() & (pl.col("similarity").fill_nan(None) < parameters.min_similarity)).height
    if below:
        found.append(
            f"{below:,} segments below min_similarity {parameters.min_similarity:g} are in, accepted by hand: evidence speaks of "
            "those at or above it"
        )
    return found


def _taken_by(chosen: pl.DataFrame, reviews: Mapping[str, set[str]]) -> dict[str, int]:
    """How many segments each review keeps out of train; one of several reviews counts for the first of them."""
    left = set(chosen.filter(pl.col("reason") == "reviewed")["segment_id"])
    taken = {}
    for name, ids in reviews.items():
        if number := len(left & ids):
            taken[name] = number
        left -= ids
    return taken


def _held_out_in_train(kept: pl.DataFrame) -> dict[str, int] | None:
    """The segments of train by the source's own held-out split; None where the source has no splits."""
    if "source_split" not in kept.columns:
        return None
    train = text_column(kept, "source_split").cast(pl.String).filter(kept["split"] == "train").drop_nulls()
    return {name: number for name, number in train.value_counts().sort("source_split").iter_rows() if role(name) in HELD_OUT}


def _of_splits(chosen: pl.DataFrame, parameters: Parameters, taken: Mapping[str, int]) -> list[str]:
    """Splits that are empty though they were wanted, or that reviews took much of, and what took it."""
    found = []
    sizes: dict[str | None, int] = dict(chosen["split"].cast(pl.String).value_counts().iter_rows())
    out = reasons_of(chosen["reason"], parameters, taken)
    held = "".join(f", {sizes[split]:,} in {split}" for split in HELD_OUT if split in sizes)
    train, reviewed = sizes.get("train", 0), sum(taken.values())
    if len(chosen) and not train:
        what = "train is empty" if held else "nothing is kept"
        found.append(f"{what}; of {len(chosen):,} segments: {out or 'none is out'}{held}")
    elif reviewed >= _MUCH * (train + reviewed):
        found.append(
            f"{reviewed:,} of {train + reviewed:,} segments for train were given to reviewers and stay out ({_told(taken)})"
        )
    fit = len(chosen.filter(pl.col("reason").is_null() | pl.col("reason").is_in(LATER_RULES)))
    for split in HELD_OUT:
        target = parameters.target(split, default=1)
        if train and split not in sizes and target.amount:
            by_default = getattr(parameters, split) is None
            why = f"a twentieth of the {fit:,} segments that pass the filters is none" if by_default else f"{target} hold none"
            found.append(f"{split} is empty: {why}{f' (out: {out})' if out else ''}; ask for a size, such as --{split} 10")
    return found


def _warnings(timed: pl.DataFrame, *, parameters: Parameters, preview: bool, columns: tuple[str, ...]) -> list[str]:
    """What is worth knowing of a selection though it was made."""
    found = []
    after_filters = timed.filter(pl.col("reason").is_null() | pl.col("reason").is_in(LATER_RULES))
    kept = after_filters.filter(pl.col("reason").is_null())
    if preview:
        found.append("no audio yet: a preview by the source's times; windows past the end of a recording are not seen")
    unscored = after_filters["similarity"].fill_nan(None).null_count()
    if unscored:
        found.append(f"{unscored:,} segments have no similarity and passed that filter")
    for key in columns:
        missing = after_filters[key].null_count()
        if missing and missing == len(after_filters):
            found.append(f"{key} is empty: nothing is grouped by it")
        elif missing:
            found.append(f"{missing:,} segments have no {key} and are not grouped by it")
    over_budget = (timed["reason"] == "over_budget").any()
    if parameters.budget() and not over_budget and len(kept):
        found.append("the budget is not reached: everything that passed is kept")
    return found


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.items()) or "none"


def _hours(timed: pl.DataFrame) -> float:
    return round(float(timed["duration_s"].sum()) / 3600, 4)


def _counts(part: pl.DataFrame) -> dict[str, Any]:
    return {"segments": len(part), "hours": _hours(part), "speakers": part["speaker_id"].drop_nulls().n_unique()}
