"""Recordings in an object store: moto's S3 server on this machine, asked through s3fs as any other."""

import json
import shutil
from pathlib import Path

import boto3
import numpy as np
import pytest
import soundfile as sf
from moto.server import ThreadedMotoServer

from nbaudio import ingest, materialize, select
from nbaudio.audio import read_clip
from nbaudio.cache import Cache
from nbaudio.places import remote


@pytest.fixture(scope="module")
def store():
    """A client of an S3 server with the bucket ``recordings``; where it is and who asks stand in the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket="recordings")
        yield client
        client.close()
    server.stop()


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
        {"file": name, "start": start, "end": start + 2.25, "words": ["dobar", "dan"], "asr": ["dobar", "dan"]}
        for name in names
        for start in (0.5, 3.1, 6.7, 9.2)
    ]
    (tmp_path / "asr.json").write_text("\n".join(map(json.dumps, said)))
    return tmp_path


def upload(store, folder: Path, prefix: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            store.upload_file(str(path), "recordings", f"{prefix}/{path.relative_to(folder).as_posix()}")


def corpus_of(archive, out, audio, *, jobs):
    """The bytes of all files of a corpus by name, and what could not be cut."""
    assert not ingest("parlaspeech", archive / "asr.json", audio=audio, out=out / "w").problems
    select(out / "w", dev=2, test=2, group_by=())
    shutil.rmtree(out / "w/fetched", ignore_errors=True)
    report = materialize(out / "w", out=out / "c", jobs=jobs, show_progress=False)
    return contents(out / "c"), report.problems


def contents(corpus: Path) -> dict[str, bytes]:
    return {path.relative_to(corpus).as_posix(): path.read_bytes() for path in corpus.rglob("*") if path.is_file()}


@pytest.mark.parametrize("jobs", [1, 2])
def test_corpus_from_a_bucket_has_the_bytes_of_the_local_one(store, archive, jobs, tmp_path):
    upload(store, archive / "audio", "some where")
    local, _ = corpus_of(archive, tmp_path / "local", archive / "audio", jobs=1)
    made, problems = corpus_of(archive, tmp_path / "s3", "s3://recordings/some where", jobs=jobs)
    assert not problems
    assert made == local
    # Four windows of a recording of 32 MB: ranges of it, so that only the small ones are in the cache.
    held = sum(path.stat().st_size for path in (tmp_path / "s3/w/fetched").glob("*/*"))
    assert held < (archive / "audio/large [HlauTe_NK6U].wav").stat().st_size


def test_recording_that_is_replaced_after_ingest_is_refused(store, archive, tmp_path):
    upload(store, archive / "audio", "changing")
    ingest("parlaspeech", archive / "asr.json", audio="s3://recordings/changing", out=tmp_path / "w")
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
        assert np.array_equal(read_clip(place, start, start + 5000, num_samples=44100 * 180), wanted)
    assert not (tmp_path / "cache").exists()
