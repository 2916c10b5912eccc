"""Clips without any signal: digital silence, and channels that cancel in their mix."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from conftest import write_audio

import nbaudio
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report

RATE = 16000
TONE = 0.3 * np.sin(2 * np.pi * 300 * np.arange(2 * RATE) / RATE)
OTHER_TONE = 0.3 * np.sin(2 * np.pi * 500 * np.arange(2 * RATE) / RATE)
SILENCE = np.zeros(2 * RATE)


def stereo(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return samples of shape (samples, 2)."""
    return np.stack([left, right], axis=1)


#: By name of the recording, 2 s of samples, and whether its mix is a clip.
CASES = {
    "tone": (TONE[:, None], True),
    "faint": (TONE[:, None] / 9000, True),
    "zeros": (SILENCE[:, None], False),
    "constant": (SILENCE[:, None] + 0.25, False),
    "inverse": (stereo(TONE, -TONE), True),
    "nearly_inverse": (stereo(TONE, -0.995 * TONE), True),
    "inverse_and_constant": (stereo(TONE / 2 + 0.1, 0.1 - TONE / 2), True),
    "of_four": (np.concatenate([stereo(TONE, -TONE)] * 2, axis=1), True),
    "of_three": (np.stack([SILENCE, TONE, -TONE], axis=1), True),
    "half_inverse": (stereo(TONE, -TONE / 2), True),
    "two_tones": (stereo(TONE, -OTHER_TONE), True),
    "one_dead": (stereo(TONE, SILENCE), True),
    "faint_stereo": (stereo(TONE, OTHER_TONE) / 1000, True),
    "silent_stereo": (stereo(SILENCE, SILENCE), False),
}
#: The channel that is used of recordings whose channels cancel.
CHANNELS = {
    "inverse": "left",
    "nearly_inverse": "left",
    "inverse_and_constant": "left",
    "of_four": "left",
    "of_three": "right",
}
SHIPPED = {name for name, (_, has_signal) in CASES.items() if has_signal}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> nbaudio.Workspace:
    """One segment of each of `CASES`, selected."""
    place = tmp_path_factory.mktemp("silence")
    (place / "audio").mkdir()
    for name, (samples, _) in CASES.items():
        sf.write(place / f"audio/{name}.wav", samples, RATE)
    lines = [f"{name}.wav,{name}\n" for name in CASES]
    (place / "t.csv").write_text("name,text\n" + "".join(lines))
    nbaudio.ingest("table", place / "t.csv", audio=place / "audio", out=place / "W", jobs=1)
    nbaudio.select(place / "W", min_similarity=-1, dev=0, test=0)
    return nbaudio.Workspace.open(place / "W")


def shipped(workspace: nbaudio.Workspace, out: Path, channel: str) -> Report:
    options: dict[str, Any] = {"jobs": 1, "engine": "threading", "show_progress": False}
    return nbaudio.materialize(workspace, out=out, channel=channel, **options)


def test_clips_without_signal_are_rejected_with_their_reason(
    workspace: nbaudio.Workspace, tmp_path: Path
) -> None:
    report = shipped(workspace, tmp_path / "C", "mix")
    assert set(nbaudio.open_corpus(tmp_path / "C").segments["segment_id"]) == SHIPPED
    assert report.facts["reasons"] == {"silent_audio": len(CASES) - len(SHIPPED)}
    rejected = pl.read_parquet(tmp_path / "C/rejected.parquet")
    details = dict(rejected.select("recording_id", "detail").iter_rows())
    equal = "no signal: all samples are equal (digital silence)"
    assert details["zeros"] == f"zeros.wav: {equal}"
    assert details["silent_stereo"] == f"silent_stereo.wav: {equal}"
    assert "verify" in report.facts["next"]
    assert "repair" not in report.facts["next"]
    verified = nbaudio.verify(tmp_path / "C", jobs=1, engine="threading", show_progress=False)
    assert verified.problems == []


