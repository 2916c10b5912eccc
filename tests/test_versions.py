"""Versions of a corpus: what `materialize` keeps of its base, what it writes anew, and what it
refuses."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
import soundfile as sf

from nbaudio.core.atomic import sha256_file
from nbaudio.core.errors import InputError
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.corpus.convert import convert
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.verify import verify
from nbaudio.reading import open_corpus
from nbaudio.tables.workspace import Workspace

QUIET = {"jobs": 1, "engine": "threading", "show_progress": False}
CLIPS = 8  # of a recording
EVERY = pytest.mark.parametrize(
    "container",
    [
        pytest.param(name, marks=() if name == "webdataset" else pytest.mark.slow)
        for name in CONTAINERS
    ],
)


def encoding_of(container):
    return "mulaw" if CONTAINERS[container].levels_only else "flac"


def split_of(number):
    return {0: "dev", 1: "test"}.get(number, "train")


def recording(folder, number, *, rate=16000, channels=1, seed=None):
    """A recording of noise, with the row that ingest has for it."""
    path = folder / "audio" / f"r{number}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(number if seed is None else seed).integers(
        -9000, 9000, (CLIPS * rate, channels), dtype=np.int16
    )
    sf.write(path, noise, rate)
    facts = {
        "recording_id": f"r{number}",
        "path": path.name,
        "sampling_rate": rate,
        "num_channels": channels,
    }
    return facts | {"num_samples": CLIPS * rate, "codec": "pcm_s16le", "sha256": sha256_file(path)}


def rows(number, *, rate=16000, split=None):
    return [
        {
            "segment_id": f"r{number}-{clip:02d}",
            "recording_id": f"r{number}",
            "speaker_id": f"s{number}",
        }
        | {
            "start_sample": clip * rate,
            "end_sample": clip * rate + rate // 2 + 100 * clip,
            "text": f"rečenica {number} {clip}",
        }
        | {
            "source_start": str(clip),
            "source_end": str(clip + 0.5),
            "similarity": 0.9,
            "decision": "accept",
        }
        | {
            "word_times": [{"start": 0.0, "end": 0.25}] * (clip % 3),
            "split": split or split_of(number),
        }
        for clip in range(CLIPS)
    ]


def workspace_of(folder, recordings, segments):
    workspace = Workspace.create(folder / "w", source="made", audio=str(folder / "audio"))
    save(workspace, recordings, segments)
    return workspace


def save(workspace, recordings, segments):
    workspace.save(
        recordings=pl.DataFrame(recordings),
        segments=pl.DataFrame(segments, infer_schema_length=None),
    )


def kinds(number):
    """Another sampling rate and number of channels for some recordings."""
    return {"rate": (16000, 44100, 8000)[number % 3], "channels": 1 + number % 2}


def start(folder, count=5):
    """A workspace of some recordings, all selected."""
    recordings = [recording(folder, number, **kinds(number)) for number in range(count)]
    segments = [row for number in range(count) for row in rows(number, rate=kinds(number)["rate"])]
    return workspace_of(folder, recordings, segments), recordings, segments


def grown(folder, workspace, recordings, segments, *numbers):
    recordings = recordings + [recording(folder, number, **kinds(number)) for number in numbers]
    segments = segments + [
        row for number in numbers for row in rows(number, rate=kinds(number)["rate"])
    ]
    save(workspace, recordings, segments)
    return recordings, segments


def first(workspace, out, *, container="webdataset", **options):
    usual = {"container": container, "encoding": encoding_of(container), "shard_size": "100kB"}
    return materialize(workspace, out=out, **usual | options, **QUIET)


def version(workspace, base, out, **options):
    return materialize(workspace, out=out, base=base, **options, **QUIET)


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".work" not in path.parts
    }


def shards(folder):
    return {
        shard["name"]: shard["sha256"]
        for shard in json.loads((folder / "corpus.json").read_text())["shards"]
    }


def samples(folder):
    corpus = open_corpus(folder)
    ids = sorted(corpus.segments["segment_id"])
    return dict(
        zip(ids, (clip.encoded for clip in corpus.read_many(ids, give="encoded")), strict=True)
    )


def check(folder):
    report = verify(folder, **QUIET)
    assert report.problems == []
    return report


@pytest.mark.slow
def test_a_risk_that_is_learned_anew_changes_no_clip(tmp_path):
    workspace, recordings, segments = start(tmp_path)
    save(workspace, recordings, [row | {"risk": 0.25} for row in segments])
    materialize(workspace, out=tmp_path / "one", **QUIET)
    save(workspace, recordings, [row | {"risk": 0.125} for row in segments])
    report = materialize(workspace, out=tmp_path / "two", base=tmp_path / "one", **QUIET)
    assert report.facts["shards_kept_from_before"] == report.facts["shards"] == 3
    assert report.warnings == []
    for corpus in ("one", "two"):
        assert "risk" not in pl.read_parquet(tmp_path / corpus / "segments.parquet").columns
        assert verify(tmp_path / corpus, **QUIET).problems == []


@EVERY
def test_a_new_version_keeps_all_shards_of_its_base_and_adds_its_own(tmp_path, container):
    workspace, *tables = start(tmp_path)
    first(workspace, tmp_path / "c1", container=container)
    before = contents(tmp_path / "c1")
    grown(tmp_path, workspace, *tables, 5, 6)
    report = version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert report.facts["clips_cut_now"] == 2 * CLIPS
    old, new = shards(tmp_path / "c1"), shards(tmp_path / "c2")
    assert old.items() <= new.items()
    added = new.keys() - old.keys()
    assert added
    if container != "lhotse":
        assert all(name.startswith("train/train-v2-0") for name in added)
    assert contents(tmp_path / "c1") == before
    info = json.loads((tmp_path / "c2/corpus.json").read_text())
    base = {"version": 1, "corpus": "c1", "sha256": sha256_file(tmp_path / "c1/corpus.json")}
    assert (info["version"], info["base"], info["tombstones"]) == (2, base, [])
    check(tmp_path / "c2")
    whole = first(workspace, tmp_path / "whole", container=container)
    assert whole.facts["kept"] == report.facts["kept"] == 7 * CLIPS
    assert samples(tmp_path / "c2") == samples(tmp_path / "whole")
    linked = [
        name
        for name in before
        if name.partition("/")[2].startswith(("train-0", "dev-0", "recording."))
    ]
    assert linked
    assert all((tmp_path / "c1" / name).samefile(tmp_path / "c2" / name) for name in linked)
    # The same command again changes nothing, nor does a version of the version.
    after = contents(tmp_path / "c2")
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert contents(tmp_path / "c2") == after
    version(workspace, tmp_path / "c2", tmp_path / "c3")
    assert shards(tmp_path / "c3") == new
    check(tmp_path / "c3")


@pytest.mark.slow
@EVERY
def test_changed_clips_move_to_new_shards_and_only_their_shards_are_rewritten(tmp_path, container):
    workspace, recordings, segments = start(tmp_path)
    first(workspace, tmp_path / "c1", container=container)
    shard_of = dict(open_corpus(tmp_path / "c1").segments.select("segment_id", "shard").iter_rows())
    changed = [dict(row) for row in segments]
    changed[3 * CLIPS]["text"] = "druga rečenica"
    changed[3 * CLIPS + 1]["end_sample"] -= 7
    changed[3 * CLIPS + 2]["split"] = "dev"
    changed[3 * CLIPS + 3]["decision"] = "reject"
    changed[3 * CLIPS + 3]["reason"] = "too_long"
    ids = [row["segment_id"] for row in changed[3 * CLIPS : 3 * CLIPS + 4]]
    save(workspace, recordings, changed)
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    check(tmp_path / "c2")
    after = dict(open_corpus(tmp_path / "c2").segments.select("segment_id", "shard").iter_rows())
    touched = {"/".join(shard_of[key].split("/")[:2]) for key in ids}
    old, new = shards(tmp_path / "c1"), shards(tmp_path / "c2")
    assert {name for name in old if new.get(name) != old[name]} == touched
    assert all(after[key] == place for key, place in shard_of.items() if key not in ids)
    assert [after[key].split("/")[0] for key in ids[:3]] == ["train", "train", "dev"]
    assert ids[3] not in after
    first(workspace, tmp_path / "whole", container=container)
    assert samples(tmp_path / "c2") == samples(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("hashed", [True, False])
def test_replaced_audio_is_noticed_with_and_without_hashes_of_recordings(tmp_path, hashed):
    workspace, recordings, segments = start(tmp_path)
    if not hashed:
        recordings = [facts | {"sha256": None} for facts in recordings]
        save(workspace, recordings, segments)
    first(workspace, tmp_path / "c1")
    other = recording(tmp_path, 3, **kinds(3), seed=99)
    status = (tmp_path / "audio/r3.wav").stat()
    facts = {"num_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
    recordings[3] = other if hashed else other | {"sha256": None} | facts
    save(workspace, [{"num_bytes": None, "mtime_ns": None} | each for each in recordings], segments)
    report = version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert report.facts["clips_cut_now"] == CLIPS
    check(tmp_path / "c2")
    first(workspace, tmp_path / "whole")
    assert samples(tmp_path / "c2") == samples(tmp_path / "whole")
    kept = open_corpus(tmp_path / "c2").segments.filter(~pl.col("shard").str.contains("-v2-"))
    assert kept["recording_id"].unique().sort().to_list() == ["r0", "r1", "r2", "r4"]


def test_a_shard_without_clips_is_left_out(tmp_path):
    workspace, recordings, segments = start(tmp_path)
    first(workspace, tmp_path / "c1", shard_count=1)
    save(workspace, recordings, [row for row in segments if row["split"] != "dev"])
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert sorted(shards(tmp_path / "c2")) == [
        "test/test-00000-of-00001.tar",
        "train/train-00000-of-00001.tar",
    ]
    check(tmp_path / "c2")


@pytest.mark.slow
def test_a_version_uses_the_parameters_of_its_base(tmp_path):
    workspace, *tables = start(tmp_path)
    options = {
        "container": "parquet",
        "rate": 8000,
        "channel": "left",
        "encoding": "wav",
        "shard_size": "50kB",
    }
    first(workspace, tmp_path / "c1", **options, license="cc0-1.0", language="hr")
    grown(tmp_path, workspace, *tables, 5)
    for name, value in {
        "container": "zip",
        "rate": None,
        "channel": 0,
        "encoding": "flac",
        "shard_size": "60kB",
        "window": 2,
    }.items():
        with pytest.raises(InputError, match=f"^{name} is .* in the base .*c1, not "):
            version(workspace, tmp_path / "c1", tmp_path / "c2", **{name: value})
    assert not (tmp_path / "c2").exists()
    version(workspace, tmp_path / "c1", tmp_path / "c2", **options, title="Sjednice")
    one, two = (json.loads((tmp_path / name / "corpus.json").read_text()) for name in ("c1", "c2"))
    assert one["parameters"] == two["parameters"]
    assert two["about"] == one["about"] | {"title": "Sjednice"}
    assert "## Versions" in (tmp_path / "c2/README.md").read_text()
    assert "## Versions" not in (tmp_path / "c1/README.md").read_text()


@pytest.mark.slow
def test_shard_count_of_the_base_limits_new_shards(tmp_path):
    workspace, *tables = start(tmp_path)
    first(workspace, tmp_path / "c1", shard_count=4)
    grown(tmp_path, workspace, *tables, 5)
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert len(shards(tmp_path / "c2").keys() - shards(tmp_path / "c1").keys()) <= 4


@pytest.mark.slow
def test_a_version_has_the_columns_of_its_base(tmp_path):
    workspace, recordings, segments = start(tmp_path)
    save(workspace, recordings, [row | {"party": "a"} for row in segments])
    first(workspace, tmp_path / "c1", container="parquet")
    recordings, segments = grown(tmp_path, workspace, recordings, segments, 5)
    later = [
        row | ({"party": "a"} if row["recording_id"] != "r5" else {}) | {"snr_db": 20.0}
        for row in segments
    ]
    save(workspace, recordings, later)
    report = version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert any("snr_db" in line for line in report.warnings)
    assert shards(tmp_path / "c1").items() <= shards(tmp_path / "c2").items()
    schemas = {str(pl.read_parquet_schema(path)) for path in (tmp_path / "c2").glob("*/*.parquet")}
    assert len(schemas) == 1
    assert open_corpus(tmp_path / "c2").segments["party"].null_count() == CLIPS


@pytest.mark.slow
def test_windows_of_consecutive_segments_stay_in_new_versions(tmp_path):
    workspace, *tables = start(tmp_path)
    first(workspace, tmp_path / "c1", container="tfrecord", window=4)
    grown(tmp_path, workspace, *tables, 5)
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    check(tmp_path / "c2")
    assert shards(tmp_path / "c1").items() <= shards(tmp_path / "c2").items()
    windows = (
        open_corpus(tmp_path / "c2")
        .segments.group_by("window")
        .agg(pl.len(), pl.col("recording_id").n_unique())
    )
    assert set(windows["len"]) == {4}
    assert set(windows["recording_id"]) == {1}


@pytest.mark.slow
def test_held_out_segments_of_the_base_never_enter_train(tmp_path):
    workspace, recordings, segments = start(tmp_path)
    workspace.save_report("select", {"facts": {"parameters": {"group_by": ["speaker_id"]}}})
    first(workspace, tmp_path / "c1")
    moved = [row | {"split": "train"} if row["segment_id"] == "r0-03" else row for row in segments]
    save(workspace, recordings, moved)
    with pytest.raises(
        InputError, match=r"segment 'r0-03' of train, which is in dev of the base .*c1; .*--splits"
    ):
        version(workspace, tmp_path / "c1", tmp_path / "c2")
    for column, value in (("speaker_id", "s1"), ("text", "Rečenica 1 5!")):
        recordings, later = grown(tmp_path, workspace, recordings[:5], segments, 5)
        save(workspace, recordings, [*later[:-1], later[-1] | {column: value}])
        with pytest.raises(
            InputError,
            match=rf"segment '{later[-1]['segment_id']}' of train, which has the .* in test of",
        ):
            version(workspace, tmp_path / "c1", tmp_path / "c2")
    # A recording was no column of the grouping.
    save(
        workspace,
        recordings,
        [*later[:-1], later[-1] | {"recording_id": "r1", "start_sample": 5, "end_sample": 4000}],
    )
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    # Splits that were given may share: that is reported.
    workspace.save_report(
        "select", {"facts": {"parameters": {"group_by": ["speaker_id"], "splits": "source"}}}
    )
    save(workspace, recordings, [*later[:-1], later[-1] | {"speaker_id": "s1"}])
    report = version(workspace, tmp_path / "c1", tmp_path / "c3")
    assert any("given splits" in line for line in report.warnings)


@pytest.mark.slow
def test_a_base_that_is_damaged_or_incomplete_is_refused(tmp_path):
    workspace, *tables = start(tmp_path)
    first(workspace, tmp_path / "c1")
    grown(tmp_path, workspace, *tables, 5)
    with pytest.raises(InputError, match="a new version needs another folder"):
        version(workspace, tmp_path / "c1", tmp_path / "c1")
    with pytest.raises(InputError, match="nothing"):
        version(workspace, tmp_path / "nothing", tmp_path / "c2")
    shard = min((tmp_path / "c1/train").glob("*.tar"))
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(InputError, match=f"{shard.name}: .* bytes, not the"):
        version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert not (tmp_path / "c2/corpus.json").exists()
    shard.write_bytes(data)
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    check(tmp_path / "c2")
    table = tmp_path / "c1/segments.parquet"
    os.truncate(table, table.stat().st_size - 1)
    with pytest.raises(InputError, match=r"segments\.parquet: changed since it was written"):
        version(workspace, tmp_path / "c1", tmp_path / "c3")


def test_a_damaged_clip_of_the_base_is_named_and_the_base_is_left_alone(tmp_path):
    workspace, recordings, segments = start(tmp_path)
    first(workspace, tmp_path / "c1")
    row = (
        open_corpus(tmp_path / "c1").segments.filter(pl.col("split") == "train").row(0, named=True)
    )
    path = tmp_path / "c1" / row["shard"]
    data = bytearray(path.read_bytes())
    data[row["offset"] + row["length"] // 2] ^= 255
    path.write_bytes(data)
    inside = open_corpus(tmp_path / "c1").segments.filter(pl.col("shard") == row["shard"])[
        "segment_id"
    ]
    other = next(key for key in inside if key != row["segment_id"])
    save(workspace, recordings, [each for each in segments if each["segment_id"] != other])
    before = contents(tmp_path / "c1")
    with pytest.raises(
        InputError,
        match=(
            rf"{path.name}: a clip is damaged; 'nbaudio verify .*c1' lists all damage of the "
            r"base"
        ),
    ):
        version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert contents(tmp_path / "c1") == before


@pytest.mark.slow
def test_a_base_of_another_workspace_is_noticed(tmp_path):
    workspace, recordings, segments = start(tmp_path)
    first(workspace, tmp_path / "c1")
    save(
        workspace,
        recordings,
        [
            row | {"segment_id": f"x{row['segment_id']}", "text": f"x {row['text']}"}
            for row in segments
        ],
    )
    report = version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert any("was it made from this workspace?" in line for line in report.warnings)
    check(tmp_path / "c2")


@pytest.mark.slow
def test_a_version_can_be_made_at_and_from_an_address(tmp_path):
    workspace, *tables = start(tmp_path)
    first(workspace, tmp_path / "c1")
    first(workspace, "memory://versions/c1")
    grown(tmp_path, workspace, *tables, 5)
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    for base, out in (
        (tmp_path / "c1", "memory://versions/a"),
        ("memory://versions/c1", "memory://versions/b"),
    ):
        version(workspace, base, out)
        check(out)
        assert {
            shard["name"]: shard["sha256"] for shard in open_corpus(out).info["shards"]
        } == shards(tmp_path / "c2")
    version(workspace, "memory://versions/c1", tmp_path / "c3")
    assert shards(tmp_path / "c3") == shards(tmp_path / "c2")
    check(tmp_path / "c3")


@pytest.mark.slow
def test_shards_are_copied_where_hard_links_fail(tmp_path, monkeypatch):
    def no_link(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    workspace, *tables = start(tmp_path)
    first(workspace, tmp_path / "c1")
    grown(tmp_path, workspace, *tables, 5)
    monkeypatch.setattr(os, "link", no_link)
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert shards(tmp_path / "c1").items() <= shards(tmp_path / "c2").items()
    names = shards(tmp_path / "c1")
    assert not any((tmp_path / "c1" / name).samefile(tmp_path / "c2" / name) for name in names)
    check(tmp_path / "c2")


RUN = (
    "import sys; from nbaudio import materialize; materialize(sys.argv[1], "
    "base=sys.argv[2], out=sys.argv[3], jobs=2)"
)
# When to kill, by what is in the folder of the new version.
MOMENTS = {
    "claimed": lambda out: (out / ".work/identity.json").exists(),
    "some links": lambda out: len(list(out.glob("*/*.tar"))) >= 8,
    "first shard begun": lambda out: any(out.glob("*/.*-v2-*.partial")),
    "first shard done": lambda out: any(out.glob("*/*-v2-*.tar")),
    "tables written": lambda out: (out / "rejected.parquet").exists(),
}


@pytest.fixture(scope="module")
def version_to_kill(tmp_path_factory):
    """A folder with the base `c1`, a workspace that has grown since, and its whole version."""
    folder = tmp_path_factory.mktemp("version to kill")
    workspace, *tables = start(folder, 8)
    first(workspace, folder / "c1", shard_size="60kB")
    recordings, segments = grown(folder, workspace, *tables, *range(8, 14))
    segments[5 * CLIPS] |= {"text": "druga"}
    save(workspace, recordings, segments)
    version(workspace, folder / "c1", folder / "whole")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_version_is_finished_by_another_run_with_the_same_bytes(
    version_to_kill, tmp_path, moment
):
    workspace, base = Workspace.open(version_to_kill / "w"), version_to_kill / "c1"
    base_before = contents(base)
    out = tmp_path / "c2"
    command = [sys.executable, "-c", RUN, workspace.path, base, out]
    run = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while run.poll() is None and not MOMENTS[moment](out):
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    left = {name: digest for name, digest in contents(out).items() if not name.endswith(".partial")}
    version(workspace, base, out)
    check(out)
    assert not list(out.rglob("*.partial"))
    assert contents(out) == contents(version_to_kill / "whole")
    assert left.items() <= contents(out).items()
    assert contents(base) == base_before


def added_in(corpus):
    rows = pl.read_parquet(corpus / "segments.parquet", columns=["segment_id", "added_in"])
    assert rows.schema["added_in"] == pl.Int32
    return dict(rows.iter_rows())


@pytest.mark.parametrize("container", ["webdataset", pytest.param("files", marks=pytest.mark.slow)])
def test_each_segment_has_the_version_that_it_was_added_in(tmp_path, container):
    workspace, recordings, segments = start(tmp_path, 4)
    parameters = QUIET | {"container": container, "encoding": encoding_of(container)}
    materialize(workspace, out=tmp_path / "c", **parameters)
    assert set(added_in(tmp_path / "c").values()) == {1}
    further = [recording(tmp_path, 4, **kinds(4))]
    new = rows(4, rate=kinds(4)["rate"])
    segments[17] |= {"text": "sasvim drugo"}  # cut again, but not new
    save(workspace, recordings + further, segments + new)
    materialize(workspace, out=tmp_path / "c-v2", base=tmp_path / "c", **QUIET)
    before, after = (added_in(tmp_path / name) for name in ("c", "c-v2"))
    assert after == before | {row["segment_id"]: 2 for row in new}
    bytes_before = (tmp_path / "c-v2/segments.parquet").read_bytes()
    materialize(workspace, out=tmp_path / "c-v2", base=tmp_path / "c", **QUIET)
    assert (tmp_path / "c-v2/segments.parquet").read_bytes() == bytes_before
    assert not verify(tmp_path / "c-v2").problems
    save(workspace, recordings, segments)
    materialize(workspace, out=tmp_path / "c-v3", base=tmp_path / "c-v2", **QUIET)
    assert added_in(tmp_path / "c-v3") == before


@pytest.mark.slow
def test_a_converted_corpus_keeps_the_versions_of_its_segments(tmp_path):
    workspace, recordings, segments = start(tmp_path, 3)
    materialize(workspace, out=tmp_path / "c", **QUIET)
    save(
        workspace,
        [*recordings, recording(tmp_path, 3)],
        [*segments, *rows(3)],
    )
    materialize(workspace, out=tmp_path / "c-v2", base=tmp_path / "c", **QUIET)
    convert(tmp_path / "c-v2", container="zip", out=tmp_path / "z", jobs=1, show_progress=False)
    assert added_in(tmp_path / "z") == added_in(tmp_path / "c-v2")
    assert set(added_in(tmp_path / "z").values()) == {1, 2}


def test_the_versions_of_segments_of_an_earlier_corpus_are_those_of_its_shards(tmp_path):
    workspace, recordings, segments = start(tmp_path, 3)
    materialize(workspace, out=tmp_path / "c", **QUIET)
    without_column(tmp_path / "c")
    save(workspace, [*recordings, recording(tmp_path, 3)], [*segments, *rows(3)])
    materialize(workspace, out=tmp_path / "c-v2", base=tmp_path / "c", **QUIET)
    expected = added_in(tmp_path / "c-v2")
    assert sorted(set(expected.values())) == [1, 2]
    without_column(tmp_path / "c-v2")
    convert(tmp_path / "c-v2", container="zip", out=tmp_path / "z", jobs=1, show_progress=False)
    assert added_in(tmp_path / "z") == expected


def without_column(corpus):
    """Make a corpus as nbaudio wrote it before it had the column `added_in`."""
    path = corpus / "segments.parquet"
    pl.read_parquet(path).drop("added_in").write_parquet(path)
    info = json.loads((corpus / "corpus.json").read_text())
    info["tables"]["segments.parquet"] = sha256_file(path)
    info["table_bytes"]["segments.parquet"] = path.stat().st_size
    (corpus / "corpus.json").write_text(json.dumps(info))
