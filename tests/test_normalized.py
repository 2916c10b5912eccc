"""Normal forms of transcripts: a separate column, and how a corpus ships them."""

import json

import polars as pl
import pytest

from nbaudio import ingest, join, materialize, open_corpus, score, select, verify
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.review.state import Verdict, append_verdicts, content_hashes
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.widgets import segments as shown

QUIET = {"jobs": 1, "engine": "threading", "show_progress": False}


def test_normalized_words_of_parlaspeech_survive_scoring(tmp_path):
    lines = [
        {
            "orig_file": "a.wav",
            "start": 0,
            "end": 1,
            "words": ["20", "ljudi."],
            "norm_words": ["dvadeset", "ljudi"],
        },
        {
            "orig_file": "a.wav",
            "start": 1,
            "end": 2,
            "words": ["Da."],
            "norm_words": ["da"],
            "asr": ["DA"],
        },
    ]
    (tmp_path / "v1.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf8")
    ingest("parlaspeech", tmp_path / "v1.jsonl", out=tmp_path / "w")
    for steps in (["lower"], ["punctuation", "lower"], []):
        score(tmp_path / "w", normalize=steps)
        segments = Workspace.open(tmp_path / "w").segments
        assert segments["text"].to_list() == ["dvadeset ljudi", "da"]
        assert segments["text_raw"].to_list() == ["20 ljudi.", "Da."]
        assert segments["asr_text"].to_list() == [None, "DA"]


def test_source_columns_named_like_those_of_steps_are_prefixed(tmp_path):
    names = (
        "text_normalized",
        "asr_text_normalized",
        "text_corrected",
        "text_origin",
        "corrected_by",
        "num_samples",
    )
    names += ("spoken_wer", "agreement", "text_disputed")
    header, row = (
        ",".join(("name", "text", *names)),
        ",".join(("a.wav", "Da.", *(f"own {name}" for name in names))),
    )
    (tmp_path / "t.csv").write_text(f"{header}\n{row}\n", encoding="utf8")
    ingest("table", tmp_path / "t.csv", out=tmp_path / "w")
    score(tmp_path / "w", normalize=["lower"])
    [found] = Workspace.open(tmp_path / "w").segments.rows(named=True)
    assert {name: found[f"source_{name}"] for name in names} == {
        name: f"own {name}" for name in names
    }
    assert (found["text"], found["text_normalized"]) == ("Da.", "da.")


@pytest.fixture
def workspace(make_workspace):
    made = make_workspace({"one.wav": (9.0, 16000), "two.wav": (9.0, 16000)})
    made.save(
        segments=made.segments.with_columns(
            text=pl.format("„Č {}!“", "segment_id"), text_raw=pl.lit("raw")
        )
    )
    score(made, normalize=["lower", "punctuation"])
    return made


def words(corpus, column):
    rows = open_corpus(corpus).segments.sort("segment_id")
    return rows[column].to_list()


def test_a_corpus_ships_the_words_of_the_source_and_both_forms(workspace, tmp_path):
    materialize(workspace, out=tmp_path / "c", **QUIET)
    table = workspace.segments.sort("segment_id")
    for column in ("text", "text_normalized", "text_raw"):
        assert words(tmp_path / "c", column) == table[column].to_list()
    assert "Č" in json.loads((tmp_path / "c" / "vocab.json").read_text(encoding="utf8"))


@pytest.mark.slow
@pytest.mark.parametrize("container", ["webdataset", "parquet"])
def test_a_corpus_can_ship_the_normal_forms(workspace, tmp_path, container):
    materialize(workspace, out=tmp_path / "c", container=container, text="normalized", **QUIET)
    table = workspace.segments.sort("segment_id")
    assert words(tmp_path / "c", "text") == table["text_normalized"].to_list()
    assert words(tmp_path / "c", "text_source") == table["text"].to_list()
    assert "text_normalized" not in open_corpus(tmp_path / "c").segments.columns
    vocabulary = json.loads((tmp_path / "c" / "vocab.json").read_text(encoding="utf8"))
    assert ("č" in vocabulary, "Č" in vocabulary, "„" in vocabulary) == (True, False, False)
    assert (
        json.loads((tmp_path / "c" / "corpus.json").read_text(encoding="utf8"))["parameters"][
            "text"
        ]
        == "normalized"
    )
    assert verify(tmp_path / "c", jobs=1, engine="threading", show_progress=False).problems == []
    # Run again it is kept; other words want another folder.
    assert (
        materialize(
            workspace, out=tmp_path / "c", container=container, text="normalized", **QUIET
        ).facts["clips_cut_now"]
        == 0
    )
    with pytest.raises(ExistsError):
        materialize(workspace, out=tmp_path / "c", container=container, **QUIET)


