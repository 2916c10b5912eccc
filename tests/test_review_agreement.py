"""Annotator agreement against its definition and published figures, and the coverage of its
intervals."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheets import make_workspace

from nbaudio import review
from nbaudio.review.annotator_agreement import cohen_kappa, krippendorff_alpha, share

# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), the example with missing data:
# observers in rows, 0 for none.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]


def slow_alpha(ratings):
    """1 less observed over expected disagreement: of pairs within segments, each by 1 / (m - 1) of
    m verdicts, and of all."""
    judged = [[word for word in row if word >= 0] for row in ratings]
    judged = [row for row in judged if len(row) > 1]
    every = [word for row in judged for word in row]
    within = sum(
        sum(a != b for a, b in permutations(row, 2)) / (len(row) - 1) for row in judged
    ) / len(every)
    by_chance = sum(a != b for a, b in permutations(every, 2)) / (len(every) * (len(every) - 1))
    return 1 - within / by_chance


@given(st.lists(st.lists(st.integers(-1, 3), min_size=3, max_size=3), min_size=1, max_size=8))
def test_alpha_equals_its_definition(ratings):
    value = krippendorff_alpha(np.array(ratings))[0]
    words = {
        word
        for row in ratings
        for word in row
        if word >= 0 and sum(other >= 0 for other in row) > 1
    }
    if len(words) < 2:
        assert np.isnan(value)
    else:
        assert value == pytest.approx(slow_alpha(ratings))


def test_alpha_equals_a_published_example():
    assert krippendorff_alpha(np.array(PUBLISHED).T - 1)[0] == pytest.approx(0.743, abs=0.0005)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=12))
def test_kappa_is_agreement_beyond_chance_as_a_share_of_what_is_possible(pairs):
    table = np.zeros((3, 3), dtype=int)
    for pair in pairs:
        table[pair] += 1
    observed = sum(a == b for a, b in pairs) / len(pairs)
    chance = sum(a == b for a, _ in pairs for _, b in pairs) / len(pairs) ** 2
    value, low, high = cohen_kappa(table)
    if chance == 1:
        assert np.isnan(value)
    else:
        assert value == pytest.approx((observed - chance) / (1 - chance))
        assert -1 <= low <= value <= high <= 1
        assert (high == 1) == (observed == 1)
        assert high - low > 0.1


def test_values_equal_published_examples_and_intervals_are_somewhat_wider():
    assert [round(value, 3) for value in share(8, 10)] == [0.8, 0.49, 0.943]
    # The formula of Fleiss, Cohen and Everitt (1969) gives 0.392 to 0.591.
    table = np.array([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert [round(value, 3) for value in cohen_kappa(table)] == [0.492, 0.378, 0.598]
    ratings = np.array([[0, 0], [1, 1], [0, 1], [0, 0], [0, 0], [1, 1]])
    assert [round(value, 3) for value in krippendorff_alpha(ratings)] == [0.686, -0.251, 0.93]


def judged(segments, rng):
    """Two reviewers who say of each segment what is right in four of five cases, and else any of
    three words."""
    right = rng.choice(3, p=[0.6, 0.3, 0.1], size=(segments, 1))
    return np.where(rng.random((segments, 2)) < 0.8, right, rng.integers(0, 3, (segments, 2)))


@pytest.mark.slow
def test_intervals_cover_the_true_value_if_faults_are_rare():
    rng = np.random.default_rng(1)

    def rare(segments):
        fault = rng.random((segments, 1)) < 0.05
        return np.where(fault, rng.random((segments, 3)) < 0.95, rng.random((segments, 3)) < 0.005)

    def table(ratings):
        return np.bincount(2 * ratings[:, 0] + ratings[:, 1], minlength=4).reshape(2, 2)

    ratings = [rare(50).astype(int) for _ in range(300)]
    many = rare(1_000_000).astype(int)
    for measure, of in ((cohen_kappa, table), (krippendorff_alpha, np.asarray)):
        true = measure(of(many))[0]
        intervals = [measure(of(each)) for each in ratings if each[:, :2].any()]
        assert np.mean([low <= true <= high for _, low, high in intervals]) >= 0.93


@pytest.mark.slow
def test_intervals_of_kappa_and_alpha_cover_the_true_value():
    rng = np.random.default_rng(1)

    def table(ratings):
        return np.array(
            [[((ratings == (a, b)).all(axis=1)).sum() for b in range(3)] for a in range(3)]
        )

    true = cohen_kappa(table(judged(1_000_000, rng)))[0]
    kappas = [cohen_kappa(table(judged(150, rng))) for _ in range(400)]
    alphas = [krippendorff_alpha(judged(150, rng)) for _ in range(100)]
    for found in (kappas, alphas):
        assert np.mean([low <= true <= high for _, low, high in found]) >= 0.92


def test_full_agreement_has_an_interval_up_to_1(
    tmp_path,
):
    workspace = make_workspace(tmp_path / "w")
    assert review.agreement(workspace).is_empty()
    rows = [
        ("s0", "ok", "ana"),
        ("s1", "noise", "ana"),
        ("s0", "ok", "ben"),
        ("s1", "noise", "ben"),
        ("s2", "ok", "eva"),
    ]
    review.append_verdicts(
        workspace,
        [review.Verdict(key, "", word, "", None, who, "", "sheet") for key, word, who in rows],
    )
    found = (
        review.agreement(workspace)
        .filter(of="words")
        .select("measure", "reviewers", "segments", "value", "low", "high")
        .rows()
    )
    assert [row[:4] for row in found] == [
        ("agreement", "ana, ben", 2, 1.0),
        ("kappa", "ana, ben", 2, 1.0),
        ("alpha", "ana, ben", 2, 1.0),
    ]
    assert found[0][4] == pytest.approx(0.342, abs=0.0005)
    # Two segments tell hardly anything.
    assert [row[5] for row in found[1:]] == [1.0, 1.0]
    assert all(row[4] < 0 for row in found[1:])


def test_verdicts_with_several_faults_agree_only_if_all_are_equal(tmp_path):
    workspace = make_workspace(tmp_path / "w")
    both = {
        "ana": ["ok", "cut off, noise", "noise", "unsure"],
        "ben": ["ok", "noise", "noise", "cut off, noise"],
    }
    rows = [
        review.Verdict(f"s{at}", "", word, "", None, who, "", "sheet")
        for who, said in both.items()
        for at, word in enumerate(said)
    ]
    review.append_verdicts(workspace, rows)
    found = review.agreement(workspace).filter(measure="agreement").select("of", "value").rows()
    assert dict(found) == {"words": 0.5, "ok or not": 1.0}
    assert review.disagreements(workspace)["verdicts"].to_list() == [
        "ana: cut off, noise; ben: noise",
        "ana: unsure; ben: cut off, noise",
    ]
