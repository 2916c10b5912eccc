"""Select segments for a corpus by filters, splits and a budget.

Each segment is accepted, or rejected with a reason. The first of these that applies is the reason:
rejected by hand, `tables.segment_failures`, the filters, `tables.LATER_REASONS`. Durations are
compared in samples (without audio, microseconds). No choice depends on the order of rows.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl

from nbaudio.core import allocator
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.review.manual_decisions import decisions
from nbaudio.review.risk import freeze
from nbaudio.review.rounds import JUDGED, gold_ids
from nbaudio.review.state import ReviewState, reviewed_by_review
from nbaudio.selection.avoid import AvoidedData, parameters_of, read_avoided, shared_with
from nbaudio.selection.filters import filtered, is_one_of
from nbaudio.selection.fixed_splits import FixedSplits, fixed_splits
from nbaudio.selection.given_splits import KEYS as GIVEN_BY
from nbaudio.selection.given_splits import GivenSplits, Splits, given_splits
from nbaudio.selection.grouping import AUTO, Grouping, choose_grouping
from nbaudio.selection.look_alikes import (
    TOGETHER,
    joined_speakers,
    with_joined_speakers,
)
from nbaudio.selection.near_held_out import NEAR_HELD_OUT, near_held_out
from nbaudio.selection.parameters import MIN_SIMILARITY, Parameters
from nbaudio.selection.select_report import (
    Selection,
    count_reasons,
    first_warnings,
    reasons_of,
    select_report,
)
from nbaudio.selection.size_budget import (
    PCM_BYTES_PER_SECOND,
    Budget,
    measure_bytes_per_second,
    rows_over_budget,
)
from nbaudio.sources.audio_folder import check_audio_folders
from nbaudio.sources.other_data import Other, split_address
from nbaudio.storage.urls import is_url, redact_url
from nbaudio.tables import rejection_reasons, workspace_tables
from nbaudio.tables.dataframes import STREAMED, Frame, as_polars
from nbaudio.tables.rejection_reasons import without_audio
from nbaudio.tables.row_values import RowHashes, row_hashes, with_values
from nbaudio.tables.rows import rows_on_disk
from nbaudio.tables.schemas import EARLIER_SPLITS, LEFT_OUT, SEGMENTS, conform
from nbaudio.tables.split_names import in_training
from nbaudio.tables.workspace import Workspace, locks_workspace
from nbaudio.text.speaker_names import SPEAKER

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
    look_alikes: str = TOGETHER,
    near_held_out: float = NEAR_HELD_OUT,
    avoid: Other | Sequence[Other] = (),
    avoid_by: Sequence[str] | str = (),
) -> Report:
    """Decide for every segment of a workspace whether it goes into the corpus and into which split.

    Args:
        workspace: the workspace, or its folder.
        min_similarity: minimum similarity of transcript and hypothesis, in [-1, 1]; segments
            without one pass. By default the threshold that was chosen in the tuner
            (`Workspace.threshold`), which the report then names, or 0.8.
        max_duration: maximum duration of a segment in seconds.
        min_duration: minimum duration of a segment in seconds.
        where: SQL conditions over the columns of the segments table and `duration_s`, such as
            ``wer_large < 0.2``; a segment for which one is not true (or null) is rejected, with the
            condition as its reason: ``where wer_large < 0.2``.
        splits: given splits, which stay as they are: ``"source"`` for the source's own
            (`source_split`), a table with `split` and one of segment_id, recording_id and
            speaker_id (or its path or URL), or an earlier corpus. Other segments are divided around
            them. The splits of earlier versions of a workspace that has grown are always kept.
        hours: budget of the whole corpus in hours: dev and test first, the rest for train, speakers
            in turns.
        disk: the same as bytes on disk, such as ``"900GB"``, for 16 kHz mono FLAC; give one of the
            two.
        dev: exact size of dev, a number of segments or hours such as ``"1.5h"``; the rest of the
            speakers that it cuts is left out. By default speakers are held out whole, the smallest
            first, until they have 5 % of the segments that the filters and the budget leave, or
            2000; who alone has three times as many is not held out. Segments whose split is given
            count; by default no others are added to them.
        test: the same for test.
        group_by: columns, none of whose values may be in two splits; a sequence, or names separated
            by commas; empty for none. ``"auto"`` takes speaker_id and recording_id, or speaker_id
            alone if both would lose more than 5 % of the segments; where there are earlier
            versions, their columns.
        seed: of all random choices.
        gold: fill test only with segments that reviewers judged right (see
            `nbaudio.review.rounds`), by default of all of them that pass the filters. Segments that
            share a value of `group_by` with them are rejected.
        look_alikes: ``"together"`` counts ids of speakers that differ only in case, blanks,
            punctuation, diacritics or leading zeros as one speaker, so that they are in one split;
            ``"apart"`` takes them for several.
        near_held_out: similarity, from 0.9 to 1, above which a sentence of dev or test keeps a
            segment out of train, also if the two are equal but for the last of six words or more;
            1 keeps none out.
        avoid: data of others, one or several: a corpus, a workspace, a dataset of Hugging Face, a
            manifest, a table or a text file with a sentence on each line, or its path or URL.
            Segments that share a sentence, a near sentence (see `near_held_out`) or audio with it
            are left out of train. Where it has held-out splits, only these count; ``OTHER:train``
            names others, ``OTHER:all`` takes all.
        avoid_by: columns whose values keep segments out of train, too: `speaker_id`,
            `recording_id`; a sequence, or names separated by commas.

    Returns:
        What is kept and why the rest is not, splits, leakage, budget. The decisions are in the
        workspace's segments.

    Raises:
        InputError: a parameter is invalid, or more is requested than there is.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp() + "/w", source="asr.json", audio=None)
        >>> rows = {"segment_id": ["a", "b"], "recording_id": ["r", "r"], "text": ["da", "ne"]}
        >>> times = {"source_start": ["0", "2"], "source_end": ["1", "3"]}
        >>> segments = pl.DataFrame({**rows, **times, "similarity": [0.9, 0.1]})
        >>> recordings = pl.DataFrame({"recording_id": ["r"]})
        >>> workspace.save(recordings=recordings, segments=segments)
        >>> select(workspace, dev=0, test=0).facts["rejected"]
        {'below_similarity': 1}
    """
    allocator.share_arenas()
    workspace = Workspace.open(workspace)
    recordings = workspace.recordings
    segments = workspace_tables.scan(workspace)
    requested = _requested_splits(workspace, segments, splits, look_alikes)
    avoided = _avoided(workspace, avoid, _names(avoid_by))
    parameters = Parameters(
        min_similarity=_first_threshold(min_similarity, workspace.threshold, MIN_SIMILARITY),
        max_duration=max_duration,
        min_duration=min_duration,
        where=_conditions(where),
        splits=_name_of_splits(splits),
        hours=hours,
        disk=disk,
        dev=dev,
        test=test,
        group_by=_grouping_columns(group_by, requested.fixed),
        seed=seed,
        gold=gold,
        look_alikes=look_alikes,
        near_held_out=near_held_out,
        **parameters_of(avoided),
    )
    if disk is not None and not without_audio(recordings):
        parameters = _with_measured_size(workspace, recordings, segments, parameters)
    state = ReviewState.load(workspace)
    reviews = reviewed_by_review(state)
    by_hand = decisions(workspace)
    gold_segments = _right_segments(state) if gold else ()
    decided = decide(
        recordings,
        segments,
        set().union(*reviews.values()),
        parameters,
        gold=gold_segments,
        by_hand=_with_planted(by_hand, workspace),
        fixed=requested.fixed,
        avoided=avoided,
    )
    selection = Selection(
        recordings=recordings,
        segments=with_values(segments.drop(decided.rows.columns), decided.rows),
        left_out=decided.left_out,
        parameters=parameters,
        grouping=decided.grouping,
        fixed=requested.fixed,
        reviews=reviews,
        by_hand=by_hand,
        avoided=avoided,
        shared=decided.shared,
    )
    report = _report(workspace, selection, requested.notes, min_similarity)
    _save(workspace, decided, report)
    return report


def _save(workspace: Workspace, decided: "Decisions", report: Report) -> None:
    """Write the decisions into the tables of a workspace, then the report."""
    workspace.save(**{LEFT_OUT: decided.left_out})
    workspace_tables.replace_columns(workspace, decided.rows)
    workspace.save_report("select", report.to_dict())


def _conditions(where: str | Sequence[str]) -> tuple[str, ...]:
    """Return one or several conditions as a tuple."""
    return (where,) if isinstance(where, str) else tuple(where)


def _avoided(
    workspace: Workspace, avoid: Other | Sequence[Other], by: Sequence[str]
) -> tuple[AvoidedData, ...]:
    """Read the data that is avoided; large data is on the disk meanwhile."""
    others = [*avoid] if isinstance(avoid, list | tuple) else [cast(Other, avoid)]
    if by and not others:
        raise InputError("avoid_by: needs other data; name it by avoid")
    for other in others:
        if isinstance(other, str | Path) and _is_workspace(split_address(str(other))[0], workspace):
            raise InputError(f"avoid={other}: is the workspace itself; name other data")
    with rows_on_disk(workspace.path):
        return read_avoided(others, by=by)


def _is_workspace(address: str, workspace: Workspace) -> bool:
    """Return whether a path is the folder of a workspace."""
    path = Path(address)
    return not is_url(address) and path.is_dir() and path.samefile(workspace.path)


def _names(names: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the names in a sequence, or in a text that is separated by commas."""
    listed = names.split(",") if isinstance(names, str) else names or ()
    return tuple(filter(None, map(str.strip, listed)))


