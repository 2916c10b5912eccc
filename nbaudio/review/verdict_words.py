"""The words that reviewers write as verdicts: what others mean, and which are unknown."""

import difflib
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.core.report import count, shorten
from nbaudio.review.state import SEPARATOR, read_verdict, verdict_parts

_SHOWN_ROWS = 5  # rows with an unknown word that are named
_LIKENESS = 0.7  # the least similarity of a proposed verdict to the word, by `difflib`
_LONGEST = 60  # characters of a word in a message


@dataclass(frozen=True)
class RowPlace:
    """Where a row is."""

    sheet: str  # the file's name
    row: int


@dataclass
class _UnknownWord:
    """A word that is no verdict of a review."""

    spelled: str  # as in the first row that has it
    allowed: Sequence[str]
    places: list[RowPlace] = field(default_factory=list)


@dataclass
class VerdictWords:
    """The meanings of words that are no verdicts, the words that were used, and unknown words."""

    meanings: Mapping[str, str]  # verdicts by word, both in lower case
    _mapped: Counter[str] = field(default_factory=Counter)  # rows by the words of `meanings`
    _unknown: dict[tuple[str, ...], _UnknownWord] = field(default_factory=dict)

    def read(self, text: str, allowed: Sequence[str], place: RowPlace) -> str | None:
        """Return a verdict as it is logged; None if a word is unknown, which is noted.

        Args:
            text: the words of a row, between commas, semicolons or slashes; empty for none.
            allowed: the verdicts of the review, which keep their own meaning.
            place: where the row is.

        Raises:
            InputError: a verdict that stands alone has another one beside it.
        """
        if not text:
            return ""
        verdict_words = {word.casefold() for word in allowed}
        spelled = verdict_parts(text, [*verdict_words, *self.meanings]) or [text.strip()]
        by_word = {word.casefold(): word for word in reversed(spelled)}
        meanings = {**self.meanings, **{word: word for word in verdict_words}}
        verdicts = {word: meanings.get(word, word) for word in by_word}
        unknown = [word for word, verdict in verdicts.items() if verdict not in verdict_words]
        for word in unknown:
            entry = _UnknownWord(by_word[word], allowed)
            self._unknown.setdefault((word, *allowed), entry).places.append(place)
        if unknown:
            return None
        self._mapped.update(word for word, verdict in verdicts.items() if word != verdict)
        return read_verdict(SEPARATOR.join(verdicts.values()), allowed)

    def problems(self) -> list[str]:
        """Return a line for each unknown word: its rows, and the option that takes it."""
        return [_problem(word) for word in self._unknown.values()]

    def facts(self) -> dict[str, Any]:
        """Return how many rows had each word that stands for a verdict; nothing without any."""
        rows = [
            {"word": word, "verdict": self.meanings[word], "rows": number}
            for word, number in sorted(self._mapped.items())
        ]
        return {"mapped": rows} if rows else {}

    def warnings(self) -> list[str]:
        """Return a line for each word of `meanings` that no row has."""
        return [
            f"no row has the word '{_short(word)}', which stands for '{verdict}'"
            for word, verdict in self.meanings.items()
            if word not in self._mapped
        ]


def check_meanings(mapping: Mapping[str, str], lists: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return the verdicts that words stand for, both in lower case.

    Args:
        mapping: verdicts by word.
        lists: the verdicts of each review.

    Raises:
        InputError: a word is blank or has a separator, is given twice, is a verdict itself, or
            stands for no verdict of any review.
    """
    verdict_lists = [{word.casefold() for word in verdicts} for verdicts in lists]
    meanings: dict[str, str] = {}
    for word, verdict in mapping.items():
        source, target = (" ".join(text.casefold().split()) for text in (word, verdict))
        what = f"map {word}={verdict}"
        if not source or {*source} & {*",;"}:
            raise InputError(f"{what}: a word or phrase is needed, without commas")
        if meanings.setdefault(source, target) != target:
            raise InputError(f"{what}: '{source}' stands for '{meanings[source]}' already")
        with_target = [verdicts for verdicts in verdict_lists if target in verdicts]
        if not with_target:
            every = ", ".join(sorted(set().union(*verdict_lists))) or "none are"
            raise InputError(f"{what}: '{target}' is no verdict of a review; they are {every}")
        if source != target and all(source in verdicts for verdicts in with_target):
            raise InputError(f"{what}: '{source}' is a verdict itself, with its own meaning")
    return {source: target for source, target in meanings.items() if source != target}


def _problem(word: _UnknownWord) -> str:
    """Return a line about the rows that have an unknown word."""
    rows = count(len(word.places), "rows", "are")
    allowed = [verdict.casefold() for verdict in word.allowed]
    near = difflib.get_close_matches(word.spelled.casefold(), allowed, n=1, cutoff=_LIKENESS)
    meaning = "VERDICT"
    question = ""
    if near:
        meaning = near[0]
        question = f"does it mean '{meaning}'? "
    setting = shlex.quote(f"{_short(word.spelled)}={meaning}")
    return (
        f"verdict '{_short(word.spelled)}' is not one of {', '.join(word.allowed)}: {rows} not "
        f"imported ({_first_places(word.places)}); {question}--map {setting} takes it"
    )


def _first_places(places: Sequence[RowPlace]) -> str:
    """Return the first places, such as ``a.xlsx row 2, 5, b.xlsx row 7, ...``."""
    by_sheet: defaultdict[str, list[str]] = defaultdict(list)
    for place in places[:_SHOWN_ROWS]:
        by_sheet[place.sheet].append(str(place.row))
    listed = [f"{sheet} row {', '.join(rows)}" for sheet, rows in by_sheet.items()]
    if len(places) > _SHOWN_ROWS:
        listed.append("...")
    return ", ".join(listed)


def _short(text: str) -> str:
    """Return a word of at most `_LONGEST` characters for a message."""
    return shorten(text, _LONGEST)
