"""Containers with pictures or several audio tracks: what is read, and where times count from."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import nbaudio
from nbaudio.audio import open_recording, probe, read_clip
from nbaudio.cli.common import app
from nbaudio.core.errors import AudioError, InputError
from nbaudio.runs.read_source import read_source

RATE = 48000
SECONDS = 4


@dataclass(frozen=True)
class Track:
    """An audio track of one tone a second: `base`, `base` + 100 Hz and so on.

    Attributes:
        base: Hz.
        start: seconds after the picture.
        language: of the metadata.
        title: of the metadata.
    """

    base: int
    start: Fraction = Fraction(0)
    language: str = ""
    title: str = ""

    def samples(self) -> np.ndarray:
        """Return the samples, shape (samples,)."""
        second = np.arange(RATE) / RATE
        tones = [np.sin(2 * np.pi * (self.base + 100 * n) * second) for n in range(SECONDS)]
        return np.float32(0.3) * np.concatenate(tones).astype(np.float32)


def write_container(path: Path, *tracks: Track, codec: str = "flac", picture_s: int = 6) -> Path:
    """Write a container of audio tracks, with a picture of some seconds unless they are 0."""
    options = {"strict": "experimental"}
    with av.open(str(path), "w", options=options) as container:
        video = None
        if picture_s:
            video = container.add_stream("mpeg4", rate=10)
            video.width, video.height, video.pix_fmt = 32, 32, "yuv420p"
        streams: list[Any] = []
        for track in tracks:
            stream = container.add_stream(codec, rate=RATE, layout="mono")
            stream.metadata["language"] = track.language or "und"
            if track.title:
                stream.metadata["title"] = track.title
            streams.append(stream)
        packets = []
        if video is not None:
            for number in range(10 * picture_s):
                picture = av.VideoFrame(32, 32, "yuv420p")
                picture.pts, picture.time_base = number, Fraction(1, 10)
                packets += video.encode(picture)
            packets += video.encode(None)
        for track, stream in zip(tracks, streams, strict=True):
            layout = stream.codec_context.format.name
            for first in range(0, SECONDS * RATE, RATE // 10):
                part = track.samples()[first : first + RATE // 10]
                integers = np.round(part * 32767).astype(np.int16)
                block = integers if layout.startswith("s16") else part
                frame = av.AudioFrame.from_ndarray(block[None], format=layout, layout="mono")
                frame.sample_rate, frame.time_base = RATE, Fraction(1, RATE)
                frame.pts = first + int(track.start * RATE)
                packets += stream.encode(frame)
            packets += stream.encode(None)
        for packet in sorted(packets, key=lambda one: (one.dts or 0) * one.time_base):
            container.mux(packet)
    return path


def tone(samples: np.ndarray, rate: int = RATE) -> int:
    """Return the loudest frequency, in Hz."""
    inner = samples[len(samples) // 5 : -len(samples) // 5].astype(float)
    spectrum = np.abs(np.fft.rfft(inner * np.hanning(len(inner))))
    return round(float(np.argmax(spectrum)) * rate / len(inner) / 10) * 10


def clip_tone(workspace: Path, segment: dict[str, Any]) -> int:
    """Return the tone of a segment as it would be cut."""
    opened = nbaudio.Workspace.open(workspace)
    (path,) = opened.recordings.filter(recording_id=segment["recording_id"])["path"]
    channel = segment.get("source_channel") or "mix"
    window = (segment["start_sample"], segment["end_sample"])
    return tone(read_clip(opened.audio_root / path, *window, rate=None, channel=channel))


FLOOR = Track(300, language="hrv", title="floor")
INTERPRETER = Track(1000, language="eng")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A folder of one container with the floor and an interpreter, and one without."""
    folder = tmp_path / "audio"
    folder.mkdir()
    write_container(folder / "a.mkv", FLOOR, INTERPRETER)
    write_container(folder / "b.mkv", Track(2000))
    return folder


def test_the_first_track_is_read_and_others_are_listed(session: Path, tmp_path: Path) -> None:
    report = nbaudio.ingest("folder", session, out=tmp_path / "W", jobs=1)
    (part,) = report.facts["not_read"]
    assert part["what"].startswith("audio track 2 (eng")
    assert (part["count"], part["option"]) == (1, "--option track=2")
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    rows = [row | {"end_sample": RATE} for row in segments.iter_rows(named=True)]
    assert [clip_tone(tmp_path / "W", row) for row in rows] == [300, 2000]