def _first_threshold(*thresholds: float | None) -> float:
    """Return the first threshold that is set; the last one is."""
    return next(threshold for threshold in thresholds if threshold is not None)


def _name_of_splits(splits: Splits | None) -> str | None:
    """Return how parameters name given splits: without secrets, tables in memory as ``table``."""
    if splits is None:
        return None
    if isinstance(splits, str | Path):
        return redact_url(str(splits))
    return "table"


def _grouping_columns(
    group_by: Sequence[str] | str | None, fixed: FixedSplits
) -> tuple[str, ...] | None:
    """Return the columns to group by, None if `choose_grouping` is to choose.

    By default they are those of earlier versions.
    """
    columns = _names(group_by)
    if columns != (AUTO,):
        return columns
    return fixed.columns if len(fixed.earlier) else None


def _right_segments(state: ReviewState) -> set[str]:
    """Return the ids of the segments that reviewers judged right, and that are unchanged."""
    judged = workspace_tables.has_id(state.verdicts["segment_id"])
    return gold_ids(state, workspace_tables.read(state.workspace, JUDGED, where=judged))


def _report(
    workspace: Workspace, selection: Selection, notes: Sequence[str], min_similarity: float | None
) -> Report:
    """Return the report, with `notes` on given splits and what conditions and the tuner add.

    `min_similarity` is the option, None by default.
    """
    report = select_report(selection)
    report.warnings[:0] = first_warnings(workspace_tables.scan(workspace), notes)
    if risk_model := freeze(workspace, selection.parameters.where):
        report.facts["parameters"]["risk"] = risk_model
    if workspace.threshold is not None:
        _add_threshold(report, workspace.threshold, min_similarity)
    if missing := _no_longer_avoided(workspace, selection.parameters):
        report.warnings.append(
            f"the last select avoided {', '.join(missing)}, this one does not: what shares "
            "sentences with it may be in train now"
        )
    return report


