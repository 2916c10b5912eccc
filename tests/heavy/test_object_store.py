"""Recordings and corpora in an object store: moto's S3 server on this machine, through s3fs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3
import numpy as np
import polars as pl
import pytest
import soundfile as sf
from conftest import encoded
from s3_server import s3_server
from specimens import librispeech_tree

from nbaudio import ingest, materialize, select, stats, verify
from nbaudio.audio import read_clip
from nbaudio.core.errors import ExistsError, InputError, NbaudioError
from nbaudio.reading import open_corpus
from nbaudio.storage.cache import Cache
from nbaudio.storage.remote import Remote, remote
from nbaudio.tables.workspace import Workspace


@pytest.fixture(scope="module")
def store():
    """A client of an S3 server with the bucket ``recordings``; where it is and who asks stand in
    the environment."""
    with (
        s3_server("recordings", "corpora") as url,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AWS_ENDPOINT_URL", url)
        client = boto3.client("s3")
        yield client
        client.close()


@pytest.fixture
def archive(tmp_path):
    """Three recordings, of which one is large, and transcripts."""
    (tmp_path / "audio").mkdir()
    noise = np.random.default_rng(0).normal(0, 0.1, (44100 * 180, 2))
    names = {"large [HlauTe_NK6U].wav": 180, "2018/č & 100%.flac": 12, "x#y?.mp3": 12}
    for name, seconds in names.items():
        path = tmp_path / "audio" / name
        path.parent.mkdir(exist_ok=True)
        sf.write(path, noise[: seconds * 44100], 44100)
    said = [
        {
            "file": name,
            "start": start,
            "end": start + 2.25,
            "words": ["dobar", "dan"],
            "asr": ["dobar", "dan"],
        }
        for name in names
        for start in (0.5, 3.1, 6.7, 9.2)
    ]
    (tmp_path / "asr.json").write_text("\n".join(map(json.dumps, said)))
    return tmp_path


def upload(store, folder: Path, prefix: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            store.upload_file(
                str(path), "recordings", f"{prefix}/{path.relative_to(folder).as_posix()}"
            )


def corpus_of(archive, out, audio, *, jobs):
    """The bytes of all files of a corpus by name, and what could not be cut."""
    assert not ingest("parlaspeech", archive / "asr.json", audio=audio, out=out / "w").problems
    select(out / "w", dev=2, test=2, group_by=())
    shutil.rmtree(out / "w/fetched", ignore_errors=True)
    report = materialize(out / "w", out=out / "c", jobs=jobs, show_progress=False)
    return contents(out / "c"), report.problems


def contents(corpus: Path) -> dict[str, bytes]:
    return {
        path.relative_to(corpus).as_posix(): path.read_bytes()
        for path in corpus.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("jobs", [1, 2])
def test_corpus_from_a_bucket_has_the_bytes_of_the_local_one(store, archive, jobs, tmp_path):
    upload(store, archive / "audio", "some where")
    local, _ = corpus_of(archive, tmp_path / "local", archive / "audio", jobs=1)
    made, problems = corpus_of(archive, tmp_path / "s3", "s3://recordings/some where", jobs=jobs)
    assert not problems
    assert made == local
    # Four windows of a recording of 32 MB: ranges of it, so that only the small ones are in the
    # cache.
    held = sum(path.stat().st_size for path in (tmp_path / "s3/w/fetched").glob("*/*"))
    assert held < (archive / "audio/large [HlauTe_NK6U].wav").stat().st_size


def test_librispeech_in_a_bucket_gives_the_corpus_of_the_local_folder(store, tmp_path):
    texts = {
        f"8{number % 3}-{number % 5}-{number:04}": f"HELLO {number}" for number in range(1, 31)
    }
    librispeech_tree(tmp_path / "LibriSpeech/dev-clean", texts, rate=16000)
    upload(store, tmp_path / "LibriSpeech", "corpora/LibriSpeech")
    for out, source in (
        ("local", tmp_path / "LibriSpeech"),
        ("s3", "s3://recordings/corpora/LibriSpeech"),
    ):
        assert ingest("librispeech", source, out=tmp_path / out / "w").problems == []
        select(tmp_path / out / "w", dev=5, test=5, group_by=())
        materialize(tmp_path / out / "w", out=tmp_path / out / "c", jobs=2, show_progress=False)
    assert contents(tmp_path / "s3/c") == contents(tmp_path / "local/c")


def test_recording_that_is_replaced_after_ingest_is_refused(store, archive, tmp_path):
    upload(store, archive / "audio", "changing")
    ingest(
        "parlaspeech", archive / "asr.json", audio="s3://recordings/changing", out=tmp_path / "w"
    )
    select(tmp_path / "w", dev=0, test=0, group_by=())
    data = bytearray((archive / "audio/x#y?.mp3").read_bytes())
    data[-400] ^= 1
    store.put_object(Bucket="recordings", Key="changing/x#y?.mp3", Body=bytes(data))
    store.delete_object(Bucket="recordings", Key="changing/2018/č & 100%.flac")
    report = materialize(tmp_path / "w", out=tmp_path / "c", jobs=1, show_progress=False)
    assert report.facts["kept"] == 4
    assert sum("changed since it was ingested" in problem for problem in report.problems) == 4
    assert sum("there is no such file" in problem for problem in report.problems) == 4


def test_ranges_of_an_object_equal_those_of_the_file(store, archive, tmp_path):
    upload(store, archive / "audio", "ranged")
    path = archive / "audio/large [HlauTe_NK6U].wav"
    place = remote("s3://recordings/ranged", Cache(tmp_path / "cache")) / path.name
    for start in (0, 1_000_000, 44100 * 180 - 5000):
        wanted = read_clip(path, start, start + 5000, num_samples=44100 * 180)
        assert np.array_equal(
            read_clip(place, start, start + 5000, num_samples=44100 * 180), wanted
        )
    assert not (tmp_path / "cache").exists()


# corpora

OPTIONS = {"encoding": "wav", "rate": 44100, "shard_size": "60MB", "show_progress": False}
RUN = (
    "import sys; from nbaudio import materialize\n"
    f"materialize(sys.argv[1], out=sys.argv[2], jobs=int(sys.argv[3]), **{OPTIONS!r})"
)


@pytest.fixture
def selected(archive, tmp_path):
    """A workspace whose corpus has shards that are sent in several parts."""
    said = [
        {"file": "large [HlauTe_NK6U].wav", "start": i, "end": i + 10, "words": ["a"], "asr": ["a"]}
        for i in range(165)
    ]
    (tmp_path / "asr.json").write_text("\n".join(map(json.dumps, said)))
    ingest("parlaspeech", tmp_path / "asr.json", audio=tmp_path / "audio", out=tmp_path / "w")
    select(tmp_path / "w", dev=0, test=0, group_by=())
    materialize(tmp_path / "w", out=tmp_path / "local", jobs=2, **OPTIONS)
    return tmp_path / "w"


def objects(store, prefix):
    """All objects below a prefix by name, and their bytes."""
    listed = store.list_objects_v2(Bucket="corpora", Prefix=f"{prefix}/").get("Contents", [])
    read = (
        (each["Key"], store.get_object(Bucket="corpora", Key=each["Key"])["Body"].read())
        for each in listed
    )
    return {key.removeprefix(f"{prefix}/"): data for key, data in read}


def uploads(store):
    return store.list_multipart_uploads(Bucket="corpora").get("Uploads", [])


def test_corpus_in_a_bucket_is_the_local_one(store, selected, tmp_path):
    report = materialize(selected, out="s3://corpora/whole", jobs=2, **OPTIONS)
    local = contents(tmp_path / "local")
    assert report.facts["shards"] > 2
    assert objects(store, "whole") == local
    assert not uploads(store)
    assert verify("s3://corpora/whole", jobs=2, show_progress=False).problems == []
    assert stats("s3://corpora/whole").facts["segments_kept"] == 165
    ids = open_corpus("s3://corpora/whole").segments["segment_id"].to_list()[:3]
    assert encoded("s3://corpora/whole", ids) == encoded(tmp_path / "local", ids)
    again = materialize(selected, out="s3://corpora/whole", jobs=1, **OPTIONS)
    assert again.facts["shards_kept_from_before"] == again.facts["shards"]


def test_a_new_version_is_copied_by_the_store(store, selected, tmp_path, monkeypatch):
    """Shards of the base are never sent from this machine; the new version is that of folders."""
    materialize(selected, out="s3://corpora/v1", jobs=2, **OPTIONS)
    workspace = Workspace(selected)
    segments = workspace.segments
    changed = segments["segment_id"][5]
    text = (
        pl.when(pl.col("segment_id") == changed)
        .then(pl.lit("druga rečenica"))
        .otherwise("text")
        .alias("text")
    )
    workspace.save(segments=segments.with_columns(text))
    sent: list[str] = []
    put = Remote.put
    monkeypatch.setattr(
        Remote, "put", lambda place, source: (sent.append(str(place)), put(place, source))[1]
    )
    try:
        report = materialize(
            selected,
            out="s3://corpora/v2",
            base="s3://corpora/v1",
            jobs=1,
            engine="threading",
            show_progress=False,
        )
        again = materialize(
            selected,
            out="s3://corpora/v2",
            base="s3://corpora/v1",
            jobs=1,
            engine="threading",
            show_progress=False,
        )
        materialize(
            selected, out=tmp_path / "v2", base=tmp_path / "local", jobs=1, show_progress=False
        )
    finally:
        workspace.save(segments=segments)
    assert again.facts["shards_kept_from_before"] == report.facts["shards"]
    tars = {name.removeprefix("s3://corpora/v2/") for name in sent if name.endswith(".tar")}
    assert len(tars) == 2  # the shard that held the clip, and the new one
    one, two = (
        {name: data for name, data in objects(store, prefix).items() if name.endswith(".tar")}
        for prefix in ("v1", "v2")
    )
    assert {name for name in two if two[name] != one.get(name)} == tars
    assert two == {
        name: data for name, data in contents(tmp_path / "v2").items() if name.endswith(".tar")
    }
    assert verify("s3://corpora/v2", jobs=2, show_progress=False).problems == []


@pytest.mark.parametrize(
    ("moment", "jobs"),
    [("claimed", 1), ("parts are sent", 1), ("parts are sent", 2), ("a shard is there", 2)],
)
def test_a_run_that_is_killed_leaves_complete_objects_and_is_finished_by_another(
    store, selected, moment, jobs, tmp_path
):
    prefix = f"killed {moment} {jobs}"
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, selected, f"s3://corpora/{prefix}", str(jobs)],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while run.poll() is None:
        keys = [
            each["Key"]
            for each in store.list_objects_v2(Bucket="corpora", Prefix=f"{prefix}/").get(
                "Contents", []
            )
        ]
        come = {
            "claimed": bool(keys),
            "parts are sent": bool(uploads(store)),
            "a shard is there": ".tar" in "".join(keys),
        }
        if come[moment]:
            break
        assert time.monotonic() < deadline
        time.sleep(0.002)
    assert run.poll() is None
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    local = contents(tmp_path / "local")
    left = {
        name: data for name, data in objects(store, prefix).items() if not name.startswith(".work/")
    }
    assert left.items() <= local.items()
    assert "corpus.json" not in left
    report = materialize(selected, out=f"s3://corpora/{prefix}", jobs=1, **OPTIONS)
    assert objects(store, prefix) == local
    assert not uploads(store)
    # The store may have finished what each sender, dead already, had sent whole.
    assert (
        0
        <= report.facts["shards_kept_from_before"] - sum(name.endswith(".tar") for name in left)
        <= jobs
    )


@pytest.mark.usefixtures("store")
def test_a_bucket_that_does_not_exist_is_a_one_line_error(selected):
    with pytest.raises(
        NbaudioError, match=r"s3://nowhere/c/\.work/identity\.json: there is no such location"
    ):
        materialize(selected, out="s3://nowhere/c", jobs=1, **OPTIONS)
    with pytest.raises(InputError, match="not a corpus"):
        verify("s3://nowhere/c")


@pytest.mark.usefixtures("store")
def test_of_two_workspaces_that_write_to_one_url_the_second_is_refused(selected, tmp_path):
    shutil.copytree(
        selected, twin := tmp_path / "twin", ignore=shutil.ignore_patterns("publishing")
    )
    address, ready = "s3://corpora/both", threading.Barrier(2)

    def materialize_or_message(workspace):
        ready.wait()
        try:
            materialize(workspace, out=address, jobs=1, engine="threading", **OPTIONS)
        except ExistsError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as pool:
        told = sorted(pool.map(materialize_or_message, (selected, twin)))
    assert told[0] == ""
    assert told[1] == "" or "is making a corpus there; wait for it" in told[1]
    assert verify(address, jobs=1, show_progress=False).problems == []


def test_create_lets_only_one_of_many_writers_make_an_object(store, tmp_path):
    ready = threading.Barrier(8)

    def create(number):
        (tmp_path / f"{number}").write_text(f"{number}")
        ready.wait()
        remote("s3://corpora/claimed/x").create(tmp_path / f"{number}")
        return store.get_object(Bucket="corpora", Key="claimed/x")["Body"].read()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(8)))) == 1
