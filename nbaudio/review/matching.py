"""What a sheet that came back says of which segments: verdicts, and a word for everything that cannot be taken.

Conventions: a row is known by its key, else by its id; whatever is in doubt is a problem, and its verdict is not taken.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from nbaudio.errors import InputError
from nbaudio.review.cells import CUT, as_read, cell_text
from nbaudio.review.reading import Row, Sheet
from nbaudio.review.record import ReviewRecord, content_hashes, records
from nbaudio.review.sheet import NO_HYPOTHESIS
from nbaudio.review.texts import uncorrected
from nbaudio.review.verdicts import Verdict
from nbaudio.workspace import Workspace

UNNAMED = "unnamed"
_LONGEST_SHOWN = 60


@dataclass
class Findings:
    """What is said of sheets while they are read: counts, what was taken and is worth a look, and what was not taken."""

    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Given:
    """What was given to reviewers.

    Attributes:
        records: the reviews by name.
        by_content: of each review, the place of each row by what it showed.
        by_id: of each review, the place of each row by its segment.
        shown: what the columns that are not to be changed showed, by content, of segments that are still the same.
        transcripts: all of theirs.
    """

    records: Mapping[str, ReviewRecord]
    by_content: Mapping[str, Mapping[str, int]]
    by_id: Mapping[str, Mapping[str, int]]
    shown: Mapping[str, Mapping[str, str]]
    transcripts: frozenset[str]

    @classmethod
    def by(cls, workspace: Workspace) -> "Given":
        """What a workspace has given out."""
        known = records(workspace)
        drawn = pl.Series(sorted({key for one in known.values() for key in one.segment_ids}), dtype=pl.String)
        segments = uncorrected(workspace, workspace.segments).filter(pl.col("segment_id").is_in(drawn.implode()))
        segments = segments.unique("segment_id", keep="first", maintain_order=True)
        shown = [
            {
                "transcript": as_read(cell_text(text or "")),
                "hypothesis": NO_HYPOTHESIS if heard is None else as_read(cell_text(heard)),
                "speaker": as_read(cell_text(speaker or "")),
            }
            for text, heard, speaker in segments.select("text", "asr_text", "speaker_id").iter_rows()
        ]
        return cls(
            known,
            {name: {content: place for place, content in enumerate(one.contents)} for name, one in known.items()},
            {name: {segment_id: place for place, segment_id in enumerate(one.segment_ids)} for name, one in known.items()},
            dict(zip(content_hashes(segments), shown, strict=True)),
            frozenset(row["transcript"] for row in shown),
        )


@dataclass(frozen=True)
class _Match:
    """The segment of a row as it was given out, and to whom."""

    record: ReviewRecord
    place: int
    reviewer: str

    @property
    def segment_id(self) -> str:
        return self.record.segment_ids[self.place]

    @property
    def content(self) -> str:
        return self.record.contents[self.place]


def verdicts_of(sheet: Sheet, given: Given, found: Findings, *, reviewer: str | None = None) -> list[Verdict]:
    """What a sheet says, once for each segment.

    Args:
        sheet: as it came back.
        given: what was given out.
        found: is told what is worth a word.
        reviewer: who filled it in, if the sheet is not to be asked.

    Returns:
        The verdicts that can be taken, in the order of the rows.
    """
    place = sheet.path.name
    matches: dict[int, _Match] = {}
    unknown = []
    for row in sheet.rows:
        try:
            matches[row.number] = _match(row, sheet, given)
        except InputError as error:
            unknown.append(f"{place} row {row.number}: {error}: not taken")
    found.counts["rows"] += len(sheet.rows)
    corpora = {record.corpus for record in given.records.values()}
    if sheet.rows and (not matches or sheet.origin.get("corpus", next(iter(corpora), "")) not in corpora):
        found.problems.append(f"{place}: made from another corpus: none of its {len(sheet.rows):,} rows is taken")
        return []
    found.problems += unknown
    found.warnings += [f"{place}: there is no column '{name}' any more" for name in sheet.missing]
    found.warnings += [f"{place}: the column '{name}' is none of ours: not taken" for name in sheet.unknown]
    said: dict[tuple[str, str], Verdict | None] = {}
    for row in sheet.rows:
        if row.number not in matches:
            continue
        match = matches[row.number]
        where = f"{place} row {row.number}, {match.segment_id}"
        try:
            verdict = _read(row, match, sheet, given, found, where=where, reviewer=reviewer)
        except InputError as error:
            found.problems.append(f"{where}: {error}: not taken")
            continue
        if verdict is None:
            continue
        key = (verdict.reviewer, verdict.segment_id)
        if said.setdefault(key, verdict) != verdict:
            found.problems.append(f"{where}: other rows of the sheet say something else of it: not taken")
            said[key] = None
    _count_removed(sheet, matches.values(), found)
    return [verdict for verdict in said.values() if verdict]


def _match(row: Row, sheet: Sheet, given: Given) -> _Match:
    """The segment that a row is about.

    Raises:
        InputError: it cannot be told.
    """
    named = row["segment_id"].strip()
    if row.key:
        content, reviewer, review = row.key
        if review not in given.records:
            raise InputError(f"review '{_short(review)}' was not exported from this workspace")
        place = given.by_content[review].get(content)
        if place is None:
            raise InputError(f"'{_short(named)}' with such texts and times was not in review '{review}'")
        match = _Match(given.records[review], place, reviewer)
        if named != match.segment_id and named in given.by_id[review]:
            raise InputError(f"its key says {match.segment_id}, its id {named}: columns were sorted without each other")
        return match
    asked = sheet.origin.get("review")
    reviews = [name for name, places in given.by_id.items() if named in places and asked in (name, None)]
    if not reviews:
        raise InputError(f"the id '{_short(named)}' is unknown")
    if len(reviews) > 1:
        raise InputError(f"{named} is in reviews {', '.join(reviews)}, and the row has lost its key")
    return _Match(given.records[reviews[0]], given.by_id[reviews[0]][named], sheet.origin.get("reviewer", ""))


def _read(
    row: Row, match: _Match, sheet: Sheet, given: Given, found: Findings, *, where: str, reviewer: str | None
) -> Verdict | None:
    """What a row says; None where it says nothing.

    Raises:
        InputError: it says what cannot be taken.
    """
    word = " ".join(row["verdict"].casefold().split())
    comment, corrected = (row[name] if row[name].strip() else None for name in ("comment", "corrected text"))
    if not (word or comment or corrected):
        found.counts["left empty"] += 1
        return None
    if not word:
        raise InputError("a comment or a corrected text, but no verdict")
    verdict = next((known for known in match.record.verdicts if known.casefold() == word), None)
    if verdict is None:
        raise InputError(f"verdict '{_short(row['verdict'].strip())}' is none of {', '.join(match.record.verdicts)}")
    was = given.shown.get(match.content)
    if was is None:
        found.counts["changed since"] += 1
    else:
        found.problems += [f"{where}: {change}" for change in _changes(row, match, was, given.transcripts)]
    if corrected and was and as_read(corrected).strip() == was["transcript"].strip():
        corrected = None
    if corrected and CUT.search(corrected):
        found.problems.append(f"{where}: its corrected text is cut off as the transcript is: only the verdict is taken")
        corrected = None
    return Verdict(
        segment_id=match.segment_id,
        content=match.content,
        verdict=verdict,
        comment=comment or "",
        corrected_text=corrected,
        reviewer=reviewer or _reviewer(sheet, match),
        time=sheet.saved.isoformat().replace("+00:00", "Z"),
        review=match.record.name,
    )


def _changes(row: Row, match: _Match, was: Mapping[str, str], transcripts: frozenset[str]) -> list[str]:
    """What was changed in the columns that are to stay as they are.

    Raises:
        InputError: the row has become a mixture of two.
    """
    changes = []
    for name, text in ({**was, "segment_id": as_read(cell_text(match.segment_id))}).items():
        there = as_read(row[name])
        if name not in row.cells or there == text:
            continue
        if name == "transcript" and there in transcripts:
            raise InputError("it has the transcript of another row: columns were sorted without each other")
        hint = "; corrections belong into 'corrected text'" if name == "transcript" else ""
        changes.append(f"its {name} was changed to '{_short(there)}', which is not taken{hint}")
    return changes


def _reviewer(sheet: Sheet, match: _Match) -> str:
    """Whose verdict a row is: the summary says so, unless rows of several reviewers were put together."""
    several = len({row.key[1] for row in sheet.rows if row.key}) > 1
    return (match.reviewer if several else sheet.reviewer or match.reviewer) or UNNAMED


def _count_removed(sheet: Sheet, matches: Iterable[_Match], found: Findings) -> None:
    """Rows that were given out and did not come back."""
    matches = list(matches)
    shares = {(match.record.name, match.reviewer): match.record for match in matches}
    for (name, reviewer), record in shares.items():
        back = {match.segment_id for match in matches if (match.record.name, match.reviewer) == (name, reviewer)}
        lost = set(record.shares().get(reviewer, record.segment_ids)) - back
        if lost:
            found.counts["rows removed"] += len(lost)
            found.warnings.append(f"{sheet.path.name}: {len(lost):,} of its rows are gone, such as {min(lost)}")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
