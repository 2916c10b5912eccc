"""Normal forms of transcripts, as named steps that are applied in order.

Each step takes and gives one text. ``nfc`` and ``lower`` give Unicode normal form C, the others keep it, and a second pass of
the default steps changes nothing.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.frames import Column, as_series


def nfc(text: str) -> str:
    r"""Composed characters: a letter and its accent become one code point where Unicode has one.

    Examples:
        >>> len("c\u030c"), len(nfc("c\u030c"))
        (2, 1)
    """
    return unicodedata.normalize("NFC", text)


def lower(text: str) -> str:
    """Lower case, composed.

    Examples:
        >>> lower("ŽUPANIJA")
        'županija'
    """
    return nfc(text.lower())


def punctuation(text: str) -> str:
    """Without punctuation, except where it belongs to a number or a word.

    Punctuation is Unicode's category P and the accents ` and ´ that stand in for quotes. What stays:

    - a full stop directly after a number, as in ordinals, unless further full stops follow;
    - an apostrophe inside a word, which becomes the plain ``'``;
    - a hyphen inside a word, which becomes the plain ``-``. Dashes are not hyphens.

    What stands between two words without a blank leaves one, so that they do not run together.

    Examples:
        >>> punctuation("„Dobar dan…” – 5. i 6. ožujka, d’Artagnan!").split()
        ['Dobar', 'dan', '5.', 'i', '6.', 'ožujka', "d'Artagnan"]
        >>> punctuation("crno-bijeli i/ili 2010–2015")
        'crno-bijeli i ili 2010 2015'
    """
    marks = "".join(sorted({c for c in _NO_WORD.findall(text) if unicodedata.category(c)[0] == "P" or c in "`´"}))
    if not marks:
        return text
    apostrophe, hyphen, gone = _patterns(marks)
    text = hyphen.sub("-", apostrophe.sub("'", text))
    return gone.sub(_gap, text)


def _gap(gone: re.Match[str]) -> str:
    before, after = gone.string[max(gone.start() - 1, 0) : gone.start()], gone.string[gone.end() : gone.end() + 1]
    return "" if before.strip() == "" or after.strip() == "" else " "


_NO_WORD = re.compile(r"[^\w\s]|_")


@lru_cache(maxsize=4096)
def _patterns(marks: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """For texts with these marks: apostrophes inside words, hyphens inside words, what goes.

    The marks of one text are few, and few are the sets of them: a class with all of Unicode's punctuation is ten times slower.
    """
    mark, other = f"[{re.escape(marks)}]", f"[^\\s{re.escape(marks)}]"

    # The class comes first, so that the search runs from mark to mark; what is kept is told from the place behind it.
    kept = rf"(?<={other}['-])(?={other})|(?<=\d\.)(?!\.)"
    return (
        re.compile(f"['’＇](?<={other}.)(?={other})"),
        re.compile(f"[-‐‑](?<={other}.)(?={other})"),
        re.compile(f"(?:{mark}(?!{kept}))++"),
    )


def blanks(text: str) -> str:
    r"""One space between words, none at the ends; tabs, line ends and no-break spaces count as blanks.

    Examples:
        >>> blanks(" dobar\u00a0\n dan ")
        'dobar dan'
    """
    return " ".join(text.split())


NORMALIZERS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {"nfc": nfc, "lower": lower, "punctuation": punctuation, "blanks": blanks}
)
DEFAULT_STEPS: tuple[str, ...] = ("nfc", "lower", "punctuation", "blanks")

# Texts that are Python objects at a time: all of a large corpus at once would take several hundred MB.
_BLOCK = 4096


def normalize(text: str, steps: Sequence[str] = DEFAULT_STEPS) -> str:
    """A text after the named steps, in the order given.

    Args:
        text: any text.
        steps: names from `NORMALIZERS`.

    Returns:
        The text in that normal form.

    Raises:
        InputError: a step is not known; the message names those that are.

    Examples:
        >>> normalize("Uvaženi  kolega, EVO: 5. točka.")
        'uvaženi kolega evo 5. točka'
        >>> normalize("Evo", steps=["upper"])
        Traceback (most recent call last):
        nbaudio.core.errors.InputError: unknown normalisation step 'upper'; known steps are nfc, lower, punctuation, blanks
    """
    return _apply(text, _checked(steps))


def normalize_column(texts: Column, steps: Sequence[str] = DEFAULT_STEPS) -> pl.Series:
    """`normalize` for a column: str -> str, same length and name, null stays null.

    Raises:
        InputError: a step is not known.

    Examples:
        >>> normalize_column(pl.Series(["Da.", None]), ["lower"]).to_list()
        ['da.', None]
    """
    known = _checked(steps)
    texts = as_series(texts)
    done = pl.Series(texts.name, dtype=pl.String)
    for block in texts.cast(pl.String).to_frame("text").iter_slices(_BLOCK):
        done.append(pl.Series([None if text is None else _apply(text, known) for text in block["text"]], dtype=pl.String))
    return done


def _apply(text: str, steps: Sequence[Callable[[str], str]]) -> str:
    for step in steps:
        text = step(text)
    return text


def _checked(steps: Sequence[str]) -> list[Callable[[str], str]]:
    for step in steps:
        if step not in NORMALIZERS:
            raise InputError(f"unknown normalisation step {step!r}; known steps are {', '.join(NORMALIZERS)}")
    return [NORMALIZERS[step] for step in steps]
