"""Measure how often claims of `nbaudio evidence` are false, and what a proof takes.

Are claims false in more than 5 % of corpora, and how many reviews does a proof take?

    python benchmarks/evidence.py [TRANSCRIPTS.jsonl] [--cases NAME ...] [--corpora 1000]
                                  [--segments 20000] [--reviews 2000] [--jobs 2] [--seed 42]

Corpora are simulated; draws, bets and claims are the package's own. The target is 98 % right with
confidence 95 %. Unless a case says otherwise, the claim is about all segments with a similarity of
0.8 or more, one more of them is wrong than the target allows, a third of the segments below are
wrong, and reviews are drawn in two rounds of equal size, the second one with the verdicts of the
first. Somebody looks after every verdict and stops at the first proof.

- everywhere: the wrong segments are placed at random.
- top: they are those with the highest similarities.
- recordings: whole recordings are wrong, just more than is allowed.
- budget: eight large speakers without faults and 150 small ones with faults. The claim is about a
  selection that takes one segment of each speaker in turn up to a budget; those that were reviewed
  do not ship. Draws are from the whole corpus.
- growth: after the first round, what was found wrong is changed (half of it mended and judged
  right, half still wrong) or removed, 2 % of the undrawn segments are removed at random, and new
  segments arrive, all wrong: about 1 %, as many as it takes for just more than is allowed. The
  second round draws from what is there then. The claim is about what is there at the end, and is
  looked at before any new draw and after each one.
- unfinished: of a stratified sheet a tenth is judged, then 300 rows of a random one, then ten rows
  of each in turns. The wrong segments are those of the domain that the stratified sheet draws most:
  the least similar ones.
- rules: 20 rules of selection (thresholds, speakers, budgets), each with slightly more faults than
  allowed, are tried in turn; the k-th one has 6 / (pi k)^2 of the error, and the first that is
  proven ships.
- hours: the longest segments are wrong, and the claim is about hours, with an error of 0.025.
- misranked: the wrong segments are those with the lowest risk; the second round has a risk that is
  learned from the first.
- frozen: the first half of the reviews is random. Segments are in 2,000 groups of no meaning; a
  model that is overfitted to the verdicts gives groups with a fault a high risk. What ships has a
  low risk. With `all verdicts` the claim rests on both halves, which is not valid: hence a
  threshold on risk is frozen. With `after the freeze` it rests on the second half.

In other cases than these two, the risk that the strategy `risk` uses is noise.

Columns:

- false: the share of corpora in which a proof is ever seen although less than the target is right.
  Required: at most 0.05.
- covered: the share in which the two-sided interval after all reviews holds the truth (of the first
  rule, in `rules`). Required: at least 0.95.
- seconds: the mean CPU time of a corpus.

A row that does not meet what is required is marked with *; the standard error of a share of 0.05 is
0.007 with 1,000 corpora.

Power is measured on corpora that meet the target. The chance of being wrong depends on the
similarity: `flat` is 1 % everywhere; of the others, the position is such that 1 % of the segments
with a similarity of 0.8 or more are expected to be wrong. One round is drawn, of up to twice
`--reviews`.

The same with a risk: `auc50` to `auc95` (faults as in `gradual`) have a calibrated one with this
area under the ROC curve, for normal signals; `oracle` has the truth. In two cases 300 of all
segments are drawn at random first, then 300 with the strategy, then the others; all count. In
`misled`, the risk is useless and claims an area of 0.9. In `learned`, segments have six signals,
wrong ones are noisy, cut off or of narrow band, and `review.risk` learns a risk before each round.
`model alone` reviews the segments in the order of risk, most suspicious first: as nothing follows
from them about others, a proof needs all but those that may be wrong.

- proven: the share of corpora in which a proof is seen.
- median: the number of reviews after which it is first seen, inside and outside of the domain;
  corpora without one count as more.
- limit: ln 20 / T, where T is the least value for which the sum over strata of M kl_ub(p, T)
  reaches the number of wrong segments that is not allowed; M is the number of segments of a stratum
  in the domain, p the share of them that is wrong, and kl_ub(p, T) the largest q whose
  Kullback-Leibler divergence from p is at most T. It is what the best allocation to these strata
  would need with replacement, without a draw outside of the domain. The column has the median. With
  a risk, strata are 400 quantiles of it with the rates that it gives them (`misled`: 0.01;
  `learned`: 20 with the true rates).
- ratio: median / limit. Wanted: at most 1.3.

Similarities follow a fit to 1,000 segments of ParlaSpeech-HR, transcripts against a recognizer: 6.5
% are exactly 1; of the others 1 - similarity is lognormal, 70 % with median 0.0523 and sigma 0.570,
30 % with median 0.0430 and sigma 1.188 (maximum likelihood), and at most 2. Quantiles of 1 -
similarity below 1, data and fit: 10 % 0.012, 0.012; 50 % 0.047, 0.047; 90 % 0.158, 0.162; 95 %
0.229, 0.250; 98 % 0.490, 0.415. With a file of transcripts its own similarities are drawn instead.
"""

import argparse
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from nbaudio.core.hashing import hash_column
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.proof.betting import Array, Bools, Draws, Frame, Ints, Values, bet
from nbaudio.proof.claims import Part
from nbaudio.proof.proof_state import ProofState
from nbaudio.review.allocation import least_divergence
from nbaudio.review.risk import refresh
from nbaudio.review.rounds import OUTCOMES, Round
from nbaudio.review.sampling import draw_from, reached, salt_of, strata_of
from nbaudio.review.state import Verdict, append_verdicts, content_hashes
from nbaudio.tables.workspace import Workspace

