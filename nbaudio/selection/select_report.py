"""Report of `select`: counts, losses with their causes, and warnings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import Report, count, fact_key
from nbaudio.selection.avoid import AvoidedData
from nbaudio.selection.fixed_splits import FixedSplits
from nbaudio.selection.grouping import Grouping
from nbaudio.selection.leakage import GROUPS, leakage
from nbaudio.selection.look_alikes import TOGETHER, joined_notes
from nbaudio.selection.near_held_out import NEAR_HELD_OUT
from nbaudio.selection.parameters import HELD_OUT, Parameters
from nbaudio.selection.size_budget import MICROSECONDS, PCM_BYTES_PER_SECOND
from nbaudio.selection.unfilled_goals import noun, unfilled_warnings
from nbaudio.storage.urls import is_url
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.rejection_reasons import (
    AVOIDED,
    GROUPING_REASONS,
    LATER_REASONS,
    without_audio,
)
from nbaudio.tables.rejection_reasons import NEAR_HELD_OUT as NEAR_REASON
from nbaudio.tables.row_values import with_values
from nbaudio.tables.schemas import hypothesis_names
from nbaudio.tables.split_names import (
    in_training,
    is_held_out,
    listed_splits,
    ordered_splits,
    split_role,
)
from nbaudio.text.speaker_names import SPEAKER, look_alikes

# Parameters that the report has only where they are not as by default.
_ONLY_IF_SET = frozenset(
    ("clip_size", "where", "look_alikes", "near_held_out", "avoid", "avoid_by", "avoid_sha256")
)
_MUCH_REVIEWED = 0.1  # a share of train above which the report warns


@dataclass(frozen=True)
class Selection:
    """The decisions of `select`, and the parameters and tables that they rest on.

    Attributes:
        recordings: the table of recordings.
        segments: the table of segments with their `split` and `reason`; it is streamed.
        left_out: the table `LEFT_OUT`.
        parameters: those of `select`.
        grouping: what the splits were grouped by.
        fixed: the splits that were fixed before.
        reviews: the ids of the segments of each review, by its name.
        by_hand: the decisions of people, with `segment_id` and `decision`.
        avoided: the data that is avoided.
        shared: what segments share with it; see `select.Decisions`.
    """

    recordings: pl.DataFrame
    segments: pl.LazyFrame
    left_out: pl.DataFrame
    parameters: Parameters
    grouping: Grouping
    fixed: FixedSplits
    reviews: Mapping[str, set[str]]
    by_hand: pl.DataFrame
    avoided: Sequence[AvoidedData]
    shared: pl.DataFrame

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the splits were grouped by."""
        return self.grouping.columns


def select_report(selection: Selection) -> Report:
    """Count what was decided, by splits, reasons and checks, and warn of what is unexpected."""
    groups = _groups(selection)
    taken = _taken_by_reviews(selection)
    held_out = _held_out_in_train(groups)
    fixed_report = selection.fixed.report(selection.segments, selection.columns)
    facts = {
        **_size_facts(groups),
        **fixed_report.facts,
        **_people_facts(selection, taken),
        **_source_split_facts(groups, held_out),
        **_avoided_facts(selection),
        "leakage": _leakage_facts(selection),
        **_grouping_facts(groups, selection.grouping),
        **_budget_facts(groups, selection.parameters),
        "parameters": _parameter_facts(selection.parameters, selection.columns),
    }
    warnings = [
        *_cut_warning(groups, selection),
        *_data_warnings(groups, selection),
        *_split_warnings(groups, selection, taken),
        *fixed_report.warnings,
        *_decision_warnings(selection),
        *_look_alike_warnings(selection.segments),
        *selection.grouping.warnings(),
        *_held_out_warning(held_out),
    ]
    return Report("select", facts, warnings=warnings)


