"""Which texts are one sentence: one folding for duplicates, leakage, corpus.json and verdicts."""

import json
import unicodedata

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbaudio import materialize, verify
from nbaudio.review.sampling import anomaly_facts, anomaly_reasons
from nbaudio.review.state import word_hashes
from nbaudio.selection import leakage
from nbaudio.selection.leakage import NEAR_SENTENCE, SENTENCE
from nbaudio.tables.schemas import SEGMENTS, conform
from nbaudio.text.near_duplicates import sentences

# Each at least 20 characters, so that the search for suspicious duplicates looks at them.
SAME = {
    "hindi": ("यह किताब मेरी है और वह तुम्हारी।", "यह किताब, मेरी है और वह तुम्हारी"),
    "hindi joiner": ("क्\u200dषमा कीजिए मैं कल नहीं आऊँगा", "क्षमा कीजिए मैं कल नहीं आऊँगा"),
    "thai": ("เขาขี่ม้าไปตลาดทุกวัน", "เขาขี่ม้า\u200bไปตลาดทุกวัน!"),
    "arabic": ("كَتَبَ الولدُ الدرسَ في البيتِ", "\u200fكَتَبَ الولدُ الدرسَ، في البيتِ"),
    "croatian": (
        "Čovjek će doći sljedeći četvrtak.",
        unicodedata.normalize("NFD", "čovjek će doći sljedeći četvrtak"),
    ),
}
OTHER = {
    "hindi": ("यह किताब मेरी है और वह तुम्हारी", "यह किताब मेरा है और वह तुम्हारा"),
    "thai": ("เขาขี่ม้าไปตลาดทุกวัน", "เขาขี่มาไปตลาดทุกวัน"),
    "arabic": ("كَتَبَ الولدُ الدرسَ في البيتِ", "كُتِبَ الولدُ الدرسَ في البيتِ"),
    "croatian": (
        "Čovjek će doći sljedeći četvrtak.",
        unicodedata.normalize("NFD", "čovjek ce doći sljedeći četvrtak"),
    ),
}
CASES = [(*pair, True) for pair in SAME.values()] + [(*pair, False) for pair in OTHER.values()]
NAMES = [f"same {name}" for name in SAME] + [f"other {name}" for name in OTHER]
every = pytest.mark.parametrize(("one", "other", "same"), CASES, ids=NAMES)


def folded(*texts):
    return pl.DataFrame({"text": texts}).select(sentences(pl.col("text"))).to_series().to_list()


def two_segments(one, other):
    """Two segments with a text each, in train and in test."""
    facts = {
        "segment_id": ["a", "b"],
        "recording_id": ["r", "r"],
        "source_start": ["0", "0"],
        "source_end": ["1", "1"],
    }
    return pl.DataFrame({**facts, "split": ["train", "test"], "text": [one, other]})


@every
def test_duplicates_leakage_and_verdicts_compare_sentences_alike(one, other, same):
    first, second = folded(one, other)
    assert (first == second) == same
    table = two_segments(one, other)
    facts = anomaly_facts(conform(table.drop("source_start", "source_end"), SEGMENTS, "segments"))
    duplicates = anomaly_reasons(facts)["reason"].to_list()
    assert (duplicates == ["duplicate text", "duplicate text"]) == same
    found = leakage.exceptions(table, keys=[])["check"].to_list()
    assert (SENTENCE in found) == same
    assert not (same and NEAR_SENTENCE in found)
    assert (len(set(word_hashes(table.with_columns(segment_id=pl.lit("a"))))) == 1) == same


@pytest.mark.slow
@every
def test_corpus_json_and_verify_compare_sentences_alike(make_workspace, tmp_path, one, other, same):
    workspace = make_workspace({"one.wav": (6.0, 16000), "two.wav": (6.0, 16000)}, channels=1)
    segments = workspace.segments.with_row_index("row").with_columns(
        split=pl.when(pl.col("recording_id") == "one")
        .then(pl.lit("train"))
        .otherwise(pl.lit("test")),
        text=pl.when(pl.col("row") == 0)
        .then(pl.lit(one))
        .otherwise(pl.format("{} x", "segment_id")),
    )
    last = segments["row"].max()
    segments = segments.with_columns(
        text=pl.when(pl.col("row") == last).then(pl.lit(other)).otherwise("text")
    ).drop("row")
    workspace.save(
        segments=segments.with_columns(pl.col("split").cast(workspace.segments.schema["split"]))
    )
    materialize(workspace, out=tmp_path / "c", jobs=1, engine="threading", show_progress=False)
    told = json.loads((tmp_path / "c" / "corpus.json").read_text(encoding="utf8"))["leakage"]
    assert told[SENTENCE]["shared"] == int(same)
    report = verify(tmp_path / "c", jobs=1, engine="threading", show_progress=False)
    assert report.facts["leakage"]["identical_sentence"] == int(same)
    assert report.problems == []


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_unicode_normal_forms_fold_alike_and_folding_twice_changes_nothing(text):
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    [once, again] = folded(composed, decomposed)
    assert once == again
    assert once is None or unicodedata.is_normalized("NFC", once)
