"""Leakage checks find everything that splits share, however the table is read."""

import hashlib
import json
import shutil
from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from nbaudio.core.errors import InputError
from nbaudio.core.report import fact_key
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.verify import verify
from nbaudio.selection import leakage as module
from nbaudio.selection.leakage import (
    AUDIO,
    NEAR_SENTENCE,
    SENTENCE,
    exceptions,
    grouping_columns,
    leakage,
    leakage_record,
)
from nbaudio.selection.select import select
from nbaudio.text.near_duplicates import sentences

LETTERS = ["", *"abcdefghijklmnopqrstuvwxyz"]
KEYS = ["speaker_id", "recording_id"]
SCHEMA = {
    "speaker_id": pl.String,
    "recording_id": pl.String,
    "text": pl.String,
    "audio_sha256": pl.String,
    "split": pl.String,
    "segment_id": pl.String,
}
SAID = [
    "Da",
    "da ",
    "DA!",
    "–",
    "hvala vam lijepa",
    "Hvala Vam, lijepo",
    "hvala vama lijepo",
    "straße i ceste",
    "STRASSE i cesta",
    None,
]

values = st.sampled_from(["a", "b", "c", None])
rows = st.lists(
    st.tuples(
        values,
        values,
        st.sampled_from(SAID),
        values,
        st.sampled_from(["train", "dev", "test", None]),
    ),
    max_size=25,
)


def table(rows):
    """Segments in the order of their ids."""
    return pl.DataFrame(
        [(*row, f"s{number:03d}") for number, row in enumerate(rows)], schema=SCHEMA, orient="row"
    )


def folded(text):
    letters = "".join(c if c.isalnum() else " " for c in (text or "").casefold())
    return " ".join(letters.split()) or None


def test_fast_and_general_folding_agree_on_every_character():
    # Texts of plain letters are folded in a faster way, which the ligature rules out.
    letters = [chr(code) for code in range(0x2000)]
    texts = pl.DataFrame(
        {
            "alone": [f"A {letter}" for letter in letters],
            "beside": [f"A {letter} \ufb01" for letter in letters],
        }
    )
    alone, beside = texts.select(sentences(pl.col("alone", "beside")))
    assert (alone + " fi").to_list() == beside.to_list()


def near(a, b):
    return 0 < Levenshtein.distance(a, b) <= min(len(a), len(b)) // 10


def slow(segments):
    """By check, which held-out segments share something with another split, and what: each with
    each."""
    found = defaultdict(dict)
    everything = [
        row | {"sentence": folded(row["text"])}
        for row in segments.iter_rows(named=True)
        if row["split"]
    ]
    for row in everything:
        for other in everything:
            if row["split"] == "train" or other["split"] == row["split"]:
                continue
            for check, name in (
                *((key, key) for key in KEYS),
                (SENTENCE, "sentence"),
                (AUDIO, "audio_sha256"),
            ):
                if row[name] is not None and row[name] == other[name]:
                    found[check][row["segment_id"]] = row[name]
            if row["sentence"] and other["sentence"] and near(row["sentence"], other["sentence"]):
                found[NEAR_SENTENCE][row["segment_id"]] = row["sentence"]
    return found


@pytest.mark.slow
@given(rows)
@settings(max_examples=80, deadline=None)
def test_leakage_equals_that_of_an_exhaustive_comparison(rows):
    segments = table(rows)
    wanted = slow(segments)
    found = exceptions(segments)
    for check in (*KEYS, SENTENCE, NEAR_SENTENCE, AUDIO):
        here = found.filter(pl.col("check") == check)
        assert dict(here.select("segment_id", "value").iter_rows()) == wanted[check]
    by_id = {row["segment_id"]: row for row in segments.iter_rows(named=True)}
    for row in found.iter_rows(named=True):
        other = by_id[row["other_segment_id"]]
        assert (
            by_id[row["segment_id"]]["split"]
            == row["split"]
            != row["other_split"]
            == other["split"]
        )
        if row["check"] == NEAR_SENTENCE:
            assert row["other_value"] == folded(other["text"])
    counts = {check: (shared, number) for check, shared, number, _ in leakage(segments).iter_rows()}
    assert counts == {
        check: (len(set(wanted[check].values())), len(wanted[check]))
        for check in (*KEYS, SENTENCE, NEAR_SENTENCE, AUDIO)
    }


