"""Packs in an object store, for workers without a shared disk: the same corpus, nothing cut twice,
damage found."""

import shutil
import threading

import fsspec
import pytest
import stores
from stores import Bucket

from nbaudio import Workspace, materialize, verify
from nbaudio.core.errors import InputError
from nbaudio.storage import network

PACKS = "gs://bucket/packs"


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.001)
    stores.register(tmp_path / "store")
    (tmp_path / "store/bucket/packs").mkdir(parents=True)
    yield tmp_path / "store/bucket"
    stores.unregister()


@pytest.fixture
def workspace(make_workspace, store):
    """One whose recordings are in the store."""
    made = make_workspace({f"r{i}.flac": (40.0, 16000) for i in range(3)})
    shutil.copytree(made.audio_root, store / "audio")
    fs = fsspec.filesystem("gs")
    recordings = made.recordings
    versions = [fs.info(f"bucket/audio/{path}")["etag"] for path in recordings["path"]]
    there = Workspace.create(made.path.with_name("there"), source="made", audio="gs://bucket/audio")
    there.save(
        recordings=recordings.with_columns(
            version=recordings["path"].replace(recordings["path"], versions)
        )
    )
    there.save(segments=made.segments)
    return there


def make_corpus(workspace, out, **options):
    """Materialize a corpus of small shards with one job."""
    return materialize(
        workspace, **{"out": out, "jobs": 1, "shard_size": "40kB", "show_progress": False} | options
    )


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_remote_packs_give_the_corpus_of_local_packs(workspace, store, tmp_path):
    make_corpus(workspace, tmp_path / "local")
    report = make_corpus(workspace, tmp_path / "C", packs=PACKS)
    assert contents(tmp_path / "C") == contents(tmp_path / "local")
    assert report.problems == []
    assert report.facts["clips_cut_now"] == report.facts["kept"] > 0
    assert {path.suffix for path in (store / "packs").rglob("*") if path.is_file()} == {".pack"}
    again = make_corpus(workspace, tmp_path / "again", packs=PACKS)
    assert again.facts["clips_cut_now"] == 0
    assert contents(tmp_path / "again") == contents(tmp_path / "local")


@pytest.mark.slow
def test_workers_leave_no_fetched_recordings_and_packs(workspace, tmp_path):
    make_corpus(workspace, tmp_path / "C", packs=PACKS)
    assert not (workspace.path / "fetched").exists()
    assert not (workspace.path / "packs").exists()


@pytest.mark.slow
def test_clips_of_a_damaged_remote_pack_are_cut_again(workspace, store, tmp_path):
    make_corpus(workspace, tmp_path / "whole", packs=PACKS)
    pack = next((store / "packs").iterdir())
    data = bytearray(pack.read_bytes())
    data[100] ^= 1
    pack.write_bytes(data)
    report = make_corpus(workspace, tmp_path / "C", packs=PACKS)
    assert 0 < report.facts["clips_cut_now"] < report.facts["kept"]  # of one pack
    assert contents(tmp_path / "C") == contents(tmp_path / "whole")
    pack.write_bytes(pack.read_bytes()[:20])
    assert (
        make_corpus(workspace, tmp_path / "shorter", packs=PACKS).facts["clips_cut_now"]
        == report.facts["clips_cut_now"]
    )


def test_a_pack_that_cannot_be_sent_stops_the_run_and_nothing_is_left_of_it(
    workspace, store, tmp_path, monkeypatch
):
    monkeypatch.setattr(Bucket, "broken", 1000)
    with pytest.raises(Exception, match="packs") as caught:
        make_corpus(workspace, tmp_path / "C", packs=PACKS)
    assert "geheim" not in str(caught.value)
    assert not list((store / "packs").iterdir())


@pytest.mark.slow
def test_packs_can_be_in_another_local_folder(workspace, tmp_path):
    make_corpus(workspace, tmp_path / "C", packs=tmp_path / "scratch/packs")
    assert list((tmp_path / "scratch/packs").glob("*.pack"))
    assert not (workspace.path / "packs").exists()


def test_remote_packs_are_refused_for_local_recordings(make_workspace, tmp_path):
    local = make_workspace({"r.flac": (10.0, 16000)})
    with pytest.raises(InputError, match="ingest with --audio at a URL"):
        make_corpus(local, tmp_path / "C", packs=PACKS)
    with pytest.raises(InputError, match="cannot be written; give a folder"):
        make_corpus(local, tmp_path / "C", packs="https://host/packs")


@pytest.mark.slow
@pytest.mark.parametrize("container", ["webdataset", "files"])
def test_workers_pack_a_corpus_at_an_address(workspace, store, tmp_path, monkeypatch, container):
    put, by_driver = Bucket.put_file, []

    def put_file(self, lpath, rpath, **options):
        by_driver.extend([rpath] if threading.current_thread() is threading.main_thread() else [])
        return put(self, lpath, rpath, **options)

    make_corpus(workspace, tmp_path / "local", container=container)
    monkeypatch.setattr(Bucket, "put_file", put_file)
    report = make_corpus(
        workspace, "gs://bucket/C", packs=PACKS, container=container, engine="threading", jobs=2
    )
    assert contents(store / "C") == contents(tmp_path / "local")
    assert "bucket/C/segments.parquet" in by_driver
    assert not [name for name in by_driver if name.endswith((".tar", ".flac", ".pack"))]
    assert {path.suffix for path in (store / "packs").rglob("*") if path.is_file()} == {".pack"}
    assert report.facts["shards_kept_from_before"] == 0
    assert verify("gs://bucket/C", jobs=1, show_progress=False).problems == []


@pytest.mark.slow
def test_an_interrupted_corpus_at_an_address_keeps_the_shards_of_workers(
    workspace, store, tmp_path, monkeypatch
):
    make_corpus(workspace, tmp_path / "local")
    with monkeypatch.context() as patch:
        patch.setattr("nbaudio.corpus.materialize.publish", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            make_corpus(workspace, "gs://bucket/C", packs=PACKS)
    [first, *_] = sorted((store / "C/train").glob("*.tar"))
    first.write_bytes(first.read_bytes()[:-1])
    report = make_corpus(workspace, "gs://bucket/C", packs=PACKS)
    assert report.facts["shards_kept_from_before"] == report.facts["shards"] - 1 > 0
    assert contents(store / "C") == contents(tmp_path / "local")
