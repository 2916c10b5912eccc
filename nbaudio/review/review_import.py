"""The command `review import`.

It imports the verdicts of returned review sheets, in any order and more than once.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, count, first_lines, shorten
from nbaudio.core.tracebacks import interruptible
from nbaudio.formats.workbooks import ConvertedText
from nbaudio.review.annotator_agreement import (
    agreement,
    describe_agreement,
    disagreements,
    left_to_judge,
    next_step,
)
from nbaudio.review.cell_escaping import (
    cell_text,
    escape_formula,
    is_truncated,
    normalize_cell,
    restore_controls,
    unescape_copy,
    unescape_formula,
)
from nbaudio.review.control_rows import control_texts
from nbaudio.review.corrections import correct_texts, uncorrected
from nbaudio.review.returned_files import Returned, read_returned
from nbaudio.review.reviewer_rates import reviewer_rates
from nbaudio.review.risk import describe, refresh
from nbaudio.review.sheet_reader import Row, Sheet
from nbaudio.review.sheet_writer import NO_HYPOTHESIS
from nbaudio.review.state import (
    CONTROL_LOG,
    OK,
    SEPARATOR,
    ControlRow,
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
from nbaudio.tables.workspace import REPEATED, Workspace
from nbaudio.text.normalization import nfc

_STEP = "review_import"
_UNNAMED = "unnamed"
_SHOWN_ROWS = 5  # rows with merged cells that are named


class _Exported:
    """The segments that reviewers were given.

    Attributes:
        records: of the reviews, by name.
        by_content: by review, the segments by the hash in the key of a row.
        by_id: by review, the content hashes by segment.
        control: by review, the control rows by the hash in the key of a row.
        withdrawn: the segments that were withdrawn since.
        taken_back: the hashes in the keys of the rows of reviews that were taken back, by review.
        taken_back_ids: the last of these reviews that has a segment, by segment.
        texts: transcripts by content, of segments that have not changed since.
        shown: their read-only columns as shown, by content.
        transcripts: all of them as shown.
    """

    def __init__(self, state: ReviewState) -> None:
        cells = _cells_of_drawn(state) | control_texts(state)
        self.records = state.records
        self.by_content = {
            name: dict(zip(record.row_hashes(), record.segment_ids, strict=False))
            for name, record in state.records.items()
        }
        self.by_id = {
            name: dict(zip(record.segment_ids, record.contents, strict=False))
            for name, record in state.records.items()
        }
        self.control = {
            name: dict(zip(record.control_hashes(), record.control_rows, strict=True))
            for name, record in state.records.items()
        }
        self.withdrawn = _withdrawn_ids(state)
        self.taken_back = _hashes_by_name(state.taken_back.values())
        self.taken_back_ids = _names_by_id(state.taken_back.values())
        self.texts = {content: row["transcript"] for content, row in cells.items()}
        self.shown = {
            content: {name: cell_text(text) for name, text in row.items()}
            for content, row in cells.items()
        }
        self.transcripts = frozenset(
            normalize_cell(row["transcript"]) for row in self.shown.values()
        )


def _cells_of_drawn(state: ReviewState) -> dict[str, dict[str, str]]:
    """Return the texts of the read-only columns of drawn segments as they are, by content."""
    segments = workspace_tables.read(
        state.workspace, where=workspace_tables.has_id(state.drawn["segment_id"])
    )
    segments = uncorrected(state, segments).unique("segment_id", keep="first", maintain_order=True)
    cells = segments.select(
        "segment_id",
        transcript=pl.col("text").fill_null(""),
        hypothesis=pl.col("asr_text").fill_null(NO_HYPOTHESIS),
        speaker=pl.col("speaker_id").fill_null(""),
    )
    return dict(zip(content_hashes(segments), cells.to_dicts(), strict=True))


@dataclass(frozen=True)
class _Import:
    """The setting of an import.

    Attributes:
        exported: the segments that reviewers were given.
        words: that stand for verdicts.
        reviewer: who filled in all sheets; None where each says so.
        report: to which sheets add counts, warnings (imported, but to be checked) and problems (not
            imported) as they are read.
    """

    exported: _Exported
    words: VerdictWords
    reviewer: str | None
    report: Report


@dataclass(frozen=True)
class _Match:
    """A row of a sheet with its review and segment.

    Attributes:
        row: of the sheet.
        record: of the review.
        segment_id: of the segment.
        content: the hash of what was judged.
        reviewer: to whom the row was given; empty if it does not say so.
        place: of the row.
        is_control: whether it is a control row.
    """

    row: Row
    record: ReviewRecord
    segment_id: str
    content: str
    reviewer: str
    place: RowPlace
    is_control: bool = False

    def __str__(self) -> str:
        return f"{self.place.sheet} row {self.place.row}, {self.segment_id}"


@dataclass(frozen=True)
class _Judgment:
    """What a reviewer filled in; `corrected_text` is None if the transcript was not corrected."""

    verdict: str
    comment: str
    corrected_text: str | None


@dataclass(frozen=True)
class _NewVerdicts:
    """The verdicts that go into the logs, in order."""

    drawn: list[Verdict]
    control: list[Verdict]  # those on control rows


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
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for record in records:
        hashes[record.name].update(record.row_hashes(), record.control_hashes())
    return hashes


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
    _check_name("reviewer", reviewer)
    _check_name("adjudicator", adjudicator)
    exported = _Exported(state)
    lists = [record.verdicts for record in state.records.values()]
    words = VerdictWords(check_meanings(verdict_map or {}, lists))
    returned = read_returned(sheets)
    findings = Report("review import", Counter(), [*returned.not_read], [*returned.damaged])
    run = _Import(exported, words, reviewer, findings)
    judged = _new_verdicts(state, returned.sheets, run)
    new = judged.drawn
    state = _store(state, judged, adjudicator)
    texts = correct_texts(state)
    findings.problems.extend(texts.problems)
    if changed := texts.facts["corrected_now"]:
        findings.warnings.append(
            f"{changed:,} of the texts changed: run select and materialize again"
        )
    findings.warnings.extend(texts.warnings)
    corrected = texts.facts["corrected_texts"]
    report = _report(state, returned.sheets, new, findings, corrected=corrected)
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


def _check_name(option: str, name: str | None) -> None:
    """Raise InputError for a name that is blank or has several lines."""
    if name is not None and (not name.strip() or len(name.splitlines()) > 1):
        raise InputError(f"{option}: a name is needed, in one line")


def _store(state: ReviewState, new: _NewVerdicts, adjudicator: str | None) -> ReviewState:
    """Append verdicts and an adjudicator to the logs; return the state with them."""
    if new.drawn:
        append_verdicts(state.workspace, new.drawn)
    if new.control:
        append_verdicts(state.workspace, new.control, log=CONTROL_LOG)
    if new.drawn or new.control:
        state = ReviewState(state.workspace)
    if adjudicator and adjudicator.strip() not in state.adjudicators:
        state.add_adjudicator(adjudicator.strip())
        state = ReviewState(state.workspace)
    return state


def _counts_by_word(verdicts: pl.Series) -> pl.DataFrame:
    """Return how often each word was given, the most frequent first.

    A verdict of several words counts for each.
    """
    words = verdicts.str.split(SEPARATOR).explode()
    return words.value_counts().sort("count", "verdict", descending=[True, False])


def _sentences(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what people read in place of the tables of verdicts and agreement."""
    sentences: dict[str, list[str]] = {"by_reviewer": [], "by_word": [], "agreement": []}
    if counts := [f"{row['reviewer']} {row['verdicts']:,}" for row in facts["by_reviewer"]]:
        sentences["by_reviewer"] = [", ".join(counts)]
    if counts := [f"{row['count']:,} {row['verdict']}" for row in facts["by_word"]]:
        sentences["by_word"] = [", ".join(counts)]
    table = pl.DataFrame(facts["agreement"], infer_schema_length=None)
    if len(table):
        sentences["agreement"] = describe_agreement(table)
    return sentences


