"""The figures of a workspace or of a corpus, in one report."""

from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.corpus.layout import MANIFEST
from nbaudio.errors import InputError
from nbaudio.folders import LocalFolder, folder_at
from nbaudio.report import Report
from nbaudio.tables import SPLITS, with_durations
from nbaudio.workspace import Workspace

_QUANTILES = {"5 %": 0.05, "median": 0.5, "95 %": 0.95}


def stats(path: str | Path) -> Report:
    """Segments, hours, speakers, durations, similarity, splits and reasons.

    Args:
        path: a workspace, or a corpus: its folder or address.

    Raises:
        InputError: it is neither.
    """
    folder = folder_at(path)
    if folder.exists(MANIFEST):
        try:
            with folder.local("segments.parquet") as segments_path, folder.local("rejected.parquet") as rejected_path:
                kept, rejected = pl.read_parquet(segments_path), pl.read_parquet(rejected_path)
        except (OSError, pl.exceptions.PolarsError, InputError) as error:
            raise InputError(f"{folder}: the tables of the corpus cannot be read ({error}); 'nbaudio verify {folder}'") from error
    elif isinstance(folder, LocalFolder) and folder.exists("workspace.json"):
        workspace = Workspace.open(folder.root)
        segments = with_durations(workspace.segments, workspace.recordings)
        rejected = segments.filter(pl.col("decision") == "reject")
        kept = segments.filter(pl.col("decision") != "reject")
    else:
        raise InputError(f"{folder}: neither a workspace (workspace.json) nor a corpus (corpus.json)")
    return Report("stats", _facts(str(folder), kept, rejected))


def _facts(folder: str, kept: pl.DataFrame, rejected: pl.DataFrame) -> dict[str, Any]:
    reasons = rejected["reason"].drop_nulls().value_counts().sort("count", "reason", descending=[True, False])
    facts: dict[str, Any] = {
        "of": folder,
        "segments kept": kept.height,
        "segments rejected": rejected.height,
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
    return round(float(segments["duration_s"].sum()) / 3600, 3)
