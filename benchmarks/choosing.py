"""Measure how often bounds of `nbaudio evidence` are false if people look, choose and tire.

    python benchmarks/choosing.py [--corpora 400] [--segments 1000] [--rows SCENARIO ...]
                                  [--jobs 2] [--seed 0] [--outcomes FILE]

Each scenario is somebody who wants a good figure: they look at the verdicts, change what ships, end
sheets where it gets hard, and look at the bound after each step. Corpora are simulated in memory;
rules, draws, bets and claims are the package's own functions (tests/test_fixed_rules.py compares
them with what the command says of a workspace).

A corpus has segments of 40 speakers of various sizes, who have faults at various rates. Of the
segments that the first rule takes (a similarity of 0.8 or more) about 3 % are wrong, and of the
others 60 %. Rounds are drawn at random from all segments that nobody has judged.

Columns:

- false: in how many corpora the lower bound was above the truth at one step at least. With a
  confidence of 95 % that may be 5 % of them.
- at_most: the upper limit of their share, at 95 % confidence.
- shipped: the median share of right clips at the end.
- bound: the median lower bound of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
from corpora import Task, most_false, parse_options, run_corpora
from numpy.typing import NDArray

from nbaudio.proof.betting import Array, Bools, Draws, Frame, Ints, Values
from nbaudio.proof.claims import Part, best_claim, claims_by_rule
from nbaudio.proof.rule_segments import (
    VERDICTS,
    RuleDraws,
    RuleSegments,
    all_segments,
    draws_about,
)
from nbaudio.review.fixed_rules import ALL_SEGMENTS, change_of_rules

CONFIDENCE = 0.95
TARGET = 0.98
NEVER = np.iinfo(np.int32).max
MARGIN = 0.7  # of the logarithm of a capital: nulls beside the truth have almost the same
SPEAKERS = 40
ROUND = 150


@dataclass
class Rule:
    """A fixed rule: when each segment joined it, and a name for its parameters."""

    number: int
    parameters: str
    first_draw: Ints


@dataclass
class Sheet:
    """A round: what it could draw, what it drew, and its rows, of which some were judged.

    It begins with rows that earlier draws have left over. A row that it drew too is passed over
    there.
    """

    drawable: Bools
    place: dict[int, int]  # of each segment of its own draw in the order drawn, from 0
    rows: Ints  # all segments on it, in order
    draws: Ints  # the number of the round that drew each
    judged: int = 0
    is_next_unsure: bool = False  # the row behind them counts as unsure, as others went on

    def draws_of(self, end: int) -> list[tuple[int, int]]:
        """Return the first rows, each with the number of its draw before it."""
        return list(zip(self.draws[:end].tolist(), self.rows[:end].tolist(), strict=True))


@dataclass
class Archive:
    """A made-up corpus with the rounds of its reviews; arrays by segment."""

    similarity: Array
    speaker: Ints
    wrong: Bools
    signals: Array  # two columns that say nothing
    generator: np.random.Generator
    is_there: Bools
    heard: Bools  # which segments were judged
    sheets: list[Sheet] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    is_false: bool = False
    last_look: Bools | None = None  # what was selected then
    bound: float = 0.0
    truth: float = 0.0

    @property
    def in_first_rule(self) -> Bools:
        """What the first rule takes."""
        return (self.similarity >= 0.8) & self.is_there

    @property
    def is_on_sheet(self) -> Bools:
        """Which segments are on sheets: they do not ship."""
        is_on_sheet = np.zeros(len(self.wrong), dtype=bool)
        for sheet in self.sheets:
            is_on_sheet[sheet.rows] = True
        return is_on_sheet

    def export(self, selected: Bools, parameters: str, *, n: int = ROUND) -> None:
        """Fix what is selected as a rule, and draw a round."""
        members = [rule.first_draw != NEVER for rule in self.rules]
        is_same = [rule.parameters == parameters for rule in self.rules]
        change = change_of_rules(members, is_same, selected & self.is_there)
        first_draw = len(self.sheets)
        for rule, joined in zip(self.rules, change.joined, strict=True):
            rule.first_draw[joined] = first_draw
        if change.is_new:
            number = 1 + max((rule.number for rule in self.rules), default=0)
            number += number == ALL_SEGMENTS
            joined = np.where(selected & self.is_there, first_draw, NEVER).astype(np.int32)
            self.rules.append(Rule(number, parameters, joined))
        drawable = self.is_there & ~self.heard
        self.add_sheet(drawable, self.generator.permutation(np.flatnonzero(drawable)), n=n)

    def add_sheet(self, drawable: Bools, order: Ints, *, n: int) -> None:
        """Add a round of `n` rows: those that are left over, then new ones in this order."""
        number = len(self.sheets)
        begins_with = self._left_over()[:n]
        draws = [draw for draw, _ in begins_with]
        rows = [segment for _, segment in begins_with]
        already_there = set(rows)
        place: dict[int, int] = {}
        for segment in order.tolist():
            if len(rows) == n:
                break
            place[segment] = len(place)
            if segment not in already_there:
                draws.append(number)
                rows.append(segment)
        self.sheets.append(Sheet(drawable, place, np.array(rows, int), np.array(draws, int)))

    def _left_over(self) -> list[tuple[int, int]]:
        """Return the rows that nobody has judged and whose last sheet was begun.

        Each has the number of its draw before it; they are in the order in which they were drawn.
        """
        is_begun: dict[tuple[int, int], bool] = {}
        for sheet in self.sheets:
            is_begun |= dict.fromkeys(sheet.draws_of(len(sheet.rows)), sheet.judged > 0)
        row_of_segment: dict[int, tuple[int, int]] = {}  # by segment, since two draws may have it
        for draw, segment in sorted(is_begun, key=self._place_of_row):
            is_open = self.is_there[segment] and not self.heard[segment]
            if is_begun[draw, segment] and is_open:
                row_of_segment.setdefault(segment, (draw, segment))
        return list(row_of_segment.values())

    def judge(self, sheet: int = -1, *, until: Callable[[Ints], int] | None = None) -> None:
        """Judge rows of a round in order; `until` returns how many, given all its rows."""
        current = self.sheets[sheet]
        end = len(current.rows) if until is None else min(until(current.rows), len(current.rows))
        if end <= current.judged:
            return
        self.heard[current.rows[current.judged : end]] = True
        current.judged = end
        for other in self.sheets:  # verdicts are given elsewhere
            other.is_next_unsure = other is not current

    def _reached(self) -> list[tuple[int, int]]:
        """Return the rows that count, each with the number of its draw before it, in their order.

        They are those that were judged; of a sheet that was left, also the next one that nobody
        has judged anywhere; and rows that were passed over, with the row behind them.
        """
        ends = [self._end(sheet) for sheet in self.sheets]
        rows: set[tuple[int, int]] = set()
        for sheet, end in zip(self.sheets, ends, strict=True):
            rows.update(sheet.draws_of(end))
        last = dict.fromkeys(range(len(self.sheets)), -1)
        for draw, segment in rows:
            last[draw] = max(last[draw], self.sheets[draw].place[segment])
        for draw, (sheet, end) in enumerate(zip(self.sheets, ends, strict=True)):
            for drawn_by, segment in sheet.draws_of(end):
                is_passed_over = drawn_by != draw and segment in sheet.place
                if is_passed_over and sheet.place[segment] < last[draw]:
                    rows.add((draw, segment))
        return sorted(rows, key=self._place_of_row)

    def _end(self, sheet: Sheet) -> int:
        """Return how many rows of a sheet count."""
        if not sheet.is_next_unsure:
            return sheet.judged
        not_heard = np.flatnonzero(~self.heard[sheet.rows[sheet.judged :]])
        return sheet.judged + int(not_heard[0]) + 1 if len(not_heard) else len(sheet.rows)

    def _place_of_row(self, row: tuple[int, int]) -> tuple[int, int]:
        """Return the place of a row in the order in which segments were drawn."""
        draw, segment = row
        return draw, self.sheets[draw].place[segment]

    def look(self, selected: Bools) -> None:
        """Look at the bound of what would ship, and note whether it is false."""
        ships = selected & self.is_there & ~self.is_on_sheet
        if not ships.any() or not self.sheets:
            return
        self.last_look = selected
        self.truth = 1 - float(self.wrong[ships].mean())
        state = self._state(selected)
        if not self.is_false and may_be_false(state, ships, int(self.wrong[ships].sum())):
            self.bound = _bound(state, ships)
            self.is_false = self.bound > self.truth + 1e-9

    def look_at_curve(self, threshold: float, above: Bools) -> None:
        """Look at the curve's bound of what is above a threshold on similarity now."""
        ships = above & self.is_there
        frames = [sheet.drawable for sheet in self.sheets]
        first_frame = np.argmax(frames, axis=0).astype(np.int32)
        is_above = (self.similarity >= threshold) & np.any(frames, axis=0)
        fixed = Rule(1, "curve", np.where(is_above, first_frame, NEVER))
        state = self._state(above)
        part = Part(state, ships, about=state.about_rule(fixed, None))
        self.bound = part.low(target=TARGET, error=(1 - CONFIDENCE) / 2)
        self.truth = 1 - float(self.wrong[ships].mean())
        self.is_false |= self.bound > self.truth + 1e-9

    def look_at_the_end(self) -> None:
        """Compute the bound of the last look, if anything of what was selected then still ships."""
        if self.last_look is None:
            return
        ships = self.last_look & self.is_there & ~self.is_on_sheet
        if ships.any():
            self.bound = _bound(self._state(self.last_look), ships)

    def _state(self, selected: Bools) -> Any:
        """Return what claims need of a `ProofState`; each segment is a row."""
        label = self.labels()
        draws = self._draws()

        def about(rule: RuleSegments) -> RuleDraws:
            return draws_about(rule, draws, order=np.arange(len(self.sheets)), label=label)

        mean_words = float(self.amount("words")[self.is_there].mean())
        everything = all_segments(
            self.is_there, self.is_there, mean_hours=1.0, mean_words=mean_words
        )
        return SimpleNamespace(
            usable=self.sheets,
            draws=draws,
            judged=self.heard & self.is_there,
            left_out=self.is_on_sheet & selected & self.is_there,
            rules=self.rules,
            about_rule=lambda rule, _: about(self._segments(rule)),
            about_all_segments=lambda: about(everything),
            amounts=lambda what, where: Values.of(self.amount(what) * self.is_there * where),
            count=lambda where: int(where.sum()),
            sum=lambda what, where: float(self.amount(what)[where].sum()),
            flags=lambda column: {"is_there": self.is_there}[column],
            labelled=lambda *words: np.isin(label, [VERDICTS.index(word) for word in words]),
        )

    def _segments(self, rule: Rule) -> RuleSegments:
        """Return the segments of a rule."""
        hours = self.amount("hours")
        words = self.amount("words")
        return RuleSegments(rule.number, rule.first_draw, self.is_there, hours, words)

    def labels(self) -> NDArray[np.int8]:
        """Return the verdict on each segment as it is now, -1 for none."""
        label = np.full(len(self.wrong), -1, dtype=np.int8)
        label[self.heard] = self.wrong[self.heard]
        label[~self.is_there] = -1
        return label

    def amount(self, what: str) -> Array:
        """Return what each segment counts for by `segments`, `hours` or `words`."""
        return dict.fromkeys(("segments", "hours", "words"), np.ones(len(self.wrong)))[what]

    def _draws(self) -> Draws:
        """Return all rows that count as draws."""
        frames = [
            Frame(
                np.where(sheet.drawable, 0, -1),
                sheet.drawable & self.is_there,
                np.array([float(sheet.drawable.sum())]),
                np.ones(1),
            )
            for sheet in self.sheets
        ]
        reached = self._reached()
        item = np.array([segment for _, segment in reached], dtype=np.int64)
        unsure = ~self.heard[item]
        wrong = self.heard[item] & self.wrong[item]
        none = np.zeros(0, dtype=np.int64)
        return Draws(
            tuple(frames),
            round=np.array([draw for draw, _ in reached], dtype=np.int64),
            item=item,
            wrong=wrong,
            unsure=unsure,
            replaced=~self.is_there[item] & (wrong | unsure),
            first=pl.Series(item).is_first_distinct().to_numpy(),
            outside=none,
            outside_wrong=none.astype(bool),
            outside_unsure=none.astype(bool),
        )