def _no_longer_avoided(workspace: Workspace, parameters: Parameters) -> list[str]:
    """Return the data that the last selection avoided, and this one does not."""
    last = workspace.report("select").get("facts", {}).get("parameters", {})
    return [label for label in last.get("avoid", []) if label not in parameters.avoid]


def _add_threshold(report: Report, tuned: float, min_similarity: float | None) -> None:
    """Add the threshold that was chosen in the tuner to a report; a given one takes precedence."""
    if min_similarity is None:
        report.facts["threshold"] = f"similarity {tuned:g}, chosen in the tuner"
    elif tuned != min_similarity:
        report.warnings.append(
            f"similarity {tuned:g} was chosen in the tuner, but {min_similarity:g} was given and "
            "is used"
        )


@dataclass(frozen=True)
class _RequestedSplits:
    """Splits that are fixed by given ones and by earlier versions, and notes on given ones."""

    fixed: FixedSplits
    notes: tuple[str, ...]


def _requested_splits(
    workspace: Workspace, segments: pl.LazyFrame, splits: Splits | None, look_alikes: str
) -> _RequestedSplits:
    """Read the splits that are fixed, where ids of speakers may look alike."""
    has_earlier = os.path.lexists(workspace_tables.table_path(workspace, EARLIER_SPLITS))
    earlier = workspace.table(EARLIER_SPLITS) if has_earlier else None
    source_splits = GivenSplits(None)
    if splits is not None:
        schema = segments.collect_schema()
        names = [name for name in (*GIVEN_BY, "source_split") if name in schema]
        keys = workspace_tables.read(workspace, dict.fromkeys(names))
        source_splits = given_splits(keys, splits, earlier=earlier, look_alikes=look_alikes)
    versions = [table for table in (earlier, source_splits.corpus) if table is not None]
    before = pl.concat(versions, how="diagonal_relaxed") if versions else None
    joined = joined_speakers([segments, before], look_alikes)
    if before is not None:
        before = with_joined_speakers(before, joined)
    fixed = fixed_splits(
        with_joined_speakers(segments, joined),
        given_split=source_splits.split,
        earlier=before,
    )
    return _RequestedSplits(replace(fixed, joined_speakers=joined), source_splits.notes)


