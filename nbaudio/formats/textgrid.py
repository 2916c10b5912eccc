"""Praat's TextGrids beside their recordings, in the long or the short text form: the intervals of one tier are segments.

Conventions: both forms are read as Praat reads them: quoted texts, numbers and ``<exists>`` that stand free count, all else is
there for people. Intervals without text are passed over. Times are the source's own characters.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from nbaudio.formats.base import Transcripts
from nbaudio.formats.sidecar import read_sidecars

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
    """Read TextGrids.

    Args:
        source: a folder of recordings with TextGrids of the same name, or one file.
        tier: the name of the tier; may be left out where a file has one tier of intervals.
        encoding: of the files; UTF-8 or UTF-16 unless given.

    Returns:
        The transcripts, with the folder as that of the recordings. A file that cannot be read whole gives none and is a problem.

    Raises:
        InputError: there are no TextGrids, or no intervals in any; the message has the first reason, such as the tiers there are.

    Examples:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp()) / "a.TextGrid"
        >>> tier = '"IntervalTier" "words" 0 2 2  0 0.75 "dobar"  0.75 2 ""'
        >>> _ = source.write_text(f'"ooTextFile" "TextGrid" 0 2 <exists> 1 {tier}')
        >>> read(source).frame.select("name", "source_start", "source_end", "text").rows()
        [('a', '0', '0.75', 'dobar')]
    """
    return read_sidecars(
        source,
        (".textgrid",),
        partial(_intervals, tier=tier),
        encoding=encoding,
        wanted="TextGrids with intervals that have text",
    )


class _Tokens:
    """The texts, numbers and flags of a file, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = (found for found in _TOKEN.finditer(text) if found.lastgroup)
        self._at = 0

    def take(self, kind: str) -> str:
        """The next one, which must be of that kind."""
        found = next(self._found, None)
        self._at = found.start() if found else len(self._text)
        if not found or found.lastgroup != kind:
            raise ValueError(f"a {kind} is wanted, not {found[0][:40] if found else 'the end of the file'}")
        return found[kind].replace('""', '"')

    def size(self) -> range:
        """A count, to go through."""
        number = self.take("number")
        if not number.isdigit():
            raise ValueError(f"a count is wanted, not {number}")
        return range(int(number))

    @property
    def line(self) -> int:
        """Where the last one stands, from 1."""
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
    """Names and rows of all tiers of intervals; tiers of points are read over."""
    if (tokens.take("text"), tokens.take("text")) != ("ooTextFile", "TextGrid"):
        raise ValueError('"ooTextFile" and "TextGrid" are wanted first')
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
            raise ValueError(f"an IntervalTier or a TextTier is wanted, not {kind!r}")
    return tiers
