"""Publication on the Hugging Face Hub, on a stand-in of it: what is sent, in which order, what
stops it, and reading it back."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import types
from pathlib import Path

import hub as stand_in
import numpy as np
import polars as pl
import pytest
from conftest import encoded
from hub import NAME, SIGNATURE, TOKEN, URL, Dataset, serving_hub

from nbaudio import audit, materialize, publish, verify
from nbaudio.core.errors import ExistsError, InputError, MissingExtraError, NbaudioError
from nbaudio.reading import open_corpus
from nbaudio.storage import network
from nbaudio.storage.location import location

# As huggingface_hub uploads.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")

CONSENT = "signed consent forms of all speakers"
publishing = sys.modules[publish.__module__]


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The stand-in, where huggingface_hub looks for the Hub, and a token where it looks for one."""
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.utils import _http

    with serving_hub() as served:
        # HF_ENDPOINT when the library is imported
        for name in (
            "HUGGINGFACE_CO_URL_TEMPLATE",
            "ENDPOINT",
        ):
            monkeypatch.setattr(
                constants, name, getattr(constants, name).replace(constants.ENDPOINT, served.url)
            )
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(_http, "time", types.SimpleNamespace(sleep=lambda _: None))
        monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.001)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served
        huggingface_hub.close_session()


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"a.flac": (20.0, 16000), "b.wav": (17.0, 8000)}, channels=1)


def make_corpus(workspace, out, **options):
    """Materialize a corpus with a license and a language; return its folder."""
    wanted = {"license": "cc-by-4.0", "language": "hr", "shard_size": "40kB"} | options
    materialize(workspace, out=out, jobs=1, show_progress=False, **wanted)
    return out


@pytest.fixture(scope="module")
def corpus_made_once(tmp_path_factory):
    return tmp_path_factory.mktemp("publish") / "corpus"


@pytest.fixture
def corpus(corpus_made_once, request, tmp_path):
    if not corpus_made_once.exists():
        make_corpus(request.getfixturevalue("workspace"), corpus_made_once)
    return Path(shutil.copytree(corpus_made_once, tmp_path / "corpus"))


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".work" not in path.parts
    }


def put(corpus, **options):
    return publish(corpus, URL, **{"consent": CONSENT, "show_progress": False} | options)


def published(hub):
    files = hub.datasets[NAME].files
    return {name: data for name, data in files.items() if name != ".gitattributes"}


def has_listed_files(files):
    """Whether a commit with a corpus.json has the files that it lists."""
    if "corpus.json" not in files:
        return True
    info = json.loads(files["corpus.json"][1])
    listed = info["tables"] | {shard["name"]: shard["sha256"] for shard in info["shards"]}
    return all(
        name in files and hashlib.sha256(files[name][1]).hexdigest() == sha256
        for name, sha256 in listed.items()
    )


@pytest.mark.slow
def test_a_published_corpus_is_the_local_one(hub, corpus):
    (corpus / "notes.txt").write_text("not of the corpus")
    (corpus / ".work").mkdir(exist_ok=True)
    (corpus / ".work/log.jsonl").write_text("{}")
    report = put(corpus)
    wanted = {name: data for name, data in contents(corpus).items() if name != "notes.txt"}
    assert published(hub) == wanted
    assert report.problems == report.warnings == []
    assert report.facts["files_uploaded"] == len(wanted)
    assert report.facts["bytes"] == sum(map(len, wanted.values()))
    assert report.facts["commit"] == hub.datasets[NAME].commits[-1][0]
    assert hub.descriptions == [f"License: cc-by-4.0\nConsent: {CONSENT}"] * 2
    checked = verify(URL, jobs=1, show_progress=False)
    assert checked.problems == checked.warnings == []
    assert checked.facts | {"corpus": ""} == verify(corpus, jobs=1, show_progress=False).facts | {
        "corpus": ""
    }
    assert hub.leaked == []
    here, there = open_corpus(corpus), open_corpus(URL)
    for one, other in zip(here.stream("train", seed=3), there.stream("train", seed=3), strict=True):
        assert one.segment_id == other.segment_id
        assert np.array_equal(one.samples, other.samples)


