"""Do the intervals of `nbaudio evidence` hold, and what do strata save? Simulated corpora, the package's own functions.

    python benchmarks/evidence.py [TRANSCRIPTS.jsonl] [--corpora 1000] [--segments 20000] [--reviews 2000] [--jobs 2] [--seed 42]

For each error curve so many corpora are made up; each segment is wrong with the probability that the curve gives for its
similarity. From each corpus two samples are drawn with `review.sampling.draw`, judged, weighed with `evidence.weigh_rounds` and
evaluated with `evidence.curve` at all 201 thresholds: `--reviews` at random in one round, and half as many stratified, in three
rounds, the first with the threshold 0.8, the others with the lowest threshold whose estimate is good enough by then.

- covered: the share of corpora in which the 95 % interval holds the truth, at the worst threshold; thresholds that keep less than
  1 % of the corpus are counted as well. Required: 0.95.
- at once: the share in which the simultaneous band holds the truth at all thresholds. Required: 0.95.
- proven: the share in which a threshold is proven to reach 98 %, lowest: the median of the lowest ones.
- false: the share in which one is proven that does not reach it. Required: at most 0.05.
- width: mean width of the interval at the chosen threshold, the lowest at which the curve gives 98 % (the highest mean precision
  where none does). Required: stratified, with half the reviews, at most as wide as random.
- needs: the share of the reviews that would give stratified the same width, if width falls with the root of their number.
- limit: the least share that any stratification by similarity could need, however many are reviewed: the squared sum of
  sqrt(p (1 - p)) over the kept segments, divided by the number of all segments and the number of wrong kept ones.

Similarities follow a fit to 1,000 segments of ParlaSpeech-HR, transcripts against a recognizer: 6.5 % are exactly 1; of the
others 1 - similarity is lognormal, 70 % with median 0.0523 and sigma 0.570, 30 % with median 0.0430 and sigma 1.188 (maximum
likelihood), and at most 2. Quantiles of 1 - similarity below 1, data and fit: 10 % 0.012, 0.012; 50 % 0.047, 0.047; 90 % 0.158,
0.162; 95 % 0.229, 0.250; 98 % 0.490, 0.415. With a file of transcripts its own similarities are drawn instead.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.proof.precision_curves import curve
from nbaudio.proof.sampling_weights import weigh_rounds
from nbaudio.review.rounds import Round
from nbaudio.review.sampling import draw

PRECISION = 0.98
Array = NDArray[np.float64]


def logistic(s: Array, middle: float, width: float) -> Array:
    """From 1 far below `middle` to 0 far above."""
    return 1 / (1 + np.exp(np.clip((s - middle) / width, -50, 50)))


#: Probability that a segment is wrong, by its similarity.
CURVES: dict[str, Callable[[Array], Array]] = {
    "apart": lambda s: 0.001 + 0.95 * logistic(s, 0.65, 0.02),
    "steep": lambda s: 0.002 + 0.9 * logistic(s, 0.78, 0.02),
    "gradual": lambda s: 0.002 + 0.9 * logistic(s, 0.75, 0.05),
    "floor": lambda s: 0.01 + 0.9 * logistic(s, 0.8, 0.02),
    "flat": lambda s: np.full(len(s), 0.015),
    "top": lambda s: np.where(s == 1, 0.05, 0.003 + 0.8 * logistic(s, 0.8, 0.03)),
    "noisy": lambda s: np.clip(0.6 * (1 - s), 0.002, 1),
    "clean": lambda s: 0.0005 + 0.5 * logistic(s, 0.5, 0.05),
}


class Outcome(NamedTuple):
    """What one sample of one corpus gave; arrays by threshold."""

    covered: NDArray[np.bool_]
    at_once: bool
    proven: float
    false: bool
    width: float


def similarities(rng: np.random.Generator, count: int, source: Array | None) -> Array:
    """Made-up similarities, or a sample of real ones."""
    if source is not None:
        return rng.choice(source, count)
    wide = rng.random(count) < 0.30
    distance = np.where(wide, rng.lognormal(np.log(0.0430), 1.188, count), rng.lognormal(np.log(0.0523), 0.570, count))
    return np.where(rng.random(count) < 0.065, 1.0, 1 - np.minimum(distance, 2.0))


def review(pool: pl.DataFrame, wrong: NDArray[np.bool_], plan: list[int], strategy: str, seed: int) -> pl.DataFrame:
    """Draw and judge so many in each round; the curve after the last."""
    rounds: list[Round] = []
    threshold = 0.8
    verdicts = pool.select("segment_id", verdict=pl.Series(np.where(wrong, "wrong", "right")))
    for n in plan:
        drawn = draw(pool, strategy=strategy, n=n, seed=seed, threshold=threshold, rounds=rounds)
        rows = drawn.join(verdicts, on="segment_id", how="left", maintain_order="left")
        name, before = f"round {len(rounds)}", tuple(one.name for one in rounds)
        rounds.append(
            Round(name, strategy, n, threshold, rows.select("segment_id", "stratum", "probability", "verdict"), after=before)
        )
        found = curve(weigh_rounds(pool, rounds), precision=PRECISION)
        good = found.filter(pl.col("precision") >= PRECISION)["threshold"]
        threshold = float(good[0]) if len(good) else threshold
    return found


def judge(found: pl.DataFrame, truth: Array, chosen: int) -> Outcome:
    """Compare a curve with the truth."""
    columns = {name: found[name].to_numpy() for name in ("low", "high", "low_all", "high_all", "proven", "threshold")}
    near = 1e-9
    proven = columns["proven"]
    known = ~np.isnan(truth)
    return Outcome(
        covered=~known | (columns["low"] - near <= truth) & (truth <= columns["high"] + near),
        at_once=bool((~known | (columns["low_all"] - near <= truth) & (truth <= columns["high_all"] + near)).all()),
        proven=float(columns["threshold"][proven].min()) if proven.any() else np.nan,
        false=bool((proven & (truth < PRECISION)).any()),
        width=float(columns["high"][chosen] - columns["low"][chosen]),
    )


def true_precision(score: Array, wrong: Array, grid: Array) -> Array:
    """Above each threshold; NaN where nothing is."""
    order = np.argsort(score)
    first = np.searchsorted(score[order], grid)
    bad = np.append(np.cumsum(wrong[order][::-1].astype(float))[::-1], 0.0)[first]
    kept = len(score) - first
    return np.where(kept > 0, 1 - bad / np.maximum(kept, 1), np.nan)


class Task(NamedTuple):
    """A few corpora of one curve."""

    curve: str
    first: int
    count: int
    segments: int
    reviews: int
    seed: int
    source: Array | None


def simulate(task: Task) -> tuple[str, list[tuple[Outcome, Outcome]], Array]:
    """The outcomes of both strategies, and the true precisions above each threshold."""
    chance = CURVES[task.curve]
    grid = np.arange(-100, 101) / 100
    outcomes, truths = [], []
    chosen = chosen_threshold(task, grid)
    ids = pl.Series("segment_id", [f"s{number}" for number in range(task.segments)])
    half = task.reviews // 2
    plans = {"random": [task.reviews], "stratified": [3 * half // 10, 3 * half // 10, half - 2 * (3 * half // 10)]}
    for number in range(task.first, task.first + task.count):
        rng = np.random.default_rng([task.seed, *task.curve.encode(), number])
        score = similarities(rng, task.segments, task.source)
        wrong = rng.random(task.segments) < chance(score)
        pool = pl.DataFrame({"segment_id": ids, "similarity": score, "duration_s": 10.0})
        truth = true_precision(score, wrong, grid)
        both = (judge(review(pool, wrong, plan, name, task.seed + number), truth, chosen) for name, plan in plans.items())
        outcomes.append(tuple(both))
        truths.append(truth)
    return task.curve, outcomes, np.array(truths)


def chosen_threshold(task: Task, grid: Array) -> int:
    """Where the curve itself first gives the wanted precision; where it is best if it never does."""
    score = similarities(np.random.default_rng([task.seed, 0]), 200_000, task.source)
    expected = true_precision(score, CURVES[task.curve](score), grid)
    good = np.flatnonzero(expected >= PRECISION)
    return int(good[0]) if len(good) else int(np.nanargmax(expected))


def limit(task: Task, threshold: float) -> float:
    """The least share of the reviews that strata of similarity could need; see the module."""
    score = similarities(np.random.default_rng([task.seed, 0]), 200_000, task.source)
    chance = CURVES[task.curve](score)[score >= threshold]
    return float(np.sqrt(chance * (1 - chance)).sum() ** 2 / (len(score) * chance.sum()))


def summary(task: Task, outcomes: list[tuple[Outcome, Outcome]], truths: Array, chosen: int) -> list[dict[str, object]]:
    """A row for each strategy."""
    rows = []
    widths = [np.mean([pair[side].width for pair in outcomes]) for side in (0, 1)]
    for side, strategy in enumerate(("random", "stratified")):
        own = [pair[side] for pair in outcomes]
        covered = np.mean([one.covered for one in own], axis=0)
        proven = np.array([one.proven for one in own])
        rows.append(
            {
                "curve": task.curve,
                "threshold": (chosen - 100) / 100,
                "precision": round(float(np.nanmean(truths[:, chosen])), 4),
                "strategy": strategy,
                "covered": round(float(covered.min()), 3),
                "at": (int(covered.argmin()) - 100) / 100,
                "at once": round(float(np.mean([one.at_once for one in own])), 3),
                "proven": round(float(np.mean(~np.isnan(proven))), 3),
                "lowest": round(float(np.nanmedian(proven)), 2) if not np.isnan(proven).all() else None,
                "false": round(float(np.mean([one.false for one in own])), 3),
                "width": round(float(widths[side]), 4),
                "needs": round(0.5 * float(widths[1] / widths[0]) ** 2, 2) if side else None,
                "limit": round(limit(task, (chosen - 100) / 100), 2) if side else None,
            }
        )
    return rows


def read_similarities(path: Path) -> Array:
    """Of a file of ParlaSpeech transcripts."""
    from nbaudio.formats import parlaspeech
    from nbaudio.text import similarity_column

    frame = parlaspeech.read(path, word_times="no").frame
    return similarity_column(frame["text"], frame["asr_text"]).drop_nulls().to_numpy()


def main() -> int:
    """Simulate and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transcripts", nargs="?", type=Path)
    parser.add_argument("--corpora", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=20_000)
    parser.add_argument("--reviews", type=int, default=2000)
    parser.add_argument("--curves", nargs="*", choices=CURVES, default=list(CURVES))
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    source = read_similarities(options.transcripts) if options.transcripts else None
    size = 25
    tasks = [
        Task(name, first, min(size, options.corpora - first), options.segments, options.reviews, options.seed, source)
        for name in options.curves
        for first in range(0, options.corpora, size)
    ]
    results: dict[str, list[tuple[Outcome, Outcome]]] = {name: [] for name in options.curves}
    truths: dict[str, list[Array]] = {name: [] for name in options.curves}
    grid = np.arange(-100, 101) / 100
    rows: list[dict[str, object]] = []
    with worker_pool("loky", EngineLocation(jobs=options.jobs)) as run:
        for name, outcomes, truth in run(simulate, tasks):
            results[name] += outcomes
            truths[name].append(truth)
            if len(results[name]) == options.corpora:
                task = next(task for task in tasks if task.curve == name)
                rows += summary(task, results[name], np.concatenate(truths[name]), chosen_threshold(task, grid))
                print(*rows[-2:], sep="\n", flush=True)
    table = pl.DataFrame(rows, infer_schema_length=None)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, tbl_formatting="MARKDOWN", tbl_hide_column_data_types=True):
        print(table)
    bad = table.filter(
        (pl.col("covered") < 0.95) | (pl.col("at once") < 0.95) | (pl.col("false") > 0.05) | (pl.col("needs") > 0.5)
    )
    print(f"required and not met in {len(bad)} of {len(table)} rows")
    return int(len(bad) > 0)


if __name__ == "__main__":
    sys.exit(main())
