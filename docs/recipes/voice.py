"""Distance (1 - cosine) of a clip to the mean voice of ten drawn clips of its speaker.

Resemblyzer has its weights in its wheel: `pip install torch librosa webrtcvad-wheels` and
`pip install --no-deps resemblyzer`. Embeddings are not stored: they would identify people in a
published corpus.
"""

from functools import cache

import numpy as np
import torch
from resemblyzer import VoiceEncoder

import nbaudio

WORKSPACE = "W"
CLIPS = 10  # of each speaker, for the centre


@cache
def model():
    torch.set_num_threads(1)
    return VoiceEncoder("cpu", verbose=False)


@cache
def drawn():
    segments = nbaudio.Workspace.open(WORKSPACE).segments.drop_nulls("start_sample")
    shuffled = segments.sample(fraction=1, shuffle=True, seed=1)
    ids = shuffled.group_by("speaker_id").agg("segment_id")
    return {speaker: names[:CLIPS] for speaker, names in ids.iter_rows()}


@cache
def voices(speaker):
    clips = [nbaudio.clip(WORKSPACE, name, rate=16000) for name in drawn()[speaker]]
    samples = [clip.samples.astype(np.float32) / 32768 for clip in clips]
    return dict(zip(drawn()[speaker], map(model().embed_utterance, samples), strict=True))


def distance_of(clip, name, speaker):
    others = [voice for key, voice in voices(speaker).items() if key != name]
    if not others:
        return None
    centre = np.mean(others, axis=0)
    return 1 - model().embed_utterance(clip) @ centre / np.linalg.norm(centre)


def distance(samples, ids, speaker_id):
    return [distance_of(*clip) for clip in zip(samples, ids, speaker_id, strict=True)]
