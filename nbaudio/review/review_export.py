"""The command `review export`.

It draws a sample, cuts its clips, writes the sheets, and records what was drawn; or it takes a
round back.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core.atomic import write_bytes, write_json
from nbaudio.core.errors import ExistsError, InputError, get_by_name
from nbaudio.core.report import Report, count, duration
from nbaudio.review.control_rows import (
    control_frame,
    plan_control_rows,
    segments_of_control_rows,
)
from nbaudio.review.dataset_clips import audio_of_clips
from nbaudio.review.draws import PICKED, Part, all_draws, parts, record_of_draw
from nbaudio.review.export_files import (
    MadeFiles,
    Outputs,
    ReviewRows,
    exported_files,
    is_filled_in,
    make_files,
    plan_outputs,
)
from nbaudio.review.fixed_rules import fix_rule, has_selected_duration
from nbaudio.review.next_rows import next_rows
from nbaudio.review.population import Population
from nbaudio.review.risk import refresh
from nbaudio.review.rounds import DISAGREEMENTS, JUDGED, rounds, undecided_ids
from nbaudio.review.sampling import WORST, Strata, check_group_column
from nbaudio.review.sheet_clips import ENCODINGS
from nbaudio.review.state import (
    EXPORTS,
    OK,
    UNSURE,
    VERDICTS,
    Resumed,
    ReviewRecord,
    ReviewState,
    content_hashes,
    frame_table,
    reviewed_by_review,
    reviewed_ids,
    word_hashes,
)
from nbaudio.review.take_back import take_back
from nbaudio.sources.audio_folder import check_audio_folders
from nbaudio.tables import workspace_tables
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.dataframes import Ids, as_ids
from nbaudio.tables.workspace import REPEATED, Workspace, locks_workspace

_MOST_BY_DEFAULT = 1000
_A_TENTH = 10
_WORST = "worst"
_WORD = re.compile(r"\w([\w '/-]{0,38}[\w'/-])?")


@dataclass(frozen=True)
class _Request:
    """The parameters of an export, as `export` has them."""

    out: str | Path | None = None
    n: int | None = None
    strategy: str = "random"
    threshold: float = 0.8
    seed: int = 42
    reviewers: tuple[str, ...] | Mapping[str, str] = ()
    overlap: int = 0
    verdicts: tuple[str, ...] = tuple(VERDICTS)
    clips: str | None = None
    zip: bool = False
    blind: bool | None = None
    by: str = ""
    planted: int = 0
    adjudicator: str | None = None
    segment_ids: Ids | None = None

    def non_defaults(self) -> list[str]:
        """Return the names of the parameters that are not the defaults."""
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return [
            name
            for name, value, default in values
            if value is not default and (default is None or value != default)
        ]


@dataclass(frozen=True)
class _NewReview:
    """A review that is to be recorded."""

    record: ReviewRecord
    strata: Strata | None  # what its own draw took segments from; None if it has none


@locks_workspace("review export", "reviews")
def export(
    workspace: Workspace | str | Path,
    *,
    out: str | Path | None = None,
    n: int | None = None,
    strategy: str = "random",
    threshold: float = 0.8,
    seed: int = 42,
    reviewers: Sequence[str] | Mapping[str, str] = (),
    overlap: int = 0,
    verdicts: Sequence[str] = tuple(VERDICTS),
    clips: str | None = None,
    zip: bool = False,
    blind: bool | None = None,
    by: str = "",
    planted: int = 0,
    adjudicator: str | None = None,
    segment_ids: Ids | None = None,
    undo: str | None = None,
) -> Report:
    """Draw segments for review into a spreadsheet with clips, or into a page for a browser.

    The clips of a spreadsheet are in a folder beside it. Segments are drawn from all that keep the
    rules of the tables, whatever their similarity. What was drawn is recorded under the sheet's
    name and stays out of training. The same call again gives the same bytes; a filled-in sheet is
    not overwritten. With `undo` nothing is drawn, and a round is taken back.

    Args:
        workspace: the workspace or its folder.
        out: the file to write, a sheet (.xlsx, .csv, .tsv) or a page (.html); with reviewers,
            ``sheet.xlsx`` stands for ``sheet-ana.xlsx`` and so on. A page holds up to 50 MB of
            clips; more are in the folder beside it. If reviewers have formats, it is the folder of
            all files, and the review gets its name.
        n: how many segments in all; all if there are fewer. None: a tenth of those that can still
            be drawn, at most 1000.
        strategy: a key of `STRATEGIES`; a column, for ten strata by its quantiles; or
            ``disagreements``: what is undecided.
        threshold: the similarity at which the decision is expected, from -1 to 1, for strategies
            that use it.
        seed: another seed gives another sample.
        reviewers: names without blanks; each gets a sheet. None given: one sheet without a name.
            With a format for each (``["ana=xlsx", "ben=html"]`` or ``{"ana": "xlsx", "ben":
            "html"}``), `out` is a folder.
        overlap: how many segments all reviewers are given, to compute their agreement; the others
            are divided among them.
        verdicts: the words to choose from; ``ok`` must be one of them.
        clips: ``wav`` or ``mp3``, which is a fifth of the size; by default ``wav`` for sheets,
            ``mp3`` for pages.
        zip: also write each sheet with its clips into one .zip to send.
        blind: hide hypothesis and similarity from reviewers, also in `ReviewPanel`; recorded with
            every verdict. By default true, or what an earlier export of this review was.
        by: a column, such as ``speaker_id``, whose groups get bounds of their own from this round
            on (docs/evidence.md). The strategy ``worst`` draws most from the groups that may be
            worst.
        planted: how many clips with a label that is wrong for certain are mixed in, to measure how
            many faults reviewers miss: the text of a neighbor, the clip of another speaker, a clip
            whose last words are cut off. Half as many clips are repeated later. Nothing shows which
            they are. `planted` needs a blind review.
        adjudicator: the reviewer who decides what the others left undecided, and has the last word
            from now on. The file has these segments, and is for this reviewer alone: `strategy` is
            ``disagreements``, and `reviewers` are not given.
        segment_ids: review these segments, in this order, in place of a sample; `n`, `strategy`,
            `threshold` and `seed` are not used. They were picked, not drawn at random, hence their
            verdicts never count as a sample in `evidence`.
        undo: the name of a round of which nothing was judged, to take it back; without any other
            parameter. Its segments may be trained on again, its files must not be judged, and the
            next round begins with its rows in their order.

    Returns:
        A report with what was drawn and the files; clips that could not be cut are its problems.
        With `undo`, one with what is taken back.

    Raises:
        InputError: a parameter is not usable, there is nothing to review, or the round to take
            back was judged.
        ExistsError: the review's name, its sheet or a clip exists with other content.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> workspace = Workspace.create(folder / "w")
        >>> times = {"recording_id": "r", "source_start": ["0", "4"], "source_end": ["4", "9"]}
        >>> segments = pl.DataFrame({"segment_id": ["a", "b"], **times, "text": ["evo", "da"]})
        >>> workspace.save(segments=segments, recordings=pl.DataFrame({"recording_id": ["r"]}))
        >>> export(workspace, out=folder / "sheet.xlsx", n=1).facts["drawn"]
        1
        >>> len(workspace.reviewed_ids())
        1
    """
    if not isinstance(reviewers, Mapping) or not reviewers:
        reviewers = tuple(reviewers)
    request = _Request(
        out=out,
        n=n,
        strategy=strategy,
        threshold=threshold,
        seed=seed,
        reviewers=reviewers,
        overlap=overlap,
        verdicts=tuple(verdicts),
        clips=clips,
        zip=zip,
        blind=blind,
        by=by,
        planted=planted,
        adjudicator=adjudicator,
        segment_ids=segment_ids,
    )
    if undo is None:
        return _export(ReviewState.load(workspace), _with_adjudicator(request))
    if others := request.non_defaults():
        raise InputError(f"undo={undo}: nothing is drawn; leave out {', '.join(others)}")
    return take_back(workspace, undo)


def _with_adjudicator(request: _Request) -> _Request:
    """Return the parameters of an export for an adjudicator: undecided segments, one reviewer.

    Raise InputError for parameters that do not go with it.
    """
    name = request.adjudicator
    if name is None:
        return request
    if request.strategy not in {_Request.strategy, DISAGREEMENTS} or request.reviewers:
        raise InputError(
            f"adjudicator={name}: decides on disagreements alone; leave out strategy and reviewers"
        )
    return replace(request, strategy=DISAGREEMENTS, reviewers=(name,))


def _export(state: ReviewState, request: _Request) -> Report:
    """Draw segments into sheets or pages; see `export`."""
    workspace = state.workspace
    outputs = _check(request)
    population = _population(state, request)
    record = state.records.get(outputs.review)
    picked = _picked(population, record, request)
    parameters = _parameters(population, record, request, outputs, picked)
    strata = None
    if record is None:
        new = _new_review(parameters, population, picked)
        record = new.record
        strata = new.strata
    record.check_parameters(parameters)
    if picked is not None and set(record.segment_ids) - set(picked):
        raise ExistsError(
            f"review {record.name} was exported with other segments; these need another name"
        )
    rows = _review_rows(record, population)
    made = make_files(rows, record, workspace, outputs, zip=request.zip)
    filled_in = _filled_in(made, record, state)
    if strata is not None:
        _store_frame(population, record, strata)
    _store(workspace, record, made, filled_in)
    if request.adjudicator is not None and request.adjudicator not in state.adjudicators:
        state.add_adjudicator(request.adjudicator)
    left = _left_seconds(population)
    warnings = [
        *_lines_on_files(made, filled_in),
        *_warnings(population, record, rows.drawn, outputs),
        *_many_given(population, left),
    ]
    facts = _facts(population, record, rows.drawn, made, left)
    report = Report("review export", facts, warnings, _problems(made))
    workspace.save_report("review", report.to_dict())
    return report


def _check(request: _Request) -> Outputs:
    """Return the files to write; raise InputError for unusable parameters.

    These include verdicts that a spreadsheet would not read as text, or would not count.
    """
    if request.out is None:
        raise InputError(
            "out is missing: name a sheet or page to write (--out round.xlsx), "
            "or a round to take back (--undo ROUND)"
        )
    outputs = plan_outputs(Path(request.out).absolute(), request.reviewers, request.clips)
    if not -1 <= request.threshold <= 1:
        raise InputError(f"threshold must be from -1 to 1, not {request.threshold}")
    _check_verdicts(request.verdicts)
    _check_planted(request)
    if request.clips is not None:
        get_by_name(dict.fromkeys(ENCODINGS), request.clips, "clips")
    return outputs


def _check_verdicts(verdicts: Sequence[str]) -> None:
    """Raise InputError for words that cannot be verdicts, and if ``ok`` is missing."""
    if odd := [word for word in verdicts if not _WORD.fullmatch(word)]:
        raise InputError(
            f"verdict {odd[0]!r}: letters, digits, blanks and - / ' are allowed, at most 40, "
            "the first a letter or digit"
        )
    if len({word.casefold() for word in verdicts}) < len(verdicts):
        raise InputError(f"verdicts {', '.join(verdicts)}: one is given twice")
    if odd := [word for word in verdicts if word.casefold() in {OK, UNSURE} and not word.islower()]:
        raise InputError(
            f"verdict {odd[0]!r}: write {odd[0].lower()!r}, which has a special meaning"
        )
    if OK not in verdicts:
        named = ", ".join(verdicts) or "none"
        raise InputError(
            f"verdicts {named}: 'ok' must be among them, it means that a transcript is right"
        )


def _check_planted(request: _Request) -> None:
    """Raise InputError if faults cannot be planted as requested."""
    if request.planted < 0:
        raise InputError(f"planted must be 0 or more, not {request.planted}")
    if request.planted and request.blind is False:
        raise InputError(
            f"planted={request.planted}: hypothesis and similarity would show which clips are "
            "planted; leave out --no-blind"
        )
    if request.planted and (request.segment_ids is not None or request.strategy == DISAGREEMENTS):
        raise InputError(
            f"planted={request.planted}: faults are mixed into a random sample, not into segments "
            "that were picked"
        )


def _population(state: ReviewState, request: _Request) -> Population:
    """Return the segments; raise InputError if none can be reviewed, or `risk` is missing."""
    path = state.workspace.path
    strategy = request.strategy
    if request.by:
        check_group_column(request.by, workspace_tables.table_schema(state.workspace))
    elif strategy == _WORST:
        raise InputError("strategy 'worst' needs by, the column of the groups: --by speaker_id")
    if strategy == "risk" and "missing" in (learned := refresh(state)):
        raise InputError(f"{path}: {learned['missing']}; until then use --strategy stratified")
    population = Population(state)
    if population.reviewable.any():
        return population
    reason = f"{path}: none of its {len(population):,} segments can be reviewed"
    if population.without_audio.any():
        reason += f"; the recordings of {population.without_audio.sum():,} are missing"
    raise InputError(reason)


def _series(ids: Iterable[str]) -> pl.Series:
    return pl.Series("segment_id", list(ids), dtype=pl.String)


def _picked(
    population: Population, record: ReviewRecord | None, request: _Request
) -> list[str] | None:
    """Return picked segments, each once; None if segments are to be drawn.

    Raise InputError if there is none, or one is not in the workspace.
    """
    path = population.state.workspace.path
    segment_ids = request.segment_ids
    if request.strategy == DISAGREEMENTS:
        if record:
            segment_ids = record.segment_ids
        else:
            segment_ids = undecided_ids(population.state)
        if not segment_ids:
            raise InputError(f"{path}: reviewers left no segment undecided")
    if segment_ids is None:
        return None
    picked = list(dict.fromkeys(as_ids(segment_ids)))
    for unknown in np.flatnonzero(population.places(_series(picked)) < 0)[:1]:
        raise InputError(f"{path}: no segment {picked[unknown]!r}")
    if not picked:
        raise InputError("segment_ids: there are none")
    return picked


def _parameters(
    population: Population,
    record: ReviewRecord | None,
    request: _Request,
    outputs: Outputs,
    picked: Sequence[str] | None,
) -> dict[str, Any]:
    """Return the parameters that a record holds, by its attributes.

    Raise InputError for a number that cannot be.
    """
    blind = request.blind
    if blind is None:
        blind = record is None or record.blind
    if picked is None:
        n = _number(population, record, request)
        strategy = request.strategy
    else:
        n = len(picked)
        strategy = PICKED
    _check_number(n, request.overlap, outputs.reviewers)
    return {
        "name": outputs.review,
        "strategy": strategy,
        "n": int(n),
        "seed": request.seed,
        "threshold": request.threshold,
        "reviewers": outputs.reviewers,
        "overlap": int(request.overlap),
        "verdicts": list(request.verdicts),
        "blind": blind,
        "by": request.by,
        "planted": request.planted,
    }


def _number(population: Population, record: ReviewRecord | None, request: _Request) -> int:
    """Return how many segments are to be drawn."""
    if request.n is not None:
        return request.n
    if record is not None:
        return record.n
    is_reviewed = population.mask(_series(population.state.workspace.reviewed_ids()))
    left = int((population.reviewable & ~is_reviewed).sum())
    return min(_MOST_BY_DEFAULT, max(1, left // _A_TENTH))


def _check_number(n: int, overlap: int, reviewers: Sequence[str]) -> None:
    """Raise InputError unless the number of segments and the overlap are whole and in range."""
    for name, value in (("n", n), ("overlap", overlap)):
        if not isinstance(value, Integral):
            raise InputError(f"{name}={value!r}: must be a whole number")
    if n < 1:
        raise InputError(f"n must be 1 or more, not {n}")
    if overlap and len(reviewers) < 2:
        raise InputError(f"overlap={overlap}: needs two or more reviewers")
    if not 0 <= overlap <= n:
        raise InputError(f"overlap={overlap}: must be from 0 to n, which is {n}")


def _new_review(
    parameters: Mapping[str, Any], population: Population, picked: Sequence[str] | None
) -> _NewReview:
    """Take the picked segments, or the rows that are left over and then new ones.

    Raise InputError if nothing is left.
    """
    state = population.state
    if picked is not None:
        rows = _picked_rows(population, picked)
        record = _record(parameters, population, rows, resumes=[], new_ids=None)
        return _NewReview(record, None)
    if not all_draws(state):  # the first round, for which no rows need be read
        before = []
    else:
        before = rounds(state, population.read(state.drawn["segment_id"], JUDGED))
    draw = next_rows(
        population,
        strategy=_name_of_strategy(parameters),
        threshold=parameters["threshold"],
        n=parameters["n"],
        seed=parameters["seed"],
        rounds=before,
    )
    if draw.rows.is_empty():
        why = "have been judged or passed: " + ", ".join(
            f"{len(round_.judged_ids):,} in {round_.name}" for round_ in before
        )
        every = int(population.reviewable.sum())
        raise InputError(
            f"{state.workspace.path}: all {every:,} segments that can be reviewed {why}"
        )
    new_ids = draw.new_ids if draw.resumes else None
    record = _record(parameters, population, draw.rows, resumes=draw.resumes, new_ids=new_ids)
    if record.planted:
        control_rows = plan_control_rows(population, record)
        record = replace(record, control_rows=control_rows)
    return _NewReview(record, draw.strata)


def _name_of_strategy(parameters: Mapping[str, Any]) -> str:
    """Return the strategy by which new rows are drawn, with its column."""
    strategy: str = parameters["strategy"]
    if strategy == _WORST:
        return f"{WORST}{parameters['by']}"
    return strategy


def _picked_rows(population: Population, picked: Sequence[str]) -> pl.DataFrame:
    """Return the picked segments that can be reviewed, as `NextRows.rows`."""
    can_be_reviewed = population.reviewable[population.places(_series(picked))]
    rows = _series(picked).filter(pl.Series(can_be_reviewed)).to_frame()
    if rows.is_empty():
        raise InputError(
            f"{population.state.workspace.path}: none of the {len(picked):,} picked segments can "
            "be reviewed"
        )
    return rows.with_columns(probability=pl.lit(1.0), stratum=pl.lit(PICKED))


def _record(
    parameters: Mapping[str, Any],
    population: Population,
    rows: pl.DataFrame,
    *,
    resumes: list[Resumed],
    new_ids: list[str] | None,
) -> ReviewRecord:
    """Return the record of a new review with these rows, as `NextRows.rows`."""
    state = population.state
    shown = rows.select("segment_id").join(
        population.read(rows["segment_id"]), on="segment_id", maintain_order="left"
    )
    return ReviewRecord(
        **parameters,
        corpus=state.fingerprint,
        segment_ids=rows["segment_id"].to_list(),
        probabilities=rows["probability"].to_list(),
        contents=content_hashes(shown),
        words=word_hashes(shown),
        strata=rows["stratum"].to_list(),
        after=[draw.name for draw in all_draws(state)],
        resumes=resumes,
        new_ids=new_ids,
        corrections=len(state.correction_log),
        verdict_lines=len(state.verdict_log),
    )


def _review_rows(record: ReviewRecord, population: Population) -> ReviewRows:
    """Return the rows of the sheets, with the columns of segments and their recordings.

    Raise ExistsError if the segments have changed, InputError if their audio folder is missing.
    """
    # The recorded draw is used: a new draw could depend on verdicts that were given since.
    state = population.state
    reviewable = population.read(record.segment_ids)
    reviewable = reviewable.filter(
        pl.Series(
            population.reviewable[population.places(reviewable["segment_id"])], dtype=pl.Boolean
        )
    )
    drawn = record.rows.select("segment_id", "content").join(
        reviewable, on="segment_id", how="left", maintain_order="left"
    )
    is_known = (
        record.corpus in state.generations
        and not state.later(record.corpus).is_in(record.segment_ids).any()
    )
    if not is_known or record.contents != content_hashes(drawn):
        raise ExistsError(record.segments_changed)
    check_audio_folders(state.workspace, drawn["recording_id"])
    shown = drawn.with_columns(content=pl.Series(record.row_hashes(), dtype=pl.String))
    shown = shown.with_columns(duration_s=seconds_column())
    shown_by_control_rows = population.read(segments_of_control_rows(record))
    return ReviewRows(shown, control_frame(record, shown_by_control_rows))


def _filled_in(made: MadeFiles, record: ReviewRecord, state: ReviewState) -> list[Path]:
    """Return the files that somebody has filled in, which are not to be overwritten.

    Raise ExistsError for a file of something else.
    """
    earlier = [
        record_taken_back
        for record_taken_back in state.taken_back.values()
        if record_taken_back.name == record.name
    ]
    return [
        path
        for path, content in made.contents.items()
        if is_filled_in(path, content, record, earlier=earlier)
    ]


def _store_frame(population: Population, record: ReviewRecord, strata: Strata) -> None:
    """Fix what is selected now as a rule, and write what the draw took segments from."""
    fix_rule(population, first_draw=len(record.after))
    workspace = population.state.workspace
    has_duration = has_selected_duration(population.state)
    frame = population.frame(strata, has_duration, by=record.by)
    workspace_tables.write(workspace, frame, table=frame_table(record.name))


def _store(
    workspace: Workspace, record: ReviewRecord, made: MadeFiles, filled_in: Sequence[Path]
) -> None:
    """Write the record, the list of its files, and those that are not `filled_in`."""
    # The record is written first: segments of a sheet that exists must not go into training.
    write_json(workspace.path / "reviews" / f"{record.name}.json", asdict(record))
    files = exported_files(workspace)
    names = {*files.get(record.name, []), *map(str, made.contents)}
    write_json(workspace.path / EXPORTS, files | {record.name: sorted(names)})
    for path in made.contents.keys() - set(filled_in):
        write_bytes(path, made.contents[path])


def _lines_on_files(made: MadeFiles, filled_in: Sequence[Path]) -> list[str]:
    """Return warnings about files, first those that are not overwritten."""
    lines = [
        f"{path}: exists and has been filled in or saved since: not overwritten"
        for path in filled_in
    ]
    return [*lines, *made.warnings]


def _facts(
    population: Population,
    record: ReviewRecord,
    rows: pl.DataFrame,
    made: MadeFiles,
    left: np.ndarray,
) -> dict[str, Any]:
    """Return the facts of the report; `left` is as `_left_seconds` returns it."""
    state = population.state
    pool = population.reviewable
    failed = rows["segment_id"].is_in(list(made.failed))
    what, names = _describe_files(made)
    shares = [
        {"reviewer": name, "segments": len(ids)} for name, ids in record.shares().items() if ids
    ]
    num_clips = int((~failed).sum())
    if audio_of_clips(state.workspace) is None:
        num_clips = 0
    facts = {
        "drawn": len(rows),
        "from": int(pool.sum()),
        "left_for_train": {"segments": len(left), "hours": round(float(left.sum()) / 3600, 4)},
        "kept_out_of_training": _kept_out(population, record),
        "strategy": record.strategy,
        "seed": record.seed,
        "clips": num_clips,
        "minutes": rows["duration_s"].sum() / 60,
    }
    if resumed := _describe_resumed(state, record):
        facts["begins_with"] = resumed
    if record.reviewers:
        facts["reviewers"] = shares
    if record.overlap:
        facts["seen_by_all"] = min(record.overlap, len(rows))
    if record.planted:
        kinds = Counter(row.kind for row in record.control_rows)
        facts[REPEATED] = kinds.pop(REPEATED, 0)
        facts["planted"] = dict(sorted(kinds.items()))
    return facts | {what: names}


def _problems(made: MadeFiles) -> list[str]:
    """Return a line for each segment without a clip."""
    return [
        f"{segment_id}: no clip, {reason}" for segment_id, reason in sorted(made.failed.items())
    ]


def _describe_files(made: MadeFiles) -> tuple[str, str]:
    """Return the name of the fact with the written files, and the fact."""
    paths = list(made.contents)
    if len(paths) > 1:
        what = "files"
    elif any(path.suffix.lower() == ".html" for path in paths):
        what = "page"
    else:
        what = "sheet"
    return what, ", ".join(map(str, paths))


def _left_seconds(population: Population) -> np.ndarray:
    """Return the durations in seconds of the segments that no reviewer was given."""
    is_reviewed = population.mask(_series(reviewed_ids(population.state)))
    return population.numbers["seconds"][population.reviewable & ~is_reviewed]


def _kept_out(population: Population, record: ReviewRecord) -> str:
    """Say how many segments a review alone keeps out of training, and how to take it back."""
    state = population.state
    others = reviewed_by_review(state)
    others.pop(record.name, None)
    kept_out = len(set(record.segment_ids).difference(*others.values()))
    every = int(population.reviewable.sum())
    line = f"{count(kept_out, 'segments')} of {every:,} from now on"
    if not state.verdict_log.filter(review=record.name).is_empty():
        return line
    undo = f"nbaudio review export {shlex.quote(str(state.workspace.path))} --undo "
    undo += shlex.quote(record.name)
    return f"{line}; '{undo}' takes this back as long as nothing is judged"


def _describe_resumed(state: ReviewState, record: ReviewRecord) -> list[dict[str, Any]]:
    """Return the rounds with whose rows a review begins."""
    described = []
    for resumed in record.resumes:
        drawn_by = record_of_draw(state, resumed.draw)
        if drawn_by is None:  # somebody removed its record
            continue
        what = "taken_back" if resumed.draw in state.taken_back else "left_over_in"
        described.append(
            {what: drawn_by.name, "strategy": drawn_by.strategy, "rows": len(resumed.rows)}
        )
    return described


def _resumed_parts(state: ReviewState, record: ReviewRecord) -> dict[str, Part]:
    """Return the rows with which a review begins by the names of their draws."""
    rows_by_draw = parts(state, record)
    rows_by_draw.pop(record.name, None)
    return rows_by_draw


def _warnings(
    population: Population, record: ReviewRecord, rows: pl.DataFrame, outputs: Outputs
) -> list[str]:
    """Return warnings about what was drawn and what is left."""
    state = population.state
    warnings = []
    if record.n > len(rows):
        others = " and have not been judged yet" if record.after else ""
        warnings.append(
            f"{record.n:,} were requested, only {len(rows):,} segments can be "
            f"reviewed{others}: all are in the {outputs.kind}"
        )
    if record.strategy != PICKED:
        warnings += _rows_of_earlier_sheets(state, record)
    num_planted = sum(row.kind != REPEATED for row in record.control_rows)
    if num_planted < record.planted:
        warnings.append(
            f"{record.planted:,} planted faults were requested, only {num_planted:,} could be made"
            ": each takes a segment that is on no sheet and not held out; a smaller n leaves more"
        )
    warnings += _silent_recordings(population)
    if in_train := (rows["split"] == "train").sum():
        warnings.append(
            f"{in_train:,} of them are in train, where they must not be: "
            "run select again before materialize"
        )
    if audio_of_clips(state.workspace) is None:
        warnings.append(f"no audio yet: the {outputs.kind} has no clips")
    return warnings


def _rows_of_earlier_sheets(state: ReviewState, record: ReviewRecord) -> list[str]:
    """Return lines about rows of a review that are also on sheets of earlier reviews."""
    lines = []
    left_over = {
        name: part.listed
        for name, part in _resumed_parts(state, record).items()
        if name in state.records
    }
    if left_over:
        named = ", ".join(
            f"{len(listed):,} of {len(state.records[name].segment_ids):,} in {name}"
            for name, listed in left_over.items()
        )
        lines.append(
            f"it begins with rows that nobody has judged: {named}; they need not be judged there "
            "any more, and each counts once"
        )
    drawn = set(record.segment_ids).difference(*left_over.values())
    earlier = {
        segment_id
        for name in record.after
        if name in state.records
        for segment_id in state.records[name].segment_ids
    }
    if twice := len(drawn & earlier):
        lines.append(
            f"{twice:,} of them are also in an earlier review, "
            "where nobody had judged them yet: each counts once"
        )
    return lines


def _silent_recordings(population: Population) -> list[str]:
    """Return a line about recordings that are missing, if there are any."""
    silent = int(population.without_audio.sum())
    if not silent:
        return []
    names = population.column(pl.col("recording_id").cast(pl.Categorical)).filter(
        pl.Series(population.without_audio)
    )
    names = names.unique().cast(pl.String).sort()
    shown = ", ".join([*names.head(3), *["..."] * (len(names) > 3)])
    return [
        f"not drawn from: {count(silent, 'segments')} of "
        f"{count(len(names), 'missing recordings')} ({shown})"
    ]


def _many_given(population: Population, left: np.ndarray) -> list[str]:
    """Return a line about what is left for training if more than a tenth was given to reviewers.

    `left` is as `_left_seconds` returns it.
    """
    every = int(population.reviewable.sum())
    num_given = every - len(left)
    if num_given * _A_TENTH <= every:
        return []
    return [
        f"{num_given:,} of {every:,} segments that can be reviewed were given to "
        f"reviewers and stay out of train; {count(len(left), 'segments', 'are')} left for training "
        f"({duration(float(left.sum()))})"
    ]