def _new_verdicts(state: ReviewState, sheets: Sequence[Sheet], run: _Import) -> _NewVerdicts:
    """Return the verdicts of sheets that are not in the logs, or are later than those in them."""
    stored = state.verdicts
    if any(run.exported.control.values()):
        stored = pl.concat([stored, state.control_verdicts])
    verdicts = (Verdict(**row) for row in stored.iter_rows(named=True))
    latest = {_judged_by(verdict): verdict for verdict in verdicts}
    new = _NewVerdicts([], [])
    for sheet in sheets:
        for match, verdict in _verdicts_of(sheet, run):
            key = _judged_by(verdict)
            if _is_news(verdict, latest.get(key), sheet, run.report):
                log = new.control if match.is_control else new.drawn
                log.append(verdict)
                latest[key] = verdict
    run.report.problems.extend(run.words.problems())
    run.report.warnings.extend(run.words.warnings())
    return new


def _judged_by(verdict: Verdict) -> tuple[str, str, str]:
    """Return reviewer, segment and content of a verdict, of which the log has a latest verdict."""
    return verdict.reviewer, verdict.segment_id, verdict.content


def _is_news(verdict: Verdict, previous: Verdict | None, sheet: Sheet, report: Report) -> bool:
    """Return whether a verdict goes into the log.

    It does if it is new, or later than the reviewer's previous one.
    """
    if previous is None:
        report.facts["new"] += 1
        return True
    if (verdict.verdict, verdict.comment, verdict.corrected_text) == (
        previous.verdict,
        previous.comment,
        previous.corrected_text,
    ):
        # Given in another review, it does not count for how far the reviewer has come in this one.
        is_new = verdict.review != previous.review
        fact = "new" if is_new else "known_already"
        report.facts[fact] += 1
        return is_new
    contradiction = f"{verdict.segment_id}: {verdict.reviewer} said '{previous.verdict}'"
    if dt.datetime.fromisoformat(verdict.time) > dt.datetime.fromisoformat(previous.time):
        report.facts["changed"] += 1
        report.warnings.append(f"{contradiction}, now says '{verdict.verdict}'")
        return True
    report.facts["outdated"] += 1
    report.problems.append(
        f"{contradiction} later than {sheet.path.name} was saved, which says '{verdict.verdict}': "
        "not imported"
    )
    return False


