"""Rules of selection that rounds fix before reviewers judge their rows.

What may be said about a selection that was chosen after verdicts were heard rests on a rule that
was fixed before: see docs/evidence-method.md. A rule is a set of segments. `review export` fixes
what the last `select` takes, as it would be without reviews and decisions by hand.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import msgspec
import numpy as np
import polars as pl

from nbaudio.core import input_guards
from nbaudio.core.atomic import write_json
from nbaudio.core.hashing import json_hash
from nbaudio.review.population import SECONDS, WORDS, Bools, Population
from nbaudio.review.state import ReviewState
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.rows import with_starts

FOLDER = "reviews/rules"
#: The place in the order of rules of all segments that a round could draw.
ALL_SEGMENTS = 3
DEFAULT_SIMILARITY = 0.8
_LONGEST_S = 20.0
_NEARLY = 1e-6
# A rule also serves a selection that leaves out at most this share of what it takes itself.
_SERVED_SHARE = 0.01
_COLUMNS = ("segment_id", "split", "first_draw", "seconds", "words")


@dataclass(frozen=True)
class FixedRule:
    """A set of segments that was fixed.

    Its table has `segment_id` (or tombstone), `split`, `first_draw` (the place of the first draw
    that was made after the segment joined the rule), `seconds` and `words`.
    """

    number: int  # its place in the order of rules, from 1; none has that of `ALL_SEGMENTS`
    parameters: str  # the hash of the parameters of `select`

    @property
    def table(self) -> str:
        """The name of its table."""
        return f"{FOLDER}/{self.number}.frame"


@dataclass(frozen=True)
class _Selection:
    """What is selected now: which segments, and the hash of the parameters."""

    inside: Bools
    parameters: str


@dataclass(frozen=True)
class ChangeOfRules:
    """What a round changes: which segments join each rule, and whether it fixes a new one."""

    joined: list[Bools]
    is_new: bool


def fixed_rules(state: ReviewState) -> list[FixedRule]:
    """Return the rules that rounds have fixed, in their order."""
    paths = (state.workspace.path / FOLDER).glob("*.json")
    rules = [
        msgspec.json.decode(
            input_guards.read_all(path, most=input_guards.MOST_JSON_BYTES), type=FixedRule
        )
        for path in paths
        if re.fullmatch(r"\d+", path.stem)
    ]
    return sorted(rules, key=lambda rule: rule.number)


def fix_rule(population: Population, first_draw: int) -> None:
    """Fix what is selected now as a rule.

    Rules of the same parameters get the segments that have joined since; a new rule is fixed unless
    one of all rules serves.

    Args:
        population: the segments.
        first_draw: the place of the draw that is about to be made, in the order of all draws.
    """
    selection = _selection(population)
    rules = fixed_rules(population.state)
    members = [_members(population, rule) for rule in rules]
    is_same = [rule.parameters == selection.parameters for rule in rules]
    change = change_of_rules(members, is_same, selection.inside)
    for rule, joined in zip(rules, change.joined, strict=True):
        if joined.any():
            _write(population, rule, joined, first_draw)
    if change.is_new:
        rule = FixedRule(next_number(rules), selection.parameters)
        _write(population, rule, selection.inside, first_draw)
        write_json(population.state.workspace.path / f"{FOLDER}/{rule.number}.json", asdict(rule))


def change_of_rules(
    members: Sequence[Bools], is_same: Sequence[bool], selected: Bools
) -> ChangeOfRules:
    """Return what a round changes in the rules that there are.

    Args:
        members: which segments each rule takes.
        is_same: whether each rule was fixed with the parameters of the selection.
        selected: what is selected now.
    """
    joined = [
        selected & ~inside if same else np.zeros(len(selected), dtype=np.bool_)
        for inside, same in zip(members, is_same, strict=True)
    ]
    is_served = any(
        _serves(inside | new, selected) for inside, new in zip(members, joined, strict=True)
    )
    return ChangeOfRules(joined, is_new=bool(selected.any()) and not is_served)


def has_selected_duration(state: ReviewState) -> pl.Expr:
    """Return whether a segment has a duration that the last `select` takes.

    Before the first one, these are durations of at most 20 s.
    """
    facts = state.workspace.report("select").get("facts", {})
    parameters = facts.get("parameters", {})
    shortest = parameters.get("min_duration", 0.0) - _NEARLY
    longest = parameters.get("max_duration", _LONGEST_S) + _NEARLY
    return SECONDS.is_between(shortest, longest)


def selection_hash(population: Population) -> str:
    """Return a hash of what is selected now: of the ids, in the order of the table.

    Draws depend on it, so that nobody can choose a rule knowing which rows a round will draw, such
    as those that were judged in an earlier workspace of the same segments.
    """
    inside = _selection(population).inside
    digest = hashlib.sha256()
    for start, ids in with_starts(population.id_batches()):
        selected = ids.filter(pl.Series(inside[start : start + len(ids)]))
        digest.update(
            "".join(f"{len(segment_id)}:{segment_id}" for segment_id in selected).encode()
        )
    return digest.hexdigest()


def _selection(population: Population) -> _Selection:
    """Return what the last `select` takes, as it would be without reviews and decisions by hand.

    Before the first one, it is what has a similarity of at least 0.8, or of the threshold that was
    chosen in the tuner, and is no longer than 20 s.
    """
    workspace = population.state.workspace
    facts = workspace.report("select").get("facts", {})
    if population.accepted.any():
        inside = population.accepted | population.mask(population.left_out["segment_id"])
        return _Selection(inside & population.reviewable, json_hash(facts.get("parameters", {})))
    if workspace.threshold is None:
        threshold = DEFAULT_SIMILARITY
    else:
        threshold = workspace.threshold
    numbers = population.numbers
    inside = ~(numbers["similarity"] < threshold) & (numbers["seconds"] <= _LONGEST_S + _NEARLY)
    return _Selection(inside & population.reviewable, json_hash({"similarity": threshold}))


def _members(population: Population, rule: FixedRule) -> Bools:
    """Return which segments that are there a rule takes."""
    ids = workspace_tables.scan(population.state.workspace, ["segment_id"], table=rule.table)
    keys = ids.select(pl.col("segment_id").hash()).collect(**STREAMED)
    return population.mask_of_keys(keys.to_series())


def _serves(in_rule: Bools, selected: Bools) -> bool:
    """Return whether a rule takes what is selected, and hardly anything else."""
    size = int(selected.sum())
    others = int((in_rule & ~selected).sum())
    return not (selected & ~in_rule).any() and others <= _SERVED_SHARE * size


def next_number(rules: Sequence[FixedRule]) -> int:
    """Return the place of a new rule in the order of rules."""
    number = 1 + max((rule.number for rule in rules), default=0)
    if number == ALL_SEGMENTS:
        return number + 1
    return number


def _write(population: Population, rule: FixedRule, joined: Bools, first_draw: int) -> None:
    """Write the table of a rule, with segments that join it."""
    workspace = population.state.workspace
    has_table = workspace_tables.table_path(workspace, rule.table).exists()
    if has_table:
        before = workspace_tables.read_batches(workspace, rule.table, _COLUMNS)
    else:
        before = iter(())
    workspace_tables.write(
        workspace, _concatenated(before, population, joined, first_draw), table=rule.table
    )


def _concatenated(
    before: Iterator[pl.DataFrame], population: Population, joined: Bools, first_draw: int
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a rule, then those of the segments that join it."""
    yield from before
    for start, batch in with_starts(population.batches(("split", "text"))):
        rows = batch.select(
            "segment_id",
            split="split",
            first_draw=pl.lit(first_draw, pl.Int32),
            seconds=SECONDS,
            words=WORDS.cast(pl.Int64),
        )
        yield rows.filter(pl.Series(joined[start : start + len(batch)]))