TARGET, CONFIDENCE, THRESHOLD = 0.98, 0.95, 0.8
ERROR = 1 - CONFIDENCE
WANTED_RATIO = 1.3
REASONS = 20
FIRST, NOON = 300, "2026-11-21T12:00:00Z"
BATCH = 5


class Task(NamedTuple):
    """A few corpora of one case, or of one error curve."""

    name: str
    first: int
    corpora: int
    segments: int
    reviews: int
    seed: int
    source: Array | None


class Corpus(NamedTuple):
    """A made-up corpus; arrays by segment."""

    pool: pl.DataFrame
    score: Array
    seconds: Array
    speaker: Ints
    recording: Ints


class Outcome(NamedTuple):
    """What the reviews of one corpus gave."""

    case: str
    strategy: str
    seconds: float
    false: bool = False
    covered: bool = False
    reviews: float = math.inf  # until a proof
    limit: float = math.nan


class Sheets(NamedTuple):
    """What was drawn, and by which rounds, in order; items are places in the corpus."""

    frames: tuple[Frame, ...]
    round: Ints
    item: Ints


class Judged(ProofState):
    """A state that holds draws and labels in memory; each segment is a row.

    Those that were removed come last: `count` segments are there, by default all.
    """

    def __init__(
        self,
        seconds: Array,
        draws: Draws,
        label: Sequence[str | None],
        count: int | None = None,
    ) -> None:
        is_there = np.arange(len(seconds)) < (len(seconds) if count is None else count)
        rows = {
            "segments": is_there.astype(np.int64),
            "hours": seconds / 3600 * is_there,
            "words": seconds * 2.5 * is_there,
            "is_there": is_there,
        }
        words = ("right", "wrong", "unsure")
        # These replace properties that are computed once from a workspace.
        self.__dict__.update(
            verdict_codes=np.array([-1 if word is None else words.index(word) for word in label]),
            rows=pl.DataFrame(rows),
            draws=draws,
        )

    def amounts(self, what: str, where: Bools) -> Values:
        """Return what each segment counts for; those outside of the part `where` count for 0."""
        return Values.of(self.rows[what].to_numpy() * where)

    def sum(self, what: str, where: Bools) -> float:
        """Return what the segments of a part count for together."""
        return self.amounts(what, where).total


# --- corpora


def similarities(rng: np.random.Generator, count: int, source: Array | None) -> Array:
    """Made-up similarities, or a sample of real ones."""
    if source is not None:
        return rng.choice(source, count)
    wide = rng.random(count) < 0.30
    distance = np.where(
        wide,
        rng.lognormal(np.log(0.0430), 1.188, count),
        rng.lognormal(np.log(0.0523), 0.570, count),
    )
    return np.where(rng.random(count) < 0.065, 1.0, 1 - np.minimum(distance, 2.0))


def names(count: int) -> list[str]:
    """The ids of segments; their numbers are their places."""
    return [f"s{number}" for number in range(count)]


def pool_of(score: Array, speaker: Ints, recording: Ints) -> pl.DataFrame:
    """The table that sampling reads."""
    noise = np.random.default_rng(len(score)).beta(0.3, 20, len(score))
    columns = {"segment_id": names(len(score)), "similarity": score, "risk": noise}
    named = {
        "speaker_id": pl.Series(speaker).cast(pl.String),
        "recording_id": pl.Series(recording).cast(pl.String),
    }
    return pl.DataFrame(columns | named)


def corpus_of(rng: np.random.Generator, task: Task) -> Corpus:
    """Return segments of 60 speakers in 400 recordings of various sizes.

    Nothing is said about which of them are wrong.
    """
    count = task.segments
    score, seconds = (
        similarities(rng, count, task.source),
        np.clip(rng.lognormal(np.log(6.0), 0.6, count), 1.0, 30.0),
    )
    size = rng.lognormal(0.0, 1.0, 400)
    recording = rng.choice(400, count, p=size / size.sum())
    speaker = recording % 60
    return Corpus(pool_of(score, speaker, recording), score, seconds, speaker, recording)


def not_allowed(size: float) -> int:
    """The least number of wrong segments that is not allowed."""
    return math.floor((1 - TARGET) * size + 1e-6) + 1


def outside(rng: np.random.Generator, corpus: Corpus) -> Bools:
    """Faults of the segments below the threshold."""
    return (corpus.score < THRESHOLD) & (rng.random(len(corpus.score)) < 1 / 3)


def first_of(order: Ints, domain: Bools, number: int) -> Bools:
    """The first segments of an order that are in the domain."""
    is_first = np.zeros(len(domain), dtype=bool)
    is_first[order[domain[order]][:number]] = True
    return is_first


# --- reviews


def places_of(rows: pl.DataFrame) -> Ints:
    """The places of segments in the corpus."""
    return rows["segment_id"].str.slice(1).cast(pl.Int64).to_numpy()


