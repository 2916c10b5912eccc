"""Measure how often the upper bound of word errors is false if people look, choose and tire.

    python benchmarks/word_errors.py [--corpora 400] [--segments 1000] [--rows NAME ...]
                                     [--jobs 2] [--seed 0] [--outcomes FILE]

People and corpora are those of choosing.py; here a wrong clip has some wrong words, and a look is
at the upper bound of the share of wrong words in what ships, by each fixed rule at its own share of
the error. A bound is the best that was reached after any verdict before. A row has three names:

- what is wrong: `whole` (0.7 % of the clips, all of their words), `word` (a fifth of the clips, one
  word), `mixed` (both), `long` (most of the long clips, half of their words);
- who types corrected texts: `every` (for each fault), `mild` (only if at most a fifth of the words
  are wrong), `first` (only for the first hundred clips), `best` (for those faults that give the
  lowest bound, chosen again at each look, of all, the mild ones, and none);
- what people do: a scenario of choosing.py, or `reviewed_ship`, where corrected clips ship, all
  words of them wrong.

Columns:

- false: in how many corpora the bound was below the truth at one look at least. With a confidence
  of 95 % that may be 5 % of them.
- at_most: the upper limit of their share, at 95 % confidence.
- wer: the median share of wrong words in what ships at the end.
- bound: the median upper bound of it.
- by_clips: the same without corrected texts, so that all words of a wrong clip count as wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import choosing
import numpy as np
import polars as pl
from corpora import Task, most_false, parse_options, run_corpora
from numpy.typing import NDArray

from nbaudio.proof.betting import Array, Bools, Ints, bet
from nbaudio.proof.claims import Part, claims_by_rule
from nbaudio.proof.word_errors import JudgedWords, WordShares, word_errors

ERROR = 1 - choosing.CONFIDENCE
MILD = 0.2  # the share of words that may be wrong in a mild fault
FIRST = 100  # clips with a corrected text if somebody types no more of them then
MARGIN = 0.7  # of the logarithm of a capital: nulls beside the truth have almost the same


class Words(choosing.Archive):
    """An archive whose wrong clips have some wrong words; arrays by segment."""

    words: Array
    wrong_words: Array
    typed: Bools  # which segments have a corrected text
    corrects: str
    ships_reviewed = False
    by_clips = 1.0

    def amount(self, what: str) -> Array:
        """Return what each segment counts for by `segments`, `hours` or `words`."""
        return self.words if what == "words" else super().amount(what)

    def labels(self) -> NDArray[np.int8]:
        """Return the verdict on each segment as it is now: a corrected text has none."""
        label = super().labels()
        label[self._corrected] = -1
        return label

    @property
    def _corrected(self) -> Bools:
        """Which segments have a corrected text in the tables."""
        return self.heard & self.wrong & self.typed & self.is_there

    def judge(self, sheet: int = -1, *, until: Callable[[Ints], int] | None = None) -> None:
        """Judge rows of a round in order, and type the corrected texts of their faults."""
        before = self.heard.copy()
        super().judge(sheet, until=until)
        if self.corrects == "first" and before.sum() >= FIRST:
            self.typed &= before | ~self.heard

    def look(self, selected: Bools) -> None:
        """Look at the bound of what would ship, and note whether it is false."""
        ships = selected & self.is_there
        if not self.ships_reviewed:
            ships &= ~self.is_on_sheet
        if not ships.any() or not self.sheets:
            return
        self.last_look = selected
        for typed in self._choices():
            self.typed = typed
            self.truth = float(self._wrong_now[ships].sum() / self.words[ships].sum())
            self.is_false |= any(map(self._is_false, self._parts(ships, selected)))

    def look_at_the_end(self) -> None:
        """Compute the bounds of the last look."""
        if self.last_look is None:
            return
        ships = self.last_look & self.is_there
        if not self.ships_reviewed:
            ships &= ~self.is_on_sheet
        if not ships.any():
            return
        bounds = []
        for typed in [*self._choices(), np.zeros(len(self.wrong), dtype=bool)]:
            self.typed = typed
            bounds.append(min(map(self._high, self._parts(ships, self.last_look))))
        self.bound = min(bounds[:-1])
        self.by_clips = bounds[-1]

    @property
    def _wrong_now(self) -> Array:
        """Return the wrong words of each segment as it is now."""
        return np.where(self._corrected, self.words, self.wrong_words)

    def _choices(self) -> list[Bools]:
        """Return which corrected texts somebody may have typed."""
        if self.corrects != "best":
            return [self.typed]
        every = np.ones(len(self.wrong), dtype=bool)
        return [every, is_mild(self), ~every]

    def _parts(self, ships: Bools, selected: Bools) -> list[Part]:
        """Return what ships, within each rule."""
        state = self._state(selected)
        return [claim.part for claim in claims_by_rule(state, ships, error=ERROR)]

    def _shares(self) -> WordShares:
        """Return the shares of wrong words by the corrected texts."""
        share = self.wrong_words / self.words
        return WordShares(np.where(self._corrected, share, np.nan), np.full(len(share), np.nan))

    def _high(self, part: Part) -> float:
        """Return the upper bound of the share of wrong words by a rule."""
        high = word_errors(part, self._shares(), error=_error(part)).wer_high
        return 1.0 if high is None else high

    def _is_false(self, part: Part) -> bool:
        """Return whether the bound of a rule is below the truth.

        A bet against the truth alone, which takes a hundredth of the time, tells most that are not.
        """
        judged = JudgedWords.of(part, self._shares())
        truth = float(self._wrong_now[part.ships].sum())
        null = truth - judged.shipped() + judged.seen()
        peak = bet(judged.draws, part.value("words"), np.array([null])).peak[0]
        if peak < -np.log(_error(part)) - MARGIN:
            return False
        return self._high(part) < self.truth - 1e-9


def _error(part: Part) -> float:
    """Return the error of the bound by the rule of a part."""
    return part.about.rule.error(ERROR)


def is_mild(archive: Words) -> Bools:
    """Return which segments have few wrong words."""
    return archive.wrong_words <= MILD * archive.words


def make_words(seed: int, size: int, wrong: str, corrects: str) -> Words:
    """Make a corpus; see the module for what is wrong, and who corrects it."""
    plain = choosing.make_archive(seed, size, equal=seed % 2 == 0)
    archive = Words(**vars(plain))
    random = archive.generator.random
    archive.words = archive.generator.integers(4, 36, size).astype(float)
    is_whole = random(size) < 0.007
    is_word = random(size) < 0.2
    is_long = (archive.words > np.quantile(archive.words, 0.97)) & (random(size) < 0.8)
    share = {
        "whole": is_whole * 1.0,
        "word": is_word / archive.words,
        "mixed": np.where(is_whole, 1.0, is_word / archive.words),
        "long": is_long * 0.5,
    }[wrong]
    share[archive.similarity < 0.8] = 0.6
    archive.wrong_words = np.ceil(share * archive.words - 1e-9)
    archive.wrong[:] = archive.wrong_words > 0
    archive.corrects = corrects
    archive.bound = 1.0  # until something ships
    archive.typed = is_mild(archive) if corrects == "mild" else np.ones(size, dtype=bool)
    return archive


def reviewed_ship(archive: Words) -> None:
    """Ship the clips that were reviewed as well."""
    archive.ships_reviewed = True
    choosing.restrained(archive)


SCENARIOS: dict[str, Callable[[Any], None]] = {
    **choosing.SCENARIOS,
    "reviewed_ship": reviewed_ship,
}
ROWS = (
    "whole every restrained",
    "word every restrained",
    "mixed every restrained",
    "long every restrained",
    "mixed mild restrained",
    "mixed first restrained",
    "mixed best restrained",
    "whole every faults_left_out",
    "mixed every faults_left_out",
    "mixed mild faults_left_out",
    "mixed best faults_left_out",
    "mixed every speakers_left_out_and_reviewed",
    "mixed every sheets_end_at_a_fault",
    "mixed every best_beginnings",
    "long every weakest_left_out",
    "mixed every growth_of_faultless_speakers",
    "mixed every faults_withdrawn",
    "mixed every reviewed_ship",
)


@dataclass(frozen=True)
class Outcome:
    """What one corpus of a row gave."""

    row: str
    seed: int
    is_false: bool
    wer: float
    bound: float
    by_clips: float


def outcome(task: Task) -> Outcome:
    """Run a row on one corpus."""
    wrong, corrects, scenario = task.row.split()
    archive = make_words(task.seed, task.segments, wrong, corrects)
    SCENARIOS[scenario](archive)
    archive.look_at_the_end()
    numbers = map(float, (archive.truth, archive.bound, archive.by_clips))
    return Outcome(task.row, task.seed, bool(archive.is_false), *numbers)


def table(outcomes: Sequence[Outcome]) -> pl.DataFrame:
    """Return a row for each name, the least favourable first."""
    frame = pl.DataFrame([vars(outcome_) for outcome_ in outcomes])
    rows = frame.group_by("row").agg(
        pl.len().alias("corpora"),
        pl.col("is_false").sum().alias("false"),
        pl.col("wer", "bound", "by_clips").median().round(4),
    )
    limits = [most_false(*row) for row in rows.select("false", "corpora").iter_rows()]
    rows = rows.with_columns(at_most=pl.Series(limits, dtype=pl.Float64).round(3))
    rows = rows.sort(pl.col("false") / pl.col("corpora"), "row", descending=[True, False])
    return rows.select("row", "corpora", "false", "at_most", "wer", "bound", "by_clips")


def main() -> None:
    """Run the rows and print their table."""
    asked = parse_options(__doc__, ROWS, segments=1000)
    outcomes = run_corpora(outcome, Outcome, asked)
    with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, fmt_str_lengths=50):
        print(table(outcomes))


if __name__ == "__main__":
    main()
