"""A recognizer whose texts depend on the number of samples only."""

version = "1"


def transcribe(clips):
    return [f"{len(clip)} samples" for clip in clips]
