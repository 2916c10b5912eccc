"""Sampling of segments for review, row by row, so that every beginning of a sheet is a smaller sample; see docs/evidence.md."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.channels import source_channel
from nbaudio.core.errors import InputError
from nbaudio.core.hashing import hash_column
from nbaudio.core.tables import WINDOW, number_columns, segment_failures
from nbaudio.review.rounds import Round
from nbaudio.storage.workspace import Workspace
from nbaudio.text.near_duplicates import sentences

# From pool and threshold to one row per segment: `stratum` and `size`. The pool's column `wrong` is null if that is unknown.
Strategy = Callable[[pl.DataFrame, float], pl.DataFrame]

_SCORE = pl.col("similarity").fill_nan(None)
_STRATA = 20
_MARGIN = 0.02
_BELOW = 0.1  # of the sample at most, from further below the threshold: a lower one may turn out to be good enough
_UNSCORED = 0.1
_LEAST = 0.01  # it takes reviews to prove that there are few errors, too
_GUESS_WORTH = 10  # verdicts in each stratum
_RISK_STRATA, _FEW = 16, 4  # inside and outside of the selection
_RISK_WORTH = 30  # verdicts in each stratum of risk
_PROPORTIONAL = 0.5  # of the sample in strata of risk, whatever the model says
_TARGET, _LEAST_ROOM = 0.98, 1.2  # what a proof must exclude is more than what is wrong
_TENTHS = 10
_FOCUS = 0.75
_NEAR = 0.05

_RARE = 0.01  # an odd character that more segments have is a habit of the transcripts
_ODD = r"[^\p{L}\p{M}\p{Nd} ]|[\u0300-\u036f]"  # accents that do not compose, but no marks of a script
_DEVIATIONS = 4.0
_LEAST_DEVIATION = 0.1  # where the speech rate hardly varies, small differences are no anomaly
_SILENCE_S = 2.0
_DUPLICATE_CHARACTERS = 20


def reviewable_segments(workspace: Workspace, segments: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the segments that break no rule, one per id, with facts of recordings: those to review, and those without audio."""
    recordings = workspace.recordings
    facts = recordings.select("recording_id", "path", "sampling_rate", "num_channels", "num_samples")
    facts = facts.unique("recording_id", keep="first")
    segments = segments.with_columns(source_channel(segments))
    rules = segment_failures(recordings)
    needed = [name for name in (*WINDOW, "source_channel", "text") if name in segments.columns]
    placed = segments.select(needed).lazy().join(facts.lazy(), on="recording_id", how="left", maintain_order="left")
    broken = placed.select(pl.any_horizontal(rule.fill_null(value=False) for rule in rules.values())).collect().to_series()
    known_bad = ((pl.col("decision") == "reject") & pl.col("reason").is_in(list(rules))).fill_null(value=False)
    kept = segments.filter(~broken & ~segments.select(known_bad).to_series() & segments["segment_id"].is_not_null())
    pool = kept.unique("segment_id", keep="first", maintain_order=True)
    pool = pool.join(facts, on="recording_id", how="left", maintain_order="left")
    if workspace.audio_root is None:
        return pool, pool.clear()
    silent = pl.any_horizontal(pl.col("path", "start_sample", "end_sample").is_null())
    return pool.filter(~silent), pool.filter(silent)


def draw(
    pool: pl.DataFrame, *, strategy: str, n: int, seed: int, threshold: float = 0.8, rounds: Sequence[Round] = ()
) -> pl.DataFrame:
    """Draw `n` segments as `draw_from` does, from a pool of all that can be reviewed without what `rounds` have reached."""
    return draw_from(sampling_frame(pool, strategy=strategy, threshold=threshold, rounds=rounds), n=n, salt=salt_of(seed, rounds))


