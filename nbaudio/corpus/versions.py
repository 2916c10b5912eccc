"""Versions of a corpus in folders beside each other (CORPUS, CORPUS-v2, CORPUS-v3, ...): the latest, and the next to make."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from nbaudio.core import tables
from nbaudio.corpus.base_version import Base, find_base
from nbaudio.corpus.corpus_tables import freeze_table, selection_hash
from nbaudio.corpus.layout import CORPUS_JSON, read_corpus_info
from nbaudio.storage.folders import folder_at
from nbaudio.storage.workspace import Workspace

_AUDIO = ("recording_id", "sampling_rate", "num_channels", "num_samples", "sha256")


def latest_version(corpus: str | Path) -> str:
    """Return the latest complete version of a corpus, a folder or URL; the corpus itself if there is no later one.

    ``CORPUS-v3`` counts if its corpus.json says that it is version 3.
    """
    corpus = str(corpus).rstrip("/")
    place = folder_at(corpus).place
    found = (re.fullmatch(re.escape(place.name) + r"-v([2-9]|[1-9]\d+)", name) for name in place.parent.names())
    for number in sorted((int(match[1]) for match in found if match), reverse=True):
        folder = folder_at(later := f"{corpus}-v{number}")
        if folder.exists(CORPUS_JSON) and read_corpus_info(folder).get("version") == number:
            return later
    return corpus


def next_version(workspace: str | Path | Workspace, corpus: str | Path) -> tuple[str, str | None]:
    """Return `out` and `base` for the call of `materialize` that brings a corpus up to date with its workspace.

    Without a complete version, `out` is the corpus itself. If the latest version has what is selected now, it is that version
    with its own base, and nothing changes. Otherwise it is the next version, such as ``CORPUS-v2``, based on the latest.
    """
    latest = latest_version(corpus)
    if not folder_at(latest).exists(CORPUS_JSON):
        return latest, None
    with Base.opened(latest) as held:
        before = find_base(held.folder)
        if (before or not held.info.get("base")) and _is_current(Workspace.open(workspace), held):
            return latest, before
        return f"{str(corpus).rstrip('/')}-v{held.version + 1}", latest


def _is_current(workspace: Workspace, held: Base) -> bool:
    """Return whether a corpus has the selection of the workspace, with equal rows, from recordings with equal audio."""
    text = held.info["parameters"].get("text")
    lacks_text = text is not None and f"text_{text}" not in tables.table_schema(workspace)
    if lacks_text or held.info["identity"].get("selection") != selection_hash(workspace, text):
        return False
    recordings = workspace.recordings.select(_AUDIO)
    sources = pl.DataFrame(held.info.get("sources", []), schema={name: recordings.schema[name] for name in _AUDIO})
    if len(sources.join(recordings, on=_AUDIO, how="anti", nulls_equal=True)):
        return False
    with TemporaryDirectory(dir=workspace.path, prefix=".") as scratch:
        table = freeze_table(workspace, Path(scratch) / "segments.parquet", text)
        return bool((held.unchanged(table, recordings, Path(scratch)).rows >= 0).all())
