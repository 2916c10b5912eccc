"""Corpora in object stores: the bytes of the local corpus, no partial objects, and no work done
twice."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
import stores
from conftest import encoded
from stores import Bucket
from web import serving

from nbaudio import materialize, stats, verify
from nbaudio.core.errors import AudioError, ExistsError, InputError, MissingExtraError, NbaudioError
from nbaudio.reading import open_corpus
from nbaudio.storage import folders, network
from nbaudio.ui.widgets import corpus_player

SIZE = "40kB"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.001)


@pytest.fixture
def store(tmp_path):
    stores.register(tmp_path / "store")
    (tmp_path / "store").mkdir()
    yield tmp_path / "store"
    stores.unregister()


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({f"r{i}.flac": (20.0, 16000) for i in range(2)})


def make_corpus(workspace, out, **options):
    """Materialize a corpus of small shards with one job."""
    return materialize(workspace, out=out, jobs=1, shard_size=SIZE, show_progress=False, **options)


def contents(folder):
    """All files but those that are hidden: what other programs see."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


@pytest.fixture
def local(workspace, tmp_path):
    make_corpus(workspace, tmp_path / "local")
    return contents(tmp_path / "local")


@pytest.mark.slow
@pytest.mark.parametrize("address", ["gs://bucket/a/corpus", "hdfs://bucket/a/corpus/"])
def test_corpus_in_a_store_is_the_local_one(workspace, local, store, tmp_path, address):
    report = make_corpus(workspace, address)
    assert report.facts["corpus"] == address.rstrip("/")
    assert contents(store) == {f"bucket/a/corpus/{name}": data for name, data in local.items()}
    assert len(local) > 8
    assert (Bucket.sent + stores.Cluster.sent)[-1].endswith("/corpus.json")
    assert not [path for path in (store / "bucket").rglob(".*") if path.is_file()]
    assert not list((workspace.path / "publishing").rglob("*.tar"))
    assert verify(address, jobs=1, show_progress=False).facts | {"corpus": ""} == verify(
        tmp_path / "local", jobs=1, show_progress=False
    ).facts | {"corpus": ""}
    assert stats(address).facts | {"of": ""} == stats(tmp_path / "local").facts | {"of": ""}


# Shards that are folders, and files beside shards; the others are one file a shard, as the default.
@pytest.mark.slow
@pytest.mark.parametrize("container", ["files", "lhotse"])
def test_every_container_can_be_written_to_a_store(workspace, store, tmp_path, container):
    make_corpus(workspace, tmp_path / "local", container=container)
    make_corpus(workspace, "gs://bucket/corpus", container=container)
    local = contents(tmp_path / "local")
    assert contents(store / "bucket/corpus") == local
    assert verify("gs://bucket/corpus", jobs=1, show_progress=False).problems == []
    # One shard, or one clip of it, is lost and another file is added.
    shards = json.loads(local["corpus.json"])["shards"]
    shard = store / "bucket/corpus" / shards[0]["name"]
    if shard.is_dir():
        next(shard.iterdir()).unlink()
        (shard / "more.flac").write_bytes(b"x")
    else:
        shard.unlink()
    assert (
        len(verify("gs://bucket/corpus", jobs=1, show_progress=False).problems)
        == 1 + shard.is_dir()
    )
    assert (
        make_corpus(workspace, "gs://bucket/corpus", container=container).facts[
            "shards_kept_from_before"
        ]
        == len(shards) - 1
    )
    assert contents(store / "bucket/corpus") == local
    assert not [
        path for path in (workspace.path / "publishing").rglob("new/**/*") if path.is_file()
    ]


@pytest.mark.slow
def test_a_corpus_can_be_written_to_a_memory_filesystem(workspace, local):
    fs = fsspec.filesystem("memory")
    make_corpus(workspace, "memory://place/corpus")
    assert {
        name.removeprefix("/place/corpus/"): fs.cat_file(name) for name in fs.find("/place/corpus")
    } == local
    fs.rm("/place", recursive=True)


@pytest.mark.slow
def test_clips_are_read_back_by_ranges(workspace, local, store, tmp_path):
    make_corpus(workspace, "gs://bucket/corpus")
    ids = open_corpus(tmp_path / "local").segments["segment_id"].to_list()[::-1]
    Bucket.fetched.clear()
    assert encoded("gs://bucket/corpus", ids[:3]) == encoded(tmp_path / "local", ids[:3])
    assert open_corpus("gs://bucket/corpus").shards.equals(open_corpus(tmp_path / "local").shards)
    assert len(corpus_player("gs://bucket/corpus", ids[:2]).clips.clips) == 2
    with pytest.raises(InputError, match="no clip 'x'"):
        encoded("gs://bucket/corpus", ["x"])