def may_be_false(state: Any, ships: Bools, num_wrong: int) -> bool:
    """Return whether the bound may be below the number of wrong segments that ship.

    This takes one bet, against the truth, where the bound takes a hundred: the bound is false only
    if that bet, or one against a null beside the truth, wins.
    """
    if not num_wrong:
        return False
    target = 1 - (num_wrong - 1) / int(ships.sum())
    for claim in claims_by_rule(state, ships, error=1 - CONFIDENCE):
        capital = claim.part.path(target, claim.error).peak[0]
        if capital > -np.log(claim.error) - MARGIN:
            return True
    return False


def _bound(state: Any, ships: Bools) -> float:
    """Return the lower bound of the share of right segments among those that ship."""
    claim = best_claim(state, ships, target=TARGET, error=1 - CONFIDENCE)
    return claim.part.low(target=TARGET, error=claim.error)


def make_archive(seed: int, size: int, *, rate: float = 0.03, equal: bool = False) -> Archive:
    """Make a corpus; `rate` is the share of wrong segments above the threshold."""
    generator = np.random.default_rng(seed)
    bad = generator.random(size) < 0.06
    similarity = np.where(bad, 0.7 * generator.random(size), 1 - generator.beta(1, 20, size))
    speaker = generator.choice(SPEAKERS, size, p=generator.dirichlet(np.full(SPEAKERS, 2.0)))
    rates = np.full(SPEAKERS, rate)
    if not equal:
        rates = np.minimum(rate * SPEAKERS * generator.dirichlet(np.full(SPEAKERS, 0.4)), 0.9)
    wrong = generator.random(size) < np.where(similarity < 0.8, 0.6, rates[speaker])
    return Archive(
        similarity,
        speaker,
        wrong,
        generator.random((2, size)),
        generator,
        is_there=np.ones(size, dtype=bool),
        heard=np.zeros(size, dtype=bool),
    )


