"""Tables without a header whose columns are known from their name and form.

They are ``metadata.csv`` of LJSpeech and ``transcripts.txt`` of Multilingual LibriSpeech (MLS).
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from nbaudio.core.errors import InputError
from nbaudio.formats.source_columns import USUAL_NAMES, plain_name
from nbaudio.formats.transcripts import numbered_lines

_LOOKED_AT = 50  # lines
_USUAL = frozenset(plain_name(name) for names in USUAL_NAMES.values() for name in names)


@dataclass(frozen=True)
class HeaderlessForm:
    """How the lines of a table without a header are read.

    Attributes:
        origin: the corpus that has such tables.
        separator: of the cells, which have no quotes.
        columns: their names.
    """

    origin: str
    separator: str
    columns: tuple[str, ...]

    def note(self, path: Path) -> str:
        """Return a line on how a file is read."""
        listed = ", ".join(self.columns)
        return (
            f"{path.name}: has no header, as in {self.origin}; its columns are read as {listed}: "
            "--option header=NAMES reads them otherwise"
        )


@dataclass(frozen=True)
class _CorpusTables:
    """The tables of a corpus.

    Attributes:
        origin: the name of the corpus.
        file: names of its tables.
        id: values of the first column.
        separator: of the cells.
        columns: the names of the columns, one tuple for each number of columns.
    """

    origin: str
    file: re.Pattern[str]
    id: re.Pattern[str]
    separator: str
    columns: Sequence[tuple[str, ...]]


_TABLES = (
    # The third column has numbers and abbreviations as words.
    _CorpusTables(
        "LJSpeech",
        re.compile(r"metadata\w*\.csv"),
        re.compile(r"[^\s,;]+"),
        "|",
        (("name", "text"), ("name", "raw", "text")),
    ),
    _CorpusTables(
        "MLS",
        re.compile(r"transcripts\.txt"),
        re.compile(r"\d+_\d+_\d+"),
        "\t",
        (("name", "text"),),
    ),
)


def headerless_form(path: Path) -> HeaderlessForm | None:
    """Return how a table without a header is read, or None if it is not known as one.

    Its first lines all have an id and one or two texts, and the first line names no column. Texts
    differ mostly: a column of speakers is none of texts.
    """
    for table in _TABLES:
        if table.file.fullmatch(path.name):
            rows = [line.split(table.separator) for line in _first_lines(path)]
            columns = _columns(table, rows)
            if columns is not None:
                return HeaderlessForm(table.origin, table.separator, columns)
    return None


def _first_lines(path: Path) -> list[str]:
    """Return the first lines of a file that are not blank; none if it cannot be read."""
    with suppress(InputError):
        return [line for _, line in islice(numbered_lines(path), _LOOKED_AT)]
    return []


def _columns(table: _CorpusTables, rows: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """Return the names of the columns of a table; None if its rows are not of this form."""
    widths = {len(row) for row in rows}
    fitting = [columns for columns in table.columns if {len(columns)} == widths]
    if not fitting or not all(table.id.fullmatch(row[0]) for row in rows):
        return None
    is_header = not _USUAL.isdisjoint(map(plain_name, rows[0]))
    has_texts = all(2 * len({*texts}) > len(rows) for texts in [*zip(*rows, strict=True)][1:])
    return fitting[0] if has_texts and not is_header else None
