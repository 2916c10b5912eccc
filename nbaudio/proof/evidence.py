"""The command `evidence`: report what the verdicts of a workspace prove, and what to review next."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core import tables
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, show
from nbaudio.core.tables import seconds_column
from nbaudio.proof.precision_curves import curve, min_sample_size
from nbaudio.proof.sampling_weights import Sample, weigh_rounds
from nbaudio.review.corrections import uncorrected
from nbaudio.review.rounds import JUDGED, Round, rounds
from nbaudio.review.sampling import draw, reviewable_segments
from nbaudio.review.state import ReviewState
from nbaudio.storage.workspace import Workspace

METHOD = (
    "Horvitz-Thompson estimate over all rounds; gamma intervals after Fay and Feuer (1997) with the variance of the strata; "
    "thresholds tested from above in a fixed order; unsure counts as wrong, except in upper bounds. See docs/evidence.md"
)
#: Thresholds on similarity that tables show.
THRESHOLDS = (-1.0, 0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
_LABELS = {
    "threshold": "threshold on similarity",
    "segments": "segments at or above it",
    "hours": "hours",
    "reviewed": "reviewed",
    "wrong": "of them wrong",
    "unsure": "of them unsure",
    "precision": "right, estimated share",
    "low": "lower bound",
    "high": "upper bound",
    "at_least": "lower bound, one-sided",
    "wanted": "wanted",
    "lowest proven": "lowest threshold that is proven",
    "method": "method",
}
_TOLD = ("threshold", "segments", "hours", "reviewed", "wrong", "unsure", "precision", "low", "high", "at_least")
_NEEDED = (*JUDGED, "speaker_id", "source_channel", "similarity", "decision", "reason")
_BANDS = (-1.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
_FIRST_ROUND = 300
_MOST_NEXT = 2000
_SHOWN_NEXT = 5
_NEARLY = 1e-6


@dataclass(frozen=True)
class ProofState(ReviewState):
    """Review state with the weighted sample of the reviews, computed once."""

    @cached_property
    def parts(self) -> tuple[list[Round], pl.DataFrame, str, Sample]:
        """The rounds, the segments that can be reviewed, the fingerprint of the corpus, and the sample of all durations."""
        suspicious = any(record.strategy == "suspicious" for record in self.records.values())
        # Only the strategy `suspicious` looks at word times, which are large.
        segments = tables.read(self.workspace, (*_NEEDED, *(["word_times"] if suspicious else [])))
        segments = uncorrected(self, segments)
        known, corpus = rounds(self, segments), self.workspace.fingerprint(segments["segment_id"])
        pool, _ = reviewable_segments(self.workspace, segments.drop("asr_text"))
        pool = pool.with_columns(seconds_column()).join(self.growth.select("segment_id", "added_in"), on="segment_id", how="left")
        pool = pool.with_columns(pl.col("added_in").fill_null(1))
        return known, pool, corpus, weigh_rounds(pool, known, corpus=corpus)

    def sample(self, min_duration: float = 0.0, max_duration: float = 20.0) -> Sample:
        """Return the sample of the segments of these durations."""
        _, pool, _, sample = self.parts
        fit = pool.filter(pl.col("duration_s").is_between(min_duration - _NEARLY, max_duration + _NEARLY))["segment_id"]
        population = sample.population.filter(pl.col("segment_id").is_in(fit.implode()))
        return Sample(population, sample.judged.join(population, on="segment_id", how="semi", maintain_order="left"))


def evidence(
    workspace: Workspace | str | Path,
    *,
    precision: float = 0.98,
    confidence: float = 0.95,
    min_duration: float = 0.0,
    max_duration: float = 20.0,
) -> Report:
    """Estimate the share of right labels above each threshold on similarity, as far as the reviews prove it.

    Args:
        workspace: the workspace or its folder.
        precision: the target share of right segments, in (0, 1).
        confidence: of the proof, in (0, 1).
        min_duration: shorter segments do not count, as in `select`; seconds.
        max_duration: longer segments do not count; seconds.

    Returns:
        What was reviewed; precision at the threshold of the last `select`, or 0.8; the lowest threshold proven to reach the
        target precision; how many more reviews a lower one takes, and which. The whole curve is in ``W/reports/evidence.json``.
        Its warnings say if the reviews prove nothing.

    Raises:
        InputError: there is no workspace, or a parameter is not usable.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> times = {"recording_id": "r", "source_start": ["0", "4"], "source_end": ["4", "9"]}
        >>> segments = pl.DataFrame({"segment_id": ["a", "b"], **times, "text": "da", "similarity": [0.9, 1.0]})
        >>> workspace.save(segments=segments, recordings=pl.DataFrame({"recording_id": ["r"]}))
        >>> evidence(workspace).warnings
        ['nothing has been judged yet: the quality of the labels is unknown']
    """
    state = ProofState.load(workspace)
    workspace = state.workspace
    if not 0 <= min_duration <= max_duration:
        given = f"min_duration={min_duration:g}, max_duration={max_duration:g}"
        raise InputError(f"{given}: must be 0 or more, and the second larger")
    known, pool, *_ = state.parts
    sample = state.sample(min_duration, max_duration)
    found = curve(sample, precision=precision, confidence=confidence)
    now, lowest = selection_threshold(workspace.report("select").get("facts", {})), _lowest(found)
    n, threshold = _next(found, now, precision=precision, confidence=confidence)
    upcoming = draw(pool, strategy="stratified", n=n, seed=42, threshold=threshold, rounds=known)["segment_id"].to_list()
    options = f"--strategy stratified --n {len(upcoming)} --threshold {threshold:g}"
    advice = f"nbaudio review export {shlex.quote(str(workspace.path))} --out NEXT.xlsx {options}"
    # Not all thresholds of a selection are on the grid of the curve.
    shown = [one for one in dict.fromkeys((now, lowest)) if one is not None]
    rows = curve(sample, precision=precision, confidence=confidence, thresholds=np.array(sorted(shown))).select(_TOLD)
    facts: dict[str, Any] = {
        "wanted": _wanted(precision, confidence),
        "rounds": [
            {"round": one.name, "strategy": one.strategy, "rows": len(one.rows), "reviewed": one.rows["verdict"].count()}
            for one in known
        ],
        "reviewed": {word: int((sample.judged["verdict"] == word).sum()) for word in ("right", "wrong", "unsure")},
        "of": {"segments": len(sample.population), "hours": sample.population["hours"].sum()},
        "reviewed_by_similarity": _by_similarity(sample),
        "thresholds": [rows.row(by_predicate=pl.col("threshold") == one, named=True) for one in shown],
        "lowest_proven": lowest,
        "review_next": advice if upcoming else "nothing: all segments have been drawn",
        "first_of_them": upcoming[:_SHOWN_NEXT],
        "method": METHOD,
    }
    least = min_sample_size(precision=precision, confidence=confidence)
    report = Report("evidence", facts, warnings=_warnings(state, sample, found, least=least))
    parameters = {"precision": precision, "confidence": confidence, "min_duration": min_duration, "max_duration": max_duration}
    workspace.save_report("evidence", {**report.to_dict(), "asked": parameters, "curve": found.to_dicts(), "next": upcoming})
    return report


def selection_claim(workspace: Workspace | str | Path | ReviewState) -> dict[str, Any]:
    """Return what the verdicts prove at or above the threshold of the last `select`, by the parameters of the last `evidence`."""
    state = ProofState.load(workspace)
    workspace = state.workspace
    if state.verdicts.is_empty():
        return {}
    parameters = dict(workspace.report("evidence").get("asked", {}))
    lengths = {name: parameters.pop(name) for name in ("min_duration", "max_duration") if name in parameters}
    sample = state.sample(**lengths)
    if sample.judged.is_empty():
        return {}
    used = selection_threshold(workspace.report("select").get("facts", {}))
    at = curve(sample, **parameters, thresholds=np.array([used])).filter(pl.col("segments") > 0).to_dicts()
    found = curve(sample, **parameters)
    few = found.filter(pl.col("threshold").round(2).is_in(THRESHOLDS) & (pl.col("segments") > 0))
    claim = {"wanted": _wanted(**parameters), "lowest proven": _lowest(found), "method": METHOD}
    return {**next(iter(at), {}), **claim, "curve": few.to_dicts()}


def describe_claim(claimed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a `selection_claim`, or a row of its curve, under readable names, the most important first."""
    return {label: claimed[name] for name, label in _LABELS.items() if name in claimed}