def speakers_with_faults(archive: Archive) -> Ints:
    """The speakers of what was heard and is wrong."""
    return np.unique(archive.speaker[archive.heard & archive.wrong & archive.in_first_rule])


def faults_left_out(archive: Archive) -> None:
    """Leave out every fault that was found, and select again."""
    archive.export(archive.in_first_rule, "0.8")
    for end in (50, 100, 150):
        archive.judge(until=lambda _, end=end: end)
        archive.look(archive.in_first_rule & ~(archive.heard & archive.wrong))


def speakers_left_out(archive: Archive) -> None:
    """Leave out every speaker with a fault, in the first selection or a later one."""
    archive.export(archive.in_first_rule, "0.8")
    archive.judge()
    archive.look(archive.in_first_rule & ~np.isin(archive.speaker, speakers_with_faults(archive)))


def speakers_left_out_and_reviewed(archive: Archive) -> None:
    """Leave out speakers with faults after each of four rounds."""
    selected = archive.in_first_rule
    for number in range(4):
        archive.export(selected, f"round {number}")
        archive.judge()
        selected = archive.in_first_rule & ~np.isin(archive.speaker, speakers_with_faults(archive))
        archive.look(selected)


def weakest_left_out(archive: Archive) -> None:
    """Leave out the three speakers with most faults, three times, with a round between."""
    selected = archive.in_first_rule
    for number in range(4):
        archive.export(selected, f"round {number}")
        archive.judge()
        faults = np.bincount(
            archive.speaker[archive.heard & archive.wrong & selected], minlength=SPEAKERS
        )
        worst = np.argsort(-faults)[:3]
        selected = selected & ~np.isin(archive.speaker, worst[faults[worst] > 0])
        archive.look(selected)