@pytest.mark.slow
def test_corpora_on_web_servers_are_verified_and_read(workspace, local, tmp_path):
    ids = open_corpus(tmp_path / "local").segments["segment_id"].to_list()[:2]
    with serving(tmp_path / "local") as web:
        assert verify(web.url, jobs=1, show_progress=False).problems == []
        web.sent = 0
        assert encoded(web.url, ids) == encoded(tmp_path / "local", ids)
        assert web.sent < sum(map(len, local.values())) / 2


# again


@pytest.mark.slow
def test_uploaded_shards_with_a_record_are_not_sent_again(workspace, local, store):
    make_corpus(workspace, "gs://bucket/corpus")
    Bucket.sent.clear()
    Bucket.fetched.clear()
    report = make_corpus(workspace, "gs://bucket/corpus/")
    assert report.facts["shards_kept_from_before"] == report.facts["shards"]
    assert not [name for name in [*Bucket.sent, *Bucket.fetched] if name.endswith(".tar")]
    assert contents(store / "bucket/corpus") == local


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["sent", "sent and work"])
def test_without_records_uploaded_shards_are_checked_by_their_bytes(workspace, local, store, lost):
    make_corpus(workspace, "gs://bucket/corpus")
    for note in (workspace.path / "publishing").rglob("*.json"):
        note.unlink()
    if lost == "sent":
        # Unfinished, and nothing is known of it here
        (store / "bucket/corpus/corpus.json").unlink()
        with pytest.raises(ExistsError, match="not empty and not a corpus"):
            make_corpus(workspace, "gs://bucket/corpus")
        return
    Bucket.sent.clear()
    assert make_corpus(workspace, "gs://bucket/corpus").facts["shards_kept_from_before"] == sum(
        name.endswith(".tar") for name in local
    )
    assert not [name for name in Bucket.sent if name.endswith(".tar")]
    assert contents(store / "bucket/corpus") == local


@pytest.mark.slow
def test_shards_that_changed_in_the_store_are_found_and_rewritten(workspace, local, store):
    make_corpus(workspace, "gs://bucket/corpus")
    shards = sorted((store / "bucket/corpus/train").iterdir())
    data = bytearray(shards[0].read_bytes())
    data[len(data) // 2] ^= 1
    shards[0].write_bytes(data)
    shards[1].unlink()
    (store / "bucket/corpus/train/train-00099-of-00100.tar").write_bytes(b"x")
    problems = "\n".join(verify("gs://bucket/corpus", jobs=1, show_progress=False).problems)
    assert f"{shards[0].name}: its bytes are not those" in problems
    assert f"{shards[1].name}: missing" in problems
    assert "train-00099-of-00100.tar: not listed" in problems
    report = make_corpus(workspace, "gs://bucket/corpus")
    assert report.facts["shards"] - report.facts["shards_kept_from_before"] == 2
    assert contents(store / "bucket/corpus") == local


@pytest.mark.slow
def test_other_content_of_a_store_is_not_overwritten(workspace, store):
    (store / "bucket/other").mkdir(parents=True)
    (store / "bucket/other/thesis.txt").write_text("x")
    with pytest.raises(ExistsError, match="not empty and not a corpus"):
        make_corpus(workspace, "gs://bucket/other")
    make_corpus(workspace, "gs://bucket/corpus")
    with pytest.raises(ExistsError, match="encoding is flac, not wav"):
        make_corpus(workspace, "gs://bucket/corpus", encoding="wav")


# stores with a temper


@pytest.mark.slow
def test_broken_uploads_are_rewritten(workspace, local, store):
    Bucket.broken = 2
    make_corpus(workspace, "gs://bucket/corpus")
    assert Bucket.broken == 0
    assert contents(store / "bucket/corpus") == local


@pytest.mark.slow
def test_a_store_that_stays_broken_stops_the_run_and_the_next_one_continues(
    workspace, local, store
):
    def break_down(name, _original=Bucket.put_file):
        def put_file(self, lpath, rpath, **options):
            if name in rpath:
                type(self).broken = 1
            _original(self, lpath, rpath, **options)

        return put_file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bucket, "put_file", break_down("train-00002"))
        with pytest.raises(
            NbaudioError, match=r"train-00002-of-\d+\.tar: could not be written in 3 tries"
        ) as caught:
            make_corpus(workspace, "gs://bucket/corpus")
    assert "geheim" not in str(caught.value)
    assert contents(store / "bucket/corpus").items() <= local.items()
    with pytest.raises(InputError, match="an unfinished run"):
        verify("gs://bucket/corpus")
    assert make_corpus(workspace, "gs://bucket/corpus").facts["shards_kept_from_before"] > 0
    assert contents(store / "bucket/corpus") == local