def test_the_shards_of_a_first_version_come_before_corpus_json(hub, corpus, monkeypatch):
    monkeypatch.setattr(publishing, "_COMMIT_FILES", 2)
    put(corpus)
    commits = [files for _, files in hub.datasets[NAME].commits]
    shards = len(json.loads((corpus / "corpus.json").read_text())["shards"])
    assert len(commits) == 1 + -(-shards // 2) + 1 > 4
    assert ["corpus.json" in files for files in commits] == [False] * (len(commits) - 1) + [True]
    assert [name for name in commits[-2] if "/" not in name] == [".gitattributes"]


def test_a_second_publication_sends_nothing(hub, corpus, monkeypatch):
    put(corpus)
    asked, commits = hub.asked.copy(), len(hub.datasets[NAME].commits)
    # Shards are compared by the hashes of corpus.json: none is read.
    monkeypatch.setattr("nbaudio.storage.hub.sha256_file", None)
    report = put(corpus)
    assert (
        report.facts["files_uploaded"]
        == report.facts["files_removed"]
        == report.facts["bytes"]
        == 0
    )
    assert report.facts["files_unchanged"] == len(published(hub))
    assert len(hub.datasets[NAME].commits) == commits
    parts = ("create", "preupload", "batch", "put", "commit")
    assert [hub.asked[part] for part in parts] == [asked[part] for part in parts]


@pytest.mark.slow
def test_a_changed_corpus_replaces_files_in_one_commit(hub, workspace, corpus, tmp_path):
    put(corpus)
    before, sent = published(hub), set(hub.received)
    segments = workspace.segments
    workspace.save(segments=segments.with_columns(split=segments["split"].replace({"dev": "test"})))
    other = make_corpus(workspace, tmp_path / "other", shard_size="60kB")
    report = put(other)
    assert published(hub) == contents(other)
    new, old = contents(other), before
    changed = {name for name in new if new[name] != old.get(name)}
    assert report.facts["files_uploaded"] == len(changed) < len(new)
    assert report.facts["files_removed"] == len(old.keys() - new.keys()) > 0
    assert {hashlib.sha256(old[name]).hexdigest() for name in old} & (
        set(hub.received) - sent
    ) == set()
    # Each object once.
    assert set(hub.received.values()) <= {len(data) for data in (*new.values(), *old.values())}
    assert len(hub.datasets[NAME].commits) == 4
    assert [has_listed_files(files) for _, files in hub.datasets[NAME].commits] == [True] * 4
    assert verify(URL, jobs=1, show_progress=False).problems == []
    # The earlier version stays where it was.
    first = f"{URL}@{hub.datasets[NAME].commits[-2][0]}"
    assert verify(first, jobs=1, show_progress=False).problems == []
    assert open_corpus(first).segments.equals(open_corpus(corpus).segments)


@pytest.mark.slow
@pytest.mark.parametrize("container", ["files", "parquet", "lhotse"])
def test_other_containers_are_published_and_read(hub, workspace, tmp_path, container):
    corpus = make_corpus(workspace, tmp_path / "corpus", container=container)
    put(corpus)
    assert published(hub) == contents(corpus)
    assert verify(URL, jobs=1, show_progress=False).problems == []
    ids = open_corpus(corpus).segments["segment_id"].to_list()[1::2]
    assert encoded(URL, ids) == encoded(corpus, ids)
    received = hub.received.copy()
    assert put(corpus).facts["files_uploaded"] == 0
    assert hub.received == received


def test_clips_are_read_by_ranges(hub, corpus):
    put(corpus)
    there = open_corpus(URL)
    rows = open_corpus(corpus).segments
    ids = rows["segment_id"].to_list()[:2]
    hub.ranges.clear()
    asked = hub.asked.copy()
    assert [clip.encoded for clip in there.read_many(ids, give="encoded")] == encoded(corpus, ids)
    wanted = [
        f"bytes={offset}-{offset + length - 1}"
        for offset, length in rows.select("offset", "length").rows()[:2]
    ]
    assert sorted(hub.ranges) == sorted(wanted)
    assert hub.asked["resolve"] - asked["resolve"] == 2
    # Folders have been listed now, for all threads.
    list(there.stream("train", seed=1, threads=3))
    asked = hub.asked.copy()
    list(there.stream("train", seed=2, threads=3))
    assert {part for part in hub.asked if hub.asked[part] > asked[part]} == {"resolve", "storage"}


def test_a_new_listing_is_taken_for_each_corpus_that_is_opened(hub, workspace, corpus, tmp_path):
    put(corpus)
    assert open_corpus(URL).segments.height == open_corpus(corpus).segments.height > 5
    segments = workspace.segments
    workspace.save(
        segments=segments.with_columns(
            decision=np.where(np.arange(len(segments)) < 5, "accept", "reject")
        )
    )
    other = make_corpus(workspace, tmp_path / "other", shard_size="200kB")
    put(other)
    assert open_corpus(URL).segments.height == open_corpus(other).segments.height == 5


PUBLISH = """
import sys
import nbaudio
import nbaudio.corpus.publish
sys.modules["nbaudio.corpus.publish"]._COMMIT_FILES = 2
nbaudio.publish(sys.argv[1], "hf://datasets/ana/govor", consent="signed consent forms")
"""


def program(hub, tmp_path, **more):
    environment = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_DISABLE_XET": "1",
        "HF_TOKEN": TOKEN,
        "HF_HOME": str(tmp_path / "hf"),
    }
    return os.environ | environment | more


