"""Publication on the Hugging Face Hub, on a stand-in of it: what is sent, in which order, what stops it, and reading it back."""

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
import pytest
from conftest import encoded
from hub import NAME, SIGNATURE, TOKEN, URL, serving_hub

from nbaudio import materialize, publish, verify
from nbaudio.core.errors import ExistsError, InputError, NbaudioError
from nbaudio.corpus import publish as publishing
from nbaudio.reading import open_corpus
from nbaudio.storage import retry

# As huggingface_hub uploads.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")

CONSENT = "signed consent forms of all speakers"
CONTAINER = {"container": "webdataset"}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The stand-in, where huggingface_hub looks for the Hub, and a token where it looks for one."""
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.utils import _http

    with serving_hub() as served:
        for name in ("HUGGINGFACE_CO_URL_TEMPLATE", "ENDPOINT"):  # HF_ENDPOINT when the library is imported
            monkeypatch.setattr(constants, name, getattr(constants, name).replace(constants.ENDPOINT, served.url))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(_http, "time", types.SimpleNamespace(sleep=lambda _: None))
        monkeypatch.setattr(retry, "FIRST_PAUSE_S", 0.001)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served
        huggingface_hub.close_session()


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"a.flac": (20.0, 16000), "b.wav": (17.0, 8000)}, channels=1)


def made(workspace, out, **options):
    wanted = {"license": "cc-by-4.0", "language": "hr", "shard_size": "40kB"} | options
    materialize(workspace, out=out, jobs=1, show_progress=False, **wanted)
    return out


@pytest.fixture
def corpus(workspace, tmp_path):
    return made(workspace, tmp_path / "corpus")


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


def whole(files):
    """Whether a commit with a corpus.json has the files that it lists."""
    if "corpus.json" not in files:
        return True
    info = json.loads(files["corpus.json"][1])
    listed = info["tables"] | {shard["name"]: shard["sha256"] for shard in info["shards"]}
    return all(name in files and hashlib.sha256(files[name][1]).hexdigest() == sha256 for name, sha256 in listed.items())


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
    assert checked.problems == []
    assert checked.facts | {"corpus": ""} == verify(corpus, jobs=1, show_progress=False).facts | {"corpus": ""}
    assert hub.leaked == []
    here, there = open_corpus(corpus), open_corpus(URL)
    for one, other in zip(here.stream("train", seed=3), there.stream("train", seed=3), strict=True):
        assert one.segment_id == other.segment_id
        assert np.array_equal(one.samples, other.samples)
