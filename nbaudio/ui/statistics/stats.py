"""Statistics of a workspace or a corpus, as a report and as a page with tables and plots."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from nbaudio.core.atomic import write_bytes
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.sources.audio_folder import missing_folder
from nbaudio.storage.urls import is_url
from nbaudio.tables.amounts import amounts
from nbaudio.tables.split_names import ordered_splits
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import views
from nbaudio.ui.segment_rows import SegmentRows
from nbaudio.ui.statistics.held_out import held_out_rates

PAGE_SUFFIXES = (".html", ".xlsx")

# Of so few rows all columns are read once; of more, each column whenever it is needed.
_ROWS_IN_MEMORY = 1 << 14
_QUANTILES = {"p5": 0.05, "median": 0.5, "p95": 0.95}


@interruptible
def stats(
    path: str | Path,
    *,
    out: str | Path | Sequence[str | Path] | None = None,
    audio: bool = True,
    base: str | Path | None = None,
) -> Report:
    """Report segments, hours, speakers, durations, similarity, splits, reasons and signals.

    Args:
        path: a workspace or a corpus, its folder or URL.
        out: a file for one page with all of it and more, in tables, plots and examples: .html
            (self-contained, works offline) or .xlsx; an existing file is replaced. Or several such
            files, for which everything is computed once.
        audio: the .html has the first seconds of some segments to listen to, at most 8 MB; False
            leaves them out.
        base: an earlier corpus or workspace, with which the page compares this one as `diff` does.
            By default, that of a corpus whose base is in a folder beside it.

    Raises:
        InputError: `path` is neither, or `out` has another ending.
    """
    pages = _pages(out)
    has_clips = audio and any(page.suffix.lower() == ".html" for page in pages)
    segments = views.rows(path)
    if len(segments.read("decision")) <= _ROWS_IN_MEMORY:
        segments = segments.in_memory()
    kept_segments = segments.filter(pl.col("decision").ne_missing("reject"))
    facts = count(segments, kept_segments)
    rates = held_out_rates(path, segments, by="split")
    if len(rates):
        facts["model_against_label"] = rates.select(
            "group", "hypothesis", "segments", cs.starts_with("wer").round(4)
        ).to_dicts()
    if len(signals := views.signals(kept_segments)):
        facts["signals"] = signals.with_columns(cs.float().round(4)).to_dicts()
    if pages:
        from nbaudio.ui.statistics.page_html import render_page  # these take a second to import
        from nbaudio.ui.statistics.stats_page import page_sections, write_workbook

        title, sections = page_sections(path, segments, facts, audio=has_clips, base=base)
        for page in pages:
            if page.suffix.lower() == ".html":
                content = render_page(title, sections).encode()
            else:
                content = write_workbook(title, sections)
            write_bytes(page, content)
    facts = {"of": str(path).rstrip("/"), **facts}
    if pages:
        facts["page"] = ", ".join(map(str, pages))
    warnings = _missing_audio(path) if has_clips else []
    return Report("stats", facts, warnings)


def _pages(out: str | Path | Sequence[str | Path] | None) -> list[Path]:
    """Return the files to write; raise InputError for one that is no page."""
    if out is None:
        return []
    if isinstance(out, str | Path):
        out = [out]
    pages = list(map(Path, out))
    for page in pages:
        if page.suffix.lower() not in PAGE_SUFFIXES:
            raise InputError(f"{page}: a page is written as {' or '.join(PAGE_SUFFIXES)}")
    return pages


def _missing_audio(path: str | Path) -> list[str]:
    """Return a line if the audio folder of a workspace does not exist."""
    if is_url(str(path)) or not (Path(path) / "workspace.json").is_file():
        return []
    workspace = Workspace.open(path)
    line = missing_folder(workspace, workspace.recordings["recording_id"])
    return [line] if line else []


def count(segments: SegmentRows, kept_segments: SegmentRows) -> dict[str, Any]:
    """Count segments, and those that are kept."""
    rejected = segments.filter(pl.col("decision") == "reject").read("reason")
    reasons = (
        rejected["reason"]
        .drop_nulls()
        .value_counts()
        .sort("count", "reason", descending=[True, False])
    )
    counted = kept_segments.read("split", "duration_s", "speaker_id", "recording_id", codes=True)
    facts = {
        "segments_kept": counted.height,
        "segments_rejected": rejected.height,
        "reasons": dict(reasons.iter_rows()),
    }
    in_all = amounts(counted)
    facts |= {name: in_all[name] for name in ("hours", "recordings", "speakers")}
    for name in ("duration_s", "similarity", "wer"):
        values = kept_segments.read(name)[name].drop_nulls()
        if len(values):
            facts[name] = {
                label: round(float(values.quantile(q) or 0.0), 3) for label, q in _QUANTILES.items()
            }
    splits = ordered_splits(counted["split"].unique())
    return facts | {split: amounts(counted.filter(pl.col("split") == split)) for split in splits}