def sampling_frame(pool: pl.DataFrame, *, strategy: str, threshold: float = 0.8, rounds: Sequence[Round] = ()) -> pl.DataFrame:
    """Return what nobody has reached: `segment_id`, `stratum`, `weight` (the probability of the stratum at the first row)."""
    pool = pool.join(_reached(rounds), on="segment_id", how="left", maintain_order="left")
    wanted = strategy_of(strategy, pool.schema)(pool, threshold)
    rate = pl.col("rate") if "rate" in wanted.columns else pl.lit(None, pl.Float64)
    wanted = wanted.select(pl.col("stratum").cast(pl.String), "size", rate=rate)
    frame = pool.select("segment_id", "reached").hstack(wanted).filter(pl.col("reached").is_null())
    size = pl.col("size")
    weight = size.sum().over("stratum") / pl.max_horizontal(size.sum(), 1e-300)
    return frame.select("segment_id", "stratum", weight=weight, rate="rate")


def strategy_of(name: str, schema: pl.Schema) -> Strategy:
    """Return a strategy by its name, or by a column with numbers; raise InputError, with near names, where there is none."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    columns = number_columns(schema)
    if name in columns:
        return lambda pool, _: _by_column(pool, name)
    near = get_close_matches(name, [*STRATEGIES, *columns], n=3)
    known = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(STRATEGIES)}, and columns with numbers"
    raise InputError(f"strategy {name!r} is unknown; {known}")


def salt_of(seed: int, rounds: Sequence[Round]) -> str:
    """Return what a draw after earlier rounds is hashed with."""
    return f"review {seed} after {len(rounds)}" if rounds else f"review {seed}"


def draw_from(frame: pl.DataFrame, *, n: int, salt: str) -> pl.DataFrame:
    """Draw at most `n` rows of a `sampling_frame`; return `segment_id`, `probability` of being first, and `stratum`, in order."""
    strata = frame.group_by("stratum").agg(pl.col("weight").first(), count=pl.len()).sort("stratum")
    picks = _pick_strata(strata["weight"].to_numpy(), strata["count"].to_numpy(), min(n, len(frame)), salt)
    rank = pl.int_range(pl.len()).over("stratum")
    rows = strata[picks].with_columns(rank=rank)
    shuffled = frame.with_columns(hash=hash_column(frame["segment_id"], salt)).sort("hash", "segment_id").with_columns(rank=rank)
    drawn = rows.join(shuffled.select("segment_id", "stratum", "rank"), on=("stratum", "rank"), how="left", maintain_order="left")
    return drawn.select("segment_id", "stratum", probability=pl.col("weight") / pl.col("count"))


def _pick_strata(weights: NDArray[np.float64], counts: NDArray[np.uint32], n: int, salt: str) -> NDArray[np.int64]:
    """Return the stratum of each row; a stratum is left out when its segments are used up."""
    hashes = hash_column(pl.Series(map(str, range(n)), dtype=pl.String), f"{salt} row").to_numpy()
    number = (hashes >> np.uint64(11)) / 2.0**53  # in [0, 1)
    left, picks = counts.astype(np.int64), np.zeros(n, dtype=np.int64)
    start = 0
    while start < n:
        ends = np.cumsum(np.where(left > 0, weights, 0.0))
        some = np.searchsorted(ends / ends[-1], number[start:], "right")
        rank = pl.DataFrame({"pick": some}).select(pl.int_range(pl.len()).over("pick")).to_series().to_numpy()
        used_up = np.flatnonzero(rank + 1 >= left[some])
        size = int(used_up[0]) + 1 if len(used_up) else n - start
        picks[start : start + size] = some[:size]
        left -= np.bincount(some[:size], minlength=len(left))
        start += size
    return picks


def _stratified(pool: pl.DataFrame, threshold: float) -> pl.DataFrame:
    """Draw most where errors are likely and matter, as docs/evidence.md says; a wrong guess costs width, never validity."""
    score = _SCORE
    above = pl.when(score.is_null()).then(pl.lit("unscored")).when(score >= threshold).then(pl.lit("kept"))
    zone = above.when(score >= threshold - _MARGIN).then(pl.lit("near")).otherwise(pl.lit("below"))
    guess = (10 * (1 - score) ** 2.5).clip(_LEAST, 0.5).fill_null(_UNSCORED)
    frame = pool.select("wrong", zone=zone, guess=guess, score=score.fill_null(2.0)).with_columns(size=_spread("guess"))
    strata = pl.Series(_cut(frame["score"].to_numpy(), frame["size"].to_numpy())).cast(pl.String).str.zfill(2)
    frame = frame.with_columns(stratum=strata + " " + frame["zone"])
    share = (pl.col("wrong").sum() + _GUESS_WORTH * pl.col("guess").mean()) / (pl.col("wrong").count() + _GUESS_WORTH)
    frame = frame.with_columns(share=share.clip(_LEAST, 1 - _LEAST).over("stratum"))
    # Half by the guess: a later round that nearly left a stratum out would give it weights that spoil the intervals.
    guessed, learnt = pl.col("size").mean().over("stratum"), _spread("share")
    return frame.select("stratum", size=guessed / guessed.sum() + learnt / learnt.sum())


def _by_risk(pool: pl.DataFrame, threshold: float) -> pl.DataFrame:
    """Draw as the proof of `_TARGET` needs it if `risk` is the chance of being wrong; a useless model costs width only."""
    if "risk" not in pool.columns:
        raise InputError("strategy 'risk': there is no column risk; review import learns it from verdicts")
    risk = pool.select(pl.col("risk").fill_null(pl.col("risk").mean()).fill_null(0.5).clip(1e-4, 1 - 1e-4)).to_series().to_numpy()
    kept = pl.col("similarity").fill_nan(None).fill_null(2.0) >= threshold
    if "decision" in pool.columns and (pool["decision"] == "accept").any():
        # What the last `select` keeps, or leaves out only as it was reviewed.
        kept = ((pl.col("decision") == "accept") | (pl.col("reason") == "reviewed")).fill_null(value=False)
    inside = pool.select(kept).to_series().to_numpy()
    strata = np.zeros(len(pool), dtype=np.int64)
    for zone, number in ((inside, _RISK_STRATA), (~inside, _FEW)):
        strata[zone] = _cut(risk[zone], _LEAST**0.5 + np.sqrt(risk[zone]), number)
    zones = pl.when(pl.Series(inside)).then(pl.lit("kept")).otherwise(pl.lit("below"))
    named = pl.DataFrame({"stratum": pl.Series(strata).cast(pl.String).str.zfill(2)}).select(pl.col("stratum") + " " + zones)
    _, first, of, sizes = np.unique(
        named.to_series().to_numpy().astype(str), return_index=True, return_inverse=True, return_counts=True
    )
    wrong = pool["wrong"].fill_null(value=False).to_numpy()
    judged, faulty = np.bincount(of, pool["wrong"].is_not_null().to_numpy()), np.bincount(of, wrong)
    model = np.bincount(of, risk) / sizes
    rate = (faulty + _RISK_WORTH * model) / (judged + _RISK_WORTH)
    # How well the model has predicted, beside a rate that is the same everywhere.
    flat = np.full(len(sizes), (faulty.sum() + risk.mean()) / (judged.sum() + 1))
    gain = faulty @ np.log(model / flat) + (judged - faulty) @ np.log((1 - model) / (1 - flat))
    trust = 1 / (1 + np.exp(-np.clip(gain, -30, 30)))
    blend = trust * rate + (1 - trust) * flat
    in_selection = inside[first]
    weight = sizes / sizes.sum()
    if in_selection.any():
        size, outside = sizes[in_selection], min(_BELOW, sizes[~in_selection].sum() / sizes.sum())
        best = _best_allocation(size.astype(float), blend[in_selection])
        weight[in_selection] = ((1 - _PROPORTIONAL) * best + _PROPORTIONAL * size / size.sum()) * (1 - outside)
        weight[~in_selection] *= outside / max(weight[~in_selection].sum(), 1e-300)
    return named.with_columns(size=pl.Series((weight / sizes)[of]), rate=pl.Series(rate[of]))


def largest_rates(rate: NDArray[np.float64], divergence: float) -> NDArray[np.float64]:
    """Return the largest q whose Kullback-Leibler divergence from each rate p is at most so much."""
    low, high = rate.copy(), np.ones_like(rate)
    for _ in range(40):
        q = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = rate * np.log(rate / q) + (1 - rate) * np.log((1 - rate) / (1 - q))
        low, high = np.where(apart <= divergence, q, low), np.where(apart <= divergence, high, q)
    found: NDArray[np.float64] = low
    return found


def least_divergence(sizes: NDArray[np.float64], rate: NDArray[np.float64], wrong: float) -> float:
    """Return the least T for which ``sum(sizes * largest_rates(rate, T))`` reaches a number of wrong segments."""
    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        enough = float(sizes @ largest_rates(rate, middle)) >= wrong
        low, high = (low, middle) if enough else (middle, high)
    return high


def _best_allocation(sizes: NDArray[np.float64], rate: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the shares of a sample with which the null that is hardest to refute loses fastest; see docs/evidence.md."""
    wrong = max((1 - _TARGET) * sizes.sum() + 1, _LEAST_ROOM * float(sizes @ rate))
    q = largest_rates(rate, least_divergence(sizes, rate, wrong))
    weight = sizes * q * (1 - q) / np.maximum(q - rate, 1e-12)
    found: NDArray[np.float64] = weight / weight.sum()
    return found


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "random": lambda pool, _: pool.with_columns(stratum=pl.lit("all"), size=pl.lit(1.0)),
        "stratified": _stratified,
        "risk": _by_risk,
        # In proportion to the square root of the number of segments (the power allocation of Bankier, 1988, with exponent 1/2).
        "speaker": lambda pool, _: _by(pool, "speaker_id"),
        "recording": lambda pool, _: _by(pool, "recording_id"),
        # Three of four within 0.05 of the threshold, or from anomalies, evenly over the reasons; the rest from elsewhere.
        "near": lambda pool, threshold: _focus(pool, pl.when((_SCORE - threshold).abs() <= _NEAR).then(pl.lit("near"))),
        "suspicious": lambda pool, _: _focus(anomaly_reasons(pool), pl.col("reason")),
    }
)


