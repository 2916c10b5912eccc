"""What goes into the corpus: filters, train, dev and test, a budget; every segment is in, or out with the rule that put it out.

Conventions: each call decides everything anew from the tables. The first rule that hits is the reason: those of
`tables.segment_failures`, then ``no_audio``, ``below_similarity``, ``too_long``, ``too_short``, then `LATER_RULES`. Durations
are compared in samples and summed in whole microseconds, never as floats; before any audio has arrived a microsecond stands in
for the sample. Choices follow hashes of ids and the seed, so they do not depend on the order of rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.budget import MICRO, Budget, make_budget, over_budget
from nbaudio.channels import own_channel
from nbaudio.errors import InputError
from nbaudio.keys import hash_column
from nbaudio.leakage import GROUPS, leakage
from nbaudio.places import Remote
from nbaudio.report import Report
from nbaudio.review.rounds import gold_ids
from nbaudio.review.verdicts import seen_ids
from nbaudio.sizes import PCM, ClipSize, measure
from nbaudio.splits import Target, divide, parse_target, usable_keys
from nbaudio.tables import RECORDINGS, SEGMENTS, SPLITS, conform, segment_failures, whole_recording, with_durations
from nbaudio.times import to_samples_column
from nbaudio.workspace import Workspace

HELD_OUT = ("test", "dev")
"""The splits that are filled before train, in that order."""

LATER_RULES = ("reviewed", "crosses_splits", "beyond_split_size", "not_gold", "over_budget")
"""Reasons of segments that pass every filter and still are out."""

_MEASURED_CLIPS = 64
_COSTLY = 0.1


@dataclass(frozen=True)
class Parameters:
    """What `select` is asked for; see there.

    Raises:
        InputError: a value is not allowed; names it and what is.
    """

    min_similarity: float = 0.8
    max_duration: float = 20.0
    min_duration: float = 0.0
    hours: float | None = None
    disk: int | str | None = None
    dev: int | str | None = None
    test: int | str | None = None
    group_by: tuple[str, ...] = ("speaker_id", "recording_id")
    seed: int = 42
    gold: bool = False
    clip_size: ClipSize = PCM

    def __post_init__(self) -> None:
        _check_number("min_similarity", self.min_similarity, -1, 1)
        _check_number("max_duration", self.max_duration, 0, 1e6)
        _check_number("min_duration", self.min_duration, 0, float(self.max_duration))
        if self.hours is not None:
            _check_number("hours", self.hours, 0, 1e9)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise InputError(f"seed={self.seed!r}: must be a whole number")
        for split in HELD_OUT:
            self.target(split, default=0)
        self.budget()

    def target(self, split: str, *, default: int) -> Target:
        """The size asked for a split, `default` segments where none was."""
        asked = self.dev if split == "dev" else self.test
        return Target(default, "segments") if asked is None else parse_target(asked, split)

    def budget(self) -> Budget | None:
        """The budget asked for, if any."""
        return make_budget(hours=self.hours, disk=self.disk, clip_size=self.clip_size)


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise InputError(f"{name}={value!r}: must be a number from {low:g} to {high:g}")


def select(
    workspace: str | Path | Workspace,
    *,
    min_similarity: float = 0.8,
    max_duration: float = 20.0,
    min_duration: float = 0.0,
    hours: float | None = None,
    disk: int | str | None = None,
    dev: int | str | None = None,
    test: int | str | None = None,
    group_by: Sequence[str] | str | None = ("speaker_id", "recording_id"),
    seed: int = 42,
    gold: bool = False,
) -> Report:
    """Decide for every segment of a workspace whether it goes into the corpus and into which split.

    Args:
        workspace: the workspace, or its folder.
        min_similarity: least similarity of transcript and hypothesis that is kept, in [-1, 1]; segments without any pass.
        max_duration: longest segment that is kept, in seconds.
        min_duration: shortest segment that is kept, in seconds.
        hours: budget of the whole corpus in hours: dev and test first, the rest goes to train in turns over the speakers.
        disk: the same as bytes on disk, such as ``"900GB"``, for 16 kHz mono FLAC; give one of the two.
        dev: size of dev, a number of segments or hours such as ``"1.5h"``; by default 2000 segments, at most 5 % of those
            that the filters and the budget leave.
        test: the same for test.
        group_by: columns, none of whose values may be in two splits; a sequence, or names with commas between; empty for none.
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
    parameters = Parameters(
        min_similarity=min_similarity,
        max_duration=max_duration,
        min_duration=min_duration,
        hours=hours,
        disk=disk,
        dev=dev,
        test=test,
        group_by=tuple(name.strip() for name in names if name.strip()),
        seed=seed,
        gold=gold,
    )
    recordings, segments = workspace.recordings, workspace.segments
    if disk is not None:
        size = _clip_size(workspace.audio_root, recordings, segments, parameters)
        parameters = replace(parameters, clip_size=size)
    right = gold_ids(workspace, segments) if gold else set()
    chosen = choose(recordings, segments, seen_ids(workspace), parameters, gold=right)
    report = _report(recordings, chosen, parameters)
    workspace.save(segments=chosen)
    workspace.save_report("select", report.to_dict())
    return report


