"""Compare, normalize and score transcripts and hypotheses; columns are Series of polars or pandas, and null stays null."""

from nbaudio.text.aligned_words import DiffPart as DiffPart
from nbaudio.text.aligned_words import word_diff as word_diff
from nbaudio.text.characters import Vocabulary as Vocabulary
from nbaudio.text.characters import vocabulary as vocabulary
from nbaudio.text.edit_distance import cer as cer
from nbaudio.text.edit_distance import cer_column as cer_column
from nbaudio.text.edit_distance import score_columns as score_columns
from nbaudio.text.edit_distance import similarity as similarity
from nbaudio.text.edit_distance import similarity_column as similarity_column
from nbaudio.text.edit_distance import wer as wer
from nbaudio.text.edit_distance import wer_column as wer_column
from nbaudio.text.edit_distance import word_spans as word_spans
from nbaudio.text.edit_distance import words as words
from nbaudio.text.normalization import DEFAULT_STEPS as DEFAULT_STEPS
from nbaudio.text.normalization import NORMALIZERS as NORMALIZERS
from nbaudio.text.normalization import normalize as normalize
from nbaudio.text.normalization import normalize_column as normalize_column
