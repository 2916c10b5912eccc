"""Read Praat's TextGrids, long or short, beside their recordings.

The intervals of one tier that have text are segments.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from nbaudio.formats.base import Transcripts, decode_text, read_sidecars
from nbaudio.formats.source_files import Layout, SourceFiles, list_words

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

# The names of tiers of intervals, in a long or a short file.
_INTERVAL_TIERS = re.compile(r'"IntervalTier"\s+(?:name\s*=\s*)?"((?:[^"]|"")*)"')


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folder of TextGrids that files are in; a tier has to be chosen of several."""
    grids = files.ending(".textgrid")
    if not grids:
        return []
    names = _tier_names(files, grids[0])
    question = (
        f"{grids[0]} has the tiers {list_words(names)}: choose the one whose intervals are "
        f"segments, such as --set 'options={{tier: {names[0]}}}'"
        if len(names) > 1
        else None
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


def read(source: Path, *, tier: str | None = None, encoding: str | None = None) -> Transcripts:
    """Read a folder of recordings with TextGrids, or one file.

    `tier` may be omitted where a file has only one tier of intervals.
    """
    parse = partial(_intervals, tier=tier)
    return read_sidecars(
        source,
        (".textgrid",),
        parse,
        encoding=encoding,
        expected="TextGrids with intervals that have text",
    )


def _intervals(text: str, *, tier: str | None) -> Iterator[dict[str, Any] | tuple[int | None, str]]:
    if text.startswith("ooBinaryFile"):
        yield None, "a binary TextGrid; save it as a text file in Praat"
        return
    tokens = (found for found in _TOKEN.finditer(text) if found.lastgroup)
    place = 0

    def take(kind: str) -> str:
        nonlocal place
        found = next(tokens, None)
        place = found.start() if found else len(text)
        if not found or found.lastgroup != kind:
            raise ValueError(
                f"expected a {kind}, not {found[0][:40] if found else 'the end of the file'}"
            )
        return found[kind].replace('""', '"')

    try:
        tiers = _tiers(take)
    except ValueError as error:
        yield text.count("\n", 0, place) + 1, f"not a TextGrid that can be read: {error}"
        return
    fitting = [rows for name, rows in tiers if tier is None or name == tier]
    if len(fitting) == 1:
        yield from (row for row in fitting[0] if row["text"].strip())
        return
    names = ", ".join(repr(name) for name, _ in tiers) or "none"
    wrong = (
        "there are several tiers of intervals"
        if tier is None
        else f"there is not one tier of intervals called {tier!r}"
    )
    yield (
        None,
        (
            f"{wrong if tiers else 'there is no tier of intervals'}; it has {names}: "
            "choose one by the option tier"
        ),
    )


def _tiers(take: Callable[[str], str]) -> list[tuple[str, list[dict[str, str]]]]:
    """Return names and rows of all tiers of intervals.

    `take` returns the next token, which must be of the given kind.
    """

    def count() -> range:
        number = take("number")
        if not number.isdigit():
            raise ValueError(f"expected a count, not {number}")
        return range(int(number))

    if (take("text"), take("text")) != ("ooTextFile", "TextGrid"):
        raise ValueError('expected "ooTextFile" and "TextGrid" first')
    take("number")
    take("number")
    tiers = []
    for _ in count() if take("flag") == "<exists>" else ():
        kind = take("text")
        name = take("text")
        take("number")
        take("number")
        if kind == "IntervalTier":
            rows = [
                {"source_start": take("number"), "source_end": take("number"), "text": take("text")}
                for _ in count()
            ]
            tiers.append((name, rows))
        elif kind == "TextTier":
            for _ in count():
                take("number")
                take("text")
        else:
            raise ValueError(f"expected an IntervalTier or a TextTier, not {kind!r}")
    return tiers
