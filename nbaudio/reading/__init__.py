"""Read a corpus, locally or over the network: clips by id, and streams.

Streams shuffle, split among consumers, resume and batch.
"""

from nbaudio.reading.clips import Clip
from nbaudio.reading.corpora import Corpus, open_corpus
from nbaudio.reading.streams import Stream

__all__ = ["Clip", "Corpus", "Stream", "open_corpus"]
