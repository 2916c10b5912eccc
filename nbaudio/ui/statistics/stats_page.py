"""Sections of the statistics page, and the page as an .xlsx workbook.

Equal sections give a workbook of the same bytes.
"""

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from nbaudio.core.report import fact_key, fact_label, show
from nbaudio.core.report_words import TABLES
from nbaudio.corpus.diff import diff
from nbaudio.corpus.layout import CORPUS_JSON, read_corpus_info
from nbaudio.corpus.versions import find_base
from nbaudio.proof.claim_sentences import is_target_proven
from nbaudio.proof.evidence import (
    describe_claim,
    describe_parts,
    selection_claim,
)
from nbaudio.proof.proof_state import THRESHOLDS, ProofState, selection_threshold
from nbaudio.review.cell_escaping import Fragment, cell_text, new_workbook, put_fragments
from nbaudio.selection.leakage import CHECK_MEANINGS, EXCEPTIONS
from nbaudio.storage.folders import folder_at
from nbaudio.tables.split_names import ordered_splits
from nbaudio.text.characters import count_characters
from nbaudio.text.near_duplicates import sentences
from nbaudio.ui import plots, views
from nbaudio.ui.segment_rows import SegmentRows
from nbaudio.ui.statistics.examples import (
    FAULTS,
    NEAREST,
    REASONS,
    SPEAKERS,
    WORST,
    choose_examples,
    read_examples,
)
from nbaudio.ui.statistics.held_out import held_out_rates
from nbaudio.ui.statistics.page_html import Section
from nbaudio.ui.widgets.static_html import Clips

_MOST_ROWS = 20
_MOST_SPEAKERS = 10
_QUANTILES = {
    "least": 0.0,
    "5 %": 0.05,
    "25 %": 0.25,
    "median": 0.5,
    "75 %": 0.75,
    "95 %": 0.95,
    "most": 1.0,
}
_MEASURES = {
    "duration_s": "duration [s]",
    "similarity": "similarity",
    "wer": "word error rate",
    "cer": "character error rate",
}
_WIDEST = 60
_NARROWEST = 9
_LONGEST_NAME = 31


def page_sections(
    path: str | Path,
    segments: SegmentRows,
    facts: Mapping[str, Any],
    *,
    audio: bool = True,
    base: str | Path | None = None,
) -> tuple[str, list[Section]]:
    """Return the title and the sections of the page.

    They are made from the segments of `views.rows` and the facts of `stats`.
    """
    folder = folder_at(path)
    if folder.exists(CORPUS_JSON):
        state = None
        notes = read_corpus_info(folder)
        base = base or find_base(folder)
    else:
        state = ProofState.load(path)
        notes = _workspace_notes(state)
    kept_segments = segments.filter(pl.col("decision").ne_missing("reject"))
    clips = read_examples(path, state, segments, choose_examples(segments, state), audio=audio)

    sections = [
        _overview(facts, notes, segments),
        _measures(segments, kept_segments),
        *_signals(segments),
        _with_clips(_threshold(segments, notes["selection"]), clips, NEAREST, WORST),
        _with_clips(_evidence(notes.get("evidence", {}), state), clips, FAULTS),
        _with_clips(_splits(segments, facts), clips, SPEAKERS),
        *_leakage(notes.get("leakage", {})),
        _with_clips(_reasons(segments), clips, REASONS),
        _vocabulary(kept_segments),
        *_model(path, segments),
        *_since(base, path),
    ]
    if state is None:
        plot = plots.shards(path)
        sections.append(Section("Shards", "The files of the corpus.", {}, plot, plot.alt_text))
    for section in sections:
        if section.plot is not None:
            section.plot.place()  # once, for the page and the workbook
    title = notes.get("about", {}).get("title") or _last_name(path)
    return title, sections


def _with_clips(section: Section, clips: Mapping[str, Clips], *titles: str) -> Section:
    """Return a section with the examples of some findings, where there are any."""
    return replace(section, examples={title: clips[title] for title in titles if title in clips})


def _last_name(path: str | Path) -> str:
    """Return the last part of a path or URL."""
    return str(path).rstrip("/").rpartition("/")[2]


