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
    pair_similarities = [
        similarity_column(segments[first], segments[second])
        for first, second in combinations(hypotheses, 2)
    ]
    alike = [
        segments[name.replace("similarity", "spoken_wer", 1)] == 0 for name in hypotheses.values()
    ]
    rows = segments.select("text", *hypotheses, alike=pl.any_horizontal(alike)).iter_rows()
    disputes = [
        _dispute(
            text,
            [hypothesis for hypothesis in heard if hypothesis is not None],
            formatting,
            agrees=agrees,
        )
        for text, *heard, agrees in rows
    ]
    columns = [
        pl.DataFrame(
            [similarity.alias(str(number)) for number, similarity in enumerate(pair_similarities)]
        )
        .mean_horizontal()
        .alias("agreement"),
        segments.select(*hypotheses.values()).mean_horizontal().alias("agreement_text"),
        *pl.DataFrame(
            disputes,
            schema={"text_disputed": pl.Boolean, "disputed_words": pl.String},
            orient="row",
        ),
    ]
    is_complete = columns[0].is_not_null() & columns[2].is_not_null()
    return segments.with_columns(
        pl.when(is_complete).then(column).alias(column.name) for column in columns
    )


def _dispute(
    text: str | None, hypotheses: list[str], formatting: Formatting, *, agrees: bool | None
) -> tuple[bool | None, str | None]:
    """Return whether the hypotheses dispute a text, and where.

    They do if all have the same words, but not those of the text. The places are those where all
    differ from the text in the same way.
    """
    if text is None or len(hypotheses) < 2:
        return None, None
    if agrees:  # one of them with the text
        return False, None
    first, *others = dict.fromkeys(hypotheses)
    all_differences = formatting.differences(text, first)
    shared_differences = all_differences
    for hypothesis in others:
        differences = formatting.differences(text, hypothesis)
        all_differences = all_differences | differences
        shared_differences = shared_differences & differences
        if not shared_differences:
            return False, None
    reference = words(text)
    lines = [
        f"{' '.join(reference[start:stop]) or _NONE} → {' '.join(heard_words) or _NONE}"
        for start, stop, heard_words in sorted(shared_differences)
    ]
    is_disputed = bool(shared_differences) and shared_differences == all_differences
    return is_disputed, "; ".join(lines) or None