def test_an_incomplete_upload_is_an_error(workspace, store, monkeypatch):
    whole = Bucket.info
    monkeypatch.setattr(
        Bucket,
        "info",
        lambda self, path, **_: whole(self, path) | ({"size": 7} if path.endswith(".tar") else {}),
    )
    with pytest.raises(NbaudioError, match=r"7 of [\d,]+ bytes are there after the upload"):
        make_corpus(workspace, "gs://bucket/corpus")


@pytest.mark.slow
def test_at_most_two_shards_are_on_the_local_disk_at_once(workspace, store, monkeypatch):
    here, put = [], Bucket.put_file

    def counted(self, lpath, rpath, **options):
        here.append(len(list((workspace.path / "publishing").rglob("*.tar"))))
        put(self, lpath, rpath, **options)

    monkeypatch.setattr(Bucket, "put_file", counted)
    materialize(
        workspace,
        out="gs://bucket/corpus",
        jobs=2,
        engine="threading",
        shard_size=SIZE,
        show_progress=False,
    )
    assert len(here) > 8
    assert max(here) <= 2


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("https://host/corpus", InputError, "cannot be written; give a folder"),
        ("zip://::https://host/a.zip", InputError, "cannot be written; give a folder"),
        ("gs://", InputError, "cannot be written; give a folder"),
        ("s3://key:geheim@bucket/a", InputError, "must not contain a user or password"),
        ("ftp://host/a", InputError, "scheme 'ftp' is unknown"),
        ("s3://bucket/a", MissingExtraError, r"nbaudio\[s3\]"),
        ("abfs://container@account.dfs.core.windows.net/a", MissingExtraError, r"nbaudio\[azure\]"),
    ],
)
def test_a_url_that_cannot_be_written_is_refused_without_secrets(
    workspace, monkeypatch, address, error, said
):
    for package in ("s3fs", "adlfs"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(sys.modules["fsspec.registry"], "_registry", {})
    with pytest.raises(error, match=said) as caught:
        make_corpus(workspace, address)
    assert "geheim" not in str(caught.value)


def test_a_url_without_a_corpus_differs_from_one_without_permission(store, monkeypatch):
    for look in (verify, stats, open_corpus):
        with pytest.raises(InputError, match="corpus"):
            look("gs://bucket/nothing")

    def refuse(*_, **__):
        raise PermissionError("key geheim is not allowed")

    monkeypatch.setattr(Bucket, "info", refuse)
    with pytest.raises(
        (InputError, AudioError), match="may not be read with the credentials"
    ) as caught:
        verify("gs://bucket/corpus")
    assert "geheim" not in str(caught.value)


def test_names_in_a_remote_folder_never_point_outside(store, tmp_path):
    (store / "secret").write_bytes(b"x")
    (store / "bucket").mkdir()
    for folder in (folders.folder_at("gs://bucket"), folders.folder_at(store / "bucket")):
        with pytest.raises(InputError, match="points outside"), folder.local("../secret"):
            pass
        with pytest.raises(InputError, match="points outside"):
            folder.read("../secret", 0, 1)


# killed

RUN = (
    "import sys; sys.path.append(sys.argv[1]); import stores; "
    "stores.register(sys.argv[2], deadly=(sys.argv[3], sys.argv[4]))\n"
    "from nbaudio import materialize; materialize(sys.argv[5], out=sys.argv[6], jobs=1, "
    "shard_size='40kB')"
)


@pytest.mark.parametrize(
    ("scheme", "death"),
    [
        ("gs", ("train-00003", "done")),  # it is there, and nobody has noted it
        pytest.param("gs", ("corpus.json", "half"), marks=pytest.mark.slow),
        pytest.param("hdfs", ("train-00003", "half"), marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_killed_run_leaves_complete_files_and_is_finished_by_another(
    workspace, local, store, scheme, death
):
    corpus = store / "bucket/corpus"
    arguments = [Path(__file__).parent, store, *death, workspace.path, f"{scheme}://bucket/corpus"]
    run = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], stderr=subprocess.DEVNULL, check=False
    )
    assert run.returncode == -signal.SIGKILL
    left = contents(corpus)
    assert left.items() <= local.items()
    assert "corpus.json" not in left
    shards = sum(name.endswith(".tar") for name in left)
    assert shards > 0

    report = make_corpus(workspace, f"{scheme}://bucket/corpus")
    assert contents(corpus) == local
    assert report.facts["shards_kept_from_before"] == shards
    assert not list(store.rglob("*.partial"))
    assert not list((workspace.path / "publishing").rglob("*.tar"))
