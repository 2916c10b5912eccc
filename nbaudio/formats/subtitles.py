"""Read subtitles beside their recordings: SubRip (.srt) and WebVTT (.vtt), a segment for every cue."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from nbaudio.formats.base import Transcripts, read_sidecars, unescape

_TIME = r"(?:(\d+):)?([0-5]?\d):([0-5]?\d)(?:[,.](\d+))?"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
INLINE_TIME = re.compile(rf"<{_TIME}>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<\d[^<>]*>|</>|\{\\[^{}]*\}")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_NO_CUES = ("WEBVTT", "NOTE", "STYLE", "REGION")


def read(source: Path, *, language: str | None = None, encoding: str | None = None) -> Transcripts:
    """Read a folder of recordings with subtitles, or one file; with the language ``hr``, ``a.hr.srt`` is that of ``a.wav``."""
    middle = f".{language.lower()}" if language else ""
    endings = (f"{middle}.srt", f"{middle}.vtt")
    return read_sidecars(source, endings, _cues, encoding=encoding, expected=f"subtitles that end in {' or '.join(endings)}")


class Cue(NamedTuple):
    """A cue: its first line (from 1), its times in decimal seconds, and its text with markup, line by line."""

    line: int
    start: str
    end: str
    text: Sequence[str]


def read_cues(text: str) -> Iterator[Cue | tuple[int, str]]:
    """Yield the cues of a file's text, and line and reason of each that cannot be read."""
    lines = text.split("\n")
    # A line of blanks right after the times belongs to the cue, as YouTube writes them.
    kept = [bool(line.strip() or (line and "-->" in before)) for before, line in pairwise(["", *lines])]
    for is_kept, numbered in groupby(enumerate(lines), lambda numbered: kept[numbered[0]]):
        if not is_kept:
            continue
        (first, *_), block = zip(*numbered, strict=True)
        # A number or a name may stand before the times.
        place = next((place for place, line in enumerate(block[:2]) if "-->" in line), None)
        if place is None:
            if not (text.startswith("WEBVTT") and block[0].startswith(_NO_CUES)):
                yield first + 1, f"no times: {block[0].strip()[:60]!r}"
        elif found := _TIMES.fullmatch(block[place]):
            yield Cue(first + 1, seconds(*found.groups()[:4]), seconds(*found.groups()[4:]), block[place + 1 :])
        else:
            reason = f"expected times such as 00:00:01,500 --> 00:00:02,750, not {block[place].strip()[:60]!r}"
            yield first + place + 1, reason


def strip_markup(raw: str, *, is_vtt: bool) -> str:
    """Return the text of a cue without tags, and without entities in WebVTT."""
    spoken = _TAG.sub("", raw)
    return unescape(spoken) if is_vtt else spoken


def _cues(text: str) -> Iterator[dict[str, Any] | tuple[int, str]]:
    for cue in read_cues(text):
        if not isinstance(cue, Cue):
            yield cue
            continue
        raw = " ".join(" ".join(cue.text).split())
        spoken = " ".join(strip_markup(raw, is_vtt=text.startswith("WEBVTT")).split())
        voices = {unescape(voice).strip() for voice in _VOICE.findall(raw)}
        yield {
            "source_start": cue.start,
            "source_end": cue.end,
            "text": spoken,
            "text_raw": raw if raw != spoken else None,
            # With two voices in one cue, the segment has no single speaker.
            "speaker_id": next(iter(voices)) if len(voices) == 1 else None,
        }


def seconds(hours: str | None, minutes: str, whole: str, fraction: str | None) -> str:
    """Return decimal seconds of the parts of a time that `INLINE_TIME` finds."""
    total = str(int(hours or 0) * 3600 + int(minutes) * 60 + int(whole))
    return f"{total}.{fraction}" if fraction else total
