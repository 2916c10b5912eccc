"""Review state: the logs and records in ``W/reviews/``, read once per step.

The logs are append-only, and a segment's last line holds.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import msgspec
import polars as pl

from nbaudio.core import input_guards
from nbaudio.core.atomic import append_lines, read_lines
from nbaudio.core.errors import ExistsError, InputError, one_line
from nbaudio.core.hashing import hash_column, json_hash
from nbaudio.tables.parquet_files import ROWS_A_GROUP
from nbaudio.tables.schemas import CORRECTED_TEXTS
from nbaudio.tables.workspace import Workspace
from nbaudio.text.near_duplicates import sentences

VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        "ok": "the clip holds the words of the transcript, all of them and nothing else",
        "wrong words": "other words are spoken than the transcript says, or it lacks some",
        "cut off": (
            "wrong boundary: at the start or the end, a word of the transcript is cut or missing"
        ),
        "extra speech": (
            "wrong boundary: before or after, there is speech that the transcript does not have"
        ),
        "other speaker": "more than one person speaks, or not the one named",
        "noise": "too noisy, distorted or silent to be of use",
        "unsure": "cannot be told",
    }
)
OK, UNSURE = "ok", "unsure"  # all others name a fault
VERDICT_LOG, CORRECTION_LOG, NOTE_LOG = (
    f"reviews/{name}.jsonl" for name in ("verdicts", "corrections", "notes")
)
CONTROL_LOG = "reviews/control_verdicts.jsonl"  # the verdicts on control rows
ADJUDICATORS = "reviews/adjudicators.txt"  # who has the last word, a name in each line
TAKEN_BACK = "taken_back"  # the folder in W/reviews of reviews that were taken back
EXPORTS = "exports.json"  # the sheets and pages of each review, which hold clips
#: The column of a frame that says of withdrawn segments whether they were wrong or unsure.
WAS_FAULTY = "was_faulty"
SEPARATOR = ", "  # of the words of a verdict in the log, as in ``cut off, noise``

_JUDGED_ONCE = ["reviewer", "segment_id", "content"]  # a log may have several lines about each
_TIMING = ("segment_id", "recording_id", "source_start", "source_end")
#: What `frame_contents` depends on.
CONTENT_COLUMNS = (*_TIMING[1:], "text")
_DRAWN = {"segment_id": pl.String, "content": pl.String, "shown": pl.String}
_SAMPLES = ("start_sample", "end_sample", "was_start", "was_end")


@dataclass(frozen=True)
class Verdict:
    """The verdict of one reviewer on one segment."""

    segment_id: str  # the segment
    content: str  # the hash of what was judged (`content_hashes`)
    # A word of the review's list, or several faults in its order, `cut off, noise`; None withdraws
    # the last.
    verdict: str | None
    comment: str  # a remark; empty for none
    corrected_text: str | None  # the right words; None if the transcript was not corrected
    reviewer: str  # the reviewer's name
    time: str  # ISO 8601 in UTC, such as 2026-11-21T03:00:00Z
    review: str  # the name of the sheet, or `panel`
    # Whether hypothesis and similarity were hidden; None in older logs, where this is not known.
    blind: bool | None = None


@dataclass(frozen=True)
class Correction:
    """Segment boundaries as a reviewer corrected them.

    They are in samples at the recording's own rate, half open.
    """

    segment_id: str  # the segment
    start_sample: int | None  # first sample; None withdraws the correction
    end_sample: int | None  # one past the last sample; None withdraws the correction
    was_start: int  # first sample before
    was_end: int  # one past the last sample before
    reviewer: str  # the reviewer's name
    time: str  # ISO 8601 in UTC


@dataclass(frozen=True)
class Note:
    """A remark on a segment; it does not count as a verdict."""

    segment_id: str
    note: str
    reviewer: str
    time: str  # ISO 8601 in UTC


@dataclass(frozen=True)
class Resumed:
    """Rows that an earlier draw has left over, with which a later round begins."""

    # The name of the round that drew them, or ``taken_back/NAME`` if it was taken back.
    draw: str
    rows: list[int]  # places in the order in which it was drawn, from 0, ascending


@dataclass(frozen=True)
class ControlRow:
    """A row that measures reviewers: a planted fault, or a row that is repeated.

    It looks like other rows. Its verdicts count for the error rates of reviewers alone. Texts are
    not stored, since a segment may be withdrawn.
    """

    kind: str  # a key of `control_rows.FAULTS`, or `REPEATED`
    reviewer: str  # whose sheet has it; empty for one sheet without a name
    position: int  # its place among all rows of that sheet, from 0
    segment_id: str  # the segment that the row names
    text_of: str  # the segment whose text it shows
    audio_of: str  # the segment whose recording its clip is from
    # First sample of the clip, and one past its last; None without audio, and for repeated rows,
    # whose clip is that of the segment.
    start_sample: int | None
    end_sample: int | None
    content: str  # the hash of what is judged, which no other row has

    @property
    def segment_ids(self) -> set[str]:
        """All segments that it shows something of."""
        return {self.segment_id, self.text_of, self.audio_of}


def _shown(parameter: object) -> str:
    if isinstance(parameter, list):
        return ", ".join(map(str, parameter)) or "none"
    return str(parameter)


@dataclass(frozen=True)
class ReviewRecord:
    """One review: a sheet, or a sheet for each of several reviewers."""

    name: str  # the sheet's name without its ending; unique in a workspace
    strategy: str  # the sampling strategy
    n: int  # how many segments were requested
    seed: int  # the seed of the draw
    corpus: str  # the `fingerprint` of the segments table
    segment_ids: list[str]  # what was drawn, in the order of the sheet
    probabilities: list[float]  # the probability of each of being drawn first
    contents: list[str]  # the content hash of each (`content_hashes`)
    verdicts: list[str] = field(default_factory=lambda: list(VERDICTS))  # the words to choose from
    # The reviewers who get a sheet each; empty for one sheet without a name.
    reviewers: list[str] = field(default_factory=list)
    overlap: int = 0  # how many segments all reviewers are given
    strata: list[str] = field(default_factory=list)  # the stratum of each segment
    threshold: float = 0.8  # the similarity at which the decision was expected
    # Earlier reviews, whose segments were not drawn again.
    after: list[str] = field(default_factory=list)
    words: list[str] = field(kw_only=True)  # the word hash of each (`word_hashes`)
    blind: bool = False  # whether hypothesis and similarity are hidden from reviewers
    # What it begins with: rows that earlier draws have left over, in order.
    resumes: list[Resumed] = field(default_factory=list)
    # What it drew itself, in order, with segments that it has as rows of those draws; None if it
    # begins with no other rows: then these are `segment_ids`.
    new_ids: list[str] | None = None
    # How many lines the log of corrected boundaries had when it was exported first.
    corrections: int = 0
    # How many lines the log of verdicts had then; None in records of earlier versions.
    verdict_lines: int | None = None
    by: str = ""  # the column whose values are groups with bounds of their own; empty for none
    planted: int = 0  # how many planted faults were requested
    control_rows: list[ControlRow] = field(default_factory=list)  # by reviewer and position

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a record; raise InputError if it cannot be read."""
        try:
            return msgspec.json.decode(
                input_guards.read_all(path, most=input_guards.MOST_JSON_BYTES), type=cls
            )
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(f"{path}: cannot be read ({one_line(error)})") from error

    @property
    def drawn_ids(self) -> list[str]:
        """The segments of its own draw, in order; not those with which it begins for others."""
        return self.segment_ids if self.new_ids is None else self.new_ids

    @property
    def segments_changed(self) -> str:
        """The message of the error if segments have changed since the review was exported."""
        return (
            f"review {self.name} was exported from segments that have changed since: "
            "give another name"
        )

    @property
    def rows(self) -> pl.DataFrame:
        """The rows as drawn: `segment_id`, and the hashes `content` and, of the words, `shown`."""
        return pl.DataFrame(
            {"segment_id": self.segment_ids, "content": self.contents, "shown": self.words},
            schema=_DRAWN,
        )

    def check_parameters(self, parameters: Mapping[str, object]) -> None:
        """Raise ExistsError unless a second export has the same values of these attributes."""
        changed = [name for name, value in parameters.items() if getattr(self, name) != value]
        if changed:
            names = dict.fromkeys(("strategy", "n", "seed", *changed))
            had = ", ".join(f"{name} {_shown(getattr(self, name))}" for name in names)
            raise ExistsError(
                f"review {self.name} was exported with {had}; "
                f"another {' and '.join(changed)} needs another name"
            )

    def row_hashes(self) -> list[str]:
        """Return what identifies each segment outside of the workspace.

        It is the content hash, which is hashed again in a blind review.
        """
        return self._row_hashes(self.contents)

    def control_hashes(self) -> list[str]:
        """Return what identifies each control row, as `row_hashes` does."""
        return self._row_hashes([row.content for row in self.control_rows])

    def _row_hashes(self, contents: list[str]) -> list[str]:
        """Return contents, which are hashed again in a blind review.

        A content hash alone would show whether the hypothesis equals the transcript.
        """
        if not self.blind:
            return contents
        salt = json_hash(self.contents)
        return [json_hash([salt, content]) for content in contents]

    def shares(self) -> dict[str, list[str]]:
        """Return the segments of each reviewer in the order of the draw.

        They are under an empty name if there are no reviewers.
        """
        if not self.reviewers:
            return {"": self.segment_ids}
        ids = pl.Series("segment_id", self.segment_ids, dtype=pl.String)
        order = hash_column(ids, f"overlap {self.seed}").arg_sort()
        # A random part of any draw; the others go to the reviewers in turn.
        shared = set(ids.gather(order.head(self.overlap)))
        owner = dict(
            zip(
                (key for key in self.segment_ids if key not in shared),
                cycle(self.reviewers),
                strict=False,
            )
        )
        return {
            reviewer: [key for key in self.segment_ids if owner.get(key, reviewer) == reviewer]
            for reviewer in self.reviewers
        }