def _verdicts_of(sheet: Sheet, run: _Import) -> list[tuple[_Match, Verdict]]:
    """Return the verdicts of a sheet that can be taken, one per row of a review, in row order."""
    # The summary names the reviewer, unless the sheet has rows of several reviewers.
    has_several = len({row.key[1] for row in sheet.rows if row.key}) > 1
    default_reviewer = "" if has_several else sheet.reviewer
    by_row: dict[tuple[str, str, bool, str], tuple[_Match, Verdict] | None] = {}
    for match in _matched(sheet, run):
        judgment = _judgment(match, run)
        if judgment is None:
            continue
        verdict = Verdict(
            segment_id=match.segment_id,
            content=match.content,
            verdict=judgment.verdict,
            comment=judgment.comment,
            corrected_text=judgment.corrected_text,
            reviewer=_reviewer_of(match, run.reviewer, default_reviewer),
            time=(match.row.time or sheet.saved).isoformat().replace("+00:00", "Z"),
            review=match.record.name,
            blind=match.record.blind,
        )
        control_content = match.content if match.is_control else ""
        key = (verdict.reviewer, verdict.segment_id, match.is_control, control_content)
        earlier = by_row.setdefault(key, (match, verdict))
        if earlier is None or earlier[1] != verdict:
            run.report.problems.append(
                f"{match}: other rows of the sheet contradict it: not imported"
            )
            by_row[key] = None
    judged = [row for row in by_row.values() if row is not None]
    verdicts = [verdict for _, verdict in judged]
    run.report.warnings.extend(_other_reviewers(sheet, verdicts, run.exported))
    return judged


def _judgment(match: _Match, run: _Import) -> _Judgment | None:
    """Return the judgment of a row; None, with a problem, if it cannot be used."""
    try:
        verdict = run.words.read(_verdict_cells(match.row), match.record.verdicts, match.place)
        if verdict is None:
            return None
        return _read(match, verdict, run)
    except InputError as error:
        run.report.problems.append(f"{match}: {error}: not imported")
        return None


