"""Tarred manifests of NeMo, as its own script writes them."""

import io
import json
import tarfile

import numpy as np
import pytest
import soundfile as sf
from specimens import RATE
from typer.testing import CliRunner
from web import serving

import nbaudio
from nbaudio import Workspace
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.sources.detection import detect_source


@pytest.fixture(scope="module")
def audio(tmp_path_factory):
    """The bytes of recordings of 3 s by name; each has another pitch."""
    folder = tmp_path_factory.mktemp("audio")
    for number, name in enumerate(("a.wav", "b.wav", "c.flac")):
        phase = np.arange(3 * RATE) * (200 + 100 * number) / RATE
        sf.write(folder / name, 0.3 * np.sin(2 * np.pi * phase), RATE)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write_tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def write_manifest(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(name, shard=None, **further):
    shard_id = {} if shard is None else {"shard_id": shard}
    return {"audio_filepath": name, "duration": 1.5, "text": name, **shard_id, **further}


def as_nemo_writes(folder, audio):
    """Two tars with their manifest, and a manifest for each tar; `b` has two segments."""
    write_tar(folder / "audio_0.tar", {"a.wav": audio["a.wav"]})
    write_tar(folder / "audio_1.tar", {name: audio[name] for name in ("b.wav", "c.flac")})
    rows = [
        row("a.wav", 0, offset=0.25),
        row("b.wav", 1, offset=0.0),
        row("b-sub1.wav", 1, offset=1.5),
        row("c.flac", 1, offset=1.0),
    ]
    for shard in (0, 1):
        of_shard = [each for each in rows if each["shard_id"] == shard]
        write_manifest(folder / f"sharded_manifests/manifest_{shard}.json", *of_shard)
    return write_manifest(folder / "tarred_audio_manifest.json", *rows)


def placed(workspace):
    """The recording and samples of each segment, by its text."""
    segments = Workspace.open(workspace).segments
    columns = segments.select("text", "recording_id", "start_sample", "end_sample")
    return {text: tuple(place) for text, *place in columns.iter_rows()}


PLACED = {
    "a.wav": ("a", 2000, 14000),
    "b.wav": ("b", 0, 12000),
    "b-sub1.wav": ("b", 12000, 24000),
    "c.flac": ("c", 8000, 20000),
}


@pytest.mark.parametrize(
    "source",
    [
        "tarred_audio_manifest.json",
        ".",
        "sharded_manifests",
        "sharded_manifests/manifest__OP_0..1_CL_.json",
        "sharded_manifests/manifest_{0..1}.json",
    ],
)
def test_clips_are_read_from_the_tars_beside_a_manifest(tmp_path, audio, source):
    as_nemo_writes(tmp_path / "tarred", audio)
    report = nbaudio.ingest("nemo", tmp_path / "tarred" / source, out=tmp_path / "W")
    assert placed(tmp_path / "W") == PLACED
    assert report.problems == []
    assert "source_split" not in Workspace.open(tmp_path / "W").segments.columns
    for name, data in audio.items():
        assert (tmp_path / "W/audio" / name).read_bytes() == data


def test_a_manifest_of_one_tar_without_shard_id_is_read(tmp_path, audio):
    write_tar(tmp_path / "audio_7.tar", {"a.wav": audio["a.wav"]})
    manifest = write_manifest(tmp_path / "sharded_manifests/manifest_7.json", row("a.wav"))
    nbaudio.ingest("nemo", manifest, out=tmp_path / "W")
    assert placed(tmp_path / "W") == {"a.wav": ("a", 0, 12000)}


@pytest.mark.parametrize("option", ["audio__OP_0..1_CL_.tar", "audio_0.tar,audio_1.tar"])
def test_tars_are_named_by_an_option_as_nemo_names_them(tmp_path, audio, option, monkeypatch):
    manifest = as_nemo_writes(tmp_path / "tarred", audio).rename(tmp_path / "m.json")
    monkeypatch.chdir(tmp_path / "tarred")
    call = ["ingest", "nemo", str(manifest), "--option", f"tars={option}", "--out", "../W"]
    assert CliRunner().invoke(app, call).exit_code == 0
    assert placed(tmp_path / "W") == PLACED


def test_a_tar_that_an_option_names_and_that_is_missing_is_refused(tmp_path, audio):
    manifest = as_nemo_writes(tmp_path, audio)
    for option, missing in (
        ("audio__OP_0..2_CL_.tar", "audio_2.tar"),
        ("{0..9999999}", "more than"),
    ):
        with pytest.raises(InputError, match=missing):
            nbaudio.ingest("nemo", manifest, out=tmp_path / "W", options={"tars": option})


def test_a_manifest_without_its_tars_names_the_option(tmp_path, audio):
    manifest = as_nemo_writes(tmp_path / "tarred", audio).rename(tmp_path / "m.json")
    report = nbaudio.ingest("nemo", manifest, out=tmp_path / "W")
    assert any("--option tars=" in note for note in report.warnings)
    for name, data in audio.items():
        (tmp_path / "clips").mkdir(exist_ok=True)
        (tmp_path / "clips" / name).write_bytes(data)
    nbaudio.ingest("nemo", manifest, audio=tmp_path / "clips", out=tmp_path / "W")
    assert placed(tmp_path / "W") == PLACED  # unpacked: b-sub1.wav is b.wav


def test_a_manifest_at_a_url_asks_for_the_folder_url(tmp_path, audio):
    as_nemo_writes(tmp_path / "www/tarred", audio)
    with serving(tmp_path / "www") as web:
        manifest = f"{web.url}/tarred/tarred_audio_manifest.json"
        report = nbaudio.ingest("nemo", manifest, out=tmp_path / "W")
        (hint,) = [line for line in report.warnings if "shard_id" in line]
        assert "name the URL of its folder instead, whose tars are fetched too" in hint
        folder = manifest.rpartition("/")[0]
        assert nbaudio.ingest("nemo", folder, out=tmp_path / "W2").problems == []
    assert placed(tmp_path / "W2") == PLACED


def test_unpacked_clips_beside_a_tarred_manifest_are_read(tmp_path, audio):
    manifest = as_nemo_writes(tmp_path / "tarred", audio).rename(tmp_path / "m.json")
    for name, data in audio.items():
        (tmp_path / name).write_bytes(data)
    report = nbaudio.ingest("nemo", manifest, out=tmp_path / "W")
    assert placed(tmp_path / "W") == PLACED
    assert not any("tars" in note for note in report.warnings)


def test_tars_are_read_also_where_some_clips_are_unpacked(tmp_path, audio):
    manifest = as_nemo_writes(tmp_path, audio)
    (tmp_path / "a.wav").write_bytes(audio["a.wav"])
    nbaudio.ingest("nemo", manifest, out=tmp_path / "W")
    assert placed(tmp_path / "W") == PLACED


def test_a_clip_whose_own_name_ends_in_sub_number_is_found(tmp_path, audio):
    write_tar(tmp_path / "audio_0.tar", {"b.wav": audio["b.wav"], "b-sub1.wav": audio["a.wav"]})
    rows = [row("b.wav", 0), row("b-sub1.wav", 0)]
    nbaudio.ingest("nemo", write_manifest(tmp_path / "m.json", *rows), out=tmp_path / "W")
    assert {place[0] for place in placed(tmp_path / "W").values()} == {"b", "b-sub1"}


def test_a_clip_in_the_tar_may_have_another_extension_than_the_manifest(tmp_path, audio):
    write_tar(tmp_path / "audio_0.tar", {"c.flac": audio["c.flac"]})
    manifest = write_manifest(tmp_path / "m.json", row("c.wav", 0))
    nbaudio.ingest("nemo", manifest, out=tmp_path / "W")
    assert placed(tmp_path / "W") == {"c.wav": ("c", 0, 12000)}


def test_equal_names_in_two_tars_are_one_recording_only_if_they_have_the_same_bytes(
    tmp_path, audio
):
    for shard, other in enumerate(("a.wav", "b.wav")):
        members = {"same.flac": audio["c.flac"], "other.wav": audio[other]}
        write_tar(tmp_path / f"audio_{shard}.tar", members)
    rows = [
        row(name, shard, offset=shard) for name in ("same.flac", "other.wav") for shard in (0, 1)
    ]
    nbaudio.ingest("nemo", write_manifest(tmp_path / "m.json", *rows), out=tmp_path / "W")
    recordings = Workspace.open(tmp_path / "W").recordings
    assert len(recordings) == 3
    bytes_of = {path.read_bytes() for path in (tmp_path / "W/audio").rglob("*.wav")}
    assert bytes_of == {audio["a.wav"], audio["b.wav"]}
    segments = Workspace.open(tmp_path / "W").segments
    by_text = segments.group_by("text").agg("recording_id").sort("text")["recording_id"].to_list()
    assert [len(set(ids)) for ids in by_text] == [2, 1]


def test_missing_damaged_and_unnamed_clips_are_reported(tmp_path, audio):
    tar = write_tar(tmp_path / "audio_0.tar", audio)
    data = bytearray(tar.read_bytes())
    data[data.index(b"b.wav") + 120] ^= 1
    tar.write_bytes(data)
    rows = [row("a.wav", 0), row("b.wav", 0), row("a.wav", 3)]
    report = nbaudio.ingest(
        "nemo", write_manifest(tmp_path / "m.json", *rows[:2], row("x.wav", 3)), out=tmp_path / "W"
    )
    text = "\n".join(report.problems)
    assert "audio_0.tar as a whole: 1 header is damaged" in text
    assert "audio_3.tar as a whole: there is no tar of this number" in text
    assert "b.wav: no such recording" in text
    assert {part["what"]: part["count"] for part in report.facts["not_read"]} == {
        "recordings in tars without a line in the manifest": 1,
        "files of tars with a damaged header": 1,
    }


def test_a_recording_that_is_too_large_for_memory_is_a_problem(tmp_path, audio, monkeypatch):
    monkeypatch.setattr("nbaudio.storage.archives.MAX_CONTENT_BYTES", len(audio["a.wav"]) - 1)
    write_tar(tmp_path / "audio_0.tar", {name: audio[name] for name in ("a.wav", "c.flac")})
    rows = [row("a.wav", 0), row("c.flac", 0)]
    report = nbaudio.ingest("nemo", write_manifest(tmp_path / "m.json", *rows), out=tmp_path / "W")
    assert "audio_0.tar as a whole: a.wav: larger than" in "\n".join(report.problems)
    assert placed(tmp_path / "W")["c.flac"] == ("c", 0, 12000)


def test_a_truncated_tar_gives_what_comes_before(tmp_path, audio):
    tar = write_tar(tmp_path / "audio_0.tar", audio)
    tar.write_bytes(tar.read_bytes()[: 2 * len(audio["a.wav"])])
    rows = [row("a.wav", 0), row("b.wav", 0)]
    report = nbaudio.ingest("nemo", write_manifest(tmp_path / "m.json", *rows), out=tmp_path / "W")
    assert placed(tmp_path / "W")["a.wav"] == ("a", 0, 12000)
    assert placed(tmp_path / "W")["b.wav"] == ("b", None, None)
    assert "audio_0.tar as a whole: the archive is truncated" in "\n".join(report.problems)


@pytest.mark.parametrize("member", ["../../{}", "/{}", "x/../../{}"])
def test_tar_members_that_point_outside_are_stored_by_file_name(tmp_path, audio, member):
    write_tar(tmp_path / "t/audio_0.tar", {member.format("a.wav"): audio["a.wav"]})
    manifest = write_manifest(tmp_path / "t/m.json", row(member.format("a.wav"), 0))
    nbaudio.ingest("nemo", manifest, out=tmp_path / "W")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.wav")] == [
        "W/audio/a.wav"
    ]


def test_two_runs_give_equal_tables_and_clips_are_cut(tmp_path, audio):
    manifest = as_nemo_writes(tmp_path / "tarred", audio)
    for name in ("W", "V"):
        nbaudio.ingest("nemo", manifest, out=tmp_path / name)
    files = [(tmp_path / name / "segments.parquet").read_bytes() for name in ("W", "V")]
    assert files[0] == files[1]
    nbaudio.select(tmp_path / "W", dev=0, test=0, group_by=())
    report = nbaudio.materialize(
        tmp_path / "W", out=tmp_path / "C", container="files", jobs=1, show_progress=False
    )
    assert report.facts["clips_cut_now"] == 4


def test_detection_takes_tars_and_manifests_of_single_tars_as_one_source(tmp_path, audio):
    as_nemo_writes(tmp_path / "tarred", audio)
    detected = detect_source(tmp_path / "tarred")
    assert detected.layout.format == "nemo"
    assert detected.layout.recording is None
    assert len(detected.layout.files) == 5