def signals_tuned(archive: Archive) -> None:
    """Choose thresholds of two useless signals by the verdicts, and two more after a round."""
    archive.export(archive.in_first_rule, "0.8")
    archive.judge()
    selected = archive.in_first_rule
    for number in range(2):
        for signal in archive.signals:
            heard = archive.heard & selected
            cuts = np.quantile(signal, np.linspace(0, 0.6, 13))
            rates = [archive.wrong[heard & (signal >= cut)].mean() for cut in cuts]
            selected = selected & (signal >= cuts[int(np.nanargmin(rates))])
        archive.look(selected)
        archive.export(selected, f"tuned {number}")
        archive.judge()
        archive.look(selected)


def column_joined_anew(archive: Archive) -> None:
    """Keep `where keep = 1`, and join the column anew after each round."""
    keep = np.ones(len(archive.wrong), dtype=bool)
    for _ in range(3):
        archive.export(archive.in_first_rule & keep, "keep = 1")
        archive.judge()
        keep &= ~np.isin(archive.speaker, speakers_with_faults(archive))
        archive.look(archive.in_first_rule & keep)
    archive.export(archive.in_first_rule & keep, "keep = 1")
    archive.look(archive.in_first_rule & keep)


def best_of_nine_thresholds(archive: Archive) -> None:
    """Select first after a round, by the threshold with the fewest faults among those judged."""
    archive.export(archive.in_first_rule, "default")
    archive.judge()
    thresholds = (0.75, 0.8, 0.82, 0.85, 0.88, 0.9, 0.92, 0.95, 0.97)
    for threshold in thresholds:
        archive.look(archive.similarity >= threshold)


