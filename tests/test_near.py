"""Near-duplicate sentences: the fast search finds exactly the pairs of an exhaustive comparison."""

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from nbaudio.text import near_duplicates
from nbaudio.text.near_duplicates import NearIndex, sentences


def slow(left, right):
    """Each with each, edits counted in full."""
    pairs = []
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            edits = Levenshtein.distance(a, b)
            if 0 < edits <= min(len(a), len(b)) // 10:
                pairs.append((i, j, edits))
    return pairs


def changed(text, edits, draw):
    """The text after so many random edits, bunched or spread."""
    letters = list(text)
    for _ in range(edits):
        at = draw(0, max(len(letters) - 1, 0))
        match draw(0, 2):
            case 0:
                letters.insert(at, "xab č"[draw(0, 4)])
            case 1 if letters:
                letters.pop(at)
            case _ if letters:
                letters[at] = "xab 𝒜"[draw(0, 4)]
    return "".join(letters)


lines = st.text(alphabet="ab č", min_size=0, max_size=70).map(lambda text: text.replace("\n", ""))


@pytest.mark.slow
@given(st.lists(lines, min_size=0, max_size=8), st.lists(lines, max_size=4), st.data())
@settings(max_examples=300, deadline=None)
def test_near_pairs_equal_those_of_an_exhaustive_comparison(left, more, data):
    def draw(low, high):
        return data.draw(st.integers(low, high))

    right = more + [changed(text, draw(0, len(text) // 10 + 1), draw) for text in left]
    assert NearIndex(left).among(right).rows() == slow(left, right)


def test_none_of_ten_thousand_near_pairs_is_missed():
    # Recall is 1 by proof; here it is counted, at every number of edits that counts as near, over
    # real lengths.
    rng = random.Random(5)
    words = ["".join(rng.choices("abcčdeiorst", k=rng.randint(1, 9))) for _ in range(300)]
    left = [" ".join(rng.choices(words, k=rng.randint(2, 40))) for _ in range(500)]
    right = [
        changed(text, rng.randint(0, len(text) // 10 + 2), rng.randint)
        for text in left
        for _ in range(20)
    ]
    wanted = {(i, 20 * i + k) for i in range(500) for k in range(20)}
    wanted = {
        (i, j)
        for i, j in wanted
        if 0 < Levenshtein.distance(left[i], right[j]) <= min(len(left[i]), len(right[j])) // 10
    }
    found = {(i, j) for i, j, _ in NearIndex(left).among(right).iter_rows()}
    assert wanted <= found
    assert len(wanted) > 5000


def test_near_pairs_do_not_depend_on_the_block_size(monkeypatch):
    rng = random.Random(2)
    base = ["hvala vam lijepa " * 3 + "".join(rng.choices("abc", k=12)) for _ in range(40)]
    right = [changed(text, 3, rng.randint) for text in base * 3]
    wanted = NearIndex(base).among(right)
    assert len(wanted) > 100
    monkeypatch.setattr(near_duplicates, "_CHARACTERS", 300)
    monkeypatch.setattr(near_duplicates, "_PAIRS", 50)
    assert NearIndex(base).among(right).equals(wanted)


@pytest.mark.parametrize("texts", [[], [""], ["a"], ["aaaaaaaaa"]])
def test_very_short_texts_have_no_near_pairs(texts):
    assert NearIndex(texts).among(["", "a", "aaaaaaaa", *texts]).is_empty()
    assert NearIndex(["dobar dan svima"]).among(texts).is_empty()


def test_sentences_are_folded_without_case_and_punctuation():
    texts = ["„Straße,  d’accord…“", "STRASSE d'accord", " \n–?!", "", None, "e\u0301n 5.", "=1+1"]
    folded = pl.DataFrame({"text": texts}).select(sentences(pl.col("text"))).to_series().to_list()
    assert folded == ["strasse d accord", "strasse d accord", None, None, None, "én 5", "1 1"]


def test_usual_marks_are_folded_as_all_others_are():
    texts = ["Da, ne; ali: jest.", "…, . a", "?! b .. c,, d ?", "3.5, 4", ". , ;", "a -, b"]
    folded = pl.DataFrame({"text": texts}).select(sentences(pl.col("text"))).to_series().to_list()
    assert folded == ["da ne ali jest", "a", "b c d", "3 5 4", None, "a b"]