def _reviewer_of(match: _Match, reviewer: str | None, default: str) -> str:
    """Return the reviewer of a row, as the review spells the name.

    That is the `reviewer` of the import or else of the row, else the `default` of the sheet, else
    whom the row was given to.
    """
    name = (reviewer or match.row["reviewer"]).strip() or default or match.reviewer or _UNNAMED
    spelled = {listed.casefold(): listed for listed in match.record.reviewers}
    return spelled.get(name.casefold(), name)


def _without_withdrawn(matches: list[_Match], place: str, run: _Import) -> list[_Match]:
    """Return the rows about segments that were not withdrawn, and report verdicts on others."""
    withdrawn = run.exported.withdrawn
    num_verdicts = sum(
        bool(_verdict_cells(match.row)) for match in matches if match.segment_id in withdrawn
    )
    if num_verdicts:
        run.report.problems.append(
            f"{place}: not imported: {num_verdicts:,} verdicts on segments that were withdrawn"
        )
    return [match for match in matches if match.segment_id not in withdrawn]


def _verdict_cells(row: Row) -> str:
    """Return the texts of the cells for verdicts; empty if all are blank."""
    cells = (row[name].strip() for name in ("verdict", "second verdict"))
    return "; ".join(filter(None, cells))


def _other_reviewers(
    sheet: Sheet, verdicts: Sequence[Verdict], exported: _Exported
) -> Iterator[str]:
    """Yield a warning for each reviewer who was not given a sheet of the review."""
    counts = Counter((verdict.reviewer, verdict.review) for verdict in verdicts)
    for (name, review), num_verdicts in counts.items():
        allowed = exported.records[review].reviewers
        if allowed and name not in (*allowed, _UNNAMED):
            who = f"{sheet.path.name}: reviewers of {review} are {', '.join(allowed)}"
            yield (
                f"{who}, not '{_short(name)}', under whose name its {num_verdicts:,} verdicts "
                "are stored"
            )


def _matched(sheet: Sheet, run: _Import) -> list[_Match]:
    """Return the rows whose segment is known; none if the sheet is of another corpus."""
    place = sheet.path.name
    run.report.facts["rows"] += len(sheet.rows)
    sheet = _without_taken_back(sheet, run)
    matches, unknown = _match_all(sheet, run.exported)
    corpora = {None, *(record.corpus for record in run.exported.records.values())}
    if sheet.rows and (not matches or sheet.origin.get("corpus") not in corpora):
        run.report.problems.append(
            f"{place}: made from another corpus: none of its {len(sheet.rows):,} rows is imported"
        )
        return []
    run.report.problems.extend(unknown)
    tabs = "too, which are not imported: save each as a file"
    run.report.problems.extend(
        f"{place}: there are verdicts in the tab '{name}' {tabs}" for name in sheet.further
    )
    run.report.warnings.extend(
        f"{place}: the column '{name}' is unknown: not imported" for name in sheet.unknown
    )
    _report_marks(sheet, run.report)
    _count_missing_rows(matches, place, run)
    return _without_withdrawn(matches, place, run)


def _report_marks(sheet: Sheet, report: Report) -> None:
    """Add a problem for rows with merged cells, and a warning for notes at cells."""
    if sheet.merged:
        listed = ", ".join(map(str, sheet.merged[:_SHOWN_ROWS]))
        more = ", ..." if len(sheet.merged) > _SHOWN_ROWS else ""
        rows = count(len(sheet.merged), "rows", "have")
        report.problems.append(
            f"{sheet.path.name}: {rows} cells that are merged with those above, which count for "
            f"the first row only (row {listed}{more}): unmerge them and fill in each row"
        )
    if sheet.notes:
        notes = count(sheet.notes, "notes", "are")
        report.warnings.append(
            f"{sheet.path.name}: {notes} attached to cells and not imported: only the column "
            "'comment' is"
        )


