"""Thousands of damaged headers, seed by seed, each seed in a process of its own; whole songs of MP3 as levels."""

import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from conftest import sweeps
from test_audio_broken import fuzz

from nbaudio.audio import probe, restore
from nbaudio.corpus import materialize, verify
from nbaudio.corpus.reading import read_audio
from nbaudio.workspace import Workspace


@pytest.mark.parametrize("seed", range(4))
def test_damaged_headers(tmp_path: Path, seed: int) -> None:
    last = fuzz(tmp_path, 2000, seed=seed, timeout=600)
    assert last.startswith("done:")
    assert int(last.split()[-2]) < 500


def test_whole_songs_of_mp3_become_levels(tmp_path: Path) -> None:
    seconds, rate = 180, 44100
    audio = tmp_path / "audio"
    audio.mkdir()
    sf.write(audio / "song.mp3", np.resize(sweeps(10, rate), (seconds * rate, 2)), rate)
    found = probe(audio / "song.mp3")
    facts = {"sampling_rate": rate, "num_channels": 2, "num_samples": found.num_samples, "codec": found.codec}
    told = {"text": "", "asr_text": None, "similarity": None, "split": "train", "decision": "accept"}
    place = {"start_sample": 0, "end_sample": found.num_samples, "source_start": "0", "source_end": "180"}
    workspace = Workspace.create(tmp_path / "w", source="made", audio=str(audio))
    workspace.save(
        recordings=pl.DataFrame([{"recording_id": "song", "path": "song.mp3", **facts}]),
        segments=pl.DataFrame([{"segment_id": "song", "recording_id": "song", **place, **told}]),
    )
    out = tmp_path / "corpus"
    materialize(workspace, out=out, rate=8000, channel="left", encoding="mulaw", engine="threading", show_progress=False)
    assert verify(out, engine="threading", show_progress=False).facts["whole"] is True
    levels = np.load(io.BytesIO(read_audio(out, ["song"])[0]))
    assert (levels.dtype, levels.shape) == (np.uint8, (1_440_000,))
    assert restore(levels).std() > 1000
