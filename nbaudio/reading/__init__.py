"""Read a corpus: clips by id, and streams that shuffle, split among consumers, resume and batch, locally or over the network."""

from nbaudio.reading.clips import Clip
from nbaudio.reading.corpora import Corpus, open_corpus
from nbaudio.reading.streams import Stream

__all__ = ["Clip", "Corpus", "Stream", "open_corpus"]
