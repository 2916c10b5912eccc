"""Annotator agreement, and the number of segments left to judge.

The measures are the share, Cohen's kappa and Krippendorff's alpha on segments judged by several
reviewers.
"""

import shlex
from collections.abc import Iterator, Mapping
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.core.report import count, show
from nbaudio.review.agreement_intervals import (
    drawn_shares,
    interval_of,
    prior_of_patterns,
    prior_of_table,
    prior_patterns,
)
from nbaudio.review.state import ReviewRecord, ReviewState
from nbaudio.tables.workspace import Workspace

# A segment with the content that reviewers were shown.
_SHOWN = pl.format("{} {}", "content", "segment_id").alias("shown")
_TEXTS = ("of", "measure", "reviewers")
_NUMBERS = ("value", "low", "high")
_SCHEMA = pl.Schema(
    {
        **dict.fromkeys(_TEXTS, pl.String),
        "segments": pl.Int64,
        **dict.fromkeys(_NUMBERS, pl.Float64),
    }
)
_DECIMALS = 12
_AGREE = {"words": "agree on the verdict", "ok or not": "agree on ok or not ok"}
# With a share of equal verdicts of at least this and a kappa below this, kappa tells nothing.
_MUCH_ALIKE = 0.8
_LOW_KAPPA = 0.4


Estimate = tuple[float, float, float]
"""A value, and the ends of the interval around it."""


def agreement(
    workspace: Workspace | str | Path | ReviewState, *, confidence: float = 0.95, seed: int = 42
) -> pl.DataFrame:
    """Compute the annotator agreement of the verdicts that hold.

    It is computed over all words, and over ``ok`` or not without ``unsure``. Verdicts of several
    faults agree over all words only if they are the same.

    Args:
        workspace: the workspace, its folder or its review state.
        confidence: of the intervals, in (0, 1).
        seed: of the draws that give the intervals of kappa and alpha.

    Returns:
        `of` (``words`` or ``ok or not``), `measure` (``agreement``, the share of segments;
        ``kappa``, Cohen's; ``alpha``, Krippendorff's), `reviewers`, `segments` (judged by two or
        more of them), `value`, `low` and `high`, null if not defined. `agreement` and `kappa` are
        for every pair, `alpha` for all together; empty if no segment was judged twice.

    Raises:
        InputError: the confidence is not in (0, 1).

    Examples:
        >>> import tempfile
        >>> from nbaudio.review import Verdict, append_verdicts
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> said = {"ana": ["ok", "ok", "noise", "ok"], "ben": ["ok", "ok", "noise", "cut off"]}
        >>> append_verdicts(
        ...     workspace,
        ...     [
        ...         Verdict(f"s{i}", "", word, "", None, who, "", "sheet")
        ...         for who in said
        ...         for i, word in enumerate(said[who])
        ...     ],
        ... )
        >>> agreement(workspace)["value"].round(3).to_list()
        [0.75, 0.556, 0.588, 0.75, 0.5, 0.533]
    """
    if not 0 < confidence < 1:
        raise InputError(f"confidence={confidence:g}: must be between 0 and 1")
    words = ReviewState.load(workspace).verdicts.select(_SHOWN, "reviewer", rating="verdict")
    right = words.filter(pl.col("rating") != "unsure").with_columns(
        rating=(pl.col("rating") == "ok").cast(pl.String)
    )
    kinds = {"words": words, "ok or not": right}
    rows = [
        (of, *row)
        for of, ratings in kinds.items()
        for row in _measures(ratings, confidence=confidence, seed=seed)
    ]
    # Adding zero turns the -0.0 that rounding can give into 0.0.
    numbers = pl.col(*_NUMBERS).fill_nan(None).round(_DECIMALS) + 0.0
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(numbers)


def describe_agreement(table: pl.DataFrame) -> list[str]:
    """Return a sentence for each pair of reviewers, and one for more than two together.

    Args:
        table: as `agreement` returns it.

    Examples:
        >>> row = {"of": "words", "reviewers": "ana, ben", "segments": 4, "low": 0.3, "high": 1.0}
        >>> rows = [row | {"measure": "agreement", "value": 0.75}]
        >>> rows.append(row | {"measure": "kappa", "value": 0.556, "low": -0.04})
        >>> describe_agreement(pl.DataFrame(rows))
        ["ana, ben: agree on the verdict for 3 of 4 segments; Cohen's kappa 0.56 (-0.04 to 1)"]
    """
    values = {(row["of"], row["reviewers"], row["measure"]): row for row in table.to_dicts()}
    sentences = []
    for (of, reviewers, measure), row in values.items():
        if measure == "agreement":
            kappa = values[of, reviewers, "kappa"]
            sentences.append(f"{reviewers}: {_describe_share(row)}; {_describe_kappa(row, kappa)}")
        elif measure == "alpha" and reviewers.count(", ") > 1:
            sentences.append(f"{reviewers}: Krippendorff's alpha {_number(row)}")
    return sentences


