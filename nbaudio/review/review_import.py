"""The command `review import`.

It imports the verdicts of returned review sheets, in any order and more than once.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tracebacks import interruptible
from nbaudio.review.annotator_agreement import (
    agreement,
    describe_agreement,
    disagreements,
    left_to_judge,
    next_step,
)
from nbaudio.review.cell_escaping import (
    TRUNCATED,
    cell_text,
    escape_formula,
    normalize_cell,
    restore_controls,
    unescape_copy,
    unescape_formula,
)
from nbaudio.review.corrections import correct_texts, uncorrected
from nbaudio.review.returned_files import Returned, read_returned
from nbaudio.review.risk import describe, refresh
from nbaudio.review.sheet_reader import Row, Sheet
from nbaudio.review.sheet_writer import NO_HYPOTHESIS
from nbaudio.review.state import (
    OK,
    SEPARATOR,
    ReviewRecord,
    ReviewState,
    Verdict,
    append_verdicts,
    content_hashes,
    frame_table,
)
from nbaudio.review.verdict_words import RowPlace, VerdictWords, check_meanings
from nbaudio.tables import workspace_tables
from nbaudio.tables.tombstones import tombstone
from nbaudio.tables.workspace import Workspace
from nbaudio.text.normalization import nfc

_STEP = "review_import"
_UNNAMED = "unnamed"


class _Given:
    """The segments that reviewers were given."""

    def __init__(self, state: ReviewState) -> None:
        segments = workspace_tables.read(
            state.workspace, where=workspace_tables.has_id(state.drawn["segment_id"])
        )
        segments = uncorrected(state, segments).unique(
            "segment_id", keep="first", maintain_order=True
        )
        cells = segments.select(
            "segment_id",
            transcript=pl.col("text").fill_null(""),
            hypothesis=pl.col("asr_text").fill_null(NO_HYPOTHESIS),
            speaker=pl.col("speaker_id").fill_null(""),
        )
        contents = content_hashes(segments)
        shown = [
            {name: cell_text(text) for name, text in row.items()}
            for row in cells.iter_rows(named=True)
        ]
        self.records = records = state.records
        # By review: segment ids by the hash in the key of a row, and content hashes by segment id.
        self.by_content = {
            name: dict(zip(one.row_hashes(), one.segment_ids, strict=False))
            for name, one in records.items()
        }
        self.by_id = {
            name: dict(zip(one.segment_ids, one.contents, strict=False))
            for name, one in records.items()
        }
        self.withdrawn = _withdrawn_ids(state)
        self.taken_back = _hashes_by_name(state.taken_back.values())
        self.taken_back_ids = _names_by_id(state.taken_back.values())
        # By content, of segments that have not changed since: transcripts, and the read-only
        # columns as shown.
        self.texts = dict(zip(contents, cells["transcript"], strict=True))
        self.shown = dict(zip(contents, shown, strict=True))
        # All as shown.
        self.transcripts = frozenset(normalize_cell(row["transcript"]) for row in shown)


def _withdrawn_ids(state: ReviewState) -> set[str]:
    """Return the segments of reviews that were withdrawn since: frames have their tombstones."""
    if state.workspace.withdrawn.is_empty():
        return set()
    ids = {
        tombstone("segment", segment_id): segment_id
        for record in state.records.values()
        for segment_id in record.segment_ids
    }
    has_tombstone = pl.col("segment_id").is_in(list(ids))
    withdrawn: set[str] = set()
    for name in state.records:
        table = frame_table(name)
        if workspace_tables.table_path(state.workspace, table).exists():
            rows = workspace_tables.read(
                state.workspace, ["segment_id"], where=has_tombstone, table=table
            )
            withdrawn.update(ids[key] for key in rows["segment_id"])
    return withdrawn


def _hashes_by_name(records: Iterable[ReviewRecord]) -> dict[str, set[str]]:
    """Return by review the hashes in the keys of its rows."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for record in records:
        found[record.name].update(record.row_hashes())
    return found


