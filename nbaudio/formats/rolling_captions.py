"""Cues that show the same words twice: rolling, growing, copied and overlapping captions.

Automatic captions of YouTube roll: a cue shows the line of the cue before above its own, and a cue
of 10 ms shows the finished line alone. Live captions grow word by word. A segment needs each line
once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

from nbaudio.formats.subtitle_cues import TAG, cue_text

_NEAR = Decimal("0.1")  # seconds between cues that count as following each other at once
# Overlaps from which on, if half of all cues overlap, ends are those of the display.
_LEAST_OVERLAPS = 5


@dataclass(frozen=True)
class Captions:
    """The cues of a file, each line of which is shown once.

    Attributes:
        cues: rows, as of `subtitle_cues.cues`.
        is_rolling: cues repeated lines of the cue before.
        repeated: cues that only repeated others, and are left out.
        shortened: cues that end where the next one begins, as most overlapped it.
        overlapping: other cues that begin before the end of the cue before.
    """

    cues: list[dict[str, Any]]
    is_rolling: bool
    repeated: int
    shortened: int
    overlapping: int


@dataclass(frozen=True)
class _Cue:
    """A cue with its seconds, its lines with markup, and the same lines as they are shown."""

    row: dict[str, Any]
    start: Decimal
    end: Decimal
    lines: tuple[str, ...]
    shown: tuple[str, ...]


def show_once(rows: Sequence[dict[str, Any]]) -> Captions:
    """Return the cues of a file without what they repeat.

    Captions roll if at least half of the cues begin with the last lines of the cue before, or
    repeat it for less than 0.1 s. A line is then in the first cue that shows it; what a cue adds to
    the end of a line belongs to the cue before. Elsewhere only copies, of equal times and text, are
    removed.
    """
    cues = [_read(row) for row in rows]
    unique = list({(cue.start, cue.end, cue.shown): cue for cue in cues}.values())
    is_rolling = _is_rolling(unique)
    once = _roll(unique) if is_rolling else unique
    overlaps = sum(_is_overlap(*pair) for pair in pairwise(once))
    if overlaps >= _LEAST_OVERLAPS and 2 * overlaps >= len(once) - 1:
        rows = [cue.row for cue in _shorten(once)]
        return Captions(rows, is_rolling, len(cues) - len(rows), shortened=overlaps, overlapping=0)
    rows = [cue.row for cue in once]
    return Captions(rows, is_rolling, len(cues) - len(rows), shortened=0, overlapping=overlaps)


def _read(row: dict[str, Any]) -> _Cue:
    """Return the row of a cue with its shown lines; lines of tags alone are left out."""
    shown = {line: cue_text([line])["text"] or "" for line in row["lines"]}
    lines = tuple(line for line in row["lines"] if shown[line])
    return _Cue(
        row,
        Decimal(row["source_start"]),
        Decimal(row["source_end"]),
        lines,
        tuple(shown[line] for line in lines),
    )


def _is_overlap(before: _Cue, cue: _Cue) -> bool:
    return before.start < cue.start < before.end


def _shorten(cues: Sequence[_Cue]) -> Iterator[_Cue]:
    """Yield cues that end where the next one begins, if they overlap it."""
    for cue, following in pairwise([*cues, None]):
        if cue and following and _is_overlap(cue, following):
            yield replace(cue, row=cue.row | {"source_end": following.row["source_start"]})
        elif cue:
            yield cue


def _repeated_lines(before: _Cue, cue: _Cue) -> int:
    """Return how many lines at the top of a cue are the last ones of the cue before."""
    most = min(len(before.shown), len(cue.shown))
    sizes = (size for size in range(most, 0, -1) if cue.shown[:size] == before.shown[-size:])
    return next(sizes, 0)


def _is_hold(before: _Cue, cue: _Cue) -> bool:
    """Return whether a cue shows nothing but the last lines of the cue that it follows at once."""
    if cue.start - before.end > _NEAR or not cue.shown:
        return False
    is_brief = cue.end - cue.start <= _NEAR
    is_end_of_line = before.shown[-1:] and before.shown[-1].endswith(f" {cue.shown[0]}")
    is_joined = is_brief and len(cue.shown) == 1 and bool(is_end_of_line)
    return is_joined or len(cue.shown) == _repeated_lines(before, cue)


def _is_growth(before: _Cue, cue: _Cue) -> bool:
    """Return whether a cue repeats the cue before and adds words to the end of its last line."""
    return (
        0 < len(cue.shown) == len(before.shown)
        and cue.shown[:-1] == before.shown[:-1]
        and cue.shown[-1].startswith(f"{before.shown[-1]} ")
        and cue.start - before.end <= _NEAR
    )


def _is_rolling(cues: Sequence[_Cue]) -> bool:
    evidence = 0
    for before, cue in pairwise(cues):
        is_brief_hold = _is_hold(before, cue) and cue.end - cue.start <= _NEAR
        has_new_lines = 0 < _repeated_lines(before, cue) < len(cue.shown)
        evidence += is_brief_hold or has_new_lines or _is_growth(before, cue)
    return evidence > 0 and 2 * evidence >= len(cues) - 1


def _roll(cues: Sequence[_Cue]) -> list[_Cue]:
    """Return the cues of rolling captions, each with the lines that it shows first."""
    has_holds = any(_is_hold(*pair) for pair in pairwise(cues))
    once: list[_Cue] = []
    for before, cue in pairwise([None, *cues]):
        if cue is None or (before and _is_hold(before, cue)):
            continue
        if before and once and _is_growth(before, cue) and has_holds and len(cue.lines) == 1:
            # A converter joined the lines of rolling captions to one.
            once.append(_with_lines(cue, (_behind(before, cue),)))
        elif before and once and _is_growth(before, cue):
            once[-1] = _grown(once[-1], cue)
        elif before:
            new_lines = cue.lines[_repeated_lines(before, cue) :]
            once.append(_with_lines(cue, new_lines or cue.lines))
        else:
            once.append(cue)
    return once


def _behind(before: _Cue, cue: _Cue) -> str:
    """Return what the last line of a cue has behind that of the cue before, without tags."""
    return TAG.sub("", cue.lines[-1])[len(TAG.sub("", before.lines[-1])) :].strip()


def _grown(first: _Cue, cue: _Cue) -> _Cue:
    """Return a cue with the last line of the later cue that shows it whole, and with its end."""
    grown = _with_lines(first, (*first.lines[:-1], cue.lines[-1]))
    return replace(grown, end=cue.end, row=grown.row | {"source_end": cue.row["source_end"]})


def _with_lines(cue: _Cue, lines: tuple[str, ...]) -> _Cue:
    if lines == cue.lines:
        return cue
    return replace(cue, lines=lines, row=cue.row | {"lines": list(lines), **cue_text(lines)})