def test_a_single_channel_of_cancelling_channels_is_cut(
    workspace: nbaudio.Workspace, tmp_path: Path
) -> None:
    own = workspace.segments.drop_nulls("source_channel")
    assert dict(own.select("recording_id", "source_channel").iter_rows()) == CHANNELS
    shipped(workspace, tmp_path / "C", "mix")
    for clip in nbaudio.open_corpus(tmp_path / "C").read_many([*CHANNELS]):
        number = ("left", "right").index(CHANNELS[clip.segment_id])
        expected = CASES[clip.segment_id][0][:, number]
        assert clip.samples is not None
        assert np.abs(clip.samples / 32768 - expected).max() < 0.001


def test_ingest_warns_of_channels_that_cancel(workspace: nbaudio.Workspace) -> None:
    warned = workspace.recordings.filter(
        pl.col("probe_warning").str.contains("channels cancel in their mix")
    )
    assert dict(warned.select("recording_id", "uncancelled_channel").iter_rows()) == CHANNELS
    warning = dict(warned.select("recording_id", "probe_warning").iter_rows())["of_three"]
    assert warning.endswith("only its right channel is used")


def test_a_clip_whose_channels_cancel_in_another_recording_is_rejected(tmp_path: Path) -> None:
    samples = np.concatenate([stereo(TONE, TONE), stereo(TONE, -TONE)])
    sf.write(tmp_path / "a.wav", samples, RATE)
    (tmp_path / "t.csv").write_text("name,start,end,text\na.wav,0,2,eins\na.wav,2,4,zwei\n")
    nbaudio.ingest("table", tmp_path / "t.csv", audio=tmp_path, out=tmp_path / "W", jobs=1)
    nbaudio.select(tmp_path / "W", min_similarity=-1, dev=0, test=0)
    shipped(nbaudio.Workspace.open(tmp_path / "W"), tmp_path / "C", "mix")
    assert nbaudio.open_corpus(tmp_path / "C").segments["text"].to_list() == ["eins"]
    rejected = pl.read_parquet(tmp_path / "C/rejected.parquet")
    assert rejected["reason"].to_list() == ["silent_audio"]
    assert "channels cancel in their mix" in rejected["detail"][0]
    assert "--channel left" in rejected["detail"][0]


def test_a_channel_that_the_source_names_is_used_where_channels_cancel(tmp_path: Path) -> None:
    sf.write(tmp_path / "a.wav", CASES["inverse"][0], RATE)
    (tmp_path / "t.csv").write_text("name,text,source_channel\na.wav,eins,right\n")
    nbaudio.ingest("table", tmp_path / "t.csv", audio=tmp_path, out=tmp_path / "W", jobs=1)
    assert nbaudio.Workspace.open(tmp_path / "W").segments["source_channel"].item() == "right"


@pytest.mark.parametrize("ending", ["flac", "mp3", "ogg", "opus", "m4a"])
def test_cancelling_channels_are_found_in_every_encoding(tmp_path: Path, ending: str) -> None:
    samples = np.tile(stereo(TONE, -TONE), (4, 1)).astype(np.float32)
    path = tmp_path / f"a.{ending}"
    write_audio(path, samples, 48000)
    warning = nbaudio.audio.probe(path).warning
    assert warning is not None
    assert "channels cancel in their mix" in warning


def test_silence_at_the_beginning_does_not_hide_channels_that_cancel(tmp_path: Path) -> None:
    samples = np.concatenate([stereo(SILENCE, SILENCE), stereo(TONE, -TONE)])
    sf.write(tmp_path / "a.wav", samples, RATE)
    assert "cancel" in str(nbaudio.audio.probe(tmp_path / "a.wav").warning)
    sf.write(tmp_path / "b.wav", np.concatenate([samples, stereo(TONE, TONE)]), RATE)
    assert nbaudio.audio.probe(tmp_path / "b.wav").warning is None


def test_materialize_of_silent_clips_alone_is_refused_with_the_reason(tmp_path: Path) -> None:
    sf.write(tmp_path / "a.wav", SILENCE, RATE)
    (tmp_path / "t.csv").write_text("name,text\na.wav,eins\n")
    nbaudio.ingest("table", tmp_path / "t.csv", audio=tmp_path, out=tmp_path / "W", jobs=1)
    nbaudio.select(tmp_path / "W", min_similarity=-1, dev=0, test=0)
    with pytest.raises(InputError, match=r"none of the 1 .*digital silence"):
        shipped(nbaudio.Workspace.open(tmp_path / "W"), tmp_path / "C", "mix")
