"""MP3 songs to 256 levels of their left channel at 8 kHz by command line, and back to samples."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from conftest import encoded, sweeps
from typer.testing import CliRunner

from nbaudio.audio import dequantize, quantize, read_clip
from nbaudio.cli import app

RATE = 44100


def songs(folder: Path, *seconds: float) -> Path:
    """Stereo MP3s, other music on the right."""
    folder.mkdir()
    for number, lasting in enumerate(seconds):
        some = sweeps(min(lasting, 10), RATE, seed=number)
        sf.write(folder / f"song {number}.mp3", np.resize(some, (int(lasting * RATE), 2)), RATE)
    return folder


def command(*words: str | Path) -> dict[str, object]:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    facts: dict[str, object] = json.loads(done.stdout)["facts"]
    return facts


def levels_of(
    source: Path, place: Path, law: str, *options: str
) -> list[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """The job of docs/audio.md: of each clip its row, its levels, and the samples of all of its
    song at once."""
    command("ingest", "folder", source, "--out", place / "W", *options)
    split = ("--group-by", "recording_id", "--dev", "0", "--test", "0")
    command("select", place / "W", "--max-duration", "600", *split)
    how = ("--rate", "8000", "--channel", "left", "--encoding", law, "--engine", "threading")
    command("materialize", place / "W", "--out", place / "C", *how)
    assert command("verify", place / "C", "--engine", "threading")["whole"] is True
    clips = pl.read_parquet(place / "C/segments.parquet").sort("recording_id", "start_sample")
    recordings = pl.read_parquet(place / "W/recordings.parquet").select(
        "recording_id", "path", length="num_samples"
    )
    whole = {
        key: read_clip(source / path, 0, length, num_samples=length, rate=8000, channel="left")
        for key, path, length in recordings.iter_rows()
    }
    arrays = [
        np.load(io.BytesIO(data)) for data in encoded(place / "C", clips["segment_id"].to_list())
    ]
    return [
        (row, levels, whole[row["recording_id"]])
        for row, levels in zip(clips.iter_rows(named=True), arrays, strict=True)
    ]


def signal_to_noise(samples: np.ndarray, again: np.ndarray) -> float:
    return float(
        10
        * np.log10(
            np.mean(samples.astype(float) ** 2) / np.mean((samples.astype(float) - again) ** 2)
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(("law", "least"), [("mulaw", 36), ("linear", 36)])
def test_whole_mp3_songs_become_levels_of_the_documented_quality(
    tmp_path: Path, law: str, least: float
) -> None:
    source = songs(tmp_path / "songs", 12.0, 7.3)
    found = levels_of(source, tmp_path, law)
    assert [len(levels) for _, levels, _ in found] == [96_000, 58_400]
    for row, levels, song in found:
        assert (levels.dtype, levels.shape, row["sampling_rate"], row["text"]) == (
            np.uint8,
            song.shape,
            8000,
            None,
        )
        np.testing.assert_array_equal(levels, quantize(song, law))
        assert signal_to_noise(song, dequantize(levels, law)) >= least


@pytest.mark.slow
def test_windows_of_songs_equal_the_same_samples_of_the_whole(tmp_path: Path) -> None:
    source = songs(tmp_path / "songs", 12.0, 7.3)
    found = levels_of(
        source, tmp_path, "mulaw", "--option", "window=2.5", "--option", "partial=drop"
    )
    assert [len(levels) for _, levels, _ in found] == [20_000] * (4 + 2)
    for row, levels, song in found:
        start = round(float(row["source_start"]) * 8000)
        assert np.abs(levels.astype(int) - quantize(song[start : start + 20_000])).max() <= 1
