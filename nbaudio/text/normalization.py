"""Normalize transcripts by named steps, in order.

All steps preserve Unicode normal form C, and the default ones are idempotent.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from types import MappingProxyType

import polars as pl

from nbaudio.core.dataframes import Column, as_series
from nbaudio.core.errors import InputError


def nfc(text: str) -> str:
    """Compose characters: a letter and its accent become one code point where Unicode has one."""
    return unicodedata.normalize("NFC", text)


def lower(text: str) -> str:
    """Convert to composed lower case."""
    return nfc(text.lower())


def punctuation(text: str) -> str:
    """Remove punctuation unless it is part of a number or a word.

    Punctuation is Unicode's category P, and ` and ´ in place of quotes. A full stop directly after
    a number stays, as in ordinals, unless further full stops follow. An apostrophe or hyphen inside
    a word becomes the plain ``'`` or ``-``; dashes are not hyphens. Other punctuation between two
    words without a blank becomes a blank.
    """
    marks = "".join(
        sorted(
            {c for c in _NO_WORD.findall(text) if unicodedata.category(c)[0] == "P" or c in "`´"}
        )
    )
    if not marks:
        return text
    apostrophe, hyphen, gone = _patterns(marks)
    text = hyphen.sub("-", apostrophe.sub("'", text))
    return gone.sub(_gap, text)


def _gap(gone: re.Match[str]) -> str:
    before = gone.string[max(gone.start() - 1, 0) : gone.start()]
    after = gone.string[gone.end() : gone.end() + 1]
    return " " if before.strip() and after.strip() else ""


_NO_WORD = re.compile(r"[^\w\s]|_")


@lru_cache(maxsize=4096)
def _patterns(marks: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return patterns for these few marks (a class of all is ten times slower).

    They find inner apostrophes, inner hyphens, and others.
    """
    mark = f"[{re.escape(marks)}]"
    other = f"[^\\s{re.escape(marks)}]"
    # The class comes first, so that the search runs from mark to mark; marks to keep are recognized
    # from the position after them.
    kept = rf"(?<={other}['-])(?={other})|(?<=\d\.)(?!\.)"
    apostrophe, hyphen = (
        re.compile(f"{each}(?<={other}.)(?={other})") for each in ("['’＇]", "[-‐‑]")
    )
    return apostrophe, hyphen, re.compile(f"(?:{mark}(?!{kept}))++")


def blanks(text: str) -> str:
    """Collapse whitespace to one space between words, none at the ends.

    Tabs, line ends and no-break spaces are whitespace.
    """
    return " ".join(text.split())


NORMALIZERS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"nfc": nfc, "lower": lower, "punctuation": punctuation, "blanks": blanks}
)
DEFAULT_STEPS: tuple[str, ...] = ("nfc", "lower", "punctuation", "blanks")


def normalize(text: str, steps: Sequence[str] = DEFAULT_STEPS) -> str:
    """Apply the named steps to a text, in order.

    Raise InputError for a name that is not in `NORMALIZERS`.

    Examples:
        >>> normalize("Uvaženi  kolega, EVO: 5. točka.")
        'uvaženi kolega evo 5. točka'
    """
    return _normalizer(steps)(text)


def normalize_column(texts: Column, steps: Sequence[str] = DEFAULT_STEPS) -> pl.Series:
    """Return `normalize` of a column: str -> str, same length and name, null stays null.

    Examples:
        >>> normalize_column(pl.Series(["Da.", None]), ["lower"]).to_list()
        ['da.', None]
    """
    return as_series(texts).cast(pl.String).map_elements(_normalizer(steps), return_dtype=pl.String)


def _normalizer(steps: Sequence[str]) -> Callable[[str], str]:
    if unknown := [step for step in steps if step not in NORMALIZERS]:
        raise InputError(
            f"unknown normalization step {unknown[0]!r}; known steps are {', '.join(NORMALIZERS)}"
        )
    return lambda text: reduce(lambda done, step: NORMALIZERS[step](done), steps, text)