def choose(
    recordings: pl.DataFrame,
    segments: pl.DataFrame,
    reviewed: Collection[str],
    parameters: Parameters,
    *,
    gold: Collection[str] = (),
) -> pl.DataFrame:
    """The decisions of `select`, without any file.

    Args:
        recordings: the recordings table.
        segments: the segments table.
        reviewed: ids of segments that reviewers were given or judged; they never go into train.
        parameters: what is asked for.
        gold: ids of segments that reviewers call right; where gold is asked for, test is made of them.

    Returns:
        `segments` in their order, each with `decision` accept and a `split`, or reject and a `reason`.

    Raises:
        InputError: more is asked for than there is.
    """
    segments = conform(segments, SEGMENTS, "segments")
    frame = filtered(recordings, segments, parameters)
    fit = frame.filter(pl.col("reason").is_null()).drop("reason")
    keys, _ = usable_keys(fit, parameters.group_by)
    sizes = dict.fromkeys(HELD_OUT, _default_size(fit, parameters.budget()))
    is_gold = fit.select(_in(gold)).to_series() if parameters.gold else None
    if is_gold is not None:
        sizes["test"] = int(is_gold.sum())
        if not sizes["test"]:
            raise InputError(
                "gold: of the segments that pass the filters, reviewers call none right as they are now; import verdicts first"
            )
    targets = {split: parameters.target(split, default=size) for split, size in sizes.items()}
    divided = divide(fit, keys=keys, targets=targets, seed=parameters.seed, gold=is_gold)
    if divided["reason"].null_count() < len(fit) and not (divided["split"] == "train").any():
        raise InputError(
            f"group_by: with no {' and no '.join(keys)} in two splits, dev and test leave nothing for train; "
            "group by fewer or other columns, or ask for less (dev=0, test=0)"
        )
    reviewed_train = (pl.col("split") == "train") & _in(reviewed)
    fit = pl.concat([fit, divided], how="horizontal").with_columns(
        reason=pl.when(reviewed_train).then(pl.lit("reviewed")).otherwise("reason")
    )
    budget = parameters.budget()
    if budget:
        over = over_budget(fit.filter(pl.col("reason").is_null()), budget, seed=parameters.seed)
        fit = fit.with_columns(reason=pl.when(_in(over)).then(pl.lit("over_budget")).otherwise("reason"))
    decided = (
        frame.select("row", "reason")
        .join(fit.select("row", "split", later="reason"), on="row", how="left")
        .sort("row")
        .select("split", reason=pl.coalesce("reason", "later"))
    )
    kept = decided["reason"].is_null()
    return segments.with_columns(
        pl.select(
            split=pl.when(kept).then(decided["split"]),
            decision=pl.when(kept).then(pl.lit("accept")).otherwise(pl.lit("reject")).cast(SEGMENTS["decision"]),
            reason=decided["reason"],
        )
    )


