"""Exports read back sample-exact, name real files, execute nothing and have the same bytes each
time."""

import gzip
import json
import os
import tarfile
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from web import serving

import nbaudio
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.core.times import add_seconds, decimal_seconds, to_samples, to_samples_column
from nbaudio.formats.export import WRITERS
from nbaudio.formats.kaldi import WRITER as KALDI
from nbaudio.tables.workspace import Workspace

FORMATS = sorted(WRITERS)
RATES = (8000, 11025, 16000, 22050, 44100, 48000, 192000)


@given(st.integers(1, 400_000), st.integers(0, 10**10), st.integers(1, 10**7))
@example(48000, 1, 1)
@example(1023, 10**10, 1)
@settings(deadline=None)
def test_written_seconds_convert_back_to_the_same_samples(rate, start, length):
    first, last = decimal_seconds(start, rate), decimal_seconds(start + length, rate)
    end = add_seconds(f"{first:f}", f"{last - first:f}")
    assert (to_samples(f"{first:f}", rate), to_samples(end, rate)) == (start, start + length)
    assert to_samples_column(pl.Series([f"{first:f}"]), pl.Series([rate])).to_list() == [start]
    assert 0 <= first - Decimal(start) / rate < Decimal("1e-12")
    assert int(first * rate) == start