def sheets_end_at_a_fault(archive: Archive, *, least: int = 1) -> None:
    """End each sheet at its first fault, and export the next."""
    for _ in range(8):
        archive.export(archive.in_first_rule, "0.8")

        def first_fault(rows: Ints) -> int:
            faults = np.flatnonzero(archive.wrong[rows] & archive.in_first_rule[rows])
            later = faults[faults >= least]
            return int(later[0]) if len(later) else len(rows)

        archive.judge(until=first_fault)
        archive.look(archive.in_first_rule)


def sheets_end_after_twenty(archive: Archive) -> None:
    """End each sheet at its first fault after twenty rows, and export the next."""
    sheets_end_at_a_fault(archive, least=20)


def sheets_that_begin_with_a_fault_stay_out(archive: Archive) -> None:
    """End each sheet at its first fault, and judge nothing of a sheet that begins with one."""
    for _ in range(12):
        archive.export(archive.in_first_rule, "0.8")
        rows = archive.sheets[-1].rows
        faults = np.flatnonzero(archive.wrong[rows] & archive.in_first_rule[rows])
        end = int(faults[0]) if len(faults) else len(rows)
        archive.judge(until=lambda _, end=end: end)
        archive.look(archive.in_first_rule)


def tired_reviewer(archive: Archive) -> None:
    """End sheets more often before a fault than elsewhere."""
    for _ in range(6):
        archive.export(archive.in_first_rule, "0.8")

        def where_it_gets_hard(rows: Ints) -> int:
            chance = np.where(archive.wrong[rows], 0.5, 0.005)
            ends = np.flatnonzero(archive.generator.random(len(rows)) < chance)
            ends = ends[ends > 0]
            return int(ends[0]) if len(ends) else len(rows)

        archive.judge(until=where_it_gets_hard)
        archive.look(archive.in_first_rule)


def look_ahead_over_two_sheets(archive: Archive) -> None:
    """Export two sheets, hear both, and go on with the one that has no fault next."""
    archive.export(archive.in_first_rule, "0.8")
    archive.export(archive.in_first_rule, "0.8")
    ends = [0, 0]
    for _ in range(8):
        for place in (0, 1):
            rows = archive.sheets[place].rows
            while ends[place] < len(rows) and not archive.wrong[rows[ends[place]]]:
                ends[place] += 1
            archive.judge(place, until=lambda _, place=place: ends[place])
            archive.look(archive.in_first_rule)
        ends[0] += 1
        archive.judge(0, until=lambda _: ends[0])


def small_sheets_that_stay_out(archive: Archive) -> None:
    """Export sheets of 25 rows, hear them, and return only those without a fault."""
    for _ in range(24):
        archive.export(archive.in_first_rule, "0.8", n=25)
        rows = archive.sheets[-1].rows
        if not (archive.wrong[rows] & archive.in_first_rule[rows]).any():
            archive.judge()
            archive.look(archive.in_first_rule)


def best_of_ten_sheets(archive: Archive) -> None:
    """Export ten sheets, hear them all, and return them in order of their faults."""
    for _ in range(10):
        archive.export(archive.in_first_rule, "0.8", n=80)
    is_fault = archive.wrong & archive.in_first_rule
    faults = [int(is_fault[sheet.rows].sum()) for sheet in archive.sheets]
    for place in np.argsort(faults).tolist():
        archive.judge(place)
        archive.look(archive.in_first_rule)


def four_sheets_in_turn(archive: Archive) -> None:
    """Export four sheets, judge ten rows of each in turn, and look after each ten rows."""
    for _ in range(4):
        archive.export(archive.in_first_rule, "0.8", n=100)
    for end in range(10, 101, 10):
        for place in range(4):
            archive.judge(place, until=lambda _, end=end: end)
            archive.look(archive.in_first_rule)


