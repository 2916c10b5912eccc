"""Notebook widgets to listen, compare, tune and review.

Each of them also shows in a saved page, offline and without a kernel.
"""

from nbaudio.ui.widgets.explorer import Explorer
from nbaudio.ui.widgets.players import Player, TranscriptDiff, Vocabulary, corpus_player
from nbaudio.ui.widgets.review_panel import ReviewPanel
from nbaudio.ui.widgets.segment_table import SegmentTable, table
from nbaudio.ui.widgets.static_html import Clips, Table
from nbaudio.ui.widgets.threshold_tuner import ThresholdTuner

__all__ = ["Clips", "Explorer", "Player", "ReviewPanel", "SegmentTable", "Table"]
__all__ += ["ThresholdTuner", "TranscriptDiff", "Vocabulary", "corpus_player", "table"]
