"""Select segments for a corpus by filters, splits and a budget; each is accepted, or rejected with a reason.

The first rule that applies is the reason: rejected by hand, `tables.segment_failures`, the filters, `tables.LATER_RULES`.
Durations are compared in samples (without audio, microseconds). No choice depends on the order of rows.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from nbaudio.core import tables
from nbaudio.core.dataframes import Frame, as_polars
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.source_splits import in_training, split_role
from nbaudio.core.tables import EARLIER_SPLITS, LEFT_OUT, SEGMENTS, conform, without_audio
from nbaudio.review.manual_decisions import decisions
from nbaudio.review.risk import freeze
from nbaudio.review.rounds import JUDGED, gold_ids
from nbaudio.review.state import ReviewState, reviewed_by_review
from nbaudio.selection.filters import filtered, is_one_of
from nbaudio.selection.fixed_splits import FixedSplits, fixed_splits
from nbaudio.selection.given_splits import KEYS as GIVEN_BY
from nbaudio.selection.given_splits import GivenSplits, Splits, given_splits, splits_name
from nbaudio.selection.grouping import AUTO, Grouping, choose_grouping
from nbaudio.selection.parameters import HELD_OUT, MIN_SIMILARITY, Parameters
from nbaudio.selection.row_values import RowHashes, row_hashes, with_values
from nbaudio.selection.select_report import count_reasons, reasons_of, select_report
from nbaudio.selection.size_budget import PCM, Budget, measure_clip_size, over_budget
from nbaudio.selection.splits import Target, assign_splits
from nbaudio.storage.workspace import Workspace, locks_workspace

_MEASURED_CLIPS = 64
_DECISION = SEGMENTS["decision"]


@locks_workspace("select")
def select(
    workspace: str | Path | Workspace,
    *,
    min_similarity: float | None = None,
    max_duration: float = 20.0,
    min_duration: float = 0.0,
    where: str | Sequence[str] = (),
    splits: Splits | None = None,
    hours: float | None = None,
    disk: int | str | None = None,
    dev: int | str | None = None,
    test: int | str | None = None,
    group_by: Sequence[str] | str | None = AUTO,
    seed: int = 42,
    gold: bool = False,
) -> Report:
    """Decide for every segment of a workspace whether it goes into the corpus and into which split.

    Args:
        workspace: the workspace, or its folder.
        min_similarity: minimum similarity of transcript and hypothesis, in [-1, 1]; segments without one pass. By default the
            threshold that was chosen in the tuner (`Workspace.threshold`), which the report then names, or 0.8.
        max_duration: maximum duration of a segment in seconds.
        min_duration: minimum duration of a segment in seconds.
        where: SQL conditions over the columns of the segments table and `duration_s`, such as ``wer_large < 0.2``; a segment for
            which one is not true (or null) is rejected, with the condition as its reason: ``where wer_large < 0.2``.
        splits: given splits, which stay as they are: ``"source"`` for the source's own (`source_split`), a table with `split` and
            one of segment_id, recording_id and speaker_id (or its path or URL), or an earlier corpus. Other segments are divided
            around them. The splits of earlier versions of a workspace that has grown are always kept.
        hours: budget of the whole corpus in hours: dev and test first, the rest for train, speakers in turns.
        disk: the same as bytes on disk, such as ``"900GB"``, for 16 kHz mono FLAC; give one of the two.
        dev: size of dev, a number of segments or hours such as ``"1.5h"``; by default 2000 segments, at most 5 % of those
            that the filters and the budget leave. Segments whose split is given count; by default no others are added to them.
        test: the same for test.
        group_by: columns, none of whose values may be in two splits; a sequence, or names separated by commas; empty for none.
            ``"auto"`` takes speaker_id and recording_id, or speaker_id alone if both would lose more than 5 % of the segments;
            where there are earlier versions, their columns.
        seed: of all random choices.
        gold: fill test only with segments that reviewers judged right (see `nbaudio.review.rounds`), by default of all of them
            that pass the filters. Segments that share a value of `group_by` with them are rejected.

    Returns:
        What is kept and why the rest is not, splits, leakage, budget. The decisions are in the workspace's segments.

    Raises:
        InputError: a parameter is invalid, or more is requested than there is.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp() + "/w", source="asr.json", audio=None)
        >>> rows = {"segment_id": ["a", "b"], "recording_id": ["r", "r"], "text": ["da", "ne"], "similarity": [0.9, 0.1]}
        >>> times = {"source_start": ["0", "2"], "source_end": ["1", "3"]}
        >>> workspace.save(recordings=pl.DataFrame({"recording_id": ["r"]}), segments=pl.DataFrame({**rows, **times}))
        >>> select(workspace, dev=0, test=0).facts["rejected"]
        {'below_similarity': 1}
    """
    workspace = Workspace.open(workspace)
    names = group_by.split(",") if isinstance(group_by, str) else group_by or ()
    columns = tuple(filter(None, map(str.strip, names)))
    recordings, segments = workspace.recordings, tables.scan(workspace)
    fixed, notes = _fixed(workspace, segments, splits)
    if columns == (AUTO,) and len(fixed.earlier):
        columns = fixed.columns
    tuned = workspace.threshold
    least = next((value for value in (min_similarity, tuned) if value is not None), MIN_SIMILARITY)
    parameters = Parameters(
        min_similarity=least,
        max_duration=max_duration,
        min_duration=min_duration,
        where=(where,) if isinstance(where, str) else tuple(where),
        splits=splits_name(splits),
        hours=hours,
        disk=disk,
        dev=dev,
        test=test,
        group_by=None if columns == (AUTO,) else columns,
        seed=seed,
        gold=gold,
    )
    if disk is not None and (root := workspace.audio) and not without_audio(recordings):
        sample = _sample(recordings, segments, parameters)
        parameters = replace(parameters, clip_size=measure_clip_size(sample, root) or PCM)
    state = ReviewState.load(workspace)
    right = gold_ids(state, tables.read(workspace, JUDGED)) if gold else set()
    reviews = reviewed_by_review(state)
    by_hand = decisions(workspace)
    reviewed = set().union(*reviews.values())
    decided, left_out, grouping = decide(recordings, segments, reviewed, parameters, gold=right, by_hand=by_hand, fixed=fixed)
    chosen = with_values(segments.drop(decided.columns), decided)
    report = select_report(
        workspace.path,
        recordings,
        chosen,
        left_out,
        parameters=parameters,
        grouping=grouping,
        reviews=reviews,
        by_hand=by_hand,
        fixed=fixed,
    )
    report.warnings[:0] = notes
    report.facts["parameters"] |= {"risk": frozen} if (frozen := freeze(workspace, parameters.where)) else {}
    if tuned is not None and min_similarity is None:
        report.facts["threshold"] = f"similarity {tuned:g}, chosen in the tuner"
    elif tuned is not None and tuned != min_similarity:
        report.warnings.append(f"similarity {tuned:g} was chosen in the tuner, but {least:g} was given and is used")
    workspace.save(**{LEFT_OUT: left_out})
    tables.replace_columns(workspace, decided)
    workspace.save_report("select", report.to_dict())
    return report


def _fixed(workspace: Workspace, segments: pl.LazyFrame, splits: Splits | None) -> tuple[FixedSplits, tuple[str, ...]]:
    """Return the splits that are fixed by `splits` and by earlier versions, and notes about given ones."""
    has_earlier = os.path.lexists(tables.table_path(workspace, EARLIER_SPLITS))
    earlier = workspace.table(EARLIER_SPLITS) if has_earlier else None
    given = GivenSplits(None)
    if splits is not None:
        held = segments.collect_schema()
        needed = [name for name in (*GIVEN_BY, "source_split") if name in held]
        given = given_splits(tables.read(workspace, dict.fromkeys(needed)), splits, earlier=earlier)
    known = [table for table in (earlier, given.corpus) if table is not None]
    before = pl.concat(known, how="diagonal_relaxed") if known else None
    return fixed_splits(segments, given=given.split, earlier=before), given.notes


def _sample(recordings: pl.DataFrame, segments: pl.LazyFrame, parameters: Parameters) -> pl.DataFrame:
    """Return the windows of some segments that pass the filters, with what is needed to read them, by recording."""
    frame = filtered(recordings, segments, parameters)
    rows = _collect(frame.filter(pl.col("reason").is_null()).select("row"))["row"]
    some = rows[row_hashes(segments)(rows, f"measure {parameters.seed}").arg_sort()[:_MEASURED_CLIPS]]
    columns = ("recording_id", "start_sample", "end_sample", "source_channel")
    windows = _collect(frame.filter(pl.col("row").is_in(some.implode())).select(*columns)).cast(
        {"recording_id": pl.String, "source_channel": pl.String}
    )
    facts = recordings.select("recording_id", "path", "num_samples", "sampling_rate")
    return windows.join(facts, on="recording_id", how="left").sort("path", "start_sample")


def decide(
    recordings: Frame,
    segments: Frame | pl.LazyFrame,
    reviewed: Collection[str],
    parameters: Parameters,
    *,
    gold: Collection[str] = (),
    by_hand: Frame | None = None,
    fixed: FixedSplits | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame, Grouping]:
    """Return `split`, `decision` and `reason` of each segment, the table `LEFT_OUT`, and what the splits were grouped by.

    `reviewed` are ids of segments that reviewers were given or judged, `gold` of those that they judged right.
    """
    recordings = as_polars(recordings, "recordings")
    if not isinstance(segments, pl.LazyFrame):
        segments = conform(as_polars(segments, "segments"), SEGMENTS, "segments").lazy()
    hand = None if by_hand is None else as_polars(by_hand, "by_hand")
    fixed = fixed or fixed_splits(segments)
    frame = filtered(recordings, segments, parameters, by_hand=hand)
    judged = _collect(frame.select("reason", "by_hand"))
    unused = {"reason", "by_hand", "source_channel", "start_sample", "end_sample"} - {*(parameters.group_by or ())}
    needed = frame.drop(unused).with_columns(*fixed.values(), reviewed=is_one_of(reviewed), is_gold=is_one_of(gold))
    passed = judged["reason"].is_null().alias("passed")
    fit = _collect(with_values(needed, [*fixed.rows, passed]).filter("passed").drop("segment_id", "passed"))
    budget, hashes = parameters.budget(), row_hashes(segments)
    if parameters.gold:
        told = with_values(segments.select("segment_id"), judged)
        _check_gold(_collect(told.filter(is_one_of(gold)))["reason"], parameters, fixed)
    try:
        grouping = _grouping(fit, parameters, fixed, budget, hashes)
    except InputError as error:
        out = reasons_of(count_reasons(judged["reason"]), parameters)
        raise InputError(f"{error}" + (f"; of {len(judged):,} segments the filters reject {out}" if out else "")) from error
    is_train = in_training(grouping.divided["split"])
    fit = fit.select(
        *("row", "micros", "earlier", "is_preferred", "speaker_id", "recording_id"),
        grouping.divided["split"],
        reason=pl.coalesce(pl.when(pl.lit(is_train)).then("not_train"), grouping.divided["reason"]),
        barred=is_train & fit["reviewed"],
    )
    if budget:
        fit = _within_budget(fit, budget, parameters.seed, hashes, has_earlier=len(fixed.earlier) > 0)
    return *_decisions(segments, judged, fit.select("split", "reason", "barred")), grouping


def _grouping(
    fit: pl.DataFrame, parameters: Parameters, fixed: FixedSplits, budget: Budget | None, hashes: RowHashes
) -> Grouping:
    """Divide the segments that pass the filters into splits."""
    default = len(fit)
    if budget and default:
        default = default * min(budget.limit, budget.total(fit)) // budget.total(fit)
    rest = fit.filter(pl.col("fixed").is_null()) if fixed.is_any else fit
    is_gold = rest["is_gold"] if parameters.gold else None
    missing = still_needed(fit, parameters, default=min(2000, default // 20), gold=is_gold, fixed=fixed)
    optional = [name for name in HELD_OUT if getattr(parameters, name) is None and fixed.is_any]

    def divide_by(keys: Sequence[str]) -> pl.DataFrame:
        divided = assign_splits(
            rest,
            keys=keys,
            targets=missing,
            seed=parameters.seed,
            gold=is_gold,
            may_hold_out=rest["may_hold_out"],
            preset={key: fixed.preset(key) for key in keys if fixed.is_any},
            optional=optional,
            hashes=hashes,
        )
        if fixed.is_any:
            divided = fit.select("row", "fixed").join(
                divided.with_columns(rest["row"]), on="row", how="left", maintain_order="left"
            )
            divided = divided.select(pl.coalesce("fixed", "split").alias("split"), "reason")
        elif divided["reason"].null_count() < len(fit) and not (divided["split"] == "train").any():
            raise InputError(
                f"group_by: with no {' and no '.join(keys)} in two splits, dev and test leave nothing for train; "
                "group by fewer or other columns, or request less (dev=0, test=0)"
            )
        return divided

    def lost_share(divided: pl.DataFrame) -> float:
        kept = divided["reason"].is_null()
        if not budget:
            return int((~kept).sum()) / max(len(fit), 1)
        # Losses are made up for by other segments, as long as there are more than fit into the budget.
        room = min(budget.limit, budget.total(fit))
        return (room - min(room, budget.total(fit, kept))) / max(room, 1)

    return choose_grouping(fit, parameters.group_by, divide_by=divide_by, lost_share=lost_share)


def _within_budget(fit: pl.DataFrame, budget: Budget, seed: int, hashes: RowHashes, *, has_earlier: bool) -> pl.DataFrame:
    """Reject what exceeds the budget: the size of an earlier version if that leaves less than the longest segment takes."""
    first = pl.col("earlier").is_not_null(), pl.col("is_preferred")
    kept = fit["reason"].is_null()
    used = budget.total(fit, kept & (~in_training(fit["split"]) | fit["earlier"].is_not_null()) & ~fit["barred"])
    if has_earlier and budget.limit - used < fit.select(budget.cost.max()).item():
        budget = budget._replace(limit=min(used, budget.limit))
    over = over_budget(fit.filter(kept), budget, seed=seed, first=first, hashes=hashes)
    is_over = pl.col("row").is_in(over.implode())
    return fit.with_columns(reason=pl.when(is_over).then(pl.lit("over_budget", dtype=pl.Categorical)).otherwise("reason"))


def _decisions(segments: pl.LazyFrame, judged: pl.DataFrame, fit: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the decisions on all segments from those on `fit`, and the table `LEFT_OUT`."""
    later = pl.coalesce("reason", pl.when("barred").then(pl.lit("reviewed", dtype=pl.Categorical)))
    passed = judged["reason"].is_null()
    place = pl.Series(np.cumsum(passed.to_numpy(), dtype=np.int32)) - 1
    places = pl.select(pl.when(passed).then(place)).to_series()
    rows = judged.with_columns(column.gather(places) for column in fit.select("split", later=later))
    reason = pl.coalesce("reason", "later")
    decision = pl.when(reason.is_null()).then(pl.lit("accept", dtype=_DECISION)).otherwise(pl.lit("reject", dtype=_DECISION))
    decided = rows.lazy().select(pl.when(reason.is_null()).then("split"), decision=decision, reason=reason)
    out = with_values(segments.select("segment_id"), rows).filter(pl.col("by_hand") | (pl.col("later") == "reviewed"))
    told = out.select("segment_id", pl.col("split").cast(pl.String), reason.cast(pl.String), "by_hand")
    return _collect(decided), _collect(told).sort("by_hand", "segment_id").drop("by_hand")


