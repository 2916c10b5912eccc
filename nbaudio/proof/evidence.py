"""The command `evidence`.

It reports how right the labels of what ships are, as far as verdicts prove it, and what to review
next.
"""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import Report, count, percent, percent_down
from nbaudio.core.tracebacks import interruptible
from nbaudio.proof.claim_sentences import (
    describe_choice,
    describe_word_errors,
    how_right,
    is_target_proven,
    round_down,
)
from nbaudio.proof.claims import (
    Claim,
    Part,
    best_claim,
    check_target,
    curve_of,
    min_sample_size,
    ships_by_split,
    what_ships,
)
from nbaudio.proof.measured_reviewers import measured_low
from nbaudio.proof.proof_state import ProofState
from nbaudio.proof.sampled_part import sampled_part, was_sampled
from nbaudio.proof.segment_sums import Kinds
from nbaudio.proof.word_errors import WordShares, word_error_facts
from nbaudio.proof.worst_groups import group_bounds
from nbaudio.review.next_rows import next_rows
from nbaudio.review.reviewer_rates import reviewer_rates
from nbaudio.review.risk import describe, frozen, refresh
from nbaudio.review.rounds import OUTCOMES, Round, unreturned_shares
from nbaudio.review.state import ReviewState
from nbaudio.tables.split_names import ordered_splits
from nbaudio.tables.workspace import Workspace

METHOD = "bets on verdicts in drawn order, valid whenever one looks; see docs/evidence.md"
_DRAWN = pl.Schema({"segment_id": pl.String(), "verdict": OUTCOMES})
_PERFECT = (
    "taken to be always right, as no segment was judged by two of them; 'review export "
    "--reviewers NAME,NAME --overlap N' gives both the same segments"
)
_AMOUNT_OF_KEY = {"by_segments": "segments", "by_hours": "hours", "by_words": "words"}
_BANDS = (1.0, 1.0, 0.95, 0.9, 0.8, 0.7, 0.5, -1.0)
_FIRST_ROUND = 300
_MOST_NEXT = 2000
_LEAST_NEXT = 5
_LEAST_SAVING = 0.95
_COUNTS_OF_VERDICTS = (
    "unsure",
    "rows_skipped",
    "sheets_ended",
    "sheets_not_returned",
    "rounds_taken_back",
)


@interruptible
def evidence(
    workspace: Workspace | str | Path, *, precision: float = 0.98, confidence: float = 0.95
) -> Report:
    """Report how right the labels of the clips that ship are, as far as the reviews prove it.

    Claims hold however often one looks, whenever one stops, and also if what ships was chosen
    because of verdicts: they rest on the rules that rounds have fixed (docs/evidence.md). The
    selection is that of the last `select`; without one, it is all segments with a similarity of 0.8
    or more.

    Args:
        workspace: the workspace or its folder.
        precision: the target share of right segments, in (0, 1).
        confidence: of the proof, in (0, 1).

    Returns:
        Answers in this order: how right what ships is; whether the target is proven, and since
        when; how many more reviews are expected, and the least possible; where most is wrong. Then
        the claims, as in ``corpus.json``: `selection`, each split, and `curve` over thresholds on
        similarity. Its warnings say if the reviews prove nothing.

    Raises:
        InputError: there is no workspace, or a parameter is not usable.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> times = {"recording_id": "r", "source_start": ["0", "4"], "source_end": ["4", "9"]}
        >>> rows = {"segment_id": ["a", "b"], **times, "text": "da", "similarity": [0.9, 1.0]}
        >>> segments = pl.DataFrame(rows)
        >>> workspace.save(segments=segments, recordings=pl.DataFrame({"recording_id": ["r"]}))
        >>> evidence(workspace).warnings
        ['nothing has been judged yet: the quality of the labels is unknown']
    """
    state = ProofState(ReviewState.load(workspace).workspace, Kinds(by_risk=True))
    check_target(precision, confidence)
    model = refresh(state)
    asked = {"precision": precision, "confidence": confidence}
    computed = _claims(state, asked)
    claims = computed.facts
    whole = computed.whole.part
    selection = claims["selection"]
    learned = risk_facts(state, model, whole, selection)
    least = 2 * min_sample_size(precision=precision, confidence=confidence)
    following = _next_round(state, selection["progress"], learned, least)
    facts: dict[str, Any] = {
        "how_right": selection["statement"],
        "target": f"{percent(precision)} right, with {percent(confidence)} confidence",
        "target_proven": is_target_proven(selection),
        "word_errors": describe_word_errors(selection),
        "chosen_since": describe_choice(selection),
        "weakest": weakest(whole),
        "by_part": describe_parts(claims),
        "worst_groups": [row["sentence"] for row in selection["worst"]],
        "risk_model": learned["model"],
        "risk": learned,
        "lowest_proven": next((row["threshold"] for row in claims["curve"] if row["proven"]), None),
        "reviewed": _reviewed(state),
        "reviewers": _describe_reviewers(state, selection),
        "rounds": _describe_rounds(state),
        "rounds_taken_back": len(state.taken_back),
        **claims,
        "review_next": following.advice,
    }
    report = Report(
        "evidence",
        facts,
        warnings=[*_warnings(state, whole)],
        hidden=_hidden_facts(state, claims),
        sentences=_sentences(facts),
    )
    stored = {**report.to_dict(), "asked": asked, "next": following.segment_ids}
    state.workspace.save_report("evidence", stored)
    return report