def _taken_by_reviews(selection: Selection) -> dict[str, int]:
    """Return how many segments each review keeps out of train, without those that keep none.

    A segment of several reviews counts for the first.
    """
    reviewed = set(selection.left_out.filter(pl.col("reason") == "reviewed")["segment_id"])
    taken = dict[str, int]()
    for name, ids in selection.reviews.items():
        if number := len(reviewed & ids):
            taken[name] = number
        reviewed -= ids
    return taken


def _held_out_in_train(groups: pl.DataFrame) -> dict[str, int]:
    """Return how many segments of train each held-out split of the source has."""
    if "source_split" not in groups.columns:
        return {}
    selected = groups.filter(pl.col("split").is_not_null())
    train = selected.filter(in_training(selected["split"])).drop_nulls("source_split")
    counts = train.group_by("source_split").agg(pl.sum("segments")).sort("source_split")
    return {name: number for name, number in counts.iter_rows() if split_role(name) in HELD_OUT}


def _held_out_warning(held_out: Mapping[str, int]) -> Iterator[str]:
    """Warn of segments of train that the source holds out, counted by its splits."""
    if held_out:
        yield (
            f"{sum(held_out.values()):,} of the segments that the source holds out "
            f"({_listed(held_out)}) would be trained on; "
            "--splits source, without --dev and --test, keeps the source's splits"
        )


def _size_facts(groups: pl.DataFrame) -> dict[str, Any]:
    """Return the number of segments, in all, in each split, and rejected for each reason."""
    selected = groups.filter(pl.col("split").is_not_null())
    splits = listed_splits(selected["split"].unique())
    rejected = _reasons(groups)
    return {
        "segments": _number(groups),
        "kept": _number(selected),
        "hours": _hours(selected),
        **{split: _counts(selected.filter(pl.col("split") == split)) for split in splits},
        "rejected": dict(sorted(rejected.items(), key=lambda row: (-row[1], row[0]))),
    }


def _people_facts(selection: Selection, taken: Mapping[str, int]) -> dict[str, Any]:
    """Return the decisions by hand, if any, and the segments `taken` by reviews, if any."""
    facts: dict[str, Any] = {}
    if len(selection.by_hand):
        decisions = selection.by_hand["decision"].cast(pl.String).value_counts().sort("decision")
        facts["by_hand"] = dict(decisions.iter_rows())
    if taken:
        facts["reviewed"] = [{"review": name, "segments": number} for name, number in taken.items()]
    return facts


def _source_split_facts(groups: pl.DataFrame, held_out: Mapping[str, int]) -> dict[str, Any]:
    """Return the segments of train that the source holds out, where the source has splits."""
    if "source_split" not in groups.columns:
        return {}
    rows = [{"split": name, "segments": number} for name, number in held_out.items()]
    return {"source_held_out_in_train": rows}


def _avoided_facts(selection: Selection) -> dict[str, list[dict[str, Any]]]:
    """Return by data that is avoided how many segments share something with it.

    Those of train are left out, by what they share; those of other splits stay.
    """
    rows = []
    in_train = selection.shared.with_columns(is_train=in_training(selection.shared["split"]))
    for number, other in enumerate(selection.avoided):
        shared = in_train.filter(pl.col("source") == number)
        of_train = shared.filter("is_train")["shared"]
        rows.append(
            {
                "data": other.label,
                "sentences": len(other.sentences),
                **{reason: int((of_train == reason).sum()) for reason in AVOIDED},
                "held_out": len(shared) - len(of_train),
            }
        )
    if not rows:
        return {}
    return {"avoided": rows}


def _leakage_facts(selection: Selection) -> dict[str, int]:
    """Return how many values of each check are in several splits."""
    checks = leakage(selection.segments, keys=tuple(dict.fromkeys((*GROUPS, *selection.columns))))
    return {
        fact_key(check.removesuffix("_id")): shared
        for check, shared in checks.select("check", "shared").iter_rows()
    }