def test_materialize_refuses_a_missing_or_empty_transcript(workspace, tmp_path):
    with pytest.raises(InputError, match=r"no column text_human; there are normalized, raw"):
        materialize(workspace, out=tmp_path / "c", text="human", **QUIET)
    workspace.save(segments=workspace.segments.with_columns(text_normalized=pl.lit("")))
    with pytest.raises(
        InputError,
        match=r"accepted segments \(.*\) have no text_normalized; 'nbaudio select .* --where",
    ):
        materialize(workspace, out=tmp_path / "c", text="normalized", **QUIET)
    assert not (tmp_path / "c" / "corpus.json").exists()


def test_materialize_refuses_to_ship_a_text_that_verdicts_are_not_about(workspace, tmp_path):
    content_of = dict(
        zip(workspace.segments["segment_id"], content_hashes(workspace.segments), strict=True)
    )
    first = min(content_of)
    append_verdicts(
        workspace,
        [Verdict(first, content_of[first], "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel")],
    )
    with pytest.raises(
        InputError,
        match=r"have words in text_raw that differ from those in text, which reviewers judged",
    ):
        materialize(workspace, out=tmp_path / "c", text="raw", **QUIET)
    assert materialize(workspace, out=tmp_path / "c", text="normalized", **QUIET).problems == []


def test_a_text_that_is_empty_after_normalization_is_rejected(workspace):
    first = pl.col("segment_id") == workspace.segments["segment_id"][0]
    workspace.save(
        segments=workspace.segments.with_columns(
            text=pl.when(first).then(pl.lit("–")).otherwise("text")
        )
    )
    score(workspace, normalize=["punctuation"])
    select(workspace, dev=0, test=0, min_similarity=-1)
    rows = workspace.segments.filter(first).select("text", "reason").rows()
    assert rows == [("–", "empty_text")]


def test_widgets_pair_the_words_of_the_source_by_their_normal_forms(workspace):
    workspace.save(
        segments=workspace.segments.with_columns(
            text=pl.lit("Evo – Blic."), asr_text=pl.lit("evo blitz")
        )
    )
    score(workspace, normalize=["lower", "punctuation"])
    pairs = shown.load_segments(workspace).lines(0)[""]
    assert [(pair.kind, pair.reference, pair.hypothesis) for pair in pairs] == [
        ("equal", "Evo", "evo"),
        ("equal", "–", None),
        ("replace", "Blic.", "blitz"),
    ]


def test_a_corpus_can_ship_a_joined_transcript(workspace, tmp_path):
    ids = workspace.segments["segment_id"].to_list()
    rows = pl.DataFrame(
        {
            "segment_id": ids[:-1],
            "text": [f"Rečenica {number} %" for number, _ in enumerate(ids[:-1])],
        }
    )
    join(workspace, rows, text="verbatim")
    out = tmp_path / "c"
    if workspace.segments["decision"][-1] == "accept":
        with pytest.raises(InputError, match=r"1 accepted segments .* have no text_verbatim"):
            materialize(workspace, out=out, text="verbatim", **QUIET)
    select(workspace, min_similarity=-1, where="text_verbatim <> ''", dev=0, test=0)
    materialize(workspace, out=out, text="verbatim", **QUIET)
    segments = workspace.segments.filter(pl.col("decision") == "accept").sort("segment_id")
    assert words(out, "text") == segments["text_verbatim"].to_list()
    assert words(out, "text_source") == segments["text"].to_list()
    vocabulary = json.loads((out / "vocab.json").read_text(encoding="utf8"))
    assert "%" in vocabulary
    info = json.loads((out / "corpus.json").read_text(encoding="utf8"))
    assert info["parameters"]["text"] == "verbatim"
    assert verify(out, jobs=1, engine="threading", show_progress=False).problems == []


def test_verdicts_hold_for_a_transcript_that_differs_in_formatting_only(workspace, tmp_path):
    segments = workspace.segments
    append_verdicts(
        workspace,
        [
            Verdict(key, content, "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel")
            for key, content in zip(segments["segment_id"], content_hashes(segments), strict=True)
        ],
    )
    first = segments["text"][0]
    rows = segments.select("segment_id", text=pl.col("text").str.to_uppercase() + "!")
    join(workspace, rows, text="upper")
    assert materialize(workspace, out=tmp_path / "upper", text="upper", **QUIET).problems == []
    join(workspace, rows.with_columns(text=pl.lit(f"{first} izmišljeno")), text="other")
    with pytest.raises(
        InputError,
        match="words in text_other that differ from those in text, which reviewers judged",
    ):
        materialize(workspace, out=tmp_path / "other", text="other", **QUIET)
