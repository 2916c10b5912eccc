"""Read Praat's TextGrids, long or short, beside their recordings.

The intervals of one tier that have text are segments.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from nbaudio.core import times
from nbaudio.core.errors import InputError
from nbaudio.core.report import count
from nbaudio.formats.source_files import Layout, SourceFiles, list_words
from nbaudio.formats.transcripts import Transcripts, decode_text, read_sidecars

# What counts to Praat: quoted texts, free-standing numbers and ``<exists>``.
_TOKEN = re.compile(
    r"""
    "(?P<text>(?:[^"]|"")*)"
    | (?<!\S)(?P<number>[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?!\S)
    | (?<!\S)(?P<flag><[a-z]+>)
    | (?<!\S)![^\n]*
    """,
    re.VERBOSE,
)

_STARTS = ("zero", "keep")

# The names of tiers of intervals, in a long or a short file.
_INTERVAL_TIERS = re.compile(r'"IntervalTier"\s+(?:name\s*=\s*)?"((?:[^"]|"")*)"')


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folder of TextGrids that files are in; a tier has to be chosen of several."""
    grids = files.ending(".textgrid")
    if not grids:
        return []
    names = _tier_names(files, grids[0])
    question = None
    if len(names) > 1:
        question = (
            f"{grids[0]} has the tiers {list_words(names)}: choose the one whose intervals are "
            f"segments, such as --set 'options={{tier: {names[0]}}}'"
        )
    return [
        Layout(
            "textgrid",
            files.source,
            f"{len(grids):,} files are TextGrids, such as {grids[0]}",
            frozenset(grids),
            question=question,
        )
    ]


def _tier_names(files: SourceFiles, name: str) -> list[str]:
    """Return the names of the tiers of intervals in a file; none if they cannot be read."""
    with suppress(ValueError):
        text = decode_text(files.head(name), errors="replace")
        return _INTERVAL_TIERS.findall(text)
    return []


@dataclass(frozen=True)
class _Grid:
    """A TextGrid: its span in seconds, and the name and rows of each tier of intervals."""

    start: str
    end: str
    tiers: list[tuple[str, list[dict[str, str]]]]

    @property
    def starts_at_zero(self) -> bool:
        """Whether the grid begins at 0 seconds."""
        return Decimal(self.start) == 0

    def from_start(self, seconds: str) -> str:
        """Return a time that counts from the start of the grid."""
        return times.add_seconds(seconds, str(-Decimal(self.start)))

    def moved(self, row: dict[str, str]) -> dict[str, str]:
        """Return an interval whose times count from the start of the grid."""
        keys = ("source_start", "source_end")
        return row | {key: self.from_start(row[key]) for key in keys}


def read(
    source: Path, *, tier: str | None = None, start: str = "zero", encoding: str | None = None
) -> Transcripts:
    """Read a folder of recordings with TextGrids, or one file.

    `tier` may be omitted where a file has only one tier of intervals. With `start` ``zero``, times
    count from the start of the grid, where the recording begins; with ``keep``, the times of the
    grid are those of the recording.
    """
    if start not in _STARTS:
        raise InputError(f"option start={start!r}: must be {' or '.join(_STARTS)}")
    later = Counter[str]()
    transcripts = read_sidecars(
        source,
        (".textgrid",),
        partial(_intervals, tier=tier, keeps_start=start == "keep", later=later),
        encoding=encoding,
        further=("source_duration",),
        expected="TextGrids with intervals that have text",
    )
    return replace(transcripts, notes=[*transcripts.notes, *_notes(later)])


def _notes(later: Counter[str]) -> Iterator[str]:
    """Yield a line on grids whose times were changed, counted by their starts."""
    if later:
        grids = count(later.total(), "TextGrids")
        yield (
            f"{grids} whose xmin is not 0, such as {next(iter(later))}: this is taken as the start "
            "of the recording; --option start=keep takes all times as they are"
        )


def _intervals(
    text: str, *, tier: str | None, keeps_start: bool, later: Counter[str]
) -> Iterator[dict[str, Any] | tuple[int | None, str]]:
    """Yield the intervals that have text, or why there are none.

    Starts of grids that were made zero are counted in `later`.
    """
    if text.startswith("ooBinaryFile"):
        yield None, "a binary TextGrid; save it as a text file in Praat"
        return
    tokens = (token for token in _TOKEN.finditer(text) if token.lastgroup)
    place = 0

    def take(kind: str) -> str:
        """Return the next token, of this kind; raise ValueError for another one."""
        nonlocal place
        token = next(tokens, None)
        if not token:
            place = len(text)
            raise ValueError(f"expected a {kind}, not the end of the file")
        place = token.start()
        if token.lastgroup != kind:
            raise ValueError(f"expected a {kind}, not {token[0][:40]}")
        return token[kind].replace('""', '"')

    try:
        grid = _grid(take)
    except ValueError as error:
        yield text.count("\n", 0, place) + 1, f"not a TextGrid that can be read: {error}"
        return
    tiers = grid.tiers
    fitting = [rows for name, rows in tiers if tier is None or name == tier]
    if len(fitting) == 1:
        rows = [row for row in fitting[0] if row["text"].strip()]
        if not keeps_start and not grid.starts_at_zero:
            later[grid.start] += 1
            rows = [grid.moved(row) for row in rows]
        length = grid.end if keeps_start else grid.from_start(grid.end)
        yield from (row | {"source_duration": length} for row in rows)
        return
    yield None, _tier_question(tiers, tier)


def _tier_question(tiers: Sequence[tuple[str, object]], tier: str | None) -> str:
    """Return why there is not one tier to read, and the names to choose from."""
    names = ", ".join(repr(name) for name, _ in tiers) or "none"
    if not tiers:
        wrong = "there is no tier of intervals"
    elif tier is None:
        wrong = "there are several tiers of intervals"
    else:
        wrong = f"there is not one tier of intervals called {tier!r}"
    return f"{wrong}; it has {names}: choose one by the option tier"


def _grid(take: Callable[[str], str]) -> _Grid:
    """Return the span and all tiers of intervals of a grid.

    `take` returns the next token, which must be of the given kind.
    """

    def numbers() -> range:
        number = take("number")
        if not number.isdigit():
            raise ValueError(f"expected a count, not {number}")
        return range(int(number))

    if (take("text"), take("text")) != ("ooTextFile", "TextGrid"):
        raise ValueError('expected "ooTextFile" and "TextGrid" first')
    start = take("number")
    end = take("number")
    tiers = []
    tier_numbers = range(0)
    if take("flag") == "<exists>":
        tier_numbers = numbers()
    for _ in tier_numbers:
        kind = take("text")
        name = take("text")
        take("number")
        take("number")
        if kind == "IntervalTier":
            rows = [
                {"source_start": take("number"), "source_end": take("number"), "text": take("text")}
                for _ in numbers()
            ]
            tiers.append((name, rows))
        elif kind == "TextTier":
            for _ in numbers():
                take("number")
                take("text")
        else:
            raise ValueError(f"expected an IntervalTier or a TextTier, not {kind!r}")
    return _Grid(start, end, tiers)
