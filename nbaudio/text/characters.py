"""Characters of a corpus.

Their ids are as in wav2vec2's ``vocab.json``, where ``|`` is the space; odd characters are for
review.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.tables.dataframes import as_series

DELIMITER = "|"
SPECIALS = ("[UNK]", "[PAD]")

ODD = pl.Schema(
    {
        "character": pl.String,
        "code_point": pl.String,
        "name": pl.String,
        "count": pl.Int64,
        "example": pl.String,
    }
)

_BLOCK = 16_384


@dataclass(frozen=True)
class Vocabulary:
    """The characters of a corpus.

    It has their `ids`, with delimiter and special tokens, their `counts`, and the `odd` ones (as
    `ODD`).
    """

    ids: dict[str, int]
    counts: dict[str, int]
    odd: pl.DataFrame = field(compare=False)

    def to_json(self) -> dict[str, int]:
        """Return the ids as ``vocab.json`` has them."""
        return dict(self.ids)


def vocabulary(
    texts: Iterable[str | None], *, segment_ids: Iterable[str] | None = None
) -> Vocabulary:
    """Count the characters of texts, assign ids and list the odd ones; null texts are skipped.

    The first text with an odd character is its example, named by its id, or by its number from 0
    without `segment_ids`. Apart from that, the order does not matter. Raises InputError where the
    numbers of ids and texts differ.

    Examples:
        >>> found = vocabulary(["da – ne", "ne|da"])
        >>> found.to_json()
        {'|': 0, 'a': 1, 'd': 2, 'e': 3, 'n': 4, '–': 5, '[UNK]': 6, '[PAD]': 7}
        >>> found.odd.select("character", "code_point", "name", "example").rows()
        [('|', 'U+007C', 'VERTICAL LINE', '1'), ('–', 'U+2013', 'EN DASH', '0')]
    """
    texts = as_series(texts).cast(pl.String)
    keys = as_series(range(len(texts)) if segment_ids is None else segment_ids).cast(pl.String)
    if len(keys) != len(texts):
        raise InputError(
            f"vocabulary needs one id per text, got {len(keys)} ids for {len(texts)} texts"
        )
    return count_characters([pl.DataFrame({"text": texts, "segment_id": keys})])


def count_characters(parts: Iterable[pl.DataFrame]) -> Vocabulary:
    """Return the `vocabulary` of a table with `segment_id` and `text` that comes in parts."""
    totals: Counter[str] = Counter()
    examples: dict[str, str | None] = {}  # of odd characters: the first text that has it
    for block in chain.from_iterable(part.drop_nulls("text").iter_slices(_BLOCK) for part in parts):
        block_counts = _count(block["text"])
        totals.update(block_counts)
        for character in block_counts:
            if character not in examples and _is_odd(character):
                has_character = pl.col("text").str.contains(character, literal=True)
                examples[character] = block.filter(has_character)["segment_id"][0]
    counts = dict(sorted(totals.items()))
    return Vocabulary(ids=_ids(counts), counts=counts, odd=_odd_table(examples, counts))


def _count(texts: pl.Series) -> dict[str, int]:
    """Return how often each character occurs in texts, in the order of code points."""
    joined = texts.str.join().item()
    counts = np.bincount(np.frombuffer(joined.encode("utf-32-le"), dtype="<u4"))
    points = np.flatnonzero(counts)
    return dict(zip(map(chr, points), counts[points].tolist(), strict=True))


def _is_odd(character: str) -> bool:
    """Return whether a character is no space, letter, digit or mark of a letter.

    Accents that do not compose with their letter (U+0300 to U+036F) are odd, too.
    """
    if character == " " or character.isalpha() or character.isdecimal():
        return False
    is_mark = unicodedata.category(character)[0] == "M"
    return not is_mark or "\u0300" <= character <= "\u036f"


def _ids(characters: Iterable[str]) -> dict[str, int]:
    """Return the ids of characters, with delimiter and special tokens."""
    letters = [character for character in characters if character not in (" ", DELIMITER)]
    tokens = [DELIMITER, *letters, *SPECIALS]
    return {token: number for number, token in enumerate(tokens)}


def _odd_table(examples: Mapping[str, str | None], counts: Mapping[str, int]) -> pl.DataFrame:
    """Return the table `ODD` of characters with their examples, the most frequent first."""
    rows = [
        (
            character,
            f"U+{ord(character):04X}",
            unicodedata.name(character, "(no name)"),
            counts[character],
            example,
        )
        for character, example in examples.items()
    ]
    table = pl.DataFrame(rows, schema=ODD, orient="row")
    return table.sort("count", "code_point", descending=[True, False])
