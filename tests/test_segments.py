"""Clips to pydub, with normalized loudness for listening."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import sweeps
from hypothesis import given
from hypothesis import strategies as st

from nbaudio.audio.pydub_bridge import normalize_loudness, to_audiosegment

RATE = 16000


def _clip(loudness: float) -> np.ndarray:
    return (sweeps(1.0, RATE) * loudness * 32767).astype(np.int16)[:, 0]


def _dbfs(samples: np.ndarray) -> float:
    return 10 * np.log10(np.mean((samples.astype(float) / 32768) ** 2))


@given(st.lists(st.integers(-32768, 32767), max_size=30))
def test_a_pydub_segment_has_the_samples_and_the_rate(values: list[int]) -> None:
    segment = to_audiosegment(np.array(values, np.int16), 44100)
    assert segment.get_array_of_samples().tolist() == values
    assert (segment.frame_rate, segment.channels, segment.sample_width) == (44100, 1, 2)


@pytest.mark.parametrize("loudness", [0.01, 0.1, 0.5])
def test_loudness_is_normalized_to_minus_20_dbfs(loudness: float) -> None:
    even = normalize_loudness(_clip(loudness), RATE)
    assert abs(_dbfs(even) + 20) < 0.2


def test_loudness_is_limited_by_the_peak_and_silence_is_unchanged() -> None:
    click = np.zeros(RATE, np.int16)
    click[100] = 1000
    assert 0.88 < normalize_loudness(click, RATE).max() / 32768 < 0.9
    assert not normalize_loudness(np.zeros(100, np.int16), RATE).any()


@pytest.mark.slow
def test_pydub_is_imported_without_a_warning_if_ffmpeg_is_missing() -> None:
    program = "import numpy as np; from nbaudio.audio.pydub_bridge import to_audiosegment as t; "
    program += "print(len(t(np.zeros(80, np.int16), 8000)))"
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": ""},
    )
    assert (done.stdout, done.stderr) == ("10\n", "")