def _reached(rounds: Sequence[Round]) -> pl.DataFrame:
    """Return what reviewers have reached in earlier rounds, and their verdicts: `segment_id`, `reached` (true), `wrong`."""
    schema = {"segment_id": pl.String, "wrong": pl.Boolean}
    wrong = pl.col("verdict").replace_strict({"right": False, "wrong": True}, default=None)
    rows = [one.rows.drop_nulls("line").select("segment_id", wrong=wrong) for one in rounds]
    known = pl.concat([pl.DataFrame(schema=schema), *rows]).unique("segment_id", keep="last")
    return known.with_columns(reached=pl.lit(value=True))


def _cut(score: NDArray[np.float64], size: NDArray[np.float64], number: int = _STRATA) -> NDArray[np.int64]:
    """Cut strata along the score that by the guess get equally many reviews (Dalenius, Hodges, 1959), equal scores together."""
    order = np.argsort(score, kind="stable")
    ends = np.concatenate([[0.0], np.cumsum(size[order])])
    first, last = (np.searchsorted(score[order], score, side) for side in ("left", "right"))
    middle = (ends[first] + ends[last]) / 2
    strata: NDArray[np.int64] = np.minimum(number * middle / (ends[-1] or 1.0), number - 1).astype(np.int64)
    return strata