@dataclass(frozen=True)
class ReviewState:
    """The review files of a workspace, each read at most once, when it is first needed.

    Load anew to see later changes.
    """

    workspace: Workspace

    @classmethod
    def load(cls, source: "Workspace | str | Path | ReviewState") -> Self:
        """Return the state of a workspace (a state as it is).

        Raise InputError if there is no workspace.
        """
        if isinstance(source, cls):
            return source
        if isinstance(source, ReviewState):
            return cls(source.workspace)
        return cls(Workspace.open(source))

    @cached_property
    def verdict_log(self) -> pl.DataFrame:
        """All verdicts ever given, in order."""
        return _read_log(self.workspace, VERDICT_LOG, Verdict, "a verdict")

    @cached_property
    def control_verdict_log(self) -> pl.DataFrame:
        """All verdicts ever given on control rows, in order."""
        return _read_log(self.workspace, CONTROL_LOG, Verdict, "a verdict")

    @cached_property
    def control_verdicts(self) -> pl.DataFrame:
        """The last verdict of each reviewer on each control row; withdrawn ones are left out."""
        return _last(self.control_verdict_log)

    @cached_property
    def growth(self) -> pl.DataFrame:
        """`Workspace.growth`, read once."""
        return self.workspace.growth

    @cached_property
    def fingerprint(self) -> str:
        """`Workspace.fingerprint`, which reads all ids, computed once."""
        return self.workspace.fingerprint()

    @cached_property
    def generations(self) -> Mapping[str, int]:
        """The generation of each fingerprint that reviews were drawn from.

        That of other segments is not among them.
        """
        return {
            fingerprint: int(fingerprint.partition(" ")[2] or 1)
            for fingerprint in self.workspace.known_states(self.fingerprint)
        }

    def later(self, corpus: str) -> pl.Series:
        """Return the segments that were added or changed after a review was drawn.

        `corpus` is the fingerprint of the segments that it was drawn from.
        """
        generation = self.generations.get(corpus, self.workspace.generation)
        return self.growth.filter(pl.col("added_in") > generation)["segment_id"]

    def since_changed(self, log: pl.DataFrame, name: str) -> pl.DataFrame:
        """Return a log without the lines about segments before `ingest --add` changed them."""
        before = self.growth.select("segment_id", before=name)
        numbered = log.with_row_index("line").join(
            before, on="segment_id", how="left", maintain_order="left"
        )
        return numbered.filter(pl.col("line") >= pl.col("before").fill_null(0)).drop(
            "line", "before"
        )

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """The last verdict of each reviewer on each segment and content.

        Withdrawn ones are left out. So are those on what a segment was before `ingest --add`
        changed it, also if their sheet returned afterwards.
        """
        return self._of_present_segments(_last(self.since_changed(self.verdict_log, "verdicts")))

    @cached_property
    def first_verdicts(self) -> pl.DataFrame:
        """The first verdict of each reviewer on each segment and content, as `verdicts`."""
        judged = self.since_changed(self.verdict_log, "verdicts").drop_nulls("verdict")
        return self._of_present_segments(
            judged.unique(_JUDGED_ONCE, keep="first", maintain_order=True)
        )

    def _of_present_segments(self, verdicts: pl.DataFrame) -> pl.DataFrame:
        """Return the verdicts on what segments are since `ingest --add` changed some of them."""
        if self.growth.is_empty():
            return verdicts
        drawn = {
            name: self.generations.get(record.corpus, 1) for name, record in self.records.items()
        }
        both = verdicts.join(
            self.growth.select("segment_id", "added_in"),
            on="segment_id",
            how="left",
            maintain_order="left",
        )
        shown = pl.col("review").replace_strict(
            drawn, default=pl.col("added_in"), return_dtype=pl.Int32
        )
        return both.filter((shown >= pl.col("added_in")).fill_null(value=True)).drop("added_in")

    @cached_property
    def verdicts_ever(self) -> pl.DataFrame:
        """The last verdicts, also on what segments were before `ingest --add` changed them.

        They show how far reviewers are.
        """
        return _last(self.verdict_log)

    @cached_property
    def records(self) -> Mapping[str, ReviewRecord]:
        """All reviews by name, without those that were taken back."""
        return _read_records(self.workspace.path / "reviews")

    @cached_property
    def taken_back(self) -> Mapping[str, ReviewRecord]:
        """All reviews that were taken back, by what names their tables: ``taken_back/NAME``."""
        records = _read_records(self.workspace.path / "reviews" / TAKEN_BACK)
        return {f"{TAKEN_BACK}/{name}": record for name, record in records.items()}

    @cached_property
    def drawn(self) -> pl.DataFrame:
        """The rows of all reviews as drawn, also of those that were taken back."""
        records = (*self.records.values(), *self.taken_back.values())
        return pl.concat([pl.DataFrame(schema=_DRAWN), *(record.rows for record in records)])

    def records_exported_as(self, review: str) -> list[ReviewRecord]:
        """Return all reviews that were exported under a name, also those taken back."""
        records = (*self.records.values(), *self.taken_back.values())
        return [record for record in records if record.name == review]

    @cached_property
    def correction_log(self) -> pl.DataFrame:
        """All corrections of boundaries ever made, in order."""
        return _read_log(self.workspace, CORRECTION_LOG, Correction, "a correction")

    @cached_property
    def adjudicators(self) -> Sequence[str]:
        """The reviewers with the last word."""
        return read_lines(self.workspace.path / ADJUDICATORS, bytes.decode, "a name")

    def add_adjudicator(self, name: str) -> None:
        """Give a reviewer the last word; load the state anew to see it."""
        append_lines(self.workspace.path / ADJUDICATORS, [name.encode()])

    @cached_property
    def original_texts(self) -> pl.DataFrame:
        """Texts and scores of corrected segments from before."""
        return self.workspace.table(CORRECTED_TEXTS, pl.Schema({"segment_id": pl.String}))


