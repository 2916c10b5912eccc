"""Risk: the probability that a segment is wrong, learned from verdicts.

docs/evidence-method.md has the method and its sources.

The model is a ridge logistic regression, cross-fitted by recording: the `risk` of a segment is from
a model without verdicts on its recording. Columns become normal scores of their ranks in the whole
corpus, bounded at 3.3. Penalty, intercept and slope are chosen by cross-validation within the other
folds.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.atomic import read_json, write_json
from nbaudio.core.errors import InputError
from nbaudio.core.hashing import hash_column, json_hash
from nbaudio.core.report import count, percent
from nbaudio.review.corrections import uncorrected
from nbaudio.review.rounds import JUDGED, current_labels
from nbaudio.review.state import ReviewState
from nbaudio.tables import schemas, workspace_tables
from nbaudio.tables.amounts import with_durations
from nbaudio.tables.conditions import condition_columns
from nbaudio.tables.schemas import SEGMENTS, SIGNALS, conform, is_score
from nbaudio.tables.tombstones import tombstone
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_schema

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

RECORD = "risk.json"
LEAST = 5  # verdicts of each kind
_FOLDS = 5
_SALTS = 20
# With the last one, the model is the base rate.
_PENALTIES = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 1e6)
_TAIL = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075])
_QUANTILES = np.concatenate([[0.0], _TAIL, np.linspace(0.1, 0.9, 33), 1 - _TAIL[::-1], [1.0]])
_LEAST_RANK = 0.0005
# The latter is how many verdicts the base rate counts for in the rate of a speaker.
_SPEAKER, _SPEAKER_ROWS = "speaker_id", 10.0
_ALIGNED = ("edge_confidence", "inner_confidence", "room_before_s", "room_after_s")
_DERIVED = ("duration_s", "characters_per_second")
_CONTEXT = (
    "segment_id",
    "recording_id",
    _SPEAKER,
    "start_sample",
    "end_sample",
    "source_start",
    "source_end",
    "text",
)
_STEPS = 30
_SMALL_STEP = 1e-8
_STEEPEST = 1.5
_LEAST_GAIN = 2.0  # of the log-likelihood
_GROUPS = 5
_REASONS = 3


def refresh(workspace: Workspace | str | Path | ReviewState) -> dict[str, Any]:
    """Learn `risk` again if verdicts or columns have changed, unless it is frozen.

    Return the record, or why there is none.

    Frozen, the stored model gives a risk to segments that have none. The record is ``W/risk.json``;
    where too little was judged, a dict with `missing`, a sentence, is returned instead, and no
    segment has a risk.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> segments = pl.DataFrame({"segment_id": ["a"]})
        >>> recordings = pl.DataFrame({"recording_id": ["r"]})
        >>> workspace.save(segments=segments, recordings=recordings)
        >>> refresh(workspace)["missing"].partition("; ")[2]
        'so far 0 right and 0 wrong, of 0 recordings'
    """
    state = ReviewState.load(workspace)
    workspace = state.workspace
    stored = record(workspace)
    is_complete = _is_complete(workspace)
    if stored and frozen(workspace):
        if not is_complete:
            _write(workspace, stored)
        return stored
    judged = _judged(state)
    if not judged.is_enough:
        _remove(workspace)
        return {"missing": judged.describe_missing()}
    columns = {name: knots for name in _columns(workspace) if (knots := _knots(workspace, name))}
    values = judged.values.select("segment_id", "recording_id", _SPEAKER, *columns)
    stamp = json_hash([columns, values.rows(), judged.wrong.tolist(), judged.salt])
    if stored.get("stamp") == stamp and is_complete:
        return stored
    terms = {"columns": columns, "salt": judged.salt}
    learned = {
        **terms,
        **_learn(values, judged.wrong, judged.recording, terms),
        "stamp": stamp,
        "lines": len(state.verdict_log),
    }
    model = {"id": json_hash(learned), **learned}
    # The column is written first: after a kill, the old record makes the next run learn again.
    _write(workspace, model)
    write_json(workspace.path / RECORD, model)
    return model


def _is_complete(workspace: Workspace) -> bool:
    """Return whether all segments have a risk."""
    if "risk" not in table_schema(workspace):
        return False
    return not workspace_tables.read(workspace, ["risk"])["risk"].has_nulls()


def _remove(workspace: Workspace) -> None:
    """Remove the record, and the risk of all segments."""
    if "risk" in table_schema(workspace):
        column = workspace_tables.read(workspace, ["risk"])
        nulls = column.with_columns(risk=pl.lit(None, pl.Float64))
        workspace_tables.replace_columns(workspace, nulls)
    (workspace.path / RECORD).unlink(missing_ok=True)


def record(workspace: Workspace) -> dict[str, Any]:
    """Return the record of the model; empty if there is none."""
    path = workspace.path / RECORD
    return read_json(path) if path.exists() else {}


def frozen(workspace: Workspace) -> dict[str, Any]:
    """Return the model that the last `select` used in a condition.

    The model has an `id`. The result is empty if there is none.
    """
    return dict(workspace.report("select").get("facts", {}).get("parameters", {}).get("risk", {}))


def freeze(workspace: Workspace, where: Sequence[str]) -> dict[str, Any]:
    """Return what `frozen` returns once a selection with these conditions is stored.

    `where` has been checked.
    """
    if not any("risk" in condition_columns(text) for text in where):
        return {}
    model = record(workspace)
    if not model:
        raise InputError(
            f"{workspace.path / RECORD}: missing; without it nothing says which verdicts "
            "'risk' was learned from"
        )
    return {"id": model["id"]}


def describe(model: Mapping[str, Any]) -> str:
    """Say how well a record of `refresh` tells wrong from right segments, and by what columns."""
    if "missing" in model:
        return str(model["missing"])
    heaviest = model["weigh"][:_REASONS]
    columns = ", ".join(row["column"] for row in heaviest if row["weight"] > 0) or "none"
    interval = f"{percent(model['auc_low'])} to {percent(model['auc_high'])}, 95 % confidence"
    return (
        f"learned from {count(model['judged'], 'verdicts')}, {model['wrong']:,} of them wrong: of "
        f"a wrong and a right segment, the wrong one has the greater risk in "
        f"{percent(model['auc'])} of cases (AUC; {interval}); what weighs most: {columns}"
    )


def ranking(workspace: Workspace | str | Path, n: int = 100) -> pl.DataFrame:
    """Return the segments most likely to be wrong, without judged ones.

    The columns are `segment_id`, `risk`, and `reason`, which is what weighs most.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> segments = pl.DataFrame({"segment_id": ["a"]})
        >>> recordings = pl.DataFrame({"recording_id": ["r"]})
        >>> workspace.save(segments=segments, recordings=recordings)
        >>> ranking(workspace).columns
        ['segment_id', 'risk', 'reason']
    """
    workspace = Workspace.open(workspace)
    model = record(workspace)
    if not model or "risk" not in table_schema(workspace):
        return pl.DataFrame(
            schema={"segment_id": pl.String, "risk": pl.Float64, "reason": pl.String}
        )
    risks = (
        workspace_tables.read(workspace, ["segment_id", "risk"])
        .drop_nulls()
        .unique("segment_id", keep="first")
    )
    judged_ids = ReviewState.load(workspace).verdicts["segment_id"]
    unjudged = risks.filter(~pl.col("segment_id").is_in(judged_ids.implode()))
    top = unjudged.sort("risk", "segment_id", descending=[True, False]).head(n)
    return top.with_columns(reason=_reasons(workspace, model, top.select("segment_id")))


def _reasons(workspace: Workspace, model: Mapping[str, Any], ids: pl.DataFrame) -> pl.Series:
    """Return the columns that raise the risk of segments most, with their values, as texts."""
    rows = workspace_tables.read(
        workspace,
        _needed(model["columns"]),
        where=pl.col("segment_id").is_in(ids["segment_id"].implode()),
    )
    values = ids.join(
        _values(rows, workspace, model["columns"]), on="segment_id", maintain_order="left"
    )
    rises = _rises(values, model)
    reasons = []
    for place, row in enumerate(values.iter_rows(named=True)):
        raising = (name for name in rises if rises[name][place] > 0)
        heaviest = sorted(raising, key=lambda name: -rises[name][place])[:_REASONS]
        reasons.append(", ".join(f"{name} {_format_value(row[name])}" for name in heaviest))
    return pl.Series(reasons, dtype=pl.String)


def _rises(values: pl.DataFrame, model: Mapping[str, Any]) -> dict[str, Array]:
    """Return by how much each column raises the logit of each row above what it usually adds."""
    usual = {row["column"]: np.array(row["usual"]) for row in model["weigh"]}
    fold = _folds(values["recording_id"], model["salt"])
    return {name: part - usual[name][fold] for name, part in _parts(values, model, fold) if name}


def _format_value(value: object) -> str:
    if value is None:
        return "missing"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _columns(workspace: Workspace) -> list[str]:
    """Return the columns that the model may use, `_DERIVED` ones included."""
    usable = schemas.number_columns(table_schema(workspace))
    measured = {*SIGNALS, *workspace.measured_columns, *_ALIGNED}
    return [
        *sorted(name for name in usable if is_score(name) or name in measured),
        *_DERIVED,
    ]


def _needed(columns: Sequence[str] | Mapping[str, Any]) -> list[str]:
    """Return the columns of the segments table that `_values` takes."""
    return list(dict.fromkeys((*_CONTEXT, *(name for name in columns if name not in _DERIVED))))


def _values(
    rows: pl.DataFrame, workspace: Workspace, columns: Sequence[str] | Mapping[str, Any]
) -> pl.DataFrame:
    """Return ids, speakers and the columns as numbers, in the order of rows.

    Numbers are null where they are missing or infinite.
    """
    joined = with_durations(rows.drop("sampling_rate", strict=False), workspace.recordings)
    joined = joined.with_columns(
        characters_per_second=pl.col("text").str.len_chars() / pl.col("duration_s")
    )
    return joined.select("segment_id", "recording_id", _SPEAKER, *map(_number, columns))


def _batches(
    workspace: Workspace, columns: Sequence[str] | Mapping[str, Any]
) -> Iterator[pl.DataFrame]:
    """Yield `_values` of all segments, batch by batch."""
    needed = _needed(columns)
    expected = pl.Schema({name: dtype for name, dtype in SEGMENTS.items() if name in needed})
    for batch in workspace_tables.read_batches(workspace, columns=needed):
        yield _values(conform(batch, expected, "segments"), workspace, columns)


def _number(name: str) -> pl.Expr:
    """Return a column as numbers; null where a value is not finite."""
    value = pl.col(name).cast(pl.Float64)
    return pl.when(value.is_finite()).then(value)


def _knots(workspace: Workspace, name: str) -> dict[str, Any]:
    """Return quantiles of a column, the normal scores of their ranks, and whether some are missing.

    The result is empty if all values are equal.
    """
    if name in _DERIVED:
        column = pl.concat(values[name] for values in _batches(workspace, [name]))
    else:
        column = workspace_tables.read(workspace, [name]).select(_number(name)).to_series()
    ordered = np.sort(column.drop_nulls().to_numpy())
    if not len(ordered) or ordered[0] == ordered[-1]:
        return {}
    knots = np.unique(np.quantile(ordered, _QUANTILES, method="closest_observation"))
    below = np.searchsorted(ordered, knots, "left")
    up_to = np.searchsorted(ordered, knots, "right")
    ranks = np.clip((below + up_to) / (2 * len(ordered)), _LEAST_RANK, 1 - _LEAST_RANK)
    scores = [NormalDist().inv_cdf(rank) for rank in ranks.tolist()]
    return {"knots": knots.tolist(), "scores": scores, "missing": column.has_nulls()}


@dataclass(frozen=True)
class _Judged:
    """Judged segments that a model is learned from.

    Attributes:
        values: their `_values` as they were judged, without unsure ones, by segment id.
        wrong: 1 where a segment is wrong, else 0.
        recording: the number of the recording of each segment.
        salt: that of the hash that assigns recordings to folds.
    """

    values: pl.DataFrame
    wrong: Array
    recording: Ints
    salt: int

    @property
    def num_wrong(self) -> int:
        """The number of wrong segments."""
        return int(self.wrong.sum())

    @property
    def num_right(self) -> int:
        """The number of right segments."""
        return len(self.wrong) - self.num_wrong

    @property
    def is_enough(self) -> bool:
        """Whether there are `LEAST` segments of each kind, in at least two folds."""
        num_folds = len(set(_folds(self.values["recording_id"], self.salt)))
        return min(self.num_wrong, self.num_right) >= LEAST and num_folds >= 2

    def describe_missing(self) -> str:
        """Say how many verdicts `risk` is learned from, and how many there are."""
        recordings = len(np.unique(self.recording))
        return (
            f"risk is not learned yet: it takes {LEAST} right and {LEAST} wrong segments of 2 "
            f"recordings; so far {self.num_right:,} right and {self.num_wrong:,} wrong, of "
            f"{count(recordings, 'recordings')}"
        )


def _judged(state: ReviewState) -> _Judged:
    """Return the right and wrong segments, with the salt of the most even folds."""
    columns = _columns(state.workspace)
    is_judged = pl.col("segment_id").is_in(state.verdicts["segment_id"].implode())
    segments = workspace_tables.read(
        state.workspace,
        dict.fromkeys((*JUDGED, *_needed(columns), *table_schema(state.workspace))),
        where=is_judged,
    )
    rows = uncorrected(state, segments).unique("segment_id", keep="first")
    labels = current_labels(state, rows).filter(pl.col("verdict").is_in(["right", "wrong"]))
    rows = rows.join(labels, on="segment_id").sort("segment_id")
    wrong = rows["verdict"].eq("wrong").to_numpy()
    recording = rows["recording_id"].fill_null("").rank("dense").to_numpy()
    salt = max(
        range(_SALTS),
        key=lambda number: (_rarer_by_fold(wrong, _folds(rows["recording_id"], number)), -number),
    )
    values = _values(rows, state.workspace, columns)
    return _Judged(values, wrong.astype(float), recording.astype(np.int64), salt)


def _rarer_by_fold(wrong: NDArray[np.bool_], fold: Ints) -> list[int]:
    """Return the number of verdicts of the rarer kind in each fold, the fewest first."""
    return sorted(
        int(min((wrong & (fold == number)).sum(), (~wrong & (fold == number)).sum()))
        for number in range(_FOLDS)
    )


def _folds(recordings: pl.Series, salt: int) -> Ints:
    """Return the fold of each recording."""
    return (hash_column(recordings, f"risk {salt}") % _FOLDS).cast(pl.Int64).to_numpy()


def _speaker_counts(speakers: pl.Series, counts: Mapping[str, list[list[int]]]) -> Array:
    """Return how many segments of a segment's speaker are wrong, and how many were judged.

    The array is segments x folds x 2.
    """
    names = speakers.fill_null("").unique()
    rows = [counts.get(tombstone("speaker", name), [[0, 0]] * _FOLDS) for name in names]
    place = (
        speakers.fill_null("")
        .replace_strict(names, range(len(names)), return_dtype=pl.Int64)
        .to_numpy()
    )
    return np.take(np.array(rows, dtype=float).reshape(-1, _FOLDS, 2), place, axis=0)


def _terms(
    values: pl.DataFrame, columns: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, Array]]:
    """Yield the terms of the model, each with its column.

    The terms are bounded normal scores, their squares, and what is missing.
    """
    for name, facts in sorted(columns.items()):
        value = values[name].to_numpy()
        missing = np.isnan(value)
        present = np.where(missing, 0.0, value)
        score = np.where(missing, 0.0, np.interp(present, facts["knots"], facts["scores"]))
        yield name, score
        if len(facts["knots"]) > 2:
            yield name, np.where(missing, 0.0, (score**2 - 1) / math.sqrt(2))
        if facts["missing"]:
            yield name, missing.astype(float)


def _speaker_term(counts: Array, base: float) -> Array:
    """Return the logarithm of a speaker's rate of wrong segments over the base rate.

    It is shrunk towards 0. `counts` are, by segment, how many of the speaker's segments are wrong,
    and how many were judged.
    """
    return np.log((counts[:, 0] + _SPEAKER_ROWS * base) / (counts[:, 1] + _SPEAKER_ROWS) / base)


def _parts(
    values: pl.DataFrame, model: Mapping[str, Any], fold: Ints
) -> Iterator[tuple[str, Array]]:
    """Yield what each column contributes to the logit of each row, by the model of its fold.

    The intercept comes as ``""``.
    """
    coefficients = np.array(model["coefficients"])  # by fold: intercept, terms, speaker
    yield "", coefficients[fold, 0]
    added: dict[str, Array] = {}
    for place, (name, term) in enumerate(_terms(values, model["columns"]), 1):
        added[name] = added.get(name, 0.0) + coefficients[fold, place] * term
    yield from added.items()
    counts = _speaker_counts(values[_SPEAKER], model["speakers"])
    others = counts.sum(axis=1) - counts[np.arange(len(fold)), fold]
    yield _SPEAKER, coefficients[fold, -1] * _speaker_term(others, model["base"])


def _probability(logit: Array) -> Array:
    """Return the logistic function, clipped so that no probability is 0 or 1."""
    return 1 / (1 + np.exp(-np.clip(logit, -30, 30)))


def _write(workspace: Workspace, model: Mapping[str, Any]) -> None:
    """Write the column `risk`, batch by batch."""
    parts = [pl.Series("risk", [], pl.Float64)]
    for values in _batches(workspace, model["columns"]):
        fold = _folds(values["recording_id"], model["salt"])
        logit = sum((part for _, part in _parts(values, model, fold)), np.zeros(len(values)))
        # It is rounded, so that batches of any size give the same value.
        parts.append(pl.Series("risk", np.round(_probability(logit), 9)))
    workspace_tables.replace_columns(workspace, pl.concat(parts).to_frame())


@dataclass(frozen=True)
class _Training:
    """Judged segments in the form that models are fitted to.

    Attributes:
        terms: the intercept and the terms, without that of the speaker; rows x terms.
        wrong: 1 where a segment is wrong, else 0.
        fold: the number of the fold of each segment.
        counts: how many segments of the same speaker are wrong, and how many were judged, by fold;
            rows x folds x 2.
        base: the share of wrong segments.
    """

    terms: Array
    wrong: Array
    fold: Ints
    counts: Array
    base: float


@dataclass(frozen=True)
class _Model:
    """A fitted model: the coefficients of the terms and the speaker, and the logit of each row."""

    coefficients: Array
    logit: Array


def _learn(
    values: pl.DataFrame, wrong: Array, recording: Ints, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Fit the model of each fold, of rows of `_values` with the `columns` and `salt` of terms.

    Return the rest of the record.
    """
    fold = _folds(values["recording_id"], facts["salt"])
    counts_by_speaker = _count_verdicts(values[_SPEAKER], fold, wrong)
    intercept = np.ones(len(wrong))
    terms = [term for _, term in _terms(values, facts["columns"])]
    training = _Training(
        terms=np.column_stack([intercept, *terms]),
        wrong=wrong,
        fold=fold,
        counts=_speaker_counts(values[_SPEAKER], counts_by_speaker),
        base=float((wrong.sum() + 0.5) / (len(wrong) + 1)),
    )
    apart = _logits_without_two_folds(training)
    places = [_best_penalty(training, apart[number], number) for number in range(_FOLDS)]
    models = [
        _calibrated_model(training, apart[number, place], number, _PENALTIES[place])
        for number, place in enumerate(places)
    ]
    record_of_models = {
        "judged": len(wrong),
        "wrong": int(wrong.sum()),
        "recordings": len(np.unique(recording)),
        "base": training.base,
        "speakers": counts_by_speaker,
        "penalties": [_PENALTIES[place] for place in places],
        "coefficients": [model.coefficients.tolist() for model in models],
    }
    logit = _held_out_logit(models, fold)
    area, low, high = area_under_curve(logit, wrong, recording)
    return {
        **record_of_models,
        "weigh": _weights(values, {**facts, **record_of_models}),
        "auc": area,
        "auc_low": low,
        "auc_high": high,
        "calibration": _calibration(logit, wrong),
    }