def filtered(recordings: pl.DataFrame, segments: pl.DataFrame, parameters: Parameters) -> pl.DataFrame:
    """Segments in order of their ids, and what the filters say of each.

    Returns:
        `row` (in `segments`), `segment_id`, `recording_id`, `speaker_id`, `source_channel`, the grouping keys, `start_sample`,
        `end_sample`, `micros` (duration in whole microseconds) and `reason` (the first filter that hits, null where none does).
    """
    usable_keys(segments, parameters.group_by)
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
        .select(*dict.fromkeys((*own, "text", "source_channel", "similarity", *parameters.group_by)))
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
    rules = {
        **segment_failures(recordings),
        # Without audio only times that are no times, and whole recordings, keep a segment from having a place.
        **({"no_times": unplaced & ~whole_recording()} if preview else {}),
        "no_audio": unplaced if preview else unplaced | pl.col("num_samples").is_null(),
        "below_similarity": pl.col("similarity").fill_nan(None) < parameters.min_similarity,
        "too_long": length > pl.col("longest"),
        "too_short": length < pl.max_horizontal("shortest", 1),
    }
    return frame.select(
        "row",
        *dict.fromkeys(("segment_id", "recording_id", "speaker_id", "source_channel", *parameters.group_by)),
        "start_sample",
        "end_sample",
        micros=(length * MICRO + pl.col("rate") - 1) // pl.col("rate"),
        reason=pl.coalesce(pl.when(hit).then(pl.lit(name)) for name, hit in rules.items()),
    )


def without_audio(recordings: pl.DataFrame) -> bool:
    """Whether no recording is there yet, so that a selection is a preview by the source's own times."""
    return recordings["num_samples"].null_count() == len(recordings)


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


def _report(recordings: pl.DataFrame, chosen: pl.DataFrame, parameters: Parameters) -> Report:
    """What `choose` decided, counted."""
    timed = with_durations(chosen, recordings).with_columns(micros=(pl.col("duration_s") * MICRO).round())
    kept = timed.filter(pl.col("split").is_not_null())
    lost = timed.filter(pl.col("reason").is_in(["crosses_splits", "beyond_split_size", "not_gold"]))
    rejected = chosen["reason"].drop_nulls().value_counts().sort("count", "reason", descending=[True, False])
    leaks = leakage(chosen, keys=tuple(dict.fromkeys((*GROUPS, *parameters.group_by))))
    facts: dict[str, Any] = {
        "segments": len(chosen),
        "kept": len(kept),
        "hours": _hours(kept),
        **{split: _counts(kept.filter(pl.col("split") == split)) for split in SPLITS},
        "rejected": dict(rejected.iter_rows()),
        "leakage": {check.removesuffix("_id"): shared for check, shared in leaks.select("check", "shared").iter_rows()},
        "lost to grouping": {"segments": len(lost), "hours": _hours(lost)},
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
    facts["parameters"]["group_by"] = list(parameters.group_by)
    return Report("select", facts, warnings=_warnings(timed, preview=without_audio(recordings), parameters=parameters))


def _warnings(timed: pl.DataFrame, *, preview: bool, parameters: Parameters) -> list[str]:
    """What is worth knowing of a selection though it was made."""
    found = []
    counts: dict[str | None, int] = dict(timed["reason"].value_counts().iter_rows())
    after_filters = timed.filter(pl.col("reason").is_null() | pl.col("reason").is_in(LATER_RULES))
    kept = after_filters.filter(pl.col("reason").is_null())
    if preview:
        found.append("no audio yet: a preview by the source's times; windows past the end of a recording are not seen")
    unscored = after_filters["similarity"].fill_nan(None).null_count()
    if unscored:
        found.append(f"{unscored:,} segments have no similarity and passed that filter")
    for key in parameters.group_by:
        missing = after_filters[key].null_count()
        if missing and missing == len(after_filters):
            found.append(f"{key} is empty: nothing is grouped by it")
        elif missing:
            found.append(f"{missing:,} segments have no {key} and are not grouped by it")
    if len(kept) and not (kept["split"] == "train").any():
        found.append("train is empty")
    lost = counts.get("crosses_splits", 0)
    over_budget = counts.get("over_budget", 0)
    if lost > _COSTLY * len(after_filters) and not over_budget:
        single = max(parameters.group_by, key=lambda key: after_filters[key].n_unique())
        found.append(
            f"grouping by {', '.join(parameters.group_by)} costs {lost:,} segments ({lost / len(after_filters):.0%}, reason "
            f"crosses_splits); grouping by a single one, such as group_by={single!r}, costs none of them"
        )
    if parameters.budget() and not over_budget and len(kept):
        found.append("the budget is not reached: everything that passed is kept")
    return found


def _hours(timed: pl.DataFrame) -> float:
    return round(float(timed["duration_s"].sum()) / 3600, 4)


def _counts(part: pl.DataFrame) -> dict[str, Any]:
    return {"segments": len(part), "hours": _hours(part), "speakers": part["speaker_id"].drop_nulls().n_unique()}
