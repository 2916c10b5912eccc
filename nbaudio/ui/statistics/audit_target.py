"""Open what is audited: a workspace, a corpus, or a dataset that somebody else published."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import count
from nbaudio.corpus.layout import CORPUS_JSON, read_corpus_info
from nbaudio.formats.published.dataset import Published
from nbaudio.selection.audits.audited import COLUMNS, Audited, as_audited_rows
from nbaudio.storage.folders import folder_at
from nbaudio.tables.provenance import provenance_columns
from nbaudio.tables.workspace import Workspace
from nbaudio.text.speaker_names import SPEAKER, speaker_ids
from nbaudio.ui import views
from nbaudio.ui.segment_rows import SegmentRows

WORKSPACE_JSON = "workspace.json"
# The column of the recipe for languages in docs/audio.md.
MEASURED_LANGUAGE = "language_code"


def open_ours(target: str | Path) -> Audited | None:
    """Return the segments of a workspace or corpus; None for anything else."""
    folder = folder_at(target)
    is_corpus = folder.exists(CORPUS_JSON)
    is_local = folder.place.local is not None
    if not is_corpus and not (is_local and folder.exists(WORKSPACE_JSON)):
        return None
    segments = views.rows(target, further=True)
    columns = [name for name in COLUMNS if name in segments.schema]
    frame = segments.read(*columns, "decision").with_columns(
        is_left_out=pl.col("decision").cast(pl.String).eq("reject").fill_null(value=False),
    )
    frame = frame.with_columns(source_id="segment_id")
    layout = "workspace"
    info: Mapping[str, Any] = {}
    if is_corpus:
        layout = "corpus"
        info = read_corpus_info(folder)
    splits: Mapping[str, Any] = info.get("splits", {})
    return Audited(
        name=str(target),
        layout=layout,
        rows=as_audited_rows(_with_provenance(frame, segments)),
        declared={name: int(facts.get("segments", 0)) for name, facts in splits.items()},
        license=info.get("about", {}).get("licence"),
        explained=_explained(target, info),
    )


def _with_provenance(frame: pl.DataFrame, segments: SegmentRows) -> pl.DataFrame:
    """Return a frame with the language, license and consent of its segments, if these have them."""
    if "language" not in frame.columns and MEASURED_LANGUAGE in segments.schema:
        languages = segments.read(MEASURED_LANGUAGE).to_series().cast(pl.String)
        frame = frame.with_columns(languages.alias("language"))
    provenance = provenance_columns(segments.schema)
    for field in {"license", "consent"} & provenance.keys():
        values = segments.read(provenance[field]).to_series()
        frame = frame.with_columns(values.alias(field))
    return frame


def _explained(target: str | Path, info: Mapping[str, Any]) -> dict[str, str]:
    """Return by check why a finding is meant to be in a workspace or corpus of nbaudio.

    `info` is corpus.json; empty for a workspace.
    """
    explained = {}
    selection = info.get("selection")
    if not info:
        explained["no license"] = "materialize --license declares the license of the corpus"
        selection = Workspace.open(target).report("select").get("facts", {})
    groups = (selection or {}).get("parameters", {}).get("group_by")
    if groups is not None:
        how = f"the selection was grouped by {', '.join(groups) or 'nothing'}"
        by_column = {
            "speaker_id": "splits share speakers",
            "recording_id": "splits share recordings",
        }
        explained |= {check: how for column, check in by_column.items() if column not in groups}
    return explained


def as_audited(target: str | Path, published: Published) -> Audited:
    """Return a published dataset as checks see it; speakers have one id, as `ingest` gives it."""
    spellings = published.rows[SPEAKER].drop_nulls().unique().sort()
    ids = speaker_ids(spellings, {})
    changed = ids.filter(pl.col("speaker").ne_missing(pl.col("spelling")))
    new_ids = dict(changed.iter_rows())
    return Audited(
        name=str(target),
        layout=published.layout,
        rows=as_audited_rows(published.rows.with_columns(pl.col(SPEAKER).replace(new_ids))),
        declared=published.declared,
        license=published.license,
        not_read=published.not_read,
        notes=[*published.notes, *_speaker_notes(new_ids)],
        problems=published.problems,
        num_bytes=published.num_bytes,
    )


def _speaker_notes(new_ids: Mapping[str, str | None]) -> Iterator[str]:
    """Yield lines on the spellings of speakers that are compared as another one, or as missing."""
    merged = [spelling for spelling, speaker in new_ids.items() if speaker is not None]
    missing = [spelling for spelling, speaker in new_ids.items() if speaker is None]
    if merged:
        yield (
            f"{count(len(merged), 'spellings')} of speakers count as the same speaker, such as "
            f"{merged[0]!r} as {new_ids[merged[0]]!r}"
        )
    if missing:
        yield f"speakers that are read as missing: {', '.join(map(repr, missing))}"