def _names_by_id(records: Iterable[ReviewRecord]) -> dict[str, str]:
    """Return by segment the name of the last review that has it."""
    return {segment_id: record.name for record in records for segment_id in record.segment_ids}


@interruptible
def import_(
    workspace: Workspace | str | Path,
    sheets: Returned,
    *,
    reviewer: str | None = None,
    adjudicator: str | None = None,
    verdict_map: Mapping[str, str] | None = None,
) -> Report:
    """Import verdicts, comments and corrected texts from review sheets and verdict files.

    Verdict files are those of review pages. Returned sheets may be sorted, filtered, renamed, moved
    and saved by other programs, as .xlsx, .ods, .csv or .tsv. Verdicts are appended to the
    workspace's log; corrected texts are applied to the segments table (see `correct_texts`).
    Importing a sheet again changes nothing; a later state of it adds what is new.

    Args:
        workspace: the workspace or its folder.
        sheets: sheets, verdict files (.json), folders of them, or sheets read with pandas or
            polars; None if there is none yet.
        reviewer: who filled them in; by default the name in each row or sheet.
        adjudicator: the reviewer who has the last word where others disagree, from now on.
        verdict_map: verdicts by other words that stand for them, such as ``{"dobro": "ok"}``, in
            any case. The verdict is logged; `mapped` in the report counts the rows.

    Returns:
        Counts of rows and verdicts, and the annotator agreement. Its problems are rows that were
        not imported: unknown ids and words, contradictions, changed columns, sheets of another
        corpus, sheets in folders that cannot be read; its warnings are about rows that were taken,
        and name the other files of folders. All of them are in ``W/reports/review_import.json``.

    Raises:
        InputError: a file that is given by its own name cannot be read or is no review sheet, a
            name is blank, or a word of the map is a verdict itself or stands for none; then
            nothing is imported.
    """
    state = ReviewState.load(workspace)
    for option, name in (("reviewer", reviewer), ("adjudicator", adjudicator)):
        if name is not None and (not name.strip() or len(name.splitlines()) > 1):
            raise InputError(f"{option}: a name is needed, in one line")
    given = _Given(state)
    lists = [record.verdicts for record in given.records.values()]
    words = VerdictWords(check_meanings(verdict_map or {}, lists))
    returned = read_returned(sheets)
    # Warnings: imported, but to be checked; problems: not imported.
    found = Report("review import", Counter(), [*returned.not_read], [*returned.damaged])
    new = _new_verdicts(state, returned.sheets, given, words, found, reviewer=reviewer)
    if new:
        append_verdicts(state.workspace, new)
        state = ReviewState(state.workspace)
    if adjudicator and adjudicator.strip() not in state.adjudicators:
        state.add_adjudicator(adjudicator.strip())
        state = ReviewState(state.workspace)
    texts = correct_texts(state)
    found.problems.extend(texts.problems)
    if changed := texts.facts["corrected_now"]:
        found.warnings.append(f"{changed:,} of the texts changed: run select and materialize again")
    report = _report(state, returned.sheets, new, found, corrected=texts.facts["corrected_texts"])
    report.facts.update(words.facts())
    if returned.audio_files:
        report.facts["audio_files"] = returned.audio_files
    report.facts["risk"] = describe(refresh(state))
    state.workspace.save_report(_STEP, report.to_dict())
    rest = f"reports/{_STEP}.json"
    return replace(
        report,
        warnings=first_lines(report.warnings, rest),
        problems=first_lines(report.problems, rest),
    )


def _counts_by_word(verdicts: pl.Series) -> pl.DataFrame:
    """Return how often each word was given, the most frequent first.

    A verdict of several words counts for each.
    """
    words = verdicts.str.split(SEPARATOR).explode()
    return words.value_counts().sort("count", "verdict", descending=[True, False])


