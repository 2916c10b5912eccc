"""Clips to pydub and back, with normalized loudness for listening."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import sweeps
from hypothesis import given
from hypothesis import strategies as st

from nbaudio.audio.pydub_bridge import from_audiosegment, normalize_loudness, to_audiosegment
from nbaudio.core.errors import InputError

RATE = 16000


def _clip(seconds: float = 1.0, *, channels: int = 1, loudness: float = 0.5) -> np.ndarray:
    samples = (sweeps(seconds, RATE, channels=channels) * loudness * 32767).astype(np.int16)
    return samples[:, 0] if channels == 1 else samples


def _dbfs(samples: np.ndarray) -> float:
    return 10 * np.log10(np.mean((samples.astype(float) / 32768) ** 2))


@given(st.integers(1, 3), st.lists(st.integers(-32768, 32767), max_size=30))
def test_samples_come_back_as_they_were(channels: int, values: list[int]) -> None:
    samples = np.array(values, np.int16)
    if channels > 1:
        samples = np.repeat(samples[:, None], channels, axis=1)
    back, rate = from_audiosegment(to_audiosegment(samples, 44100))
    np.testing.assert_array_equal(back, samples)
    assert (back.dtype, back.shape, rate) == (np.int16, samples.shape, 44100)


def test_other_widths_become_16_bits() -> None:
    segment = to_audiosegment(_clip(), RATE)
    np.testing.assert_array_equal(from_audiosegment(segment.set_sample_width(4))[0], _clip())


@pytest.mark.parametrize("samples", [np.zeros(3), np.zeros((2, 2, 2), np.int16)], ids=["float", "three axes"])
def test_other_samples_are_refused(samples: np.ndarray) -> None:
    with pytest.raises(InputError, match="int16 of shape"):
        to_audiosegment(samples, RATE)


@pytest.mark.parametrize("loudness", [0.01, 0.1, 0.5])
def test_clips_come_to_one_loudness(loudness: float) -> None:
    even = normalize_loudness(_clip(loudness=loudness), RATE, loudness_db=-23)
    assert abs(_dbfs(even) + 23) < 0.2


def test_the_peak_wins_and_silence_stays() -> None:
    click = np.zeros(RATE, np.int16)
    click[100] = 1000
    assert 0.88 < normalize_loudness(click, RATE, loudness_db=-10, peak_db=-1).max() / 32768 < 0.9
    assert not normalize_loudness(np.zeros(100, np.int16), RATE).any()


def test_pydub_is_imported_without_a_word_where_there_is_no_ffmpeg() -> None:
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
