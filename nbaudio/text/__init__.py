"""Transcripts: how far a hypothesis is from them, their normal form, their characters.

`distance` compares, `normal` tidies, `characters` counts them, `scoring` does it for a workspace. Texts are str, columns
are Series of str, of polars or pandas; null means not known and stays null.
"""

from nbaudio.text.characters import Vocabulary, vocabulary
from nbaudio.text.distance import (
    DiffPart,
    cer,
    cer_column,
    edit_counts,
    score_columns,
    similarity,
    similarity_column,
    wer,
    wer_column,
    word_diff,
    word_spans,
    words,
)
from nbaudio.text.normal import DEFAULT_STEPS, NORMALIZERS, normalize, normalize_column
from nbaudio.text.score import score

__all__ = [
    "DEFAULT_STEPS",
    "NORMALIZERS",
    "DiffPart",
    "Vocabulary",
    "cer",
    "cer_column",
    "edit_counts",
    "normalize",
    "normalize_column",
    "score",
    "score_columns",
    "similarity",
    "similarity_column",
    "vocabulary",
    "wer",
    "wer_column",
    "word_diff",
    "word_spans",
    "words",
]