def _sentences(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what people read in place of the tables of verdicts and agreement."""
    table = pl.DataFrame(facts["agreement"], infer_schema_length=None)
    by_reviewer = [f"{row['reviewer']} {row['verdicts']:,}" for row in facts["by_reviewer"]]
    by_word = [f"{row['count']:,} {row['verdict']}" for row in facts["by_word"]]
    return {
        "by_reviewer": [", ".join(by_reviewer)] if by_reviewer else [],
        "by_word": [", ".join(by_word)] if by_word else [],
        "agreement": describe_agreement(table) if len(table) else [],
    }


def _new_verdicts(
    state: ReviewState,
    sheets: Sequence[Sheet],
    given: _Given,
    words: VerdictWords,
    found: Report,
    *,
    reviewer: str | None,
) -> list[Verdict]:
    """Return the verdicts of sheets that go into the log, in order."""
    verdicts = (Verdict(**row) for row in state.verdicts.iter_rows(named=True))
    held = {(said.reviewer, said.segment_id, said.content): said for said in verdicts}
    new: list[Verdict] = []
    for sheet in sheets:
        for said in _verdicts_of(sheet, given, words, found, reviewer=reviewer):
            about = (said.reviewer, said.segment_id, said.content)
            if _is_news(said, held.get(about), sheet, found):
                new.append(said)
                held[about] = said
    found.problems.extend(words.problems())
    found.warnings.extend(words.warnings())
    return new


def _is_news(said: Verdict, held: Verdict | None, sheet: Sheet, found: Report) -> bool:
    """Return whether a verdict goes into the log.

    It does if it is new, or later than the reviewer's previous one.
    """
    if held is None:
        found.facts["new"] += 1
        return True
    if (said.verdict, said.comment, said.corrected_text) == (
        held.verdict,
        held.comment,
        held.corrected_text,
    ):
        # Given in another review, it does not count for how far the reviewer has come in this one.
        found.facts["new" if said.review != held.review else "known_already"] += 1
        return said.review != held.review
    what = f"{said.segment_id}: {said.reviewer} said '{held.verdict}'"
    if dt.datetime.fromisoformat(said.time) > dt.datetime.fromisoformat(held.time):
        found.facts["changed"] += 1
        found.warnings.append(f"{what}, now says '{said.verdict}'")
        return True
    found.facts["outdated"] += 1
    found.problems.append(
        f"{what} later than {sheet.path.name} was saved, which says '{said.verdict}': not imported"
    )
    return False


def _verdicts_of(
    sheet: Sheet, given: _Given, words: VerdictWords, found: Report, *, reviewer: str | None
) -> list[Verdict]:
    """Return the verdicts of a sheet that can be taken, one per segment, in row order."""
    # The summary names the reviewer, unless the sheet has rows of several reviewers.
    several = len({row.key[1] for row in sheet.rows if row.key}) > 1
    default = "" if several else sheet.reviewer
    said: dict[tuple[str, str], Verdict | None] = {}
    for row, record, segment_id, listed in _matched(sheet, given, found):
        where = f"{sheet.path.name} row {row.number}, {segment_id}"
        content = given.by_id[record.name][segment_id]
        place = RowPlace(sheet.path.name, row.number)
        try:
            verdict = words.read(_verdict_cells(row), record.verdicts, place)
            cells = (
                None if verdict is None else _read(row, content, verdict, given, found, where=where)
            )
        except InputError as error:
            found.problems.append(f"{where}: {error}: not imported")
            continue
        if cells is None:
            continue
        time = (row.time or sheet.saved).isoformat().replace("+00:00", "Z")
        name = (reviewer or row["reviewer"]).strip() or default or listed or _UNNAMED
        name = {known.casefold(): known for known in record.reviewers}.get(name.casefold(), name)
        row_said = Verdict(segment_id, content, *cells, name, time, record.name, record.blind)
        key = (row_said.reviewer, row_said.segment_id)
        if said.setdefault(key, row_said) != row_said:
            found.problems.append(f"{where}: other rows of the sheet contradict it: not imported")
            said[key] = None
    verdicts = [verdict for verdict in said.values() if verdict]
    found.warnings.extend(_other_reviewers(sheet, verdicts, given))
    return verdicts


def _without_withdrawn(
    matched: list[tuple[Row, ReviewRecord, str, str]], place: str, given: _Given, found: Report
) -> list[tuple[Row, ReviewRecord, str, str]]:
    """Return the rows about segments that were not withdrawn, and report verdicts on others."""
    withdrawn = [row for row in matched if row[2] in given.withdrawn]
    num_verdicts = sum(bool(_verdict_cells(row)) for row, *_ in withdrawn)
    if num_verdicts:
        found.problems.append(
            f"{place}: not imported: {num_verdicts:,} verdicts on segments that were withdrawn"
        )
    return [row for row in matched if row[2] not in given.withdrawn]


def _verdict_cells(row: Row) -> str:
    """Return what is in the cells for verdicts; empty if they are blank."""
    cells = (row[name].strip() for name in ("verdict", "second verdict"))
    return "; ".join(filter(None, cells))


def _other_reviewers(sheet: Sheet, verdicts: Sequence[Verdict], given: _Given) -> Iterator[str]:
    """Yield a warning for each reviewer who was not given a sheet of the review."""
    counts = Counter((verdict.reviewer, verdict.review) for verdict in verdicts)
    for (name, review), count in counts.items():
        allowed = given.records[review].reviewers
        if allowed and name not in (*allowed, _UNNAMED):
            who = f"{sheet.path.name}: reviewers of {review} are {', '.join(allowed)}"
            yield (
                f"{who}, not '{_short(name)}', under whose name its {count:,} verdicts are stored"
            )


def _matched(
    sheet: Sheet, given: _Given, found: Report
) -> list[tuple[Row, ReviewRecord, str, str]]:
    """Return the rows whose segment is known, with review, segment and reviewer.

    There are none if the sheet is of another corpus.
    """
    place = sheet.path.name
    found.facts["rows"] += len(sheet.rows)
    sheet = _without_taken_back(sheet, given, found)
    matched, unknown = _match_all(sheet, given)
    corpora = {None, *(record.corpus for record in given.records.values())}
    if sheet.rows and (not matched or sheet.origin.get("corpus") not in corpora):
        found.problems.append(
            f"{place}: made from another corpus: none of its {len(sheet.rows):,} rows is imported"
        )
        return []
    found.problems.extend(unknown)
    tabs = "too, which are not imported: save each as a file"
    found.problems.extend(
        f"{place}: there are verdicts in the tab '{name}' {tabs}" for name in sheet.further
    )
    found.warnings.extend(
        f"{place}: the column '{name}' is unknown: not imported" for name in sheet.unknown
    )
    _count_missing_rows(matched, place, given, found)
    return _without_withdrawn(matched, place, given, found)


def _count_missing_rows(
    matched: Sequence[tuple[Row, ReviewRecord, str, str]], place: str, given: _Given, found: Report
) -> None:
    """Count the rows that were removed from a sheet, with a warning."""
    back: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for _, record, segment_id, reviewer in matched:
        back[record.name, reviewer].add(segment_id)
    for (name, reviewer), ids in back.items():
        record = given.records[name]
        if lost := set(record.shares().get(reviewer, record.segment_ids)) - ids:
            found.facts["rows_removed"] += len(lost)
            found.warnings.append(
                f"{place}: {len(lost):,} of its rows are missing, such as {min(lost)}"
            )


def _without_taken_back(sheet: Sheet, given: _Given, found: Report) -> Sheet:
    """Return a sheet without the rows of reviews that were taken back, with a problem for them."""
    reviews = [_taken_back(row, sheet, given) for row in sheet.rows]
    for name, count in Counter(filter(None, reviews)).items():
        found.problems.append(
            f"{sheet.path.name}: review {_short(name)} was taken back: its {count:,} rows are not "
            "imported; 'nbaudio review export' with the same name and options brings it back, "
            "then import this file again"
        )
    kept = [row for row, name in zip(sheet.rows, reviews, strict=True) if name is None]
    return replace(sheet, rows=kept)


def _taken_back(row: Row, sheet: Sheet, given: _Given) -> str | None:
    """Return the review of a row if it was taken back, and if the row is of no other review."""
    if row.key:
        content, _, review = row.key
        is_there = content in given.by_content.get(review, ())
        return review if content in given.taken_back.get(review, ()) and not is_there else None
    review_named = sheet.origin.get("review")
    if review_named is not None:
        is_there = review_named in given.records
        return review_named if review_named in given.taken_back and not is_there else None
    segment_id = row["segment_id"].strip()
    is_there = any(segment_id in places for places in given.by_id.values())
    return None if is_there else given.taken_back_ids.get(segment_id)


def _match_all(
    sheet: Sheet, given: _Given
) -> tuple[list[tuple[Row, ReviewRecord, str, str]], list[str]]:
    """Return rows as `_matched` does, and a line for each row that is unknown or ambiguous."""
    matched = []
    unknown = []
    for row in sheet.rows:
        try:
            matched.append((row, *_match(row, sheet, given)))
        except InputError as error:
            unknown.append(f"{sheet.path.name} row {row.number}: {error}: not imported")
    return matched, unknown


def _match(row: Row, sheet: Sheet, given: _Given) -> tuple[ReviewRecord, str, str]:
    """Return review, segment and reviewer of a row, by key or else segment id.

    Raise InputError if it is unknown or ambiguous.
    """
    named = row["segment_id"].strip()
    if not any(named in places for places in given.by_id.values()):
        named = unescape_formula(named)
    if row.key:
        content, reviewer, review = row.key
        if review not in given.records:
            raise InputError(f"review '{_short(review)}' was not exported from this workspace")
        segment_id = given.by_content[review].get(content)
        if segment_id is None:
            raise InputError(
                f"'{_short(named)}' with such texts and times was not in review '{review}'"
            )
        if named != segment_id and named in given.by_id[review]:
            raise InputError(
                f"its key belongs to {segment_id}, its id is {named}: "
                "columns were sorted separately"
            )
        return given.records[review], segment_id, reviewer
    origin = sheet.origin.get("review")
    reviews = [
        name for name, places in given.by_id.items() if named in places and origin in (name, None)
    ]
    if not reviews:
        raise InputError(f"the id '{_short(named)}' is unknown")
    if len(reviews) > 1:
        raise InputError(f"{named} is in reviews {', '.join(reviews)}, and the row has no key")
    [review] = reviews
    return given.records[review], named, sheet.origin.get("reviewer", "")


def _read(
    row: Row, content: str, verdict: str, given: _Given, found: Report, *, where: str
) -> tuple[str, str, str | None] | None:
    """Return verdict, comment and corrected text of a row, None if all are empty.

    Raise InputError if they are unusable.
    """
    shown = given.shown.get(content, {})
    row = _without_apostrophes(row, shown)
    comment, corrected = (
        row[name] if row[name].strip() else None for name in ("comment", "corrected text")
    )
    if not (verdict or comment or corrected):
        found.facts["left_empty"] += 1
        return None
    if not verdict:
        raise InputError("a comment or a corrected text, but no verdict")
    if not shown:
        found.facts["changed_since"] += 1
    found.problems.extend(
        f"{where}: {change}" for change in _changes(row, shown, given.transcripts)
    )
    if corrected and shown:
        original = given.texts[content].strip()
        cells = {normalize_cell(text).strip() for text in (corrected, shown["transcript"])}
        corrected = None if nfc(corrected).strip() == original or len(cells) == 1 else corrected
    if corrected and TRUNCATED.search(corrected):
        found.problems.append(
            f"{where}: its corrected text is cut off as the transcript is: "
            "only the verdict is imported"
        )
        corrected = None
    if corrected and verdict == OK:
        raise InputError(f"'{OK}' says that the transcript is right, but there is a corrected text")
    if corrected:
        corrected = restore_controls(corrected, given.texts.get(content, ""))
    return verdict, comment or "", corrected


def _without_apostrophes(row: Row, shown: Mapping[str, str]) -> Row:
    """Return a row without the apostrophes of .csv files.

    Some programs keep them, and some remove them.
    """
    kept = {name: text for name, text in shown.items() if row[name] == escape_formula(text) != text}
    if "transcript" in kept:  # and whoever copied it copied its apostrophes too
        kept["corrected text"] = unescape_copy(row["corrected text"], shown["transcript"])
    return replace(row, cells={**row.cells, **kept})


def _changes(row: Row, shown: Mapping[str, str], transcripts: frozenset[str]) -> list[str]:
    """Return what was changed in read-only columns.

    Raise InputError if the row has become a mixture of two.
    """
    changes = []
    for name, text in shown.items():
        there = normalize_cell(row[name])
        if name not in row.cells or there == normalize_cell(text):
            continue
        if name == "transcript" and there in transcripts:
            raise InputError("it has the transcript of another row: columns were sorted separately")
        hint = "; corrections go into 'corrected text'" if name == "transcript" else ""
        changes.append(f"its {name} was changed to '{_short(there)}', which is not imported{hint}")
    return changes


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _report(
    state: ReviewState,
    came: Sequence[Sheet],
    new: Sequence[Verdict],
    found: Report,
    *,
    corrected: int,
) -> Report:
    held = state.verdicts
    counts = (
        dict.fromkeys(("rows", "left_empty", "new", "changed", "known_already"), 0) | found.facts
    )
    apart = disagreements(state)
    by_word = _counts_by_word(held["verdict"])
    facts: dict[str, Any] = {
        "sheets": len(came),
        **counts,
        "verdicts_in_all": len(held),
        "by_reviewer": held["reviewer"].value_counts(name="verdicts").sort("reviewer").to_dicts(),
        "by_word": by_word.to_dicts(),
        "corrected_texts": corrected,
        "disagreements": len(apart),
        **({"adjudicators": ", ".join(state.adjudicators)} if state.adjudicators else {}),
        "agreement": agreement(state).to_dicts(),
    }
    concerned = sorted(
        {said.review for said in new}.union(*(sheet.reviews for sheet in came))
        & state.records.keys()
    )
    if complete := [
        name for name in concerned if not any(left_to_judge(state, state.records[name]).values())
    ]:
        facts["next"] = [f"{name}: all judged; {next_step(state, name)}" for name in complete]
    warnings = [
        *found.warnings,
        *(f"{key}: reviewers disagree, {said}" for key, said in apart.iter_rows()),
    ]
    if _UNNAMED in {said.reviewer for said in new}:
        warnings.append(
            "the sheet's summary names no reviewer: verdicts are stored under 'unnamed'; "
            "use --reviewer NAME"
        )
    judges = held["reviewer"].unique().sort().to_list()
    absent = [
        f"the adjudicator '{_short(name)}' has judged nothing"
        for name in state.adjudicators
        if name not in judges
    ]
    warnings += [f"{line}; reviewers are {', '.join(judges)}" for line in absent]
    if found.facts["changed_since"]:
        warnings.append(
            "segments have changed since they were exported: "
            "their verdicts apply to the earlier texts and times"
        )
    return Report("review import", facts, warnings, found.problems, sentences=_sentences(facts))
