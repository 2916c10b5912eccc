"""Find sentences that are nearly those of held-out segments, which train should not have.

Sentences are compared without case, punctuation and diacritics, and with letters that look alike,
such as those of Latin and Cyrillic, as one letter.
"""

from functools import lru_cache

import polars as pl

from nbaudio.tables.dataframes import IN_ORDER, STREAMED
from nbaudio.tables.parquet_files import ROWS_A_GROUP
from nbaudio.text.near_duplicates import NearIndex, sentences
from nbaudio.text.scripts import LOOKS_LIKE

#: Similarity above which a segment of train is left out; 1 leaves none out.
NEAR_HELD_OUT = 0.95
#: Sentences of fewer words are formulas, such as thanks, that any recording has.
FEWEST_WORDS = 4
#: Sentences of so many words that differ in the last word only are near, whatever its length.
WORDS_BEFORE_LAST = 5

# Sentences whose pieces are in memory at once: some 30 MB.
_INDEXED = 1 << 14
_DIACRITICS = "[\u0300-\u036f]+"


def near_held_out(
    segments: pl.LazyFrame, held_out: pl.Series, train: pl.Series, threshold: float
) -> pl.Series:
    """Return the rows of train that are near a held-out one.

    Args:
        segments: the table, with `text`; a null text is near none.
        held_out: numbers of the rows that are held out.
        train: numbers of the rows of train.
        threshold: similarity in [0.9, 1] above which sentences are near; 1 returns no row. Those
            that are equal but for the last word are near, too, if they have more than
            `WORDS_BEFORE_LAST` words. Those of fewer than `FEWEST_WORDS` words are near none.
    """
    near = [pl.Series("row", [], dtype=train.dtype)]
    if threshold < 1 and len(held_out) and len(train):
        rows = segments.select("text").with_row_index("row").cast({"row": train.dtype})
        texts = rows.filter(pl.col("row").is_in(held_out.implode())).collect(**STREAMED)["text"]
        sentences_held_out = NearSentences(texts, threshold)
        parts = rows.filter(pl.col("row").is_in(train.implode())).collect_batches(
            chunk_size=ROWS_A_GROUP, **IN_ORDER
        )
        near += [part["row"].filter(sentences_held_out.near(part["text"])) for part in parts]
    return pl.concat(near)


class NearSentences:
    """Sentences that others are compared with, as `near_held_out` compares them.

    Only `_INDEXED` of them have their pieces in memory at once.
    """

    def __init__(self, texts: pl.Series, threshold: float) -> None:
        """Take the sentences, in any number, and the similarity above which others are near."""
        self._threshold = threshold
        # More similar than the threshold t are only texts with fewer edits than 2 (1 - t) / (1 + t)
        # of the characters of the shorter one.
        self._part = int((1 + threshold) / (2 * (1 - threshold)))
        sentences = _compared(texts).drop_nulls().unique().sort()
        by_length = sentences.str.len_chars().arg_sort()
        self._sentences = sentences.gather(by_length)
        # Hashes take a tenth of the memory of texts.
        self._equal = self._sentences.hash().implode()
        self._beginnings = _without_last_word(self._sentences).drop_nulls().hash().implode()
        self._index_from = lru_cache(maxsize=1)(self._new_index)

    def near(self, texts: pl.Series) -> pl.Series:
        """Return for each text whether it is near one of the sentences, or equal to it."""
        compared = _compared(texts)
        others = compared.drop_nulls().unique()
        beginnings = _without_last_word(others)
        begins_equally = beginnings.hash().is_in(self._beginnings) & beginnings.is_not_null()
        is_near = others.hash().is_in(self._equal) | begins_equally
        similar = self._similar(others.filter(~is_near))
        near = pl.concat([others.filter(is_near), *similar])
        return compared.is_in(near.implode()).fill_null(value=False)

    def _similar(self, others: pl.Series) -> list[pl.Series]:
        """Return the texts that are more similar than the threshold to a sentence."""
        lengths = others.str.len_chars().cast(pl.Int64)
        similar = []
        for start in range(0, len(self._sentences), _INDEXED):
            index = self._index_from(start)
            shortest, longest = (
                index.sentences.gather(place).str.len_chars().item() for place in (0, -1)
            )
            fits = lengths.is_between(
                shortest * self._part // (self._part + 1), longest + longest // self._part
            )
            similar.append(self._similar_in(index, others.filter(fits)))
        return similar

    def _new_index(self, start: int) -> NearIndex:
        """Return an index of the sentences from a number on, by their lengths."""
        return NearIndex(self._sentences.slice(start, _INDEXED), part=self._part)

    def _similar_in(self, index: NearIndex, others: pl.Series) -> pl.Series:
        """Return the texts that are more similar than the threshold to a sentence of an index."""
        pairs = index.among(others)
        lengths = index.sentences.gather(pairs["sentence"]).str.len_chars().cast(
            pl.Int64
        ) + others.gather(pairs["text"]).str.len_chars().cast(pl.Int64)
        similarity = 1 - 2 * pairs["edits"] / lengths
        return others.gather(pairs["text"].filter(similarity > self._threshold).unique())


def _compared(texts: pl.Series) -> pl.Series:
    """Return texts as they are compared; null where there are too few words."""
    folded = texts.alias("text").to_frame().select(_folded(pl.col("text"))).to_series()
    is_long = folded.str.count_matches(" ") >= FEWEST_WORDS - 1
    return pl.select(pl.when(is_long).then(folded)).to_series()


def _folded(texts: pl.Expr) -> pl.Expr:
    """Return texts without case, diacritics and the difference of look-alike letters."""
    plain = sentences(texts).str.normalize("NFD").str.replace_all(_DIACRITICS, "")
    return plain.str.replace_many(LOOKS_LIKE)


def _without_last_word(folded: pl.Series) -> pl.Series:
    """Return the words before the last one; null where there are too few of them."""
    first = folded.str.replace(r" [^ ]+$", "")
    is_long = folded.str.count_matches(" ") >= WORDS_BEFORE_LAST
    return pl.select(pl.when(is_long).then(first)).to_series()