def _describe_share(row: Mapping[str, Any]) -> str:
    """Say on how many segments the verdicts are equal."""
    equal = round(row["value"] * row["segments"])
    return f"{_AGREE[row['of']]} for {equal:,} of {count(row['segments'], 'segments')}"


def _describe_kappa(share: Mapping[str, Any], kappa: Mapping[str, Any]) -> str:
    """Give kappa, and say where it tells nothing since nearly all verdicts are equal."""
    if kappa["value"] is None:
        return "Cohen's kappa is not defined, as all verdicts are the same"
    text = f"Cohen's kappa {_number(kappa)}"
    if share["value"] >= _MUCH_ALIKE and kappa["value"] < _LOW_KAPPA:
        text += ", which says little, as nearly all verdicts are the same"
    return text


def _number(row: Mapping[str, Any]) -> str:
    """Format a value with its interval, if it has one."""
    value = show(round(row["value"], 2))
    if row["low"] is None:
        return value
    return f"{value} ({show(round(row['low'], 2))} to {show(round(row['high'], 2))})"


def disagreements(workspace: Workspace | str | Path | ReviewState) -> pl.DataFrame:
    """Return the segments on which reviewers disagree.

    The columns are `segment_id` and `verdicts` (such as ``ana: ok; ben: noise``). Segments that an
    adjudicator has judged are left out.
    """
    state = ReviewState.load(workspace)
    decided = state.verdicts.filter(pl.col("reviewer").is_in(state.adjudicators))
    unresolved = state.verdicts.join(decided, on=["segment_id", "content"], how="anti").sort(
        "segment_id", "reviewer"
    )
    apart = unresolved.filter(pl.col("verdict").n_unique().over("segment_id", "content") > 1)
    listed = pl.format("{}: {}", "reviewer", "verdict").sort_by("reviewer").str.join("; ")
    return (
        apart.group_by("segment_id", "content", maintain_order=True)
        .agg(verdicts=listed)
        .drop("content")
    )


def share(part: int, whole: int, *, confidence: float = 0.95) -> Estimate:
    """Return a share with its score interval.

    The interval is that of E. B. Wilson, J. of the American Statistical Association 22 (1927),
    209-212.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p = part / whole
    middle = (p + z**2 / (2 * whole)) / (1 + z**2 / whole)
    half = z / (1 + z**2 / whole) * sqrt(p * (1 - p) / whole + z**2 / (4 * whole**2))
    return p, max(middle - half, 0.0), min(middle + half, 1.0)


def cohen_kappa(table: NDArray[np.int_], *, confidence: float = 0.95, seed: int = 42) -> Estimate:
    """Compute Cohen's kappa from a table of the words that two reviewers chose.

    A cell says how often one chose the word of the row and the other that of the column. All are
    NaN if only one word was chosen.
    """
    is_used = (table.sum(axis=0) + table.sum(axis=1)) > 0
    table = table[is_used][:, is_used]
    words = len(table)
    if words < 2:
        return np.nan, np.nan, np.nan
    value = float(_kappa(table[None] / table.sum())[0])
    shares = drawn_shares((table + prior_of_table(words)).ravel(), seed)
    kappas = _kappa(shares.reshape(-1, words, words))
    interval = interval_of(kappas, value, confidence)
    return value, interval.low, interval.high


def _kappa(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return kappa of tables of shares, shape (tables, words, words)."""
    observed = np.trace(shares, axis1=1, axis2=2)
    expected = (shares.sum(axis=1) * shares.sum(axis=2)).sum(axis=1)
    return np.asarray((observed - expected) / (1 - expected))


def krippendorff_alpha(
    ratings: NDArray[np.int_], *, confidence: float = 0.95, seed: int = 42
) -> Estimate:
    """Compute Krippendorff's alpha (Content Analysis, 2004, 11.3).

    `ratings` has the shape (segments, reviewers), and -1 where there is no rating. All are NaN if
    only one word was chosen.
    """
    counts = (ratings[:, :, None] == np.arange(ratings.max(initial=-1) + 1)).sum(axis=1)
    counts = counts[counts.sum(axis=1) > 1]
    counts = counts[:, counts.any(axis=0)]
    words = counts.shape[1]
    if words < 2:
        return np.nan, np.nan, np.nan
    value = float(_alpha(_differing(counts).sum(), counts.sum(axis=0)))
    patterns, times = np.unique(counts, axis=0, return_counts=True)
    further = prior_patterns(words, int(counts.sum(axis=1).max()))
    every = np.vstack([patterns, further])
    shares = drawn_shares(np.concatenate([times, prior_of_patterns(words)]), seed)
    interval = interval_of(_alpha_of_shares(shares, every), value, confidence)
    return value, interval.low, interval.high


