"""Characters of a corpus.

Their ids are as in wav2vec2's ``vocab.json``, where ``|`` is the space; odd characters are for
review.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable
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
    examples: dict[str, str | None] = {}
    for block in chain.from_iterable(part.drop_nulls("text").iter_slices(_BLOCK) for part in parts):
        joined = block["text"].str.join().item()
        found = np.bincount(np.frombuffer(joined.encode("utf-32-le"), dtype="<u4"))
        points = np.flatnonzero(found)
        totals.update(dict(zip(map(chr, points), found[points].tolist(), strict=True)))
        for character in map(chr, points):
            # Accents that do not compose with their letter (U+0300 to U+036F) are odd, too.
            is_mark = (
                unicodedata.category(character)[0] == "M" and not "\u0300" <= character <= "\u036f"
            )
            is_usual = character == " " or character.isalpha() or character.isdecimal() or is_mark
            if not is_usual and character not in examples:
                examples[character] = block.filter(
                    pl.col("text").str.contains(character, literal=True)
                )["segment_id"][0]
    counts = dict(sorted(totals.items()))
    ordered = [DELIMITER, *(c for c in counts if c not in (" ", DELIMITER)), *SPECIALS]
    odd = [
        (c, f"U+{ord(c):04X}", unicodedata.name(c, "(no name)"), counts[c], example)
        for c, example in examples.items()
    ]
    return Vocabulary(
        ids={token: number for number, token in enumerate(ordered)},
        counts=counts,
        odd=pl.DataFrame(odd, schema=ODD, orient="row").sort(
            "count", "code_point", descending=[True, False]
        ),
    )