@dataclass(frozen=True)
class FirstAnswer:
    """How right what ships is, in a sentence, and how many drawn segments were judged."""

    how_right: str
    right: int
    wrong: int


def first_answer(
    workspace: Workspace | str | Path, *, precision: float = 0.98, confidence: float = 0.95
) -> FirstAnswer:
    """Return the first answer of `evidence`, without its other claims, which take most of its time.

    Nothing is stored. Parameters and errors are those of `evidence`.
    """
    check_target(precision, confidence)
    state = ProofState(ReviewState.load(workspace).workspace, Kinds(by_risk=True))
    ships = what_ships(state)
    whole = best_claim(state, ships, target=precision, error=1 - confidence)
    claim = whole.part.by(
        "segments", target=precision, error=whole.error, high_error=whole.high_error
    )
    sampled = sampled_part(state, ships, target=precision, error=1 - confidence)
    claim["sampled"] = None if sampled is None else asdict(sampled)
    reviewed = _reviewed(state)
    return FirstAnswer(
        how_right(claim, confidence, selected=bool(state.accepted.any())),
        right=reviewed["right"],
        wrong=reviewed["wrong"],
    )


def expected_reviews(workspace: Workspace | str | Path) -> int | None:
    """Return how many more verdicts are expected to prove the target of the last `evidence`.

    Without one, the target is 98 % with 95 % confidence. It is 0 once the target is proven, and
    None where no number of verdicts is expected to prove it, as before the first one. Nothing is
    stored.
    """
    state = ProofState(ReviewState.load(workspace).workspace)
    asked = state.workspace.report("evidence").get("asked", {})
    target = asked.get("precision", 0.98)
    error = 1 - asked.get("confidence", 0.95)
    whole = best_claim(state, what_ships(state), target=target, error=error)
    progress = whole.part.progress(target=target, error=whole.error)
    if "expected" not in progress:
        return 0
    expected: int | None = progress["expected"]
    return expected


@dataclass(frozen=True)
class _NextRound:
    """The segments that the next round would draw, and the command that exports them."""

    segment_ids: list[str]
    advice: str