def another_sheet_after_each_fault(archive: Archive) -> None:
    """Export three sheets, and change to another one after each fault."""
    num_sheets = 3
    for _ in range(num_sheets):
        archive.export(archive.in_first_rule, "0.8")
    ends = [0] * num_sheets
    current = num_sheets - 1
    while min(ends) < ROUND:
        rows = archive.sheets[current].rows[ends[current] :]
        faults = np.flatnonzero((archive.wrong & archive.in_first_rule)[rows])
        ends[current] = ends[current] + int(faults[0]) + 1 if len(faults) else ROUND
        archive.judge(current, until=lambda _, end=ends[current]: end)
        archive.look(archive.in_first_rule)
        current = int(np.argmin([*ends[:current], np.inf, *ends[current + 1 :]]))
        if ends[current] == ROUND:
            break


def scored_again(archive: Archive) -> None:
    """Score again after two rounds, so that speakers with faults are below every threshold."""
    for _ in range(2):
        archive.export(archive.in_first_rule, "0.8")
        archive.judge()
        is_lower = np.isin(archive.speaker, speakers_with_faults(archive))
        scores = np.where(is_lower, 0.5, archive.similarity)
        for threshold in (0.8, 0.9, 0.95):
            archive.look_at_curve(threshold, scores >= threshold)


def best_beginnings(archive: Archive, *, rounds: int = 8, n: int = ROUND) -> None:
    """Hear each sheet to its end, return its most favorable beginning, and export the next."""
    for _ in range(rounds):
        archive.export(archive.in_first_rule, "0.8", n=n)
        rows = archive.sheets[-1].rows
        gains = np.where(archive.wrong[rows] & archive.in_first_rule[rows], -1.0, 0.025)
        best = int(np.argmax(np.append(0.0, np.cumsum(gains))))
        archive.judge(until=lambda _, best=best: best)
        archive.look(archive.in_first_rule)


def best_beginnings_of_small_sheets(archive: Archive) -> None:
    """Do the same with sheets of thirty rows."""
    best_beginnings(archive, rounds=16, n=30)


def growth_of_faultless_speakers(archive: Archive) -> None:
    """Add new segments after each round, of speakers without a fault so far."""
    waiting = archive.generator.random(len(archive.wrong)) < 0.7
    archive.is_there = ~waiting
    for _ in range(5):
        archive.export(archive.in_first_rule, "0.8", n=80)
        archive.judge()
        archive.look(archive.in_first_rule)
        speakers = speakers_with_faults(archive)
        some = archive.generator.random(len(archive.wrong)) < 0.4
        archive.is_there |= some & ~np.isin(archive.speaker, speakers)
        archive.look(archive.in_first_rule)


def faults_withdrawn(archive: Archive) -> None:
    """Withdraw the faults that were found after each of four rounds."""
    for _ in range(4):
        archive.export(archive.in_first_rule, "0.8", n=80)
        archive.judge()
        archive.is_there &= ~(archive.heard & archive.wrong)
        archive.look(archive.in_first_rule)


def best_of_many_budgets(archive: Archive) -> None:
    """Try eight seeds of a budget after each of four rounds, and export the best."""
    selected = archive.in_first_rule
    for number in range(4):
        archive.export(selected, f"budget {number}", n=80)
        archive.judge()
        lowest_rate = np.inf
        for _ in range(8):
            budget = archive.in_first_rule & (archive.generator.random(len(archive.wrong)) < 0.5)
            archive.look(budget)
            rate = archive.wrong[archive.heard & budget].mean()
            if rate < lowest_rate:
                lowest_rate = rate
                selected = budget
        archive.look(selected)


def started_again(archive: Archive) -> None:
    """Begin anew in another workspace, with a rule without the faults and speakers heard of."""
    archive.export(archive.in_first_rule, "0.8", n=300)
    archive.judge()
    speakers = speakers_with_faults(archive)
    chosen = archive.in_first_rule & ~np.isin(archive.speaker, speakers)
    archive.sheets.clear()
    archive.rules.clear()
    archive.heard[:] = False
    for _ in range(2):
        archive.export(chosen, "chosen")
        for end in range(30, ROUND + 1, 30):
            archive.judge(until=lambda _, end=end: end)
            archive.look(chosen)


def speakers_withdrawn(archive: Archive) -> None:
    """Withdraw each speaker with a fault from the workspace."""
    archive.export(archive.in_first_rule, "0.8")
    archive.judge()
    archive.is_there = ~np.isin(archive.speaker, speakers_with_faults(archive))
    archive.look(archive.in_first_rule)
    archive.export(archive.in_first_rule, "0.8")
    archive.judge(until=lambda _: 60)
    archive.look(archive.in_first_rule)


