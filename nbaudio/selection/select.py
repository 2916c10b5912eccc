"""Select segments for a corpus by filters, splits and a budget; each is accepted, or rejected with a reason.

The first rule that applies is the reason: rejected by hand, `tables.segment_failures`, the filters, `tables.LATER_RULES`.
Durations are compared in samples (without audio, microseconds). No choice depends on the order of rows.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from nbaudio.core import tables
from nbaudio.core.channels import source_channel
from nbaudio.core.conditions import condition_mask
from nbaudio.core.dataframes import Frame, as_polars
from nbaudio.core.errors import InputError
from nbaudio.core.hashing import hash_column
from nbaudio.core.report import Report
from nbaudio.core.source_splits import in_training, split_role
from nbaudio.core.tables import EARLIER_SPLITS, LEFT_OUT, RECORDINGS, SEGMENTS, conform, with_durations, without_audio
from nbaudio.core.times import to_samples_column
from nbaudio.review.manual_decisions import decisions
from nbaudio.review.risk import freeze
from nbaudio.review.rounds import JUDGED, gold_ids
from nbaudio.review.state import ReviewState, reviewed_by_review
from nbaudio.selection.fixed_splits import FixedSplits, fixed_splits
from nbaudio.selection.given_splits import GivenSplits, Splits, given_splits, splits_name
from nbaudio.selection.grouping import AUTO, Grouping, choose_grouping
from nbaudio.selection.leakage import GROUPS
from nbaudio.selection.parameters import HELD_OUT, MIN_SIMILARITY, Parameters
from nbaudio.selection.select_report import reasons_of, select_report
from nbaudio.selection.size_budget import MICROSECONDS, PCM, measure_clip_size, over_budget
from nbaudio.selection.splits import Target, assign_splits, usable_keys
from nbaudio.storage.workspace import Workspace

_MEASURED_CLIPS = 64
# Most of a table's bytes; rules do not need them, unless splits are grouped by them.
_UNREAD = ("asr_text", "asr_text_normalized", "text_raw", "word_times")


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
    recordings, segments, fixed, notes = _read(workspace, columns, splits, str(where))
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
        fit = filtered(recordings, segments, parameters).filter(pl.col("reason").is_null())
        sample = fit[hash_column(fit["segment_id"], f"measure {seed}").arg_sort()[:_MEASURED_CLIPS]]
        facts = recordings.select("recording_id", "path", "num_samples", "sampling_rate")
        windows = sample.select("recording_id", "start_sample", "end_sample", "source_channel")
        clips = windows.join(facts, on="recording_id", how="left").sort("path", "start_sample")
        parameters = replace(parameters, clip_size=measure_clip_size(clips, root) or PCM)
    state = ReviewState.load(workspace)
    right = gold_ids(state, tables.read(workspace, JUDGED)) if gold else set()
    reviews = reviewed_by_review(state)
    by_hand = decisions(workspace)
    reviewed = set().union(*reviews.values())
    chosen, grouping, left_out = decide(recordings, segments, reviewed, parameters, gold=right, by_hand=by_hand, fixed=fixed)
    report = select_report(
        workspace.path,
        recordings,
        chosen,
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
    tables.replace_columns(workspace, chosen.select("split", "decision", "reason"))
    workspace.save_report("select", report.to_dict())
    return report


def _read(
    workspace: Workspace, columns: Collection[str], splits: Splits | None, where: str
) -> tuple[pl.DataFrame, pl.DataFrame, FixedSplits, tuple[str, ...]]:
    """Read the recordings, the columns of the segments that `select` needs, the fixed splits, and notes about given ones."""
    has_earlier = os.path.lexists(tables.table_path(workspace, EARLIER_SPLITS))
    earlier = workspace.table(EARLIER_SPLITS) if has_earlier else None
    needed = {*columns, *(earlier.columns if earlier is not None else ()), *(name for name in _UNREAD if name in where)}
    held = {**SEGMENTS, **tables.table_schema(workspace)}
    segments = tables.read(workspace, (name for name in held if name not in _UNREAD or name in needed))
    given = GivenSplits(None) if splits is None else given_splits(segments, splits, earlier=earlier)
    known = [table for table in (earlier, given.corpus) if table is not None]
    before = pl.concat(known, how="diagonal_relaxed") if known else None
    return workspace.recordings, segments, fixed_splits(segments, given=given.split, earlier=before), given.notes


def decide(
    recordings: Frame,
    segments: Frame,
    reviewed: Collection[str],
    parameters: Parameters,
    *,
    gold: Collection[str] = (),
    by_hand: Frame | None = None,
    fixed: FixedSplits | None = None,
) -> tuple[pl.DataFrame, Grouping, pl.DataFrame]:
    """Return `segments` with `decision`, `split` and `reason`, what the splits were grouped by, and the table `LEFT_OUT`.

    `reviewed` are ids of segments that reviewers were given or judged, `gold` of those that they judged right. No file is read.
    """
    recordings, segments = as_polars(recordings, "recordings"), conform(as_polars(segments, "segments"), SEGMENTS, "segments")
    hand = None if by_hand is None else as_polars(by_hand, "by_hand")
    frame = filtered(recordings, segments, parameters, by_hand=hand)
    fixed = fixed or fixed_splits(segments)
    frame = frame.hstack(fixed.rows[frame["row"]])
    fit = frame.filter(pl.col("reason").is_null()).drop("reason", "by_hand")
    budget, default = parameters.budget(), len(fit)
    if budget and default:
        default = default * min(budget.limit, budget.total(fit)) // budget.total(fit)
    rest = fit.filter(pl.col("fixed").is_null())
    is_gold = rest.select(_in(gold)).to_series() if parameters.gold else None
    if is_gold is not None:
        _check_gold(frame, gold, parameters, fixed)
    needed = still_needed(fit, parameters, default=min(2000, default // 20), gold=is_gold, fixed=fixed)
    optional = [name for name in HELD_OUT if getattr(parameters, name) is None and fixed.is_any]

    def divide_by(keys: Sequence[str]) -> pl.DataFrame:
        divided = assign_splits(
            rest,
            keys=keys,
            targets=needed,
            seed=parameters.seed,
            gold=is_gold,
            may_hold_out=rest["may_hold_out"],
            preset={key: fixed.preset(key) for key in keys if fixed.is_any},
            optional=optional,
        )
        divided = fit.select("row", "fixed").join(divided.with_columns(rest["row"]), on="row", how="left", maintain_order="left")
        divided = divided.select(pl.coalesce("fixed", "split").alias("split"), "reason")
        if not fixed.is_any and divided["reason"].null_count() < len(fit) and not (divided["split"] == "train").any():
            raise InputError(
                f"group_by: with no {' and no '.join(keys)} in two splits, dev and test leave nothing for train; "
                "group by fewer or other columns, or request less (dev=0, test=0)"
            )
        return divided

    def lost_share(divided: pl.DataFrame) -> float:
        kept = fit.filter(divided["reason"].is_null())
        if not budget:
            return (len(fit) - len(kept)) / max(len(fit), 1)
        # Losses are made up for by other segments, as long as there are more than fit into the budget.
        room = min(budget.limit, budget.total(fit))
        return (room - min(room, budget.total(kept))) / max(room, 1)

    try:
        grouping = choose_grouping(fit, parameters.group_by, divide_by=divide_by, lost_share=lost_share)
    except InputError as error:
        out = reasons_of(frame["reason"], parameters)
        raise InputError(f"{error}" + (f"; of {len(frame):,} segments the filters reject {out}" if out else "")) from error
    is_train = pl.lit(in_training(grouping.divided["split"]))
    fit = pl.concat([fit, grouping.divided], how="horizontal").with_columns(
        reason=pl.coalesce(pl.when(is_train).then("not_train"), "reason"), barred=is_train & _in(reviewed)
    )
    if budget:
        first = (pl.col("earlier").is_not_null(), _decided(hand)[0])
        kept = fit.filter(pl.col("reason").is_null())
        # An earlier version is as large as a budget that it leaves less of than the longest segment takes.
        used = budget.total(kept.filter((~in_training(kept["split"]) | first[0]) & ~pl.col("barred")))
        if len(fixed.earlier) and budget.limit - used < fit.select(budget.cost.max()).item():
            budget = budget._replace(limit=min(used, budget.limit))
        over = over_budget(kept, budget, seed=parameters.seed, first=first)
        fit = fit.with_columns(reason=pl.when(_in(over)).then(pl.lit("over_budget")).otherwise("reason"))
    fit = fit.with_columns(reason=pl.coalesce("reason", pl.when("barred").then(pl.lit("reviewed"))))
    left_out = [fit.filter(reason="reviewed"), frame.filter("by_hand").with_columns(split=pl.lit(None, dtype=pl.String))]
    reason = pl.coalesce("reason", "later")
    decided = (
        frame.select("row", "reason")
        .join(fit.select("row", "split", later="reason"), on="row", how="left")
        .sort("row")
        .select(
            split=pl.when(reason.is_null()).then("split"),
            decision=pl.when(reason.is_null()).then(pl.lit("accept")).otherwise(pl.lit("reject")).cast(SEGMENTS["decision"]),
            reason=reason,
        )
    )
    return segments.with_columns(decided), grouping, pl.concat(part.select("segment_id", "split", "reason") for part in left_out)


def _check_gold(frame: pl.DataFrame, gold: Collection[str], parameters: Parameters, fixed: FixedSplits) -> None:
    """Raise InputError if test is given, or no gold segment passes the filters."""
    if "test" in fixed.given_roles():
        raise InputError(f"gold: test is given by splits={parameters.splits}, and gold would fill it; leave one of the two out")
    own = frame.filter(_in(gold))
    if own["reason"].null_count() == 0:
        out = reasons_of(own["reason"], parameters)
        raise InputError(
            "gold: of the segments that pass the filters, reviewers judged none right as they are now; import verdicts first"
            + (f", or keep more; of those that they call right the filters reject {out}" if out else "")
        )


def still_needed(
    fit: pl.DataFrame, parameters: Parameters, *, default: int, gold: pl.Series | None, fixed: FixedSplits
) -> dict[str, Target]:
    """Return what test and dev need besides fixed segments; full if less than the longest is missing; `gold` is for the rest."""
    needed = {}
    roles = fit["fixed"].map_elements(split_role, return_dtype=pl.String)
    for name in HELD_OUT:
        own = fit.filter(roles == name)
        more = 0 if name in fixed.given_roles() else default - len(own)
        more = more if gold is None or name != "test" else int(gold.sum())
        target = parameters.target(name, default=len(own) + max(more, 0))
        have, spare = len(own), 1
        if target.unit == "micros":
            have, spare = int(own["micros"].sum()), fit.select(pl.col("micros").max().fill_null(0)).item()
        missing = target.amount - have
        needed[name] = target._replace(amount=0 if fixed.is_any and missing < spare else max(missing, 0))
    return needed


def filtered(
    recordings: pl.DataFrame, segments: pl.DataFrame, parameters: Parameters, *, by_hand: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Return segments sorted by id with `row` (in `segments`), `micros` (duration) and `reason`, the first filter that fails.

    `by_hand` is true for those that would pass the filters, had they not been rejected by hand.
    """
    keys = GROUPS if parameters.group_by is None else parameters.group_by
    usable_keys(segments, keys)
    recordings = conform(recordings, RECORDINGS, "recordings")
    preview = without_audio(recordings)
    rate = pl.Series("rate", [MICROSECONDS] * len(recordings), dtype=pl.Int64) if preview else recordings["sampling_rate"]
    limits = {"longest": parameters.max_duration, "shortest": parameters.min_duration}
    facts = recordings.select("recording_id", "num_channels", "num_samples", rate=rate.cast(pl.Int64)).with_columns(
        to_samples_column(pl.Series(name, [str(seconds)] * len(rate), dtype=pl.String), rate).alias(name)
        for name, seconds in limits.items()
    )
    own = ("segment_id", "recording_id", "speaker_id", "source_start", "source_end", "start_sample", "end_sample")
    # A text is empty if normalization leaves nothing.
    text = pl.coalesce(name for name in ("text_normalized", "text") if name in segments.columns).alias("text")
    conditions = _conditions(recordings, segments, parameters.where)
    frame = (
        segments.with_columns(source_channel(segments), text)
        .select(*dict.fromkeys((*own, "text", "source_channel", "similarity", *keys)), *conditions)
        .with_row_index("row")
        .join(facts, on="recording_id", how="left", maintain_order="left", validate="m:1")
        .sort("segment_id", "row")
    )
    if preview:
        frame = frame.with_columns(
            start_sample=to_samples_column(frame["source_start"], frame["rate"]),
            end_sample=to_samples_column(frame["source_end"], frame["rate"]),
        )
    length = pl.col("end_sample") - pl.col("start_sample")
    unplaced = length.is_null()
    accepted, rejected = _decided(by_hand)
    rules = {
        **tables.segment_failures(recordings),
        # Without audio, only invalid times and whole recordings leave a segment without samples.
        **({"no_times": unplaced & ~tables.whole_recording()} if preview else {}),
        "no_audio": unplaced if preview else unplaced | pl.col("num_samples").is_null(),
        "below_similarity": ~accepted & (pl.col("similarity").fill_nan(None) < parameters.min_similarity),
        "too_long": ~accepted & (length > pl.col("longest")),
        "too_short": length < pl.max_horizontal(pl.when(~accepted).then("shortest"), 1),
        **{met.name: ~accepted & ~pl.col(met.name) for met in conditions},
    }
    failed = pl.coalesce(pl.when(hit).then(pl.lit(name)) for name, hit in rules.items())
    return frame.select(
        "row",
        *dict.fromkeys(("segment_id", "recording_id", "speaker_id", "source_channel", *keys)),
        "start_sample",
        "end_sample",
        micros=(length * MICROSECONDS + pl.col("rate") - 1) // pl.col("rate"),
        reason=pl.coalesce(rejected, failed),
        by_hand=rejected.is_not_null() & failed.is_null(),
    )


