"""Compare transcripts with hypotheses (`distance`, `near`), normalize them (`normal`), count characters (`characters`).

Texts are str, columns are Series of str, of polars or pandas; null means unknown and stays null. `score` does all this for a
workspace.
"""

from nbaudio.text.characters import Vocabulary as Vocabulary
from nbaudio.text.characters import vocabulary as vocabulary
from nbaudio.text.distance import DiffPart as DiffPart
from nbaudio.text.distance import cer as cer
from nbaudio.text.distance import cer_column as cer_column
from nbaudio.text.distance import score_columns as score_columns
from nbaudio.text.distance import similarity as similarity
from nbaudio.text.distance import similarity_column as similarity_column
from nbaudio.text.distance import wer as wer
from nbaudio.text.distance import wer_column as wer_column
from nbaudio.text.distance import word_diff as word_diff
from nbaudio.text.distance import word_spans as word_spans
from nbaudio.text.distance import words as words
from nbaudio.text.normal import DEFAULT_STEPS as DEFAULT_STEPS
from nbaudio.text.normal import NORMALIZERS as NORMALIZERS
from nbaudio.text.normal import normalize as normalize
from nbaudio.text.normal import normalize_column as normalize_column