def _read_records(folder: Path) -> dict[str, ReviewRecord]:
    """Return the records in a folder by the names of their files, in order."""
    paths = {path.stem: path for path in folder.glob("*.json")}
    return {name: ReviewRecord.read(paths[name]) for name in sorted(paths)}


def _last(log: pl.DataFrame) -> pl.DataFrame:
    """Return the last line of each reviewer, segment and content, without those withdrawn."""
    last = log.unique(_JUDGED_ONCE, keep="last", maintain_order=True)
    return last.filter(pl.col("verdict").is_not_null())


def _read_log(workspace: Workspace, log: str, kind: type, what: str) -> pl.DataFrame:
    """Return all lines of a log, each of a kind, as rows.

    Raise InputError for a line that is not `what`.
    """
    lines: list[Any] = read_lines(workspace.path / log, msgspec.json.Decoder(kind).decode, what)
    types = {**dict.fromkeys(_SAMPLES, pl.Int64), "blind": pl.Boolean}
    schema = {name: types.get(name, pl.String) for name in kind.__annotations__}
    return pl.DataFrame(
        {name: [getattr(line, name) for line in lines] for name in schema}, schema=schema
    )


def faults(words: Sequence[str]) -> list[str]:
    """Return the verdicts of a list that name a fault."""
    return [word for word in words if word not in {OK, UNSURE}]