def _with_measured_size(
    workspace: Workspace,
    recordings: pl.DataFrame,
    segments: pl.LazyFrame,
    parameters: Parameters,
) -> Parameters:
    """Return the parameters with the bytes that a second of some clips takes.

    Raise InputError if their audio folder is not there.
    """
    root = workspace.audio
    if root is None:
        return parameters
    sample = _sample(recordings, segments, parameters)
    check_audio_folders(workspace, sample["recording_id"])
    measured = measure_bytes_per_second(sample, root)
    return replace(parameters, clip_size=measured or PCM_BYTES_PER_SECOND)


def _sample(
    recordings: pl.DataFrame, segments: pl.LazyFrame, parameters: Parameters
) -> pl.DataFrame:
    """Return the windows of some segments that pass the filters, by recording.

    Each row has what is needed to read its window.
    """
    frame = filtered(recordings, segments, parameters)
    rows = _collect(frame.filter(pl.col("reason").is_null()).select("row"))["row"]
    some = rows[
        row_hashes(segments)(rows, f"measure {parameters.seed}").arg_sort()[:_MEASURED_CLIPS]
    ]
    columns = ("recording_id", "start_sample", "end_sample", "source_channel")
    windows = _collect(frame.filter(pl.col("row").is_in(some.implode())).select(*columns)).cast(
        {"recording_id": pl.String, "source_channel": pl.String}
    )
    facts = recordings.select("recording_id", "path", "num_samples", "sampling_rate")
    return windows.join(facts, on="recording_id", how="left").sort("path", "start_sample")


@dataclass(frozen=True)
class Decisions:
    """Decisions on all segments.

    Attributes:
        rows: `split`, `decision` and `reason` of each segment, in the order of segments.
        left_out: the table `LEFT_OUT`.
        grouping: what the splits were grouped by.
        shared: segments that share something with data that is avoided, with `split` and `source`,
            the number of the data; and `shared`, what they share.
    """

    rows: pl.DataFrame
    left_out: pl.DataFrame
    grouping: Grouping
    shared: pl.DataFrame


def _with_planted(by_hand: pl.DataFrame, workspace: Workspace) -> pl.DataFrame:
    """Return decisions that also reject the segments that planted faults name, as `reviewed`.

    They are rejected before splits are divided, so that explicit sizes of splits stay exact.
    """
    planted_ids = workspace.planted_ids()
    planted = pl.DataFrame(
        {"segment_id": sorted(planted_ids)}, schema={"segment_id": pl.String}
    ).with_columns(
        decision=pl.lit("reject").cast(by_hand.schema["decision"]),
        reason=pl.lit("reviewed").cast(by_hand.schema["reason"]),
    )
    others = by_hand.filter(~pl.col("segment_id").is_in(planted["segment_id"].implode()))
    return pl.concat([others, planted.select(others.columns)])


