"""Cutting out of a compressed tar, which is read once, from its first byte to its last; tasks bring their recordings."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import polars as pl

from nbaudio.core.errors import AudioError
from nbaudio.corpus.plan import ClipFormat, CutTask, Source, cut_task, join_recording_facts, source_of
from nbaudio.storage.archives import members_in_order
from nbaudio.storage.remote import Content, Remote

# Of recordings in one task; twice as many tasks as there are workers wait at a time.
_TASK_BYTES = 16 << 20
# Stands for a recording that the archive does not hold, or no longer: its clips fail, as of one that changed.
_NOTHING = Content(b"", None)


def tasks_from_tar(
    windows: pl.DataFrame, recordings: pl.DataFrame, audio_root: Remote, packs: Path | Remote, clip_format: ClipFormat
) -> Iterator[CutTask]:
    """Cut tasks in the order of the archive, made as it is read; reading ends with the last recording that is wanted.

    Args:
        windows: as for `plan.cut_tasks`.
        recordings: likewise.
        audio_root: a folder in a compressed tar.
        packs: the folder for packs.
        clip_format: what to make.
    """
    ordered = join_recording_facts(windows, recordings).sort("path", maintain_order=True)
    counts = ordered.group_by("path", maintain_order=True).len()
    starts = accumulate(counts["len"], initial=0)
    # Where the windows of each recording are: few bytes each, as there may be some 100,000.
    places = {path: (start, length) for (path, length), start in zip(counts.iter_rows(), starts, strict=False)}
    sources: list[Source] = []
    size, seconds = 0, 0.0
    for place in _found(audio_root, places):
        frame = ordered.slice(*places.pop(place.path))
        source = source_of(frame, audio_root)
        sources.append(replace(source, path=replace(place, sha256=source.sha256)))
        size += len(place.content.data) if place.content else 0
        seconds += float(frame["seconds"].sum())
        if size >= _TASK_BYTES:
            yield cut_task(sources, packs, clip_format, seconds)
            sources, size, seconds = [], 0, 0.0
    if sources:
        yield cut_task(sources, packs, clip_format, seconds)


def _found(folder: Remote, windows: dict[str, tuple[int, int]]) -> Iterator[Remote]:
    """Recordings as the archive has them; behind its end those that it lacks."""
    try:
        for place in members_in_order(folder, windows):
            yield place
            if not windows:
                return
    except AudioError:  # it breaks off
        pass
    for path in list(windows):
        yield replace(folder / path, content=_NOTHING)