def read_verdict(text: str, words: Sequence[str]) -> str | None:
    """Return a verdict, words between commas, semicolons or slashes, as it is logged.

    Return None if the list lacks one of the words.
    """
    allowed = {word.casefold() for word in words}
    spelled = {part.casefold() for part in verdict_parts(text, allowed)}
    if not spelled or not spelled <= allowed:
        return None
    listed = [word for word in words if word.casefold() in spelled]
    if len(listed) > 1 and (alone := [word for word in listed if word in {OK, UNSURE}]):
        raise InputError(
            f"verdict '{SEPARATOR.join(listed)}': '{alone[0]}' cannot stand beside another verdict"
        )
    return SEPARATOR.join(listed)


def verdict_parts(text: str, words: Iterable[str]) -> list[str]:
    """Return the words between commas, semicolons or slashes, as they are spelled.

    Slashes separate where one of `words` is between them, which may have slashes itself.
    """
    whole_words = {word.casefold() for word in words}
    parts = []
    for part in (" ".join(part.split()) for part in re.split("[,;]", text)):
        pieces = [piece.strip() for piece in part.split("/")]
        if part.casefold() not in whole_words and any(
            piece.casefold() in whole_words for piece in pieces
        ):
            parts += pieces
        else:
            parts.append(part)
    return [word for word in parts if word]