def _spread(share: str) -> pl.Expr:
    """Return the standard deviation of a share, reduced below the threshold so that at most `_BELOW` of all falls there."""
    size, below = (pl.col(share) * (1 - pl.col(share))).sqrt(), pl.col("zone") == "below"
    rest = size.filter(~below).sum()
    scale = pl.min_horizontal(1.0, _BELOW / (1 - _BELOW) * rest / size.filter(below).sum())
    return pl.when(below & (rest > 0)).then(size * scale).otherwise(size)


def _by(pool: pl.DataFrame, column: str) -> pl.DataFrame:
    # Names get a prefix, so that none is the name of the stratum without one.
    named = pl.select(pl.coalesce(pl.lit("=") + pool[column], pl.lit("none"))).to_series()
    return pl.DataFrame({"stratum": named}).select("stratum", size=1 / pl.len().over("stratum").sqrt())


def _by_column(pool: pl.DataFrame, column: str) -> pl.DataFrame:
    """Take ten strata by quantiles of a column, equal values together, and one of what has no value, all with equal weights."""
    value = pool[column].cast(pl.Float64).fill_nan(None)
    strata = pl.Series("stratum", _cut(value.fill_null(0.0).to_numpy(), value.is_not_null().to_numpy().astype(float), _TENTHS))
    named = pl.select(pl.when(value.is_not_null()).then(strata.cast(pl.String)).otherwise(pl.lit("none")).alias("stratum"))
    return named.with_columns(size=1 / pl.len().over("stratum"))


