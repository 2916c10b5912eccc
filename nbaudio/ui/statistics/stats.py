"""The figures of a workspace or of a corpus, in one report."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.tables import SPLITS
from nbaudio.storage.atomic import atomic_write
from nbaudio.ui import views

_QUANTILES = {"p5": 0.05, "median": 0.5, "p95": 0.95}


def stats(path: str | Path, *, out: str | Path | None = None) -> Report:
    """Segments, hours, speakers, durations, similarity, splits and reasons.

    Args:
        path: a workspace, or a corpus: its folder or address.
        out: a file for one page with all of it and more, in tables and plots: .html (whole in itself, to be opened offline) or
            .xlsx; one that is there is replaced.

    Raises:
        InputError: `path` is neither, or `out` is of another kind.
    """
    if out is not None and Path(out).suffix.lower() not in WRITERS:
        raise InputError(f"{out}: a page is written as {' or '.join(WRITERS)}")
    segments = views.segments(path)
    facts = count(segments)
    if out is not None:
        with atomic_write(Path(out)) as partial:
            partial.write_bytes(WRITERS[Path(out).suffix.lower()](path, segments, facts))
    return Report("stats", {"of": str(path).rstrip("/"), **facts, **({"page": str(out)} if out is not None else {})})


def count(segments: pl.DataFrame) -> dict[str, Any]:
    """What there is of segments, as `views.segments` gives them."""
    rejected = segments.filter(pl.col("decision") == "reject")
    kept = segments.filter(pl.col("decision") != "reject")
    reasons = rejected["reason"].drop_nulls().value_counts().sort("count", "reason", descending=[True, False])
    facts: dict[str, Any] = {
        "segments_kept": kept.height,
        "segments_rejected": rejected.height,
        "reasons": dict(reasons.iter_rows()),
        "hours": _hours(kept),
        "recordings": kept["recording_id"].n_unique(),
        "speakers": kept["speaker_id"].drop_nulls().n_unique(),
    }
    for name in ("duration_s", "similarity", "wer"):
        values = kept[name].drop_nulls()
        if len(values):
            facts[name] = {label: round(float(values.quantile(q) or 0.0), 3) for label, q in _QUANTILES.items()}
    for split in SPLITS:
        part = kept.filter(pl.col("split") == split)
        if part.height:
            facts[split] = {
                "segments": part.height,
                "hours": _hours(part),
                "speakers": part["speaker_id"].drop_nulls().n_unique(),
                "recordings": part["recording_id"].n_unique(),
            }
    return facts


def _hours(segments: pl.DataFrame) -> float:
    return round(float(segments["duration_s"].sum()) / 3600, 6)


def _html(path: str | Path, segments: pl.DataFrame, facts: Mapping[str, Any]) -> bytes:
    from nbaudio.ui.statistics.page import render_page
    from nbaudio.ui.statistics.sections import sections, title

    return render_page(title(path), sections(path, segments, facts)).encode()


def _xlsx(path: str | Path, segments: pl.DataFrame, facts: Mapping[str, Any]) -> bytes:
    from nbaudio.ui.statistics.sections import sections, title
    from nbaudio.ui.statistics.workbook import write_workbook

    return write_workbook(title(path), sections(path, segments, facts))


WRITERS: Mapping[str, Callable[[str | Path, pl.DataFrame, Mapping[str, Any]], bytes]] = MappingProxyType(
    {".html": _html, ".xlsx": _xlsx}
)
"""What writes the page, by the ending of its file."""
