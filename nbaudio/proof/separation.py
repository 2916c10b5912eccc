"""Which columns separate right from wrong labels.

The measures are precision by value and the AUC, from the verdicts on drawn segments.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.proof.betting import Array, Bools, Draws, Ints
from nbaudio.proof.claims import Part, check_target
from nbaudio.proof.proof_state import ProofState
from nbaudio.proof.segment_sums import Kinds, number_column
from nbaudio.review.risk import weighted_auc
from nbaudio.review.state import ReviewState
from nbaudio.tables import schemas
from nbaudio.tables.schemas import SIGNALS, is_score
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_schema

Source = str | Path | Workspace | ReviewState

_RANKED = {
    "column": pl.String,
    "auc": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "direction": pl.String,
    "verdicts": pl.Int64,
    "wrong": pl.Int64,
}
_CURVE = {
    "least": pl.Float64,
    "most": pl.Float64,
    "segments": pl.Int64,
    "reviewed": pl.Int64,
    "wrong": pl.Int64,
    "precision": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}
_MOST_GROUPS = 10
_MOST_VALUES = 1 << 23  # of all segments that are in memory at once
_VERDICTS_A_GROUP = 15
_TARGET = 0.98  # the target of a claim; the bounds do not depend on it


def ranked_columns(workspace: Workspace) -> list[str]:
    """Return the scores, signals, values of models, agreements, risk, and the duration."""
    numeric = schemas.number_columns(table_schema(workspace))
    ranked = {*SIGNALS, *workspace.measured_columns, "risk"}
    return [
        *(name for name in numeric if is_score(name) or name in ranked),
        "duration_s",
    ]


def column_values(
    state: ProofState, columns: Collection[str], ids: pl.Series | None = None
) -> pl.DataFrame:
    """Return columns as numbers, null for NaN, as they were before corrections.

    The rows are all segments, or those with `ids`, which then have `segment_id` and `recording_id`.
    """
    usable = {*schemas.number_columns(table_schema(state.workspace)), "duration_s"}
    for name in columns:
        if name not in usable:
            choices = ", ".join(ranked_columns(state.workspace))
            raise InputError(
                f"column {name!r}: not in the segments table, or no numbers; "
                f"columns to choose are {choices}"
            )

    numbers = [number_column(name).alias(name) for name in columns]
    if ids is not None:
        rows = state.population.read(ids, columns)
        return rows.select("segment_id", "recording_id", *numbers)
    return state.population.map_batches(columns, lambda rows: rows.select(*numbers))


def signal_precision(workspace: Source, *, confidence: float = 0.95) -> pl.DataFrame:
    """Rank columns by how well they separate right from wrong labels in this corpus.

    The columns are scores, signals, agreement, risk and duration. Verdicts count as far as they are
    on drawn segments, weighted by the inverse of the probability of each draw; unsure ones do not.
    The interval of each column holds by itself, that of `risk` for verdicts that came after it was
    written; `auc` has its method and sources.

    Returns:
        `column`, `auc` (the chance that a right segment has the greater value than a wrong one),
        `low`, `high`, `direction` (``higher is right`` or ``lower is right``), `verdicts`, `wrong`
        (of them); first those that surely separate most. No rows without verdicts of both kinds.

    Raises:
        InputError: there is no workspace, or the confidence is not between 0 and 1.
    """
    state = ProofState.load(workspace)
    check_target(0.5, confidence)
    columns = ranked_columns(state.workspace)
    judged = _judged(state, columns)
    rows = [_separation(judged, name, confidence) for name in columns if judged.has_both(name)]
    # What the interval leaves of the separation, so that a column with few values does not come
    # first by chance.
    surely = pl.max_horizontal(pl.col("low") - 0.5, 0.5 - pl.col("high"))
    table = pl.DataFrame(rows, schema=_RANKED)
    return table.sort(surely, (pl.col("auc") - 0.5).abs(), "column", descending=[True, True, False])


@dataclass(frozen=True)
class _Judged:
    """Drawn segments with a verdict that is right or wrong, in the order of the draws.

    Attributes:
        values: their columns.
        wrong: the verdict of each.
        weight: what each stands for.
        cluster: the number of the recording of each, or of itself if there is one recording.
    """

    values: pl.DataFrame
    wrong: Bools
    weight: Array
    cluster: Ints

    def has_value(self, column: str) -> Bools:
        """Return which segments have a value in a column."""
        return self.values[column].is_not_null().to_numpy()

    def has_both(self, column: str) -> bool:
        """Return whether there are values of right and of wrong segments in a column."""
        wrong = self.wrong[self.has_value(column)]
        return bool(0 < wrong.sum() < len(wrong))


def _judged(state: ProofState, columns: Collection[str]) -> _Judged:
    """Return the judged segments with some columns."""
    draws = state.of_drawn.draws
    used = np.flatnonzero(draws.valid & ~draws.unsure)
    ids = state.drawn_ids.gather(used)
    by_id = column_values(state, columns, ids)
    values = ids.to_frame().join(by_id, on="segment_id", how="left", maintain_order="left")
    has_several = values["recording_id"].n_unique() > 1
    column = "recording_id" if has_several else "segment_id"
    cluster = values[column].rank("dense")
    return _Judged(
        values,
        draws.wrong[used],
        draw_weights(draws)[used],
        cluster.to_numpy().astype(np.int64),
    )


def _separation(judged: _Judged, column: str, confidence: float) -> dict[str, object]:
    """Return the row of a column in the table of `signal_precision`."""
    has_value = judged.has_value(column)
    wrong = judged.wrong[has_value]
    estimate, low, high = auc(
        judged.values[column].to_numpy()[has_value],
        wrong,
        judged.weight[has_value],
        judged.cluster[has_value],
        confidence,
    )
    return {
        "column": column,
        "auc": estimate,
        "low": low,
        "high": high,
        "direction": "higher is right" if estimate >= 0.5 else "lower is right",
        "verdicts": len(wrong),
        "wrong": int(wrong.sum()),
    }


def draw_weights(draws: Draws) -> Array:
    """Return how many items each draw stands for.

    That is the mean, over all draws, of 1 / P for itself and 1 for those before it.
    """
    later = draws.first.sum() - np.cumsum(draws.first)
    return np.asarray((draws.inverse + later) / max(1, draws.first.sum()))


def auc(
    values: Array, wrong: Bools, weight: Array, cluster: Ints, confidence: float
) -> tuple[float, float, float]:
    """Return the weighted AUC and its interval.

    The AUC is the chance that a right segment has the greater value than a wrong one. The interval
    is that of Clopper and Pearson (1934) with an effective number of verdicts, as Korn and Graubard
    (Survey Methodology 24, 1998) use it for shares. The number is that of the rarer label, as no
    distribution of values has a greater variance than auc * (1 - auc) / min(m, n) (van Dantzig,
    1951; Birnbaum and Klose, 1957), counted in draws of the greatest weight, since a fault that
    such a draw would find may be missing. It is less if recordings vary more (linearized variance).
    """
    from scipy.special import betaincinv

    estimate, variance = weighted_auc(values, wrong, weight, cluster)
    number = min(weight[wrong].sum(), weight[~wrong].sum()) / weight.max()
    if variance > 0:
        number = min(number, max(estimate * (1 - estimate) / variance, 1.0))
    tail = (1 - confidence) / 2
    hits = number * estimate
    low = 0.0
    if hits > 0:
        low = betaincinv(hits, number - hits + 1, tail)
    high = 1.0
    if hits < number:
        high = betaincinv(hits + 1, number - hits, 1 - tail)
    return estimate, float(low), float(high)


def precision_by(workspace: Source, column: str, *, confidence: float = 0.95) -> pl.DataFrame:
    """Return the share of right labels in groups of segments by the value of a column.

    The groups have about equally many segments; there is one for every 15 verdicts, at most ten. A
    value that many segments share is a group, and so is the lack of one. `precision`, `low` and
    `high` are those of `evidence`: bets on the draws in order, which hold for weighted draws,
    without a fault, and whenever one looks (Waudby-Smith and Ramdas, 2024), for each group by
    itself.

    Args:
        workspace: the workspace or its folder.
        column: a numeric or boolean column of the segments table, or ``duration_s``.
        confidence: confidence level of the intervals, above 0 and below 1.

    Returns:
        `least`, `most` (values in the group, null for none), `segments`, `reviewed`, `wrong`,
        `precision`, `low`, `high`.

    Raises:
        InputError: there is no such column, or the confidence is not between 0 and 1.
    """
    return precision_by_columns(ProofState.load(workspace), [column], confidence=confidence)[0]


def precision_by_columns(
    state: ProofState, columns: Sequence[str], *, confidence: float = 0.95
) -> list[pl.DataFrame]:
    """Return `precision_by` of each of several columns, for which texts are read once."""
    check_target(0.5, confidence)
    groups = [group for part in _parts(state, columns) for group in _groups(state, part)]
    kinds = [Kinds(group.column, cuts=group.cuts) for group in groups]
    return [
        _precision_of_groups(by_column, group, confidence)
        for by_column, group in zip(state.by_columns(kinds), groups, strict=True)
    ]


@dataclass(frozen=True)
class _Groups:
    """Groups of segments by the value of a column.

    Attributes:
        cuts: the least values of all groups but the first.
        ends: `group`, `least` and `most` of each; -1 is the lack of a value.
    """

    column: str
    cuts: list[float]
    ends: pl.DataFrame


def _parts(state: ProofState, columns: Sequence[str]) -> list[Sequence[str]]:
    """Return columns in parts whose values fit into memory together."""
    most = max(1, _MOST_VALUES // max(1, len(state.population)))
    return [columns[start : start + most] for start in range(0, len(columns), most)]


def _groups(state: ProofState, columns: Sequence[str]) -> list[_Groups]:
    """Return the groups of each column."""
    table = column_values(state, columns)
    reviewable = pl.Series(state.population.reviewable)
    drawn = state.of_drawn
    judged_keys = drawn.rows["key"].filter(pl.Series(drawn.judged))
    is_judged = pl.Series(state.population.mask_of_keys(judged_keys))
    groups = []
    for column in columns:
        values = table[column]
        reviewed = int((is_judged & values.is_not_null()).sum())
        cuts = _cuts(values.filter(reviewable).drop_nulls().to_numpy(), reviewed)
        groups.append(_Groups(column, cuts, _ends(values.filter(reviewable), cuts)))
    return groups


def _precision_of_groups(state: ProofState, groups: _Groups, confidence: float) -> pl.DataFrame:
    """Return the table of `precision_by`, of a state that tells the groups apart."""
    side = (1 - confidence) / 2
    rows = []
    for number, least, most in groups.ends.iter_rows():
        where = (state.rows["cut"].to_numpy() == number) & state.flags("reviewable")
        claim = Part(state, where).by("segments", target=_TARGET, error=side, high_error=side)
        wrong = state.count(where & state.judged & state.labelled("wrong"))
        row = {**claim, "least": least, "most": most, "wrong": wrong}
        rows.append({name: row[name] for name in _CURVE})
    return pl.DataFrame(rows, schema=_CURVE)


def _ends(values: pl.Series, cuts: list[float]) -> pl.DataFrame:
    """Return each `group` with its `least` and `most` value; -1, for no value, comes last."""
    group = pl.Series(np.searchsorted(cuts, values.to_numpy(), side="right"))
    number = pl.when(values.is_not_null()).then(group).otherwise(-1)
    groups = pl.select(value=values, group=number).group_by("group")
    ends = groups.agg(least=pl.col("value").min(), most=pl.col("value").max())
    return ends.sort(pl.col("group") < 0, "group")


def _cuts(values: Array, reviewed: int) -> list[float]:
    """Return the least values of groups with about equally many segments, without the first.

    A value that many segments share has a group for itself.

    Args:
        values: those of segments that can be reviewed.
        reviewed: how many segments with a value were judged.
    """
    if not len(values):
        return []
    number = min(_MOST_GROUPS, max(2, reviewed // _VERDICTS_A_GROUP))
    edges = np.quantile(values, np.linspace(0, 1, number + 1), method="inverted_cdf")
    shared = np.unique(edges[1:][np.diff(edges) == 0])
    rest = values[~np.isin(values, shared)]
    many = max(1, round(number * len(rest) / len(values)))
    parts = np.arange(1, many) / many
    if len(parts):
        inner = np.quantile(rest, parts, method="inverted_cdf")
    else:
        inner = parts
    last = np.unique(np.concatenate([inner, shared, np.nextafter(shared, -np.inf)]))
    return [float(value) for value in np.nextafter(last, np.inf)]