def _count_missing_rows(matches: Sequence[_Match], place: str, run: _Import) -> None:
    """Count the rows that were removed from a sheet, with a warning."""
    returned_ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for match in matches:
        returned_ids[match.record.name, match.reviewer].add(match.segment_id)
    for (name, reviewer), ids in returned_ids.items():
        record = run.exported.records[name]
        missing_ids = set(record.shares().get(reviewer, record.segment_ids)) - ids
        if missing_ids:
            run.report.facts["rows_removed"] += len(missing_ids)
            run.report.warnings.append(
                f"{place}: {len(missing_ids):,} of its rows are missing, such as {min(missing_ids)}"
            )


def _without_taken_back(sheet: Sheet, run: _Import) -> Sheet:
    """Return a sheet without the rows of reviews that were taken back, with a problem for them."""
    reviews = [_taken_back(row, sheet, run.exported) for row in sheet.rows]
    for name, num_rows in Counter(filter(None, reviews)).items():
        run.report.problems.append(
            f"{sheet.path.name}: review {_short(name)} was taken back: its {num_rows:,} rows are "
            "not imported; 'nbaudio review export' with the same name and options brings it back, "
            "then import this file again"
        )
    rows = [row for row, name in zip(sheet.rows, reviews, strict=True) if name is None]
    return replace(sheet, rows=rows)


def _taken_back(row: Row, sheet: Sheet, exported: _Exported) -> str | None:
    """Return the review of a row if it was taken back, and if the row is of no other review."""
    review = sheet.origin.get("review")
    if row.key:
        content, _, review = row.key
        is_current = content in exported.by_content.get(
            review, ()
        ) or content in exported.control.get(review, ())
        is_taken_back = content in exported.taken_back.get(review, ())
    elif review is not None:
        is_current = review in exported.records
        is_taken_back = review in exported.taken_back
    else:
        segment_id = row["segment_id"].strip()
        review = exported.taken_back_ids.get(segment_id)
        is_current = any(segment_id in places for places in exported.by_id.values())
        is_taken_back = review is not None
    if is_current or not is_taken_back:
        return None
    return review


def _match_all(sheet: Sheet, exported: _Exported) -> tuple[list[_Match], list[str]]:
    """Return the rows whose segment is known, and a line for each unknown or ambiguous row."""
    matches = []
    unknown = []
    for row in sheet.rows:
        try:
            matches.append(_match(row, sheet, exported))
        except InputError as error:
            unknown.append(f"{sheet.path.name} row {row.number}: {error}: not imported")
    return matches, unknown


def _match(row: Row, sheet: Sheet, exported: _Exported) -> _Match:
    """Return review, segment and reviewer of a row, by key or else segment id.

    Raise InputError if it is unknown or ambiguous.
    """
    place = RowPlace(sheet.path.name, row.number)
    control = _control_match(row, sheet, exported)
    if control is not None:
        return control
    named = row["segment_id"].strip()
    if not any(named in places for places in exported.by_id.values()):
        named = unescape_formula(named)
    if row.key:
        _, reviewer, review = row.key
        segment_id = _segment_of_key(row.key, named, exported)
        content = exported.by_id[review][segment_id]
        return _Match(row, exported.records[review], segment_id, content, reviewer, place)
    origin = sheet.origin.get("review")
    reviews = [
        name
        for name, places in exported.by_id.items()
        if named in places and origin in (name, None)
    ]
    if not reviews:
        raise InputError(f"the id '{_short(named)}' is unknown")
    if len(reviews) > 1:
        raise InputError(f"{named} is in reviews {', '.join(reviews)}, and the row has no key")
    reviewer = sheet.origin.get("reviewer", "")
    content = exported.by_id[reviews[0]][named]
    return _Match(row, exported.records[reviews[0]], named, content, reviewer, place)


def _control_match(row: Row, sheet: Sheet, exported: _Exported) -> _Match | None:
    """Return review and reviewer of a control row, by key or else segment id; None for others.

    Raise InputError if columns were sorted separately.
    """
    named = unescape_formula(row["segment_id"].strip())
    if row.key:
        row_hash, reviewer, review = row.key
        control = exported.control.get(review, {}).get(row_hash)
        if control is not None and named not in {"", control.segment_id}:
            raise InputError(
                f"its key belongs to {control.segment_id}, its id is {named}: "
                "columns were sorted separately"
            )
    else:
        review, control = _planted_row(named, sheet, exported)
        reviewer = sheet.origin.get("reviewer", "")
    if control is None:
        return None
    return _Match(
        row=row,
        record=exported.records[review],
        segment_id=control.segment_id,
        content=control.content,
        reviewer=reviewer,
        place=RowPlace(sheet.path.name, row.number),
        is_control=True,
    )