def _conditions(recordings: pl.DataFrame, segments: pl.DataFrame, where: Sequence[str]) -> list[pl.Series]:
    """Return for each condition whether it is true of each segment; the name is the reason of those for which it is not."""
    # What an earlier selection decided is not a reason for this one.
    frame = segments.drop("split", "decision", "reason", "source_channel", strict=False) if where else segments
    frame = with_durations(frame, recordings.unique("recording_id", keep="first")) if where else frame
    return [condition_mask(frame, text, frame.columns).alias(f"where {text}") for text in dict.fromkeys(where)]


def _decided(by_hand: pl.DataFrame | None) -> tuple[pl.Expr, pl.Expr]:
    """Return expressions: whether people accept a segment, and the reason for which they reject it."""
    if by_hand is None or by_hand.is_empty():
        return _in(()), pl.lit(None, dtype=pl.String)
    rejected = by_hand.filter(pl.col("decision") == "reject")
    why = pl.col("segment_id").replace_strict(rejected["segment_id"], rejected["reason"], default=None, return_dtype=pl.String)
    return _in(by_hand.filter(pl.col("decision") == "accept")["segment_id"].to_list()), why


def _in(ids: Collection[str]) -> pl.Expr:
    return pl.col("segment_id").is_in(pl.Series(sorted(ids), dtype=pl.String).implode())