def _count_verdicts(speakers: pl.Series, fold: Ints, wrong: Array) -> dict[str, list[list[int]]]:
    """Return how many segments are wrong, and how many were judged, by speaker and fold.

    Speakers are named by their tombstones; segments without one are left out.
    """
    counts_by_speaker: dict[str, list[list[int]]] = {}
    rows = zip(speakers.fill_null(""), fold.tolist(), wrong.tolist(), strict=True)
    for speaker, number, is_wrong in rows:
        if not speaker:
            continue
        nothing = [[0, 0] for _ in range(_FOLDS)]
        counts = counts_by_speaker.setdefault(tombstone("speaker", speaker), nothing)
        counts[number][0] += int(is_wrong)
        counts[number][1] += 1
    return counts_by_speaker


def _fit_without(training: _Training, folds: Sequence[int], penalty: float) -> _Model:
    """Fit a model without some folds; it gives a logit to the rows of all folds."""
    is_used = ~np.isin(training.fold, folds)
    used_folds = [number for number in range(_FOLDS) if number not in folds]
    others = training.counts[:, used_folds].sum(axis=1)
    counts_in_fold = training.counts[np.arange(len(training.fold)), training.fold]
    others -= np.where(is_used[:, None], counts_in_fold, 0.0)
    matrix = np.column_stack([training.terms, _speaker_term(others, training.base)])
    coefficients = _fit(matrix[is_used], training.wrong[is_used], penalty)
    return _Model(coefficients, matrix @ coefficients)