def _planted_row(
    segment_id: str, sheet: Sheet, exported: _Exported
) -> tuple[str, ControlRow | None]:
    """Return the planted fault that names a segment, and its review.

    The fault is None if there is none, or if several rows may be meant.
    """
    origin = sheet.origin.get("review")
    reviews = [name for name in exported.records if origin in (name, None)]
    planted = [
        (review, control)
        for review in reviews
        for control in exported.control[review].values()
        if control.kind != REPEATED and control.segment_id == segment_id
    ]
    is_drawn = any(segment_id in exported.by_id[review] for review in reviews)
    if is_drawn or len(planted) != 1:
        return "", None
    return planted[0]


def _segment_of_key(key: tuple[str, str, str], named: str, exported: _Exported) -> str:
    """Return the segment of the key of a row, in which a segment is `named`.

    Raise InputError if the key is unknown, or of another segment of the review.
    """
    content, _, review = key
    if review not in exported.records:
        raise InputError(f"review '{_short(review)}' was not exported from this workspace")
    segment_id = exported.by_content[review].get(content)
    if segment_id is None:
        raise InputError(
            f"'{_short(named)}' with such texts and times was not in review '{review}'"
        )
    if named != segment_id and named in exported.by_id[review]:
        raise InputError(
            f"its key belongs to {segment_id}, its id is {named}: columns were sorted separately"
        )
    return segment_id


def _read(match: _Match, verdict: str, run: _Import) -> _Judgment | None:
    """Return the judgment of a row; None if the cells are empty.

    Raise InputError if they are unusable.
    """
    content = match.content
    shown = run.exported.shown.get(content, {})
    row = _without_apostrophes(match.row, shown)
    comment = str(row["comment"]) if row["comment"].strip() else ""
    corrected = row["corrected text"] if row["corrected text"].strip() else None
    if not (verdict or comment or corrected):
        run.report.facts["left_empty"] += 1
        return None
    if not verdict:
        raise InputError("a comment or a corrected text, but no verdict")
    if not shown:
        run.report.facts["changed_since"] += 1
    changes = _changes(row, shown, run.exported.transcripts)
    run.report.problems.extend(f"{match}: {change}" for change in changes)
    transcript = run.exported.texts.get(content, "")
    if corrected and shown and _is_transcript(corrected, transcript, shown["transcript"]):
        corrected = None
    if corrected and is_truncated(corrected):
        run.report.problems.append(
            f"{match}: its corrected text is cut off as the transcript is: "
            "only the verdict is imported"
        )
        corrected = None
    if isinstance(corrected, ConvertedText):
        raise InputError(
            f"its corrected text is '{_short(corrected)}', a number, date, time or truth value of "
            "the program and not what was typed: format the cell as text and type it again"
        )
    if corrected and verdict == OK:
        raise InputError(f"'{OK}' says that the transcript is right, but there is a corrected text")
    if corrected:
        corrected = restore_controls(corrected, transcript)
    return _Judgment(verdict, comment, corrected)


def _is_transcript(corrected: str, transcript: str, shown: str) -> bool:
    """Return whether a corrected text is the transcript of the segment, or the text as shown."""
    is_same_cell = normalize_cell(corrected).strip() == normalize_cell(shown).strip()
    return is_same_cell or nfc(corrected).strip() == transcript.strip()


def _without_apostrophes(row: Row, shown: Mapping[str, str]) -> Row:
    """Return a row without the apostrophes of .csv files.

    Some programs keep them, and some remove them.
    """
    plain = {
        name: text for name, text in shown.items() if row[name] == escape_formula(text) != text
    }
    if "transcript" in plain:  # a copied text has the apostrophes of the sheet too
        plain["corrected text"] = unescape_copy(row["corrected text"], shown["transcript"])
    return replace(row, cells={**row.cells, **plain})


