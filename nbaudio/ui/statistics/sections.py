"""Sections of the statistics page of a workspace or a corpus: tables and plots.

Tables are short, with the first rows of long ones, and have names for people. Nothing is escaped here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import fact_key, fact_label, show
from nbaudio.core.tables import SPLITS
from nbaudio.corpus.layout import MANIFEST, read_manifest
from nbaudio.proof.evidence import THRESHOLDS, ProofState, describe_claim, selection_claim, selection_threshold
from nbaudio.selection.leakage import CHECK_MEANINGS, EXCEPTIONS
from nbaudio.storage.folders import folder_at
from nbaudio.text import vocabulary
from nbaudio.text.near import sentences
from nbaudio.ui import plots, views

_MOST_ROWS = 20
_QUANTILES = {"least": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "most": 1.0}
_MEASURES = {"duration_s": "duration [s]", "similarity": "similarity", "wer": "word error rate", "cer": "character error rate"}


@dataclass(frozen=True)
class Section:
    """A part of the page: heading, a sentence about it, tables by caption, and a PNG or none."""

    title: str
    about: str
    tables: Mapping[str, pl.DataFrame]
    plot: bytes | None = None


@dataclass(frozen=True)
class _Notes:
    """Results of earlier steps: of a workspace from its reports, of a corpus from its corpus.json."""

    about: Mapping[str, Any]
    selection: Mapping[str, Any]
    leakage: Mapping[str, Any]
    evidence: Mapping[str, Any]
    state: ProofState | None  # of a workspace

    @classmethod
    def of(cls, path: str | Path) -> "_Notes":
        folder = folder_at(path)
        if folder.exists(MANIFEST):
            manifest = read_manifest(folder)
            about, leakage, evidence = (manifest.get(name, {}) for name in ("about", "leakage", "evidence"))
            return cls(about, manifest["selection"], leakage, evidence, None)
        state = ProofState.load(path)
        selection = state.workspace.report("select").get("facts", {})
        names = {fact_key(check): check for check in CHECK_MEANINGS}
        shared = {names.get(check, check): {"shared": number} for check, number in selection.get("leakage", {}).items()}
        return cls({}, selection, shared, selection_claim(state), state)


def page_sections(path: str | Path, segments: pl.DataFrame, facts: Mapping[str, Any]) -> tuple[str, list[Section]]:
    """Return title and sections of the page, from the segments of `views.segments` and the facts of `stats`."""
    notes = _Notes.of(path)
    kept = segments.filter(pl.col("decision") != "reject")
    found = [
        _overview(facts, notes),
        _measures(segments, kept),
        _threshold(segments, notes),
        *_evidence(notes),
        _splits(segments, facts),
        *_leakage(notes),
        _rejected(segments),
        _vocabulary(kept),
    ]
    if notes.state is None:
        found.append(Section("Shards", "The files of the corpus.", {}, _png(plots.shards(path))))
    return notes.about.get("title") or str(path).rstrip("/").rpartition("/")[2], found


def _overview(facts: Mapping[str, Any], notes: _Notes) -> Section:
    counted = {name: facts[name] for name in ("segments_kept", "segments_rejected", "hours", "recordings", "speakers")}
    parameters = {
        name: value for name, value in notes.selection.get("parameters", {}).items() if value is not None and value != []
    }
    return Section(
        "Overview",
        "What is kept, and what the selection was asked for." if parameters else "What is kept; nothing has been selected yet.",
        {"In all": _pairs(counted), **({"Selection": _pairs(parameters)} if parameters else {})},
    )


def _measures(segments: pl.DataFrame, kept: pl.DataFrame) -> Section:
    rows = []
    for name, label in _MEASURES.items():
        values = kept[name].filter(kept[name].is_finite())
        if len(values):
            rows.append(
                {"of what is kept": label, "segments": len(values)} | {q: values.quantile(at) for q, at in _QUANTILES.items()}
            )
    return Section(
        "Durations and similarity",
        "The plots show all segments, those that are out too; the table shows what is kept.",
        {"Quantiles": pl.DataFrame(rows)} if rows else {},
        _png(plots.scores(segments)),
    )


def _threshold(segments: pl.DataFrame, notes: _Notes) -> Section:
    used = selection_threshold(notes.selection)
    shown = (
        views.threshold_curve(segments)
        .filter(pl.col("threshold").is_in([*THRESHOLDS, round(used, 2)]))
        .with_columns((pl.col("segments_share", "hours_share") * 100).round(1))
    )
    names = {"segments_share": "segments [%]", "hours_share": "hours [%]"}
    return Section(
        "Threshold",
        f"What a threshold on similarity alone would keep; {used:g} is marked.",
        {"Kept by threshold": shown.rename(names)},
        _png(plots.threshold(segments, used)),
    )


def _evidence(notes: _Notes) -> Iterator[Section]:
    if not notes.evidence:
        yield Section("How right the labels are", "Not known: nobody has judged a sample. 'nbaudio review export' draws one.", {})
        return
    curve = pl.DataFrame(notes.evidence.get("curve", []), infer_schema_length=None)
    claims = pl.DataFrame([describe_claim(row) for row in curve.iter_rows(named=True)], infer_schema_length=None)
    yield Section(
        "How right the labels are",
        "What the reviewers' verdicts prove of all segments at or above a threshold on similarity, whether they are in or not.",
        {"Evidence": _pairs(describe_claim(notes.evidence)), **({"By threshold": claims} if len(claims) else {})},
        _png(plots.claimed(curve) if notes.state is None else plots.evidence(notes.state)),
    )


def _splits(segments: pl.DataFrame, facts: Mapping[str, Any]) -> Section:
    rows = [{"split": split, **facts[split]} for split in SPLITS if split in facts]
    spoken = views.speakers(segments)
    return Section(
        "Splits and speakers",
        f"Hours by split; of {len(spoken):,} speakers those with most.",
        {
            **({"Splits": pl.DataFrame(rows)} if rows else {}),
            "Hours of speakers": spoken.head(_MOST_ROWS).with_columns(pl.col("speaker_id").fill_null("(not known)")),
        },
        _png(plots.splits(segments)),
    )


def _leakage(notes: _Notes) -> Iterator[Section]:
    if not notes.leakage:
        return
    # JSON has the checks in alphabetical order; columns that segments are grouped by come first here.
    checks = sorted(notes.leakage.items(), key=lambda check: check[0] in CHECK_MEANINGS)
    counted = [
        {"check": check, "shared values": found["shared"], "segments of dev and test": found.get("segments")}
        for check, found in checks
    ]
    listed = [{"check": check, **row} for check, found in checks for row in found.get("exceptions", [])[:_MOST_ROWS]]
    yield Section(
        "What the splits share",
        "Each segment of dev and test was compared with all of the other splits.",
        {"Checks": pl.DataFrame(counted), **({"First exceptions": pl.DataFrame(listed, schema=EXCEPTIONS)} if listed else {})},
    )


def _rejected(segments: pl.DataFrame) -> Section:
    why = views.reasons(segments)
    return Section("What is out, and why", f"{why['segments'].sum():,} segments, by the first rule that hit.", {"Reasons": why})


def _vocabulary(kept: pl.DataFrame) -> Section:
    found = vocabulary(kept["text"], segment_ids=kept["segment_id"])
    said = kept.lazy().select(word=sentences(pl.col("text")).str.split(" ")).explode("word").drop_nulls()
    words = said.group_by("word").len("count").sort("count", "word", descending=[True, False]).collect()
    counted = {
        "words": int(words["count"].sum()),
        "different words": len(words),
        "of them said once": int((words["count"] == 1).sum()),
        "different characters": len(found.counts),
        "of them neither letter, digit nor blank": len(found.odd),
    }
    return Section(
        "Vocabulary",
        "Words of what is kept, in lower case and without punctuation; characters as they are.",
        {"Counts": _pairs(counted), "Most frequent words": words.head(_MOST_ROWS), "Odd characters": found.odd.head(_MOST_ROWS)},
    )


def _pairs(facts: Mapping[str, Any]) -> pl.DataFrame:
    rows = [{"what": fact_label(name), "value": show(value, name)} for name, value in facts.items()]
    return pl.DataFrame(rows, schema={"what": pl.String, "value": pl.String})


def _png(plot: plots.Plot) -> bytes:
    return plot._repr_png_()
