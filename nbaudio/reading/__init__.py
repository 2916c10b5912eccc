"""Reading a corpus back: any clip by its id, and streams that shuffle, part, resume and batch, here or over the network.

`corpora` is what users call; `order` decides which clip comes when, `clips` where its bytes are, and `streams` reads ahead and
decodes. `cutting` gives a clip before there is a corpus.
"""

from nbaudio.reading.clips import Clip
from nbaudio.reading.corpora import Corpus, open_corpus
from nbaudio.reading.cutting import clip
from nbaudio.reading.streams import Stream

__all__ = ["Clip", "Corpus", "Stream", "clip", "open_corpus"]
