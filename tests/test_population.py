"""Segments in batches: what is drawn and what is proven do not depend on how many are in memory at
once."""

import hashlib
import json
import re
import shutil

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import make_workspace

from nbaudio import evidence, review, select
from nbaudio.core.hashing import hash_column
from nbaudio.proof.separation import precision_by, signal_precision
from nbaudio.review.population import Population, word_counts
from nbaudio.review.sampling import Strata, draw_from
from nbaudio.review.state import ReviewState, Verdict, append_verdicts, frame_table
from nbaudio.tables import parquet_files
from nbaudio.tables.row_values import first_occurrences


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """150 segments of three speakers with scores, some of them absent; paths in reports are
    relative."""
    monkeypatch.chdir(tmp_path)
    count, rng = 150, np.random.default_rng(4)
    made = make_workspace(
        "w", [f"riječ {number % 40} i još {number % 9} drugih" for number in range(count)]
    )
    score = [
        None if number % 17 == 3 else 1 - float(value)
        for number, value in enumerate(rng.exponential(0.1, count))
    ]
    facts = {
        "similarity": score,
        "snr_db": rng.normal(20, 4, count),
        "speaker_id": [f"k{number % 3}" for number in range(count)],
    }
    made.save(
        segments=made.segments.with_columns(
            pl.Series(name, values) for name, values in facts.items()
        )
    )
    return made


def say(workspace, name, rows):
    record = ReviewState.load(workspace).records[name]
    drawn = list(zip(record.segment_ids, record.contents, strict=True))[:rows]
    words = ["wrong words" if int(key[1:]) % 8 == 0 else "ok" for key, _ in drawn]
    said = (
        Verdict(*row, word, "", None, "ana", "2026-11-26T03:00:00Z", name)
        for row, word in zip(drawn, words, strict=True)
    )
    append_verdicts(workspace, said)


def reviewed(workspace, strategies):
    """The records, frames and reports of rounds, one after the other, and of the changes of the
    segments after them."""
    found = {}
    for strategy in strategies:
        review.export(workspace, out=f"{strategy}.csv", n=30, strategy=strategy, threshold=0.85)
        found[strategy] = (workspace.path / f"reviews/{strategy}.json").read_text()
        found[f"frame {strategy}"] = workspace.table(frame_table(strategy))
        say(workspace, strategy, 25)
        found[f"evidence {strategy}"] = evidence(workspace, precision=0.8).to_dict()
    select(workspace, min_similarity=0.7, dev=10, test=10, group_by=())
    changed = workspace.segments.with_columns(
        text=pl.when(pl.int_range(pl.len()) % 11 == 2).then(pl.lit("drugo")).otherwise("text")
    )
    workspace.save(segments=changed.filter(pl.int_range(pl.len()) % 13 != 1))
    found["evidence at the end"] = evidence(workspace, precision=0.8).to_dict()
    found["signals"], found["precision"] = (
        signal_precision(workspace),
        precision_by(workspace, "snr_db"),
    )
    return found


@pytest.mark.parametrize(
    ("rows", "strategies"),
    [
        (40, ["stratified", "suspicious"]),
        (7, ["near"]),
    ],
)
@pytest.mark.slow
def test_draws_and_claims_are_the_same_whatever_the_size_of_a_batch(
    workspace, monkeypatch, rows, strategies
):
    shutil.copytree(workspace.path, "other")
    expected = reviewed(workspace, strategies)
    monkeypatch.setattr(parquet_files, "ROWS_A_GROUP", rows)
    shutil.rmtree(workspace.path)
    shutil.move("other", workspace.path)
    for strategy in strategies:
        (workspace.path.parent / f"{strategy}.csv").unlink()
    again = reviewed(workspace, strategies)
    for name, value in expected.items():
        same = (
            value.equals(again[name]) if isinstance(value, pl.DataFrame) else value == again[name]
        )
        assert same, name


def test_of_segments_with_one_id_the_first_is_used(workspace):
    segments = workspace.segments
    later = {"text": pl.lit("kasnije"), "source_start": pl.lit("900")}
    repeats = segments.head(3).with_columns(**later)
    workspace.save(segments=pl.concat([segments[:3], repeats, segments[3:]]))
    known = Population(ReviewState.load(workspace))
    assert len(known) == len(segments)
    assert known.places(pl.Series(["s2", "s3", "s149", "nobody"])).tolist() == [2, 3, 149, -1]
    assert known.ids(pl.Series([149, 3, 2])).to_list() == ["s149", "s3", "s2"]
    assert known.read(["s1", "nobody"])["text"].to_list() == [segments["text"][1]]


def test_first_occurrences_marks_the_first_of_equal_values():
    values = np.array([3, 1, 3, 2, 1, 3], dtype=np.uint64)
    assert first_occurrences(values).tolist() == [True, True, False, True, False, False]


def test_the_fingerprint_of_a_workspace_is_that_of_its_sorted_ids(workspace):
    ids = sorted(workspace.segments["segment_id"])
    assert workspace.fingerprint() == hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]


def test_the_first_rows_of_a_stratum_are_those_with_the_smallest_hashes():
    ids = pl.Series([f"s{number}" for number in range(40)])
    strata = Strata(
        np.where(np.arange(40) % 5 == 4, -1, np.arange(40) % 2).astype(np.int32),
        ["a", "b"],
        np.array([0.3, 0.7]),
    )
    drawn = draw_from(
        strata, lambda rows, salt: hash_column(ids.gather(rows), salt), n=99, salt="x"
    )
    assert sorted(drawn["place"]) == [number for number in range(40) if number % 5 != 4]
    for number, name in enumerate(strata.names):
        own = drawn.filter(stratum=name)["place"]
        hashes = hash_column(ids.gather(own), "x")
        assert hashes.is_sorted()
        assert set(own) == set(np.flatnonzero(strata.number == number))


@settings(deadline=None)
@given(st.lists(st.none() | st.text(" \t\n\u00a0\u2028\u3000a.š", max_size=9), max_size=9))
def test_words_are_what_white_space_divides(texts):
    counts = word_counts(pl.Series(texts, dtype=pl.String))
    assert counts.to_list() == [
        0 if text is None else len(re.findall(r"\S+", text)) for text in texts
    ]