def _changes(row: Row, shown: Mapping[str, str], transcripts: frozenset[str]) -> list[str]:
    """Return the changes in read-only columns.

    Raise InputError if the row has become a mixture of two.
    """
    changes = []
    for name, text in shown.items():
        cell = normalize_cell(row[name])
        if name not in row.cells or cell == normalize_cell(text):
            continue
        if name == "transcript" and cell in transcripts:
            raise InputError("it has the transcript of another row: columns were sorted separately")
        if name == "transcript" and row.key is None:
            raise InputError(
                f"its transcript is '{_short(cell)}', not that of the segment, and it has no key"
            )
        hint = ""
        if name == "transcript":
            hint = "; corrections go into 'corrected text'"
        changes.append(f"its {name} was changed to '{_short(cell)}', which is not imported{hint}")
    return changes


def _short(text: str) -> str:
    """Return a text of at most 60 characters for a message."""
    return shorten(text, 60)


def _report(
    state: ReviewState,
    sheets: Sequence[Sheet],
    new: Sequence[Verdict],
    findings: Report,
    *,
    corrected: int,
) -> Report:
    """Return the report on an import, by the state after it.

    Args:
        state: with the new verdicts.
        sheets: that were read.
        new: verdicts of the sheets.
        findings: counts, warnings and problems of the sheets.
        corrected: number of corrected texts.
    """
    stored = state.verdicts
    apart = disagreements(state)
    counts = dict.fromkeys(("rows", "left_empty", "new", "changed", "known_already"), 0)
    adjudicators = {}
    if state.adjudicators:
        adjudicators["adjudicators"] = ", ".join(state.adjudicators)
    facts: dict[str, Any] = {
        "sheets": len(sheets),
        **counts,
        **findings.facts,
        "verdicts_in_all": len(stored),
        "by_reviewer": stored["reviewer"].value_counts(name="verdicts").sort("reviewer").to_dicts(),
        "by_word": _counts_by_word(stored["verdict"]).to_dicts(),
        "corrected_texts": corrected,
        "disagreements": len(apart),
        **adjudicators,
        "agreement": agreement(state).to_dicts(),
    }
    if rates := reviewer_rates(state):
        facts["reviewer_rates"] = rates.facts()
    complete = _complete_reviews(state, sheets, new)
    if complete:
        facts["next"] = [f"{name}: all judged; {next_step(state, name)}" for name in complete]
    warnings = [
        *findings.warnings,
        *(f"{key}: reviewers disagree, {verdicts}" for key, verdicts in apart.iter_rows()),
        *_warnings_on_reviewers(state, new),
    ]
    if findings.facts["changed_since"]:
        warnings.append(
            "segments have changed since they were exported: "
            "their verdicts apply to the earlier texts and times"
        )
    sentences = _sentences(facts)
    if rates:
        sentences["reviewer_rates"] = [rates.sentence()]
    return Report("review import", facts, warnings, findings.problems, sentences=sentences)


def _complete_reviews(
    state: ReviewState, sheets: Sequence[Sheet], new: Sequence[Verdict]
) -> list[str]:
    """Return the reviews of sheets and new verdicts in which nothing is left to judge."""
    names = {verdict.review for verdict in new}.union(*(sheet.reviews for sheet in sheets))
    return [
        name
        for name in sorted(names & state.records.keys())
        if not any(left_to_judge(state, state.records[name]).values())
    ]


def _warnings_on_reviewers(state: ReviewState, new: Sequence[Verdict]) -> Iterator[str]:
    """Yield a warning if new verdicts name no reviewer, and for adjudicators without a verdict."""
    if _UNNAMED in {verdict.reviewer for verdict in new}:
        yield (
            "the sheet's summary names no reviewer: verdicts are stored under 'unnamed'; "
            "use --reviewer NAME"
        )
    reviewers = state.verdicts["reviewer"].unique().sort().to_list()
    for name in state.adjudicators:
        if name not in reviewers:
            yield (
                f"the adjudicator '{_short(name)}' has judged nothing; "
                f"reviewers are {', '.join(reviewers)}"
            )