def _logits_without_two_folds(training: _Training) -> Array:
    """Return, for each fold and penalty, the logits of the rows of the other folds.

    The model of a row has seen no verdict on that fold nor on the fold of the row. The array is
    folds x penalties x rows; rows of the fold itself have 0.
    """
    apart = np.zeros((_FOLDS, len(_PENALTIES), len(training.wrong)))
    for first, second in combinations(range(_FOLDS), 2):
        for place, penalty in enumerate(_PENALTIES):
            logit = _fit_without(training, (first, second), penalty).logit
            for fold, other in ((first, second), (second, first)):
                in_other = training.fold == other
                apart[fold, place, in_other] = logit[in_other]
    return apart


def _log_likelihood(wrong: Array, logit: Array) -> Array:
    """Return the logarithm of the likelihood of each verdict; logits may have more dimensions."""
    likelihood: Array = -np.logaddexp(0.0, np.where(wrong > 0, -1, 1) * logit)
    return likelihood


def _best_penalty(training: _Training, apart: Array, number: int) -> int:
    """Return the place of the penalty for the model of a fold, by the logits of the others.

    A weaker penalty must gain more than chance often gives.
    """
    rest = training.fold != number
    gain = _log_likelihood(training.wrong, apart)[:, rest].sum(axis=1)
    return int(np.flatnonzero(gain >= gain.max() - _LEAST_GAIN)[-1])


