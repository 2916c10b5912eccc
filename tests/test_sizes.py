import numpy as np
import polars as pl
import pytest
import soundfile as sf
from hypothesis import given
from hypothesis import strategies as st

from nbaudio.audio import encode_clip, read_clip
from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import parse_size
from nbaudio.selection.size_budget import measure_bytes_per_second


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("500MB", 500_000_000),
        ("1.5TB", 1_500_000_000_000),
        ("900 gb", 900_000_000_000),
        ("2GiB", 2 * 2**30),
        ("1.5k", 1500),
        ("10KiB", 10240),
        ("7", 7),
        ("7B", 7),
        (7, 7),
    ],
)
def test_sizes_are_read_in_usual_notations(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "MB", "1.5.1GB", "-1GB", "1e9", "5 PB", "2iB", "0", "0.1B", 0, -5, True, 1.5, None, "nan"],
)
def test_an_invalid_size_is_refused_with_an_example(text):
    with pytest.raises(InputError, match="500MB"):
        parse_size(text)


@given(st.integers(1, 10**15))
def test_sizes_in_bytes_are_read_from_text_and_numbers(size):
    assert parse_size(str(size)) == parse_size(size) == size


@pytest.fixture
def recordings(tmp_path):
    """A second of noise after a second of silence, four times over, at 48 kHz in two channels."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 3000, (48000, 2)).astype(np.int16)
    sf.write(tmp_path / "a.wav", np.concatenate([np.zeros_like(noise), noise] * 4), 48000)
    starts = [*range(0, 8 * 48000, 48000)]
    return pl.DataFrame(
        {
            "path": ["a.wav"] * 8,
            "start_sample": starts,
            "end_sample": [start + 48000 for start in starts],
            "num_samples": [8 * 48000] * 8,
            "sampling_rate": [48000] * 8,
        }
    )


def test_the_estimated_bytes_per_second_are_three_standard_errors_above_the_mean(
    recordings, tmp_path
):
    sizes = [
        len(encode_clip(read_clip(tmp_path / "a.wav", start, start + 48000), 16000))
        for start in recordings["start_sample"]
    ]
    measured = measure_bytes_per_second(recordings, tmp_path)
    # The clips have a second each.
    error = np.std(sizes, ddof=1) / np.sqrt(8)
    assert measured == pytest.approx(np.mean(sizes) + 3 * error)
    # Clips that are all alike leave no doubt.
    alike = measure_bytes_per_second(recordings[[2, 4]], tmp_path)
    assert alike == pytest.approx(sizes[2])


def test_clips_that_cannot_be_read_are_not_measured(recordings, tmp_path):
    lost = recordings[:2].with_columns(path=pl.lit("lost.wav"))
    assert measure_bytes_per_second(
        pl.concat([recordings, lost]), tmp_path
    ) == measure_bytes_per_second(recordings, tmp_path)
    assert measure_bytes_per_second(pl.concat([recordings[:1], lost]), tmp_path) is None


def test_only_the_channel_of_a_clip_is_measured(recordings, tmp_path):
    samples, rate = sf.read(tmp_path / "a.wav", dtype="int16")
    samples[:, 0] = 0
    sf.write(tmp_path / "a.wav", samples, rate)
    left, right = (
        measure_bytes_per_second(recordings.with_columns(source_channel=pl.lit(side)), tmp_path)
        for side in ("left", "right")
    )
    assert left < right / 10