@pytest.mark.slow
@pytest.mark.parametrize("track", ["2", "eng"])
def test_a_track_is_chosen_by_number_or_language(session: Path, tmp_path: Path, track: str) -> None:
    options = {"track": track, "window": "1"}
    report = nbaudio.ingest("folder", session, out=tmp_path / "W", jobs=1, options=options)
    assert "audio track 1 (hrv, floor" in report.facts["not_read"][0]["what"]
    nbaudio.select(tmp_path / "W", min_similarity=-1, dev=0, test=0)
    run: dict[str, Any] = {"jobs": 1, "engine": "threading", "show_progress": False}
    nbaudio.materialize(tmp_path / "W", out=tmp_path / "C", rate=RATE, **run)
    corpus = nbaudio.open_corpus(tmp_path / "C")
    ids = sorted(corpus.segments["segment_id"])
    found = [tone(np.asarray(clip.samples)) for clip in corpus.read_many(ids)]
    assert found == [1000, 1100, 1200, 1300, 2000, 2100, 2200, 2300]
    nbaudio.measure(tmp_path / "W", jobs=1, show_progress=False)
    levels = nbaudio.Workspace.open(tmp_path / "W").segments["rms_dbfs"]
    assert levels.null_count() == 0


@pytest.mark.slow
def test_the_track_is_chosen_anew_with_every_ingest(session: Path, tmp_path: Path) -> None:
    def channels(**options: str) -> list[str | None]:
        nbaudio.ingest("folder", session, out=tmp_path / "W", jobs=1, options=options, add=True)
        segments = nbaudio.Workspace.open(tmp_path / "W").segments
        if "source_channel" not in segments.columns:
            return [None] * len(segments)
        return segments.sort("recording_id")["source_channel"].to_list()

    assert channels() == [None, None]
    assert channels(track="2") == ["track2", None]
    assert channels() == [None, None]


def test_a_recording_without_the_track_is_a_problem(session: Path, tmp_path: Path) -> None:
    report = nbaudio.ingest("folder", session, out=tmp_path / "W", options={"track": "deu"}, jobs=1)
    assert any("no audio track 'deu'; it has 1 (hrv, floor" in line for line in report.problems)
    recordings = nbaudio.Workspace.open(tmp_path / "W").recordings
    lengths = dict(recordings.select("recording_id", "num_samples").iter_rows())
    assert lengths == {"a": None, "b": SECONDS * RATE}