def decide(
    recordings: Frame,
    segments: Frame | pl.LazyFrame,
    reviewed: Collection[str],
    parameters: Parameters,
    *,
    gold: Collection[str] = (),
    by_hand: Frame | None = None,
    fixed: FixedSplits | None = None,
    avoided: Sequence[AvoidedData] = (),
) -> Decisions:
    """Decide for each segment whether it goes into the corpus and into which split.

    `reviewed` are ids of segments that reviewers were given or judged, `gold` of those that they
    judged right, `by_hand` the decisions of people, `avoided` data of others. Raise InputError if a
    parameter does not fit the tables, or if more is requested than there is.
    """
    recordings = as_polars(recordings, "recordings")
    if not isinstance(segments, pl.LazyFrame):
        segments = conform(as_polars(segments, "segments"), SEGMENTS, "segments").lazy()
    people = None if by_hand is None else as_polars(by_hand, "by_hand")
    fixed = fixed or fixed_splits(segments)
    frame = filtered(recordings, segments, parameters, by_hand=people)
    judged = _collect(frame.select("reason", "by_hand"))
    needed = _needed(frame, parameters, fixed).with_columns(
        *fixed.values(), reviewed=is_one_of(reviewed), is_gold=is_one_of(gold)
    )
    passed = judged["reason"].is_null().alias("passed")
    fit = _collect(
        with_values(needed, [*fixed.rows, passed]).filter("passed").drop("segment_id", "passed")
    )
    if parameters.gold:
        _check_gold(segments, judged, gold, parameters, fixed)
    hashes = row_hashes(segments)
    grouping = _grouping(fit, judged, parameters, fixed, hashes)
    is_train = in_training(grouping.divided["split"])
    fit = _divided(fit, grouping.divided, is_train)
    shared = _shared(segments, recordings, fit, avoided, parameters)
    fit = _without_avoided(fit, shared, is_train)
    fit = _without_near_held_out(segments, fit, is_train, parameters)
    if budget := parameters.budget():
        if len(fixed.earlier):
            budget = _budget_of_growth(fit, budget)
        fit = _within_budget(fit, budget, parameters.seed, hashes)
    return _decisions(segments, judged, fit, grouping, shared)


def _check_gold(
    segments: pl.LazyFrame,
    judged: pl.DataFrame,
    gold: Collection[str],
    parameters: Parameters,
    fixed: FixedSplits,
) -> None:
    """Raise InputError if test cannot be filled with gold segments.

    Test is given, or no segment of `gold` passes the filters, whose reasons `judged` has.
    """
    reasons = with_values(segments.select("segment_id"), judged)
    gold_reasons = _collect(reasons.filter(is_one_of(gold)))["reason"]
    if "test" in fixed.given_roles():
        raise InputError(
            f"gold: test is given by splits={parameters.splits}, and gold would fill it; "
            "leave one of the two out"
        )
    if gold_reasons.null_count() == 0:
        remedy = "import verdicts first"
        if out := reasons_of(count_reasons(gold_reasons), parameters):
            remedy += f", or keep more; of those that they call right the filters reject {out}"
        raise InputError(
            "gold: of the segments that pass the filters, "
            f"reviewers judged none right as they are now; {remedy}"
        )


def _grouping(
    fit: pl.DataFrame,
    judged: pl.DataFrame,
    parameters: Parameters,
    fixed: FixedSplits,
    hashes: RowHashes,
) -> Grouping:
    """Divide the segments that pass the filters into splits.

    Raise InputError, with what the filters reject, if no grouping fills the splits.
    """
    try:
        return choose_grouping(fit, parameters, fixed, parameters.budget(), hashes)
    except InputError as error:
        out = reasons_of(count_reasons(judged["reason"]), parameters)
        rejected = ""
        if out:
            rejected = f"; of {len(judged):,} segments the filters reject {out}"
        raise InputError(f"{error}{rejected}") from error


def _budget_of_growth(fit: pl.DataFrame, budget: Budget) -> Budget:
    """Return the budget of a corpus that has earlier versions.

    It is the size of those, if the budget leaves less than the longest segment takes.
    """
    is_in = fit["reason"].is_null() & ~fit["barred"]
    is_earlier = fit["earlier"].is_not_null()
    used = budget.total(fit, is_in & (~in_training(fit["split"]) | is_earlier))
    if budget.limit - used < fit.select(budget.cost.max()).item():
        return budget._replace(limit=min(used, budget.limit))
    return budget


def _within_budget(fit: pl.DataFrame, budget: Budget, seed: int, hashes: RowHashes) -> pl.DataFrame:
    """Reject segments of train that exceed the budget: earlier and preferred ones come first."""
    over = rows_over_budget(
        fit.filter(fit["reason"].is_null()),
        budget,
        seed=seed,
        preferred=(pl.col("earlier").is_not_null(), pl.col("is_preferred")),
        hashes=hashes,
    )
    is_over = pl.col("row").is_in(over.implode())
    reason = pl.when(is_over).then(pl.lit("over_budget", dtype=pl.Categorical))
    return fit.with_columns(reason=reason.otherwise("reason"))