def _grouping_facts(groups: pl.DataFrame, grouping: Grouping) -> dict[str, Any]:
    """Return what is lost to grouping, and what other columns would lose, if any were tried."""
    lost = groups.filter(pl.col("reason").is_in(GROUPING_REASONS))
    loss = grouping.losses[grouping.columns]
    facts: dict[str, Any] = {
        "lost_to_grouping": {
            "segments": _number(lost),
            "hours": _hours(lost),
            "share": loss.share if loss else 0.0,
        }
    }
    if len(grouping.losses) > 1:
        facts["grouping_alternatives"] = grouping.alternatives()
    return facts


def _budget_facts(groups: pl.DataFrame, parameters: Parameters) -> dict[str, Any]:
    """Return the limit of the budget and what of it is used, if there is a budget."""
    budget = parameters.budget()
    if budget is None:
        return {}
    used = groups.filter(pl.col("split").is_not_null())["cost"].sum()
    facts = {"limit": budget.show(budget.limit), "used": budget.show(int(used))}
    if parameters.disk is not None:
        size = parameters.clip_size
        basis = "upper bound, nothing measured" if size == PCM_BYTES_PER_SECOND else "measured"
        facts["estimate"] = f"{size / 1000:.1f} kB/s ({basis})"
    return {"budget": facts}


def _parameter_facts(parameters: Parameters, columns: Sequence[str]) -> dict[str, Any]:
    """Return the parameters for the report, with the columns that the splits are grouped by."""
    facts = {name: value for name, value in asdict(parameters).items() if name not in _ONLY_IF_SET}
    if parameters.near_held_out != NEAR_HELD_OUT:
        facts["near_held_out"] = parameters.near_held_out
    if parameters.look_alikes != TOGETHER:
        facts["look_alikes"] = parameters.look_alikes
    if parameters.where:
        facts["where"] = list(parameters.where)
    if parameters.avoid:
        facts["avoid"] = list(parameters.avoid)
        facts["avoid_sha256"] = parameters.avoid_sha256
    if parameters.avoid_by:
        facts["avoid_by"] = list(parameters.avoid_by)
    facts["group_by"] = list(columns)
    if parameters.splits is not None and not is_url(parameters.splits):
        facts["splits"] = Path(parameters.splits).name  # the report is the same from another folder
    return facts


def _groups(selection: Selection) -> pl.DataFrame:
    """Count segments, their duration and their cost by all that the report distinguishes.

    Durations (`micros`) are in whole microseconds, `cost` is that of the budget, 0 without one.
    """
    rates = (
        selection.recordings.select("recording_id", "sampling_rate")
        .unique("recording_id", keep="first")
        .lazy()
    )
    schema = selection.segments.collect_schema()
    texts = [
        "split",
        "reason",
        *(name for name in ("speaker_id", "source_split") if name in schema),
    ]
    flags = {f"no {key}": pl.col(key).is_null() for key in selection.columns}
    flags["is_unscored"] = pl.col("similarity").fill_nan(None).is_null()
    micros = (seconds_column() * MICROSECONDS).round().cast(pl.Int64, strict=False)
    timed = selection.segments.join(rates, on="recording_id", how="left", maintain_order="left")
    timed = timed.select(*texts, **flags, micros=micros)
    if selection.fixed.is_any:
        timed = with_values(timed, [selection.fixed.rows["fixed"]])
    else:
        timed = timed.with_columns(fixed=pl.lit(None, dtype=pl.Categorical))
    budget = selection.parameters.budget()
    cost = budget.cost.sum() if budget else pl.lit(0)
    groups = timed.group_by(*texts, *flags, "fixed").agg(
        pl.sum("micros"), cost=cost, segments=pl.len().cast(pl.Int64)
    )
    dtypes = dict.fromkeys((*texts, "fixed"), pl.String)
    return groups.collect(**STREAMED).cast(dtypes)  # type: ignore[arg-type]


def _number(groups: pl.DataFrame) -> int:
    """Return the number of segments of groups."""
    return int(groups["segments"].sum())


