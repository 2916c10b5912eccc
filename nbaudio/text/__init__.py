"""Compare, normalize and score transcripts and hypotheses.

Columns are Series of polars or pandas, and null stays null.
"""

from nbaudio.text.aligned_words import DiffPart, word_diff
from nbaudio.text.characters import Vocabulary, vocabulary
from nbaudio.text.edit_distance import (
    cer,
    cer_column,
    score_columns,
    similarity,
    similarity_column,
    wer,
    wer_column,
)
from nbaudio.text.edit_distance import word_spans as word_spans
from nbaudio.text.edit_distance import words as words
from nbaudio.text.normalization import DEFAULT_STEPS, NORMALIZERS, normalize, normalize_column

__all__ = [
    "DEFAULT_STEPS",
    "NORMALIZERS",
    "DiffPart",
    "Vocabulary",
    "cer",
    "cer_column",
    "normalize",
    "words",
]
__all__ += [
    "normalize_column",
    "score_columns",
    "similarity",
    "similarity_column",
    "vocabulary",
    "wer",
    "wer_column",
]
__all__ += ["word_diff", "word_spans"]
