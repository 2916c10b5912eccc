"""Identity of speakers: spellings that are one id, and spellings that look alike."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping

import polars as pl

from nbaudio.text.scripts import LOOKS_LIKE

SPEAKER = "speaker_id"
WHOLE_NUMBER = r"^[0-9]+(\.0*)?$"
"""Pattern of whole numbers, also as floats."""
MISSING = (
    *("nan", "NaN", "NA", "<NA>", "N/A", "n/a", "#N/A", "None", "null", "NULL", "\\N"),
    *("#REF!", "#NAME?", "#VALUE!", "#NULL!", "#NUM!", "#DIV/0!"),
)
"""Spellings of a missing speaker or text, as pandas, R, databases and spreadsheets write them."""
UNNAMED = ("unknown", "<unk>", "unk", "unidentified", "anonymous", "various", "?", "-")
"""Words for a speaker without a name, in lower case."""
OF_DIARIZER = r"^(SPEAKER_\d\d|Speaker [A-Z0-9]{1,2}|spk_\d{1,2})$"
"""Pattern of speakers as diarizers number them anew in each recording."""

# Soft hyphens, blanks without width, and marks of the direction of writing.
_INVISIBLE = "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[\W_]+(?=[0-9])")
_PUNCTUATION = re.compile(r"[^\w.]|_")
_SURNAME_FIRST = re.compile(r"^([^,0-9]+),([^,0-9]+)$")
_TITLES = re.compile(
    r"^(?:(?:(?:dr|prof)\.?\s+)|(?:dr|prof|mag|doc|ing|dipl|sc)\.\s*)+(?=[^\W\d_])"
)
# Letters that look like others, and those with strokes, which Unicode does not decompose.
_SIMPLE = str.maketrans({**LOOKS_LIKE, "ŧ": "t"})


def one_spelling(speaker: pl.Expr) -> pl.Expr:
    """Return speakers in Unicode NFC with single blanks and none at their ends.

    All blanks of Unicode count, such as no-break spaces; invisible characters go. A speaker that
    is blank becomes null.
    """
    visible = speaker.str.normalize("NFC").str.replace_all(_INVISIBLE, "")
    spaced = visible.str.replace_all(r"\s+", " ").str.strip_chars(" ")
    return pl.when(spaced != "").then(spaced)


def are_whole_floats(speakers: Iterable[str]) -> bool:
    """Return whether all speakers are whole numbers, as pandas writes them in columns with gaps."""
    spellings = list(speakers)
    pattern = re.compile(WHOLE_NUMBER)
    return any("." in name for name in spellings) and all(map(pattern.match, spellings))


def speaker_ids(spellings: pl.Series, merged: Mapping[str, str]) -> pl.DataFrame:
    """Return the columns `spelling` and `speaker`: the id of each, null if it is missing.

    Args:
        spellings: of speakers, as texts.
        merged: the id of speakers that are another one; what it names is never missing.
    """
    spelled = pl.DataFrame({"spelling": spellings}).with_columns(
        speaker=one_spelling(pl.col("spelling"))
    )
    missing = [name for name in MISSING if name not in merged]
    is_missing = pl.col("speaker").is_in(missing)
    ids = spelled.with_columns(speaker=pl.when(~is_missing).then("speaker"))
    if are_whole_floats(ids["speaker"].drop_nulls()):
        ids = ids.with_columns(pl.col("speaker").str.replace(r"\.0*$", ""))
    if merged:
        ids = ids.with_columns(pl.col("speaker").replace(dict(merged)))
    return ids


def look_alikes(speakers: Iterable[str]) -> list[list[str]]:
    """Return groups of two or more speakers whose spellings look alike, each sorted.

    They differ only in case, blanks, punctuation, diacritics, leading zeros, academic titles,
    letters of Latin, Cyrillic and Greek that look alike, or in the order of surname and given names
    if a comma is between them. Punctuation between digits tells speakers apart, as in 1-12 and
    11-2.
    """
    return _groups(speakers, _plain)


def spelling_groups(speakers: Iterable[str]) -> list[list[str]]:
    """Return groups of two or more speakers that are one by `one_spelling`, each sorted."""
    names = pl.DataFrame({"speaker": sorted(set(speakers))}, schema={"speaker": pl.String})
    spelled = names.with_columns(spelling=one_spelling(pl.col("speaker")))
    keys = dict(spelled.drop_nulls().iter_rows())
    return _groups(keys, keys.__getitem__)


def _groups(speakers: Iterable[str], key_of: Callable[[str], str]) -> list[list[str]]:
    """Return groups of two or more speakers with the same key, each sorted; "" is no key."""
    groups: dict[str, list[str]] = {}
    for speaker in sorted(set(speakers)):
        if key := key_of(speaker):
            groups.setdefault(key, []).append(speaker)
    return [group for group in groups.values() if len(group) > 1]


def _plain(speaker: str) -> str:
    """Return a spelling without what does not count in `look_alikes`."""
    in_order = _SURNAME_FIRST.sub(r"\2 \1", speaker)
    untitled = _TITLES.sub("", in_order.casefold().strip())
    decomposed = unicodedata.normalize("NFKD", untitled).translate(_SIMPLE)
    letters = "".join(char for char in decomposed if not unicodedata.combining(char))
    number = re.fullmatch(r"0*([0-9]+?)(\.0+)?", letters)
    if number:
        return number[1]
    separated = _BETWEEN_DIGITS.sub(".", letters)
    return _PUNCTUATION.sub("", separated).strip(".")
