"""What goes into the corpus: filters, train, dev and test, a budget; every segment is in, or out with the rule that put it out.

Conventions: each call decides everything anew from the tables. What people decided (`review.deciding`) goes first: what they
reject is out for their reason, what they accept passes the filters on similarity and duration. The first rule that hits is the
reason: those of `tables.segment_failures`, then ``no_audio``, ``below_similarity``, ``too_long``, ``too_short``, then those of
`parameters.LATER_RULES`. Durations are compared in samples and summed in whole microseconds, never as floats; before any audio
has arrived a microsecond stands in for the sample. Choices follow hashes of ids and the seed, so they do not depend on the order
of rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from nbaudio.budget import MICRO, Budget, over_budget
from nbaudio.channels import own_channel
from nbaudio.errors import InputError
from nbaudio.frames import Frame, as_polars
from nbaudio.keys import hash_column
from nbaudio.leakage import GROUPS
from nbaudio.places.remote import Remote
from nbaudio.report import Report
from nbaudio.review.deciding import decisions
from nbaudio.review.log import seen_in
from nbaudio.review.rounds import JUDGED, gold_ids
from nbaudio.selection.grouping import AUTO, Grouping, choose_grouping
from nbaudio.selection.parameters import HELD_OUT, MIN_SIMILARITY, Parameters
from nbaudio.selection.reporting import reasons_of, select_report
from nbaudio.sizes import PCM, ClipSize, measure
from nbaudio.splits import divide, usable_keys
from nbaudio.tables import RECORDINGS, SEGMENTS, conform, parquet_schema, segment_failures, whole_recording, without_audio
from nbaudio.times import to_samples_column
from nbaudio.workspace import Workspace

_MEASURED_CLIPS = 64
# Most of a table's bytes; no rule looks at them unless splits are grouped by them.
_UNREAD = ("asr_text", "asr_text_normalized", "text_raw", "word_times")


def select(
    workspace: str | Path | Workspace,
    *,
    min_similarity: float | None = None,
    max_duration: float = 20.0,
    min_duration: float = 0.0,
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
        min_similarity: least similarity of transcript and hypothesis that is kept, in [-1, 1]; segments without any pass. Unless
            given, the one that was chosen in the tuner (`Workspace.threshold`), which the report then names, or 0.8.
        max_duration: longest segment that is kept, in seconds.
        min_duration: shortest segment that is kept, in seconds.
        hours: budget of the whole corpus in hours: dev and test first, the rest goes to train in turns over the speakers.
        disk: the same as bytes on disk, such as ``"900GB"``, for 16 kHz mono FLAC; give one of the two.
        dev: size of dev, a number of segments or hours such as ``"1.5h"``; by default 2000 segments, at most 5 % of those
            that the filters and the budget leave.
        test: the same for test.
        group_by: columns, none of whose values may be in two splits; a sequence, or names with commas between; empty for none.
            ``"auto"`` takes speaker_id and recording_id, or speaker_id alone where both would lose more than 5 % of the segments.
        seed: another one makes other choices.
        gold: test is made of segments alone that reviewers call right (see `nbaudio.review.rounds`); by default of all of them
            that pass the filters. What shares a value of `group_by` with them is out.

    Returns:
        What is kept and why the rest is not, splits, leakage, budget. The decisions are in the workspace's segments.

    Raises:
        InputError: a parameter is not allowed, or more is asked for than there is.

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
    columns = tuple(name.strip() for name in names if name.strip())
    tuned = workspace.threshold
    least = next((value for value in (min_similarity, tuned) if value is not None), MIN_SIMILARITY)
    parameters = Parameters(
        min_similarity=least,
        max_duration=max_duration,
        min_duration=min_duration,
        hours=hours,
        disk=disk,
        dev=dev,
        test=test,
        group_by=None if columns == (AUTO,) else columns,
        seed=seed,
        gold=gold,
    )
    recordings = workspace.recordings
    held = parquet_schema(workspace.path / "segments.parquet")
    segments = workspace.segment_columns(*(name for name in {**SEGMENTS, **held} if name not in _UNREAD or name in columns))
    if disk is not None:
        size = _clip_size(workspace.audio_root, recordings, segments, parameters)
        parameters = replace(parameters, clip_size=size)
    right = gold_ids(workspace, workspace.segment_columns(*JUDGED)) if gold else set()
    reviews = seen_in(workspace)
    by_hand = decisions(workspace)
    chosen, grouping = decide(recordings, segments, set().union(*reviews.values()), parameters, gold=right, by_hand=by_hand)
    report = select_report(
        workspace.path, recordings, chosen, parameters=parameters, grouping=grouping, reviews=reviews, by_hand=by_hand
    )
    if tuned is not None and min_similarity is None:
        report.facts["threshold"] = f"similarity {tuned:g}, chosen in the tuner"
    elif tuned is not None and tuned != min_similarity:
        report.warnings.append(f"similarity {tuned:g} was chosen in the tuner, but {least:g} was asked for and is used")
    workspace.replace_columns(chosen.select("split", "decision", "reason"))
    workspace.save_report("select", report.to_dict())
    return report


def choose(
    recordings: Frame,
    segments: Frame,
    reviewed: Collection[str],
    parameters: Parameters,
    *,
    gold: Collection[str] = (),
    by_hand: Frame | None = None,
) -> pl.DataFrame:
    """The decisions of `select`, without any file.

    Args:
        recordings: the recordings table.
        segments: the segments table.
        reviewed: ids of segments that reviewers were given or judged; they never go into train.
        parameters: what is asked for.
        gold: ids of segments that reviewers call right; where gold is asked for, test is made of them.
        by_hand: `segment_id`, `decision` and `reason` of what people accept or reject, as of `review.decisions`.

    Returns:
        `segments` in their order, each with `decision` accept and a `split`, or reject and a `reason`.

    Raises:
        InputError: more is asked for than there is.
    """
    return decide(recordings, segments, reviewed, parameters, gold=gold, by_hand=by_hand)[0]


def decide(
    recordings: Frame,
    segments: Frame,
    reviewed: Collection[str],
    parameters: Parameters,
    *,
    gold: Collection[str] = (),
    by_hand: Frame | None = None,
) -> tuple[pl.DataFrame, Grouping]:
    """As `choose`, and what the splits were grouped by.

    Raises:
        InputError: more is asked for than there is.
    """
    recordings, segments = as_polars(recordings, "recordings"), conform(as_polars(segments, "segments"), SEGMENTS, "segments")
    hand = None if by_hand is None else as_polars(by_hand, "by_hand")
    frame = filtered(recordings, segments, parameters, by_hand=hand)
    fit = frame.filter(pl.col("reason").is_null()).drop("reason")
    sizes = dict.fromkeys(HELD_OUT, _default_size(fit, parameters.budget()))
    is_gold = fit.select(_in(gold)).to_series() if parameters.gold else None
    if is_gold is not None:
        sizes["test"] = int(is_gold.sum())
        if not sizes["test"]:
            out = reasons_of(frame.filter(_in(gold))["reason"], parameters)
            raise InputError(
                "gold: of the segments that pass the filters, reviewers call none right as they are now; import verdicts first"
                + (f", or keep more; of those that they call right the filters put out {out}" if out else "")
            )
    targets = {split: parameters.target(split, default=size) for split, size in sizes.items()}
    budget = parameters.budget()

    def divide_by(keys: Sequence[str]) -> pl.DataFrame:
        divided = divide(fit, keys=keys, targets=targets, seed=parameters.seed, gold=is_gold)
        if divided["reason"].null_count() < len(fit) and not (divided["split"] == "train").any():
            raise InputError(
                f"group_by: with no {' and no '.join(keys)} in two splits, dev and test leave nothing for train; "
                "group by fewer or other columns, or ask for less (dev=0, test=0)"
            )
        return divided

    def lost_share(divided: pl.DataFrame) -> float:
        kept = fit.filter(divided["reason"].is_null())
        if not budget:
            return (len(fit) - len(kept)) / max(len(fit), 1)
        # What is lost leaves room for other segments, as long as there are more than the budget has room for.
        room = min(budget.limit, budget.total(fit))
        return (room - min(room, budget.total(kept))) / max(room, 1)

    try:
        grouping = choose_grouping(fit, parameters.group_by, divide_by=divide_by, lost_share=lost_share)
    except InputError as error:
        out = reasons_of(frame["reason"], parameters)
        raise InputError(f"{error}" + (f"; of {len(frame):,} segments the filters put out {out}" if out else "")) from error
    divided = grouping.divided
    reviewed_train = (pl.col("split") == "train") & _in(reviewed)
    fit = pl.concat([fit, divided], how="horizontal").with_columns(
        reason=pl.when(reviewed_train).then(pl.lit("reviewed")).otherwise("reason")
    )
    if budget:
        over = over_budget(fit.filter(pl.col("reason").is_null()), budget, seed=parameters.seed, first=_decided(hand)[0])
        fit = fit.with_columns(reason=pl.when(_in(over)).then(pl.lit("over_budget")).otherwise("reason"))
    decided = (
        frame.select("row", "reason")
        .join(fit.select("row", "split", later="reason"), on="row", how="left")
        .sort("row")
        .select("split", reason=pl.coalesce("reason", "later"))
    )
    kept = decided["reason"].is_null()
    chosen = segments.with_columns(
        pl.select(
            split=pl.when(kept).then(decided["split"]),
            decision=pl.when(kept).then(pl.lit("accept")).otherwise(pl.lit("reject")).cast(SEGMENTS["decision"]),
            reason=decided["reason"],
        )
    )
    return chosen, grouping


def filtered(
    recordings: pl.DataFrame, segments: pl.DataFrame, parameters: Parameters, *, by_hand: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Segments in order of their ids, and what the filters say of each.

    Returns:
        `row` (in `segments`), `segment_id`, `recording_id`, `speaker_id`, `source_channel`, the grouping keys, `start_sample`,
        `end_sample`, `micros` (duration in whole microseconds) and `reason` (the first filter that hits, null where none does).
    """
    keys = GROUPS if parameters.group_by is None else parameters.group_by
    usable_keys(segments, keys)
    recordings = conform(recordings, RECORDINGS, "recordings")
    preview = without_audio(recordings)
    rate = pl.Series("rate", [MICRO] * len(recordings), dtype=pl.Int64) if preview else recordings["sampling_rate"]
    facts = recordings.select(
        "recording_id",
        "num_channels",
        "num_samples",
        rate=rate.cast(pl.Int64),
        longest=_limit(parameters.max_duration, rate),
        shortest=_limit(parameters.min_duration, rate),
    )
    own = ("segment_id", "recording_id", "speaker_id", "source_start", "source_end", "start_sample", "end_sample")
    # A text of which normalisation leaves nothing is empty.
    text = pl.coalesce(name for name in ("text_normalized", "text") if name in segments.columns).alias("text")
    frame = (
        segments.with_columns(own_channel(segments), text)
        .select(*dict.fromkeys((*own, "text", "source_channel", "similarity", *keys)))
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
    unplaced = pl.col("start_sample").is_null() | pl.col("end_sample").is_null()
    accepted, rejected = _decided(by_hand)
    rules = {
        **segment_failures(recordings),
        # Without audio only times that are no times, and whole recordings, keep a segment from having a place.
        **({"no_times": unplaced & ~whole_recording()} if preview else {}),
        "no_audio": unplaced if preview else unplaced | pl.col("num_samples").is_null(),
        "below_similarity": ~accepted & (pl.col("similarity").fill_nan(None) < parameters.min_similarity),
        "too_long": ~accepted & (length > pl.col("longest")),
        "too_short": length < pl.max_horizontal(pl.when(~accepted).then("shortest"), 1),
    }
    return frame.select(
        "row",
        *dict.fromkeys(("segment_id", "recording_id", "speaker_id", "source_channel", *keys)),
        "start_sample",
        "end_sample",
        micros=(length * MICRO + pl.col("rate") - 1) // pl.col("rate"),
        reason=pl.coalesce(rejected, *(pl.when(hit).then(pl.lit(name)) for name, hit in rules.items())),
    )


def _decided(by_hand: pl.DataFrame | None) -> tuple[pl.Expr, pl.Expr]:
    """Of each segment, whether people accept it, and the reason for which they reject it."""
    if by_hand is None or by_hand.is_empty():
        return _in(()), pl.lit(None, dtype=pl.String)
    rejected = by_hand.filter(pl.col("decision") == "reject")
    why = pl.col("segment_id").replace_strict(rejected["segment_id"], rejected["reason"], default=None, return_dtype=pl.String)
    return _in(by_hand.filter(pl.col("decision") == "accept")["segment_id"].to_list()), why


def _limit(seconds: float, rate: pl.Series) -> pl.Series:
    return to_samples_column(pl.Series([str(seconds)] * len(rate), dtype=pl.String), rate)


def _in(ids: Collection[str]) -> pl.Expr:
    return pl.col("segment_id").is_in(pl.Series(sorted(ids), dtype=pl.String).implode())


def _default_size(fit: pl.DataFrame, budget: Budget | None) -> int:
    """2000 segments, or 5 % of what the filters and the budget leave where that is less."""
    size = len(fit)
    if budget and size:
        total = budget.total(fit)
        size = size * min(budget.limit, total) // total
    return min(2000, size // 20)


def _clip_size(root: Path | Remote | None, recordings: pl.DataFrame, segments: pl.DataFrame, parameters: Parameters) -> ClipSize:
    """What a clip takes, measured on a seeded sample of what the filters leave; the upper bound where there is no audio."""
    if root is None or without_audio(recordings):
        return PCM
    fit = filtered(recordings, segments, parameters).filter(pl.col("reason").is_null())
    order = hash_column(fit["segment_id"], f"measure {parameters.seed}").arg_sort()[:_MEASURED_CLIPS]
    facts = recordings.select("recording_id", "path", "num_samples", "sampling_rate")
    clips = (
        fit[order]
        .select("recording_id", "start_sample", "end_sample", "source_channel")
        .join(facts, on="recording_id", how="left")
    )
    return measure(clips.sort("path", "start_sample"), root) or PCM
