"""Normalize transcripts by named steps, in order.

All steps preserve Unicode normal form C, and the default ones together are idempotent.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from types import MappingProxyType

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.tables.dataframes import Column, as_series
from nbaudio.text.edit_distance import decode_words, encode_words

_ROWS_AT_ONCE = 1 << 17  # rows of a column whose distinct words are normalized together
_MARK = re.compile(r"[^\w\s]|_")  # punctuation, and symbols such as € or +


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
    marks = {c for c in _MARK.findall(text) if unicodedata.category(c)[0] == "P" or c in "`´"}
    if not marks:
        return text
    apostrophe, hyphen, removed_marks = _patterns("".join(sorted(marks)))
    text = hyphen.sub("-", apostrophe.sub("'", text))
    return removed_marks.sub(_gap, text)


def _gap(marks: re.Match[str]) -> str:
    """Return what replaces punctuation: a blank between two words, else nothing."""
    before = marks.string[max(marks.start() - 1, 0) : marks.start()]
    after = marks.string[marks.end() : marks.end() + 1]
    if before.strip() and after.strip():
        return " "
    return ""


@lru_cache(maxsize=4096)
def _patterns(marks: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return patterns for the marks of a text, sorted.

    They find an apostrophe inside a word, a hyphen inside a word, and marks in a row to remove, in
    a text with plain apostrophes and hyphens inside words. The marks of one text are few: a class
    of all punctuation is ten times slower.
    """
    mark = f"[{re.escape(marks)}]"
    word_part = f"[^\\s{re.escape(marks)}]"
    # Each pattern begins with a class of marks, so that the search runs from mark to mark. What
    # stands around a mark is looked up from the position after it.
    inside_word = f"(?<={word_part}.)(?={word_part})"
    apostrophe = re.compile(f"['’＇]{inside_word}")
    hyphen = re.compile(f"[-‐‑]{inside_word}")
    after_mark_that_stays = rf"(?<={word_part}['-])(?={word_part})|(?<=\d\.)(?!\.)"
    return apostrophe, hyphen, re.compile(f"(?:{mark}(?!{after_mark_that_stays}))++")


def blanks(text: str) -> str:
    """Collapse whitespace to one space between words, none at the ends.

    Tabs, line ends and no-break spaces are whitespace.
    """
    return " ".join(text.split())


# A step depends on nothing beyond a space or a line end, as `normalize_words` applies it to words,
# and leaves line ends in place, as `_apply_to_lines` needs; `blanks` alone removes them.
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
    _check_steps(steps)
    return reduce(lambda form, step: NORMALIZERS[step](form), steps, text)


def normalize_column(texts: Column, steps: Sequence[str] = DEFAULT_STEPS) -> pl.Series:
    """Return `normalize` of a column: str -> str, same length and name, null stays null.

    Raise InputError for a name that is not in `NORMALIZERS`.

    Examples:
        >>> normalize_column(pl.Series(["Da.", None]), ["lower"]).to_list()
        ['da.', None]
    """
    _check_steps(steps)
    column = as_series(texts).cast(pl.String)
    starts = range(0, max(1, len(column)), _ROWS_AT_ONCE)
    blocks = [_normalize_block(column.slice(start, _ROWS_AT_ONCE), steps) for start in starts]
    return pl.concat(blocks, rechunk=True).rename(column.name)


def _normalize_block(texts: pl.Series, steps: Sequence[str]) -> pl.Series:
    """Return the normal forms of texts; each distinct word is normalized once."""
    codes, lengths, distinct = encode_words(texts.fill_null(""))
    normal = decode_words(codes, lengths, normalize_words(distinct, steps))
    return pl.select(pl.when(texts.is_not_null()).then(normal)).to_series()


def normalize_words(words: pl.Series, steps: Sequence[str] = DEFAULT_STEPS) -> pl.Series:
    """Return the normal forms of many words: str -> str.

    Words may end with a space, as those of `encode_words`. Joined by spaces, the normal forms of
    the words of a text are the normal form of the text, as no step looks past a space. A form may
    have spaces. A word of which the step ``blanks`` leaves nothing, such as a lone dash, has null:
    the space beside it goes, too.

    Examples:
        >>> normalize_words(pl.Series(["Evo ", "i/ili ", "– "])).to_list()
        ['evo', 'i ili', None]
    """
    forms = words.str.strip_suffix(" ").to_list()
    is_removed = [False] * len(forms)
    for step in steps:
        forms = _apply_step(forms, step)
        if step == "blanks":
            is_removed = [
                removed or not form for form, removed in zip(forms, is_removed, strict=True)
            ]
    normal = pl.Series(forms, dtype=pl.String)
    is_left = ~pl.Series(is_removed, dtype=pl.Boolean)
    return pl.select(pl.when(is_left).then(normal)).to_series()


def _apply_step(words: list[str], step: str) -> list[str]:
    """Return the forms of words after one step."""
    if step == "blanks":
        return [blanks(word) for word in words]
    if step != "punctuation":
        return _apply_to_lines(words, step)
    # Most words have no punctuation, and the search for it takes the most time of all steps.
    places = [place for place, word in enumerate(words) if not word.isalnum()]
    changed = _apply_to_lines([words[place] for place in places], step)
    forms = words.copy()
    for place, form in zip(places, changed, strict=True):
        forms[place] = form
    return forms


def _apply_to_lines(words: list[str], step: str) -> list[str]:
    """Apply a step to many words: as lines of one text, which takes a fraction of the time."""
    normalizer = NORMALIZERS[step]
    lines = normalizer("\n".join(words)).split("\n")
    if len(lines) == len(words):
        return lines
    # There is no word, or one has a line end.
    return [normalizer(word) for word in words]


def _check_steps(steps: Sequence[str]) -> None:
    """Raise InputError for a name that is not in `NORMALIZERS`."""
    if unknown := [step for step in steps if step not in NORMALIZERS]:
        raise InputError(
            f"unknown normalization step {unknown[0]!r}; known steps are {', '.join(NORMALIZERS)}"
        )
