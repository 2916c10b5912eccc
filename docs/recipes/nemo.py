"""Recognize by onnx-asr: MODEL is a folder with the files of an exported model, here of NeMo."""

from functools import cache

import onnx_asr

MODEL = "models/nemo-conformer-ctc"


@cache
def model():
    return onnx_asr.load_model("nemo-conformer-ctc", MODEL)


def transcribe(clips):
    return model().recognize(clips, sample_rate=16000)


def transcribe_words(clips):
    return model().with_timestamps().recognize(clips, sample_rate=16000)