def _differing(counts: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return the pairs of verdicts that differ in each row, over one less than its verdicts.

    A row has the counts of the words of a segment.
    """
    judged = counts.sum(axis=1)
    return np.asarray((judged**2 - (counts**2).sum(axis=1)) / (judged - 1))


def _alpha(differing: NDArray[np.float64], totals: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return 1 less observed over expected disagreement.

    It is computed from the sum of `differing` and the counts of the words.
    """
    n = totals.sum()
    by_chance = n**2 - (totals**2).sum()
    return np.asarray(1 - differing * (n - 1) / by_chance)


def _alpha_of_shares(
    shares: NDArray[np.float64], patterns: NDArray[np.int_]
) -> NDArray[np.float64]:
    """Return alpha of very many segments, of which each pattern of verdicts has a share.

    Args:
        shares: of the patterns, shape (draws, patterns).
        patterns: how many reviewers chose each word, shape (patterns, words).
    """
    verdicts = shares @ patterns
    number = verdicts.sum(axis=1)
    expected = 1 - ((verdicts / number[:, None]) ** 2).sum(axis=1)
    observed = shares @ _differing(patterns) / number
    return np.asarray(1 - observed / expected)


def _measures(
    rated: pl.DataFrame, *, confidence: float, seed: int
) -> Iterator[tuple[str, str, int, float, float, float]]:
    """Yield each measure with its reviewers and the number of segments.

    `rated` has the columns `shown`, `reviewer` and `rating`.
    """
    rated = rated.filter(pl.len().over("shown") > 1)
    columns = (rated[name].to_numpy() for name in ("shown", "reviewer", "rating"))
    (shown, row), (reviewers, column), (words, rating) = (
        np.unique(values, return_inverse=True) for values in columns
    )
    ratings = np.full((len(shown), len(reviewers)), -1)
    ratings[row, column] = rating
    for first, second in combinations(range(len(reviewers)), 2):
        both = ratings[(ratings[:, [first, second]] >= 0).all(axis=1)][:, [first, second]]
        if len(both):
            pair = f"{reviewers[first]}, {reviewers[second]}"
            table = np.zeros((len(words), len(words)), dtype=int)
            np.add.at(table, tuple(both.T), 1)
            yield (
                "agreement",
                pair,
                len(both),
                *share(int(np.trace(table)), len(both), confidence=confidence),
            )
            kappa = cohen_kappa(table, confidence=confidence, seed=seed)
            yield "kappa", pair, len(both), *kappa
    if len(ratings):
        yield (
            "alpha",
            ", ".join(reviewers),
            len(ratings),
            *krippendorff_alpha(ratings, confidence=confidence, seed=seed),
        )


def left_to_judge(state: ReviewState, record: ReviewRecord) -> dict[str, int]:
    """Return how many segments of a review have no verdict yet, by reviewer.

    The name is empty if the review has no reviewers.
    """
    shown = (pl.col("review") == record.name) | pl.col("content").is_in(record.contents)
    verdicts = state.verdicts.filter(shown).select("reviewer", "segment_id")
    left = {}
    for reviewer, ids in record.shares().items():
        done = verdicts.filter(reviewer=reviewer) if reviewer else verdicts
        left[reviewer] = len(set(ids).difference(done["segment_id"]))
    return left


def next_step(state: ReviewState, review: str) -> str:
    """Return one line about what comes next after a review.

    For verdicts that belong to no review, `review` is not the name of a record.
    """
    record = state.records.get(review)
    apart = disagreements(state)
    lines = []
    if record:
        apart = apart.filter(pl.col("segment_id").is_in(record.segment_ids))
    if len(apart):
        lines.append(
            f"reviewers disagree on {count(len(apart), 'segments')}: "
            "nbaudio.review.disagreements(W) lists them"
        )
    if record is None:
        lines.append(
            "next: 'nbaudio review export' draws a sample, whose verdicts prove how good "
            "the labels are"
        )
    elif left := {name: rest for name, rest in left_to_judge(state, record).items() if rest}:
        sizes = {name: len(ids) for name, ids in record.shares().items()}
        others = ", ".join(
            f"{name or 'others'} ({rest:,} of {sizes[name]:,} segments)"
            for name, rest in left.items()
        )
        lines.append(f"still to come: {others}")
    else:
        lines.append(f"next: nbaudio evidence {shlex.quote(str(state.workspace.path))}")
    return "; ".join(lines)