def _divided(fit: pl.DataFrame, divided: pl.DataFrame, is_train: pl.Series) -> pl.DataFrame:
    """Return the segments that pass the filters with their splits, and reasons of those without."""
    return fit.select(
        *("row", "micros", "earlier", "is_preferred", "speaker_id", "recording_id"),
        divided["split"],
        reason=pl.coalesce(pl.when(pl.lit(is_train)).then("not_train"), divided["reason"]),
        barred=is_train & fit["reviewed"],
        is_fixed=fit["fixed"].is_not_null(),
    )


def _shared(
    segments: pl.LazyFrame,
    recordings: pl.DataFrame,
    fit: pl.DataFrame,
    avoided: Sequence[AvoidedData],
    parameters: Parameters,
) -> pl.DataFrame:
    """Return what segments that have a split share with data that is avoided; see `Decisions`."""
    compared = fit["row"].filter(fit["reason"].is_null())
    shared = shared_with(avoided, segments, recordings, compared, parameters.near_held_out)
    return shared.join(fit.select("row", "split"), on="row", how="left", maintain_order="left")


def _without_avoided(fit: pl.DataFrame, shared: pl.DataFrame, is_train: pl.Series) -> pl.DataFrame:
    """Reject segments of train that share something with data that is avoided.

    That is also where their split is given, and where they were in an earlier version.
    """
    reasons = fit.select("row").join(shared, on="row", how="left", maintain_order="left")
    reason = pl.when(pl.lit(is_train)).then(pl.lit(reasons["shared"])).cast(pl.Categorical)
    return fit.with_columns(reason=pl.coalesce("reason", reason))


def _without_near_held_out(
    segments: pl.LazyFrame, fit: pl.DataFrame, is_train: pl.Series, parameters: Parameters
) -> pl.DataFrame:
    """Reject segments of train whose sentences are near held-out ones, unless they were in train.

    Segments of earlier versions, and those whose split is given, stay where they are.
    """
    is_in = fit["reason"].is_null()
    is_new = ~fit["is_fixed"] & fit["earlier"].is_null()
    near = near_held_out(
        segments,
        fit["row"].filter(is_in & ~is_train),
        fit["row"].filter(is_in & is_train & is_new & ~fit["barred"]),
        parameters.near_held_out,
    )
    is_near = pl.col("row").is_in(near.implode())
    reason = pl.when(is_near).then(pl.lit(rejection_reasons.NEAR_HELD_OUT, dtype=pl.Categorical))
    return fit.drop("is_fixed").with_columns(reason=reason.otherwise("reason"))


def _needed(frame: pl.LazyFrame, parameters: Parameters, fixed: FixedSplits) -> pl.LazyFrame:
    """Return the columns of `filtered` that splits and budgets need, with joined speakers."""
    unused = {"reason", "by_hand", "source_channel", "start_sample", "end_sample"} - {
        *(parameters.group_by or ())
    }
    joined = with_joined_speakers(frame.drop(unused), fixed.joined_speakers)
    return joined.cast({SPEAKER: pl.Categorical})


def _decisions(
    segments: pl.LazyFrame,
    judged: pl.DataFrame,
    fit: pl.DataFrame,
    grouping: Grouping,
    shared: pl.DataFrame,
) -> Decisions:
    """Return the decisions on all segments from those on `fit`, which pass the filters."""
    later = pl.coalesce("reason", pl.when("barred").then(pl.lit("reviewed", dtype=pl.Categorical)))
    passed = judged["reason"].is_null()
    place = pl.Series(np.cumsum(passed.to_numpy(), dtype=np.int32)) - 1
    places = pl.select(pl.when(passed).then(place)).to_series()
    rows = judged.with_columns(column.gather(places) for column in fit.select("split", later=later))
    reason = pl.coalesce("reason", "later")
    decision = (
        pl.when(reason.is_null())
        .then(pl.lit("accept", dtype=_DECISION))
        .otherwise(pl.lit("reject", dtype=_DECISION))
    )
    decided = rows.lazy().select(
        pl.when(reason.is_null()).then("split"), decision=decision, reason=reason
    )
    out = with_values(segments.select("segment_id"), rows).filter(
        pl.col("by_hand") | (pl.col("later") == "reviewed")
    )
    out = out.select(
        "segment_id", pl.col("split").cast(pl.String), reason.cast(pl.String), "by_hand"
    )
    left_out = _collect(out).sort("by_hand", "segment_id").drop("by_hand")
    return Decisions(_collect(decided), left_out, grouping, shared)


def _collect(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(**STREAMED)
