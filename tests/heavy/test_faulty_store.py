"""Corpora in an object store that answers a quarter of requests with errors and breaks a third
of large bodies."""

import os
import subprocess
import sys

import boto3
import pytest
from faults import contents
from faulty_store import Faults, faulty_proxy
from s3_server import s3_server

from nbaudio import materialize

CALLS = 3  # of the command, at most
OPTIONS = ("--shard-size", "300kB", "--jobs", "2")


@pytest.fixture
def server():
    """An S3 server with the bucket ``corpora``; its host and port."""
    with s3_server("corpora") as url:
        yield url.removeprefix("http://")


@pytest.fixture
def workspace(make_workspace):
    return make_workspace(
        {f"r{i}.flac": (60.0, 48000) for i in range(5)}, every=1.9, length=1.5
    ).path


def client_of(server):
    return boto3.client("s3", endpoint_url=f"http://{server}")


def objects(server, prefix):
    """All objects below a prefix, but for those of a run's work, and their bytes."""
    client = client_of(server)
    listed = client.list_objects_v2(Bucket="corpora", Prefix=f"{prefix}/").get("Contents", [])
    names = [entry["Key"].removeprefix(f"{prefix}/") for entry in listed]
    return {
        name: client.get_object(Bucket="corpora", Key=f"{prefix}/{name}")["Body"].read()
        for name in names
        if not name.startswith(".work/")
    }


def nbaudio(url, *arguments):
    """Call the command line with a store; return the exit code and what it printed."""
    called = subprocess.run(
        [sys.executable, "-m", "nbaudio", *arguments],
        env=os.environ | {"AWS_ENDPOINT_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    return called.returncode, called.stdout + called.stderr


def called_until_it_ends(url, *arguments):
    """Call the command line again after errors, at most three times."""
    for _ in range(CALLS):
        code, printed = nbaudio(url, *arguments)
        if code == 0:
            return
    raise AssertionError(printed[-3000:])


def test_a_faulty_store_has_a_complete_corpus_after_three_calls(server, workspace, tmp_path):
    materialize(workspace, out=tmp_path / "local", jobs=2, shard_size="300kB", show_progress=False)
    local = {
        name: (tmp_path / "local" / name).read_bytes() for name in contents(tmp_path / "local")
    }
    assert len([name for name in local if name.endswith(".tar")]) > 5
    faults = Faults(1)
    with faulty_proxy(server, faults) as url:
        called_until_it_ends(url, "materialize", workspace, "--out", "s3://corpora/c", *OPTIONS)
        assert faults.counts["error"] > 10
        assert faults.counts["cut upload"] > 0
        assert objects(server, "c") == local
        called_until_it_ends(url, "verify", "s3://corpora/c", "--jobs", "2")
        assert faults.counts["cut download"] > 0


def test_a_shard_of_several_parts_is_complete_after_three_calls(server, make_workspace, tmp_path):
    workspace = make_workspace(
        {f"r{i}.flac": (240.0, 48000) for i in range(4)}, every=3.0, length=2.9
    ).path
    options = ("--encoding", "wav", "--rate", "48000", "--jobs", "2")
    materialize(
        workspace,
        out=tmp_path / "local",
        encoding="wav",
        rate=48000,
        jobs=2,
        show_progress=False,
    )
    shards = {
        name: (tmp_path / "local" / name).read_bytes()
        for name in contents(tmp_path / "local")
        if name.endswith(".tar")
    }
    assert max(map(len, shards.values())) > 40_000_000
    faults = Faults(3)
    with faulty_proxy(server, faults) as url:
        called_until_it_ends(url, "materialize", workspace, "--out", "s3://corpora/parts", *options)
    parts = [request for request in faults.requests if request.startswith("PUT")]
    largest = max(shards, key=lambda name: len(shards[name]))
    uploads = sum(faults.requests[request] for request in parts if request.endswith(largest))
    assert uploads > 2  # a part each
    made = objects(server, "parts")
    assert {name: made[name] for name in shards} == shards
    listed = client_of(server).list_multipart_uploads(Bucket="corpora")
    assert "Uploads" not in listed  # nothing that costs money is left
