"""Statistics page of a workspace or a corpus: its sections of tables and plots, as one HTML page or as an .xlsx workbook.

Tables are short, with the first rows of long ones, and have names for people. The page loads and runs nothing: every text is
escaped, cells isolate their direction, and a content security policy forbids all but its own style and pictures. In the workbook
texts are typed strings, which never become formulas, numbers or links; equal sections give equal bytes.
"""

import io
import math
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import fact_key, fact_label, show
from nbaudio.core.tables import SPLITS
from nbaudio.corpus.layout import CORPUS_JSON, read_corpus_info
from nbaudio.proof.evidence import THRESHOLDS, ProofState, describe_claim, selection_claim, selection_threshold
from nbaudio.review.cell_escaping import cell_text, new_workbook, put_fragments
from nbaudio.selection.leakage import CHECK_MEANINGS, EXCEPTIONS
from nbaudio.storage.folders import folder_at
from nbaudio.text import vocabulary
from nbaudio.text.near_duplicates import sentences
from nbaudio.ui import plots, views
from nbaudio.ui.widgets.static_html import table

_MOST_ROWS = 20
_QUANTILES = {"least": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "most": 1.0}
_MEASURES = {"duration_s": "duration [s]", "similarity": "similarity", "wer": "word error rate", "cer": "character error rate"}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1f1f1f; background: #fff }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.7rem; overflow-wrap: anywhere }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; border-bottom: 2px solid #0072B2 }
h3 { font-size: 1rem; margin: .8rem 0 .3rem }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem }
nav a { color: #00557F }
p { margin: .4rem 0; max-width: 60rem }
figure { margin: 1rem 0 }
img { max-width: 100%; height: auto }
.tables { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; align-items: flex-start }
.tables > div { max-width: 100%; overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd }
th { background: #eef3f6 }
td { max-width: 34rem; unicode-bidi: isolate; font-variant-numeric: tabular-nums }
@media print { nav { display: none } h2, h3 { break-after: avoid } figure, tr { break-inside: avoid } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_WIDEST, _NARROWEST = 60, 9
_LONGEST_NAME = 31


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
    state = None if folder.exists(CORPUS_JSON) else ProofState.load(path)
    notes = _workspace_notes(state) if state else read_corpus_info(folder)
    kept, why = segments.filter(pl.col("decision") != "reject"), views.reasons(segments)
    found = [
        _overview(facts, notes["selection"]),
        _measures(segments, kept),
        _threshold(segments, notes["selection"]),
        _evidence(notes.get("evidence", {}), state),
        _splits(segments, facts),
        *_leakage(notes.get("leakage", {})),
        Section(
            "What is out, and why", f"{why['segments'].sum():,} segments, by the first rule that rejects them.", {"Reasons": why}
        ),
        _vocabulary(kept),
    ]
    if state is None:
        found.append(Section("Shards", "The files of the corpus.", {}, plots.shards(path)._repr_png_()))
    return notes.get("about", {}).get("title") or str(path).rstrip("/").rpartition("/")[2], found


def _workspace_notes(state: ProofState) -> dict[str, Any]:
    """Return results of earlier steps from the reports of a workspace, as corpus.json holds those of a corpus."""
    selection = state.workspace.report("select").get("facts", {})
    names = {fact_key(check): check for check in CHECK_MEANINGS}
    leakage = {names.get(check, check): {"shared": number} for check, number in selection.get("leakage", {}).items()}
    return {"selection": selection, "leakage": leakage, "evidence": selection_claim(state)}


def _overview(facts: Mapping[str, Any], selection: Mapping[str, Any]) -> Section:
    counted = {name: facts[name] for name in ("segments_kept", "segments_rejected", "hours", "recordings", "speakers")}
    parameters = {name: value for name, value in selection.get("parameters", {}).items() if value not in (None, [])}
    return Section(
        "Overview",
        "Kept segments, and the parameters of the selection." if parameters else "Kept segments; nothing has been selected yet.",
        {"In all": _pairs(counted), **({"Selection": _pairs(parameters)} if parameters else {})},
    )


def _measures(segments: pl.DataFrame, kept: pl.DataFrame) -> Section:
    finite = {label: kept[name].filter(kept[name].is_finite()) for name, label in _MEASURES.items()}
    rows = [
        {"measure": label, "segments": len(values)} | {name: values.quantile(q) for name, q in _QUANTILES.items()}
        for label, values in finite.items()
        if len(values)
    ]
    return Section(
        "Durations and similarity",
        "The plots show all segments, including rejected ones; the table shows kept ones.",
        {"Quantiles": pl.DataFrame(rows)} if rows else {},
        plots.scores(segments)._repr_png_(),
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
        plots.threshold(segments, used)._repr_png_(),
    )


def _evidence(evidence: Mapping[str, Any], state: ProofState | None) -> Section:
    if not evidence:
        return Section("How right the labels are", "Unknown: no sample has been judged. 'nbaudio review export' draws one.", {})
    curve = pl.DataFrame(evidence.get("curve", []), infer_schema_length=None)
    thresholds = pl.DataFrame([describe_claim(row) for row in curve.iter_rows(named=True)], infer_schema_length=None)
    return Section(
        "How right the labels are",
        "What the verdicts prove about all segments at or above a threshold on similarity, kept or not.",
        {"Evidence": _pairs(describe_claim(evidence)), **({"By threshold": thresholds} if len(thresholds) else {})},
        (plots.evidence(state) if state else plots.claimed(curve))._repr_png_(),
    )


def _splits(segments: pl.DataFrame, facts: Mapping[str, Any]) -> Section:
    rows = [{"split": split, **facts[split]} for split in SPLITS if split in facts]
    spoken = views.speakers(segments)
    tables = {"Splits": pl.DataFrame(rows)} if rows else {}
    tables["Hours of speakers"] = spoken.head(_MOST_ROWS).with_columns(pl.col("speaker_id").fill_null("(not known)"))
    about = f"Hours by split; of {len(spoken):,} speakers, those with the most hours."
    return Section("Splits and speakers", about, tables, plots.splits(segments)._repr_png_())


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
        "Each segment of dev and test was compared with all segments of the other splits.",
        {"Checks": pl.DataFrame(counted), **({"First exceptions": pl.DataFrame(listed, schema=EXCEPTIONS)} if listed else {})},
    )


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
        "Words of kept segments, in lower case and without punctuation; characters as they are.",
        {"Counts": _pairs(counted), "Most frequent words": words.head(_MOST_ROWS), "Odd characters": found.odd.head(_MOST_ROWS)},
    )


def _pairs(facts: Mapping[str, Any]) -> pl.DataFrame:
    rows = [{"what": fact_label(name), "value": show(value, name)} for name, value in facts.items()]
    return pl.DataFrame(rows, schema={"what": pl.String, "value": pl.String})


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return the page, with the title as its heading."""
    links = "".join(f'<a href="#{number}">{escape(section.title)}</a>' for number, section in enumerate(sections))
    parts = "".join(_section(number, section) for number, section in enumerate(sections))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n'
        f'<body>\n<h1 dir="auto">{escape(title)}</h1>\n<nav>{links}</nav>\n{parts}</body>\n</html>\n'
    )


def _section(number: int, section: Section) -> str:
    plot = ""
    if section.plot is not None:
        data = b64encode(section.plot).decode()
        plot = (
            f'<figure><img src="data:image/png;base64,{data}" alt="{escape(section.title)}: {escape(section.about)}"></figure>\n'
        )
    tables = "".join(
        f"<div><h3>{escape(caption)}</h3>{table(frame)._repr_html_()}</div>\n" for caption, frame in section.tables.items()
    )
    return (
        f'<section id="{number}">\n<h2>{escape(section.title)}</h2>\n<p>{escape(section.about)}</p>\n{plot}'
        f'<div class="tables">\n{tables}</div>\n</section>\n'
    )


def write_workbook(title: str, sections: Sequence[Section]) -> bytes:
    """Return the bytes of an .xlsx file, a sheet for each section; the title is a property of the file and heads each sheet."""
    out = io.BytesIO()
    with new_workbook(out, title) as book:
        styles = {
            "title": book.add_format({"bold": True, "font_size": 14}),
            "heading": book.add_format({"bold": True, "font_size": 11}),
            "names": book.add_format({"bold": True, "bg_color": "#E7E6E6", "bottom": 1, "indent": 1}),
            "names of numbers": book.add_format({"bold": True, "bg_color": "#E7E6E6", "bottom": 1, "align": "right"}),
            "text": book.add_format({"valign": "top", "align": "left", "indent": 1}),
            "font": book.add_format(),
            "long text": book.add_format({"valign": "top", "align": "left", "indent": 1, "text_wrap": True}),
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
    sheet.write_string(0, 0, cell_text(f"{title}: {section.title}"), styles["title"])
    sheet.write_string(1, 0, cell_text(section.about))
    row, widths = 3, [_NARROWEST]
    for caption, frame in section.tables.items():
        sheet.write_string(row, 0, cell_text(caption), styles["heading"])
        for column, (name, kind) in enumerate(frame.schema.items()):
            sheet.write_string(row + 1, column, cell_text(name), styles["names of numbers" if kind.is_numeric() else "names"])
        for number, values in enumerate(frame.iter_rows(), start=row + 2):
            for column, value in enumerate(values):
                _write_cell(sheet, number, column, value, styles)
        row += len(frame) + 4
        needed = [max(len(name), *(len(show(value)) for value in frame[name]), _NARROWEST) for name in frame.columns]
        widths = [max(pair) for pair in zip_longest(widths, needed, fillvalue=_NARROWEST)]
    for column, width in enumerate(widths):
        sheet.set_column(column, column, min(width, _WIDEST) + 3)
    if section.plot is not None:
        sheet.insert_image(row, 0, "plot.png", {"image_data": io.BytesIO(section.plot), "description": section.about})


def _write_cell(sheet: Any, row: int, column: int, value: Any, styles: dict[str, Any]) -> None:
    """Write a value: numbers as numbers, all else, also NaN and nested values, as text."""
    if value is None:
        sheet.write_blank(row, column, None, styles["text"])
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        sheet.write_number(row, column, value, styles["whole" if isinstance(value, int) else "number"])
    else:
        text = cell_text(show(value))
        style = styles["text" if len(text) <= _WIDEST else "long text"]
        put_fragments(sheet, (row, column), [(text, False)], {False: styles["font"]}, style)