def _next_round(
    state: ProofState,
    progress: Mapping[str, Any],
    learned: Mapping[str, Any],
    least: int,
) -> _NextRound:
    """Return what to review next.

    Args:
        state: the population and its draws.
        progress: that of the selection.
        learned: what `risk_facts` returns.
        least: how many segments a first round has at least.
    """
    n = max(_FIRST_ROUND, least)
    if len(state.lines):
        n = min(_MOST_NEXT, max(_LEAST_NEXT, progress.get("expected") or _FIRST_ROUND))
    strategy = "stratified"
    if learned["useful"]:
        strategy = "risk"
        n = min(n, learned["reviews_left"]["risk"] or n)
    drawn = next_rows(
        state.population,
        strategy=strategy,
        threshold=state.selection_threshold,
        n=n,
        seed=42,
        rounds=state.rounds,
    )
    segment_ids = drawn.rows["segment_id"].to_list()
    if not segment_ids:
        return _NextRound([], "nothing: all segments have been drawn")
    workspace = shlex.quote(str(state.workspace.path))
    options = (
        f"--strategy {strategy} --n {len(segment_ids)} --threshold {state.selection_threshold:g}"
    )
    return _NextRound(segment_ids, f"nbaudio review export {workspace} --out NEXT.xlsx {options}")


def _number_judged_by_several(state: ProofState) -> int:
    """Return how many segments were judged by several reviewers."""
    is_repeated = pl.len().over("segment_id", "content") > 1
    return state.verdicts.filter(is_repeated)["segment_id"].n_unique()


def _describe_reviewers(state: ProofState, claim: Mapping[str, Any]) -> str:
    """Say what is known of reviewers: rates, and how many segments several of them judged."""
    rates = claim["reviewer_rates"]
    measured = f"{rates['sentence']} " if rates else ""
    number = _number_judged_by_several(state)
    if not number:
        return measured.strip() or _PERFECT
    verb = "was" if number == 1 else "were"
    return (
        f"{measured}{count(number, 'segments')} {verb} judged by two or more; "
        "nbaudio.review.agreement(W) compares them"
    )


