"""Agreement of several hypotheses among themselves and with the transcript.

The transcript may be wrong where all hypotheses have other words.
"""

from collections.abc import Mapping
from itertools import combinations

import polars as pl

from nbaudio.text.edit_distance import similarity_column, words
from nbaudio.text.formatting import Formatting

_NONE = "–"


def with_agreement(
    segments: pl.DataFrame, hypotheses: Mapping[str, str], formatting: Formatting
) -> pl.DataFrame:
    """Return segments with the columns `tables.AGREEMENT`.

    They are null without a text or two of the `hypotheses`, a mapping of their columns to those
    with their similarity.
    """
    between = [
        similarity_column(segments[one], segments[other])
        for one, other in combinations(hypotheses, 2)
    ]
    alike = [
        segments[name.replace("similarity", "spoken_wer", 1)] == 0 for name in hypotheses.values()
    ]
    rows = segments.select("text", *hypotheses, alike=pl.any_horizontal(alike)).iter_rows()
    disputes = [
        _dispute(text, [said for said in heard if said is not None], formatting, agrees=agrees)
        for text, *heard, agrees in rows
    ]
    columns = [
        pl.DataFrame([each.alias(str(number)) for number, each in enumerate(between)])
        .mean_horizontal()
        .alias("agreement"),
        segments.select(*hypotheses.values()).mean_horizontal().alias("agreement_text"),
        *pl.DataFrame(
            disputes,
            schema={"text_disputed": pl.Boolean, "disputed_words": pl.String},
            orient="row",
        ),
    ]
    known = columns[0].is_not_null() & columns[2].is_not_null()
    return segments.with_columns(
        pl.when(known).then(column).alias(column.name) for column in columns
    )


def _dispute(
    text: str | None, heard: list[str], formatting: Formatting, *, agrees: bool | None
) -> tuple[bool | None, str | None]:
    """Return whether the hypotheses dispute a text, and where.

    They do if all have the same words, but not those of the text. The places are those where all
    differ from the text in the same way.
    """
    if text is None or len(heard) < 2:
        return None, None
    if agrees:  # one of them with the text
        return False, None
    first, *others = dict.fromkeys(heard)
    found = same = formatting.differences(text, first)
    for said in others:
        differences = formatting.differences(text, said)
        found = found | differences
        same = same & differences
        if not same:
            return False, None
    reference = words(text)
    lines = [
        f"{' '.join(reference[start:stop]) or _NONE} → {' '.join(said) or _NONE}"
        for start, stop, said in sorted(same)
    ]
    return bool(same) and same == found, "; ".join(lines) or None
