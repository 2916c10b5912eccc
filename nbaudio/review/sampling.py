"""Sampling of segments for review, row by row.

Every beginning of a sheet is a smaller sample; see docs/evidence-method.md.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
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

_SCORE = pl.col("similarity").fill_nan(None)
_ZONES = ("below", "kept", "near", "unscored")
_STRATA = 20
#: The beginning of the name of the strategy that aims at the worst group of a column.
WORST = "worst by "
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
class Division:
    """A division of a pool into strata.

    Attributes:
        number: the stratum of each segment.
        names: of the strata, in ascending order.
        weights: that of a segment of each stratum in the sample, on any scale.
        rates: of wrong segments in each stratum, as expected; None if the strategy expects none.
    """

    number: Ints
    names: Sequence[str]
    weights: Array
    rates: Array | None = None


@dataclass(frozen=True)
class Strategy:
    """The columns that a strategy looks at, and how it divides a pool with them at a threshold."""

    columns: Sequence[str]
    divide: Callable[[pl.DataFrame, float], Division]


@dataclass(frozen=True)
class Strata:
    """What a draw takes segments from; see docs/evidence-method.md."""

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
        if self.rates is None:
            rates = None
        else:
            rates = np.array([self.rates @ self.counts / max(self.counts.sum(), 1)])
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
    division = _strategy(strategy).divide(pool, threshold)
    is_reached = pool["reached"].to_numpy()
    number = np.where(is_reached, -1, division.number).astype(np.int32)
    total = division.weights * counts(number, len(division.names))
    return Strata(number, division.names, total / max(total.sum(), 1e-300), division.rates)


def _strategy(name: str) -> Strategy:
    """Return the strategy of a name, which may be `WORST` and a column, or a column of numbers."""
    if name.startswith(WORST):
        column = name.removeprefix(WORST)
        return Strategy((column,), partial(_worst_groups, column=column))
    return STRATEGIES.get(name, Strategy((name,), partial(_by_column, column=name)))


def check_group_column(column: str, schema: pl.Schema) -> None:
    """Raise InputError unless a column of the segments table has values that can be groups."""
    if column not in schema or schema[column].is_nested():
        allowed = ", ".join(name for name, dtype in schema.items() if not dtype.is_nested())
        raise InputError(f"by={column}: is not a column with groups; columns are {allowed}")


def pool_columns(strategy: str, schema: pl.Schema) -> Sequence[str]:
    """Return the columns that a strategy looks at.

    A strategy may also be a column of numbers. Raise InputError if there is none of this name.
    """
    if strategy in STRATEGIES or strategy.startswith(WORST):
        return _strategy(strategy).columns
    columns = number_columns(schema)
    if strategy in columns:
        return (strategy,)
    near = get_close_matches(strategy, [*STRATEGIES, *columns], n=3)
    if near:
        choices = f"did you mean {' or '.join(near)}?"
    else:
        choices = f"known are {', '.join(STRATEGIES)}, and columns with numbers"
    raise InputError(f"strategy {strategy!r} is unknown; {choices}")


def salt_of(seed: int, before: Sized) -> str:
    """Return the salt of the hashes of a draw after earlier ones.

    Those of rounds that were taken back are earlier ones, too: no salt is used twice.
    """
    if len(before):
        return f"review {seed} after {len(before)}"
    return f"review {seed}"


def draw_from(strata: Strata, hashes: RowHashes, *, n: int, salt: str) -> pl.DataFrame:
    """Draw at most `n` segments.

    Return `place`, `probability` of being first, and `stratum`, in order.

    `hashes` are those of their ids, by place.
    """
    sizes = strata.counts
    picks = _pick_strata(strata.weights, sizes, min(n, int(sizes.sum())), salt)
    num_picks = np.bincount(picks, minlength=len(sizes))
    places = np.flatnonzero(strata.number >= 0).astype(np.uint32)
    hashed = hashes(pl.Series(places), salt).to_numpy()
    first = _least_of_strata(hashed, strata.number, places, num_picks)
    start_of_stratum = np.cumsum(num_picks) - num_picks
    drawn = first[start_of_stratum[picks] + _ranks(picks)]
    return pl.DataFrame(
        {
            "place": places[drawn].astype(np.int64),
            "probability": strata.weights[picks] / sizes[picks],
            "stratum": pl.Series(strata.names, dtype=pl.String).gather(picks),
        }
    )


def _least_of_strata(
    hashed: NDArray[np.uint64], stratum: Ints, places: NDArray[np.uint32], num_picks: Ints
) -> Ints:
    """Return which places have the least hashes in their stratum, by stratum and hash.

    Args:
        hashed: the hash of each place.
        stratum: of each row, -1 for those that are in no place.
        places: the rows that can be drawn.
        num_picks: how many rows of each stratum are wanted.
    """
    least = np.zeros(0, dtype=np.int64)
    for start, part in with_starts(slices(places)):
        candidates = np.append(least, np.arange(start, start + len(part)))
        order = np.lexsort((hashed[candidates], stratum[places[candidates]]))
        candidates = candidates[order]
        number = stratum[places[candidates]]
        rank = np.arange(len(candidates)) - np.searchsorted(number, number)
        least = candidates[rank < num_picks[number]]
    return least


def _ranks(numbers: Ints) -> Ints:
    """Return how often each number occurs before its place."""
    rank = pl.int_range(pl.len()).over("number")
    return pl.DataFrame({"number": numbers}).select(rank).to_series().to_numpy()


def _pick_strata(weights: Array, counts: Ints, n: int, salt: str) -> Ints:
    """Return the stratum of each row; a stratum is left out when its segments are used up."""
    hashes = hash_column(pl.Series(map(str, range(n)), dtype=pl.String), f"{salt} row").to_numpy()
    number = (hashes >> np.uint64(11)) / 2.0**53  # a random number in [0, 1)
    left = counts.astype(np.int64)
    picks = np.zeros(n, dtype=np.int64)
    start = 0
    while start < n:
        ends = np.cumsum(np.where(left > 0, weights, 0.0))
        next_picks = np.searchsorted(ends / ends[-1], number[start:], "right")
        used_up = np.flatnonzero(_ranks(next_picks) + 1 >= left[next_picks])
        size = int(used_up[0]) + 1 if len(used_up) else n - start
        picks[start : start + size] = next_picks[:size]
        left -= np.bincount(next_picks[:size], minlength=len(left))
        start += size
    return picks


@dataclass(frozen=True)
class _Codes:
    """Strata by code; those that no segment has are left out.

    Attributes:
        number: the stratum of each segment.
        names: of the strata.
        codes: of the strata, in ascending order.
    """

    number: Ints
    names: list[str]
    codes: Ints

    @classmethod
    def of(cls, codes: Ints, name: Callable[[int], str]) -> "_Codes":
        """Return the strata of segments by the code of each, and by a function that names codes."""
        num_codes = int(codes.max(initial=-1)) + 1
        used = np.flatnonzero(counts(codes, num_codes))
        place = np.zeros(num_codes, dtype=np.int16)
        place[used] = np.arange(len(used))
        return cls(place[codes], [name(code) for code in used.tolist()], used)

    @cached_property
    def sizes(self) -> Ints:
        """The number of segments in each stratum."""
        return counts(self.number, len(self.names))


@dataclass(frozen=True)
class _Verdicts:
    """How many segments of each stratum were judged, and how many of them are wrong."""

    judged: Ints
    wrong: Ints

    @classmethod
    def of(cls, pool: pl.DataFrame, strata: _Codes) -> "_Verdicts":
        """Count the verdicts on a pool."""
        is_judged = pool["verdict"].is_in(["right", "wrong"]).fill_null(value=False).to_numpy()
        is_wrong = pool["verdict"].eq_missing("wrong").to_numpy()
        num_strata = len(strata.names)
        return cls(
            np.bincount(strata.number[is_judged], minlength=num_strata),
            np.bincount(strata.number[is_wrong], minlength=num_strata),
        )


def _stratified(pool: pl.DataFrame, threshold: float) -> Division:
    """Draw most where errors are likely and matter, as docs/evidence-method.md says.

    A wrong guess costs width, never validity.
    """
    scores = pool["similarity"].fill_null(np.nan).to_numpy()  # NaN is sorted behind all numbers
    edge = threshold - _MARGIN
    sizes_at_edge = [
        np.bincount(part < edge, _deviation(_guess(part)), 2) for part in slices(scores)
    ]
    above, below = np.sum([np.zeros(2), *sizes_at_edge], axis=0)
    size_of = partial(_planned_size, edge=edge, scale=_scale_below(below, above))
    strata = _Codes.of(
        len(_ZONES) * _cut(scores, size_of) + _zones(scores, threshold),
        lambda code: f"{code // len(_ZONES):02d} {_ZONES[code % len(_ZONES)]}",
    )
    none = np.zeros(len(strata.names))
    guessed = sum(_sums_by_stratum(_guess, scores, strata), none)
    planned = sum((sums / strata.sizes for sums in _sums_by_stratum(size_of, scores, strata)), none)
    verdicts = _Verdicts.of(pool, strata)
    share = np.clip(
        (verdicts.wrong + _GUESS_WORTH * guessed / strata.sizes) / (verdicts.judged + _GUESS_WORTH),
        _LEAST,
        1 - _LEAST,
    )
    is_below = strata.codes % len(_ZONES) == 0
    weights = _weights(strata.sizes, planned, _deviation(share), is_below)
    return Division(strata.number, strata.names, weights)


def _zones(scores: Array, threshold: float) -> NDArray[np.int8]:
    """Return the place of the zone of each score in `_ZONES`."""
    below_threshold = np.where(scores >= threshold - _MARGIN, np.int8(2), np.int8(0))
    zone = np.where(scores >= threshold, np.int8(1), below_threshold)
    zone[np.isnan(scores)] = 3
    return zone


def _planned_size(scores: Array, *, edge: float, scale: float) -> Array:
    """Return the sizes of scores in a sample by the guess; those below the edge are scaled."""
    return _deviation(_guess(scores)) * np.where(scores < edge, scale, 1.0)


def _sums_by_stratum(
    function: Callable[[Array], Array], scores: Array, strata: _Codes
) -> Iterator[Array]:
    """Yield the sums of a function of scores by stratum, for each slice of the scores."""
    for start, part in with_starts(slices(scores)):
        number = strata.number[start : start + len(part)]
        yield np.asarray(np.bincount(number, function(part), len(strata.names)), np.float64)


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
    computed = np.empty(len(values), dtype)
    for start, part in with_starts(slices(values)):
        computed[start : start + len(part)] = function(part)
    return computed


def _guess(scores: Array) -> Array:
    """Guess how often segments of a similarity (NaN for none) are wrong, without verdicts."""
    return np.where(
        np.isnan(scores), _UNSCORED, np.clip(10 * np.maximum(1 - scores, 0.0) ** 2.5, _LEAST, 0.5)
    )


def _deviation(share: Array) -> Array:
    """Return the standard deviation of a Bernoulli variable with each share."""
    return np.sqrt(share * (1 - share))


def _scale_below(below: float, rest: float) -> float:
    """Return the factor that leaves at most `_BELOW` of the total size below the threshold."""
    if below and rest:
        return min(1.0, _BELOW / (1 - _BELOW) * rest / below)
    return 1.0


def _by_risk(pool: pl.DataFrame, threshold: float) -> Division:
    """Divide a sample as a proof needs it; `risk` is the probability of being wrong.

    A useless model only widens intervals.
    """
    if "risk" not in pool.columns:
        raise InputError(
            "strategy 'risk': there is no column risk; review import learns it from verdicts"
        )
    known_risk = pl.col("risk").fill_null(pl.col("risk").mean()).fill_null(0.5)
    risk = pool.select(known_risk.clip(1e-4, 1 - 1e-4)).to_series().to_numpy()
    is_selected = "accepted" in pool.columns and pool["accepted"].any()
    inside = _SCORE.fill_null(2.0) >= threshold
    if is_selected:
        inside = pl.col("kept")
    strata = _Codes.of(
        _risk_codes(risk, pool.select(inside).to_series().to_numpy()),
        lambda code: f"{code // 2:02d} {('below', 'kept')[code % 2]}",
    )
    verdicts = _Verdicts.of(pool, strata)
    model = np.bincount(strata.number, risk, len(strata.names)) / strata.sizes
    rates = (verdicts.wrong + _RISK_WORTH * model) / (verdicts.judged + _RISK_WORTH)
    flat_rate = (verdicts.wrong.sum() + risk.mean()) / (verdicts.judged.sum() + 1)
    flat = np.full(len(strata.names), flat_rate)
    trust = _trust(model, flat, verdicts)
    blend = trust * rates + (1 - trust) * flat
    shares = _risk_shares(strata.sizes, blend, strata.codes % 2 == 1)
    return Division(strata.number, strata.names, shares / strata.sizes, rates)


def _risk_codes(risk: Array, is_inside: Bools) -> Ints:
    """Return a code of each segment: twice its stratum of risk, and 1 if inside the selection."""
    codes = is_inside.astype(np.int16)
    for zone, most in ((is_inside, _RISK_STRATA), (~is_inside, _FEW)):
        codes[zone] += 2 * _cut(risk[zone], lambda ordered: _LEAST**0.5 + np.sqrt(ordered), most)
    return codes


def _trust(model: Array, flat: Array, verdicts: _Verdicts) -> float:
    """Return how well the model has predicted, from 0 to 1, beside a rate that is flat.

    It is the probability of the model, by the likelihood of the verdicts, if both are as likely
    before.

    Args:
        model: the rate of each stratum by the model.
        flat: the same rate for every stratum.
        verdicts: those on each stratum.
    """
    right = verdicts.judged - verdicts.wrong
    gain = verdicts.wrong @ np.log(model / flat) + right @ np.log((1 - model) / (1 - flat))
    return float(1 / (1 + np.exp(-np.clip(gain, -30, 30))))


def _risk_shares(sizes: Ints, rates: Array, is_inside: Bools) -> Array:
    """Return the share of each stratum in a sample, by its size and its rate of wrong segments.

    Inside the selection, the best allocation is mixed with one in proportion to the sizes; outside
    there is one in proportion, of at most `_BELOW` of the sample.
    """
    shares: Array = sizes / sizes.sum()
    if not is_inside.any():
        return shares
    inside = sizes[is_inside]
    outside_share = min(_BELOW, sizes[~is_inside].sum() / sizes.sum())
    best = best_allocation(inside.astype(float), rates[is_inside])
    mixed = (1 - _PROPORTIONAL) * best + _PROPORTIONAL * inside / inside.sum()
    shares[is_inside] = mixed * (1 - outside_share)
    shares[~is_inside] *= outside_share / max(shares[~is_inside].sum(), 1e-300)
    return shares


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "random": Strategy((), lambda pool, _: _undivided(pool)),
        "stratified": Strategy(("similarity",), _stratified),
        "risk": Strategy(("risk", "similarity", "decision", "reason"), _by_risk),
        # In proportion to the square root of the number of segments (the power allocation of
        # Bankier, 1988, with exponent 1/2).
        "speaker": Strategy(("speaker_id",), lambda pool, _: _by(pool, "speaker_id")),
        "recording": Strategy(("recording_id",), lambda pool, _: _by(pool, "recording_id")),
        # Three of four within 0.05 of the threshold, or from anomalies, evenly over the reasons;
        # the rest from elsewhere.
        "near": Strategy(
            ("similarity",),
            lambda pool, threshold: _focus(
                pool.select(_kind("near", (_SCORE - threshold).abs() <= _NEAR))
            ),
        ),
        "suspicious": Strategy(_OF_ANOMALIES, lambda pool, _: _focus(anomaly_reasons(pool))),
    }
)


def risk_columns(segments: pl.DataFrame) -> pl.DataFrame:
    """Return `risk` if there is one, what the last `select` `accepted`, and `kept`.

    `kept` is what was accepted, or left out only because it was reviewed.
    """
    accepted = pl.col("decision") == "accept"
    is_kept = (accepted | (pl.col("reason") == "reviewed")).fill_null(value=False)
    return segments.select(pl.col("^risk$"), accepted=accepted, kept=is_kept)


def reached(rounds: Sequence[Round]) -> pl.DataFrame:
    """Return what reviewers have reached in earlier rounds.

    The columns are `segment_id` and `verdict`, one of `OUTCOMES`.
    """
    is_reached = pl.col("line").is_not_null() & ~pl.col("ended")
    none = pl.DataFrame(schema={"segment_id": pl.String, "verdict": OUTCOMES})
    rows = [earlier.rows.filter(is_reached).select(none.columns) for earlier in rounds]
    return pl.concat([none, *rows]).unique("segment_id", keep="last")


def _cut(score: Array, size_of: Callable[[Array], Array], number: int = _STRATA) -> Ints:
    """Divide scores into strata of equal total size (Dalenius, Hodges, 1959).

    `size_of` returns the sizes of some scores.
    """
    ordered = np.sort(score)
    sums = _in_slices(size_of, ordered, np.float64)
    np.cumsum(sums, out=sums)
    total = float(sums[-1]) if len(sums) and sums[-1] else 1.0

    def stratum(place: int) -> int:
        """Return the stratum of a score and all that equal it, by the middle of their sizes."""
        first = int(np.searchsorted(ordered, ordered[place], "left"))
        end = int(np.searchsorted(ordered, ordered[place], "right"))
        middle = sums[end - 1] + (sums[first - 1] if first else 0.0)
        return int(min(middle * (number / 2) / total, number - 1))

    starts = np.array(
        [bisect_left(range(len(ordered)), later, key=stratum) for later in range(1, number)]
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
    numbered = values.to_frame("value").join(
        numbers, on="value", how="left", nulls_equal=True, maintain_order="left"
    )
    return numbered["number"].to_numpy().astype(np.int64), [names[place] for place in order]


def _undivided(pool: pl.DataFrame) -> Division:
    """Take all segments alike."""
    return Division(np.zeros(len(pool), dtype=np.int64), ["all"], np.ones(1))


def _stratum_name(value: object) -> str:
    """Return the name of the stratum of a value.

    It has a prefix, so that none is the name of the stratum without a value. `withdraw` renames
    those of speakers.
    """
    if value is None:
        return "none"
    return f"={value}"


def _by(pool: pl.DataFrame, column: str) -> Division:
    """Take a stratum for each value of a column, null included."""
    number, names = _grouped(pool[column], _stratum_name)
    return Division(number, names, 1 / np.sqrt(np.bincount(number, minlength=len(names))))


def _worst_groups(pool: pl.DataFrame, _threshold: float, *, column: str) -> Division:
    """Take a stratum for each group; the more wrong a group may be, the more is drawn from it.

    The share of a group is in proportion to (w + 1) / (n + 2), its expected rate of wrong segments
    after n verdicts of which w are wrong (Laplace).
    """
    number, names = _grouped(pool[column], _stratum_name)
    num_groups = len(names)
    is_judged = pool["verdict"].is_in(["right", "wrong"]).fill_null(value=False).to_numpy()
    is_wrong = pool["verdict"].eq_missing("wrong").to_numpy()
    judged = np.bincount(number[is_judged], minlength=num_groups)
    wrong = np.bincount(number[is_wrong], minlength=num_groups)
    sizes = np.bincount(number, minlength=num_groups)
    return Division(number, names, (wrong + 1) / (judged + 2) / sizes)


def _tenth_name(code: int) -> str:
    if code == _TENTHS:
        return "none"
    return str(code)


def _by_column(pool: pl.DataFrame, _threshold: float, *, column: str) -> Division:
    """Take ten strata by quantiles of a column, and one of the segments without a value.

    Equal values are in one stratum. All strata have equal weights.
    """
    value = pool[column].cast(pl.Float64).fill_nan(None)
    is_known = value.is_not_null().to_numpy()
    codes = np.full(len(value), _TENTHS, dtype=np.int16)
    codes[is_known] = _cut(value.drop_nulls().to_numpy(), np.ones_like, _TENTHS)
    strata = _Codes.of(codes, _tenth_name)
    return Division(strata.number, strata.names, 1 / np.bincount(strata.number))


def _kind(name: str, where: pl.Expr) -> pl.Expr:
    """Return an expression: a name where a condition is true, else null."""
    return pl.when(where).then(pl.lit(name, pl.Categorical()))


def _kind_name(kind: object) -> str:
    if kind is None:
        return "elsewhere"
    return str(kind)


def _focus(kinds: pl.DataFrame) -> Division:
    """Give segments of a kind `_FOCUS` of the sample, evenly over the kinds.

    The others get the rest.
    """
    number, names = _grouped(kinds.to_series(), _kind_name)
    is_focus = np.array([name != "elsewhere" for name in names])
    share = np.where(is_focus, _FOCUS / max(is_focus.sum(), 1), 1 - _FOCUS)
    return Division(number, names, share / np.bincount(number))


def anomaly_facts(segments: pl.DataFrame) -> pl.DataFrame:
    """Return what `anomaly_reasons` takes, from whole rows of segments.

    These are numbers, codes, and hashes of texts.
    """
    word = pl.element().struct
    pauses = pl.col("word_times").list.eval(word.field("start") - word.field("end").shift(1))
    start = pl.col("source_start").cast(pl.Float64, strict=False)
    end = pl.col("source_end").cast(pl.Float64, strict=False)
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
    anomalies = {
        "duplicate audio": _overlapping(facts),
        "duplicate text": facts["sentence"].is_in(repeated(facts["sentence"]).implode()),
        "fast": speed > _DEVIATIONS,
        "slow": speed < -_DEVIATIONS,
        "long silence": facts["silence"],
        "odd characters": pl.Series(range(len(facts)), dtype=pl.UInt32).is_in(
            rare["row"].implode()
        ),
    }
    return pl.DataFrame(anomalies).select(
        reason=pl.coalesce(_kind(name, pl.col(name)) for name in anomalies)
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