def speakers_added(archive: Archive) -> None:
    """Fix a narrow rule, then add the speakers without a fault among those judged."""
    narrow = archive.in_first_rule & (archive.speaker < 10)
    archive.export(narrow, "narrow")
    archive.judge()
    faultless = ~np.isin(archive.speaker, speakers_with_faults(archive))
    wide = narrow | (archive.in_first_rule & faultless)
    archive.look(wide)
    archive.export(wide, "narrow")
    archive.look(wide)
    archive.judge(until=lambda _: 60)
    archive.look(wide)


def ten_growths(archive: Archive) -> None:
    """Let the archive grow ten times with equal parameters, and look after each round."""
    week = archive.generator.integers(0, 10, len(archive.wrong))
    for number in range(10):
        archive.is_there = week <= number
        archive.look(archive.in_first_rule)
        archive.export(archive.in_first_rule, "0.8", n=40)
        archive.judge()
        archive.look(archive.in_first_rule)


def order_of_the_notebooks(archive: Archive) -> None:
    """Export and judge before the first selection, which takes what the default rule fixed."""
    archive.export(archive.in_first_rule, "default")
    archive.judge()
    archive.look(archive.in_first_rule)


def restrained(archive: Archive) -> None:
    """Fix a rule, judge two rounds, and change nothing."""
    for _ in range(2):
        archive.export(archive.in_first_rule, "0.8")
        for end in range(30, ROUND + 1, 30):
            archive.judge(until=lambda _, end=end: end)
            archive.look(archive.in_first_rule)


SCENARIOS: dict[str, Callable[[Archive], None]] = {
    scenario.__name__: scenario
    for scenario in (
        faults_left_out,
        speakers_left_out,
        speakers_left_out_and_reviewed,
        weakest_left_out,
        signals_tuned,
        column_joined_anew,
        best_of_nine_thresholds,
        sheets_end_at_a_fault,
        sheets_end_after_twenty,
        sheets_that_begin_with_a_fault_stay_out,
        tired_reviewer,
        look_ahead_over_two_sheets,
        small_sheets_that_stay_out,
        best_of_ten_sheets,
        four_sheets_in_turn,
        another_sheet_after_each_fault,
        scored_again,
        best_beginnings,
        best_beginnings_of_small_sheets,
        growth_of_faultless_speakers,
        faults_withdrawn,
        best_of_many_budgets,
        started_again,
        speakers_withdrawn,
        speakers_added,
        ten_growths,
        order_of_the_notebooks,
        restrained,
    )
}


@dataclass(frozen=True)
class Outcome:
    """What one corpus of a scenario gave."""

    row: str  # the scenario
    seed: int
    is_false: bool
    bound: float
    truth: float


def outcome(task: Task) -> Outcome:
    """Run a scenario on one corpus."""
    archive = make_archive(task.seed, task.segments, equal=task.seed % 2 == 0)
    SCENARIOS[task.row](archive)
    archive.look_at_the_end()
    return Outcome(task.row, task.seed, bool(archive.is_false), float(archive.bound), archive.truth)


def table(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """Return a row for each scenario, the least favourable first."""
    frame = pl.DataFrame([vars(outcome_) for outcome_ in outcomes])
    rows = frame.group_by("row").agg(
        pl.len().alias("corpora"),
        pl.col("is_false").sum().alias("false"),
        pl.col("truth").median().round(3).alias("shipped"),
        pl.col("bound").median().round(3).alias("bound"),
    )
    limits = [most_false(*row) for row in rows.select("false", "corpora").iter_rows()]
    rows = rows.with_columns(at_most=pl.Series(limits, dtype=pl.Float64).round(3))
    rows = rows.sort(pl.col("false") / pl.col("corpora"), "row", descending=[True, False])
    return rows.select(
        pl.col("row").alias("scenario"), "corpora", "false", "at_most", "shipped", "bound"
    )


def main() -> None:
    """Run the scenarios and print their table."""
    asked = parse_options(__doc__, list(SCENARIOS), segments=1000)
    outcomes = run_corpora(outcome, Outcome, asked)
    with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, fmt_str_lengths=40):
        print(table(outcomes))


if __name__ == "__main__":
    main()