def _focus(frame: pl.DataFrame, stratum: pl.Expr) -> pl.DataFrame:
    """Give segments with a stratum `_FOCUS` of the sample, evenly over the strata, and the others the rest."""
    frame = frame.select(stratum=stratum)
    focus, kinds = pl.col("stratum").is_not_null(), pl.col("stratum").drop_nulls().n_unique()
    size = pl.when(focus).then(_FOCUS / kinds).otherwise(1 - _FOCUS) / pl.len().over("stratum")
    return frame.select(pl.col("stratum").fill_null("elsewhere"), size=size)


def anomaly_reasons(pool: pl.DataFrame) -> pl.DataFrame:
    """Return `reason`, one row per segment: the first anomaly that applies, null for none."""
    speed, word = _speed(pool), pl.element().struct
    folded = pool.select(sentences(pl.col("text"))).to_series()
    pauses = pl.col("word_times").list.eval(word.field("start") - word.field("end").shift(1))
    found = {
        "duplicate audio": _overlapping(pool),
        "duplicate text": folded.is_duplicated() & (folded.str.len_chars() >= _DUPLICATE_CHARACTERS),
        "fast": speed > _DEVIATIONS,
        "slow": speed < -_DEVIATIONS,
        "long silence": pool.select(pauses.list.max() >= _SILENCE_S).to_series(),
        "odd characters": _odd(pool),
    }
    return pl.DataFrame(found).select(reason=pl.coalesce(pl.when(name).then(pl.lit(name)) for name in found))


def _overlapping(pool: pl.DataFrame) -> pl.Series:
    """Return which segments have half of their audio in another segment of the recording too."""
    start, end = pl.col("start_sample"), pl.col("end_sample")
    ordered = pool.select("recording_id", start, end).with_row_index("row").sort("recording_id", start, end)
    reach = end.cum_max().shift(1).over("recording_id") - start
    after = pl.min_horizontal(end, end.shift(-1).over("recording_id")) - start.shift(-1).over("recording_id")
    return ordered.with_columns(hit=(2 * pl.max_horizontal(reach, after) >= end - start) & (end > start)).sort("row")["hit"]


def _speed(pool: pl.DataFrame) -> pl.Series:
    """Return how far the logarithms of the speech rates are from their median, in median absolute deviations times 1.4826."""
    times = [pool[name].cast(pl.Float64, strict=False) for name in ("source_start", "source_end")]
    speed = (pool["text"].str.len_chars() / (times[1] - times[0])).log()
    speed = pl.select(pl.when(speed.is_finite()).then(speed)).to_series()
    from_median = speed - speed.median()
    usual = 1.4826 * float(from_median.abs().median() or 0.0)  # type: ignore[arg-type]  # the median of numbers is a number
    return from_median / max(usual, _LEAST_DEVIATION)


def _odd(pool: pl.DataFrame) -> pl.Series:
    found = pool.select(odd=pl.col("text").str.extract_all(_ODD).list.unique()).with_row_index("row").explode("odd").drop_nulls()
    rare = found.filter(pl.len().over("odd") < max(2, _RARE * len(pool)))
    return pl.Series(range(len(pool)), dtype=pl.UInt32).is_in(rare["row"].implode())
