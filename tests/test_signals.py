"""Signals of segments: faults of known size on speech of several levels and rates, and what must
not change a signal."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile as sf
import soxr
from numpy.typing import NDArray
from scipy.signal import ellip, sosfiltfilt

from nbaudio.audio import open_recording, probe
from nbaudio.audio.segment_audio import SegmentAudio
from nbaudio.audio.signals import SIGNALS, signals, window_signals
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import AudioError
from nbaudio.tables.schemas import SIGNALS as COLUMNS

Samples = NDArray[np.float64]
RATES = (8000, 16000, 22050, 44100, 48000)
LEVELS = (0.9, 0.1, 0.01)
VOICES = {"spk01": "17 1 2024", "spk07": "12 3 2024"}


@cache
def speech(rate: int = 22050, voice: str = "spk07") -> Samples:
    """A sentence of the demo, with a noise floor of about -75 dBFS, half a second before it and a
    second after it; peak 1."""
    path = next(
        path
        for path in sorted(bundled("data_manifests/demo/audio").iterdir())
        if path.name.startswith(VOICES[voice])
    )
    with open_recording(path) as recording:
        start, stop = (
            round(second * recording.sampling_rate)
            for second in ((0.81, 6.6) if voice == "spk01" else (0.9, 6.0))
        )
        window = recording.read(start, stop)
    mono = window.astype(np.float64).mean(axis=1)
    mono = soxr.resample(mono / np.abs(mono).max(), recording.sampling_rate, rate)
    padded = np.concatenate([np.zeros(rate // 2), mono, np.zeros(rate)])
    return padded / np.abs(padded).max() + np.random.default_rng(0).normal(0, 2e-4, len(padded))


def of(
    x: Samples, rate: int = 22050, start: int = 0, stop: int | None = None, channel: str = "mix"
) -> dict[str, Any]:
    """Signals of samples [start, stop) of a recording of 16 bits."""
    x = x if x.ndim == 2 else x[:, None]
    return of_window(in_16_bits(x), rate, start, stop, channel)


def cuts(x: Samples, rate: int, start: int = 0, stop: int | None = None) -> tuple[bool, bool]:
    """`cut_start` and `cut_end` of samples [start, stop) of a recording of 16 bits, without its
    other signals."""
    speech = SIGNALS["speech"]
    found = dict(
        zip(
            speech.columns,
            speech.function(segment_of(in_16_bits(x[:, None]), rate, start, stop)),
            strict=True,
        )
    )
    return found["cut_start"], found["cut_end"]


def in_16_bits(x: Samples) -> NDArray[np.int16]:
    return np.clip(np.rint(32768 * x), -32768, 32767).astype(np.int16)


def of_window(
    window: NDArray[Any], rate: int, start: int = 0, stop: int | None = None, channel: str = "mix"
) -> dict[str, Any]:
    return signals(segment_of(window, rate, start, stop, channel))


def segment_of(
    window: NDArray[Any], rate: int, start: int, stop: int | None, channel: str = "mix"
) -> SegmentAudio:
    stop, context = len(window) if stop is None else stop, rate // 5
    begin = max(0, start - context)
    return SegmentAudio(window[begin : stop + context], channel, rate, stop - start, start - begin)


def noisy(x: Samples, snr_db: float, seed: int = 1) -> tuple[Samples, float]:
    """Speech with white noise so many dB below its RMS, and the level of the noise in dBFS."""
    level = np.sqrt(np.square(x).mean()) / 10 ** (snr_db / 20)
    return x + np.random.default_rng(seed).normal(0, level, len(x)), 20 * np.log10(level)


@pytest.mark.parametrize("rate", [16000, 22050, 48000])
@pytest.mark.parametrize("voice", VOICES)
def test_snr_is_null_without_a_pause(voice: str, rate: int) -> None:
    x = 0.3 * speech(rate, voice)
    hops = x[: len(x) // (rate // 100) * (rate // 100)].reshape(-1, rate // 100)
    level = 10 * np.log10(np.square(hops).mean(axis=1))
    without_quiet_parts = hops[level > level.max() - 15].ravel()
    found = of(without_quiet_parts, rate)
    assert found["snr_db"] is None
    assert -45 < found["noise_floor_dbfs"] < -20
    # What remains is clean: the sentence with its pauses has more than 40 dB.
    assert of(x, rate)["snr_db"] > 40
    # A pause that lasts long enough is measured.
    pause = np.random.default_rng(5).normal(0, 1e-3, rate // 2)
    assert of(np.concatenate([without_quiet_parts, pause]), rate)["snr_db"] > 25
    # Digital silence says nothing about noise.
    padded = np.concatenate([without_quiet_parts, np.zeros(rate)])
    assert of(padded, rate)["snr_db"] is None


def test_every_column_of_the_schema_has_a_signal() -> None:
    columns = [name for signal in SIGNALS.values() for name in signal.columns]
    assert {*columns, "speech_rate"} == set(COLUMNS)
    assert len(columns) == len(set(columns))
    with pytest.raises(TypeError):
        SIGNALS["new"] = SIGNALS["noise"]  # type: ignore[index]


@pytest.mark.parametrize("gain", LEVELS)
@pytest.mark.parametrize("rate", RATES)
def test_levels_are_those_of_the_samples_without_dc(rate: int, gain: float) -> None:
    x = gain * speech(rate)
    for offset in (0.0, 0.05):
        found = of(0.5 * x + offset, rate)
        expected = 0.5 * (x - x.mean())
        assert found["rms_dbfs"] == pytest.approx(
            10 * np.log10(np.square(expected).mean()), abs=0.05
        )
        assert found["peak_dbfs"] == pytest.approx(20 * np.log10(np.abs(expected).max()), abs=0.05)
        assert found["dc_offset"] == pytest.approx(offset + 0.5 * x.mean(), abs=2e-5)


@pytest.mark.parametrize("snr_db", [0, 5, 10, 20, 30])
@pytest.mark.parametrize("rate", [8000, 16000, 48000])
@pytest.mark.parametrize("voice", VOICES)
def test_noise_of_known_level_is_the_noise_floor(voice: str, rate: int, snr_db: float) -> None:
    for gain in LEVELS[:2]:
        x, level = noisy(gain * 0.3 * speech(rate, voice), snr_db)
        found = of(x, rate)
        assert found["noise_floor_dbfs"] == pytest.approx(level, abs=1.0)
        # The RMS of loud frames holds the noise, too, and leaves out pauses.
        assert snr_db <= found["snr_db"] <= snr_db + 7


@pytest.mark.parametrize("share", [0.001, 0.003, 0.01, 0.03, 0.1])
@pytest.mark.parametrize("gain", LEVELS)
@pytest.mark.parametrize("rate", RATES)
def test_clipping_of_a_known_share_is_found_also_below_full_scale(
    rate: int, gain: float, share: float
) -> None:
    x = speech(rate)
    rail = np.quantile(np.abs(x), 1 - share)
    found = of(gain * np.clip(x / rail, -1, 1), rate)["clipped_share"]
    # At low rates some runs are of one sample, which nothing tells from a peak.
    assert found == pytest.approx(share, rel=0.55 if rate < 20000 else 0.25)
    one_sided = of(gain * np.minimum(x / rail, 1) / max(1, np.abs(x).max() / rail), rate)[
        "clipped_share"
    ]
    assert 0 < one_sided < found


@pytest.mark.parametrize("gain", [1.0, *LEVELS, 0.003])
@pytest.mark.parametrize("rate", RATES)
def test_loud_audio_without_clipping_has_clipped_share_0(rate: int, gain: float) -> None:
    time = np.arange(2 * rate) / rate
    for x in (
        speech(rate),
        speech(rate, "spk01"),
        np.sin(2 * np.pi * 100 * time),
        np.sin(2 * np.pi * 441.3 * time),
    ):
        assert of(0.99 * gain * x, rate)["clipped_share"] == 0.0


def test_speech_in_eight_bits_is_not_clipped() -> None:
    x = np.clip(speech(8000), -1, 1)
    companded = np.round(np.sign(x) * np.log1p(255 * np.abs(x)) / np.log(256) * 127) / 127
    assert (
        of(0.98 * np.sign(companded) * np.expm1(np.abs(companded) * np.log(256)) / 255, 8000)[
            "clipped_share"
        ]
        == 0.0
    )
    assert of(np.round(x * 100) / 128, 8000)["clipped_share"] == 0.0


@pytest.mark.parametrize(
    ("rate", "hertz"),
    [
        (rate, hertz)
        for rate in (16000, 22050, 48000)
        for hertz in (3400, 4000, 5500, 7000)
        if hertz < 0.45 * rate
    ],
)
@pytest.mark.parametrize("gain", [0.9, 0.1])
def test_bandwidth_equals_the_cutoff_of_a_low_pass_filter(
    gain: float, rate: int, hertz: int
) -> None:
    # Noise stands for a voice that fills the whole band.
    x = (
        gain
        * 0.3
        * (
            speech(rate)
            + np.abs(speech(rate)) * np.random.default_rng(2).normal(0, 0.3, len(speech(rate)))
        )
    )
    filtered = sosfiltfilt(ellip(8, 0.5, 70, hertz, fs=rate, output="sos"), x)
    assert of(filtered, rate)["bandwidth_hz"] == pytest.approx(hertz, rel=0.05)
    resampled = soxr.resample(soxr.resample(x, rate, 2 * hertz), 2 * hertz, rate)
    assert of(resampled, rate)["bandwidth_hz"] == pytest.approx(hertz, rel=0.08)
    assert of(x, rate)["bandwidth_hz"] > 0.9 * rate / 2


def test_white_noise_has_full_bandwidth_and_no_speech() -> None:
    for rate in RATES:
        found = of(np.random.default_rng(rate).normal(0, 0.05, 3 * rate), rate)
        assert found["bandwidth_hz"] > 0.95 * rate / 2
        assert found["speech_share"] == 0.0
        assert found["snr_db"] < 1.5
        assert found["leading_silence_s"] is None
        assert not found["cut_start"]
        assert not found["cut_end"]


@pytest.mark.parametrize("rate", RATES)
def test_digital_silence_counts_as_neither_noise_nor_speech(rate: int) -> None:
    x = 0.4 * speech(rate)
    found = of(x, rate)
    for value in (0.0, 0.1):  # a muted channel may have an offset
        before, after = np.full(round(0.7 * rate), value), np.full(rate, value)
        padded = of(np.concatenate([before, x, after]), rate)
        assert padded["silence_share"] == pytest.approx(
            1.7 * rate / (len(x) + 1.7 * rate), abs=1e-3
        )
        for name in ("snr_db", "noise_floor_dbfs", "peak_dbfs", "clipped_share"):
            assert padded[name] == pytest.approx(found[name], abs=0.1), name
        assert padded["bandwidth_hz"] == pytest.approx(found["bandwidth_hz"], rel=0.05)
        assert padded["dc_offset"] == pytest.approx(found["dc_offset"], abs=1e-4)
        assert padded["leading_silence_s"] == pytest.approx(
            found["leading_silence_s"] + 0.7, abs=0.015
        )
        assert padded["trailing_silence_s"] == pytest.approx(
            found["trailing_silence_s"] + 1.0, abs=0.015
        )
        assert padded["speech_share"] * len(padded_length(x, rate)) == pytest.approx(
            found["speech_share"] * len(x), rel=0.02
        )
    assert found["silence_share"] == 0.0
    half = np.where(np.arange(len(x)) < len(x) / 2, x, 0)
    assert of(half, rate)["silence_share"] == pytest.approx(0.5, abs=0.01)


def padded_length(x: Samples, rate: int) -> range:
    return range(len(x) + round(0.7 * rate) + rate)


@pytest.mark.parametrize("milliseconds", [100, 250, 1000])
@pytest.mark.parametrize("rate", RATES)
def test_leading_and_trailing_silence_have_the_known_length(rate: int, milliseconds: int) -> None:
    """Room noise, not digital silence."""
    x = 0.4 * speech(rate)
    found, room = (
        of(x, rate),
        np.random.default_rng(5).normal(0, 0.4 * 2e-4, rate * milliseconds // 1000),
    )
    longer = of(np.concatenate([room, x, room]), rate)
    for name in ("leading_silence_s", "trailing_silence_s"):
        assert longer[name] == pytest.approx(found[name] + milliseconds / 1000, abs=0.03)
    assert found["leading_silence_s"] == pytest.approx(0.5, abs=0.1)


INVARIANT = (
    "snr_db",
    "speech_share",
    "leading_silence_s",
    "trailing_silence_s",
    "cut_start",
    "cut_end",
    "silence_share",
)


@pytest.mark.parametrize("voice", VOICES)
def test_gain_and_resampling_change_only_levels(voice: str) -> None:
    found = of(0.5 * speech(22050, voice), 22050)
    for gain in (0.9, 0.05):
        other = of(gain * speech(22050, voice), 22050)
        assert other["rms_dbfs"] - found["rms_dbfs"] == pytest.approx(
            20 * np.log10(gain / 0.5), abs=0.02
        )
        assert {name: other[name] for name in INVARIANT} == pytest.approx(
            {name: found[name] for name in INVARIANT}, abs=0.6
        )
    for rate in (16000, 44100, 48000):
        other = of(soxr.resample(0.5 * speech(22050, voice), 22050, rate), rate)
        assert other["rms_dbfs"] == pytest.approx(found["rms_dbfs"], abs=0.15)
        assert other["snr_db"] == pytest.approx(found["snr_db"], abs=1.0)
        assert other["speech_share"] == pytest.approx(found["speech_share"], abs=0.04)
        for name in ("leading_silence_s", "trailing_silence_s"):
            assert other[name] == pytest.approx(found[name], abs=0.03)


def test_speech_is_found_in_noise() -> None:
    clean = of(0.3 * speech(16000), 16000)["speech_share"]
    shares = [of(noisy(0.3 * speech(16000), snr)[0], 16000)["speech_share"] for snr in (0, 10, 20)]
    assert 0.4 * clean < shares[0] < shares[1] < shares[2] < 1.1 * clean
    assert shares[1] > 0.6 * clean


def loud_and_quiet(x: Samples, rate: int) -> tuple[list[int], list[int]]:
    """Positions in the middle of loud speech, and in pauses; from levels of 10 ms alone."""
    hop = rate // 100
    level = 10 * np.log10(np.square(x[: len(x) // hop * hop].reshape(-1, hop)).mean(axis=1) + 1e-12)
    loud = [
        i * hop for i in range(40, len(level) - 40) if level[i - 5 : i + 5].min() > level.max() - 18
    ]
    quiet = [
        i * hop for i in range(20, len(level) - 20) if level[i - 5 : i + 5].max() < level.max() - 38
    ]
    return loud, quiet


@pytest.mark.slow
@pytest.mark.parametrize("rate", [16000, 44100])
@pytest.mark.parametrize("voice", VOICES)
def test_cut_start_and_cut_end_are_true_in_speech_and_false_in_pauses(
    voice: str, rate: int
) -> None:
    x = 0.5 * speech(rate, voice)
    loud, quiet = loud_and_quiet(x, rate)
    assert len(loud) > 20
    assert len(quiet) > 20
    # In a recording that goes on, and where the recording itself begins or ends there.
    starts = [cuts(x, rate, start=place)[0] for place in loud] + [
        cuts(x[place:], rate)[0] for place in loud
    ]
    ends = [cuts(x, rate, stop=place)[1] for place in loud] + [
        cuts(x[:place], rate)[1] for place in loud
    ]
    assert np.mean(starts) > 0.85
    assert np.mean(ends) > 0.85
    for place in quiet:
        if place < len(x) // 2:
            assert not cuts(x, rate, start=place)[0]
            assert not cuts(x[place:], rate)[0]
        else:
            assert not cuts(x, rate, stop=place)[1]
            assert not cuts(x[:place], rate)[1]


def test_channel_correlation_is_computed_and_null_for_mono_and_dead_channels() -> None:
    x, rng = 0.3 * speech(16000), np.random.default_rng(3)
    assert of(x, 16000)["channel_correlation"] is None
    for rows in ([x, x], [x, 0.1 * x]):
        assert of(np.stack(rows, axis=1), 16000)["channel_correlation"] == pytest.approx(
            1, abs=1e-3
        )
    assert of(np.stack([x, -x], axis=1), 16000, channel="left")["channel_correlation"] == -1
    both = np.stack([x, x], axis=1) + rng.normal(0, 0.02, (len(x), 2)) + 0.1
    expected = np.corrcoef(both.T)[0, 1]
    assert of(both, 16000)["channel_correlation"] == pytest.approx(expected, abs=2e-3)
    assert (
        of(both, 16000, channel="right")["channel_correlation"]
        == of(both, 16000)["channel_correlation"]
    )
    three = np.column_stack([both, rng.normal(0, 0.02, len(x))])
    matrix = np.corrcoef(three.T)
    assert of(three, 16000)["channel_correlation"] == pytest.approx(
        (matrix[0, 1] + matrix[0, 2] + matrix[1, 2]) / 3, abs=2e-3
    )
    for dead in (np.zeros(len(x)), np.full(len(x), 0.01), rng.normal(0, 3e-5, len(x))):
        found = of(np.stack([x, dead], axis=1), 16000)
        assert found["channel_correlation"] is None
        assert found["rms_dbfs"] == pytest.approx(of(x / 2, 16000)["rms_dbfs"], abs=0.1)


def test_signals_are_those_of_the_chosen_channel() -> None:
    x = 0.3 * speech(16000)
    pair = np.stack([x, np.clip(20 * x, -0.5, 0.5)], axis=1)
    assert of(pair, 16000, channel="left") | {"channel_correlation": None} == of(x, 16000)
    assert of(pair, 16000, channel="right")["clipped_share"] > 0.05
    assert of(pair, 16000, channel="0")["clipped_share"] == 0


@pytest.mark.parametrize("samples", [1, 2, 7, 79, 80, 81, 160, 400, 1000])
def test_short_segments_have_values_and_none_is_infinite(samples: int) -> None:
    for x in (
        np.random.default_rng(1).normal(0, 0.1, samples),
        np.zeros(samples),
        np.ones(samples) / 3,
    ):
        for channels in (x, np.stack([x, x], axis=1)):
            for found in (
                of(channels, 8000),
                of_window(channels.reshape(samples, -1).astype(np.float32), 8000),
            ):
                numbers = [value for value in found.values() if value is not None]
                assert np.isfinite(numbers).all()
                assert found["silence_share"] in (0.0, 1.0)


def test_values_that_need_sound_are_null_in_digital_silence_and_never_null_where_there_is_speech() -> None:  # noqa: E501  # fmt: skip
    silent = of(np.zeros(16000), 16000)
    assert silent["silence_share"] == 1
    assert silent["speech_share"] == 0
    assert [
        silent[name]
        for name in ("rms_dbfs", "snr_db", "noise_floor_dbfs", "bandwidth_hz", "leading_silence_s")
    ] == [None] * 5
    for gain in (1.0, 1e-3):
        found = of_window((gain * speech(16000)).astype(np.float32)[:, None], 16000)
        assert [name for name, value in found.items() if value is None] == ["channel_correlation"]
        assert found["speech_share"] > 0.3


def test_float_and_int_samples_give_the_same() -> None:
    window = np.rint(32768 * 0.5 * np.stack([speech(44100), 0.8 * speech(44100)], axis=1)).astype(
        np.int16
    )
    assert of_window((window / 32768).astype(np.float32), 44100) == of_window(window, 44100)
    assert of_window(np.asfortranarray(window), 44100) == of_window(window, 44100)


def test_a_window_of_a_recording_gives_what_its_samples_give(tmp_path: Path) -> None:
    x = np.rint(32768 * 0.5 * speech(16000)).astype(np.int16)
    sf.write(tmp_path / "a.flac", x, 16000)
    with open_recording(tmp_path / "a.flac") as recording:
        found = window_signals(
            recording, 20000, 60000, "mix", num_samples=probe(tmp_path / "a.flac").num_samples
        )
    assert found == of_window(x[:, None], 16000, 20000, 60000)


Damage = Callable[[Samples], Samples]
DAMAGES: Mapping[str, tuple[Damage, pl.Expr]] = {
    "clipped": (lambda x: np.clip(4 * x, -0.6, 0.6), pl.col("clipped_share") > 0.005),
    "noisy": (lambda x: noisy(x, 5)[0], pl.col("snr_db") < 15),
    "quiet": (lambda x: 0.03 * x, pl.col("rms_dbfs") < -48),
    "half silent": (
        lambda x: np.where(np.arange(len(x)) < len(x) / 2, x, 0),
        pl.col("silence_share") > 0.3,
    ),
    "offset": (lambda x: x + 0.1, pl.col("dc_offset").abs() > 0.05),
    "telephone": (
        lambda x: sosfiltfilt(ellip(8, 0.5, 70, 3400, fs=22050, output="sos"), x),
        pl.col("bandwidth_hz") < 4000,
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_fault_is_caught_by_its_condition_alone(name: str) -> None:
    clean = 0.4 * (
        speech() + np.abs(speech()) * np.random.default_rng(2).normal(0, 0.1, len(speech()))
    )
    # In 16 bits the pauses of a quiet recording are digital silence.
    rows = pl.DataFrame(
        [of_window(x.astype(np.float32)[:, None], 22050) for x in (clean, DAMAGES[name][0](clean))]
    )
    for other, (_, caught) in DAMAGES.items():
        assert rows.select(caught).to_series().to_list() == [False, other == name], other


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("channels", [1, 2])
def test_nan_and_extreme_samples_are_refused(value: float, channels: int, tmp_path: Path) -> None:
    x = np.repeat(0.5 * speech(16000)[:, None], channels, axis=1).astype(np.float32)
    x[9000] = value
    sf.write(tmp_path / "a.wav", x, 16000, subtype="FLOAT")
    with (
        open_recording(tmp_path / "a.wav") as recording,
        pytest.raises(AudioError, match="not numbers"),
    ):
        window_signals(recording, 0, len(x), "mix", num_samples=len(x))
