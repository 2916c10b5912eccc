"""Thousands of damaged recordings, seed by seed, each seed in a separate process; MP3 songs as
levels."""

from pathlib import Path

import numpy as np
import pytest
from test_audio_broken import fuzz
from test_wavenet import levels_of, signal_to_noise, songs

from nbaudio.audio import dequantize


@pytest.mark.parametrize(("seed", "seconds"), [(0, 1.0), (1, 3.0)])
def test_damaged_recordings_are_decoded_or_refused_without_a_crash(
    tmp_path: Path, seed: int, seconds: float
) -> None:
    """Of 3 s, a part lies behind what `ingest` decodes."""
    last = fuzz(tmp_path, 1000, seed=seed, timeout=1800, seconds=seconds)
    assert last.startswith("done:")
    assert int(last.split()[-2]) < 400


def test_whole_mp3_songs_are_quantized_at_the_stated_signal_to_noise_ratio(tmp_path: Path) -> None:
    [(_, levels, song)] = levels_of(songs(tmp_path / "songs", 180.0), tmp_path, "mulaw")
    assert (levels.dtype, levels.shape) == (np.uint8, (1_440_000,))
    assert signal_to_noise(song, dequantize(levels)) >= 36
