"""The first step of the notebooks: transcripts that are cut, or that are not, into a workspace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbaudio.core.report import Report
from nbaudio.sources.align import align
from nbaudio.sources.ingest import ingest
from nbaudio.sources.media_tracks import CLOCK, TRACK


def read_source(
    format: str,
    source: str | Path,
    *,
    documents: str | Path | None = None,
    audio: str | Path | None = None,
    names: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    out: str | Path,
    jobs: int | None = None,
) -> Report:
    """Make a workspace of a source, or add what is new in the source to it.

    This calls `nbaudio.align` where there are documents, and `nbaudio.ingest` elsewhere, both with
    ``add=True``.

    Args:
        format: layout of the source; without effect where there are documents.
        source: the transcripts; with documents, a recognizer's words with times.
        documents: transcripts that are not cut.
        audio: the folder of the recordings, or its URL; None reads the transcripts only.
        names: the file of each name, such as a ``wav.scp``; with documents, a table of pairs.
        options: of the format; or for `nbaudio.align` durations of segments, `side`, `track` and
            `clock`.
        out: the workspace folder.
        jobs: recordings that are probed at once; one per core unless given.

    Returns:
        The report of `nbaudio.align` or `nbaudio.ingest`.

    Raises:
        InputError: an input is missing or not usable.
    """
    chosen = dict(options or {})
    if documents is not None:
        of_media = {name: chosen.pop(name) for name in (TRACK, CLOCK) if name in chosen}
        return align(
            source,
            documents,
            audio=audio,
            pairs=names,
            out=out,
            jobs=jobs,
            add=True,
            options=of_media,
            **chosen,
        )
    return ingest(
        format,
        source,
        audio=audio,
        names=names,
        options=chosen,
        out=out,
        jobs=jobs,
        add=True,
    )
