"""Read subtitles beside their recordings: SubRip (.srt) and WebVTT (.vtt), a segment for every cue."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from nbaudio.core.errors import InputError
from nbaudio.formats.base import Transcripts, read_sidecars, unescape

_TIME = r"(?:(\d+):)?([0-5]?\d):([0-5]?\d)(?:[,.](\d+))?"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_INLINE_TIME = re.compile(rf"<{_TIME}>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<\d[^<>]*>|</>|\{\\[^{}]*\}")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s+([^<>]+)>")
_UNDERLINED = re.compile(r"(\S?)<u>([^<>]*)</u>")
_CONTIGUOUS = 0.1  # seconds between two cues of rolling captions
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
            yield Cue(first + 1, _seconds(*found.groups()[:4]), _seconds(*found.groups()[4:]), block[place + 1 :])
        else:
            reason = f"expected times such as 00:00:01,500 --> 00:00:02,750, not {block[place].strip()[:60]!r}"
            yield first + place + 1, reason


def timed_tokens(path: Path, text: str) -> Iterator[tuple[int, list[tuple[str, str, str]]]]:
    """Yield tokens with start and end, and a line, of the cues of a file; cues that repeat words are one.

    Words are repeated where captions roll (times stand within the text, and a line is shown again, without them, above the next
    one), or where each word of a text that stays is underlined in turn. A token without a blank before it continues a word.
    """

    def plain(line: str) -> str:
        return _strip_markup(line, is_vtt=text.startswith("WEBVTT"))

    def cues() -> Iterator[Cue]:
        for cue in read_cues(text):
            if not isinstance(cue, Cue):
                raise InputError(f"{path}, line {cue[0]}: {cue[1]}")
            yield cue

    is_rolling = bool(_INLINE_TIME.search(text))
    shown: list[str] = []
    until = 0.0
    for whole, run in groupby(cues(), key=lambda cue: "".join(plain(" ".join(cue.text)).split())):
        same = list(run)
        marked = [(cue, mark) for cue in same for mark in _UNDERLINED.findall(" ".join(cue.text))]
        tokens = [(" " * (not before) + plain(word), cue.start, cue.end) for cue, (before, word) in marked]
        spoken = "".join("".join(word.split()) for word, _, _ in tokens)
        if spoken != whole * (len(spoken) // max(len(whole), 1)):
            raise InputError(f"{path}, line {same[0].line}: underlined words are not the words of the cue, one after the other")
        yield same[0].line, tokens
        for cue in [] if marked else same:
            lines = [line for line in cue.text if plain(line).strip()]
            visible = [" ".join(plain(line).split()) for line in lines]
            timed = next((row for row, line in enumerate(lines) if _INLINE_TIME.search(line)), len(lines))
            rolls = is_rolling and (timed < len(lines) or float(cue.start) <= until + _CONTIGUOUS)
            most = min(timed, len(shown)) if rolls else 0
            repeated = next((count for count in range(most, 0, -1) if visible[:count] == shown[-count:]), 0)
            shown, until = visible, float(cue.end)
            pieces = _INLINE_TIME.split(" ".join(lines[repeated:]))
            times = [cue.start, *(_seconds(*pieces[at : at + 4]) for at in range(1, len(pieces), 5)), cue.end]
            tokens = [(plain(piece), times[row], times[row + 1]) for row, piece in enumerate(pieces[::5])]
            yield cue.line, [token for token in tokens if token[0].strip()]


def _strip_markup(raw: str, *, is_vtt: bool) -> str:
    """Return the text of a cue without tags, and without entities in WebVTT."""
    spoken = _TAG.sub("", raw)
    return unescape(spoken) if is_vtt else spoken


def _cues(text: str) -> Iterator[dict[str, Any] | tuple[int, str]]:
    for cue in read_cues(text):
        if not isinstance(cue, Cue):
            yield cue
            continue
        raw = " ".join(" ".join(cue.text).split())
        spoken = " ".join(_strip_markup(raw, is_vtt=text.startswith("WEBVTT")).split())
        voices = {unescape(voice).strip() for voice in _VOICE.findall(raw)}
        yield {
            "source_start": cue.start,
            "source_end": cue.end,
            "text": spoken,
            "text_raw": raw if raw != spoken else None,
            # With two voices in one cue, the segment has no single speaker.
            "speaker_id": next(iter(voices)) if len(voices) == 1 else None,
        }


def _seconds(hours: str | None, minutes: str, whole: str, fraction: str | None) -> str:
    total = str(int(hours or 0) * 3600 + int(minutes) * 60 + int(whole))
    return f"{total}.{fraction}" if fraction else total
