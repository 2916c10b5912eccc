"""The import step: verdicts out of sheets that came back.

A verdict holds as of the time at which its sheet was saved, so that sheets may come in any order and more than once.
"""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbaudio.errors import InputError
from nbaudio.report import Report, first_lines
from nbaudio.review.agreement import agreement, disagreements
from nbaudio.review.matching import UNNAMED, Findings, Given, verdicts_of
from nbaudio.review.reading import Sheet, read_sheet
from nbaudio.review.texts import correct_texts
from nbaudio.review.verdicts import VERDICTS, Verdict, append_verdicts, verdicts
from nbaudio.workspace import Workspace

_STEP = "review_import"


def import_(
    workspace: Workspace | str | Path, sheets: str | Path | Sequence[str | Path], *, reviewer: str | None = None
) -> Report:
    """Take verdicts, comments and corrected texts from review sheets that came back.

    The sheets may have been sorted, filtered, renamed, moved about and saved by other programs, as .xlsx, .csv or .tsv. Verdicts
    go into the log of the workspace, each with reviewer, time and sheet; corrected texts into its segments, see
    `texts.correct_texts`. Importing a sheet again changes nothing; a later state of it adds what is new.

    Args:
        workspace: the workspace or its folder.
        sheets: one file or several.
        reviewer: who filled them in; by default whom each sheet names.

    Returns:
        Counts of rows and verdicts, and the agreement of reviewers. Its problems are rows that were not taken: unknown ids and
        words, contradictions, changed columns, sheets of another corpus; its warnings, what was taken and is worth a look. All of
        them are in ``W/reports/review_import.json``.

    Raises:
        InputError: a file cannot be read or is no review sheet; then nothing is taken from any.
    """
    workspace = Workspace.open(workspace)
    paths = [Path(path) for path in ([sheets] if isinstance(sheets, str | Path) else sheets)]
    if not paths:
        raise InputError("no sheet is named to import")
    given = Given.by(workspace)
    words = {word for record in given.records.values() for word in record.verdicts} | set(VERDICTS)
    came = sorted((read_sheet(path, words=words) for path in paths), key=lambda sheet: (sheet.saved, sheet.path))
    found = Findings()
    held = {(said["reviewer"], said["segment_id"]): Verdict(**said) for said in verdicts(workspace).iter_rows(named=True)}
    new: list[Verdict] = []
    for sheet in came:
        for said in verdicts_of(sheet, given, found, reviewer=reviewer):
            key = (said.reviewer, said.segment_id)
            if _is_news(said, held.get(key), sheet, found):
                new.append(said)
                held[key] = said
    if new:
        append_verdicts(workspace, new)
    texts = correct_texts(workspace)
    found.problems += texts.problems
    if texts.changed:
        found.warnings.append(f"{texts.changed:,} texts of segments have changed: run select and materialize again")
    report = _report(workspace, came, new, found, corrected=texts.held)
    workspace.save_report(_STEP, report.to_dict())
    rest = f"reports/{_STEP}.json"
    return Report(report.step, report.facts, first_lines(report.warnings, rest), first_lines(report.problems, rest))


def _is_news(said: Verdict, held: Verdict | None, sheet: Sheet, found: Findings) -> bool:
    """Whether a verdict is to go into the log: it is new, or later than what the reviewer said before."""
    if held is None:
        found.counts["new"] += 1
        return True
    if (said.verdict, said.comment, said.corrected_text) == (held.verdict, held.comment, held.corrected_text):
        found.counts["known already"] += 1
        return False
    what = f"{said.segment_id}: {said.reviewer} said '{held.verdict}'"
    if dt.datetime.fromisoformat(said.time) > dt.datetime.fromisoformat(held.time):
        found.counts["changed"] += 1
        found.warnings.append(f"{what}, now says '{said.verdict}'")
        return True
    found.counts["outdated"] += 1
    found.problems.append(f"{what} later than {sheet.path.name} was saved, which says '{said.verdict}': not taken")
    return False


def _report(workspace: Workspace, came: Sequence[Sheet], new: Sequence[Verdict], found: Findings, *, corrected: int) -> Report:
    held = verdicts(workspace)
    counts = dict.fromkeys(("rows", "left empty", "new", "changed", "known already"), 0) | found.counts
    apart = disagreements(workspace)
    facts: dict[str, Any] = {
        "sheets": len(came),
        **counts,
        "verdicts in all": len(held),
        "by reviewer": dict(held["reviewer"].value_counts().sort("reviewer").iter_rows()),
        "by word": dict(held["verdict"].value_counts().sort("count", "verdict", descending=[True, False]).iter_rows()),
        "corrected texts": corrected,
        "disagreements": len(apart),
    }
    for of, measure, names, segments, *estimate in agreement(workspace).iter_rows():
        value, low, high = ("-" if number is None else f"{number:.3f}" for number in estimate)
        facts[f"{measure} of {names}, {of}"] = f"{value} ({low} to {high}) on {segments:,}"
    warnings = [*found.warnings, *(f"{key}: reviewers disagree, {said}" for key, said in apart.iter_rows())]
    if UNNAMED in {said.reviewer for said in new}:
        warnings.append("who reviewed is not said in the sheet's summary: kept as 'unnamed'; --reviewer NAME says it")
    if found.counts["changed since"]:
        warnings.append("segments have changed since they were given out: their verdicts are about what they were then")
    return Report("review import", facts, warnings, found.problems)