@pytest.mark.parametrize("rate", [8000, 16000, 32000, 64000])
def test_seconds_are_exact_where_decimals_are_finite(rate):
    assert all(decimal_seconds(sample, rate) * rate == sample for sample in range(3 * rate // 100))


@pytest.fixture
def workspace(make_workspace):
    """Recordings of two rates and one and two channels; train, dev and test."""
    made = make_workspace(
        {"a.wav": (20.0, 16000), "b  c.flac": (12.5, 44100), "d.wav": (9.0, 48000)}, every=1.3
    )
    recordings, segments = made.recordings, made.segments
    shifted = segments.with_columns(
        pl.col("start_sample") + 1,
        pl.col("end_sample") + 2,
        speaker_id=pl.when(pl.int_range(pl.len()) % 4 > 0).then("speaker_id"),
        asr_text=pl.when(pl.int_range(pl.len()) % 3 > 0).then("asr_text"),
        text=pl.when(pl.int_range(pl.len()) == 1)
        .then(pl.lit('"=1+1"\n<b> \\ č'))
        .otherwise("text"),
    )
    made.save(recordings=recordings, segments=shifted)
    return made


def content(folder):
    """Bytes by path below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def again(format, out, target, workspace):
    """What our own readers make of an export: one workspace for each thing to read."""
    sources = [out / split for split in ("train", "dev", "test")] if format == "kaldi" else [out]
    frames = []
    for number, source in enumerate(sources):
        report = nbaudio.ingest(
            format, source, audio=workspace.audio_root, out=target / str(number), jobs=1
        )
        assert report.problems == []
        made = Workspace.open(target / str(number))
        paths = made.recordings.select("recording_id", "path")
        frame = made.segments.join(paths, on="recording_id", how="left", maintain_order="left")
        frames.append(
            frame.with_columns(source_split=pl.lit(source.name)) if format == "kaldi" else frame
        )
    return pl.concat(frames, how="diagonal")


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_an_export_read_again_has_the_same_samples(format, workspace, tmp_path):
    report = nbaudio.export(workspace, format, out=tmp_path / "out")
    found = again(format, tmp_path / "out", tmp_path / "again", workspace)
    paths = workspace.recordings.select("recording_id", "path")
    wanted = workspace.segments.join(paths, on="recording_id", how="left", maintain_order="left")
    key = ["path", "start_sample", "end_sample", "source_split"]
    assert (
        found.select(key).sort(key).rows()
        == wanted.select(*key[:3], pl.col("split").cast(pl.String)).sort(key[:3]).rows()
    )
    texts = wanted["text"].str.replace_all(r"\s+", " ") if format == "kaldi" else wanted["text"]
    assert sorted(found["text"]) == sorted(texts)
    if format != "kaldi":
        same = ["segment_id", "asr_text", "speaker_id"]
        assert (
            found.select(same).sort("segment_id").rows()
            == wanted.select(same).sort("segment_id").rows()
        )
    assert report.facts["segments"] == len(wanted)
    assert report.facts["splits"] == dict(wanted["split"].value_counts().sort("split").iter_rows())
    assert report.problems == []
    assert workspace.report("export") == report.to_dict()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("paths", ["absolute", "relative"])
def test_exported_paths_lead_to_the_recordings(format, paths, workspace, tmp_path):
    out = tmp_path / "some/where"
    nbaudio.export(workspace, format, out=out, paths=paths)
    match format:
        case "nemo":
            named = {
                json.loads(line)["audio_filepath"]
                for line in (out / "train.jsonl").read_text("utf8").splitlines()
            }
        case "lhotse":
            lines = (
                gzip.decompress((out / "recordings_train.jsonl.gz").read_bytes())
                .decode()
                .splitlines()
            )
            named = {json.loads(line)["sources"][0]["source"] for line in lines}
        case _:
            named = {
                line.split(" ", 1)[1]
                for line in (out / "train/wav.scp").read_text("utf8").splitlines()
            }
    assert {os.path.normpath(out / name) for name in named} == {
        str(path) for path in workspace.audio_root.iterdir()
    }
    assert {Path(name).is_absolute() for name in named} == {paths == "absolute"}


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_workspace_gives_the_same_bytes(format, workspace, tmp_path):
    for name in ("one", "two", "one"):
        nbaudio.export(workspace, format, out=tmp_path / name)
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.parametrize("format", FORMATS)
def test_an_earlier_export_is_replaced_and_other_files_are_kept(format, workspace, tmp_path):
    out = tmp_path / "out"
    report = nbaudio.export(workspace, format, out=out)
    assert sorted(report.facts["files"]) == sorted(set(content(out)) - {".nbaudio-export.json"})
    workspace.save(segments=workspace.segments.with_columns(split=None))
    (out / "notes.txt").write_text("mine")
    without = nbaudio.export(workspace, format, out=out)
    assert sorted(without.facts["files"]) == sorted(
        set(content(out)) - {".nbaudio-export.json", "notes.txt"}
    )
    assert not set(without.facts["files"]) & set(report.facts["files"])
    for full in (workspace.path, workspace.audio_root, workspace.path / "workspace.json"):
        before = content(full) if full.is_dir() else full.read_bytes()
        with pytest.raises(ExistsError, match="is not an export; choose another --out"):
            nbaudio.export(workspace, format, out=full)
        assert (content(full) if full.is_dir() else full.read_bytes()) == before


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_recordings_without_transcripts_are_exported_without(format, workspace, tmp_path):
    nbaudio.ingest("folder", workspace.audio_root, out=tmp_path / "W", jobs=1)
    report = nbaudio.export(tmp_path / "W", format, out=tmp_path / "out")
    assert report.facts["segments"] == 3
    assert not [path for path in report.facts["files"] if path.endswith("text")]
    before = Workspace.open(tmp_path / "W").segments
    nbaudio.ingest(format, tmp_path / "out", audio=workspace.audio_root, out=tmp_path / "V", jobs=1)
    after = Workspace.open(tmp_path / "V").segments
    assert sorted(after["end_sample"]) == sorted(before["end_sample"])
    assert after["text"].null_count() == after["decision"].to_list().count("pending") == 3


def test_partial_files_of_a_killed_export_are_removed(workspace, tmp_path):
    nbaudio.export(workspace, "nemo", out=tmp_path / "out")
    (tmp_path / "out/.train.jsonl.1.partial").write_text("{")
    nbaudio.export(workspace, "nemo", out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.partial"))


def test_a_folder_marked_by_another_program_is_refused(workspace, tmp_path):
    (tmp_path / ".nbaudio-export.json").write_text('{"format": "other"}')
    with pytest.raises(ExistsError, match="not written by an export"):
        nbaudio.export(workspace, "nemo", out=tmp_path)


def test_without_a_selection_all_segments_not_rejected_are_exported(workspace, tmp_path):
    states = pl.Series(["reject", "reject", *["pending"] * (len(workspace.segments) - 2)])
    workspace.save(segments=workspace.segments.with_columns(decision=states, split=None))
    report = nbaudio.export(workspace, "nemo", out=tmp_path / "out")
    assert report.facts["segments"] == len(workspace.segments) - 2
    assert report.facts["files"] == ["manifest.jsonl"]
    assert [line for line in report.warnings if line.startswith("nothing is selected yet")]
    workspace.save(segments=workspace.segments.with_columns(decision=pl.lit("reject")))
    with pytest.raises(InputError, match="no segment to export; all are rejected"):
        nbaudio.export(workspace, "nemo", out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_segments_without_audio_are_reported_and_left_out(workspace, tmp_path):
    gone = pl.when(pl.col("recording_id") != "a").then("num_samples").alias("num_samples")
    workspace.save(recordings=workspace.recordings.with_columns(gone))
    report = nbaudio.export(workspace, "lhotse", out=tmp_path / "out")
    count = workspace.segments.filter(pl.col("recording_id") == "a").height
    assert report.problems == [f"a: there is no audio; {count} segments left out"]
    assert report.facts["segments"] == len(workspace.segments) - count
    workspace.save(recordings=workspace.recordings.with_columns(num_samples=None))
    with pytest.raises(InputError, match="a: there is no audio"):
        nbaudio.export(workspace, "lhotse", out=tmp_path / "none")


@pytest.mark.parametrize(
    ("format", "paths", "said"),
    [("nemmo", "absolute", "nemo, lhotse, kaldi"), ("nemo", "rel", "relative")],
)
def test_an_unknown_format_or_path_option_is_refused_with_the_known_ones(
    format, paths, said, workspace, tmp_path
):
    with pytest.raises(InputError, match=said):
        nbaudio.export(workspace, format, out=tmp_path / "out", paths=paths)


# Kaldi


def kaldi(workspace, folder, **columns):
    """An export of one split with other columns of the segments; the tables, by name."""
    workspace.save(segments=workspace.segments.with_columns(split=None, **columns))
    report = nbaudio.export(workspace, "kaldi", out=folder)
    rows = {
        path.name: path.read_text("utf8").splitlines()
        for path in folder.iterdir()
        if path.suffix != ".json"
    }
    return report, {
        name: dict(line.split(" ", 1) for line in lines) for name, lines in rows.items()
    }


@given(
    st.lists(
        st.tuples(
            st.text(st.sampled_from("ab-=_ č,!\u00a0\n"), min_size=1, max_size=4) | st.none(),
            st.text(min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=8,
        unique_by=lambda pair: pair[1],
    )
)
@settings(deadline=None, max_examples=25)
def test_kaldi_keys_are_unique_without_blanks_and_sort_by_speaker(tmp_path_factory, pairs):
    out = tmp_path_factory.mktemp("kaldi")
    speakers, keys = zip(*pairs, strict=True)
    segments = pl.DataFrame(
        {"segment_id": keys, "speaker_id": pl.Series(speakers, dtype=pl.String)}
    ).with_columns(
        recording_id=pl.lit("r 1"),
        start_sample=0,
        end_sample=8,
        text=pl.lit("a b"),
        asr_text=None,
        similarity=None,
    )
    facts = {
        "recording_id": ["r 1"],
        "file": ["a.wav"],
        "sampling_rate": [8],
        "num_channels": [1],
        "num_samples": [8],
    }
    files, notes = KALDI.write(lambda: [segments], pl.DataFrame(facts), out, None)
    tables = {file.name: file.read_bytes().decode().split("\n")[:-1] for file in files}
    assert all(
        lines == sorted(lines, key=lambda line: line.split(" ")[0].encode())
        for lines in tables.values()
    )
    pairs = [line.split(" ") for line in tables["utt2spk"]]
    assert all(len(pair) == 2 for pair in pairs)
    assert len({key for key, _ in pairs}) == len(keys)
    assert len({speaker for _, speaker in pairs}) == len(set(speakers) - {None}) + speakers.count(
        None
    )
    if None not in speakers:
        assert notes == []
        assert [speaker for _, speaker in pairs] == sorted(speaker for _, speaker in pairs)
    assert tables["text"] == [f"{key} a b" for key, _ in pairs]
    assert tables["segments"] == [f"{key} r=201 0 1" for key, _ in pairs]


def test_kaldi_takes_ids_that_begin_with_their_speaker_as_they_are(workspace, tmp_path):
    _, tables = kaldi(
        workspace,
        tmp_path / "out",
        segment_id=pl.format("s{}-{}", pl.int_range(pl.len()), "start_sample"),
        speaker_id=pl.format("s{}", pl.int_range(pl.len())),
    )
    assert set(tables["utt2spk"]) == set(workspace.segments["segment_id"])
    assert set(tables["reco2dur"].values()) == {"20", "12.5", "9"}
    assert tables["spk2utt"] == {speaker: key for key, speaker in tables["utt2spk"].items()}


def test_kaldi_export_writes_no_name_that_kaldi_would_execute(workspace, tmp_path, recorded):
    for name in ("|touch PWNED.wav", "line\nfeed.wav", "blank.wav ", "x |.wav"):
        (workspace.audio_root / name).write_bytes(recorded(".wav", 20.0, 16000).read_bytes())
    names = ["|touch PWNED.wav", "line\nfeed.wav", "blank.wav ", "x |.wav"]
    row = workspace.recordings.row(0, named=True)
    others = pl.DataFrame(
        [row | {"recording_id": name, "path": name} for name in names],
        schema=workspace.recordings.schema,
    )
    segment = workspace.segments.row(0, named=True)
    more = [segment | {"recording_id": name, "segment_id": f"{name}_1"} for name in names]
    workspace.save(
        recordings=pl.concat([workspace.recordings, others]),
        segments=pl.concat(
            [workspace.segments, pl.DataFrame(more, schema=workspace.segments.schema)]
        ),
    )
    workspace.save(segments=workspace.segments.with_columns(split=None))
    relative = nbaudio.export(
        workspace, "kaldi", out=workspace.audio_root / "out", paths="relative"
    )
    assert sum("Kaldi would misread" in line for line in relative.problems) == 2
    report = nbaudio.export(workspace, "kaldi", out=tmp_path / "out")
    assert [line.split(":")[0] for line in report.problems] == ["blank.wav ", "line\nfeed.wav"]
    assert [line for line in report.warnings if "only WAV; 1 recording is not WAV" in line]
    assert not list(tmp_path.rglob("PWNED"))


def test_lines_of_nemo_hold_numbers_with_all_their_digits(workspace, tmp_path):
    nbaudio.export(workspace, "nemo", out=tmp_path / "out")
    row = workspace.segments.filter(pl.col("split") == "train").row(0, named=True)
    line = (tmp_path / "out/train.jsonl").read_text("utf8").splitlines()[0]
    found = json.loads(line, parse_float=Decimal)
    assert found == {
        "audio_filepath": str(workspace.audio_root / "a.wav"),
        "offset": Decimal("0.0000625"),
        "duration": Decimal("2.3700625"),
        "text": row["text"],
        "segment_id": row["segment_id"],
    }


def test_stereo_recordings_are_exported_as_multicuts(make_workspace, tmp_path):
    workspace = make_workspace({"s.wav": (7.0, 8000)}, channels=2, name="stereo")
    nbaudio.export(workspace, "lhotse", out=tmp_path / "out")
    [line, *_] = gzip.decompress((tmp_path / "out/cuts_train.jsonl.gz").read_bytes()).splitlines()
    cut = json.loads(line)
    assert (cut["type"], cut["channel"], cut["supervisions"][0]["channel"]) == (
        "MultiCut",
        [0, 1],
        [0, 1],
    )
    assert cut["recording"]["channel_ids"] == cut["recording"]["sources"][0]["channels"] == [0, 1]


def test_lhotse_cuts_without_manifests_are_ingested(workspace, tmp_path):
    nbaudio.export(workspace, "lhotse", out=tmp_path / "out")
    for kind in ("recordings", "supervisions"):
        for path in (tmp_path / "out").glob(f"{kind}*"):
            path.unlink()
    found = again("lhotse", tmp_path / "out", tmp_path / "again", workspace)
    key = ["segment_id", "start_sample", "end_sample"]
    assert found.select(key).sort(key).rows() == workspace.segments.select(key).sort(key).rows()


# recordings that lie elsewhere


@pytest.fixture
def elsewhere(workspace, tmp_path):
    """The same recordings on a web server; its address."""
    with serving(workspace.audio_root) as web:
        for name in ("a.wav", "b  c.flac", "d.wav"):
            os.utime(workspace.audio_root / name)
        settings = workspace.settings | {"audio": web.url, "cache": 10**9}
        Workspace.create(workspace.path, **settings)
        yield web.url


@pytest.mark.parametrize("paths", ["absolute", "relative"])
@pytest.mark.parametrize("name", FORMATS)
def test_remote_recordings_are_exported_by_their_urls(workspace, elsewhere, tmp_path, name, paths):
    report = nbaudio.export(workspace, name, out=tmp_path / "out", paths=paths)
    assert report.problems == []
    written = b"".join(
        gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        for data in content(tmp_path / "out").values()
    )
    assert f"{elsewhere}/b%20%20c.flac".encode() in written
    assert str(tmp_path).encode() not in written
    assert any("reads no URLs; 3 recordings" in note for note in report.warnings) == (
        name == "kaldi"
    )


@pytest.mark.parametrize("name", ["nemo", "lhotse"])
def test_exported_urls_are_ingested_sample_exactly(workspace, elsewhere, tmp_path, name):
    nbaudio.export(workspace, name, out=tmp_path / "out")
    report = nbaudio.ingest(name, tmp_path / "out", audio="http://", out=tmp_path / "again")
    assert report.problems == []
    key = ["segment_id", "start_sample", "end_sample"]
    assert (
        Workspace.open(tmp_path / "again")
        .segments.select(key)
        .sort("segment_id")
        .equals(
            workspace.segments.filter(pl.col("decision") == "accept").select(key).sort("segment_id")
        )
    )


def test_recordings_in_archives_are_left_out_and_reported(workspace, tmp_path):
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(workspace.audio_root, ".")
    Workspace.create(
        workspace.path, **workspace.settings | {"audio": f"tar://::{tmp_path}/all.tar.gz"}
    )
    with pytest.raises(InputError, match=r"a: is in an archive, which these toolkits do not read"):
        nbaudio.export(workspace, "nemo", out=tmp_path / "out")
