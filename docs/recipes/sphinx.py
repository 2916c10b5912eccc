"""Recognize by PocketSphinx, whose wheel has a small model of English with low accuracy."""

import numpy as np
from pocketsphinx import Decoder


def decode(clip):
    decoder = Decoder(samprate=16000, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw((clip * 32767).astype(np.int16).tobytes(), full_utt=True)
    decoder.end_utt()
    return decoder


def transcribe(clips):
    hypotheses = [decode(clip).hyp() for clip in clips]
    return [hypothesis.hypstr if hypothesis else "" for hypothesis in hypotheses]


def words_of(decoder):
    parts = [part for part in decoder.seg() or [] if part.word[0] not in "<["]
    return [
        {
            "word": part.word.partition("(")[0],
            "start": part.start_frame / 100,
            "end": (part.end_frame + 1) / 100,
        }
        for part in parts
    ]


def transcribe_words(clips):
    return [words_of(decode(clip)) for clip in clips]
