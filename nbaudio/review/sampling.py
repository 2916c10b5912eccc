"""Sampling of segments for review, row by row.

Every beginning of a sheet is a smaller sample; see docs/evidence.md.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.errors import InputError
from nbaudio.core.hashing import hash_column
from nbaudio.review.allocation import best_allocation
from nbaudio.review.rounds import OUTCOMES, Round
from nbaudio.tables.row_values import RowHashes, counts, repeated, slices
from nbaudio.tables.rows import with_starts
from nbaudio.tables.schemas import number_columns
from nbaudio.text.near_duplicates import sentences

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.signedinteger[Any]]

# The stratum of each segment, the names of the strata, the weight of a segment in each, and
# expected rates of wrong ones.
Stratified = tuple[Ints, Sequence[str], Array, Array | None]
# The columns that a strategy looks at, and how it divides a pool at a threshold.
Strategy = tuple[Sequence[str], Callable[[pl.DataFrame, float], Stratified]]

_SCORE = pl.col("similarity").fill_nan(None)
_ZONES = ("below", "kept", "near", "unscored")
_STRATA = 20
_MARGIN = 0.02
# Of the sample at most, from further below the threshold: a lower one may turn out to be good
# enough
_BELOW = 0.1
_UNSCORED = 0.1
_EVEN = 0.7  # of a sample by similarity: drawn as if similarity said nothing
_LEAST = 0.01  # it takes reviews to prove that there are few errors, too
_GUESS_WORTH = 10  # verdicts in each stratum
_RISK_STRATA, _FEW = 16, 4  # inside and outside of the selection
_RISK_WORTH = 30  # verdicts in each stratum of risk
_PROPORTIONAL = 0.5  # of the sample in strata of risk, whatever the model says
_TENTHS = 10
_FOCUS = 0.75
_NEAR = 0.05

_RARE = 0.01  # an odd character that more segments have is a habit of the transcripts
_ODD = (
    r"[^\p{L}\p{M}\p{Nd} ]|[\u0300-\u036f]"  # accents that do not compose, but no marks of a script
)
_DEVIATIONS = 4.0
_LEAST_DEVIATION = 0.1  # where the speech rate hardly varies, small differences are no anomaly
_SILENCE_S = 2.0
_DUPLICATE_CHARACTERS = 20
_OF_ANOMALIES = (
    "text",
    "word_times",
    "source_start",
    "source_end",
    "start_sample",
    "end_sample",
    "recording_id",
)


@dataclass(frozen=True)
class Strata:
    """What a draw takes segments from; see docs/evidence.md."""

    number: Ints  # the stratum of each segment; -1 for those that cannot be drawn
    names: Sequence[str]  # in ascending order
    weights: Array  # the probability of each stratum at the first row
    rates: Array | None = None  # of wrong segments in each stratum, as expected

    @cached_property
    def counts(self) -> Ints:
        """How many segments of each stratum can be drawn."""
        return counts(self.number, len(self.names))

    def merged(self) -> "Strata":
        """Return the same segments in one stratum."""
        rates = (
            None
            if self.rates is None
            else np.array([self.rates @ self.counts / max(self.counts.sum(), 1)])
        )
        return Strata(np.minimum(self.number, 0), ["all"], np.ones(1), rates)

    def table(self, places: Ints) -> pl.DataFrame:
        """Return `stratum`, `weight` and `rate` (null if none) of segments that can be drawn."""
        number = self.number[places]
        rates = [None] * len(places) if self.rates is None else self.rates[number]
        stratum = pl.Series(self.names, dtype=pl.String).gather(number)
        return pl.DataFrame(
            {
                "stratum": stratum,
                "weight": self.weights[number],
                "rate": pl.Series(rates, dtype=pl.Float64),
            }
        )


def strata_of(pool: pl.DataFrame, *, strategy: str, threshold: float = 0.8) -> Strata:
    """Return the strata of a pool.

    The pool has `pool_columns`, `verdict` (null if unknown) and `reached` (in an earlier round).
    """
    _, divide = STRATEGIES.get(strategy, ((), partial(_by_column, column=strategy)))
    number, names, size, rates = divide(pool, threshold)
    number = np.where(pool["reached"].to_numpy(), -1, number).astype(np.int32)
    total = size * counts(number, len(names))
    return Strata(number, names, total / max(total.sum(), 1e-300), rates)


def pool_columns(strategy: str, schema: pl.Schema) -> Sequence[str]:
    """Return the columns that a strategy looks at.

    A strategy may also be a column of numbers. Raise InputError if there is none of this name.
    """
    if strategy in STRATEGIES:
        return STRATEGIES[strategy][0]
    columns = number_columns(schema)
    if strategy in columns:
        return (strategy,)
    near = get_close_matches(strategy, [*STRATEGIES, *columns], n=3)
    known = (
        f"did you mean {' or '.join(near)}?"
        if near
        else f"known are {', '.join(STRATEGIES)}, and columns with numbers"
    )
    raise InputError(f"strategy {strategy!r} is unknown; {known}")


def salt_of(seed: int, before: Sized) -> str:
    """Return what a draw after earlier ones is hashed with.

    Those of rounds that were taken back are earlier ones, too: no salt is used twice.
    """
    return f"review {seed} after {len(before)}" if len(before) else f"review {seed}"


def draw_from(strata: Strata, hashes: RowHashes, *, n: int, salt: str) -> pl.DataFrame:
    """Draw at most `n` segments.

    Return `place`, `probability` of being first, and `stratum`, in order.

    `hashes` are those of their ids, by place.
    """
    sizes = strata.counts
    picks = _pick_strata(strata.weights, sizes, min(n, int(sizes.sum())), salt)
    wanted = np.bincount(picks, minlength=len(sizes))
    places = np.flatnonzero(strata.number >= 0).astype(np.uint32)
    hashed = hashes(pl.Series(places), salt).to_numpy()
    first = np.zeros(0, dtype=np.int64)
    # The first of each stratum so far, by stratum and hash.
    for start, part in with_starts(slices(places)):
        some = np.append(first, np.arange(start, start + len(part)))
        some = some[np.lexsort((hashed[some], strata.number[places[some]]))]
        number = strata.number[places[some]]
        first = some[np.arange(len(some)) - np.searchsorted(number, number) < wanted[number]]
    rank = (
        pl.DataFrame({"pick": picks})
        .select(pl.int_range(pl.len()).over("pick"))
        .to_series()
        .to_numpy()
    )
    drawn = {"place": places[first][(np.cumsum(wanted) - wanted)[picks] + rank].astype(np.int64)}
    stratum = pl.Series(strata.names, dtype=pl.String).gather(picks)
    return pl.DataFrame(
        drawn | {"probability": strata.weights[picks] / sizes[picks], "stratum": stratum}
    )


def _pick_strata(weights: Array, counts: Ints, n: int, salt: str) -> Ints:
    """Return the stratum of each row; a stratum is left out when its segments are used up."""
    hashes = hash_column(pl.Series(map(str, range(n)), dtype=pl.String), f"{salt} row").to_numpy()
    number = (hashes >> np.uint64(11)) / 2.0**53  # in [0, 1)
    left = counts.astype(np.int64)
    picks = np.zeros(n, dtype=np.int64)
    start = 0
    while start < n:
        ends = np.cumsum(np.where(left > 0, weights, 0.0))
        some = np.searchsorted(ends / ends[-1], number[start:], "right")
        rank = (
            pl.DataFrame({"pick": some})
            .select(pl.int_range(pl.len()).over("pick"))
            .to_series()
            .to_numpy()
        )
        used_up = np.flatnonzero(rank + 1 >= left[some])
        size = int(used_up[0]) + 1 if len(used_up) else n - start
        picks[start : start + size] = some[:size]
        left -= np.bincount(some[:size], minlength=len(left))
        start += size
    return picks


def _numbered(codes: Ints, name: Callable[[int], str]) -> tuple[Ints, list[str], Ints]:
    """Return the number of each row among the codes that occur, their names, and the codes."""
    used = np.flatnonzero(counts(codes, int(codes.max(initial=-1)) + 1))
    place = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.int16)
    place[used] = np.arange(len(used))
    return place[codes], [name(code) for code in used.tolist()], used


def _verdicts(pool: pl.DataFrame, number: Ints, strata: int) -> tuple[Ints, Ints]:
    """Return how many segments of each stratum were judged, and how many of them are wrong."""
    judged = pool["verdict"].is_in(["right", "wrong"]).fill_null(value=False).to_numpy()
    wrong = pool["verdict"].eq_missing("wrong").to_numpy()
    return np.bincount(number[judged], minlength=strata), np.bincount(
        number[wrong], minlength=strata
    )


def _stratified(pool: pl.DataFrame, threshold: float) -> Stratified:  # noqa: PLR0914
    """Draw most where errors are likely and matter, as docs/evidence.md says.

    A wrong guess costs width, never validity.
    """
    scores = pool["similarity"].fill_null(np.nan).to_numpy()  # NaN is sorted behind all numbers
    zone = np.where(
        scores >= threshold,
        np.int8(1),
        np.where(scores >= threshold - _MARGIN, np.int8(2), np.int8(0)),
    )
    zone[np.isnan(scores)] = 3
    size = [
        np.bincount(part < threshold - _MARGIN, _deviation(_guess(part)), 2)
        for part in slices(scores)
    ]
    scale = _scale_below(*np.sum([np.zeros(2), *size], axis=0)[::-1])

    def deviations(some: Array) -> Array:
        return _deviation(_guess(some)) * np.where(some < threshold - _MARGIN, scale, 1.0)

    codes = len(_ZONES) * _cut(scores, deviations) + zone
    number, names, used = _numbered(
        codes, lambda code: f"{code // len(_ZONES):02d} {_ZONES[code % len(_ZONES)]}"
    )
    sizes = counts(number, len(names))
    judged, wrong = _verdicts(pool, number, len(names))
    guessed = np.zeros(len(names))
    planned = np.zeros(len(names))
    for start, part in with_starts(slices(scores)):
        own = number[start : start + len(part)]
        guessed += np.bincount(own, _guess(part), len(names))
        planned += np.bincount(own, deviations(part), len(names)) / sizes
    share = np.clip(
        (wrong + _GUESS_WORTH * guessed / sizes) / (judged + _GUESS_WORTH), _LEAST, 1 - _LEAST
    )
    weight = _weights(sizes, planned, _deviation(share), used % len(_ZONES) == 0)
    return number, names, weight, None


def _weights(sizes: Ints, planned: Array, learnt: Array, below: Bools) -> Array:
    """Return the weight of a segment of each stratum.

    Half of what is not even goes by the guess: a later round that nearly left a stratum out would
    give it weights that spoil the intervals.

    Args:
        sizes: number of segments in each stratum.
        planned: weight of a segment by the guess from its similarity.
        learnt: weight of a segment by the verdicts so far.
        below: which strata are far below the threshold.
    """
    even = np.ones(len(sizes))
    for weight in (learnt, even):
        total = weight * sizes
        weight[below] *= _scale_below(total[below].sum(), total[~below].sum())
    by_similarity = planned / (planned @ sizes) + learnt / (learnt @ sizes)
    return (1 - _EVEN) * by_similarity / 2 + _EVEN * even / (even @ sizes)


def _in_slices(
    function: Callable[[Array], NDArray[Any]], values: Array, dtype: Any
) -> NDArray[Any]:
    """Return what a function computes from the parts of an array, in one array."""
    found = np.empty(len(values), dtype)
    for start, part in with_starts(slices(values)):
        found[start : start + len(part)] = function(part)
    return found


def _guess(scores: Array) -> Array:
    """Guess how often segments of a similarity (NaN for none) are wrong, without verdicts."""
    return np.where(
        np.isnan(scores), _UNSCORED, np.clip(10 * np.maximum(1 - scores, 0.0) ** 2.5, _LEAST, 0.5)
    )


def _deviation(share: Array) -> Array:
    return np.sqrt(share * (1 - share))


def _scale_below(below: float, rest: float) -> float:
    """Return the factor that leaves at most `_BELOW` of the total size below the threshold."""
    return min(1.0, _BELOW / (1 - _BELOW) * rest / below) if below and rest else 1.0


def _by_risk(pool: pl.DataFrame, threshold: float) -> Stratified:  # noqa: PLR0914
    """Divide a sample as a proof needs it; `risk` is the probability of being wrong.

    A useless model only widens intervals.
    """
    if "risk" not in pool.columns:
        raise InputError(
            "strategy 'risk': there is no column risk; review import learns it from verdicts"
        )
    risk = (
        pool.select(
            pl.col("risk").fill_null(pl.col("risk").mean()).fill_null(0.5).clip(1e-4, 1 - 1e-4)
        )
        .to_series()
        .to_numpy()
    )
    is_selected = "accepted" in pool.columns and pool["accepted"].any()
    inside = (
        pool.select("kept" if is_selected else _SCORE.fill_null(2.0) >= threshold)
        .to_series()
        .to_numpy()
    )
    codes = inside.astype(np.int16)
    for zone, most in ((inside, _RISK_STRATA), (~inside, _FEW)):
        codes[zone] += 2 * _cut(risk[zone], lambda ordered: _LEAST**0.5 + np.sqrt(ordered), most)
    number, names, used = _numbered(
        codes, lambda code: f"{code // 2:02d} {('below', 'kept')[code % 2]}"
    )
    sizes = counts(number, len(names))
    judged, faulty = _verdicts(pool, number, len(names))
    model = np.bincount(number, risk, len(names)) / sizes
    rate = (faulty + _RISK_WORTH * model) / (judged + _RISK_WORTH)
    flat = np.full(len(sizes), (faulty.sum() + risk.mean()) / (judged.sum() + 1))
    # How well the model has predicted, beside a rate that is the same everywhere.
    gain = faulty @ np.log(model / flat) + (judged - faulty) @ np.log((1 - model) / (1 - flat))
    trust = 1 / (1 + np.exp(-np.clip(gain, -30, 30)))
    blend = trust * rate + (1 - trust) * flat
    in_selection = used % 2 == 1
    weight = sizes / sizes.sum()
    if in_selection.any():
        size = sizes[in_selection]
        outside = min(_BELOW, sizes[~in_selection].sum() / sizes.sum())
        best = best_allocation(size.astype(float), blend[in_selection])
        weight[in_selection] = ((1 - _PROPORTIONAL) * best + _PROPORTIONAL * size / size.sum()) * (
            1 - outside
        )
        weight[~in_selection] *= outside / max(weight[~in_selection].sum(), 1e-300)
    return number, names, weight / sizes, rate


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "random": (
            (),
            lambda pool, _: (np.zeros(len(pool), dtype=np.int64), ["all"], np.ones(1), None),
        ),
        "stratified": (("similarity",), _stratified),
        "risk": (("risk", "similarity", "decision", "reason"), _by_risk),
        # In proportion to the square root of the number of segments (the power allocation of
        # Bankier, 1988, with exponent 1/2).
        "speaker": (("speaker_id",), lambda pool, _: _by(pool, "speaker_id")),
        "recording": (("recording_id",), lambda pool, _: _by(pool, "recording_id")),
        # Three of four within 0.05 of the threshold, or from anomalies, evenly over the reasons;
        # the rest from elsewhere.
        "near": (
            ("similarity",),
            lambda pool, threshold: _focus(
                pool.select(_kind("near", (_SCORE - threshold).abs() <= _NEAR))
            ),
        ),
        "suspicious": (_OF_ANOMALIES, lambda pool, _: _focus(anomaly_reasons(pool))),
    }
)


def risk_columns(segments: pl.DataFrame) -> pl.DataFrame:
    """Return `risk` if there is one, what the last `select` `accepted`, and `kept`.

    `kept` is what was accepted, or left out only because it was reviewed.
    """
    accepted = pl.col("decision") == "accept"
    kept = (accepted | (pl.col("reason") == "reviewed")).fill_null(value=False)
    return segments.select(pl.col("^risk$"), accepted=accepted, kept=kept)


def reached(rounds: Sequence[Round]) -> pl.DataFrame:
    """Return what reviewers have reached in earlier rounds.

    The columns are `segment_id` and `verdict`, one of `OUTCOMES`.
    """
    is_reached = pl.col("line").is_not_null() & ~pl.col("ended")
    none = pl.DataFrame(schema={"segment_id": pl.String, "verdict": OUTCOMES})
    rows = [one.rows.filter(is_reached).select(none.columns) for one in rounds]
    return pl.concat([none, *rows]).unique("segment_id", keep="last")


def _cut(score: Array, size_of: Callable[[Array], Array], number: int = _STRATA) -> Ints:
    """Divide scores into strata of equal total size (Dalenius, Hodges, 1959).

    `size_of` returns the sizes of some scores.
    """
    ordered = np.sort(score)
    reached = _in_slices(size_of, ordered, np.float64)
    np.cumsum(reached, out=reached)
    total = float(reached[-1]) if len(reached) and reached[-1] else 1.0

    def stratum(place: int) -> int:
        """Return the stratum of a score and all that equal it, by the middle of their sizes."""
        first, end = (
            int(np.searchsorted(ordered, ordered[place], side)) for side in ("left", "right")
        )
        middle = reached[end - 1] + (reached[first - 1] if first else 0.0)
        return int(min(middle * (number / 2) / total, number - 1))

    starts = np.array(
        [bisect_left(range(len(ordered)), each, key=stratum) for each in range(1, number)]
    )
    edges = ordered[starts[starts < len(ordered)]]
    return _in_slices(lambda part: np.searchsorted(edges, part, side="right"), score, np.int16)


def _grouped(values: pl.Series, name: Callable[[object], str]) -> tuple[Ints, list[str]]:
    """Return a number for each value, null included, and the names of the numbers.

    The names are in ascending order.
    """
    kinds = values.unique()
    names = [name(kind) for kind in kinds]
    order = sorted(range(len(names)), key=names.__getitem__)
    numbers = pl.DataFrame({"value": kinds.gather(order)}).with_row_index("number")
    found = values.to_frame("value").join(
        numbers, on="value", how="left", nulls_equal=True, maintain_order="left"
    )
    return found["number"].to_numpy().astype(np.int64), [names[place] for place in order]


def _by(pool: pl.DataFrame, column: str) -> Stratified:
    # Names get a prefix, so that none is the name of the stratum without one.
    number, names = _grouped(pool[column], lambda kind: "none" if kind is None else f"={kind}")
    return number, names, 1 / np.sqrt(np.bincount(number, minlength=len(names))), None


def _by_column(pool: pl.DataFrame, _threshold: float, *, column: str) -> Stratified:
    """Take ten strata by quantiles of a column, and one of what has no value.

    Equal values are in one stratum. All strata have equal weights.
    """
    value = pool[column].cast(pl.Float64).fill_nan(None)
    is_known = value.is_not_null().to_numpy()
    codes = np.full(len(value), _TENTHS, dtype=np.int16)
    codes[is_known] = _cut(value.drop_nulls().to_numpy(), np.ones_like, _TENTHS)
    number, names, _ = _numbered(codes, lambda code: "none" if code == _TENTHS else str(code))
    return number, names, 1 / np.bincount(number), None


def _kind(name: str, where: pl.Expr) -> pl.Expr:
    return pl.when(where).then(pl.lit(name, pl.Categorical()))


def _focus(kinds: pl.DataFrame) -> Stratified:
    """Give segments of a kind `_FOCUS` of the sample, evenly over the kinds.

    The others get the rest.
    """
    number, names = _grouped(
        kinds.to_series(), lambda kind: "elsewhere" if kind is None else str(kind)
    )
    focus = np.array([name != "elsewhere" for name in names])
    return (
        number,
        names,
        np.where(focus, _FOCUS / max(focus.sum(), 1), 1 - _FOCUS) / np.bincount(number),
        None,
    )


def anomaly_facts(segments: pl.DataFrame) -> pl.DataFrame:
    """Return what `anomaly_reasons` takes, from whole rows of segments.

    These are numbers, codes, and hashes of texts.
    """
    word = pl.element().struct
    pauses = pl.col("word_times").list.eval(word.field("start") - word.field("end").shift(1))
    start, end = (
        pl.col(name).cast(pl.Float64, strict=False) for name in ("source_start", "source_end")
    )
    speed = (pl.col("text").str.len_chars() / (end - start)).log()
    folded = sentences(pl.col("text"))
    return segments.select(
        pl.col("recording_id").cast(pl.Categorical),
        *("start_sample", "end_sample"),
        speed=pl.when(speed.is_finite()).then(speed),
        sentence=pl.when(folded.str.len_chars() >= _DUPLICATE_CHARACTERS).then(folded.hash()),
        silence=pauses.list.max() >= _SILENCE_S,
        odd=pl.col("text").str.extract_all(_ODD).list.unique().cast(pl.List(pl.Categorical)),
    )


def anomaly_reasons(facts: pl.DataFrame) -> pl.DataFrame:
    """Return `reason`, one row per segment of `anomaly_facts`.

    It is the first anomaly that applies, null for none.
    """
    # How far the logarithms of the speech rates are from their median, in median absolute
    # deviations times 1.4826.
    from_median = facts["speed"] - facts["speed"].median()
    # The median of numbers is a number.
    usual = 1.4826 * float(from_median.abs().median() or 0.0)  # type: ignore[arg-type]
    speed = from_median / max(usual, _LEAST_DEVIATION)
    odd = facts["odd"].to_frame("odd").with_row_index("row").explode("odd").drop_nulls()
    rare = odd.filter(pl.len().over("odd") < max(2, _RARE * len(facts)))
    found = {
        "duplicate audio": _overlapping(facts),
        "duplicate text": facts["sentence"].is_in(repeated(facts["sentence"]).implode()),
        "fast": speed > _DEVIATIONS,
        "slow": speed < -_DEVIATIONS,
        "long silence": facts["silence"],
        "odd characters": pl.Series(range(len(facts)), dtype=pl.UInt32).is_in(
            rare["row"].implode()
        ),
    }
    return pl.DataFrame(found).select(
        reason=pl.coalesce(_kind(name, pl.col(name)) for name in found)
    )


def _overlapping(pool: pl.DataFrame) -> pl.Series:
    """Return which segments have half of their audio in another segment of the recording too."""
    start = pl.col("start_sample")
    end = pl.col("end_sample")
    ordered = (
        pool.select("recording_id", start, end)
        .with_row_index("row")
        .sort("recording_id", start, end)
    )
    reach = end.cum_max().shift(1).over("recording_id") - start
    after = pl.min_horizontal(end, end.shift(-1).over("recording_id")) - start.shift(-1).over(
        "recording_id"
    )
    return ordered.with_columns(
        hit=(2 * pl.max_horizontal(reach, after) >= end - start) & (end > start)
    ).sort("row")["hit"]
