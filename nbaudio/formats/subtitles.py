"""Read subtitles beside their recordings: SubRip (.srt) and WebVTT (.vtt).

Every cue is a segment.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from nbaudio.formats.base import Transcripts, read_sidecars, unescape
from nbaudio.formats.source_files import Layout, SourceFiles, list_words

_TIME = r"(?:(\d+):)?([0-5]?\d):([0-5]?\d)(?:[,.](\d+))?"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
TAG = re.compile(r"</?[A-Za-z][^<>]*>|<\d[^<>]*>|</>|\{\\[^{}]*\}")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_NO_CUES = ("WEBVTT", "NOTE", "STYLE", "REGION")


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folder of subtitles that files are in.

    Where no subtitles have the name of their recording alone, their language is found in names such
    as ``a.hr.srt``.
    """
    subtitles = files.ending(".srt", ".vtt")
    if not subtitles:
        return []
    languages = _languages(files, subtitles)
    question = None
    if len(languages) > 1:
        question = (
            f"the subtitles are in {list_words(languages)}: choose one language, "
            f"such as --set 'options={{language: {languages[0]}}}'"
        )
    return [
        Layout(
            "subtitles",
            files.source,
            f"{len(subtitles):,} files are subtitles, such as {subtitles[0]}",
            frozenset(subtitles),
            options={"language": languages[0]} if languages else {},
            question=question,
        )
    ]


def _languages(files: SourceFiles, subtitles: Iterable[str]) -> list[str]:
    """Return the languages in the names of subtitles, sorted.

    There are none if any subtitles have the name of their recording alone, or of no recording.
    """
    recordings = {PurePosixPath(name).with_suffix("") for name in files.audio()}
    languages: set[str] = set()
    for name in subtitles:
        stem = PurePosixPath(name).with_suffix("")
        if stem in recordings or stem.with_suffix("") not in recordings:
            return []
        languages.add(stem.suffix.removeprefix("."))
    return sorted(languages)


def read(source: Path, *, language: str | None = None, encoding: str | None = None) -> Transcripts:
    """Read a folder of recordings with subtitles, or one file.

    With the language ``hr``, ``a.hr.srt`` has the subtitles of ``a.wav``.
    """
    middle = f".{language.lower()}" if language else ""
    endings = (f"{middle}.srt", f"{middle}.vtt")
    return read_sidecars(
        source,
        endings,
        cues,
        encoding=encoding,
        expected=f"subtitles that end in {' or '.join(endings)}",
    )


def cues(text: str) -> Iterator[dict[str, Any] | tuple[int, str]]:
    """Yield cues as rows, or the line and the reason where one cannot be read.

    Rows also have the first `line` of a cue, and all its `lines` with markup.
    """
    is_vtt = text.startswith("WEBVTT")
    lines = text.split("\n")
    # A line of blanks right after the times belongs to the cue, as YouTube writes them.
    is_kept = [
        bool(line.strip() or (line and "-->" in before)) for before, line in pairwise(["", *lines])
    ]
    for is_block, numbered in groupby(
        enumerate(lines, 1), lambda numbered: is_kept[numbered[0] - 1]
    ):
        if not is_block:
            continue
        (first, *_), block = zip(*numbered, strict=True)
        # A number or a name may stand before the times.
        place = next((place for place, line in enumerate(block[:2]) if "-->" in line), None)
        if place is None:
            if not (is_vtt and block[0].startswith(_NO_CUES)):
                yield first, f"no times: {block[0].strip()[:60]!r}"
            continue
        found = _TIMES.fullmatch(block[place])
        if not found:
            yield (
                first + place,
                (
                    "expected times such as 00:00:01,500 --> 00:00:02,750, "
                    f"not {block[place].strip()[:60]!r}"
                ),
            )
            continue
        raw = " ".join(" ".join(block[place + 1 :]).split())
        spoken = TAG.sub("", raw)
        spoken = " ".join((unescape(spoken) if is_vtt else spoken).split())
        voices = {unescape(voice).strip() for voice in _VOICE.findall(raw)}
        yield {
            "line": first,
            "lines": block[place + 1 :],
            "source_start": _seconds(*found.groups()[:4]),
            "source_end": _seconds(*found.groups()[4:]),
            "text": spoken,
            "text_raw": raw if raw != spoken else None,
            # With two voices in one cue, the segment has no single speaker.
            "speaker_id": next(iter(voices)) if len(voices) == 1 else None,
        }


def _seconds(hours: str | None, minutes: str, seconds: str, fraction: str | None) -> str:
    whole = str(int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds))
    return f"{whole}.{fraction}" if fraction else whole
