"""`nbaudio.clip`: a segment as `materialize` cuts it, to play, save and pass to pydub."""

import base64
import io
import os
import pickle
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import soundfile as sf

import nbaudio
from nbaudio.core.errors import AudioError, InputError


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"a.wav": (8.0, 44100), "b.flac": (8.0, 16000)})


def played(element):
    """Samples and rate that an audio element holds."""
    data = base64.b64decode(re.search(r"base64,([^\"]+)", element)[1])
    return sf.read(io.BytesIO(data), dtype="int16")


@pytest.mark.parametrize(("rate", "channel"), [(16000, "mix"), (8000, "right"), (None, "left")])
def test_a_clip_is_what_materialize_cuts(workspace, tmp_path, rate, channel):
    nbaudio.materialize(
        workspace, out=tmp_path / "corpus", rate=rate, channel=channel, jobs=1, show_progress=False
    )
    cut = nbaudio.open_corpus(tmp_path / "corpus").read_many(workspace.segments["segment_id"])
    for there in cut:
        own = nbaudio.clip(workspace, there.segment_id, rate=rate, channel=channel)
        np.testing.assert_array_equal(own.samples, there.samples)
        assert (own.rate, own.segment_id, own.text) == (there.rate, there.segment_id, there.text)
    assert {clip.rate for clip in cut} == ({44100, 16000} if rate is None else {rate})


def test_the_channel_of_a_segment_overrides_the_channel_option(workspace):
    segments = workspace.segments
    key = segments["segment_id"][0]
    left = nbaudio.clip(workspace, key, channel="left").samples
    workspace.save(segments=segments.with_columns(source_channel=pl.lit("right")))
    own = nbaudio.clip(workspace, key, channel="left").samples
    assert not np.array_equal(own, left)
    np.testing.assert_array_equal(own, nbaudio.clip(workspace, key, channel="1").samples)


def test_a_clip_that_cannot_be_cut_is_refused_with_the_reason(workspace):
    key = workspace.segments["segment_id"][0]
    for segment_id, options, error, message in (
        ("none", {}, InputError, "no segment 'none'"),
        (key, {"rate": 0}, InputError, "rate=0"),
        (key, {"rate": 16000.0}, InputError, "rate=16000.0"),
        (key, {"channel": "middle"}, InputError, "channel 'middle'"),
        (key, {"channel": "7"}, AudioError, "2 channels"),
    ):
        with pytest.raises(error, match=message):
            nbaudio.clip(workspace, segment_id, **options)
    segments, recordings = workspace.segments, workspace.recordings
    workspace.save(segments=segments.with_columns(end_sample=pl.lit(10**9)))
    with pytest.raises(AudioError, match="not inside the recording of"):
        nbaudio.clip(workspace, key)
    workspace.save(segments=segments, recordings=recordings.clear())
    with pytest.raises(AudioError, match="is missing; ingest with audio"):
        nbaudio.clip(workspace, key)


def test_pydub_segments_have_the_samples_and_play_after_edits_and_pickling(workspace):
    clip = nbaudio.clip(workspace, workspace.segments["segment_id"][0])
    segment = clip.to_pydub()
    from pydub import AudioSegment  # pydub warns at its first import, which nbaudio silences

    assert isinstance(segment, AudioSegment)
    np.testing.assert_array_equal(segment.get_array_of_samples(), clip.samples)
    for shown, expected in (
        (segment, clip.samples),
        (clip, clip.samples),
        (segment[500:1000], clip.samples[8000:16000]),
        (segment.set_sample_width(4), clip.samples),
        (segment.set_channels(2), np.stack([clip.samples] * 2, axis=1)),
        (pickle.loads(pickle.dumps(segment)), clip.samples),  # noqa: S301
    ):
        samples, rate = played(shown._repr_html_())
        np.testing.assert_array_equal(samples, expected)
        assert rate == 16000


def test_clips_play_where_there_is_no_ffmpeg():
    program = (
        "import nbaudio, sys; assert not {'pandas', 'pydub'} & set(sys.modules), "
        "'imported too early'\n"
        "import numpy as np; from nbaudio.audio.pydub_bridge import to_audiosegment as t\n"
        "print(t(np.zeros(80, np.int16), 8000)._repr_html_()[:15])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    assert (done.stdout, done.stderr) == ("<audio controls\n", "")


@pytest.mark.parametrize("suffix", [".wav", ".FLAC", ".mp3", ".ogg", ".opus"])
def test_a_clip_is_saved_in_the_format_of_its_suffix(workspace, tmp_path, suffix):
    clip = nbaudio.clip(workspace, workspace.segments["segment_id"][0])
    path = clip.save(tmp_path / "new" / f"clip{suffix}")
    samples, rate = sf.read(path, dtype="int16")
    assert sf.info(path).format == {".wav": "WAV", ".flac": "FLAC", ".mp3": "MP3"}.get(
        suffix.lower(), "OGG"
    )
    # Opus is decoded at 48 kHz, whatever it was made of.
    assert abs(len(samples) / rate - len(clip.samples) / clip.rate) < 0.001
    if suffix.lower() in (".wav", ".flac"):
        np.testing.assert_array_equal(samples, clip.samples)
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208


def test_an_unknown_suffix_or_rate_for_saving_is_refused(workspace, tmp_path):
    clip = nbaudio.clip(workspace, workspace.segments["segment_id"][0], rate=None)
    with pytest.raises(
        InputError, match=r"'.m4a' is unknown; known are .wav, .flac, .mp3, .ogg, .opus"
    ):
        clip.save(tmp_path / "clip.m4a")
    with pytest.raises(InputError, match="no rate of 44100 Hz"):
        clip.save(tmp_path / "clip.opus")
    assert not list(tmp_path.glob("clip*"))


def test_clips_of_a_corpus_play_unless_read_as_levels_or_bytes(workspace, tmp_path):
    nbaudio.materialize(
        workspace, out=tmp_path / "corpus", encoding="mulaw", jobs=1, show_progress=False
    )
    corpus, key = nbaudio.open_corpus(tmp_path / "corpus"), workspace.segments["segment_id"][0]
    clip = corpus.read(key)
    np.testing.assert_array_equal(played(clip.to_pydub()._repr_html_())[0], clip.samples)
    for give in ("levels", "encoded"):
        other = corpus.read(key, give=give)
        assert other._repr_html_() is None
        with pytest.raises(InputError, match="give='samples'"):
            other.to_pydub()