def _collect(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="streaming")


def _check_gold(reasons: pl.Series, parameters: Parameters, fixed: FixedSplits) -> None:
    """Raise InputError if test is given, or no gold segment passes the filters; `reasons` are those of gold ones."""
    if "test" in fixed.given_roles():
        raise InputError(f"gold: test is given by splits={parameters.splits}, and gold would fill it; leave one of the two out")
    if reasons.null_count() == 0:
        out = reasons_of(count_reasons(reasons), parameters)
        raise InputError(
            "gold: of the segments that pass the filters, reviewers judged none right as they are now; import verdicts first"
            + (f", or keep more; of those that they call right the filters reject {out}" if out else "")
        )


def still_needed(
    fit: pl.DataFrame, parameters: Parameters, *, default: int, gold: pl.Series | None, fixed: FixedSplits
) -> dict[str, Target]:
    """Return what test and dev need besides fixed segments; full if less than the longest is missing; `gold` is for the rest."""
    needed = {}
    names = fit["fixed"].unique().drop_nulls().cast(pl.String)
    for name in HELD_OUT:
        own = fit.filter(pl.col("fixed").is_in([one for one in names if split_role(one) == name]))
        more = 0 if name in fixed.given_roles() else default - len(own)
        more = more if gold is None or name != "test" else int(gold.sum())
        target = parameters.target(name, default=len(own) + max(more, 0))
        have, spare = len(own), 1
        if target.unit == "micros":
            have, spare = int(own["micros"].sum()), fit.select(pl.col("micros").max().fill_null(0)).item()
        missing = target.amount - have
        needed[name] = target._replace(amount=0 if fixed.is_any and missing < spare else max(missing, 0))
    return needed