def append_verdicts(
    workspace: Workspace | str | Path, rows: Iterable[Verdict], *, log: str = VERDICT_LOG
) -> None:
    """Append verdicts to the log, in order; those on control rows have a log of their own.

    They are on disk when this returns, and several programs may append at once.
    """
    lines = (
        {name: value for name, value in asdict(row).items() if (name, value) != ("blind", None)}
        for row in rows
    )
    append_lines(Workspace.open(workspace).path / log, map(msgspec.json.Encoder().encode, lines))


def verdict_log(workspace: Workspace | str | Path | ReviewState) -> pl.DataFrame:
    """Return all verdicts ever given, in order: the attributes of `Verdict` as columns."""
    return ReviewState.load(workspace).verdict_log


def verdicts(workspace: Workspace | str | Path | ReviewState) -> pl.DataFrame:
    """Return the verdicts that hold, in the order of `verdict_log`.

    These are the last of each reviewer on each segment as it was shown.

    Raises:
        InputError: a line of the log is not a verdict.
    """
    return ReviewState.load(workspace).verdicts


def reviewed_by_review(workspace: Workspace | ReviewState) -> dict[str, set[str]]:
    """Return the segments that reviewers were given or judged, by review.

    They stay out of training.
    """
    state = ReviewState.load(workspace)
    seen = state.workspace.reviewed()
    for review, segment_id in state.verdicts.select("review", "segment_id").iter_rows():
        seen.setdefault(review, set()).add(segment_id)
    return seen


