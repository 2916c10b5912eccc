"""Map columns of a source to ours, by the options or else by their usual names. Report every guess."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nbaudio.core.errors import InputError

NONE = "none"
"""The value of an option that leaves a column out."""

NAMES: Mapping[str, Sequence[str]] = {
    "name": ("name", "path", "file"),
    "text": ("text", "transcript", "sentence"),
    "speaker_id": ("speaker_id", "speaker"),
    "segment_id": ("segment_id", "id"),
}
"""Names that columns of tables plainly have, the preferred first; other columns are found by our own names alone."""


class Choice(NamedTuple):
    """Columns of a source by what they hold, those of them that were guessed, and what the user should know of it."""

    columns: dict[str, str]
    guessed: frozenset[str]
    notes: list[str]


def choose(
    source: Path, there: Sequence[str], chosen: Mapping[str, str | None], names: Mapping[str, Sequence[str]] = NAMES
) -> Choice:
    """Find the columns of a source.

    Args:
        source: for messages.
        there: the names of its columns.
        chosen: by option, the column that the user named, ``none`` for no column, or None to find it by name; upper and lower
            case and blanks around a name do not count then.
        names: by option, the names to look for, the preferred first; the option itself where it is missing.

    Raises:
        InputError: a chosen column is not there; names those that are.

    Examples:
        >>> found = choose(Path("a.csv"), ["Speaker", "text", "sentence"], {"text": None, "speaker_id": None, "segment_id": None})
        >>> found.columns
        {'text': 'text', 'speaker_id': 'Speaker'}
        >>> print(*found.notes, sep=chr(10))
        speaker_id is taken from column 'Speaker': --option speaker_id=COLUMN takes another, speaker_id=none leaves it out
        text is taken from column 'text', not from 'sentence': --option text=COLUMN takes another, text=none leaves it out
    """
    columns: dict[str, str] = {}
    notes, guessed = [], set()
    for key, column in chosen.items():
        if column is not None and column in there:
            columns[key] = column
        elif column is not None and column != NONE:
            raise InputError(f"{source}: option {key}: there is no column {column!r}; it has {', '.join(there)}")
        elif column is None:
            looked_for = names.get(key, (key,))
            plain = [name for wanted in looked_for for name in there if name.strip().casefold() == wanted]
            fits = [name for name in looked_for if name in there]
            # The very name goes before the same name in another case.
            fits += [name for name in plain if name not in fits]
            if not fits:
                continue
            columns[key] = fits[0]
            if fits != [key]:
                guessed.add(key)
                others = f", not from {' or '.join(map(repr, fits[1:]))}" if fits[1:] else ""
                overrule = f"--option {key}=COLUMN takes another, {key}=none leaves it out"
                notes.append(f"{key} is taken from column {fits[0]!r}{others}: {overrule}")
    return Choice(columns, frozenset(guessed), sorted(notes))


def are_ids(values: pl.Series) -> bool:
    """Whether a column that is called like one of ids tells rows apart: at least nine in ten have a value of their own.

    Examples:
        >>> are_ids(pl.Series(["u1", "u2"])), are_ids(pl.Series(["r1", "r1", None]))
        (True, False)
    """
    return 10 * values.drop_nulls().n_unique() >= 9 * len(values)
