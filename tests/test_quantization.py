"""Quantization to 256 levels: the formula, its inverse, the noise, and corpora of levels."""

import io
import math
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from conftest import encoded, sweeps
from hypothesis import given
from hypothesis import strategies as st

from nbaudio.audio import decode_clip, dequantize, encode_clip, probe, quantize, read_clip
from nbaudio.audio.quantization import QUANTIZATIONS
from nbaudio.core.errors import AudioError, InputError
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.verify import verify
from nbaudio.tables.workspace import Workspace

every_law = pytest.mark.parametrize("law", QUANTIZATIONS)


def _level(sample: int, law: str) -> int:
    """The formula, one sample at a time."""
    x = sample / 32768
    y = math.copysign(math.log1p(255 * abs(x)) / math.log(256), x) if law == "mulaw" else x
    return math.floor((y + 1) / 2 * 255 + 0.5)


@every_law
@given(samples=st.lists(st.integers(-32768, 32767), max_size=50))
def test_levels_are_those_of_the_formula(law: str, samples: list[int]) -> None:
    assert quantize(np.array(samples, np.int16), law).tolist() == [
        _level(sample, law) for sample in samples
    ]


@every_law
def test_every_level_is_unchanged_by_dequantizing_and_quantizing(law: str) -> None:
    levels = np.arange(256, dtype=np.uint8)
    samples = dequantize(levels, law)
    np.testing.assert_array_equal(quantize(samples, law), levels)
    assert (np.diff(samples.astype(int)) > 0).all()


@pytest.mark.parametrize(
    ("law", "decibels", "least"),
    [
        *(("mulaw", decibels, 37) for decibels in (0, -10, -20, -30)),
        ("mulaw", -40, 33),
        ("linear", 0, 49),
        ("linear", -20, 29),
    ],
)
def test_signal_to_noise_is_what_the_documentation_states(
    law: str, decibels: int, least: float
) -> None:
    t = np.arange(80000) / 8000
    for frequency in (97.3, 440.7, 1333.1):
        tone = np.rint(32767 * 10 ** (decibels / 20) * np.sin(2 * np.pi * frequency * t)).astype(
            np.int16
        )
        noise = dequantize(quantize(tone, law), law).astype(float) - tone
        assert 10 * np.log10(np.mean(tone.astype(float) ** 2) / np.mean(noise**2)) >= least


def test_an_unknown_law_and_damaged_levels_are_refused() -> None:
    with pytest.raises(InputError, match="mulaw, linear"):
        quantize(np.zeros(3, np.int16), "alaw")
    data = encode_clip(np.zeros(300, np.int16), 8000, "mulaw")
    floats = io.BytesIO()
    np.save(floats, np.zeros(3))
    for bad in (data[:-1], b"", b"not levels", floats.getvalue()):
        with pytest.raises(AudioError):
            decode_clip(bad, "mulaw")


@pytest.mark.slow
@every_law
@pytest.mark.parametrize("container", ["webdataset", "parquet"])
def test_a_corpus_of_levels_is_complete_and_holds_uint8(
    make_workspace: Callable[..., Workspace], tmp_path: Path, law: str, container: str
) -> None:
    workspace = make_workspace({"a.wav": (7, 44100), "b.flac": (7, 16000)})
    out = tmp_path / "corpus"
    materialize(
        workspace,
        out=out,
        container=container,
        rate=8000,
        channel="left",
        encoding=law,
        engine="threading",
        show_progress=False,
    )
    assert verify(out, engine="threading", show_progress=False).problems == []
    segments = pl.read_parquet(out / "segments.parquet")
    recordings = {row["recording_id"]: row for row in workspace.recordings.iter_rows(named=True)}
    places = {
        row[0]: row[1:]
        for row in workspace.segments.select("segment_id", "start_sample", "end_sample").iter_rows()
    }
    for row in segments.iter_rows(named=True):
        levels = np.load(io.BytesIO(encoded(out, [row["segment_id"]])[0]))
        path = Path(str(workspace.audio_root)) / recordings[row["recording_id"]]["path"]
        clip = read_clip(path, *places[row["segment_id"]], rate=8000, channel="left")
        assert (levels.dtype, len(levels), row["sampling_rate"]) == (
            np.uint8,
            row["num_samples"],
            8000,
        )
        assert np.abs(levels.astype(int) - quantize(clip, law)).max() <= 1
    if container == "webdataset":
        with tarfile.open(out / segments["shard"][0]) as shard:
            assert {name.rsplit(".", 1)[1] for name in shard.getnames()} == {"npy", "json"}
    else:
        features = pq.read_schema(out / segments["shard"][0]).metadata[b"huggingface"]
        assert b'"_type": "Audio"' not in features


@pytest.mark.slow
def test_whole_songs_and_their_windows_are_quantized_alike(tmp_path: Path) -> None:
    seconds, rate = 180, 44100
    audio = tmp_path / "audio"
    audio.mkdir()
    sf.write(audio / "song.wav", np.resize(sweeps(10, rate), (seconds * rate, 2)), rate)
    found = probe(audio / "song.wav")
    facts = {
        "sampling_rate": rate,
        "num_channels": 2,
        "num_samples": found.num_samples,
        "codec": found.codec,
    }
    windows = [
        ("song", 0, found.num_samples),
        *((f"song_{i}", i * rate, (i + 1) * rate) for i in range(5)),
    ]
    told = {
        "text": "",
        "asr_text": None,
        "similarity": None,
        "split": "train",
        "decision": "accept",
    }
    rows = [
        {
            "segment_id": key,
            "recording_id": "song",
            "start_sample": start,
            "end_sample": end,
            **told,
        }
        for key, start, end in windows
    ]
    workspace = Workspace.create(tmp_path / "w", source="made", audio=str(audio))
    workspace.save(
        recordings=pl.DataFrame([{"recording_id": "song", "path": "song.wav", **facts}]),
        segments=pl.DataFrame(rows).with_columns(source_start=pl.lit("0"), source_end=pl.lit("1")),
    )
    out = tmp_path / "corpus"
    materialize(
        workspace,
        out=out,
        rate=8000,
        channel="left",
        encoding="mulaw",
        engine="threading",
        show_progress=False,
    )
    assert verify(out, engine="threading", show_progress=False).facts["whole"] is True
    song, window = (np.load(io.BytesIO(data)) for data in encoded(out, ["song", "song_3"]))
    assert song.shape == (1_440_000,)
    # The whole song and a window of it were resampled on the same grid.
    assert np.abs(song[24000:32000].astype(int) - window).max() <= 1
