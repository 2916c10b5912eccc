"""Recognize by a pipeline of transformers: Whisper, wav2vec 2.0 or another model.

MODEL is a folder that `save_pretrained` has written.
"""

from functools import cache

from transformers import pipeline

MODEL = "models/whisper-large-v3"
OPTIONS = {"generate_kwargs": {"language": "hr", "task": "transcribe"}}  # {} for CTC models


@cache
def model():
    return pipeline("automatic-speech-recognition", model=MODEL)


def recognize(clips, **options):
    inputs = [{"raw": clip, "sampling_rate": 16000} for clip in clips]
    return model()(inputs, batch_size=len(clips), **OPTIONS, **options)


def transcribe(clips):
    return [answer["text"] for answer in recognize(clips)]


def transcribe_words(clips):
    return list(recognize(clips, return_timestamps="word"))
