"""Things to listen to and to turn in a notebook; each also shows in a saved page, offline and without a kernel.

`SegmentTable` is live: thin skins over pure functions, with a front end in ``js`` (see `skin`). `pages` and
`tables` build the HTML that saved pages show, `players` finds what to show in it. Transcripts and names are always text, never
markup. A saved player holds its clips, so the number of clips, their length and their bytes are bounded (see `players`).
"""

from nbaudio.widgets.players import Player, corpus_player, diff, player
from nbaudio.widgets.segment_table import SegmentTable
from nbaudio.widgets.sliders import ThresholdSlider, threshold
from nbaudio.widgets.tables import Table, table

__all__ = ["Player", "SegmentTable", "Table", "ThresholdSlider", "corpus_player", "diff", "player", "table", "threshold"]
