"""Compare a hypothesis with a transcript by code points.

The measures are similarity, and error rates with words as in jiwer.
"""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

from nbaudio.core.errors import InputError
from nbaudio.tables.dataframes import Column, as_series

# Whitespace of Python, of which U+3000 is the last; that of Rust and polars lacks the four
# separators from U+001C.
BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace())
_ODD_BLANKS = BLANKS.replace(" ", "")
# A single blank other than the space is part of the word around it.
_ODD_BLANK = re.compile(f"[{_ODD_BLANKS}]")
_WORD = re.compile(r"\S+(?:[^\S ]\S+)*")

# Rows per task: enough to outweigh its overhead, few enough for a few MB of split words per
# processor.
_BLOCK = 4096
# Words are compared as code points of an artificial alphabet, above the surrogates, which cannot be
# decoded.
_FIRST = 0xE000
_ALPHABET = 0x110000 - 0xE000

Measure = Literal["similarity", "wer", "cer"]
MEASURES: tuple[Measure, ...] = ("similarity", "wer", "cer")

Words = str | list[int]
"""Words of texts as letters or as numbers."""


def words(text: str) -> list[str]:
    """Return the words of a text, as jiwer splits them."""
    return _WORD.findall(text) if _ODD_BLANK.search(text) else text.split()


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each word of a text, in characters."""
    return [match.span() for match in _WORD.finditer(text)]


def similarity(a: str, b: str) -> float:
    """Return ``1 - 2 * levenshtein(a, b) / (len(a) + len(b))`` over characters.

    It is from -1 (nothing in common, or one side empty) to 1 (equal, also both empty). It is not
    `Levenshtein.ratio`.

    Examples:
        >>> similarity("sabor", "sabora")
        0.8181818181818181
        >>> similarity("sabor", ""), similarity("", "")
        (-1.0, 1.0)
    """
    return 1 - 2 * Levenshtein.distance(a, b) / max(len(a) + len(b), 1)


def wer(reference: str, hypothesis: str) -> float:
    """Return the word error rate.

    It is the number of substituted, deleted and inserted words per word of the reference. It is
    more than 1 for more errors than words, and the number of words in the hypothesis for an empty
    reference.

    Examples:
        >>> wer("evo blic odgovori", "evo odgovori na")
        0.6666666666666666
    """
    expected = words(reference)
    return Levenshtein.distance(expected, words(hypothesis)) / max(len(expected), 1)


def cer(reference: str, hypothesis: str) -> float:
    """Return the character error rate.

    It is `wer` over characters, including blanks except at the ends.

    Examples:
        >>> cer("sabor", "sabora ")
        0.2
    """
    expected = reference.strip()
    return Levenshtein.distance(expected, hypothesis.strip()) / max(len(expected), 1)


def similarity_column(text: Column, asr_text: Column) -> pl.Series:
    """Return `similarity` of two columns of equal length.

    The columns are str; the result is f64, null where either is null.

    Examples:
        >>> similarity_column(pl.Series(["da", "da", ""]), pl.Series(["da", None, "ne"])).to_list()
        [1.0, None, -1.0]
    """
    return score_columns(text, asr_text, measures=("similarity",))["similarity"]


def wer_column(reference: Column, hypothesis: Column) -> pl.Series:
    """Return `wer` of two columns of equal length: str, str -> f64, null where either is null."""
    return score_columns(reference, hypothesis, measures=("wer",))["wer"]


def cer_column(reference: Column, hypothesis: Column) -> pl.Series:
    """Return `cer` of two columns of equal length: str, str -> f64, null where either is null."""
    return score_columns(reference, hypothesis, measures=("cer",))["cer"]


def score_columns(
    text: Column, asr_text: Column, *, measures: Sequence[Measure] = MEASURES
) -> pl.DataFrame:
    """Return several measures of two columns, one f64 column for each.

    They are null where either text is null. Characters are compared only once for all. Raise
    InputError where the columns differ in length or are not text.

    Examples:
        >>> score_columns(pl.Series(["evo blic"]), pl.Series(["evo blitz"])).row(0)
        (0.7647058823529411, 0.5, 0.25)
    """
    return error_rates(edit_counts(text, asr_text, measures=measures))


def error_rates(counts: pl.DataFrame) -> pl.DataFrame:
    """Return the measures for which `edit_counts` has counts."""

    def per(edits: str, length: str) -> pl.Expr:
        return pl.when(pl.col(edits).is_not_null()).then(
            pl.col(edits) / pl.max_horizontal(pl.col(length), 1)
        )

    rates = {
        "edits": (1 - 2 * per("edits", "length")).alias("similarity"),
        "word_edits": per("word_edits", "words").alias("wer"),
        "inner_edits": per("inner_edits", "inner_length").alias("cer"),
    }
    return counts.select(rate for edits, rate in rates.items() if edits in counts.columns)


def edit_counts(
    text: Column, asr_text: Column, *, measures: Sequence[Measure] = MEASURES
) -> pl.DataFrame:
    """Return numerators and denominators of the measures, which can be summed.

    The columns are i64, null where either text is null.
    """
    text = as_series(text)
    asr_text = as_series(asr_text)
    if len(text) != len(asr_text):
        raise InputError(
            f"scores need two columns of equal length, got {len(text)} and {len(asr_text)} rows"
        )
    for column in (text, asr_text):
        if column.dtype not in (pl.String, pl.Null):
            raise InputError(
                f"scores need columns of text, {column.name or 'one'} holds {column.dtype}"
            )
    pairs = pl.DataFrame({"text": text.cast(pl.String), "asr_text": asr_text.cast(pl.String)})
    blocks = pairs.iter_slices(_BLOCK) if len(pairs) else [pairs]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return pl.concat(pool.map(lambda block: _block_counts(block, measures), blocks))


def _block_counts(pairs: pl.DataFrame, measures: Sequence[Measure]) -> pl.DataFrame:
    """Return the columns of `edit_counts` for a block of pairs, `text` and `asr_text`."""
    is_complete = pairs["text"].is_not_null() & pairs["asr_text"].is_not_null()
    texts = (pairs["text"].fill_null(""), pairs["asr_text"].fill_null(""))
    differ = texts[0] != texts[1]
    counts: dict[str, pl.Series | npt.NDArray[np.int64]] = {}
    tidy = False
    if "wer" in measures:
        counts["word_edits"], counts["words"], tidy = _word_distances(*texts)
    if "similarity" in measures:
        counts["edits"] = _distances(differ, *(side.filter(differ).to_list() for side in texts))
        counts["length"] = texts[0].str.len_chars() + texts[1].str.len_chars()
    if "cer" in measures:
        inner = texts
        if not tidy:
            inner = (texts[0].str.strip_chars(BLANKS), texts[1].str.strip_chars(BLANKS))
        if tidy and "edits" in counts:
            counts["inner_edits"] = counts["edits"]
        else:
            pairs_inside = (side.filter(differ).to_list() for side in inner)
            counts["inner_edits"] = _distances(differ, *pairs_inside)
        counts["inner_length"] = inner[0].str.len_chars()
    return pl.DataFrame(counts).select(pl.when(is_complete).then(pl.all().cast(pl.Int64)))


def _distances(
    differ: pl.Series, left: Sequence[Words], right: Sequence[Words]
) -> npt.NDArray[np.int64]:
    """Return the edits of all pairs, of which `left` and `right` are those that differ.

    Equal pairs are frequent.
    """
    edits = np.zeros(len(differ), dtype=np.int64)
    edits[differ.to_numpy()] = cpdist(
        left, right, scorer=Levenshtein.distance, dtype=np.int64, workers=1
    )
    return edits


def _word_distances(
    reference: pl.Series, hypothesis: pl.Series
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], bool]:
    """Return edits and reference words of each pair, and whether all texts are tidy.

    Tidy texts have only single spaces, between words.
    """
    texts = pl.concat([reference.alias("text"), hypothesis.alias("text")])
    codes, lengths, distinct = encode_words(texts)
    # Searching blanks in the few distinct words is faster than in the texts.
    tidy = not distinct.str.contains(f"^ |[{_ODD_BLANKS}]").any()
    if not tidy:
        codes, lengths, _ = encode_words(tidy_blanks(texts))
    half = len(reference)
    letters = letters_of_words(codes)
    ends = np.cumsum(lengths)
    differ = reference != hypothesis
    sides = (differ.arg_true().to_numpy() + start for start in (0, half))
    bounds = (
        zip((ends - lengths)[rows].tolist(), ends[rows].tolist(), strict=True) for rows in sides
    )
    return (
        _distances(differ, *([letters[start:end] for start, end in side] for side in bounds)),
        lengths[:half],
        tidy,
    )


def letters_of_words(codes: npt.NDArray[np.integer[Any]]) -> Words:
    """Return numbers of words as a text, one character for each word, which is fast to compare.

    Larger numbers than there are characters are returned as a list.
    """
    if codes.max(initial=0) >= _ALPHABET:
        numbers: list[int] = codes.tolist()
        return numbers
    return (codes + _FIRST).astype("<u4").tobytes().decode("utf-32-le")


def tidy_blanks(texts: pl.Series) -> pl.Series:
    """Return texts with single spaces between words, for `encode_words`."""
    return texts.str.strip_chars(BLANKS).str.replace_all(f"[{BLANKS}]{{2,}}", " ")


def encode_words(
    texts: pl.Series,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], pl.Series]:
    """Return a number for each word of all texts, the words per text, and the distinct words.

    Texts are split at every space. Each distinct word ends with a space.
    """
    texts = texts.cast(pl.String)  # a column without values has no type
    full = texts != ""
    # Each word includes the space after it, so that the buffer of the texts, split at spaces, is
    # the array of words.
    _, bounds, spelled = (
        (texts.filter(full) + " ").to_arrow(compat_level=pl.CompatLevel.oldest()).buffers()
    )
    stops = np.frombuffer(bounds, np.int64)[: full.sum() + 1]
    ends = np.flatnonzero(np.frombuffer(spelled, np.uint8)[: stops[-1]] == ord(" ")) + 1
    spoken = pa.LargeStringArray.from_buffers(
        len(ends), pa.py_buffer(np.concatenate(([0], ends))), spelled
    ).dictionary_encode()
    lengths = np.zeros(len(texts), dtype=np.int64)
    lengths[full.to_numpy()] = np.diff(np.searchsorted(ends, stops, side="right"))
    return spoken.indices.to_numpy().view(np.uint32), lengths, pl.Series(spoken.dictionary)


def decode_words(
    codes: npt.NDArray[np.uint32], lengths: npt.NDArray[np.int64], distinct: pl.Series
) -> pl.Series:
    """Return the texts of which `encode_words` gave the words, with other words in their place.

    Each of the `distinct` words is without a space at its end; null leaves the word out of all
    texts.

    Examples:
        >>> codes, lengths, distinct = encode_words(pl.Series(["evo – blic", ""]))
        >>> decode_words(codes, lengths, pl.Series(["Evo", None, "Blic"])).to_list()
        ['Evo Blic', '']
    """
    is_left = distinct.is_not_null().to_numpy()[codes]
    bounds = np.concatenate(([0], np.cumsum(is_left)))[np.concatenate(([0], np.cumsum(lengths)))]
    spaced = (distinct.fill_null("") + " ").to_arrow(compat_level=pl.CompatLevel.oldest())
    # The bytes of all words, one after the other, are those of all texts.
    _, ends, spelled = spaced.take(pa.array(codes[is_left])).buffers()
    stops = np.frombuffer(ends, np.int64)[bounds]
    texts = pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(stops), spelled)
    return pl.Series(pl.from_arrow(texts)).str.strip_suffix(" ")
