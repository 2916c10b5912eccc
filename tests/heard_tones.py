"""Recordings of tones, a tone for each word, and a recognizer that hears their words exactly."""

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

RATE = 16000
# A recognizer that hears a word of a list in each tone, by its frequency: 300, 340, 380 Hz, ...
RECOGNIZER = """
import numpy as np

version = "1"
WORDS = %(words)r
FRAME = 320

def recognize(clips):
    return [list(words(clip)) for clip in clips]

def words(clip):
    frames = clip[: len(clip) // FRAME * FRAME].reshape(-1, FRAME)
    is_on = abs(frames).max(axis=1) > 0.05
    edges = np.flatnonzero(np.diff(is_on, prepend=False, append=False))
    for first, end in edges.reshape(-1, 2):
        samples = clip[first * FRAME : end * FRAME]
        samples = samples[FRAME:-FRAME]
        hertz = np.count_nonzero(np.diff(samples > 0)) / 2 / (len(samples) / 16000)
        word = WORDS[round((hertz - 300) / 40)]
        yield {"word": word, "start": first * FRAME / 16000, "end": end * FRAME / 16000}
"""
WORDS = [
    f"{first}{second}{third}"
    for first in ("bra", "kolo", "pet")
    for second in ("da", "mi", "ra", "tu")
    for third in ("c", "k", "lo", "na")
]


def recognizer_code() -> str:
    """The module of the recognizer, whose function is `recognize`."""
    return RECOGNIZER % {"words": WORDS}


def make_sentences(count: int, seed: int) -> list[list[str]]:
    """So many sentences of ten words."""
    chance = random.Random(seed)
    return [[chance.choice(WORDS) for _ in range(10)] for _ in range(count)]


def typed(sentences: Sequence[Sequence[str]]) -> str:
    """The sentences as minutes have them."""
    return " ".join(f"{' '.join(words).capitalize()}." for words in sentences)


def write_recording(path: Path, sentences: Sequence[Sequence[str]], *, rate: int = RATE) -> None:
    """Write the tones of sentences: a word in half a second, a second of silence behind each."""
    time = np.arange(int(0.4 * rate)) / rate
    pause = np.zeros(rate // 10, np.float32)
    tones = {
        word: 0.3 * np.sin(2 * np.pi * (300 + 40 * number) * time).astype(np.float32)
        for number, word in enumerate(WORDS)
    }
    parts = [
        part for words in sentences for word in (*words, "") for part in (tones.get(word), pause)
    ]
    silence = np.zeros(rate * 9 // 10, np.float32)
    samples = np.concatenate([silence if part is None else part for part in parts])
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate)
