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
from nbaudio.proof.proof_state import ProofState
from nbaudio.proof.rule_segments import NEVER, RuleSegments
from nbaudio.proof.segment_sums import Kinds
from nbaudio.review.population import group_hashes
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED

_NONE = "(none)"  # the group of segments without a value


@dataclass(frozen=True)
class GroupBound:
    """The bound of a group.

    Attributes:
        group: the value of the column.
        segments: how many of the group ship.
        reviewed: how many of the group were judged, also those that are left out for it.
        low: the lower bound of the share of right segments, 0 without a review.
    """

    group: str
    segments: int
    reviewed: int
    low: float


@dataclass(frozen=True)
class GroupBounds:
    """The bounds of all groups of a column, which hold at once.

    Attributes:
        by: the column.
        bounds: the bounds, the lowest first; at least one.
        not_sampled: how many segments ship and are in no group, as they were added after the draw.
        confidence: of all bounds at once.
    """

    by: str
    bounds: list[GroupBound]
    not_sampled: int
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
    """Return the bounds of the groups of a column; None if no segment of a group ships.

    All groups share the error equally, also those of which nothing ships.

    Args:
        state: the population and its draws.
        by: a column of `ProofState.group_columns`.
        target: the share that is to be right.
        confidence: of all bounds at once.
    """
    grouped = _with_groups(state, by)
    ships = what_ships(grouped)
    group_of_row = grouped.rows["group"]
    groups = group_of_row.drop_nulls().unique().sort()
    error = (1 - confidence) / max(len(groups), 1)
    rules = _rules_since(grouped, grouped.group_columns[by])
    names = _names_of_groups(grouped, by)
    bounds = []
    for group in groups:
        is_in_group = group_of_row.eq_missing(group).to_numpy()
        group_ships = ships & is_in_group
        if not group_ships.any():
            continue
        is_reviewed = (group_ships | (grouped.left_out & is_in_group)) & grouped.judged
        low = 0.0
        if is_reviewed.any():
            rules_of_group = [_restrict(rule, is_in_group) for rule in rules]
            low = _best_low(grouped, group_ships, rules_of_group, target=target, error=error)
        bounds.append(
            GroupBound(
                group=names.get(group, f"(no longer in the table, {group:016x})"),
                segments=grouped.count(group_ships),
                reviewed=grouped.count(is_reviewed),
                low=low,
            )
        )
    if not bounds:
        return None
    bounds.sort(key=lambda bound: (bound.low, bound.reviewed / bound.segments, bound.group))
    in_no_group = group_of_row.is_null().to_numpy()
    return GroupBounds(by, bounds, grouped.count(ships & in_no_group), confidence)


def _with_groups(state: ProofState, by: str) -> ProofState:
    """Return a state whose rows tell the groups of a column apart, by the hash `group`."""
    kinds = Kinds(by=by, without=state.kinds.without, cuts=state.cuts)
    [grouped] = state.by_columns([kinds])
    return grouped


def _names_of_groups(state: ProofState, by: str) -> dict[int, str]:
    """Return the values of a column by the hashes that frames store."""
    values = workspace_tables.scan(state.workspace, [by]).unique().collect(**STREAMED)[by]
    names = values.cast(pl.String).fill_null(_NONE)
    return dict(zip(group_hashes(values).to_list(), names.to_list(), strict=True))


def _rules_since(state: ProofState, first_draw: int) -> list[RuleSegments]:
    """Return the rule of all segments and the fixed rules, whose draws count from `first_draw` on.

    The first round by the column fixed its groups with that draw; what was drawn before does not
    count.
    """
    rules = [state.about_all_segments().rule]
    rules += [state.about_rule(rule).rule for rule in state.rules]
    return [replace(rule, first_draw=np.maximum(rule.first_draw, first_draw)) for rule in rules]


def _restrict(rule: RuleSegments, is_in_group: Bools) -> RuleSegments:
    """Return a rule that has only the segments of a group."""
    first_draw = np.where(is_in_group, rule.first_draw, NEVER)
    return replace(rule, first_draw=first_draw.astype(rule.first_draw.dtype))


def _best_low(
    state: ProofState, ships: Bools, rules: Sequence[RuleSegments], *, target: float, error: float
) -> float:
    """Return the best lower bound of a group by any of the rules, which share the error."""
    lows = []
    for rule in rules:
        part = Part(state, ships, about=state.about(rule))
        lows.append(part.low(target=target, error=rule.error(error)))
    return max(lows, default=0.0)
