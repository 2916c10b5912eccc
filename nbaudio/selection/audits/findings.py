"""Findings of an audit: how many rows a check concerns, and whether that is above its limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from nbaudio.core.report import escape_control, percent
from nbaudio.selection.audits.audited import Audited

MOST_EXAMPLES = 5
# Columns as messages name them.
_NAMES = {
    "split": "splits",
    "text": "texts",
    "speaker_id": "speakers",
    "recording_id": "recordings",
    "duration_s": "durations",
    "audio_sha256": "hashes of clips",
    "source_id": "column of ids",
    "consent": "column of consent",
    "language": "column of languages; 'nbaudio measure --with' makes one, see docs/audio.md",
    "similarity": "hypotheses",
    "decoded_s": "decoded clips",
    "audio_problem": "decoded clips",
    **dict.fromkeys(
        ("clipped_share", "snr_db", "bandwidth_hz", "silence_share", "dc_offset"), "measured audio"
    ),
    **dict.fromkeys(("cut_start", "cut_end"), "measured audio"),
}
_LONGEST_EXAMPLE = 80


@dataclass(frozen=True)
class Hits:
    """What a check found.

    Attributes:
        count: rows that it concerns, of those that ship.
        of: rows that it looked at.
        examples: up to five of these rows, each in one line.
        left_out: rows that it concerns as well, but which a selection left out already.
    """

    count: int
    of: int
    examples: Sequence[str] = ()
    left_out: int = 0


@dataclass(frozen=True)
class Check:
    """A check, in the list of its module.

    Attributes:
        name: as in reports.
        means: what it counts, in one sentence.
        limit: largest share of rows that is no finding.
        mend: the command or step that mends it.
        find: returns what it found.
        needs: columns that need a value in some row; without one the check is not run.
    """

    name: str
    means: str
    limit: float
    mend: str
    find: Callable[[Audited, "Settings"], Hits]
    needs: Sequence[str] = ()


@dataclass(frozen=True)
class Settings:
    """Limits of single clips.

    Attributes:
        max_duration: seconds of the longest clip that the model takes.
        max_rate: characters a second above which a text is too long for its clip.
        min_rate: characters a second below which it is too short.
    """

    max_duration: float = 30.0
    max_rate: float = 30.0
    min_rate: float = 2.0


@dataclass(frozen=True)
class Finding:
    """The row of a check in the report.

    Attributes:
        check: its name.
        count: rows that it concerns; None if it was not run.
        share: of the rows that it looked at.
        limit: largest share that is no finding.
        ok: whether the share is within the limit; None if it was not run.
        left_out: rows that a selection left out already.
        examples: up to five rows.
        mend: the command that mends it, or the reason why it was not run.
        means: what it counts.
        explained: why it is meant to be although it is above its limit; empty if it is not.
    """

    check: str
    count: int | None
    share: float | None
    limit: float
    ok: bool | None
    left_out: int
    examples: Sequence[str]
    mend: str
    means: str
    explained: str = ""

    @property
    def is_problem(self) -> bool:
        """Whether it is above its limit, and not explained."""
        return self.ok is False and not self.explained

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {**vars(self), "examples": list(self.examples)}

    def sentence(self) -> str:
        """Return the finding as a problem of the report."""
        examples = "; ".join(self.examples[:2])
        such_as = f", such as {examples}" if examples else ""
        return (
            f"{self.check}: {self.count:,} ({percent(self.share or 0)}, limit "
            f"{percent(self.limit)}){such_as}. {self.mend}"
        )


def not_run(check: Check, reason: str) -> Finding:
    """Return the row of a check that cannot be run."""
    return Finding(
        check.name, None, None, check.limit, None, 0, (), f"not run: {reason}", check.means
    )


def run_check(check: Check, audited: Audited, settings: Settings, limit: float) -> Finding:
    """Run a check, and compare what it found with a limit."""
    absent = [_NAMES.get(name, name) for name in check.needs if not audited.has(name)]
    if absent:
        return not_run(check, f"it has no {' and no '.join(absent)}")
    hits = check.find(audited, settings)
    share = hits.count / hits.of if hits.of else float(hits.count > 0)
    return Finding(
        check.name,
        hits.count,
        round(share, 6),
        limit,
        share <= limit,
        hits.left_out,
        tuple(hits.examples),
        check.mend.replace("TARGET", audited.name),
        check.means,
        audited.explained.get(check.name, ""),
    )


def rows_where(
    audited: Audited, condition: pl.Expr, *shown: str, among: pl.Expr | None = None
) -> Hits:
    """Return the rows that meet a condition, with the values of some columns in the examples.

    They are counted of the rows `among` which they are looked for, by default of all that ship.
    """
    met = audited.rows.filter(condition.fill_null(value=False))
    shipped = met.filter(~pl.col("is_left_out"))
    looked_at = audited.shipped if among is None else audited.shipped.filter(among)
    examples = example_rows(shipped, *shown)
    if not examples:
        examples = [f"{line} (left out)" for line in example_rows(met, *shown)]
    return Hits(len(shipped), len(looked_at), examples, len(met) - len(shipped))


def example_rows(rows: pl.DataFrame, *shown: str) -> list[str]:
    """Return the first five rows by id, each in one line with the values of some columns."""
    first = rows.select("segment_id", *shown).sort("segment_id").head(MOST_EXAMPLES)
    return [
        ": ".join([str(row[0]), ", ".join(map(_shown, row[1:]))]) if shown else str(row[0])
        for row in first.iter_rows()
    ]


def _shown(value: Any) -> str:
    """Return a value in one short line."""
    if isinstance(value, float):
        return f"{value:,.2f} s"
    text = escape_control(" ".join(str("none" if value is None else value).split()))
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[: _LONGEST_EXAMPLE - 3]}..."