def _sentences(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what people read in place of the facts that are numbers or commands alone."""
    lowest = facts["lowest_proven"]
    proven = "none of those below"
    if lowest is not None:
        proven = f"a similarity of {lowest:g}: all segments with at least this are proven together"
    sentences = {"lowest_proven": [proven]}
    selection = facts["selection"]
    command = facts["review_next"]
    if not facts["review_next"].startswith("nbaudio "):
        return sentences
    if selection["proven"]:
        sentences["review_next"] = [f"not needed, the target is proven; to prove more: {command}"]
    elif selection["reviewed"] and selection["progress"].get("expected") is None:
        sentences["review_next"] = [f"no proof is expected of more; to estimate better: {command}"]
    return sentences


def _hidden_facts(state: ProofState, claims: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the facts that are only for machines."""
    hidden = ["risk", *claims.keys() - {"curve"}]
    if not state.taken_back:
        hidden.append("rounds_taken_back")
    return tuple(hidden)


def _reviewed(state: ProofState) -> dict[str, int]:
    """Return how many segments that were drawn are right, wrong and unsure."""
    drawn = pl.concat(
        [
            pl.DataFrame(schema=_DRAWN),
            *(round_.rows.filter(~pl.col("ended")).select(*_DRAWN) for round_ in state.rounds),
        ]
    )
    drawn = drawn.drop_nulls().unique("segment_id")
    return {word: int((drawn["verdict"] == word).sum()) for word in OUTCOMES.categories}


def _describe_rounds(state: ProofState) -> list[dict[str, Any]]:
    """Return `_describe_round` of each round that reviewers have rows of."""
    return [_describe_round(round_) for round_ in state.rounds if not round_.is_owed]


def _describe_round(round_: Round) -> dict[str, Any]:
    """Return review, strategy, and how many rows a draw has on sheets and were reviewed."""
    listed = round_.rows.filter("listed")
    return {
        "round": round_.name,
        "strategy": round_.strategy,
        "rows": len(listed),
        "reviewed": listed.filter(~pl.col("ended"))["verdict"].count(),
    }


def risk_facts(
    state: ProofState,
    model: Mapping[str, Any],
    part: Part,
    selection: Mapping[str, Any],
) -> dict[str, Any]:
    """Return how well `risk` tells wrong from right, and how many reviews are left.

    The numbers of reviews are what is left if `risk` steers the draws, and if it does not. They are
    at most the number of segments that are `left` to draw; None is not within reach.
    """
    if "missing" in model:
        return {"model": model["missing"], "useful": False}
    strata = state.next_strata
    error = selection["rule"]["error"]
    left = part.further_reviews(strata, target=selection["target"], error=error)
    # The same with one stratum: the difference is what the model saves.
    alone = part.further_reviews(strata.merged(), target=selection["target"], error=error)
    if frozen(state.workspace):
        is_frozen = "by the last select; a select without 'risk' ends it"
    else:
        is_frozen = "no: it learns from each import"
    return {
        "model": describe(model),
        "frozen": is_frozen,
        "calibration": {name: model["calibration"][name] for name in ("intercept", "slope")},
        "groups": model["calibration"]["groups"],
        "columns": {row["column"]: row["weight"] for row in model["weigh"] if row["weight"] > 0},
        "reviews_left": {
            "risk": left,
            "one stratum": alone,
            "expected": selection["progress"].get("expected"),
            "left": int(strata.counts.sum()),
        },
        "within_reach": _describe_reach(left),
        "useful": bool(
            model["auc_low"] > 0.5
            and left is not None
            and (alone is None or left < _LEAST_SAVING * alone)
        ),
    }


def _describe_reach(reviews: int | None) -> str:
    """Say whether the target is expected to be proven by reviews that `risk` steers."""
    return "not within reach" if reviews is None else "within reach"


def selection_claim(
    workspace: Workspace | str | Path | ProofState,
    *,
    without: Sequence[str] = (),
    asked: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return claims as in ``corpus.json``.

    `asked` has the parameters of `evidence`, by default those of its last call.
    """
    state = ProofState.load(workspace)
    if without:
        state = ProofState(state.workspace, Kinds(without=without))
    if asked is None:
        asked = state.workspace.report("evidence").get("asked", {})
    return _claims(state, asked).facts


@dataclass(frozen=True)
class _Claims:
    """The claim about all that ships, and all claims as in ``corpus.json``."""

    whole: Claim
    facts: dict[str, Any]


def _claims(state: ProofState, asked: Mapping[str, float]) -> _Claims:
    """Return the claims about what ships, as `selection_claim` has them."""
    target = asked.get("precision", 0.98)
    confidence = asked.get("confidence", 0.95)
    ships = what_ships(state)
    whole = best_claim(state, ships, target=target, error=1 - confidence)
    side = (1 - confidence) / 2
    splits = {
        name: best_claim(state, of_split, target=target, error=side, split=name)
        for name, of_split in ships_by_split(state, ships).items()
    }
    facts = {"selection": _selection_facts(state, whole, target, confidence)} | {
        name: claim.facts(target) for name, claim in splits.items()
    }
    parts = {"selection": whole, **splits}
    _mark_proven_parts(parts, facts, target, 1 - confidence)
    shares = WordShares.of(state)
    for name, claim in parts.items():
        facts[name]["word_errors"] = word_error_facts(claim, shares, error=1 - confidence)
    rows = _curve(state, target, confidence)
    of_curve = rows.filter(pl.col("segments") > 0).to_dicts()
    return _Claims(whole, {**facts, "curve": of_curve})


def _selection_facts(
    state: ProofState, whole: Claim, target: float, confidence: float
) -> dict[str, Any]:
    """Return the claim about all that ships, as in ``corpus.json``."""
    claim = whole.facts(target)
    claim["rule"]["fresh_reviews"] = whole.fresh_reviews(target, 1 - confidence)
    sampled = sampled_part(state, whole.part.ships, target=target, error=1 - confidence)
    claim["sampled"] = None if sampled is None else asdict(sampled)
    claim |= {
        "confidence": confidence,
        "statement": how_right(claim, confidence, selected=bool(state.accepted.any())),
        "progress": whole.part.progress(target=target, error=whole.error),
        "method": METHOD,
        "worst": _worst_groups(state, target, confidence),
        **_count_reviews(state),
    }
    measured = _measured_reviewers(state, claim["statement"], target=target, confidence=confidence)
    return claim | measured


def _measured_reviewers(
    state: ProofState, statement: str, *, target: float, confidence: float
) -> dict[str, Any]:
    """Return what control rows add to a claim: rates, the bound with them, and the statement."""
    rates = reviewer_rates(state, confidence)
    if rates is None:
        return {"reviewer_rates": None, "low_measured": None}
    low = measured_low(state, rates, target=target, confidence=confidence)
    sentences = [statement, rates.sentence()]
    if low is not None:
        sentences.append(
            f"If they miss real faults as often, at least {percent_down(low)} of the clips are "
            f"right ({percent(confidence)} confidence)."
        )
    return {
        "statement": " ".join(filter(None, sentences)),
        "reviewer_rates": {**rates.facts(), "sentence": rates.sentence()},
        "low_measured": low,
    }


def _count_reviews(state: ProofState) -> dict[str, int]:
    """Return counts of rounds, sheets and rows that say how the reviews went."""
    return {
        "rounds_taken_back": len(state.taken_back),
        "sheets_ended": sum(map(_count_ended_sheets, state.rounds)),
        "sheets_not_returned": len(unreturned_shares(state)),
        "rows_skipped": sum(int(round_.rows["skipped"].sum()) for round_ in state.rounds),
        "unsure": state.count(state.labelled("unsure")),
        "judged_by_several": _number_judged_by_several(state),
    }


def _worst_groups(state: ProofState, target: float, confidence: float) -> list[dict[str, Any]]:
    """Return the worst group of each column whose groups rounds have fixed."""
    worst = []
    for by in state.group_columns:
        bounds = group_bounds(state, by, target=target, confidence=confidence)
        if bounds is not None:
            worst.append(bounds.facts() | {"sentence": bounds.sentence()})
    return worst


def _mark_proven_parts(
    parts: Mapping[str, Claim], facts: Mapping[str, dict[str, Any]], target: float, error: float
) -> None:
    """Set `proven` of splits, and of hours and words, to True where the target is proven.

    All of them hold together: each has an equal part of the error. Where it is not proven, `proven`
    is None, as the bound in the facts holds by itself.
    """
    places = [
        (name, key)
        for name in parts
        for key in _AMOUNT_OF_KEY
        if (name, key) != ("selection", "by_segments")
    ]
    for name, key in places:
        bound = facts[name] if key == "by_segments" else facts[name][key]
        is_possible = bound["low"] is not None and bound["low"] >= target
        what = _AMOUNT_OF_KEY[key]
        is_proven = is_possible and parts[name].is_proven(
            what, target=target, error=error / len(places)
        )
        bound["proven"] = True if is_proven else None


def _curve(state: ProofState, target: float, confidence: float) -> pl.DataFrame:
    """Return the curve over thresholds of segments with the durations that `select` takes."""
    grid = state.cuts
    return curve_of(state, grid, precision=target, confidence=confidence, has_duration=True)


def describe_claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claim about a selection under readable names, the answers first.

    The result is empty if there is no claim.
    """
    if not claim:
        return {}
    names = {
        "precision": "right, estimated share",
        "low": "at least",
        "high": "at most",
        "reviewed": "reviewed",
    }
    answers = {"how right": claim["statement"], "target proven": is_target_proven(claim)}
    if words_wrong := describe_word_errors(claim):
        answers["word errors"] = words_wrong
    rounded = {**claim, "low": round_down(claim["low"])}
    numbers = {label: rounded[name] for name, label in names.items()}
    if claim.get("low_measured") is not None:
        numbers["at least, with measured reviewers"] = round_down(claim["low_measured"])
    counts = {
        name.replace("_", " "): claim[name] for name in _COUNTS_OF_VERDICTS if claim.get(name)
    }
    groups = {f"worst {row['by']}": row["sentence"] for row in claim.get("worst") or []}
    return answers | numbers | groups | counts | _reviewers_of_claim(claim)


def _reviewers_of_claim(claim: Mapping[str, Any]) -> dict[str, str]:
    """Return what a claim takes reviewers for; empty if nothing was reviewed."""
    if not claim["reviewed"]:
        return {}
    sentence = "taken to be always right: faults that they overlook are not counted"
    if rates := claim.get("reviewer_rates"):
        sentence = rates["sentence"].rstrip(".")
    number = claim.get("judged_by_several")
    if number:
        verb = "was" if number == 1 else "were"
        sentence += f"; {count(number, 'segments')} {verb} judged by two or more"
    return {"reviewers": sentence}


def describe_parts(claims: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for the selection and each split, by segments, hours and words.

    Lower bounds are rounded down.
    """
    names = {
        "segments": "clips",
        "reviewed": "reviewed",
        "precision": "right",
        "low": "at_least",
        "high": "at_most",
    }
    rows = []
    for part in ("selection", *ordered_splits(claims.keys() - {"selection", "curve"})):
        claim = claims[part]
        by_amount = {"segments": claim, "hours": claim["by_hours"], "words": claim["by_words"]}
        for by, facts in by_amount.items():
            rounded = {**facts, "low": round_down(facts["low"])}
            columns = {label: rounded[key] for key, label in names.items()}
            rows.append({"part": part, "by": by, **columns})
    return rows


def weakest(part: Part) -> list[dict[str, Any]]:
    """Return where most of what was judged is wrong.

    The rows are bands of similarity, and the speakers and recordings with most faults.
    """
    state = part.state
    keys = state.rows["key"].filter(pl.Series(part.ships | state.left_out))
    labels = state.labels.filter(pl.col("key").is_in(keys.implode()))
    columns = ("similarity", "speaker_id")
    judged = state.population.read(labels["segment_id"], columns).join(
        labels.select("segment_id", faulty=pl.col("verdict") != "right"), on="segment_id"
    )
    judged = judged.with_columns(pl.col("similarity").fill_nan(None))
    score = pl.col("similarity")
    wrong = pl.col("faulty").sum()
    bands = (
        pl.when(score >= low).then(pl.lit(f"{low:g} to {high:g}")) for high, low in pairwise(_BANDS)
    )
    groups = {
        "similarity": pl.coalesce(*bands),
        "speaker": pl.col("speaker_id"),
        "recording": pl.col("recording_id"),
    }
    rows: list[dict[str, Any]] = []
    for kind, key in groups.items():
        counts = (
            judged.with_columns(name=key)
            .drop_nulls("name")
            .group_by("name")
            .agg(reviewed=pl.len(), wrong=wrong)
        )
        worst = (
            counts.filter(pl.col("wrong") > 0)
            .sort("wrong", "reviewed", "name", descending=[True, False, False])
            .head(3)
        )
        rows += worst.select(
            pl.format(f"{kind} {{}}", "name").alias("where"), "reviewed", wrong_or_unsure="wrong"
        ).to_dicts()
    return rows


def _warnings(state: ProofState, whole: Part) -> Iterator[str]:
    """Yield the warnings of the report."""
    usable = {round_.draw for round_ in state.usable}
    if not (state.verdict_codes >= 0).any() and not len(state.lines):
        yield "nothing has been judged yet: the quality of the labels is unknown"
    if stale := [round_.name for round_ in state.rounds if round_.draw not in usable]:
        yield (
            "rounds without their table of what could be drawn (reviews/ROUND.frame.parquet) prove "
            f"nothing: {', '.join(stale)}"
        )
    yield from (_jump(round_) for round_ in state.rounds if round_.rows["skipped"].any())
    changed = "other words or times now; they count as unsure until they are judged again"
    yield from (
        f"{round_.name}: {count(round_.changed, 'judged rows', 'have')} {changed}"
        for round_ in state.rounds
        if round_.changed
    )
    drawn = {key for round_ in state.rounds for key in round_.judged_ids}
    if others := len(set(state.verdicts["segment_id"]) - drawn):
        judged = count(others, "judged segments", "were")
        verb = "is" if others == 1 else "are"
        yield (
            f"{judged} not drawn by a round, or {verb} beyond where it "
            "stopped: they prove nothing about others"
        )
    yield from _blindness(state, whole)
    yield from _unseen(state, whole)
    yield from _unfinished(state)
    if unsure := state.count(state.labelled("unsure")):
        yield (
            f"{count(unsure, 'segments', 'are')} unsure, or judged differently by reviewers: "
            "counted as wrong in 'at least', and as right in 'at most'"
        )


def _unseen(state: ProofState, whole: Part) -> Iterator[str]:
    """Say how many segments no round with verdicts could draw, if there are any."""
    if not len(state.lines):
        return
    claimed = whole.ships | (whole.out & state.left_out)
    if unseen := state.count(claimed & ~was_sampled(state)):
        yield (
            f"{unseen:,} of {state.count(claimed):,} segments could not be drawn "
            "by any round that has verdicts: 'at least' counts them as wrong, the estimate "
            "leaves them out, until a new round can draw them"
        )


def _count_ended_sheets(round_: Round) -> int:
    """Return how many sheets of a round ended before their last row, of those that were begun."""
    if round_.judged_ids.is_empty():
        return 0
    return int(round_.rows["ended"].sum())


def _unfinished(state: ProofState) -> Iterator[str]:
    """Say which sheets ended before their last row, or have not come back, while others went on."""
    for round_ in state.rounds:
        if ended := _count_ended_sheets(round_):
            if ended == 1:
                rows = "the next row of it counts"
            else:
                rows = f"{ended} rows count"
            yield (
                f"{round_.name}: a sheet ended before its last row, and other verdicts were given "
                f"since; {rows} as unsure until judged, as a sheet may end where it gets hard"
            )
    if missing := unreturned_shares(state):
        yield (
            f"{count(len(missing), 'sheets')} with no verdict, while others were judged: "
            f"{', '.join(missing)}; the first row of each counts as unsure until judged, as a "
            "sheet may stay out for what was heard in it"
        )


def _blindness(state: ProofState, whole: Part) -> Iterator[str]:
    """Compare rounds whose reviewers saw hypothesis and similarity with blind ones.

    Yield nothing unless there are both.
    """
    blind = [round_.blind for round_ in state.usable]
    of = {
        kind: [place for place, is_blind in enumerate(blind) if is_blind is kind]
        for kind in (True, False)
    }
    shares = {
        kind: state.draws.faulty_share(whole.value("segments"), places)
        for kind, places in of.items()
        if places
    }
    if len(pairs := [share for share in shares.values() if share]) == 2:
        (hidden, error), (shown, other) = pairs
        half = 1.96 * math.hypot(error, other)
        yield (
            f"right are {percent(1 - hidden)} by blind reviews and {percent(1 - shown)} by reviews "
            f"that showed the hypothesis: a difference of {100 * (hidden - shown):+.1f} percentage "
            f"points ({100 * (hidden - shown - half):+.1f} to "
            f"{100 * (hidden - shown + half):+.1f}, 95 % confidence)"
        )


def _jump(round_: Round) -> str:
    """Say what skipped rows do to the share of right ones among those that were reached."""
    # Without segments that are gone and were never judged.
    reached = round_.rows.drop_nulls(["line", "verdict"]).sort("line", maintain_order=True)
    right = (reached["verdict"] == "right").to_numpy()
    skipped = int(reached["skipped"].sum())
    first = int(reached["skipped"].to_numpy().argmax())
    before = ""
    if first:
        before = f"{percent(right[:first].mean())} of the rows before them, "
    return (
        f"{round_.name}: {count(skipped, 'rows', 'were')} skipped before the last judged one; "
        "skipped rows count as unsure until they are judged. Right are "
        f"{before}{percent(right.mean())} of all rows up to the last judged one"
    )
