"""Recognize by faster-whisper: MODEL is a folder that ct2-transformers-converter has written."""

from functools import cache

from faster_whisper import WhisperModel

MODEL = "models/faster-whisper-large-v3"


@cache
def model():
    return WhisperModel(MODEL, device="auto", local_files_only=True)


def transcribe(clips):
    heard = (model().transcribe(clip, language="hr", temperature=0)[0] for clip in clips)
    return ["".join(part.text for part in parts) for parts in heard]


def transcribe_words(clips):
    options = {"language": "hr", "temperature": 0, "word_timestamps": True}
    return [list(model().transcribe(clip, **options)[0]) for clip in clips]