def plan(
    pool: pl.DataFrame, size: int, strategy: str, n: int, *, seed: int, rounds: Sequence[Round] = ()
) -> tuple[Frame, pl.DataFrame]:
    """Draw a sheet; return what it could draw, and its rows; the population has `size` segments."""
    reached_segments = reached(rounds).with_columns(reached=pl.lit(value=True))
    facts = pool.join(reached_segments, on="segment_id", how="left", maintain_order="left")
    strata = strata_of(
        facts.with_columns(pl.col("reached").fill_null(value=False)),
        strategy=strategy,
        threshold=THRESHOLD,
    )
    ids = pool["segment_id"]
    drawn = draw_from(
        strata,
        lambda rows, salt: hash_column(ids.gather(rows), salt),
        n=n,
        salt=salt_of(seed, rounds),
    )
    # A frame is stored by its rows: a stratum of which nothing is left is not in it.
    used = np.flatnonzero(strata.counts)
    place_of = np.full(len(strata.counts) + 1, -1)
    place_of[used] = np.arange(len(used))
    stratum = np.full(size, -1, dtype=np.int64)
    stratum[places_of(pool)] = place_of[strata.number]
    weights = np.maximum(strata.weights[used], 1e-300)
    rates = None if strata.rates is None else strata.rates[used]
    sizes = strata.counts[used].astype(float)
    frame = Frame(stratum, stratum >= 0, sizes, weights / weights.sum(), rates)
    return frame, drawn.select(ids.gather(drawn["place"]))


def round_of(rows: pl.DataFrame, strategy: str, wrong: Bools, reached: int) -> Round:
    """A round of which so many rows were judged."""
    verdict = np.where(wrong[places_of(rows)], "wrong", "right")
    line = pl.int_range(pl.len(), dtype=pl.Int64)
    rows = rows.with_columns(
        line=pl.when(line < reached).then(line),
        skipped=pl.lit(value=False),
        ended=pl.lit(value=False),
        verdict=pl.Series(verdict, dtype=OUTCOMES),
    )
    return Round(
        "round",
        strategy,
        rows.with_columns(verdict=pl.when(pl.col("line").is_not_null()).then("verdict")),
    )


def in_rounds(
    corpus: Corpus,
    wrong: Bools,
    planned: Sequence[tuple[str, int]],
    *,
    seed: int,
    learn: Callable[[Ints], Array] | None = None,
) -> Sheets:
    """Draw and judge rounds one after the other.

    Each later round has the risk that `learn` returns for what was judged before.
    """
    frames, sheets, rounds, pool = list[Frame](), list[Ints](), list[Round](), corpus.pool
    for strategy, n in planned:
        if learn is not None and sheets:
            pool = pool.with_columns(risk=pl.Series(learn(np.concatenate(sheets))))
        frame, rows = plan(pool, len(wrong), strategy, n, seed=seed, rounds=rounds)
        frames.append(frame)
        sheets.append(places_of(rows))
        rounds.append(round_of(rows, strategy, wrong, n))
    number = np.repeat(np.arange(len(sheets)), [len(sheet) for sheet in sheets])
    return Sheets(tuple(frames), number, np.concatenate(sheets))


