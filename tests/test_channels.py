"""Two speakers on two channels of one recording: both are segments, each is cut, played and
exported from its channel."""

import hashlib

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from conftest import encoded
from specimens import CALL, CALLS, call, format_of
from specimens import CALL_RATE as RATE
from table_checks import check_tables

import nbaudio
from nbaudio.audio import decode_clip, read_clip
from nbaudio.core.errors import AudioError
from nbaudio.corpus.clip_keys import ClipFormat, recording_facts, with_clip_keys
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.widgets import Player
from nbaudio.ui.widgets.clip_audio import read_sound
from nbaudio.ui.widgets.segments import load_segments


@pytest.fixture(scope="module", params=CALLS)
def ingested(request, tmp_path_factory):
    """What was made, and its workspace, selected: `ana` is on the first channel, `ivo` on the
    second, `both` on both."""
    place = tmp_path_factory.mktemp(request.param)
    made = CALLS[request.param](place / "source")
    nbaudio.ingest(
        format_of(request.param), made.source, out=place / "W", jobs=1, options=made.options
    )
    nbaudio.select(place / "W", dev=0, test=0)
    return made, Workspace.open(place / "W")


def wanted(workspace, segment_id, *, whole="mix", rate=RATE):
    channel = {"ana": "left", "ivo": "right", "both": whole}[segment_id]
    return read_clip(workspace.audio_root / CALL, RATE // 2, 2 * RATE, rate=rate, channel=channel)


@pytest.mark.slow
def test_the_same_window_of_two_channels_is_no_duplicate(ingested):
    made, workspace = ingested
    assert sorted(workspace.segments.filter(pl.col("decision") == "accept")["segment_id"]) == [
        "ana",
        "both",
        "ivo",
    ]
    problems = workspace.table("problems").select("item", "reason").rows()
    for item, reason in made.problems:
        assert [told for told in problems if told[0] == item and reason in told[1]], (item, reason)
    assert len(problems) == len(made.problems)
    failing = check_tables(workspace.recordings, workspace.segments).select("key", "rule").rows()
    assert sorted(failing) == sorted(
        pair for pair in made.problems if not pair[0].startswith("line")
    )


@pytest.mark.slow
@pytest.mark.parametrize(("channel", "rate"), [("mix", 16000), ("right", 8000)])
def test_a_clip_is_cut_from_its_own_channel(ingested, tmp_path, channel, rate):
    _, workspace = ingested
    options = {
        "channel": channel,
        "rate": rate,
        "jobs": 1,
        "engine": "threading",
        "show_progress": False,
    }
    report = nbaudio.materialize(workspace, out=tmp_path / "C", **options)
    assert (report.facts["kept"], report.problems) == (3, [])
    assert (
        nbaudio.verify(tmp_path / "C", jobs=1, engine="threading", show_progress=False).problems
        == []
    )
    keys = ("ana", "ivo", "both")
    for key, data in zip(keys, encoded(tmp_path / "C", keys), strict=True):
        np.testing.assert_array_equal(
            decode_clip(data)[0], wanted(workspace, key, whole=channel, rate=rate)
        )


@pytest.mark.slow
def test_review_clips_and_players_use_the_channel_of_the_segment(ingested, tmp_path):
    _, workspace = ingested
    nbaudio.review.export(workspace, out=tmp_path / "sheet.xlsx", n=10)
    for clip in Player(workspace, ["ana", "ivo", "both"]).clips.clips:
        expected = wanted(workspace, clip.segment_id)
        np.testing.assert_array_equal(decode_clip(clip.audio)[0], expected)
        np.testing.assert_array_equal(
            sf.read(tmp_path / f"clips/{clip.segment_id}.wav", dtype="int16")[0], expected
        )
    segments = load_segments(workspace, ["ana", "ivo", "both"])
    for number, key in enumerate(("ana", "ivo", "both")):
        found = read_sound(segments.audio_root, segments.row(number), even=False).samples
        np.testing.assert_array_equal(found, wanted(workspace, key))


@pytest.mark.slow
@pytest.mark.parametrize("format", ["lhotse", "kaldi"])
def test_exported_segments_come_back_with_their_channel(ingested, tmp_path, format):
    _, workspace = ingested
    nbaudio.export(workspace, format, out=tmp_path / "out")
    source = tmp_path / "out/train" if format == "kaldi" else tmp_path / "out"
    nbaudio.ingest(format, source, out=tmp_path / "W", jobs=1)
    back = Workspace.open(tmp_path / "W").segments
    found = {
        key.rpartition("-")[2]: channel
        for key, channel in back.select("segment_id", "source_channel").iter_rows()
    }
    assert found == {"ana": "0", "ivo": "1", "both": None}


def test_export_warns_if_its_format_cannot_store_channels(ingested, tmp_path):
    _, workspace = ingested
    assert "train: 2 segments are on some channels" in "\n".join(
        nbaudio.export(workspace, "nemo", out=tmp_path).warnings
    )


def test_a_clip_can_be_the_mean_of_some_channels(tmp_path):
    path = call(tmp_path, channels=4)
    pcm = sf.read(path, dtype="int16")[0].astype(float)
    some = read_clip(path, 100, 4100, channel="3,1,3")
    assert np.abs(some - (pcm[100:4100, 1] + pcm[100:4100, 3]) / 2).max() <= 0.5
    np.testing.assert_array_equal(read_clip(path, 100, 4100, channel="2"), pcm[100:4100, 2])
    with pytest.raises(
        AudioError, match="channel 1,4 does not exist, the recording has 4 channels"
    ):
        read_clip(path, 100, 4100, channel="1,4")


def test_a_clip_key_is_a_hash_of_source_window_format_and_version_of_the_clips():
    known = {
        "recording_id": ["r"],
        "path": ["a.wav"],
        "sha256": ["ab"],
        "sampling_rate": [8000],
        "num_samples": [9],
    }
    recordings = recording_facts(pl.DataFrame(known | {"codec": ["flac"]}))
    segment = {"recording_id": "r", "start_sample": 3, "end_sample": 8}
    segments = pl.DataFrame([{**segment, "source_channel": channel} for channel in (None, "1")])
    hashes = [
        hashlib.sha256(f"ab|3|8|8000|{channel}|flac|3".encode()).hexdigest()[:32]
        for channel in ("left", "1")
    ]
    left = ClipFormat(8000, "left", "flac")
    assert (
        with_clip_keys(segments.lazy(), recordings, left).collect()["clip_key"].to_list() == hashes
    )
    # Windows of Vorbis were wrong: packs from then are not used.
    vorbis = recording_facts(pl.DataFrame(known | {"codec": ["vorbis"]}))
    of_vorbis = with_clip_keys(segments.lazy(), vorbis, left).collect()["clip_key"]
    assert not set(of_vorbis) & set(hashes)


def test_a_corpus_has_no_channel_column_if_no_segment_has_a_channel(make_workspace, tmp_path):
    workspace = make_workspace({"a.wav": (6, RATE)})
    nbaudio.materialize(
        workspace, out=tmp_path / "C", jobs=1, engine="threading", show_progress=False
    )
    assert "source_channel" not in pl.read_parquet_schema(tmp_path / "C/segments.parquet")