def test_a_column_chooses_the_track_of_each_segment(session: Path, tmp_path: Path) -> None:
    lines = ["a.mkv,0,1,floor,track1", "a.mkv,0,1,interpreter,track2", "b.mkv,1,2,other,"]
    (tmp_path / "t.csv").write_text("\n".join(["name,start,end,text,channel", *lines]) + "\n")
    options = {"source_channel": "channel"}
    nbaudio.ingest("table", tmp_path / "t.csv", audio=session, out=tmp_path / "W", options=options)
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    assert segments["decision"].to_list() == ["pending"] * 3
    rows = segments.iter_rows(named=True)
    assert [clip_tone(tmp_path / "W", row) for row in rows] == [300, 1000, 2100]
    nbaudio.select(tmp_path / "W", min_similarity=-1, dev=0, test=0)
    with pytest.raises(InputError, match="on an audio track of"):
        nbaudio.export(tmp_path / "W", "kaldi", out=tmp_path / "K")


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["flac", "aac", "libopus"])
def test_windows_of_a_second_track_equal_its_full_decode(tmp_path: Path, codec: str) -> None:
    path = write_container(tmp_path / "a.mkv", FLOOR, INTERPRETER, codec=codec)
    alone = write_container(tmp_path / "b.mkv", INTERPRETER, codec=codec)
    count = probe(path, track="2").num_samples
    assert count == probe(alone).num_samples
    with open_recording(alone) as recording:
        whole = recording.read(0, count)
    with open_recording(path) as recording:
        for start in (100_000, 0, 55_555, 150_000):
            window = recording.track(2).read(start, start + 4000)
            np.testing.assert_allclose(window, whole[start : start + 4000], atol=0.001)
            recording.read(start, start + 100)  # of the first track
    with pytest.raises(AudioError, match="has 2 audio tracks, no track 3"):
        read_clip(path, 0, 100, channel="track3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mp4", "aac"),
        ("a.mkv", "flac"),
        ("a.mov", "pcm_s16le"),
        ("a.ts", "mp2"),
        ("a.mkv", "libopus"),
    ],
)
def test_times_of_subtitles_count_from_the_start_of_the_picture(
    tmp_path: Path, name: str, codec: str
) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    write_container(folder / name, Track(300, start=Fraction(2)), codec=codec)
    cues = ["00:00:03,000 --> 00:00:04,000", "00:00:01,000 --> 00:00:02,500"]
    cues += ["00:00:00,000 --> 00:00:01,000"]
    blocks = [f"{number}\n{times}\nword {number}\n" for number, times in enumerate(cues, 1)]
    (folder / "a.srt").write_text("\n".join(blocks))
    report = nbaudio.ingest("subtitles", folder, out=tmp_path / "W", jobs=1)
    assert "s later than the picture" in "\n".join(report.warnings)
    segments = nbaudio.Workspace.open(tmp_path / "W").segments.sort("text")
    assert segments["source_start"].to_list() == ["3.000", "1.000", "0.000"]
    assert clip_tone(tmp_path / "W", segments.row(0, named=True)) == 400
    assert segments["start_sample"][1] == 0
    assert clip_tone(tmp_path / "W", segments.row(1, named=True)) == 300
    assert segments["reason"].to_list() == [None, None, "before_the_sound"]
    options = {"clock": "sound"}
    nbaudio.ingest("subtitles", folder, out=tmp_path / "W2", jobs=1, options=options)
    segments = nbaudio.Workspace.open(tmp_path / "W2").segments.sort("text")
    assert segments["start_sample"].to_list()[:2] == [3 * RATE, RATE]


def test_times_of_tables_count_from_the_sound_unless_option_clock_is_given(tmp_path: Path) -> None:
    write_container(tmp_path / "a.mkv", Track(300, start=Fraction(2)))
    (tmp_path / "t.csv").write_text("name,start,end,text\na.mkv,3,4,word\n")
    nbaudio.ingest("table", tmp_path / "t.csv", out=tmp_path / "W", jobs=1)
    (row,) = nbaudio.Workspace.open(tmp_path / "W").segments.iter_rows(named=True)
    assert clip_tone(tmp_path / "W", row) == 600
    options = {"clock": "picture"}
    nbaudio.ingest("table", tmp_path / "t.csv", out=tmp_path / "W2", jobs=1, options=options)
    (row,) = nbaudio.Workspace.open(tmp_path / "W2").segments.iter_rows(named=True)
    assert clip_tone(tmp_path / "W2", row) == 400
    with pytest.raises(InputError, match="option clock='video': must be picture or sound"):
        nbaudio.ingest("table", tmp_path / "t.csv", out=tmp_path / "W3", options={"clock": "video"})


