"""Remote sources: the same workspaces as from a local folder, for every layout."""

import shutil

import polars as pl
import pytest
import stores
from specimens import LAYOUTS, format_of, librispeech, librispeech_archive, librispeech_tree
from stores import Bucket
from web import serving

from nbaudio import ingest, materialize, select
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.storage import network
from nbaudio.tables.workspace import Workspace


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.001)


@pytest.fixture
def store(tmp_path):
    stores.register(tmp_path / "store")
    yield tmp_path / "store"
    stores.unregister()


def segments(out):
    return Workspace.open(out).segments


# Manifests that name recordings by paths of their own; those are looked for where --audio says.
NAMED_BY_PATH = ("nemo", "lhotse", "table")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_every_layout_can_be_in_a_store(store, tmp_path, name):
    made = LAYOUTS[name](tmp_path / "source")
    local = ingest(
        format_of(name),
        made.source,
        audio=made.audio,
        out=tmp_path / "local",
        jobs=1,
        options=made.options,
    )
    shutil.copytree(made.source.parent, store / "bucket")
    address = f"gs://bucket/{made.source.name}"
    audio = made.audio or ("gs://bucket" if format_of(name) in NAMED_BY_PATH else None)
    report = ingest(
        format_of(name), address, audio=audio, out=tmp_path / "W", jobs=1, options=made.options
    )
    assert segments(tmp_path / "W").equals(segments(tmp_path / "local"))
    assert report.facts["hours"] == local.facts["hours"] > 0
    assert Workspace.open(tmp_path / "W").settings["source"] == address
    fetched = [path for path in (tmp_path / "W/source").rglob("*") if path.is_file()]
    assert not [path for path in fetched if path.suffix in (".wav", ".flac", ".mp3")]


def test_a_single_transcript_file_is_read_by_http(tmp_path):
    made = LAYOUTS["parlaspeech"](tmp_path / "www")
    ingest("parlaspeech", made.source, audio=made.audio, out=tmp_path / "local")
    with serving(tmp_path / "www") as web:
        web.busy[made.source.name] = 2
        address = f"{web.url}/{made.source.relative_to(tmp_path / 'www').as_posix()}"
        report = ingest("parlaspeech", address, audio=made.audio, out=tmp_path / "W")
        assert segments(tmp_path / "W").equals(segments(tmp_path / "local"))
        assert any(problem.startswith(made.source.name) for problem in report.problems)
        # Again: nothing has changed, so nothing is fetched.
        web.sent = 0
        ingest("parlaspeech", address, audio=made.audio, out=tmp_path / "W")
        assert web.sent == 0
        made.source.write_text(made.source.read_text() + "\n{")
        ingest("parlaspeech", address, audio=made.audio, out=tmp_path / "W")
        assert web.sent == made.source.stat().st_size
        with pytest.raises(ExistsError, match="is the workspace of http://"):
            ingest("parlaspeech", made.source, audio=made.audio, out=tmp_path / "W")


def test_folders_on_the_web_are_recognized_by_their_page(tmp_path):
    made = LAYOUTS["textgrid"](tmp_path / "www")
    ingest("textgrid", made.source, out=tmp_path / "local", options=made.options)
    with serving(tmp_path / "www") as web:
        ingest(
            "textgrid", f"{web.url}/{made.source.name}/", out=tmp_path / "W", options=made.options
        )
    assert segments(tmp_path / "W").equals(segments(tmp_path / "local"))


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["LibriSpeech", "", "LibriSpeech/dev-clean"])
def test_librispeech_in_a_bucket_gives_the_corpus_of_its_folder(store, tmp_path, inside):
    source = librispeech(tmp_path / "source").source.parent
    shutil.copytree(source, store / "bucket/top")

    def corpus(address, out):
        first = ingest("librispeech", address, out=out / "W", jobs=2)
        select(out / "W", dev=0, test=0, group_by=())
        materialize(out / "W", out=out / "C", jobs=1, show_progress=False)
        return first.problems, {
            path.name: path.read_bytes() for path in (out / "C").rglob("*") if path.is_file()
        }

    problems, made = corpus(f"gs://bucket/top/{inside}", tmp_path / "bucket")
    wanted_problems, wanted = corpus(source / inside, tmp_path / "folder")
    assert sorted(problems) == sorted(wanted_problems)
    assert made == wanted
    assert not (tmp_path / "bucket/W/source").exists()


def test_a_librispeech_archive_is_read_by_http(tmp_path):
    archive = librispeech_archive(tmp_path / "www")
    ingest("librispeech", archive, out=tmp_path / "local")
    with serving(tmp_path / "www") as web:
        ingest("librispeech", f"{web.url}/{archive.name}", out=tmp_path / "W")
    assert segments(tmp_path / "W").equals(segments(tmp_path / "local"))
    select(tmp_path / "W", dev=0, test=0, group_by=())
    assert (
        materialize(tmp_path / "W", out=tmp_path / "C", jobs=1, show_progress=False).facts["kept"]
        == 3
    )


def test_a_store_is_listed_folder_by_folder_and_only_texts_are_fetched(store, tmp_path):
    librispeech_tree(
        store / "bucket/L/dev", {f"{speaker}-1-0000": "HELLO" for speaker in range(3)}, seconds=0.2
    )
    listed = []
    find = Bucket.find

    def noted(self, path, **options):
        listed.append(path)
        return find(self, path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bucket, "find", noted)
        assert ingest("librispeech", "gs://bucket/L", out=tmp_path / "W").facts["segments"] == 3
    # Never the whole, whose facts on every file would be in memory at once.
    assert {path.strip("/") for path in listed} == {
        f"bucket/L/dev/{speaker}" for speaker in range(3)
    }


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("gs://bucket/nothing.json", "there is no such file"),
        ("gs://", "names neither a file nor a folder"),
        ("https://me:geheim@host/asr.json", "must not contain a user or password"),
        ("https://host/asr.json?sig=geheim", "queries are refused"),
        ("ftp://host/asr.json", "scheme 'ftp' is unknown"),
    ],
)
def test_unusable_remote_sources_leave_no_workspace(store, tmp_path, source, said):
    with pytest.raises(InputError, match=said) as caught:
        ingest("parlaspeech", source, out=tmp_path / "W")
    assert "geheim" not in str(caught.value)
    assert not (tmp_path / "W").exists()


def test_an_unusable_remote_source_is_named_in_the_error(store, tmp_path):
    (store / "bucket").mkdir(parents=True)
    (store / "bucket/asr.json").write_text("[]\n" * 3)
    with pytest.raises(InputError, match=r"asr\.json: no ParlaSpeech transcripts"):
        ingest("parlaspeech", "gs://bucket/asr.json", out=tmp_path / "W")
    (store / "bucket/asr.json").write_text(
        '{"file": "a.wav", "start": 0, "end": 1, "words": ["da"]}'
    )
    assert ingest("parlaspeech", "gs://bucket/asr.json", out=tmp_path / "W").facts["segments"] == 1
    assert pl.read_parquet(tmp_path / "W/segments.parquet")["text"].to_list() == ["da"]
