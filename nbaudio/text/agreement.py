"""Agreement of several hypotheses among themselves and with the transcript, which may be wrong where all have other words."""

from collections.abc import Mapping
from itertools import combinations

import polars as pl

from nbaudio.text.edit_distance import similarity_column, words
from nbaudio.text.formatting import Formatting

_NONE = "–"


def with_agreement(segments: pl.DataFrame, hypotheses: Mapping[str, str], formatting: Formatting) -> pl.DataFrame:
    """Return segments with the columns `tables.AGREEMENT`; `hypotheses` are columns, each with that of its similarity.

    A segment with fewer than two hypotheses, or without a text, has null.

    Examples:
        >>> frame = pl.DataFrame({"text": ["da je tako"], "a": ["da nije tako"], "b": ["Da, nije tako!"], "x": [0.8], "y": [0.7]})
        >>> with_agreement(frame, {"a": "x", "b": "y"}, Formatting()).select("text_disputed", "disputed_words").row(0)
        (True, 'je → nije')
    """
    between = [similarity_column(segments[one], segments[other]) for one, other in combinations(hypotheses, 2)]
    rows = segments.select("text", *hypotheses).iter_rows()
    disputes = [_dispute(text, [said for said in heard if said is not None], formatting) for text, *heard in rows]
    schema = {"text_disputed": pl.Boolean, "disputed_words": pl.String}
    columns = [
        pl.DataFrame([each.alias(str(number)) for number, each in enumerate(between)]).mean_horizontal().alias("agreement"),
        segments.select(*hypotheses.values()).mean_horizontal().alias("agreement_text"),
        *pl.DataFrame(disputes, schema=schema, orient="row"),
    ]
    known = columns[0].is_not_null() & columns[2].is_not_null()
    return segments.with_columns(pl.when(known).then(column).alias(column.name) for column in columns)


def _dispute(text: str | None, heard: list[str], formatting: Formatting) -> tuple[bool | None, str | None]:
    """Return whether all hypotheses have the same words but not those of the text, and where all differ in the same way."""
    if text is None or len(heard) < 2:
        return None, None
    if any(said == text for said in heard):
        return False, None
    reference = words(text)
    edits = [_edits(reference, said, formatting) for said in dict.fromkeys(heard)]
    lines = [
        f"{' '.join(reference[start:stop]) or _NONE} → {' '.join(said) or _NONE}"
        for start, stop, said in sorted(set.intersection(*edits))
    ]
    return bool(lines) and all(each == edits[0] for each in edits), "; ".join(lines) or None


def _edits(reference: list[str], said: str, formatting: Formatting) -> set[tuple[int, int, tuple[str, ...]]]:
    """Return where a hypothesis differs: first and last word of the reference, half open, and the words instead."""
    found, at = set(), 0
    for group in formatting.align(reference, words(said)):
        start, stop = (group.left[0], group.left[-1] + 1) if group.left else (at, at)
        if group.edits:
            found.add((start, stop, group.said[1]))
        at = stop
    return found