def reviewed_ids(workspace: Workspace | ReviewState) -> set[str]:
    """Return the segments of `reviewed_by_review`, of all reviews together."""
    return set().union(*reviewed_by_review(workspace).values())


def append_corrections(workspace: Workspace | str | Path, rows: Iterable[Correction]) -> None:
    """Append corrections to the log, in order; they are on disk when this returns."""
    append_lines(
        Workspace.open(workspace).path / CORRECTION_LOG, map(msgspec.json.Encoder().encode, rows)
    )


def corrections(workspace: Workspace | str | Path | ReviewState) -> pl.DataFrame:
    """Return the last correction of each segment, in the order made, without withdrawn ones."""
    state = ReviewState.load(workspace)
    log = state.since_changed(state.correction_log, "corrections")
    last = log.unique("segment_id", keep="last", maintain_order=True)
    return last.filter(pl.col("start_sample").is_not_null() & pl.col("end_sample").is_not_null())


def append_note(
    workspace: Workspace, segment_ids: Iterable[str], note: str, reviewer: str, time: str
) -> None:
    """Append a note on each segment to the log; they are on disk when this returns."""
    rows = (Note(segment_id, note, reviewer, time) for segment_id in segment_ids)
    append_lines(workspace.path / NOTE_LOG, map(msgspec.json.Encoder().encode, rows))


def notes(workspace: Workspace | str | Path) -> pl.DataFrame:
    """Return the last note on each segment, in the order made: the attributes of `Note`.

    An empty note removes the last one.
    """
    log = _read_log(Workspace.open(workspace), NOTE_LOG, Note, "a note")
    return log.unique("segment_id", keep="last", maintain_order=True).filter(pl.col("note") != "")


def frame_table(review: str) -> str:
    """Name the table of what a review could draw, if stored.

    It has `segment_id` (or tombstone), `stratum`, `weight`, `content`, and `group` if its groups
    have bounds of their own.
    """
    return f"reviews/{review}.frame"


def frame_contents(segments: pl.DataFrame) -> pl.Series:
    """Return a hash of recording, times and words of each segment.

    It stays the same if texts are normalized.
    """
    content = pl.concat_str(
        *_TIMING[1:], sentences(pl.col("text")), separator="\t", ignore_nulls=True
    )
    parts = (part.select(content).to_series() for part in segments.iter_slices(ROWS_A_GROUP))
    return pl.concat(
        [pl.Series("hash", dtype=pl.UInt64), *(hash_column(part, "content") for part in parts)]
    )


def content_hashes(segments: pl.DataFrame) -> list[str]:
    """Return a hash of what a reviewer judges in each segment.

    This is recording, times, corrected bounds and both texts; the hash has 16 hex digits.
    """
    rows: Iterable[tuple[object, ...]] = segments.select(*_TIMING, "text", "asr_text").iter_rows()
    if "corrected_by" in segments.columns:
        bounds = segments.select("start_sample", "end_sample", "corrected_by").iter_rows()
        rows = (
            (*row, start, end) if by else row
            for row, (start, end, by) in zip(rows, bounds, strict=True)
        )
    return [json_hash(row) for row in rows]


def word_hashes(segments: pl.DataFrame) -> list[str]:
    """Return a hash of recording, times and words of each segment.

    It stays the same if texts are normalized.
    """
    return [
        json_hash(row) for row in segments.select(*_TIMING, sentences(pl.col("text"))).iter_rows()
    ]
