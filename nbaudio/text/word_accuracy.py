"""How often a hypothesis has each word of the transcripts, counted over a corpus."""

import numpy as np
import numpy.typing as npt
import polars as pl
from rapidfuzz.distance import Levenshtein

from nbaudio.text.edit_distance import encode_words
from nbaudio.text.normalization import normalize

MOST_EXAMPLES = 3
# Occurrences among which examples are found: a segment can have a word several times
_SEARCHED = 4 * MOST_EXAMPLES


def word_accuracy(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return what `views.words` does, for `segment_id`, `text` and `heard`, which are not null."""
    names, codes, lengths = _normalized(pl.concat([pairs["text"], pairs["heard"].alias("text")]))
    ends = np.concatenate(([0], np.cumsum(lengths)))
    total = ends[len(pairs)]
    right = np.ones(total, dtype=bool)
    for row in (pairs["text"] != pairs["heard"]).arg_true():
        start = ends[row]
        other = ends[len(pairs) + row]
        sides = (
            codes[start : ends[row + 1]].tolist(),
            codes[other : ends[len(pairs) + row + 1]].tolist(),
        )
        right[
            [start + edit.src_pos for edit in Levenshtein.editops(*sides) if edit.tag != "insert"]
        ] = False
    rows = np.repeat(np.arange(len(pairs), dtype=np.uint32), lengths[: len(pairs)])
    said = pl.DataFrame({"word": codes[:total], "row": rows, "right": right})
    counted = said.group_by("word").agg(
        count=pl.len(), right=pl.sum("right"), segments=pl.n_unique("row")
    )
    first = pl.concat([said.filter(~pl.col("right")), said.filter("right")]).group_by(
        "word", maintain_order=True
    )
    found = first.agg(
        row=pl.col("row").head(_SEARCHED).unique(maintain_order=True).head(MOST_EXAMPLES)
    ).explode("row")
    found = (
        found.select("word", examples=pairs["segment_id"].gather(found["row"]))
        .group_by("word")
        .agg("examples")
    )
    counted = counted.join(found, on="word").with_columns(
        pl.col("count", "right", "segments").cast(pl.Int64)
    )
    counted = counted.with_columns(
        names.gather(counted["word"]).alias("word"), accuracy=pl.col("right") / pl.col("count")
    )
    return counted.sort("count", "word", descending=[True, False]).select(
        "word", "count", "right", "accuracy", "segments", "examples"
    )


def _normalized(texts: pl.Series) -> tuple[pl.Series, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the distinct normalized words, the number of each word, and the words per text.

    A number is given for each word of all texts.
    """
    codes, lengths, distinct = encode_words(texts)
    held: dict[str, int] = {}
    normal = [
        [held.setdefault(each, len(held)) for each in normalize(word).split()] for word in distinct
    ]
    counts = np.array([len(each) for each in normal], dtype=np.int64)
    flat = np.array([number for each in normal for number in each], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    repeated = counts[codes]
    ends = np.concatenate(([0], np.cumsum(repeated)))
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], repeated)
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    return (
        pl.Series(list(held), dtype=pl.String),
        flat[np.repeat(starts[codes], repeated) + within],
        np.diff(ends[bounds]),
    )