def selection_threshold(selection: Mapping[str, Any]) -> float:
    """Return the threshold on similarity from the facts of the report of `select`, 0.8 if there is none."""
    return float(selection.get("parameters", {}).get("min_similarity", 0.8))


def _wanted(precision: float = 0.98, confidence: float = 0.95) -> str:
    return f"{precision:.4g} right, with confidence {confidence:.4g}"


def _lowest(found: pl.DataFrame) -> float | None:
    """Return the lowest threshold that is proven."""
    return next(iter(found.filter("proven")["threshold"]), None)


def _by_similarity(sample: Sample) -> list[dict[str, Any]]:
    """Return how many segments of how many were reviewed, in a few bands of similarity."""

    def counts(frame: pl.DataFrame) -> list[int]:
        score = frame["similarity"]
        return [*np.histogram(score.drop_nulls(), [*_BANDS, np.inf])[0].tolist(), score.null_count()]

    names = [*(f"{low:g} to {high:g}" for low, high in pairwise(_BANDS)), "1", "none"]
    reviewed, there = counts(sample.judged), counts(sample.population)
    rows = zip(names, reviewed, there, strict=True)
    return [{"similarity": name, "reviewed": done, "segments": of} for name, done, of in rows if of]


def _next(found: pl.DataFrame, now: float, *, precision: float, confidence: float) -> tuple[int, float]:
    """Return how many reviews to suggest, and at which threshold: near the lowest one that is not proven and might be."""
    if not found["reviewed"].sum():
        return max(_FIRST_ROUND, 2 * min_sample_size(precision=precision, confidence=confidence)), now
    proven = _lowest(found)
    hopeful = found.filter(pl.col("more").is_not_null() & (pl.col("threshold") < (2.0 if proven is None else proven)))
    if hopeful.is_empty():
        return _FIRST_ROUND, now if proven is None else proven
    # A slightly lower threshold may cost far more reviews: take the cheapest one that loses at most 2 % of the hours.
    most_hours = hopeful.row(0, named=True)["hours"]
    best = hopeful.filter(pl.col("hours") >= 0.98 * most_hours).sort("more", "threshold").row(0, named=True)
    return min(_MOST_NEXT, max(_SHOWN_NEXT, best["more"])), best["threshold"]