def in_two_rounds(corpus: Corpus, wrong: Bools, strategy: str, n: int, seed: int) -> Sheets:
    """Draw and judge half of the reviews, then plan the other half."""
    return in_rounds(corpus, wrong, [(strategy, n // 2), (strategy, n - n // 2)], seed=seed)


def state_of(corpus: Corpus, wrong: Bools, sheets: Sheets) -> Judged:
    """The state after all reviews of a corpus that does not change."""
    item, none = sheets.item, np.zeros(len(sheets.item), dtype=bool)
    no_items = np.zeros(0, dtype=np.int64)
    draws = Draws(
        sheets.frames,
        round=sheets.round,
        item=item,
        wrong=wrong[item],
        unsure=none,
        replaced=none,
        first=pl.Series(item).is_first_distinct().to_numpy(),
        outside=no_items,
        outside_wrong=no_items.astype(bool),
        outside_unsure=no_items.astype(bool),
    )
    label = np.full(len(wrong), None, dtype=object)
    label[item] = np.where(wrong[item], "wrong", "right")
    return Judged(corpus.seconds, draws, label.tolist())


# --- claims


def first_proof(part: Part, what: str = "segments", error: float = ERROR) -> int:
    """Return after how many draws somebody who looks after each one sees a proof of the target.

    It is -1 if that never happens.
    """
    null = np.array([part.least_not_allowed(what, TARGET)])
    return int(bet(part.state.draws, part.value(what), null, level=-math.log(error)).crossed[0])


def judge(part: Part, wrong: Bools, *, seen: bool, what: str = "segments") -> tuple[bool, bool]:
    """Return whether a proof is false, and whether the interval of the claim holds the truth.

    The proof is one that was seen, or the claim after all reviews.
    """
    claim = part.by(what, target=TARGET, error=ERROR / 2, high_error=ERROR / 2)
    amount = part.state.amounts(what, part.ships).sums
    truth = 1 - float(amount[wrong].sum() / amount.sum())
    false = (seen or claim["proven"]) and truth < TARGET - 1e-12
    return false, claim["low"] - 1e-9 <= truth <= claim["high"] + 1e-9


def simple(
    corpus: Corpus, domain: Bools, wrong: Bools, strategy: str, *, n: int, seed: int
) -> tuple[bool, bool]:
    """Review in two rounds, and look at the claim about a domain."""
    part = Part(state_of(corpus, wrong, in_two_rounds(corpus, wrong, strategy, n, seed)), domain)
    return judge(part, wrong, seen=first_proof(part) >= 0)


# --- cases: each returns whether a false proof was ever seen, and whether the interval at the end
# holds the truth


def everywhere(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """Wrong segments at random."""
    corpus = corpus_of(rng, task)
    domain = corpus.score >= THRESHOLD
    wrong = outside(rng, corpus) | first_of(
        rng.permutation(task.segments), domain, not_allowed(domain.sum())
    )
    return simple(corpus, domain, wrong, strategy, n=task.reviews, seed=seed)


def top(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """Wrong segments where the similarity is highest."""
    corpus = corpus_of(rng, task)
    domain = corpus.score >= THRESHOLD
    order = np.lexsort([rng.random(task.segments), -corpus.score])
    wrong = outside(rng, corpus) | first_of(order, domain, not_allowed(domain.sum()))
    return simple(corpus, domain, wrong, strategy, n=task.reviews, seed=seed)


def recordings(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """Whole recordings that are wrong."""
    corpus = corpus_of(rng, task)
    domain = corpus.score >= THRESHOLD
    size, missing = np.bincount(corpus.recording[domain], minlength=400), not_allowed(domain.sum())
    chosen = np.zeros(400, dtype=bool)
    for number in rng.permutation(400).tolist():
        if 0 < size[number] <= missing:
            chosen[number] = True
            missing -= size[number]
    if missing > 0:
        enough = np.flatnonzero(~chosen & (size >= missing))
        chosen[enough[size[enough].argmin()]] = True
    return simple(
        corpus,
        domain,
        outside(rng, corpus) | chosen[corpus.recording],
        strategy,
        n=task.reviews,
        seed=seed,
    )


def in_turn(rng: np.random.Generator, speaker: Ints, budget: int) -> Bools:
    """One segment of each speaker in turn, up to a budget."""
    order = rng.permutation(len(speaker))
    turn = (
        pl.DataFrame({"speaker": speaker[order]})
        .select(pl.int_range(pl.len()).over("speaker"))
        .to_series()
        .to_numpy()
    )
    return first_of(
        order[np.argsort(turn, kind="stable")], np.ones(len(speaker), dtype=bool), budget
    )


def budget(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """A selection that favours small speakers, without what was reviewed."""
    corpus = corpus_of(rng, task)
    small = rng.random(task.segments) < 0.2
    speaker = np.where(
        small, 8 + rng.integers(0, 150, task.segments), rng.integers(0, 8, task.segments)
    )
    corpus = corpus._replace(speaker=speaker, pool=pool_of(corpus.score, speaker, corpus.recording))
    domain = in_turn(rng, speaker, task.segments // 6)
    wrong = first_of(rng.permutation(task.segments), domain & small, not_allowed(domain.sum()))
    sheets = in_two_rounds(corpus, wrong, strategy, task.reviews, seed)
    state = state_of(corpus, wrong, sheets)
    drawn = np.isin(np.arange(task.segments), sheets.item)
    part = Part(state, domain & ~drawn, domain & drawn)
    # After each draw: how many ship, how many wrong ones were found, and the null that the claim is
    # about.
    inside = domain[sheets.item]
    faults, ships = np.cumsum(inside & wrong[sheets.item]), domain.sum() - np.cumsum(inside)
    null = faults + np.floor((1 - TARGET) * ships + 1e-6).astype(int) + 1
    assert null[-1] == part.least_not_allowed("segments", TARGET)
    nulls = np.arange(null.min(), null.max() + 1)
    path = bet(state.draws, part.value("segments"), nulls.astype(float), level=-math.log(ERROR))
    crossed = path.crossed[null - null.min()]
    proven = (crossed >= 0) & (crossed <= np.arange(1, len(null) + 1))
    too_many = wrong.sum() - faults > (1 - TARGET) * ships + 1e-6
    false, covered = judge(part, wrong, seen=False)
    return bool((proven & too_many).any()) or false, covered


def growth(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """A corpus that changes between two rounds, in ways that follow from verdicts."""
    corpus, old, half = corpus_of(rng, task), task.segments, task.reviews // 2
    domain = corpus.score >= THRESHOLD
    wrong = outside(rng, corpus) | first_of(
        rng.permutation(old), domain, not_allowed(domain.sum()) // 2
    )
    frame, rows = plan(corpus.pool, old, strategy, half, seed=seed)
    item = places_of(rows)
    drawn = np.isin(np.arange(old), item)
    changed = drawn & wrong & (rng.random(old) < 0.5)
    mended = changed & (rng.random(old) < 0.5)
    is_removed = (drawn & wrong & ~changed) | (~drawn & (rng.random(old) < 0.02))
    in_selection, still = ~is_removed & domain, wrong & ~is_removed & ~mended
    new = 0
    while (still & domain).sum() + new < not_allowed(in_selection.sum() + new):
        new += 1
    # The population: what is there, what is new, then what is gone.
    count = int((~is_removed).sum()) + new
    order = np.concatenate(
        [np.flatnonzero(~is_removed), np.full(new, -1), np.flatnonzero(is_removed)]
    )
    place = np.argsort(np.concatenate([np.flatnonzero(~is_removed), np.flatnonzero(is_removed)]))
    place += np.where(is_removed, new, 0)
    score = np.concatenate([corpus.score[~is_removed], rng.choice(corpus.score[domain], new)])
    seconds = np.where(order >= 0, corpus.seconds[order], corpus.seconds.mean())
    wrong_now = ((order < 0) | still[order])[:count]
    group = np.maximum(order[:count], 0)
    pool = pool_of(score, corpus.speaker[group], corpus.recording[group])
    reached = pl.DataFrame({"segment_id": [f"s{number}" for number in place[item]]})
    size = len(order)
    before = np.append(wrong_now, np.ones(size - count, dtype=bool))
    second_frame, more = plan(
        pool,
        size,
        strategy,
        task.reviews - half,
        seed=seed,
        rounds=[round_of(reached, strategy, before, half)],
    )
    same = (order >= 0) & ~is_removed[order] & ~changed[order]
    first_frame = Frame(
        np.where(order >= 0, frame.stratum[order], -1),
        (order >= 0) & (frame.stratum[order] >= 0) & same,
        frame.sizes,
        frame.weights,
    )
    items = np.concatenate([place[item], places_of(more)])
    none = np.zeros(len(more), dtype=bool)
    mended_items = place[mended]
    draws = Draws(
        (first_frame, second_frame),
        round=np.repeat([0, 1], [len(item), len(more)]),
        item=items,
        wrong=np.append(wrong[item] & ~changed[item], wrong_now[places_of(more)]),
        unsure=np.append(changed[item] & ~mended[item], none),
        replaced=np.append(changed[item] | (is_removed & wrong)[item], none),
        first=pl.Series(items).is_first_distinct().to_numpy(),
        outside=mended_items,
        outside_wrong=np.zeros(len(mended_items), dtype=bool),
        outside_unsure=np.zeros(len(mended_items), dtype=bool),
    )
    label = np.full(size, None, dtype=object)
    label[items] = np.where(before[items], "wrong", "right")
    label[place[changed & ~mended]] = None
    label[count:] = None
    ships = np.append(score >= THRESHOLD, np.zeros(size - count, dtype=bool))
    part = Part(Judged(seconds, draws, label.tolist(), count), ships)
    return judge(part, before, seen=first_proof(part) >= 0)


def unfinished(rng: np.random.Generator, _: str, task: Task, seed: int) -> tuple[bool, bool]:
    """Two sheets side by side."""
    corpus, size = corpus_of(rng, task), task.segments
    domain = corpus.score >= THRESHOLD
    order = np.lexsort([rng.random(size), corpus.score])
    wrong = outside(rng, corpus) | first_of(order, domain, not_allowed(domain.sum()))
    tenth = task.reviews // 10
    first_frame, rows = plan(corpus.pool, size, "stratified", task.reviews, seed=seed)
    second_frame, more = plan(
        corpus.pool,
        size,
        "random",
        task.reviews,
        seed=seed,
        rounds=[round_of(rows, "stratified", wrong, tenth)],
    )
    start = min(300, task.reviews - tenth)
    turns = np.concatenate(
        [np.zeros(tenth), np.ones(start), np.arange(task.reviews - tenth - start) // 10 % 2]
    ).astype(np.int64)
    item = np.zeros(len(turns), dtype=np.int64)
    for number, sheet in enumerate((rows, more)):
        is_turn = turns == number
        item[is_turn] = places_of(sheet)[: is_turn.sum()]
    part = Part(state_of(corpus, wrong, Sheets((first_frame, second_frame), turns, item)), domain)
    return judge(part, wrong, seen=first_proof(part) >= 0)


def rules(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """Many selections, of which the first that is proven ships."""
    corpus = corpus_of(rng, task)
    thresholds = [corpus.score >= at for at in (0.98, 0.96, 0.94, 0.92, 0.9, 0.85, 0.8)]
    speakers = [(corpus.score >= THRESHOLD) & (corpus.speaker % 7 == number) for number in range(7)]
    budgets = [
        thresholds[-1] & in_turn(rng, corpus.speaker, share * task.segments // 20)
        for share in (2, 4, 6, 8, 10, 12)
    ]
    domains = [*thresholds, *speakers, *budgets]
    wrong = outside(rng, corpus)
    for domain in domains:
        free = domain & ~wrong
        wrong |= first_of(
            rng.permutation(task.segments),
            free,
            max(not_allowed(domain.sum()) - int(wrong[domain].sum()), 0),
        )
    state = state_of(corpus, wrong, in_two_rounds(corpus, wrong, strategy, task.reviews, seed))
    tried = [Part(state, domains[number]) for number in rng.permutation(REASONS)]
    seen = any(
        first_proof(part, error=ERROR * 6 / (math.pi * (k + 1)) ** 2) >= 0
        for k, part in enumerate(tried)
    )
    return judge(tried[0], wrong, seen=seen)


def hours(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """The longest segments are wrong."""
    corpus = corpus_of(rng, task)
    domain = corpus.score >= THRESHOLD
    order = np.lexsort([rng.random(task.segments), -corpus.seconds])
    order = order[domain[order]]
    sums = np.cumsum(corpus.seconds[order])
    number = int(np.searchsorted(sums, (1 - TARGET) * sums[-1] * (1 + 1e-9), "right")) + 1
    wrong = outside(rng, corpus) | first_of(order, domain, number)
    part = Part(
        state_of(corpus, wrong, in_two_rounds(corpus, wrong, strategy, task.reviews, seed)), domain
    )
    return judge(part, wrong, seen=first_proof(part, "hours", ERROR / 2) >= 0, what="hours")


def by_group(group: Ints, item: Ints, wrong: Bools, rows: float) -> Array:
    """Return a risk of each segment.

    It is the rate of wrong ones among what was judged of its group, shrunk to 0.02 by so many rows.
    """
    judged, faulty = (
        np.bincount(group[items], minlength=group.max() + 1) for items in (item, item[wrong[item]])
    )
    return ((faulty + 0.02 * rows) / (judged + rows))[group]


def misranked(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """Wrong segments where the risk is lowest."""
    corpus = corpus_of(rng, task)
    domain = corpus.score >= THRESHOLD
    order = np.lexsort([rng.random(task.segments), corpus.pool["risk"].to_numpy()])
    wrong = outside(rng, corpus) | first_of(order, domain, not_allowed(domain.sum()))
    planned = [(strategy, task.reviews // 2)] * 2
    sheets = in_rounds(
        corpus,
        wrong,
        planned,
        seed=seed,
        learn=lambda item: by_group(corpus.speaker, item, wrong, 10.0),
    )
    part = Part(state_of(corpus, wrong, sheets), domain)
    return judge(part, wrong, seen=first_proof(part) >= 0)


def frozen(rng: np.random.Generator, strategy: str, task: Task, seed: int) -> tuple[bool, bool]:
    """A threshold on a risk that is overfitted to verdicts."""
    corpus, half = corpus_of(rng, task), task.reviews // 2
    domain, group = corpus.score >= THRESHOLD, rng.integers(0, 2000, task.segments)
    # What is found and left out does not ship.
    number = not_allowed(domain.sum()) + round(1.5 * (1 - TARGET) * half)
    wrong = outside(rng, corpus) | first_of(rng.permutation(task.segments), domain, number)
    frame, rows = plan(corpus.pool, task.segments, "random", half, seed=seed)
    item = places_of(rows)
    risk = by_group(group, item, wrong, 0.1)
    corpus = corpus._replace(pool=corpus.pool.with_columns(risk=pl.Series(risk)))
    rounds = [round_of(rows, "random", wrong, half)]
    later, more = plan(
        corpus.pool, task.segments, "random", task.reviews - half, seed=seed, rounds=rounds
    )
    ships = domain & (risk < 0.5)
    both = np.concatenate([item, places_of(more)])
    sheets = Sheets((frame, later), np.repeat([0, 1], [len(item), len(more)]), both)
    if strategy == "after the freeze":
        sheets = Sheets((later,), np.zeros(len(more), dtype=np.int64), places_of(more))
    state = state_of(corpus, wrong, sheets)
    if strategy == "after the freeze":
        facts = {
            "outside": item,
            "outside_wrong": wrong[item],
            "outside_unsure": np.zeros(len(item), dtype=bool),
        }
        label = np.full(task.segments, None, dtype=object)
        label[both] = np.where(wrong[both], "wrong", "right")
        state = Judged(corpus.seconds, replace(state.draws, **facts), label.tolist())
    part = Part(state, ships)
    return judge(part, wrong, seen=first_proof(part) >= 0)


Case = Callable[[np.random.Generator, str, Task, int], tuple[bool, bool]]
BOTH = ("random", "stratified", "risk")
CASES: dict[str, tuple[Case, tuple[str, ...]]] = {
    "everywhere": (everywhere, BOTH),
    "top": (top, BOTH),
    "recordings": (recordings, (*BOTH, "recording")),
    "budget": (budget, (*BOTH, "speaker")),
    "growth": (growth, BOTH),
    "unfinished": (unfinished, ("both",)),
    "rules": (rules, BOTH),
    "hours": (hours, BOTH),
    "misranked": (misranked, ("risk",)),
    "frozen": (frozen, ("all verdicts", "after the freeze")),
}
NOT_VALID = "all verdicts"


# --- power


def logistic(s: Array, middle: float, width: float) -> Array:
    """From 1 far below `middle` to 0 far above."""
    return 1 / (1 + np.exp(np.clip((s - middle) / width, -50, 50)))


#: Probability that a segment is wrong, by its similarity and the position of the curve.
CURVES: dict[str, Callable[[Array, float], Array]] = {
    "flat": lambda s, _: np.full(len(s), 0.01),
    "steep": lambda s, middle: 0.002 + 0.9 * logistic(s, middle, 0.02),
    "gradual": lambda s, middle: 0.002 + 0.9 * logistic(s, middle, 0.05),
    "floor": lambda s, middle: 0.007 + 0.9 * logistic(s, middle, 0.02),
}


def chances(curve: str, score: Array) -> Array:
    """Return probabilities with a mean of 1 % at or above the threshold.

    They are for curves that have a position.
    """
    low, high = 0.0, 1.5
    for _ in range(40):
        middle = (low + high) / 2
        more = CURVES[curve](score[score >= THRESHOLD], middle).mean() > 0.01
        low, high = (low, middle) if more else (middle, high)
    return CURVES[curve](score, low)


def divergence(p: Array, q: Array) -> Array:
    """Kullback and Leibler's, of Bernoulli variables."""
    with np.errstate(divide="ignore", invalid="ignore"):
        distance: Array = np.where(p > 0, p * np.log(p / q), 0.0) + np.where(
            p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0
        )
    return distance


def limit(frame: Frame, domain: Bools, wrong: Bools) -> float:
    """The reviews that the best allocation to the strata of a frame would need; see the module."""
    number = len(frame.weights)
    size = np.bincount(frame.stratum[domain], minlength=number).astype(float)
    share = np.bincount(frame.stratum[domain & wrong], minlength=number) / np.maximum(size, 1)
    rate = [0.0, 1.0]
    for _ in range(40):
        middle = sum(rate) / 2
        low, high = share.copy(), np.ones(number)
        for _ in range(40):
            q = (low + high) / 2
            inside = divergence(share, q) <= middle
            low, high = np.where(inside, q, low), np.where(inside, high, q)
        rate[int(size @ low >= not_allowed(domain.sum()))] = middle
    return -math.log(ERROR) / rate[1]


def limit_of_risk(domain: Bools, chance: Array, wrong: Array, strata: int = 400) -> float:
    """The limit with strata of a risk; `wrong` are the rates of segments."""
    order = np.flatnonzero(domain)[np.argsort(chance[domain], kind="stable")]
    parts = np.array_split(wrong[order], strata)
    share = np.clip([part.mean() for part in parts], 1e-9, 1 - 1e-9)
    return -math.log(ERROR) / least_divergence(
        np.array([len(part) for part in parts], dtype=float), share, not_allowed(domain.sum())
    )


#: The area under the curve of a risk, and what it claims.
RISKS = {
    "auc50": (0.5, 0.5),
    "auc80": (0.8, 0.8),
    "auc90": (0.9, 0.9),
    "auc95": (0.95, 0.95),
    "misled": (0.5, 0.9),
}
WITH_RISK = (*RISKS, "oracle", "learned")
ALONE = "model alone"


def given_risk(rng: np.random.Generator, name: str, domain: Bools, wrong: Bools) -> Array:
    """A risk of each segment."""
    if name == "oracle":
        return wrong.astype(float)
    base = np.where(domain, 0.01, wrong[~domain].mean())
    area, claimed = (math.sqrt(2) * NormalDist().inv_cdf(auc) for auc in RISKS[name])
    signal = rng.normal(0.0, 1.0, len(wrong)) + (
        area * wrong if area == claimed else claimed * (rng.random(len(wrong)) < base)
    )
    risk: Array = 1 / (1 + np.exp(-(np.log(base / (1 - base)) + claimed * signal - claimed**2 / 2)))
    return risk


def power_with_risk(
    rng: np.random.Generator, name: str, strategy: str, task: Task, seed: int
) -> tuple[float, float]:
    """The number of reviews until a proof, and the limit of the risk."""
    corpus = corpus_of(rng, task)
    domain = corpus.score >= THRESHOLD
    wrong = rng.random(task.segments) < chances("gradual", corpus.score)
    learned = name == "learned"
    risk, signals = (
        (None, signals_of(rng, wrong)) if learned else (given_risk(rng, name, domain, wrong), None)
    )
    if risk is not None:
        corpus = corpus._replace(pool=corpus.pool.with_columns(risk=pl.Series(risk)))

    def learn(item: Ints) -> Array:
        nonlocal risk
        risk = learn_risk(corpus, wrong, signals, item)
        return risk

    if strategy == ALONE:
        heard = np.zeros(0, dtype=np.int64)
        if learned:
            heard = places_of(plan(corpus.pool, len(wrong), "random", FIRST, seed=seed)[1])
            risk = learn(heard)
        return alone(rng, domain, wrong, risk, heard), math.nan
    planned = [(strategy, 2 * task.reviews)]
    if learned or name == "misled":
        planned = [("random", FIRST), (strategy, FIRST), (strategy, 2 * task.reviews - 2 * FIRST)]
    sheets = in_rounds(
        corpus, wrong, planned, seed=seed, learn=learn if learned and strategy == "risk" else None
    )
    crossed = first_proof(Part(state_of(corpus, wrong, sheets), domain))
    true_risk = {"learned": wrong.astype(float), "misled": np.full(len(wrong), 0.01)}.get(
        name, risk
    )
    least = math.nan
    if risk is not None:
        least = limit_of_risk(domain, risk, true_risk, 20 if learned else 400)
    return crossed if crossed >= 0 else math.inf, least


def alone(rng: np.random.Generator, domain: Bools, wrong: Bools, risk: Array, heard: Ints) -> float:
    """The reviews in order of risk until all that nobody has heard may be wrong.

    Those that were `heard` before count once.
    """
    is_heard = np.zeros(len(wrong), dtype=bool)
    is_heard[heard] = True
    left = domain & ~is_heard
    order = np.flatnonzero(left)[np.lexsort([rng.random(int(left.sum())), -risk[left]])]
    num_found = wrong[domain & is_heard].sum() + np.cumsum(wrong[order])
    num_left = len(order) - np.arange(1, len(order) + 1)
    is_proven = num_found + num_left < not_allowed(int(domain.sum()))
    return float(len(heard) + np.argmax(is_proven) + 1)


def signals_of(rng: np.random.Generator, wrong: Bools) -> pl.DataFrame:
    """Made-up signals: wrong segments have one of three faults, and right ones seldom."""
    kind = np.where(wrong, rng.integers(1, 4, len(wrong)), 0)
    return pl.DataFrame(
        {
            "snr_db": rng.normal(22, 6, len(wrong)) - 14 * (kind == 1),
            "bandwidth_hz": rng.normal(7200, 500, len(wrong)) - 2500 * (kind == 2),
            "cut_end": rng.random(len(wrong)) < np.where(kind == 3, 0.8, 0.04),
            "speech_rate": rng.normal(14, 3, len(wrong)),
            "dc_offset": rng.normal(0, 1e-3, len(wrong)),
            "leading_silence_s": rng.exponential(0.2, len(wrong)),
        }
    )


def learn_risk(corpus: Corpus, wrong: Bools, signals: pl.DataFrame, item: Ints) -> Array:
    """The column `risk` of a workspace with these signals and verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.create(Path(folder) / "w")
        facts = {
            "source_start": pl.Series(["0"] * len(wrong)),
            "source_end": pl.Series(corpus.seconds).cast(pl.String),
        }
        table = corpus.pool.drop("risk").hstack(signals).with_columns(**facts, text=pl.lit("text"))
        recordings = pl.DataFrame({"recording_id": table["recording_id"].unique()})
        workspace.save(segments=table, recordings=recordings)
        judged = workspace.segments[item]
        verdicts = zip(
            judged["segment_id"],
            content_hashes(judged),
            np.where(wrong[item], "noise", "ok").tolist(),
            strict=True,
        )
        append_verdicts(
            workspace,
            [
                Verdict(key, content, word, "", None, "ana", NOON, "one")
                for key, content, word in verdicts
            ],
        )
        facts_of_model = refresh(workspace)
        if "missing" in facts_of_model:
            return np.full(len(wrong), 0.02)
        return workspace.segments["risk"].to_numpy()


def power(
    rng: np.random.Generator, curve: str, strategy: str, task: Task, seed: int
) -> tuple[float, float]:
    """The number of reviews until a proof, and the limit."""
    corpus = corpus_of(rng, task)
    domain = corpus.score >= THRESHOLD
    wrong = rng.random(task.segments) < chances(curve, corpus.score)
    frame, rows = plan(corpus.pool, task.segments, strategy, 2 * task.reviews, seed=seed)
    sheets = Sheets((frame,), np.zeros(len(rows), dtype=np.int64), places_of(rows))
    crossed = first_proof(Part(state_of(corpus, wrong, sheets), domain))
    return crossed if crossed >= 0 else math.inf, limit(frame, domain, wrong)


# --- the command

EVERY = [*CASES, *CURVES, *WITH_RISK]


def strategies_of(task: Task) -> Sequence[str]:
    """Return the strategies that a case or a curve is simulated with."""
    if task.name in CASES:
        return CASES[task.name][1]
    if task.name in WITH_RISK:
        return (*BOTH, ALONE)
    return BOTH[:2]


def simulate(task: Task) -> list[Outcome]:
    """What the corpora of a task give, with each strategy."""
    outcomes = []
    for number in range(task.first, task.first + task.corpora):
        for strategy in strategies_of(task):
            rng, start = (
                np.random.default_rng([task.seed, *task.name.encode(), number]),
                time.process_time(),
            )
            seed = int(rng.integers(2**31))
            facts: dict[str, Any]
            if task.name in CASES:
                facts = dict(
                    zip(
                        ("false", "covered"),
                        CASES[task.name][0](rng, strategy, task, seed),
                        strict=True,
                    )
                )
            else:
                measure = power_with_risk if task.name in WITH_RISK else power
                facts = dict(
                    zip(
                        ("reviews", "limit"),
                        measure(rng, task.name, strategy, task, seed),
                        strict=True,
                    )
                )
            outcomes.append(Outcome(task.name, strategy, time.process_time() - start, **facts))
    return outcomes


def row_of(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """A row of a table, of the outcomes of one case and strategy."""
    first = outcomes[0]
    seconds = round(float(np.mean([outcome.seconds for outcome in outcomes])), 2)
    names = {"case": first.case, "strategy": first.strategy, "corpora": len(outcomes)}
    if first.case in CASES:
        false, covered = (
            float(np.mean([getattr(outcome, name) for outcome in outcomes]))
            for name in ("false", "covered")
        )
        mark = "*" if false > ERROR + 1e-9 or covered < CONFIDENCE - 1e-9 else ""
        mark = "not valid" if first.strategy == NOT_VALID else mark
        return names | {
            "false": round(false, 3),
            "covered": round(covered, 3),
            "mark": mark,
            "seconds": seconds,
        }
    reviews, least = (
        np.array([getattr(outcome, name) for outcome in outcomes]) for name in ("reviews", "limit")
    )
    median, expected = (
        float(np.median(reviews)),
        float(np.nanmedian(least)) if np.isfinite(least).any() else math.nan,
    )
    return names | {
        "proven": round(float(np.isfinite(reviews).mean()), 3),
        "median": median,
        "limit": None if math.isnan(expected) else round(expected),
        "ratio": None if math.isnan(expected) else round(median / expected, 2),
        "mark": "*" if first.strategy in BOTH and median / expected > WANTED_RATIO else "",
        "seconds": seconds,
    }


def read_similarities(path: Path) -> Array:
    """Of a file of ParlaSpeech transcripts."""
    from nbaudio.formats import parlaspeech
    from nbaudio.text import similarity_column

    frame = parlaspeech.read(path, word_times="no").frame
    return similarity_column(frame["text"], frame["asr_text"]).drop_nulls().to_numpy()


def main() -> int:
    """Simulate and say what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("transcripts", nargs="?", type=Path)
    parser.add_argument("--cases", nargs="*", choices=EVERY, default=EVERY)
    parser.add_argument("--corpora", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=20_000)
    parser.add_argument("--reviews", type=int, default=2000)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    source = read_similarities(options.transcripts) if options.transcripts else None
    tasks = [
        Task(
            name,
            first,
            min(BATCH, options.corpora - first),
            options.segments,
            options.reviews,
            options.seed,
            source,
        )
        for name in options.cases
        for first in range(0, options.corpora, BATCH)
    ]
    results: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    rows: dict[tuple[str, str], dict[str, object]] = {}
    with worker_pool(EngineLocation("loky", options.jobs)) as run:
        for outcomes in run(simulate, tasks):
            for outcome in outcomes:
                key = (outcome.case, outcome.strategy)
                results[key].append(outcome)
                if len(results[key]) == options.corpora:
                    rows[key] = row_of(results[key])
                    print(rows[key], file=sys.stderr, flush=True)
    ordered = [rows[key] for key in sorted(rows, key=lambda key: options.cases.index(key[0]))]
    tables = [
        [row for row in ordered if (row["case"] in CASES) == required] for required in (True, False)
    ]
    with pl.Config(
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=160,
        tbl_formatting="MARKDOWN",
        tbl_hide_column_data_types=True,
    ):
        for table in filter(None, tables):
            with pl.Config(tbl_hide_dataframe_shape=True):
                print(pl.DataFrame(table, infer_schema_length=None), end="\n\n")
    bad, slow = (sum(row["mark"] == "*" for row in table) for table in tables)
    print(
        f"required and not met in {bad} of {len(tables[0])} rows; "
        f"more reviews than wanted in {slow} of {len(tables[1])} rows"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
