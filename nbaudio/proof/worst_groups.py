"""Bounds of the share of right clips in every group of a column, all of which hold at once.

The groups are those that a round has fixed: docs/evidence-method.md has the method.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core.report import percent, percent_down
from nbaudio.proof.betting import Bools
from nbaudio.proof.claims import Part, what_ships
from nbaudio.proof.judged_draws import ProofState
from nbaudio.proof.rule_segments import FIRST_SHARE, NEVER, RuleSegments
from nbaudio.proof.segment_sums import Kinds
from nbaudio.review.population import group_hashes
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED

_NONE = "(none)"  # the group of segments without a value


@dataclass(frozen=True)
class GroupBound:
    """The bound of a group."""

    group: str
    segments: int  # that ship
    reviewed: int
    low: float  # the lower bound of the share of right segments


@dataclass(frozen=True)
class GroupBounds:
    """The bounds of all groups of a column, the lowest first; they hold at once."""

    by: str
    bounds: list[GroupBound]
    not_sampled: int  # segments that ship and are in no group, as they joined later
    confidence: float

    def facts(self) -> dict[str, Any]:
        """Return the number of groups and the lowest bound, as in ``corpus.json``."""
        return {
            "by": self.by,
            "groups": len(self.bounds),
            "not_sampled": self.not_sampled,
            **asdict(self.bounds[0]),
        }

    def sentence(self) -> str:
        """Say how many clips of each group are right at least."""
        worst = self.bounds[0]
        return (
            f"Of the clips of each {self.by} ({len(self.bounds):,}), at least "
            f"{percent_down(worst.low)} are right, all at once ({percent(self.confidence)} "
            f"confidence); least is known of {worst.group}: {worst.reviewed:,} of "
            f"{worst.segments:,} reviewed."
        )


def group_bounds(
    state: ProofState, by: str, *, target: float, confidence: float
) -> GroupBounds | None:
    """Return the bounds of the groups of a column; None if nothing of them ships.

    Args:
        state: the population and its draws.
        by: a column of `ProofState.group_columns`.
        target: the share that is to be right.
        confidence: of all bounds at once.
    """
    grouped = _with_groups(state, by)
    ships = what_ships(grouped)
    hashes = grouped.rows["group"]
    error = (1 - confidence) / max(hashes.drop_nulls().n_unique(), 1)
    rules = _rules_since(grouped, grouped.group_columns[by])
    bounds = []
    names = _names_of_groups(grouped, by)
    for group in hashes.drop_nulls().unique().sort():
        is_in_group = hashes.eq_missing(group).to_numpy()
        of_group = ships & is_in_group
        if not of_group.any():
            continue
        is_reviewed = (of_group | (grouped.left_out & is_in_group)) & grouped.judged
        low = 0.0
        if is_reviewed.any():
            of_rules = [_of_group(rule, is_in_group) for rule in rules]
            low = _best_low(grouped, of_group, of_rules, target=target, error=error)
        name = names.get(group, f"(no longer in the table, {group:016x})")
        bounds.append(GroupBound(name, grouped.count(of_group), grouped.count(is_reviewed), low))
    if not bounds:
        return None
    bounds.sort(key=lambda bound: (bound.low, bound.reviewed / bound.segments, bound.group))
    not_sampled = grouped.count(ships & hashes.is_null().to_numpy())
    return GroupBounds(by, bounds, not_sampled, confidence)


def _with_groups(state: ProofState, by: str) -> ProofState:
    """Return a state that tells the groups of a column apart."""
    kinds = Kinds(by=by, without=state.kinds.without, cuts=state.cuts)
    [grouped] = state.by_columns([kinds])
    return grouped


def _names_of_groups(state: ProofState, by: str) -> dict[int, str]:
    """Return the values of a column by the hashes that frames store."""
    values = workspace_tables.scan(state.workspace, [by]).unique().collect(**STREAMED)[by]
    names = values.cast(pl.String).fill_null(_NONE)
    return dict(zip(group_hashes(values).to_list(), names.to_list(), strict=True))


def _rules_since(state: ProofState, first_draw: int) -> list[RuleSegments]:
    """Return the rule of all segments and the fixed rules, with draws from `first_draw` on."""
    rules = [state.about_all_segments().rule]
    rules += [state.about_rule(rule).rule for rule in state.rules]
    return [replace(rule, first_draw=np.maximum(rule.first_draw, first_draw)) for rule in rules]


def _of_group(rule: RuleSegments, is_in_group: Bools) -> RuleSegments:
    """Return the segments of a rule that are in a group."""
    first = np.where(is_in_group, rule.first_draw, NEVER)
    return replace(rule, first_draw=first.astype(rule.first_draw.dtype))


def _best_low(
    state: ProofState, ships: Bools, rules: Sequence[RuleSegments], *, target: float, error: float
) -> float:
    """Return the best of the lower bounds of a group by all rules, which share the error."""
    lows = (
        Part(state, ships, about=state.about(rule)).low(
            target=target, error=error * FIRST_SHARE / rule.number**2
        )
        for rule in rules
    )
    return max(lows, default=0.0)
