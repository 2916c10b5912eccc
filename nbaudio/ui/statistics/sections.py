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
from nbaudio.proof.display import THRESHOLDS, describe_claim, selection_threshold
from nbaudio.proof.evidence import selection_claim
from nbaudio.selection.leakage import CHECK_MEANINGS, EXCEPTIONS
from nbaudio.storage.folders import folder_at
from nbaudio.storage.workspace import Workspace
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


def page_sections(path: str | Path, segments: pl.DataFrame, facts: Mapping[str, Any]) -> tuple[str, list[Section]]:
    """Return title and sections of the page, from the segments of `views.segments` and the facts of `stats`."""
    folder = folder_at(path)
    is_corpus = folder.exists(MANIFEST)
    notes = read_manifest(folder) if is_corpus else _workspace_notes(Workspace.open(path))
    kept = segments.filter(pl.col("decision") != "reject")
    found = [
        _overview(facts, notes["selection"]),
        _measures(segments, kept),
        _threshold(segments, notes["selection"]),
        _evidence(path, notes.get("evidence", {}), is_corpus=is_corpus),
        _splits(segments, facts),
        *_leakage(notes.get("leakage", {})),
        _rejected(segments),
        _vocabulary(kept),
    ]
    if is_corpus:
        found.append(Section("Shards", "The files of the corpus.", {}, _png(plots.shards(path))))
    return notes.get("about", {}).get("title") or str(path).rstrip("/").rpartition("/")[2], found


def _workspace_notes(workspace: Workspace) -> dict[str, Any]:
    """Return results of earlier steps from the reports of a workspace, as corpus.json holds those of a corpus."""
    selection = workspace.report("select").get("facts", {})
    names = {fact_key(check): check for check in CHECK_MEANINGS}
    leakage = {names.get(check, check): {"shared": number} for check, number in selection.get("leakage", {}).items()}
    return {"selection": selection, "leakage": leakage, "evidence": selection_claim(workspace)}


def _overview(facts: Mapping[str, Any], selection: Mapping[str, Any]) -> Section:
    counted = {name: facts[name] for name in ("segments_kept", "segments_rejected", "hours", "recordings", "speakers")}
    parameters = {name: value for name, value in selection.get("parameters", {}).items() if value not in (None, [])}
    return Section(
        "Overview",
        "What is kept, and what the selection was asked for." if parameters else "What is kept; nothing has been selected yet.",
        {"In all": _pairs(counted), **({"Selection": _pairs(parameters)} if parameters else {})},
    )


def _measures(segments: pl.DataFrame, kept: pl.DataFrame) -> Section:
    finite = {label: kept[name].filter(kept[name].is_finite()) for name, label in _MEASURES.items()}
    rows = [
        {"of what is kept": label, "segments": len(values)} | {name: values.quantile(q) for name, q in _QUANTILES.items()}
        for label, values in finite.items()
        if len(values)
    ]
    return Section(
        "Durations and similarity",
        "The plots show all segments, those that are out too; the table shows what is kept.",
        {"Quantiles": pl.DataFrame(rows)} if rows else {},
        _png(plots.scores(segments)),
    )


def _threshold(segments: pl.DataFrame, selection: Mapping[str, Any]) -> Section:
    used = selection_threshold(selection)
    shown = views.threshold_curve(segments).filter(pl.col("threshold").is_in([*THRESHOLDS, round(used, 2)]))
    shown = shown.with_columns((pl.col("segments_share", "hours_share") * 100).round(1))
    names = {"segments_share": "segments [%]", "hours_share": "hours [%]"}
    return Section(
        "Threshold",
        f"What a threshold on similarity alone would keep; {used:g} is marked.",
        {"Kept by threshold": shown.rename(names)},
        _png(plots.threshold(segments, used)),
    )


def _evidence(path: str | Path, evidence: Mapping[str, Any], *, is_corpus: bool) -> Section:
    if not evidence:
        return Section(
            "How right the labels are", "Not known: nobody has judged a sample. 'nbaudio review export' draws one.", {}
        )
    curve = pl.DataFrame(evidence.get("curve", []), infer_schema_length=None)
    claims = pl.DataFrame([describe_claim(row) for row in curve.iter_rows(named=True)], infer_schema_length=None)
    return Section(
        "How right the labels are",
        "What the reviewers' verdicts prove of all segments at or above a threshold on similarity, whether they are in or not.",
        {"Evidence": _pairs(describe_claim(evidence)), **({"By threshold": claims} if len(claims) else {})},
        _png(plots.claimed(curve) if is_corpus else plots.evidence(path)),
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


def _leakage(leakage: Mapping[str, Any]) -> Iterator[Section]:
    if not leakage:
        return
    # JSON has the checks in alphabetical order; columns that segments are grouped by come first here.
    checks = sorted(leakage.items(), key=lambda check: check[0] in CHECK_MEANINGS)
    columns = {"shared values": "shared", "segments of dev and test": "segments"}
    counted = [{"check": check} | {name: found.get(key) for name, key in columns.items()} for check, found in checks]
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
