"""Measure how often bounds of `nbaudio evidence` are false if people look, choose and tire.

    python benchmarks/choosing.py [--corpora 400] [--segments 1000] [--scenarios NAME ...]
                                  [--jobs 2]

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
- shipped: the median share of right clips at the end.
- bound: the median lower bound of it.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.proof.betting import Array, Bools, Draws, Frame, Ints, Values
from nbaudio.proof.claims import best_claim
from nbaudio.proof.rule_segments import (
    LABELS,
    RemovedSegments,
    RuleDraws,
    RuleSegments,
    all_segments,
    draws_about,
)
from nbaudio.review.fixed_rules import ALL_SEGMENTS, change_of_rules

CONFIDENCE = 0.95
TARGET = 0.98
NEVER = np.iinfo(np.int32).max
SPEAKERS = 40
ROUND = 150


@dataclass(frozen=True)
class MadePopulation:
    """What claims need of a `Population`; ids are the numbers of the segments."""

    reviewable: Bools

    def __len__(self) -> int:
        return len(self.reviewable)

    @property
    def numbers(self) -> dict[str, Array]:
        """Seconds and words of each segment."""
        ones = np.ones(len(self))
        return {"seconds": ones, "words": ones}

    def mask(self, segment_ids: pl.Series) -> Bools:
        """Return which segments have one of these ids."""
        return np.isin(np.arange(len(self)), segment_ids.cast(pl.Int64).to_numpy())


@dataclass
class Rule:
    """A fixed rule: when each segment joined it, and a name for its parameters."""

    number: int
    parameters: str
    first_draw: Ints


@dataclass
class Sheet:
    """A round: what it could draw, its rows in order, and how many of them were judged."""

    drawable: Bools
    rows: Ints
    judged: int = 0
    is_last_unsure: bool = False  # the row behind them counts as unsure, as others went on


@dataclass
class Archive:
    """A made-up corpus with the rounds of its reviews; arrays by segment."""

    similarity: Array
    speaker: Ints
    wrong: Bools
    signals: Array  # two columns that say nothing
    generator: np.random.Generator
    is_there: Bools
    sheets: list[Sheet] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    events: list[tuple[int, int, bool]] = field(default_factory=list)  # sheet, segment, is unsure
    is_false: bool = False
    bound: float = 0.0
    truth: float = 0.0

    @property
    def kept(self) -> Bools:
        """What the first rule takes."""
        return (self.similarity >= 0.8) & self.is_there

    @property
    def heard(self) -> Bools:
        """Which segments were judged."""
        found = np.zeros(len(self.wrong), dtype=bool)
        found[[segment for _, segment, unsure in self.events if not unsure]] = True
        return found

    @property
    def given(self) -> Bools:
        """Which segments are on sheets: they do not ship."""
        found = np.zeros(len(self.wrong), dtype=bool)
        for sheet in self.sheets:
            found[sheet.rows] = True
        return found

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
        rows = self.generator.permutation(np.flatnonzero(drawable))[:n]
        self.sheets.append(Sheet(drawable, rows))

    def judge(self, sheet: int = -1, *, until: Callable[[Ints], int] | None = None) -> None:
        """Judge rows of a round in order; `until` returns how many, given all its rows."""
        place = sheet % len(self.sheets)
        given = self.sheets[place]
        end = len(given.rows) if until is None else min(until(given.rows), len(given.rows))
        for row in given.rows[given.judged : end].tolist():
            self._end_other_sheets(place)
            self.events.append((place, row, False))
        given.judged = max(end, given.judged)

    def _end_other_sheets(self, current: int) -> None:
        """Count the next row of each begun sheet as unsure, as verdicts are given elsewhere."""
        for place, sheet in enumerate(self.sheets):
            is_begun = 0 < sheet.judged < len(sheet.rows)
            if place != current and is_begun and not sheet.is_last_unsure:
                sheet.is_last_unsure = True
                self.events.append((place, int(sheet.rows[sheet.judged]), True))

    def look(self, selected: Bools) -> None:
        """Look at the bound of what would ship, and note whether it is false."""
        ships = selected & self.is_there & ~self.given
        if not ships.any() or not self.sheets:
            return
        claim = best_claim(self._state(selected), ships, target=TARGET, error=1 - CONFIDENCE)
        bound = claim.part.by(
            "segments", target=TARGET, error=claim.error, high_error=claim.high_error
        )
        self.bound = bound["low"]
        self.truth = 1 - float(self.wrong[ships].mean())
        self.is_false |= self.bound > self.truth + 1e-9

    def _state(self, selected: Bools) -> Any:
        """Return what claims need of a `ProofState`."""
        size = len(self.wrong)
        gone = np.flatnonzero(~self.is_there)
        further = {int(segment): size + place for place, segment in enumerate(gone)}
        label = np.full(size, -1, dtype=np.int8)
        label[self.heard] = self.wrong[self.heard]
        label[~self.is_there] = -1
        draws = self._draws(further)
        population = MadePopulation(self.is_there)

        def about(rule: RuleSegments) -> RuleDraws:
            order = np.arange(len(self.sheets))
            return draws_about(rule, draws, order=order, label=label, further=further)

        left_out = np.flatnonzero(self.given & selected & self.is_there)
        return SimpleNamespace(
            usable=self.sheets,
            population=population,
            draws=draws,
            label=label,
            judged=self.heard & self.is_there,
            left_out={"segment_id": pl.Series(left_out).cast(pl.String)},
            rules=self.rules,
            about_rule=lambda rule, _: about(self._segments(rule)),
            about_all_segments=lambda: about(all_segments(population, draws.frames, further)),
            value=lambda _, where, **_upper: Values(
                np.broadcast_to(1.0, size), where, further=np.zeros(len(further))
            ),
            amounts=lambda _, where: Values(np.broadcast_to(1.0, size), where),
            labelled=lambda *words: np.isin(label, [LABELS.index(word) for word in words]),
        )

    def _segments(self, rule: Rule) -> RuleSegments:
        """Return a rule with its segments that are gone apart."""
        gone = np.flatnonzero(~self.is_there & (rule.first_draw != NEVER))
        ones = np.ones(len(gone))
        removed = RemovedSegments(gone.astype(np.uint64), rule.first_draw[gone], ones, ones)
        first_draw = np.where(self.is_there, rule.first_draw, NEVER).astype(np.int32)
        return RuleSegments(rule.number, first_draw, removed)

    def _draws(self, further: dict[int, int]) -> Draws:
        """Return all events as draws."""
        frames = []
        for sheet in self.sheets:
            stratum = np.full(len(self.wrong) + len(further), -1)
            stratum[: len(self.wrong)][sheet.drawable & self.is_there] = 0
            for segment, place in further.items():
                if sheet.drawable[segment]:
                    stratum[place] = 0
            valid = stratum == 0
            valid[len(self.wrong) :] = False
            frames.append(Frame(stratum, valid, np.ones(1)))
        rounds = np.array([event[0] for event in self.events], dtype=np.int64)
        segments = [event[1] for event in self.events]
        item = np.array([further.get(one, one) for one in segments], dtype=np.int64)
        heard = self.heard
        unsure = np.array([not heard[one] for one in segments], dtype=bool)
        wrong = np.array([heard[one] and self.wrong[one] for one in segments], dtype=bool)
        is_gone = item >= len(self.wrong)
        none = np.zeros(0, dtype=np.int64)
        return Draws(
            tuple(frames),
            round=rounds,
            item=item,
            wrong=wrong,
            unsure=unsure,
            replaced=is_gone & (wrong | unsure),
            first=pl.Series(item).is_first_distinct().to_numpy(),
            known=none,
            known_wrong=none.astype(bool),
            known_unsure=none.astype(bool),
        )


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
        np.ones(size, dtype=bool),
    )


def speakers_with_faults(archive: Archive) -> Ints:
    """The speakers of what was heard and is wrong."""
    return np.unique(archive.speaker[archive.heard & archive.wrong & archive.kept])


def faults_left_out(archive: Archive) -> None:
    """Leave out every fault that was found, and select again."""
    archive.export(archive.kept, "0.8")
    for end in (50, 100, 150):
        archive.judge(until=lambda _, end=end: end)
        archive.look(archive.kept & ~(archive.heard & archive.wrong))


def speakers_left_out(archive: Archive) -> None:
    """Leave out every speaker with a fault, in the first selection or a later one."""
    archive.export(archive.kept, "0.8")
    archive.judge()
    archive.look(archive.kept & ~np.isin(archive.speaker, speakers_with_faults(archive)))


def speakers_left_out_and_reviewed(archive: Archive) -> None:
    """Leave out speakers with faults after each of four rounds."""
    selected = archive.kept
    for number in range(4):
        archive.export(selected, f"round {number}")
        archive.judge()
        selected = archive.kept & ~np.isin(archive.speaker, speakers_with_faults(archive))
        archive.look(selected)


def weakest_left_out(archive: Archive) -> None:
    """Leave out the three speakers with most faults, three times, with a round between."""
    selected = archive.kept
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
    archive.export(archive.kept, "0.8")
    archive.judge()
    selected = archive.kept
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
        archive.export(archive.kept & keep, "keep = 1")
        archive.judge()
        keep &= ~np.isin(archive.speaker, speakers_with_faults(archive))
        archive.look(archive.kept & keep)
    archive.export(archive.kept & keep, "keep = 1")
    archive.look(archive.kept & keep)


def best_of_nine_thresholds(archive: Archive) -> None:
    """Select first after a round, by the threshold with the fewest faults among those judged."""
    archive.export(archive.kept, "default")
    archive.judge()
    thresholds = (0.75, 0.8, 0.82, 0.85, 0.88, 0.9, 0.92, 0.95, 0.97)
    for threshold in thresholds:
        archive.look(archive.similarity >= threshold)


def sheets_end_at_a_fault(archive: Archive, *, least: int = 1) -> None:
    """End each sheet at its first fault, and export the next."""
    for _ in range(8):
        archive.export(archive.kept, "0.8")

        def first_fault(rows: Ints) -> int:
            faults = np.flatnonzero(archive.wrong[rows] & archive.kept[rows])
            later = faults[faults >= least]
            return int(later[0]) if len(later) else len(rows)

        archive.judge(until=first_fault)
        archive.look(archive.kept)


def sheets_end_after_twenty(archive: Archive) -> None:
    """End each sheet at its first fault after twenty rows, and export the next."""
    sheets_end_at_a_fault(archive, least=20)


def tired_reviewer(archive: Archive) -> None:
    """End sheets more often before a fault than elsewhere."""
    for _ in range(6):
        archive.export(archive.kept, "0.8")

        def where_it_gets_hard(rows: Ints) -> int:
            chance = np.where(archive.wrong[rows], 0.5, 0.005)
            ends = np.flatnonzero(archive.generator.random(len(rows)) < chance)
            ends = ends[ends > 0]
            return int(ends[0]) if len(ends) else len(rows)

        archive.judge(until=where_it_gets_hard)
        archive.look(archive.kept)


def look_ahead_over_two_sheets(archive: Archive) -> None:
    """Export two sheets, hear both, and go on with the one that has no fault next."""
    archive.export(archive.kept, "0.8")
    archive.export(archive.kept, "0.8")
    ends = [0, 0]
    for _ in range(8):
        for place in (0, 1):
            rows = archive.sheets[place].rows
            while ends[place] < len(rows) and not archive.wrong[rows[ends[place]]]:
                ends[place] += 1
            archive.judge(place, until=lambda _, place=place: ends[place])
            archive.look(archive.kept)
        ends[0] += 1
        archive.judge(0, until=lambda _: ends[0])


def speakers_withdrawn(archive: Archive) -> None:
    """Withdraw each speaker with a fault from the workspace."""
    archive.export(archive.kept, "0.8")
    archive.judge()
    archive.is_there = ~np.isin(archive.speaker, speakers_with_faults(archive))
    archive.look(archive.kept)
    archive.export(archive.kept, "0.8")
    archive.judge(until=lambda _: 60)
    archive.look(archive.kept)


def speakers_added(archive: Archive) -> None:
    """Fix a narrow rule, then add the speakers without a fault among those judged."""
    narrow = archive.kept & (archive.speaker < 10)
    archive.export(narrow, "narrow")
    archive.judge()
    faultless = ~np.isin(archive.speaker, speakers_with_faults(archive))
    wide = narrow | (archive.kept & faultless)
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
        archive.look(archive.kept)
        archive.export(archive.kept, "0.8", n=40)
        archive.judge()
        archive.look(archive.kept)


def order_of_the_notebooks(archive: Archive) -> None:
    """Export and judge before the first selection, which takes what the default rule fixed."""
    archive.export(archive.kept, "default")
    archive.judge()
    archive.look(archive.kept)


def restrained(archive: Archive) -> None:
    """Fix a rule, judge two rounds, and change nothing."""
    for _ in range(2):
        archive.export(archive.kept, "0.8")
        for end in range(30, ROUND + 1, 30):
            archive.judge(until=lambda _, end=end: end)
            archive.look(archive.kept)


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
        tired_reviewer,
        look_ahead_over_two_sheets,
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

    scenario: str
    is_false: bool
    bound: float
    truth: float


def outcome(task: tuple[str, int, int]) -> Outcome:
    """Run a scenario on one corpus."""
    scenario, seed, size = task
    archive = make_archive(seed, size, equal=seed % 2 == 0)
    SCENARIOS[scenario](archive)
    return Outcome(scenario, archive.is_false, archive.bound, archive.truth)


def table(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """Return a row for each scenario, the least favourable first."""
    frame = pl.DataFrame([vars(each) for each in outcomes])
    return (
        frame.group_by("scenario")
        .agg(
            pl.len().alias("corpora"),
            pl.col("is_false").sum().alias("false"),
            pl.col("truth").median().round(3).alias("shipped"),
            pl.col("bound").median().round(3).alias("bound"),
        )
        .sort("false", "scenario", descending=[True, False])
    )


def main() -> None:
    """Run the scenarios and print their table."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--corpora", type=int, default=400)
    options.add_argument("--segments", type=int, default=1000)
    options.add_argument("--scenarios", nargs="*", default=list(SCENARIOS), choices=SCENARIOS)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    tasks = [
        (scenario, asked.seed + number, asked.segments)
        for number in range(asked.corpora)
        for scenario in asked.scenarios
    ]
    with worker_pool(EngineLocation("loky", asked.jobs)) as run:
        outcomes = list(run(outcome, tasks))
    with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, fmt_str_lengths=40):
        print(table(outcomes))


if __name__ == "__main__":
    main()