def _warnings(state: ProofState, sample: Sample, found: pl.DataFrame, *, least: int) -> list[str]:
    known, _, corpus, _ = state.parts
    warnings = []
    if sample.judged.is_empty():
        warnings.append("nothing has been judged yet: the quality of the labels is unknown")
    elif not found["proven"].any():
        best = found.sort("at_least", "threshold", descending=True, nulls_last=True).row(0, named=True)
        warnings.append(
            f"no threshold is proven to reach the target precision; {best['threshold']:g}, the best, taken by itself keeps at "
            f"least {best['at_least']:.3f}. Even without an error {least:,} reviews are needed above a threshold"
        )
    if stale := [one.name for one in known if one.corpus != corpus and one.generation is None]:
        warnings.append(f"drawn from segments that have been replaced since, so they prove nothing: {', '.join(stale)}")
    skipped = "rows before the last judged one were skipped; they count as unsure"
    warnings += [f"{one.name}: {one.passed:,} {skipped}" for one in known if one.passed]
    changed = "judged rows have other words or times now; they count as unsure until they are judged again"
    warnings += [f"{one.name}: {one.changed:,} {changed}" for one in known if one.changed]
    if others := len(set(state.verdicts["segment_id"]).difference(*(one.judged_ids for one in known))):
        warnings.append(
            f"{others:,} judged segments were not drawn by a review, or are beyond where it stopped: their verdicts prove nothing"
        )
    unseen = int((sample.population["rate"] <= 0).sum())
    if len(sample.judged) and unseen:
        warnings.append(
            f"{unseen:,} of {len(sample.population):,} segments could not be drawn by any round that has verdicts: "
            "lower bounds count them as wrong, estimates leave them out"
        )
    if unsure := int((sample.judged["verdict"] == "unsure").sum()):
        warnings.append(f"{show(unsure)} unsure or contradictory: they count as wrong, in upper bounds as right")
    return warnings