@pytest.mark.slow
@given(rows, st.randoms(use_true_random=False), st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_leakage_does_not_depend_on_row_order_and_batch_size(rows, random, size):
    segments = table(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_A_GROUP", size)
        assert leakage_record(segments[order].lazy()) == leakage_record(segments)


def test_a_scan_of_a_file_gives_what_its_table_gives(tmp_path):
    segments = table(
        [
            ("a", "r", "Hvala lijepa svima", "x", "train"),
            ("b", "q", "hvala ljepa svima", "x", "test"),
        ]
    )
    segments.cast({"split": pl.Enum(["train", "dev", "test"])}).write_parquet(
        tmp_path / "s.parquet"
    )
    told = leakage_record(pl.scan_parquet(tmp_path / "s.parquet"))
    assert told == leakage_record(segments)
    assert told[NEAR_SENTENCE]["exceptions"] == [
        {
            "split": "test",
            "segment_id": "s001",
            "value": "hvala ljepa svima",
            "other_split": "train",
            "other_segment_id": "s000",
            "other_value": "hvala lijepa svima",
        }
    ]
    assert {check: (one["shared"], one["segments"]) for check, one in told.items()} == {
        "speaker_id": (0, 0),
        "recording_id": (0, 0),
        SENTENCE: (0, 0),
        NEAR_SENTENCE: (1, 1),
        AUDIO: (1, 1),
    }


def test_the_list_is_bounded_and_the_count_is_not(monkeypatch):
    monkeypatch.setattr(module, "_MAX_LISTED", 3)
    rows = [
        ("a", "r", f"rečenica broj {n}", None, split)
        for n in range(10)
        for split in ("train", "test")
    ]
    told = leakage_record(table(rows), keys=[])[SENTENCE]
    assert (told["shared"], told["segments"], len(told["exceptions"])) == (10, 10, 3)


def test_the_partner_that_is_reported_is_the_nearest_then_train_then_by_id():
    said = "ovo je jedna sasvim obična rečenica iz sabora"
    rows = [
        ("a", "r", said[:-2], None, "train"),
        ("a", "r", said[:-1], None, "dev"),
        ("a", "r", said, None, "test"),
    ]
    found = exceptions(table([*rows, ("a", "r", said[1:], None, "train")]), keys=["speaker_id"])
    partners = {(check, split): other for check, split, *_, other, _ in found.iter_rows()}
    assert partners["speaker_id", "test"] == "s000"
    assert partners[NEAR_SENTENCE, "test"] == "s003"
    assert partners[NEAR_SENTENCE, "dev"] == "s000"


def test_a_leakage_key_that_is_no_column_is_refused():
    with pytest.raises(InputError, match="'chamber'"):
        leakage(
            pl.DataFrame({"segment_id": ["a"], "text": ["da"], "split": ["train"]}),
            keys=["chamber"],
        )


def test_without_audio_hashes_leakage_of_audio_is_not_checked():
    segments = table([("a", "r", "da", None, "train")]).drop("audio_sha256")
    assert leakage(segments)["check"].to_list() == [*KEYS, SENTENCE, NEAR_SENTENCE]


@pytest.fixture
def corpus(make_workspace, tmp_path):
    """A corpus of four recordings, two with the same audio, one in train and one in test."""
    workspace = make_workspace(
        dict.fromkeys(("one.wav", "two.wav", "three.wav", "four.wav"), (12.0, 16000)), channels=1
    )
    shutil.copy(workspace.audio_root / "one.wav", workspace.audio_root / "two.wav")
    recordings = workspace.recordings.drop("num_bytes", "mtime_ns")
    of = {"one": "train", "two": "test", "three": "train", "four": "dev"}
    said = pl.col("recording_id").replace(
        {"one": "jedno", "two": "nešto drugo", "three": "i ono treće", "four": "sasvim četvrto"}
    )
    segments = workspace.segments.with_columns(
        split=pl.col("recording_id").replace_strict(
            of, return_dtype=workspace.segments.schema["split"]
        ),
        speaker_id="recording_id",
        text=pl.format(
            "{} {}",
            said,
            pl.col("segment_id").rank("ordinal").replace_strict(dict(enumerate(LETTERS))),
        ),
    )
    workspace.save(recordings=recordings, segments=segments)
    workspace.save_report(
        "select", {"facts": {"parameters": {"group_by": ["speaker_id", "recording_id"]}}}
    )
    materialize(workspace, out=tmp_path / "c", jobs=1, engine="threading", show_progress=False)
    return tmp_path / "c"


def checked(corpus):
    return verify(corpus, jobs=1, engine="threading", show_progress=False)


def test_verify_computes_the_leakage_that_corpus_json_has(corpus):
    told = json.loads((corpus / "corpus.json").read_text(encoding="utf8"))["leakage"]
    clips = pl.read_parquet(corpus / "segments.parquet")
    assert told == json.loads(json.dumps(leakage_record(clips)))
    assert [told[check]["shared"] for check in (*KEYS, SENTENCE, NEAR_SENTENCE)] == [0, 0, 0, 0]
    # The copied recording: every clip of it in test sounds like one in train, and both are named.
    assert told[AUDIO]["segments"] == (clips["split"] == "test").sum() > 3
    first = told[AUDIO]["exceptions"][0]
    assert (first["segment_id"].replace("two", "one"), first["split"]) == (
        first["other_segment_id"],
        "test",
    )
    report = checked(corpus)
    assert report.problems == []
    assert report.facts["leakage"] == {
        fact_key(check): one["shared"] for check, one in told.items()
    }


@pytest.mark.parametrize("check", [AUDIO, SENTENCE, "speaker_id"])
def test_verify_reports_a_wrong_leakage_count_in_corpus_json(corpus, check):
    manifest = json.loads((corpus / "corpus.json").read_text(encoding="utf8"))
    manifest["leakage"][check]["segments"] += 1
    (corpus / "corpus.json").write_text(json.dumps(manifest), encoding="utf8")
    assert [
        line
        for line in checked(corpus).problems
        if line.startswith(f"corpus.json: leakage: {check}: segments")
    ]


def test_a_speaker_in_two_splits_is_a_problem_where_the_corpus_was_grouped_by_speakers(corpus):
    clips = pl.read_parquet(corpus / "segments.parquet").with_columns(speaker_id=pl.lit("the same"))
    clips.write_parquet(corpus / "segments.parquet")
    manifest = json.loads((corpus / "corpus.json").read_text(encoding="utf8"))
    manifest["table_bytes"]["segments.parquet"] = (corpus / "segments.parquet").stat().st_size
    manifest["tables"]["segments.parquet"] = hashlib.sha256(
        (corpus / "segments.parquet").read_bytes()
    ).hexdigest()
    (corpus / "corpus.json").write_text(json.dumps(manifest), encoding="utf8")
    problems = checked(corpus).problems
    assert "segments.parquet: 1 values of speaker_id are in two splits" in problems
    assert "corpus.json: leakage: speaker_id: shared is 0, found 1" in problems


def test_a_corpus_that_was_grouped_by_sentences_is_checked_by_them(make_workspace, tmp_path):
    workspace = make_workspace({"one.wav": (12.0, 16000), "two.wav": (12.0, 16000)}, channels=1)
    select(workspace, min_similarity=-1, group_by=["text"], dev=2, test=2)
    materialize(workspace, out=tmp_path / "c", jobs=1, engine="threading", show_progress=False)
    report = checked(tmp_path / "c")
    assert (report.problems, report.facts["leakage"]["text"]) == ([], 0)


def test_a_corpus_is_checked_by_the_columns_that_it_was_grouped_by():
    found = grouping_columns({"parameters": {"group_by": ["chamber", "speaker_id"]}})
    assert found == ["speaker_id", "recording_id", "chamber"]