def align(folder: Path, out: str, *options: str) -> dict[str, Any]:
    """Align eight words of 0.25 s from 1.5 s on; the first second of the segment, from 1 s on."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
    lines = [f"a 1 {1.5 + n / 4} 0.25 {word}\n" for n, word in enumerate(words)]
    (folder / "a.ctm").write_text("".join(lines))
    (folder / "a.txt").write_text(" ".join(words) + ".")
    arguments = ["align", folder / "a.ctm", folder / "a.txt", "--audio", folder / "audio"]
    arguments += ["--min-duration", "1", "--out", folder / out, *options]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    (segment,) = nbaudio.Workspace.open(folder / out).segments.iter_rows(named=True)
    return segment | {"end_sample": segment["start_sample"] + RATE}


@pytest.mark.slow
def test_align_reads_the_track_of_an_option(session: Path, tmp_path: Path) -> None:
    assert clip_tone(tmp_path / "W", align(tmp_path, "W")) == 400
    report = (tmp_path / "W/reports/align.json").read_text()
    assert "audio track 2 (eng" in report
    assert "--option track=2" in report
    assert clip_tone(tmp_path / "W2", align(tmp_path, "W2", "--option", "track=eng")) == 1100


def test_align_counts_times_from_the_picture_with_an_option(tmp_path: Path) -> None:
    (tmp_path / "audio").mkdir()
    write_container(tmp_path / "audio/a.mkv", Track(300, start=Fraction(1)))
    assert clip_tone(tmp_path / "W", align(tmp_path, "W")) == 400
    assert "its sound starts 1.00 s later" in (tmp_path / "W/reports/align.json").read_text()
    assert clip_tone(tmp_path / "W2", align(tmp_path, "W2", "--option", "clock=picture")) == 300


def test_align_refuses_unknown_options(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="option 'encoding' is unknown to align; known are track"):
        nbaudio.align(tmp_path, tmp_path, out=tmp_path / "W", options={"encoding": "utf8"})


def test_a_manifest_chooses_the_track_of_align(session: Path, tmp_path: Path) -> None:
    align(tmp_path, "W")
    read_source(
        "align",
        tmp_path / "a.ctm",
        documents=tmp_path / "a.txt",
        audio=session,
        options={"track": 2, "min_duration": 1},
        out=tmp_path / "W2",
    )
    (row,) = nbaudio.Workspace.open(tmp_path / "W2").segments.iter_rows(named=True)
    assert clip_tone(tmp_path / "W2", row | {"end_sample": row["start_sample"] + RATE}) == 1100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mkv", "libopus"), ("a.mkv", "flac"), ("a.mp4", "aac"), ("a.ts", "mp2"), ("a.avi", "mp2")],
)
@pytest.mark.parametrize("start", [0, 1])
def test_a_picture_that_is_longer_than_its_sound_is_no_truncation(
    tmp_path: Path, name: str, codec: str, start: int
) -> None:
    if name == "a.avi" and start:
        pytest.skip("AVI has no times")
    track = Track(300, start=Fraction(start))
    warning = probe(write_container(tmp_path / name, track, codec=codec, picture_s=9)).warning
    assert "truncated" not in str(warning)
    assert ("later than the picture" in str(warning)) == bool(start)


@pytest.mark.parametrize("codec", ["flac", "libopus"])
def test_a_container_that_is_cut_short_is_a_truncation(tmp_path: Path, codec: str) -> None:
    path = write_container(tmp_path / "a.mkv", Track(300), codec=codec)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert "truncated" in str(probe(path).warning)


def test_recordings_with_one_track_and_no_picture_get_no_track_columns(tmp_path: Path) -> None:
    folder = tmp_path / "audio"
    folder.mkdir()
    write_container(folder / "a.mkv", Track(300), picture_s=0)
    report = nbaudio.ingest("folder", folder, out=tmp_path / "W", jobs=1)
    assert "not_read" not in report.facts
    recordings = nbaudio.Workspace.open(tmp_path / "W").recordings
    assert not {"track", "sound_start", "tracks_not_read"} & {*recordings.columns}
    assert recordings.select(pl.col("probe_warning").is_null().all()).item()


@pytest.mark.parametrize(("name", "codec"), [("a.oga", "flac"), ("a.opus", "libopus")])
def test_of_concatenated_ogg_files_the_first_is_read(tmp_path: Path, name: str, codec: str) -> None:
    folder = tmp_path / "audio"
    folder.mkdir()
    first = write_container(tmp_path / f"first_{name}", FLOOR, codec=codec, picture_s=0)
    second = write_container(tmp_path / f"second_{name}", INTERPRETER, codec=codec, picture_s=0)
    (folder / name).write_bytes(first.read_bytes() + second.read_bytes())
    found = probe(folder / name)
    assert found.num_samples == probe(first).num_samples
    assert "which is not read; 4.0 s are used" in str(found.warning)
    with open_recording(first) as alone, open_recording(folder / name) as joined:
        for start in (150_000, 0, 77_777):
            np.testing.assert_array_equal(
                joined.read(start, start + 1000), alone.read(start, start + 1000)
            )
    report = nbaudio.ingest("folder", folder, out=tmp_path / "W", jobs=1)
    (part,) = report.facts["not_read"]
    assert part["what"] == "Ogg files behind the first one in a file (recordings)"
    assert part["count"] == 1