def _amount(groups: pl.DataFrame, unit: str) -> int:
    """Return the number of segments, or their duration in microseconds; see `Target`."""
    if unit == "segments":
        return _number(groups)
    return int(groups["micros"].sum())


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
    shown = {reason: f" ({limit})" for reason, limit in limits.items()}
    ordered = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{number:,} {reason}{shown.get(reason, '')}" for reason, number in ordered)


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


def _decision_warnings(selection: Selection) -> Iterator[str]:
    """Warn of segments that people accepted although filters reject them.

    Other filters reject these segments, or they are below the threshold.
    """
    ids = selection.by_hand.filter(pl.col("decision") == "accept")["segment_id"]
    rows = selection.segments.filter(pl.col("segment_id").is_in(ids.implode()))
    accepted = rows.select("reason", "similarity").collect(**STREAMED)
    if out := reasons_of(count_reasons(accepted["reason"]), selection.parameters):
        yield f"segments that were accepted by hand stay out: {out}"
    least = selection.parameters.min_similarity
    if below := accepted.filter(
        pl.col("reason").is_null() & (pl.col("similarity").fill_nan(None) < least)
    ).height:
        segments = count(below, "segments")
        yield f"in, though below min_similarity {least:g}: {segments} accepted by hand"


def _split_warnings(
    groups: pl.DataFrame, selection: Selection, taken: Mapping[str, int]
) -> Iterator[str]:
    """Warn of splits that are not as requested.

    They are empty, lost many segments to reviews, or have more fixed segments than requested.
    """
    grouping = selection.grouping
    yield from _train_warnings(groups, selection.parameters, taken)
    yield from joined_notes(selection.fixed.joined_speakers, grouping.columns)
    yield from unfilled_warnings(grouping.unfilled, grouping.remedies)
    explained = {goal.split for goal in grouping.unfilled}
    splits = ordered_splits(groups["split"].unique())
    has_train = not all(map(is_held_out, splits))
    filled = {split_role(name) for name in splits} | explained
    for split in HELD_OUT:
        if has_train and split not in filled:
            yield from _empty_warning(groups, split, selection, taken)
        if selection.fixed.is_any:
            yield from _fixed_warning(groups, split, selection.parameters)
            yield from _unfilled(groups, split, selection.parameters)


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
    groups: pl.DataFrame, split: str, selection: Selection, taken: Mapping[str, int]
) -> Iterator[str]:
    """Explain why a split is empty, unless no segments were requested for it."""
    parameters = selection.parameters
    target = parameters.target(split, default=1)
    if not target.amount:
        return
    if getattr(parameters, split) is not None:
        why = f"{target} hold none"
    elif selection.fixed.is_any:
        why = "nothing is left for it beside the segments whose split is fixed"
    else:
        is_fit = pl.col("reason").is_null() | pl.col("reason").is_in(LATER_REASONS)
        fit = _number(groups.filter(is_fit))
        why = f"5 % of the {fit:,} segments that pass the filters is less than one"
    reasons = reasons_of(_reasons(groups), parameters, taken)
    out = f" (out: {reasons})" if reasons else ""
    yield f"{split} is empty: {why}{out}; set a size, such as --{split} 10"


def _fixed_warning(groups: pl.DataFrame, split: str, parameters: Parameters) -> Iterator[str]:
    """Warn of a split that has more fixed segments than were requested."""
    fixed = groups.filter(pl.col("fixed") == pl.col("split"))
    names = [name for name in fixed["split"].unique() if split_role(name) == split]
    in_split = fixed.filter(pl.col("split").is_in(names))
    target = parameters.target(split, default=_number(in_split))
    have = target._replace(amount=_amount(in_split, target.unit))
    if have.amount > target.amount:
        yield f"{split}: {target} requested, but {have} are fixed, and stay"


