"""Things to listen to and to turn in a notebook; each also shows in a saved page, offline and without a kernel.

`pages` and `tables` build HTML, `players` finds what to show in it, `sliders` adds ipywidgets. Transcripts and names are always
text, never markup. A player holds its clips, so the number of clips, their length and their bytes are bounded (see `players`).
"""

from nbaudio.widgets.players import Player, corpus_player, diff, player
from nbaudio.widgets.sliders import ThresholdSlider, threshold
from nbaudio.widgets.tables import Table, table

__all__ = ["Player", "Table", "ThresholdSlider", "corpus_player", "diff", "player", "table", "threshold"]
