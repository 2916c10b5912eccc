"""Things to listen to and to turn in a notebook; each also shows in a saved page, offline and without a kernel.

`SegmentTable`, `Player`, `TranscriptDiff`, `ThresholdTuner`, `ReviewPanel` and `MaterializePanel` are live: thin skins over pure
functions, with front ends in ``js``, see `skin`. `pages` and `tables` build the HTML that saved pages show, `saved` finds what
to show in it. Transcripts and names are always text, never markup. A saved player holds its clips, so their number, length and
bytes are bounded.
"""

from nbaudio.ui.widgets.materialize_panel import JobPanel, MaterializePanel
from nbaudio.ui.widgets.player import Player
from nbaudio.ui.widgets.review_panel import ReviewPanel
from nbaudio.ui.widgets.segment_table import SegmentTable
from nbaudio.ui.widgets.static_export import StaticClips, corpus_player
from nbaudio.ui.widgets.tables import Table, table
from nbaudio.ui.widgets.threshold_tuner import ThresholdTuner
from nbaudio.ui.widgets.transcript_diff import TranscriptDiff

__all__ = [
    "JobPanel",
    "MaterializePanel",
    "Player",
    "ReviewPanel",
    "SegmentTable",
    "StaticClips",
    "Table",
    "ThresholdTuner",
    "TranscriptDiff",
    "corpus_player",
    "table",
]
