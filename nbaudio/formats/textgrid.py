"""Read Praat's TextGrids beside their recordings, in the long or the short text form: the intervals of one tier are segments.

Both forms are read as Praat reads them: only quoted texts, free-standing numbers and ``<exists>`` count, all else is for people.
Intervals without text are skipped. Times keep the source's own characters.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from nbaudio.formats.base import Transcripts, read_sidecars

_TOKEN = re.compile(
    r"""
    "(?P<text>(?:[^"]|"")*)"
    | (?<!\S)(?P<number>[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)(?!\S)
    | (?<!\S)(?P<flag><[a-z]+>)
    | (?<!\S)![^\n]*
    """,
    re.VERBOSE,
)


def read(source: Path, *, tier: str | None = None, encoding: str | None = None) -> Transcripts:
    """Read TextGrids; a file that cannot be read whole gives no segments and is a problem.

    Args:
        source: a folder of recordings with TextGrids of the same name, or one file.
        tier: the name of the tier; may be omitted where a file has one tier of intervals.
        encoding: of the files; UTF-8 or UTF-16 unless given.
    """
    parse = partial(_intervals, tier=tier)
    return read_sidecars(source, (".textgrid",), parse, encoding=encoding, expected="TextGrids with intervals that have text")


class _Tokens:
    """Iterator over the texts, numbers and flags of a file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = (found for found in _TOKEN.finditer(text) if found.lastgroup)
        self._at = 0

    def take(self, kind: str) -> str:
        """Return the next token, which must be of that kind."""
        found = next(self._found, None)
        self._at = found.start() if found else len(self._text)
        if not found or found.lastgroup != kind:
            raise ValueError(f"expected a {kind}, not {found[0][:40] if found else 'the end of the file'}")
        return found[kind].replace('""', '"')

    def size(self) -> range:
        """Return the range of a count."""
        number = self.take("number")
        if not number.isdigit():
            raise ValueError(f"expected a count, not {number}")
        return range(int(number))

    @property
    def line(self) -> int:
        """Line of the last token, from 1."""
        return self._text.count("\n", 0, self._at) + 1


def _intervals(text: str, *, tier: str | None) -> Iterator[dict[str, Any] | tuple[int | None, str]]:
    if text.startswith("ooBinaryFile"):
        yield None, "a binary TextGrid; save it as a text file in Praat"
        return
    tokens = _Tokens(text)
    try:
        tiers = _tiers(tokens)
    except ValueError as error:
        yield tokens.line, f"not a TextGrid that can be read: {error}"
        return
    fitting = [rows for name, rows in tiers if tier is None or name == tier]
    if len(fitting) == 1:
        yield from (row for row in fitting[0] if row["text"].strip())
        return
    names = ", ".join(repr(name) for name, _ in tiers) or "none"
    wrong = "there are several tiers of intervals" if tier is None else f"there is not one tier of intervals called {tier!r}"
    yield None, f"{wrong if tiers else 'there is no tier of intervals'}; it has {names}: choose one by the option tier"


def _tiers(tokens: _Tokens) -> list[tuple[str, list[dict[str, str]]]]:
    """Return names and rows of all tiers of intervals; tiers of points are skipped."""
    if (tokens.take("text"), tokens.take("text")) != ("ooTextFile", "TextGrid"):
        raise ValueError('expected "ooTextFile" and "TextGrid" first')
    tokens.take("number")
    tokens.take("number")
    tiers = []
    for _ in tokens.size() if tokens.take("flag") == "<exists>" else ():
        kind, name = tokens.take("text"), tokens.take("text")
        tokens.take("number")
        tokens.take("number")
        if kind == "IntervalTier":
            rows = []
            for _ in tokens.size():
                start, end = tokens.take("number"), tokens.take("number")
                rows.append({"source_start": start, "source_end": end, "text": tokens.take("text")})
            tiers.append((name, rows))
        elif kind == "TextTier":
            for _ in tokens.size():
                tokens.take("number")
                tokens.take("text")
        else:
            raise ValueError(f"expected an IntervalTier or a TextTier, not {kind!r}")
    return tiers