def _calibrated_model(training: _Training, apart: Array, number: int, penalty: float) -> _Model:
    """Return the model of a fold, fitted without it, with its slope and level by `apart`.

    `apart` are logits of the other folds, by models that have not seen their verdicts.
    """
    model = _fit_without(training, [number], penalty)
    rest = training.fold != number
    logit = apart[rest]
    line = np.column_stack([np.ones(len(logit)), logit])
    level, change = _fit(line, training.wrong[rest], _PENALTIES[0], logit)
    slope = min(max(1 + change, 0.0), _STEEPEST)
    is_intercept = np.arange(len(model.coefficients)) == 0
    return _Model(
        model.coefficients * slope + level * is_intercept,
        model.logit * slope + level,
    )


def _held_out_logit(models: Sequence[_Model], fold: Ints) -> Array:
    """Return the logit of each row by the model of its fold, which has not seen its verdict.

    Without a recording with many faults the base rate is lower: by itself, that would rank its
    segments last. So all models get the same mean.
    """
    means = [model.logit.mean() for model in models]
    centered = [model.logit - mean for model, mean in zip(models, means, strict=True)]
    logit: Array = np.round(np.choose(fold, centered) + np.mean(means), 9)
    return logit


def _weights(values: pl.DataFrame, model: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how much each column weighs, the most first, and what it usually contributes.

    The weight is the standard deviation of what it contributes to the logit, as a mean of the
    models.
    """
    by_model = [
        dict(_parts(values, model, np.full(len(values), number))) for number in range(_FOLDS)
    ]
    rows = [
        {
            "column": name,
            "weight": float(np.mean([parts[name].std() for parts in by_model])),
            "usual": [float(parts[name].mean()) for parts in by_model],
        }
        for name in by_model[0]
        if name
    ]
    return sorted(rows, key=lambda row: -row["weight"])


def _calibration(logit: Array, wrong: Array) -> dict[str, Any]:
    """Return the calibration of the logits: a line, and groups of rows from low to high risk."""
    line = _fit(np.column_stack([np.ones(len(wrong)), logit]), wrong, 1e-3)
    groups = [
        {
            "judged": len(rows),
            "predicted": float(_probability(logit[rows]).mean()),
            "observed": float(wrong[rows].mean()),
        }
        for rows in np.array_split(np.argsort(logit, kind="stable"), _GROUPS)
    ]
    return {"intercept": float(line[0]), "slope": float(line[1]), "groups": groups}


def _fit(matrix: Array, wrong: Array, penalty: float, offset: Array | float = 0.0) -> Array:
    """Fit a logistic regression with a ridge by Newton's method.

    The first column, of ones, has no penalty.
    """
    coefficients = np.zeros(matrix.shape[1])
    share = (wrong.sum() + 0.5) / (len(wrong) + 1)
    coefficients[0] = math.log(share / (1 - share)) - float(np.mean(offset))
    if not 0 < wrong.sum() < len(wrong) or penalty == _PENALTIES[-1]:
        return coefficients
    ridge = np.full(len(coefficients), penalty)
    ridge[0] = 1e-3

    def loss(at: Array) -> float:
        likelihood = _log_likelihood(wrong, matrix @ at + offset)
        return float(-likelihood.sum() + ridge @ at**2 / 2)

    for _ in range(_STEPS):
        chance = _probability(matrix @ coefficients + offset)
        gradient = matrix.T @ (wrong - chance) - ridge * coefficients
        curvature = (matrix * (chance * (1 - chance))[:, None]).T @ matrix + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        size = _step_size(loss, coefficients, step)
        coefficients = coefficients + size * step
        if size * np.abs(step).max() < _SMALL_STEP:
            break
    return coefficients


def _step_size(
    loss: Callable[[Array], float], coefficients: Array, step: NDArray[np.floating[Any]]
) -> float:
    """Return by how much to scale a step of Newton's method so that the loss falls, 0 for none.

    The whole step may overshoot where the kinds are far apart.
    """
    loss_before = loss(coefficients)
    for power in range(_STEPS):
        size = 0.5**power
        if loss(coefficients + size * step) < loss_before:
            return size
    return 0.0


def area_under_curve(score: Array, wrong: Array, cluster: Ints) -> tuple[float, float, float]:
    """Return the area under the ROC curve (ties count half) with a 95 % interval.

    The interval is for whole clusters (Obuchowski, 1997).

    Args:
        score: of each item; wrong ones should have higher scores.
        wrong: of each item, 1 if it is wrong, else 0; there are some of both.
        cluster: the number of the recording of each item, from 0.

    Examples:
        >>> wrong = np.array([0.0, 1.0, 0.0, 1.0])
        >>> area_under_curve(np.array([0.1, 0.2, 0.3, 0.4]), wrong, np.arange(4))[0]
        0.75
    """
    area, variance = weighted_auc(score, wrong == 0, np.ones(len(score)), cluster)
    inner = min(max(area, 0.5 / len(score)), 1 - 0.5 / len(score))
    logit = math.log(inner / (1 - inner))
    half = 1.96 * math.sqrt(variance) / (inner * (1 - inner))
    low = _clipped_logistic(logit - half)
    high = _clipped_logistic(logit + half)
    return area, min(low, area), max(high, area)


def _clipped_logistic(logit: float) -> float:
    """Return `_probability` of one number."""
    return 1 / (1 + math.exp(-max(min(logit, 30.0), -30.0)))


def weighted_auc(
    values: Array, wrong: NDArray[np.bool_], weight: Array, cluster: Ints
) -> tuple[float, float]:
    """Return the weighted AUC and its variance.

    The AUC is the chance that a right item has the greater value than a wrong one (ties count
    half). The variance is linearized, of the sums of whole clusters, which are numbered from 0.
    """
    share = weight / np.where(wrong, weight[wrong].sum(), weight[~wrong].sum())
    # The share of the items of the other kind on the right side of each item.
    part = np.empty(len(values))
    for kind in (wrong, ~wrong):
        order = np.argsort(values[~kind])
        others = values[~kind][order]
        below = np.append(0.0, np.cumsum(share[~kind][order]))
        lower = below[np.searchsorted(others, values[kind], "left")]
        upper = below[np.searchsorted(others, values[kind], "right")]
        part[kind] = (lower + upper) / 2
    part[wrong] = 1 - part[wrong]
    area = float(share[wrong] @ part[wrong])
    sums = np.bincount(cluster, share * (part - area))
    num_clusters = len(np.unique(cluster))
    return area, float(sums @ sums) * num_clusters / max(num_clusters - 1, 1)