def _cut_warning(groups: pl.DataFrame, selection: Selection) -> Iterator[str]:
    """Warn of what exact sizes of dev and test lose, unless a budget is filled all the same.

    Segments that cross splits are counted where nothing else than these sizes makes splits.
    """
    requested = {"--dev": selection.parameters.dev, "--test": selection.parameters.test}
    sizes = [option for option, size in requested.items() if size is not None]
    is_fixed = selection.fixed.is_any
    is_exact = len(sizes) == len(HELD_OUT) and not is_fixed
    causes = ["beyond_split_size"]
    if is_exact:
        causes = ["crosses_splits", "beyond_split_size"]
    counts = _reasons(groups)
    reasons = {cause: counts[cause] for cause in causes if cause in counts}
    lost = sum(reasons.values())
    if not sizes or not selection.columns or not lost or (groups["reason"] == "over_budget").any():
        return
    named = _listed(reasons) if len(reasons) > 1 else next(iter(reasons))
    selected = _number(groups.filter(pl.col("split").is_not_null()))
    names = [noun(column) for column in selection.columns]
    remedy = "larger sizes may lose less"
    if not is_fixed:
        whole = f"without {' and '.join(sizes)}, {' and '.join(names)} are held out whole"
        remedy = f"{whole}; {remedy}"
    yield (
        f"{lost:,} of {selected + lost:,} segments are lost to exact sizes ({named}): their "
        f"{' or '.join(names)} are in dev or test, which are full; {remedy}"
    )


def _unfilled(groups: pl.DataFrame, split: str, parameters: Parameters) -> Iterator[str]:
    """Warn of a split that has less than was requested, as fixed splits leave no more for it."""
    target = parameters.target(split, default=0)
    names = [name for name in groups["split"].unique().drop_nulls() if split_role(name) == split]
    filled = groups.filter(pl.col("split").is_in(names))
    have = target._replace(amount=_amount(filled, target.unit))
    # Hours are met within the duration of the longest segment.
    if target.unit == "segments":
        tolerance = 0
    else:
        tolerance = int(parameters.max_duration * MICROSECONDS)
    if have.amount + tolerance < target.amount:
        yield (
            f"{split}: {target} requested, but {have} can be filled beside the segments whose "
            "split is fixed"
        )


def _data_warnings(groups: pl.DataFrame, selection: Selection) -> Iterator[str]:
    """Warn of missing audio, similarities and keys, and of a budget that is not reached."""
    after_filters = groups.filter(
        pl.col("reason").is_null() | pl.col("reason").is_in(LATER_REASONS)
    )
    selected = after_filters.filter(pl.col("reason").is_null())
    if without_audio(selection.recordings):
        yield (
            "no audio yet: a preview by the source's times; windows past the end of a "
            "recording are not detected"
        )
    if unscored := _number(after_filters.filter("is_unscored")):
        yield f"{count(unscored, 'segments', 'have')} no similarity and passed that filter"
    for key in selection.columns:
        missing = _number(after_filters.filter(f"no {key}"))
        if missing and missing == _number(after_filters):
            yield f"{key} is empty: nothing is grouped by it"
        elif missing:
            yield f"{count(missing, 'segments', 'have')} no {key}: nothing groups by it there"
    is_within_budget = not (groups["reason"] == "over_budget").any()
    if selection.parameters.budget() and is_within_budget and len(selected):
        yield "the budget is not reached: everything that passed is kept"


def first_warnings(segments: pl.LazyFrame, notes: Sequence[str]) -> list[str]:
    """Return the first warnings of a report: filters without effect, then `notes`."""
    return [*_unfiltered_warnings(segments), *notes]


def _unfiltered_warnings(segments: pl.LazyFrame) -> Iterator[str]:
    """Warn that nothing was filtered by similarity, and why, where no segment has one."""
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
    """List names with their counts."""
    return ", ".join(f"{name} {number:,}" for name, number in counts.items()) or "none"


def _hours(groups: pl.DataFrame) -> float:
    """Return the hours of groups, rounded to four decimals."""
    return round(int(groups["micros"].sum()) / (3600 * MICROSECONDS), 4)


def _counts(part: pl.DataFrame) -> dict[str, Any]:
    """Return the size of a split."""
    return {
        "segments": _number(part),
        "hours": _hours(part),
        "speakers": part["speaker_id"].drop_nulls().n_unique(),
    }