def _since(base: str | Path | None, path: str | Path) -> list[Section]:
    """Return the section on changes since an earlier version; nothing without one."""
    if base is None:
        return []
    changes = diff(base, path).facts
    amounts = ("segments", "hours", "speakers")
    rows = [
        {"what": kind, **{name: changes[kind][name] for name in amounts}}
        for kind in ("added", "removed", "moved", "changed")
    ]
    by_split = [
        {fact_label(name): value for name, value in row.items()} for row in changes["by_split"]
    ]
    tables = {"Changes": pl.DataFrame(rows), "By split": pl.DataFrame(by_split)}
    reasons = _reasons_of_changes(changes)
    if reasons:
        tables["Reasons"] = pl.DataFrame(reasons)
    if "shards" in changes:
        tables["Shards"] = _pairs(changes["shards"])
    if "evidence" in changes:
        claims = [
            {TABLES["evidence"].get(name, name): value for name, value in row.items()}
            for row in changes["evidence"]
        ]
        tables["Evidence before and after"] = pl.DataFrame(claims, infer_schema_length=None)
    headline = ", ".join(f"{row['segments']:,} {row['what']}" for row in rows)
    about = f"Compared with {_last_name(base)}."
    return [Section("Since the earlier version", about, tables, None, headline)]


def _reasons_of_changes(changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each reason why segments were added, removed or moved."""
    keys = {"added": "added_because", "removed": "removed_because", "moved": "moved_between"}
    return [
        {"what": kind, **row, "examples": ", ".join(row["examples"])}
        for kind, key in keys.items()
        for row in changes.get(key, [])
    ]


def _workspace_notes(state: ProofState) -> dict[str, Any]:
    """Return results of earlier steps from the reports of a workspace.

    They have the form in which corpus.json holds those of a corpus.
    """
    selection = state.workspace.report("select").get("facts", {})
    names = {fact_key(check): check for check in CHECK_MEANINGS}
    leakage = {
        names.get(check, check): {"shared": number}
        for check, number in selection.get("leakage", {}).items()
    }
    return {"selection": selection, "leakage": leakage, "evidence": selection_claim(state)}


def _overview(facts: Mapping[str, Any], notes: Mapping[str, Any], segments: SegmentRows) -> Section:
    """Return the section with amounts, precision, leakage and the parameters of the selection."""
    selection = notes["selection"]
    parameters = {
        name: value
        for name, value in selection.get("parameters", {}).items()
        if value not in (None, [])
    }
    hours, height = segments.read("duration_s").select(views.HOURS.sum(), pl.len()).row(0)
    share = f"{facts['segments_kept'] / height:.1%}" if height else "-"
    figures = [
        ("audio", show(facts["hours"], "hours"), ""),
        ("segments", show(facts["segments_kept"]), f"{facts['segments_rejected']:,} are out"),
        ("speakers", show(facts["speakers"]), ""),
        ("recordings", show(facts["recordings"]), ""),
        ("share kept", share, f"of the segments; {facts['hours'] / (hours or 1):.1%} of the hours"),
        ("right labels", *_headline_precision(notes.get("evidence", {}))),
        ("leakage", *_headline_leakage(notes.get("leakage", {}))),
    ]
    about = "Kept segments; nothing has been selected yet."
    tables = {}
    if parameters:
        about = "Kept segments, and the parameters of the selection."
        tables = {"Selection": _pairs(parameters)}
    return Section(
        "Overview",
        about,
        tables,
        figures=pl.DataFrame(
            figures, schema=dict.fromkeys(("what", "value", "note"), pl.String), orient="row"
        ),
    )


def _headline_precision(evidence: Mapping[str, Any]) -> tuple[str, str]:
    """Return the share of right labels, and what is proven about it or what is missing."""
    claim = evidence.get("selection", {})
    if claim.get("precision") is None:
        return (
            "not known",
            "No sample has been judged: 'nbaudio review export W --out sheet.xlsx' draws one",
        )
    return (
        f"{claim['precision']:.1%}",
        f"{claim['statement']} Is the target proven? {is_target_proven(claim)}",
    )


def _headline_leakage(leakage: Mapping[str, Any]) -> tuple[str, str]:
    """Return how many values splits share, and by which checks."""
    if not leakage:
        return "not known", "No split has been checked: 'nbaudio select W' does"
    shared = {check: counts["shared"] for check, counts in leakage.items() if counts.get("shared")}
    if not shared:
        return "none", "values that splits share"
    return show(sum(shared.values())), f"values that splits share: {', '.join(shared)}"


def _measures(segments: SegmentRows, kept_segments: SegmentRows) -> Section:
    """Return the section on durations, similarities and error rates."""
    finite = {
        label: kept_segments.read(name).filter(pl.col(name).is_finite())[name]
        for name, label in _MEASURES.items()
    }
    rows = [
        {"measure": label, "segments": len(values)}
        | {name: values.quantile(q) for name, q in _QUANTILES.items()}
        for label, values in finite.items()
        if len(values)
    ]
    about = "The plots show all segments, including rejected ones; the table shows kept ones."
    tables = {"Quantiles": pl.DataFrame(rows)} if rows else {}
    medians = "; ".join(f"{row['measure']}: median {show(row['median'])}" for row in rows)
    return Section("Durations and similarity", about, tables, plots.scores(segments), medians)


def _signals(segments: SegmentRows) -> Iterator[Section]:
    """Yield the section on what `measure` has written, if it has."""
    ranges = views.signals(segments)
    if ranges.is_empty():
        return
    percent = (pl.col("missing", "true") * 100).round(1)
    shown = ranges.with_columns(percent).rename(
        {"missing": "missing [%]", "p5": "5 %", "p95": "95 %", "true": "yes [%]"}
    )
    shares_of_yes = ", ".join(
        f"{row['signal']}: {row['true']:.1%}"
        for row in ranges.drop_nulls("true").iter_rows(named=True)
    )
    about = (
        "What the samples of all segments say, rejected ones included; "
        "docs/audio.md has the definitions."
    )
    plot = plots.signals(segments)
    medians = ranges.filter(signal="snr_db")["median"].drop_nulls().to_list()
    findings = [f"SNR: median {value:.1f} dB" for value in medians]
    if shares_of_yes:
        findings.append(shares_of_yes)
    finding = "; ".join(findings) or plot.alt_text
    yield Section("Audio signals", about, {"Distributions": shown}, plot, finding)


def _threshold(segments: SegmentRows, selection: Mapping[str, Any]) -> Section:
    """Return the section on what thresholds on similarity would keep."""
    used = selection_threshold(selection)
    shown = views.threshold_curve(segments).filter(
        pl.col("threshold").is_in([*THRESHOLDS, round(used, 2)])
    )
    shares = {"segments [%]": "segments_share", "hours [%]": "hours_share"}
    percent = {name: (pl.col(share) * 100).round(1) for name, share in shares.items()}
    shown = shown.select("threshold", "segments", "hours", **percent)
    plot = plots.threshold(segments, used)
    about = f"What a threshold on similarity alone would keep; {used:g} is marked."
    return Section(
        "Threshold", about, {"Kept by threshold": shown}, plot, plot.alt_text.rpartition(": ")[2]
    )


def _evidence(evidence: Mapping[str, Any], state: ProofState | None) -> Section:
    """Return the section on the proven precision; of a corpus there is no state."""
    title = "How right the labels are"
    claim = evidence.get("selection", {})
    if claim.get("precision") is None:
        return Section(
            title,
            "Unknown: no sample has been judged. 'nbaudio review export' draws one.",
            {},
            finding="unknown",
        )
    curve = pl.DataFrame(evidence.get("curve", []), infer_schema_length=None)
    tables = {"Evidence": _pairs(describe_claim(claim))}
    tables["By part and measure, each by itself"] = pl.DataFrame(
        describe_parts(evidence), infer_schema_length=None
    )
    tables["All segments at or above a threshold on similarity, kept or not"] = curve
    about = "What the verdicts prove about the clips that ship, whenever one looks."
    target = {"precision": claim["target"], "confidence": claim["confidence"]}
    if state:
        plot = plots.evidence(state, **target)
    else:
        plot = plots.claimed(curve, **target)
    return Section(title, about, tables, plot, " ".join(_headline_precision(evidence)))


def _splits(segments: SegmentRows, facts: Mapping[str, Any]) -> Section:
    """Return the section on the hours of splits and speakers."""
    rows = [
        {"split": split, **facts[split]}
        for split in ordered_splits(segments.read("split")["split"].unique())
        if split in facts
    ]
    speakers = views.speakers(segments)
    tables = {"Splits": pl.DataFrame(rows)} if rows else {}
    tables["Hours of speakers"] = speakers.head(_MOST_ROWS).with_columns(
        pl.col("speaker_id").fill_null("(not known)")
    )
    about = f"Hours by split; of {len(speakers):,} speakers, those with the most hours."
    hours = ", ".join(f"{row['split']} {show(row['hours'], 'hours')}" for row in rows)
    return Section(
        "Splits and speakers", about, tables, plots.splits(segments), hours or "no splits yet"
    )


def _reasons(segments: SegmentRows) -> Section:
    """Return the section on rejected segments."""
    reasons = views.reasons(segments)
    about = f"{reasons['segments'].sum():,} segments, by the first reason for their rejection."
    most = ", ".join(
        f"{reason}: {number:,}"
        for reason, number in reasons.select("reason", "segments").head(3).iter_rows()
    )
    return Section("What is out, and why", about, {"Reasons": reasons}, None, most or "nothing")


def _leakage(leakage: Mapping[str, Any]) -> Iterator[Section]:
    """Yield the section on values that splits share, if that was checked."""
    if not leakage:
        return
    # JSON has the checks in alphabetical order; columns that segments are grouped by come first
    # here.
    checks = sorted(leakage.items(), key=lambda check: check[0] in CHECK_MEANINGS)
    columns = {"shared values": "shared", "segments of dev and test": "segments"}
    counted = [
        {"check": check} | {name: counts.get(key) for name, key in columns.items()}
        for check, counts in checks
    ]
    listed = [
        {"check": check, **row}
        for check, counts in checks
        for row in counts.get("exceptions", [])[:_MOST_ROWS]
    ]
    about = "Each segment of dev and test was compared with all segments of the other splits."
    tables = {"Checks": pl.DataFrame(counted)}
    if listed:
        tables["First exceptions"] = pl.DataFrame(listed, schema=EXCEPTIONS)
    yield Section(
        "What the splits share", about, tables, None, " ".join(_headline_leakage(leakage))
    )


def _vocabulary(kept_segments: SegmentRows) -> Section:
    """Return the section on words and characters."""
    characters = count_characters(kept_segments.parts(("segment_id", "text")))
    words = pl.DataFrame(schema={"word": pl.String, "count": pl.UInt32})
    for part in kept_segments.parts(("text",)):
        words_of_texts = sentences(pl.col("text")).str.split(" ")
        words_of_part = part.select(word=words_of_texts).explode("word").drop_nulls()
        counts = [words, words_of_part.group_by("word").len("count")]
        words = pl.concat(counts).group_by("word").agg(pl.sum("count"))
    words = words.sort("count", "word", descending=[True, False])
    counted = {
        "words": int(words["count"].sum()),
        "different words": len(words),
        "of them said once": int((words["count"] == 1).sum()),
        "different characters": len(characters.counts),
        "of them neither letter, digit nor blank": len(characters.odd),
    }
    about = "Words of kept segments, in lower case and without punctuation; characters as they are."
    tables = {"Counts": _pairs(counted), "Most frequent words": words.head(_MOST_ROWS)}
    tables["Odd characters"] = characters.odd.head(_MOST_ROWS)
    finding = f"{counted['words']:,} words, {counted['different words']:,} different"
    return Section("Vocabulary", about, tables, None, finding)


def _model(path: str | Path, segments: SegmentRows) -> Iterator[Section]:
    """Yield the section on error rates of hypotheses, if there are any."""
    rates = {
        name: held_out_rates(path, segments, by=name)
        for name in ("split", "speaker_id", "duration")
    }
    if rates["split"].is_empty():
        return
    worst = rates["speaker_id"]["group"].unique(maintain_order=True).head(_MOST_SPEAKERS).implode()
    rates["speaker_id"] = rates["speaker_id"].filter(pl.col("group").is_in(worst))
    captions = {
        "split": "Error rates [%]",
        "speaker_id": "Speakers with the highest rates [%]",
        "duration": "By duration [%]",
    }
    percent = (cs.starts_with("wer", "cer") * 100).round(1)
    tables = {
        captions[name]: table.with_columns(percent).rename(lambda column: column.replace("_", " "))
        for name, table in rates.items()
    }
    heard = rates["split"].filter(pl.col("words") > 0).select("group", "hypothesis", "wer")
    about = (
        "Errors per word (WER) and character (CER) in held-out splits, "
        "or else in all segments, with 95 % intervals clustered by "
        "speaker; differences are to the first hypothesis. "
        "A selection by similarity with a hypothesis makes its rates too low."
    )
    finding = "; ".join(
        f"{group}, {hypothesis}: WER {wer:.1%}" for group, hypothesis, wer in heard.iter_rows()
    )
    yield Section("Model against label", about, tables, None, finding)


def _pairs(facts: Mapping[str, Any]) -> pl.DataFrame:
    """Return facts as a table with a row for each: its label, and its value as text."""
    rows = [{"what": fact_label(name), "value": show(value, name)} for name, value in facts.items()]
    return pl.DataFrame(rows, schema={"what": pl.String, "value": pl.String})


def write_workbook(title: str, sections: Sequence[Section]) -> bytes:
    """Return the bytes of an .xlsx file with a sheet for each section.

    The title is a property of the file, and heads each sheet.
    """
    out = io.BytesIO()
    with new_workbook(out, title) as book:
        styles = {
            "title": book.add_format({"bold": True, "font_size": 14}),
            "heading": book.add_format({"bold": True, "font_size": 11}),
            "names": book.add_format(
                {"bold": True, "bg_color": "#E7E6E6", "bottom": 1, "indent": 1}
            ),
            "names of numbers": book.add_format(
                {"bold": True, "bg_color": "#E7E6E6", "bottom": 1, "align": "right"}
            ),
            "text": book.add_format({"valign": "top", "align": "left", "indent": 1}),
            "font": book.add_format(),
            "long text": book.add_format(
                {"valign": "top", "align": "left", "indent": 1, "text_wrap": True}
            ),
            "whole": book.add_format({"valign": "top", "num_format": "#,##0"}),
            "number": book.add_format({"valign": "top", "num_format": "#,##0.000"}),
        }
        for section in sections:
            sheet = book.add_worksheet(re.sub(r"[\[\]:*?/\\']", " ", section.title)[:_LONGEST_NAME])
            sheet.hide_gridlines(2)
            sheet.set_landscape()
            sheet.fit_to_pages(1, 0)
            _write_section(sheet, title, section, styles)
    return out.getvalue()


def _write_section(sheet: Any, title: str, section: Section, styles: dict[str, Any]) -> None:
    """Write a section of the page to a sheet: its tables below each other, then its plot."""
    sheet.write_string(0, 0, cell_text(f"{title}: {section.title}"), styles["title"])
    sheet.write_string(1, 0, cell_text(section.about))
    row = 3
    widths = [_NARROWEST]
    tables = dict(section.tables)
    if section.figures is not None:
        tables = {"In all": section.figures, **tables}
    for caption, frame in tables.items():
        sheet.write_string(row, 0, cell_text(caption), styles["heading"])
        _write_table(sheet, row + 1, frame, styles)
        row += len(frame) + 4
        pairs = zip_longest(widths, _column_widths(frame), fillvalue=_NARROWEST)
        widths = [max(pair) for pair in pairs]
    for column, width in enumerate(widths):
        sheet.set_column(column, column, min(width, _WIDEST) + 3)
    if section.plot is not None:
        picture = {
            "image_data": io.BytesIO(section.plot._repr_png_()),
            "description": section.plot.alt_text,
        }
        sheet.insert_image(row, 0, "plot.png", picture)


def _write_table(sheet: Any, row: int, frame: pl.DataFrame, styles: dict[str, Any]) -> None:
    """Write the names of columns in a row of a sheet, and the rows of a table below."""
    for column, (name, dtype) in enumerate(frame.schema.items()):
        style = styles["names"]
        if dtype.is_numeric():
            style = styles["names of numbers"]
        sheet.write_string(row, column, cell_text(name), style)
    for number, values in enumerate(frame.iter_rows(), start=row + 1):
        for column, value in enumerate(values):
            _write_cell(sheet, number, column, value, styles)


def _column_widths(frame: pl.DataFrame) -> list[int]:
    """Return the characters of the longest name or value of each column."""
    return [
        max(len(name), *(len(show(value)) for value in frame[name]), _NARROWEST)
        for name in frame.columns
    ]


def _write_cell(sheet: Any, row: int, column: int, value: Any, styles: dict[str, Any]) -> None:
    """Write a value: numbers as numbers, all else, also NaN and nested values, as text."""
    if value is None:
        sheet.write_blank(row, column, None, styles["text"])
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        style = styles["whole"] if isinstance(value, int) else styles["number"]
        sheet.write_number(row, column, value, style)
    else:
        text = cell_text(show(value))
        style = styles["text"] if len(text) <= _WIDEST else styles["long text"]
        put_fragments(sheet, (row, column), [Fragment(text)], {False: styles["font"]}, style)
