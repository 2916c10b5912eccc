"""How far a hypothesis is from a transcript: similarity, word and character error rates, and which words differ.

Characters are Unicode code points. Words are jiwer's: runs of two or more blanks become one space, the ends are stripped, and
the rest is split at spaces. The error rates are jiwer's too, empty references included: what was inserted then counts as it
is, so that nothing against nothing is 0 and two words against nothing are 2.

The functions for one pair are plain; those for columns give the same numbers, block by block, on all processors.
"""

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist

from nbaudio.errors import InputError

# What Python calls a blank; Rust's notion, which polars would use, lacks the four separators from U+001C. U+3000 is the last.
BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace())
_UNTIDY = f"^[{BLANKS}]|[{BLANKS}]$|[{BLANKS}][{BLANKS}]"
# A lone blank that is no space is part of the word around it.
_WORD = re.compile(r"\S+(?:[^\S ]\S+)*")

# Rows that are compared at a time: enough for one call to be worth it, few enough for a few MB of split words per processor.
_BLOCK = 4096
# Words are compared as code points of a made-up alphabet, which has no surrogates: they would not survive decoding.
_SURROGATES = (0xD800, 0xE000)
_ALPHABET = 0x110000 - (_SURROGATES[1] - _SURROGATES[0])

Measure = Literal["similarity", "wer", "cer"]
MEASURES: tuple[Measure, ...] = ("similarity", "wer", "cer")


@dataclass(frozen=True)
class DiffPart:
    """A stretch of words that reference and hypothesis share, or where they part.

    Attributes:
        kind: ``equal``, ``replace``, ``delete`` (only in the reference) or ``insert`` (only in the hypothesis).
        reference: the words of the reference.
        hypothesis: the words of the hypothesis.
    """

    kind: Literal["equal", "insert", "delete", "replace"]
    reference: tuple[str, ...]
    hypothesis: tuple[str, ...]