# After the commits of two and four shards; in the last commit.
@pytest.mark.parametrize("uploads", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 5))])
@pytest.mark.slow
def test_a_killed_publication_is_resumed(hub, corpus, tmp_path, uploads):
    hub.hold_after = uploads
    run = subprocess.Popen(
        [sys.executable, "-c", PUBLISH, corpus],
        env=program(hub, tmp_path),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert hub.held.wait(60)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    hub.hold_after = None
    sent = hub.received.copy()
    assert len(sent) >= min(uploads, 1)
    assert "corpus.json" not in hub.datasets[NAME].files
    put(corpus)
    assert published(hub) == contents(corpus)
    assert all(hub.received[oid] == sent[oid] for oid in sent)
    assert all(has_listed_files(files) for _, files in hub.datasets[NAME].commits)
    assert verify(URL, jobs=1, show_progress=False).problems == []


@pytest.mark.slow
def test_a_killed_second_publication_leaves_the_first_version(hub, workspace, corpus, tmp_path):
    put(corpus)
    before = published(hub)
    other = make_corpus(workspace, tmp_path / "other", encoding="wav", shard_size="200kB")
    hub.hold_after = hub.asked["put"] + 1
    run = subprocess.Popen(
        [sys.executable, "-c", PUBLISH, other],
        env=program(hub, tmp_path),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert hub.held.wait(60)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    hub.hold_after, sent = None, hub.received.copy()
    assert published(hub) == before
    put(other)
    assert published(hub) == contents(other)
    assert all(hub.received[oid] == sent[oid] for oid in sent)
    assert all(has_listed_files(files) for _, files in hub.datasets[NAME].commits)


@pytest.mark.parametrize(
    "part", ["create", "info", "tree", "preupload", "batch", "put", "verify", "commit", "validate"]
)
def test_uploads_to_a_busy_hub_are_retried(hub, corpus, part):
    hub.busy[part] = 2
    put(corpus)
    assert published(hub) == contents(corpus)
    assert hub.busy[part] == 0
    assert all(sent == len(hub.objects[oid]) for oid, sent in hub.received.items())


@pytest.mark.slow
@pytest.mark.parametrize("part", ["info", "tree", "resolve", "storage"])
def test_reads_from_a_busy_hub_are_retried(hub, corpus, part):
    put(corpus)
    hub.busy[part] = 2
    assert verify(URL, jobs=1, engine="threading", show_progress=False).problems == []
    assert hub.busy[part] == 0


@pytest.mark.parametrize("part", ["create", "commit"])
def test_a_lost_response_of_the_hub_does_not_repeat_the_commit(hub, corpus, part):
    hub.lost[part] = 1
    report = put(corpus)
    assert published(hub) == contents(corpus)
    assert len(hub.datasets[NAME].commits) == 3
    assert report.facts["commit"] == hub.datasets[NAME].commits[-1][0]


def test_a_commit_of_somebody_else_is_not_overwritten(hub, corpus, monkeypatch):
    put(corpus)
    (corpus / "README.md").write_text("---\nlicense: cc0-1.0\n---\nedited\n")
    dataset, serve = hub.datasets[NAME], stand_in._Handler._preupload

    def interfering(handler, **found):
        dataset.add({**dataset.commits[-1][1], "theirs.txt": ("git", b"x")})
        serve(handler, **found)

    monkeypatch.setattr(stand_in._Handler, "_preupload", interfering)
    with pytest.raises(
        NbaudioError, match="was changed meanwhile by somebody else; run the same command again"
    ):
        put(corpus)
    monkeypatch.undo()


SAID = {
    "create": (403, "may not be written with the credentials of this environment"),
    "info": (401, "may not be read with the credentials of this environment"),
    "commit": (401, "may not be written with the credentials of this environment"),
    "put": (500, "could not be written in 3 tries .the server responded with 500"),
    "preupload": (404, "there is no such location"),
    "validate": (500, "could not be written in 3 tries .the server responded with 500"),
    "batch": (413, "the server responded with 413"),
}


@pytest.mark.parametrize("part", SAID)
def test_refusals_of_the_hub_are_one_line_without_token_or_signed_url(
    hub, corpus, part, capfd, caplog
):
    hub.says[part], message = SAID[part]
    with pytest.raises(NbaudioError, match=message) as error:
        put(corpus)
    said = f"{error.value}{''.join(capfd.readouterr())}{caplog.text}"
    assert str(error.value).startswith(f"{URL}: ")
    assert "\n" not in str(error.value)
    assert TOKEN not in said
    assert SIGNATURE not in said
    assert part != "put" or "/storage/" in said  # the library logged that URL


@pytest.mark.slow
def test_publish_stops_at_the_timeout_of_a_silent_hub(hub, corpus, monkeypatch):
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.25")
    monkeypatch.setenv("NBAUDIO_TRIES", "1")
    hub.hangs = {"commit"}
    with pytest.raises(NbaudioError, match=r"could not be written in 1 tries \(timed out"):
        put(corpus)


@pytest.mark.slow
def test_reading_from_a_silent_hub_ends_in_bounded_time(hub, corpus, monkeypatch):
    put(corpus)
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.3")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.06)
    for part in ("resolve", "tree"):
        hub.hangs, asked = {part}, hub.asked[part]
        with pytest.raises(
            NbaudioError, match=r"vocab.json: could not be read in 1 tries \(timed out"
        ):
            location(f"{URL}/vocab.json").read(1, 5)
        assert hub.asked[part] - asked == 6  # the library's own tries


def test_folders_on_the_hub_are_listed_as_those_of_other_stores(hub, corpus):
    put(corpus)
    there, here = location(URL), location(corpus)
    for folder in (there, there / "train", there / "nothing"):
        assert [name for name in folder.files() if name != ".gitattributes"] == [
            path.relative_to(corpus / folder.path).as_posix()
            for path in sorted((corpus / folder.path).rglob("*"))
            if path.is_file()
        ]
    assert [place.listing(lambda name: name.endswith(".tar"))[1] for place in (there, here)] == [
        [],
        [],
    ]
    names = [list(place.listing(lambda name: name.endswith(".tar"))[0]) for place in (there, here)]
    assert names[0] == names[1] != []
    assert [(there / name).is_folder() for name in ("", "dev", "corpus.json")] == [
        True,
        True,
        False,
    ]
    versions = {(there / name).status().version for name in names[0]}
    assert len(versions) == len(names[0])


def test_wrong_and_missing_tokens_are_refused_with_the_reason(hub, corpus, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", "hf_falsch")
    with pytest.raises(
        NbaudioError, match=r"may not be read with the credentials of this environment \(HF_TOKEN"
    ) as error:
        put(corpus)
    assert "falsch" not in str(error.value)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(NbaudioError, match="may not be read with the credentials"):
        put(corpus)
    (tmp_path / "none").write_text(TOKEN)  # as 'hf auth login' leaves it
    put(corpus, private=True)
    (tmp_path / "none").unlink()
    with pytest.raises(NbaudioError, match="may not be read with the credentials"):
        open_corpus(URL)


@pytest.mark.slow
def test_the_token_is_not_in_the_output_of_publish(hub, corpus, tmp_path):
    command = [sys.executable, "-m", "nbaudio", "publish", corpus, URL, "--consent", CONSENT]
    hub.busy["put"] = 1
    run = subprocess.run(
        [*command, "--json"],
        env=program(hub, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["facts"]["consent"] == CONSENT
    assert TOKEN not in run.stdout + run.stderr
    assert SIGNATURE not in run.stdout + run.stderr
    assert hub.leaked == []
    held = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and TOKEN.encode() in path.read_bytes()
    ]
    assert held == []
    assert TOKEN not in "".join(hub.descriptions)
    hub.says["commit"] = 403
    (corpus / "README.md").write_text("---\n---\n")
    run = subprocess.run(
        command, env=program(hub, tmp_path), capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].startswith(
        f"nbaudio: {URL}: may not be written with the credentials"
    )
    assert TOKEN not in run.stdout + run.stderr


def test_private_datasets_are_created_private_and_public_ones_refused(hub, corpus):
    report = put(corpus, private=True)
    assert hub.created == [
        {"name": "govor", "organization": "ana", "visibility": "private", "type": "dataset"}
    ]
    assert report.facts["private"] is True
    assert put(corpus).facts["private"] is True
    hub.datasets[NAME].private = False
    with pytest.raises(ExistsError, match="is public, not --private"):
        put(corpus, private=True)


def test_the_card_arrives_unchanged(hub, corpus):
    header = (
        "---\nlicense: other\nconfigs:\n- config_name: default\n  data_files: "
        "['train/*.tar']\n---\n# Edited č\n"
    )
    (corpus / "README.md").write_bytes(header.encode())
    put(corpus)
    assert hub.datasets[NAME].files["README.md"] == header.encode()
    hub.says["resolve"] = 500  # equal cards are not compared
    hub.says.clear()
    dataset = hub.datasets[NAME]
    dataset.add({**dataset.commits[-1][1], "README.md": ("git", b"edited on the site")})
    assert put(corpus).warnings == [
        "README.md of the dataset is not the card of its corpus: the new corpus's card replaces it"
    ]
    assert hub.datasets[NAME].files["README.md"] == header.encode()
    (corpus / "README.md").write_text("no header")
    with pytest.raises(NbaudioError, match=r"Invalid metadata in README.md. - no header"):
        put(corpus)


def damage_size(corpus):
    shard = next(corpus.glob("train/*.tar"))
    shard.write_bytes(shard.read_bytes()[:-512])


def damage_bytes(corpus):
    shard = next(corpus.glob("train/*.tar"))
    shard.write_bytes(bytes(shard.stat().st_size))


def link_out(corpus):
    card = corpus / "README.md"
    card.replace(corpus.parent / "card")
    card.symlink_to(corpus.parent / "card")


def name_outside(corpus):
    info = json.loads((corpus / "corpus.json").read_text())
    info["tables"]["../secret"] = "0" * 64
    (corpus.parent / "secret").write_text("x")
    (corpus / "corpus.json").write_text(json.dumps(info))


SPOILED = {
    "not a corpus": (
        lambda corpus: (corpus / "corpus.json").unlink(),
        "cannot be published .no corpus.json: not a corpus",
    ),
    "unfinished": (
        lambda corpus: (
            (corpus / ".work").mkdir(exist_ok=True),
            (corpus / ".work/identity.json").write_text("{}"),
        ),
        "cannot be published .an unfinished run: call materialize again",
    ),
    "other size": (damage_size, "bytes instead of .*; run 'nbaudio verify"),
    "other bytes": (
        damage_bytes,
        "its bytes are not those that were written; run 'nbaudio verify'",
    ),
    "no card": (lambda corpus: (corpus / "README.md").unlink(), "README.md: missing"),
    "link": (link_out, "README.md: a link that points outside the corpus"),
    "name": (name_outside, "../secret: points outside the folder"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_damaged_corpora_are_not_published(hub, corpus, name):
    spoil, message = SPOILED[name]
    spoil(corpus)
    with pytest.raises(InputError, match=message):
        put(corpus)
    assert hub.received.keys() == set()


@pytest.mark.slow
def test_license_and_consent_are_needed(hub, workspace, corpus, tmp_path):
    unlicensed = make_corpus(workspace, tmp_path / "unlicensed", license=None)
    with pytest.raises(
        InputError,
        match=r"unlicensed/corpus.json: has no license; run materialize again with --license",
    ):
        put(unlicensed)
    for consent in (None, " "):
        with pytest.raises(
            InputError,
            match="personal data; state on which basis they may be published with --consent",
        ):
            put(corpus, consent=consent, private=True)
    assert hub.asked.total() == 0
    # The remedy of the first message works, and no clip is cut again.
    make_corpus(workspace, unlicensed)
    put(unlicensed)
    assert published(hub) == contents(corpus)


def test_a_dry_run_changes_nothing(hub, workspace, corpus, tmp_path, monkeypatch):
    unlicensed = make_corpus(workspace, tmp_path / "unlicensed", license=None)
    report = put(unlicensed, dry_run=True, consent=None)
    assert hub.datasets == {}
    assert {row["file"]: row["bytes"] for row in report.facts["uploads"]} == {
        n: len(d) for n, d in contents(unlicensed).items()
    }
    assert [note.partition("; ")[0].rpartition(": ")[2] for note in report.warnings] == [
        "has no license",
        "recordings of people are personal data",
        "it is created",
    ]
    put(corpus)
    commits, asked = len(hub.datasets[NAME].commits), hub.asked.copy()
    (corpus / "README.md").write_text("---\n---\n")
    report = put(corpus, dry_run=True)
    assert report.facts["uploads"] == [{"file": "README.md", "bytes": 8}]
    assert report.facts["removals"] == []
    assert len(hub.datasets[NAME].commits) == commits
    assert {part for part in hub.asked if hub.asked[part] > asked[part]} == {
        "info",
        "tree",
        "resolve",
    }
    hub.says["info"] = 500
    report = put(corpus, dry_run=True)
    assert len(report.facts["uploads"]) == len(contents(corpus))
    assert "what the dataset holds is unknown" in report.warnings[0]


def test_a_dataset_with_other_files_is_not_overwritten(hub, corpus):
    hub.datasets[NAME] = dataset = stand_in.Dataset()
    dataset.add({"README.md": ("git", b"---\n---\n"), "data/train.csv": ("git", b"a,b")})
    with pytest.raises(
        ExistsError,
        match=r"holds other files than a corpus .data/train.csv.; publish into a new dataset",
    ):
        put(corpus)
    assert len(dataset.commits) == 1
    # Beside a corpus they stay.
    hub.datasets[NAME] = dataset = stand_in.Dataset()
    dataset.add({"README.md": ("git", b"---\n---\n")})
    put(corpus)
    dataset.add(
        {
            **dataset.commits[-1][1],
            "img/a.png": ("git", b"x"),
            "train/train-00007-of-00099.tar": ("lfs", b"stray"),
        }
    )
    assert put(corpus).facts["files_removed"] == 1
    assert published(hub) == contents(corpus) | {"img/a.png": b"x"}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hf://ana/govor", "expected hf://datasets/OWNER/NAME"),
        ("hf://datasets/govor", "expected hf://datasets/OWNER/NAME"),
        (f"{URL}@main", "without a revision or folder"),
        (f"{URL}/folder", "without a revision or folder"),
        ("s3://bucket/corpus", "expected hf://datasets/OWNER/NAME"),
        ("hf://datasets/ana/govor?token=geheim", "expected hf://"),
    ],
)
def test_invalid_dataset_urls_are_refused(corpus, url, message):
    with pytest.raises(InputError, match=message) as error:
        publish(corpus, url, consent=CONSENT)
    assert "geheim" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "hf://ana/govor",
        "hf://datasets/govor",
        "hf://spaces/a/b",
        "hf://datasets/a/b?x=geheim",
        "hf://x:geheim@y/z",
    ],
)
def test_urls_of_other_things_on_the_hub_are_refused(url):
    with pytest.raises(
        InputError, match="expected hf://datasets/OWNER/NAME, or hf://datasets/OWNER/NAME@REVISION"
    ) as error:
        open_corpus(url)
    assert "geheim" not in str(error.value)


def test_a_corpus_is_not_made_on_the_hub_and_only_local_ones_are_published(workspace, corpus, hub):
    with pytest.raises(
        InputError, match=r"cannot be written.*'nbaudio publish' uploads a finished corpus there"
    ):
        make_corpus(workspace, URL)
    put(corpus)
    with pytest.raises(
        InputError, match="is not on this machine; only a local corpus can be published"
    ):
        publish(URL, f"{URL}2", consent=CONSENT)
    with pytest.raises(InputError, match=r"hf://datasets/ana/nichts: no corpus.json .not a corpus"):
        verify("hf://datasets/ana/nichts", show_progress=False)


def test_without_huggingface_hub_the_extra_is_named(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: put(corpus), lambda: open_corpus(URL)):
        with pytest.raises(MissingExtraError, match=r"pip install 'nbaudio\[hub\]'"):
            call()


def test_a_dataset_of_the_hub_is_audited_by_ranges(hub, tmp_path):
    """Four rows with 100 kB of audio each; test has a speaker of train."""
    audio = [{"bytes": bytes(100_000), "path": f"{number}.wav"} for number in range(2)]
    files = {"README.md": ("regular", b"---\nlicense: mit\n---\n")}
    for split, texts in (("train", ["prvi govor", "drugi glas"]), ("test", ["treći", "četvrti"])):
        rows = {"audio": audio, "sentence": texts, "client_id": ["ana", split]}
        table = tmp_path / "rows.parquet"
        pl.DataFrame(rows).write_parquet(table, compression="uncompressed")
        files[f"data/{split}-00000-of-00001.parquet"] = ("lfs", table.read_bytes())
    hub.datasets[NAME] = Dataset()
    hub.datasets[NAME].add(files)
    report = audit(f"hf://datasets/{NAME}")
    assert [line.partition(":")[0] for line in report.problems] == ["splits share speakers"]
    assert report.facts["bytes_read"] < 200_000 < report.facts["bytes_of_data"]
    sent = [[*map(int, wanted.removeprefix("bytes=").split("-"))] for wanted in hub.ranges]
    assert sum(stop + 1 - start for start, stop in sent) < 200_000
