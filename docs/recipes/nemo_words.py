"""Recognize recordings by NeMo, which returns the times of words in its hypotheses."""

from functools import cache

import nemo.collections.asr as nemo_asr

MODEL = "models/parakeet.nemo"


@cache
def model():
    return nemo_asr.models.ASRModel.restore_from(MODEL)


def transcribe_words(clips):
    return model().transcribe(clips, timestamps=True, batch_size=len(clips))
