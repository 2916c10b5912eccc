"""The raw transcript, `text_raw`: scored and shipped as any further transcript is, and joined where
the source has none."""

import json

import polars as pl
import pytest
from specimens import tone
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.tables.workspace import Workspace

QUIET = {"jobs": 1, "engine": "threading", "show_progress": False}
RAW = ["c\u030cekaj malo", "dobar dan", "z\u030civjeli svi"]  # the second is in NFC as it is
PLAIN = ["čekaj malo", "dobar dan", "živjeli svi"]


def write_source(folder, texts):
    """Three segments of one recording in JSON lines."""
    tone(folder / "audio/a.wav", 9)
    lines = [
        {"file": "a.wav", "start": 3 * n, "end": 3 * n + 2, "words": text.split(), "asr": heard}
        for n, (text, heard) in enumerate(zip(texts, (text.split() for text in PLAIN), strict=True))
    ]
    path = folder / "asr.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf8")
    return path


@pytest.fixture
def bring(tmp_path):
    """Ingest a source of some texts; called again, it grows the workspace."""

    def call(texts):
        source = write_source(tmp_path, texts)
        options = {"audio": tmp_path / "audio", "out": tmp_path / "W", "jobs": 1, "add": True}
        nbaudio.ingest("parlaspeech", source, **options)
        return Workspace.open(tmp_path / "W")

    return call


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_raw_texts_of_a_source_are_scored_and_ship(bring, tmp_path):
    workspace = bring(RAW)
    assert workspace.segments["text"].to_list() == PLAIN
    assert workspace.segments["text_raw"].to_list() == [RAW[0], None, RAW[2]]
    run("score", workspace.path)
    run("score", workspace.path, "--text", "raw")
    scored = workspace.segments
    assert scored["similarity"].to_list() == [1.0, 1.0, 1.0]
    assert (scored["similarity_raw"] < 1).to_list() == [True, False, True]
    assert scored["text_raw"].to_list() == [RAW[0], None, RAW[2]]
    run("select", workspace.path, "--dev", 0, "--test", 0)
    run("materialize", workspace.path, "--out", tmp_path / "C", "--text", "raw", "--jobs", 1)
    shipped = nbaudio.open_corpus(tmp_path / "C").segments.sort("segment_id")
    assert shipped["text"].to_list() == RAW
    assert shipped["text_source"].to_list() == PLAIN
    assert nbaudio.verify(tmp_path / "C", **QUIET).problems == []


@pytest.mark.slow
def test_raw_texts_are_joined_where_the_source_has_none(bring, tmp_path):
    workspace = bring(PLAIN)
    assert workspace.segments["text_raw"].null_count() == 3
    keys = workspace.segments["segment_id"]
    table = pl.DataFrame({"segment_id": keys[:2], "text": ["Čekaj malo!", "Dobar dan."]})
    table.write_csv(tmp_path / "verbatim.tsv", separator="\t")
    run("join", workspace.path, tmp_path / "verbatim.tsv", "--text", "raw")
    joined = ["Čekaj malo!", "Dobar dan.", None]
    assert workspace.segments["text_raw"].to_list() == joined
    # What was joined stays when the source grows, and may be joined again.
    bring([*PLAIN])
    assert workspace.segments["text_raw"].to_list() == joined
    run("join", workspace.path, tmp_path / "verbatim.tsv", "--text", "raw")

    nbaudio.score(workspace)
    nbaudio.score(workspace, text="raw")
    assert workspace.segments["similarity_raw"].null_count() == 1
    nbaudio.select(workspace, dev=0, test=0)
    with pytest.raises(
        InputError, match=r"1 accepted segments .* have no text_raw; 'nbaudio select"
    ):
        nbaudio.materialize(workspace, out=tmp_path / "C", text="raw", **QUIET)
    nbaudio.select(workspace, dev=0, test=0, where="text_raw <> ''")
    nbaudio.materialize(workspace, out=tmp_path / "C", text="raw", **QUIET)
    assert set(nbaudio.open_corpus(tmp_path / "C").segments["text"]) == set(joined[:2])


def test_raw_texts_of_a_segment_that_changes_are_those_of_the_source(bring):
    workspace = bring(PLAIN)
    keys = workspace.segments["segment_id"]
    nbaudio.join(workspace, pl.DataFrame({"segment_id": keys, "text": list("abc")}), text="raw")
    bring(["sasvim drugo", *PLAIN[1:]])
    assert dict(workspace.segments.select("segment_id", "text_raw").iter_rows()) == {
        keys[0]: None,
        keys[1]: "b",
        keys[2]: "c",
    }


def test_raw_texts_of_a_source_are_not_replaced(bring):
    workspace = bring(RAW)
    table = pl.DataFrame({"segment_id": workspace.segments["segment_id"], "text": list("abc")})
    with pytest.raises(InputError, match=r"the source has a column text_raw, .* such as raw_2"):
        nbaudio.join(workspace, table, text="raw")


def test_without_raw_texts_score_and_materialize_refuse_text_raw(bring, tmp_path):
    workspace = bring(PLAIN)
    with pytest.raises(InputError, match="no text 'raw'; there are text;"):
        nbaudio.score(workspace, text="raw")
    nbaudio.score(workspace)
    nbaudio.select(workspace, dev=0, test=0)
    with pytest.raises(InputError, match="no column text_raw; there are none;"):
        nbaudio.materialize(workspace, out=tmp_path / "C", text="raw", **QUIET)