def words(text: str) -> list[str]:
    """The words of a text, as jiwer splits them.

    Examples:
        >>> words("  dobar   dan ")
        ['dobar', 'dan']
    """
    return _WORD.findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end, in characters.

    Examples:
        >>> word_spans(" dobar dan")
        [(1, 6), (7, 10)]
    """
    return [match.span() for match in _WORD.finditer(text)]


def similarity(a: str, b: str) -> float:
    """``1 - 2 * levenshtein(a, b) / (len(a) + len(b))`` over characters; it is not `Levenshtein.ratio`.

    Returns:
        A number from -1 (nothing in common, or one side empty) to 1 (equal, also both empty).

    Examples:
        >>> similarity("sabor", "sabora")
        0.8181818181818181
        >>> similarity("sabor", ""), similarity("", "")
        (-1.0, 1.0)
    """
    return 1 - 2 * Levenshtein.distance(a, b) / max(len(a) + len(b), 1)


def wer(reference: str, hypothesis: str) -> float:
    """Word error rate: substituted, deleted and inserted words per word of the reference.

    Returns:
        0 for equal words, and more than 1 where there are more errors than words; the number of words in the hypothesis where
        the reference has none.

    Examples:
        >>> wer("evo blic odgovori", "evo odgovori na")
        0.6666666666666666
    """
    expected = words(reference)
    return Levenshtein.distance(expected, words(hypothesis)) / max(len(expected), 1)


def cer(reference: str, hypothesis: str) -> float:
    """Character error rate: as `wer` over characters, blanks between words included, blanks at the ends not.

    Examples:
        >>> cer("sabor", "sabora ")
        0.2
    """
    expected = reference.strip()
    return Levenshtein.distance(expected, hypothesis.strip()) / max(len(expected), 1)


def word_diff(reference: str, hypothesis: str) -> list[DiffPart]:
    """What turns the reference into the hypothesis, word by word, with as few edits as `wer` counts.

    Examples:
        >>> [(part.kind, part.reference, part.hypothesis) for part in word_diff("evo blic", "evo blitz na")]
        [('equal', ('evo',), ('evo',)), ('insert', (), ('blitz',)), ('replace', ('blic',), ('na',))]
    """
    left, right = words(reference), words(hypothesis)
    return [
        DiffPart(op.tag, tuple(left[op.src_start : op.src_end]), tuple(right[op.dest_start : op.dest_end]))  # type: ignore[arg-type]
        for op in Levenshtein.opcodes(left, right)
    ]


def similarity_column(text: pl.Series, asr_text: pl.Series) -> pl.Series:
    """`similarity` of two columns of equal length: str, str -> f64, null where either is null.

    Examples:
        >>> similarity_column(pl.Series(["da", "da", ""]), pl.Series(["da", None, "ne"])).to_list()
        [1.0, None, -1.0]
    """
    return score_columns(text, asr_text, measures=("similarity",))["similarity"]


def wer_column(reference: pl.Series, hypothesis: pl.Series) -> pl.Series:
    """`wer` of two columns of equal length: str, str -> f64, null where either is null."""
    return score_columns(reference, hypothesis, measures=("wer",))["wer"]


def cer_column(reference: pl.Series, hypothesis: pl.Series) -> pl.Series:
    """`cer` of two columns of equal length: str, str -> f64, null where either is null."""
    return score_columns(reference, hypothesis, measures=("cer",))["cer"]


def score_columns(text: pl.Series, asr_text: pl.Series, *, measures: Sequence[Measure] = MEASURES) -> pl.DataFrame:
    """Several measures of two columns of equal length at once: the characters are compared only once for all.

    Args:
        text: the human words.
        asr_text: the recogniser's.
        measures: which of ``similarity``, ``wer`` and ``cer``.

    Returns:
        A frame with one f64 column per measure, null where either text is null.

    Raises:
        InputError: the columns differ in length or do not hold text.

    Examples:
        >>> score_columns(pl.Series(["evo blic"]), pl.Series(["evo blitz"])).row(0)
        (0.7647058823529411, 0.5, 0.25)
    """
    return rates(edit_counts(text, asr_text, measures=measures))


def rates(counts: pl.DataFrame) -> pl.DataFrame:
    """The measures whose counts are there, from what `edit_counts` gives."""

    def per(edits: str, length: str) -> pl.Expr:
        return pl.col(edits) / pl.max_horizontal(pl.col(length), 1)

    measures = {
        "similarity": 1 - 2 * pl.col("edits") / pl.max_horizontal(pl.col("length"), 1),
        "wer": per("word_edits", "words"),
        "cer": per("inner_edits", "inner_length"),
    }
    needs = {"similarity": "edits", "wer": "word_edits", "cer": "inner_edits"}
    return counts.select(
        pl.when(pl.col(needs[name]).is_not_null()).then(rate).alias(name)
        for name, rate in measures.items()
        if needs[name] in counts.columns
    )


def edit_counts(text: pl.Series, asr_text: pl.Series, *, measures: Sequence[Measure] = MEASURES) -> pl.DataFrame:
    """The counts behind the measures, so that they can be summed over a corpus.

    Returns:
        i64 columns, null where either text is null: for `similarity` `edits` and `length` (characters of both texts), for `cer`
        `inner_edits` and `inner_length` (of the reference without blanks at its ends), for `wer` `word_edits` and `words`
        (of the reference).

    Raises:
        InputError: the columns differ in length or do not hold text.
    """
    if len(text) != len(asr_text):
        raise InputError(f"scores need two columns of equal length, got {len(text)} and {len(asr_text)} rows")
    for column in (text, asr_text):
        if column.dtype not in (pl.String, pl.Null):
            raise InputError(f"scores need columns of text, {column.name or 'one'} holds {column.dtype}")
    pairs = pl.DataFrame({"text": text.cast(pl.String), "asr_text": asr_text.cast(pl.String)})
    blocks = [pairs[start : start + _BLOCK] for start in range(0, max(len(pairs), 1), _BLOCK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return pl.concat(pool.map(lambda block: _block_counts(block, measures), blocks))


def _block_counts(pairs: pl.DataFrame, measures: Sequence[Measure]) -> pl.DataFrame:
    known = pairs["text"].is_not_null() & pairs["asr_text"].is_not_null()
    reference, hypothesis = (pairs[name].fill_null("") for name in ("text", "asr_text"))
    counts: dict[str, pl.Series | npt.NDArray[np.int64]] = {}
    as_is = None
    if "similarity" in measures:
        as_is = _distances(reference.to_list(), hypothesis.to_list())
        counts |= {"edits": as_is, "length": reference.str.len_chars() + hypothesis.str.len_chars()}
    if "cer" in measures or "wer" in measures:
        tidy = not (reference.str.contains(_UNTIDY).any() or hypothesis.str.contains(_UNTIDY).any())
        if not tidy:
            reference, hypothesis = (column.str.strip_chars(BLANKS) for column in (reference, hypothesis))
    if "cer" in measures:
        inner = as_is if tidy and as_is is not None else _distances(reference.to_list(), hypothesis.to_list())
        counts |= {"inner_edits": inner, "inner_length": reference.str.len_chars()}
    if "wer" in measures:
        if not tidy:
            reference, hypothesis = (column.str.replace_all(f"[{BLANKS}]{{2,}}", " ") for column in (reference, hypothesis))
        word_edits, lengths = _word_distances(reference, hypothesis)
        counts |= {"word_edits": word_edits, "words": lengths}
    return pl.DataFrame(counts).select(pl.when(known).then(pl.all().cast(pl.Int64)))


def _distances(left: Sequence[str], right: Sequence[str]) -> npt.NDArray[np.int64]:
    return cpdist(left, right, scorer=Levenshtein.distance, dtype=np.int64, workers=1)


def _word_distances(reference: pl.Series, hypothesis: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Edits and reference words of tidy texts: each distinct word becomes one character, and the characters are compared."""
    both = pl.concat([reference.alias("text"), hypothesis.alias("text")])
    split = both.str.split(" ")
    lengths = (split.list.len().cast(pl.Int64) * (both != "").cast(pl.Int64)).to_numpy()
    spoken = split.explode(empty_as_null=True)
    spoken = spoken.filter(spoken != "")
    # A category space of its own numbers the words of this block from 0, whatever else the process has seen.
    codes = spoken.cast(pl.Categorical(pl.Categories.random())).to_physical().to_numpy()
    half = len(reference)
    if len(codes) and codes.max() >= _ALPHABET:
        one_by_one = [Levenshtein.distance(words(a), words(b)) for a, b in zip(reference, hypothesis, strict=True)]
        return np.array(one_by_one, dtype=np.int64), lengths[:half]
    points = codes + np.where(codes >= _SURROGATES[0], _SURROGATES[1] - _SURROGATES[0], 0).astype(codes.dtype)
    letters = points.astype("<u4").tobytes().decode("utf-32-le")
    ends = np.cumsum(lengths).tolist()
    encoded = [letters[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return _distances(encoded[:half], encoded[half:]), lengths[:half]
