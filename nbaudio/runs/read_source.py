"""The first step of the notebooks: transcripts that are cut, or that are not, into a workspace.

Recordings without transcripts are recognized first, if there are documents to align with.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.recognition.recognize import recognize
from nbaudio.sources.align import align
from nbaudio.sources.ingest import ingest
from nbaudio.sources.media_tracks import CLOCK, TRACK


def read_source(
    format: str,
    source: str | Path | None,
    *,
    documents: str | Path | None = None,
    recognizer: str | None = None,
    audio: str | Path | None = None,
    names: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    out: str | Path,
    jobs: int | None = None,
) -> Report:
    """Make a workspace of a source, or add what is new in the source to it.

    This calls `nbaudio.align` where there are documents, and `nbaudio.ingest` elsewhere, both with
    ``add=True``. With a recognizer, it calls `nbaudio.recognize` for the recordings first; the
    hypotheses are in the folder ``hypotheses`` beside the workspace.

    Args:
        format: layout of the source; without effect where there are documents.
        source: the transcripts; with documents, a recognizer's words with times. None with a
            recognizer.
        documents: transcripts that are not cut.
        recognizer: ``package.module:function`` or a command, as of `nbaudio.recognize`; it gives
            the words with times.
        audio: the folder of the recordings, or its URL; None reads the transcripts only.
        names: the file of each name, such as a ``wav.scp``; with documents, a table of pairs.
        options: of the format; or for `nbaudio.align` durations of segments, `side`, `track` and
            `clock`.
        out: the workspace folder.
        jobs: recordings that are probed at once; one per core unless given.

    Returns:
        The report of `nbaudio.align` or `nbaudio.ingest`, with the problems of the recognizer.

    Raises:
        InputError: an input is missing or not usable.
    """
    chosen = dict(options or {})
    check_recognizer(recognizer, source, documents, audio)
    problems: list[str] = []
    if recognizer is not None:
        source = Path(out).absolute().parent / "hypotheses"
        problems = recognize(str(audio), with_=recognizer, out=source, jobs=jobs or 1).problems
    if documents is not None:
        of_media = {name: chosen.pop(name) for name in (TRACK, CLOCK) if name in chosen}
        report = align(
            str(source),
            documents,
            audio=audio,
            pairs=names,
            out=out,
            jobs=jobs,
            add=True,
            options=of_media,
            **chosen,
        )
        return replace(report, problems=[*problems, *report.problems])
    return ingest(
        format,
        str(source),
        audio=audio,
        names=names,
        options=chosen,
        out=out,
        jobs=jobs,
        add=True,
    )


def check_recognizer(
    recognizer: str | None, source: object, documents: object, audio: object
) -> None:
    """Raise InputError for a recognizer beside a source, or without documents or recordings."""
    if recognizer is None:
        return
    if source is not None:
        raise InputError(
            "source and recognizer: both give words with times; set one of them to null"
        )
    if documents is None:
        raise InputError("recognizer: expected documents, the minutes of the recordings")
    if audio is None:
        raise InputError("recognizer: expected audio, the folder of the recordings")
