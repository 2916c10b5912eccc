"""The command `review export`.

It draws a sample, cuts its clips, writes the sheets, and records what was drawn.
"""

import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core import tables as core_tables
from nbaudio.core.atomic import read_json, write_bytes, write_json
from nbaudio.core.dataframes import Ids, as_ids
from nbaudio.core.errors import ExistsError, InputError, get_by_name
from nbaudio.core.hashing import clip_file_names
from nbaudio.core.report import Report, duration
from nbaudio.core.tables import seconds_column
from nbaudio.review.cell_escaping import write_delimited
from nbaudio.review.population import Population
from nbaudio.review.review_page import MOST_EMBEDDED_BYTES, write_page
from nbaudio.review.risk import refresh
from nbaudio.review.rounds import DISAGREEMENTS, PICKED, rounds, undecided_ids
from nbaudio.review.sampling import Strata, salt_of
from nbaudio.review.sheet_clips import ENCODINGS, cut_clips, keep_clip
from nbaudio.review.sheet_reader import KINDS, read_sheet
from nbaudio.review.sheet_writer import FILLED_IN, check_size, column_places, row_key, write_sheet
from nbaudio.review.state import (
    EXPORTS,
    OK,
    UNSURE,
    VERDICTS,
    ReviewRecord,
    ReviewState,
    content_hashes,
    frame_table,
    reviewed_ids,
    word_hashes,
)
from nbaudio.sources.audio_folder import check_audio_folders
from nbaudio.storage.workspace import Workspace, locks_workspace
from nbaudio.text.score import compared

_MOST_BY_DEFAULT = 1000
_A_TENTH = 10
PAGE = ".html"
_WORD = re.compile(r"\w([\w '/-]{0,38}[\w'/-])?")
_REVIEWER = re.compile(r"\w[\w.-]{0,39}")


@locks_workspace("review export", "reviews")
def export(  # noqa: PLR0914, PLR0915
    workspace: Workspace | str | Path,
    *,
    out: str | Path,
    n: int | None = None,
    strategy: str = "random",
    threshold: float = 0.8,
    seed: int = 42,
    reviewers: Sequence[str] = (),
    overlap: int = 0,
    verdicts: Sequence[str] = tuple(VERDICTS),
    clips: str | None = None,
    zip: bool = False,
    blind: bool | None = None,
    segment_ids: Ids | None = None,
) -> Report:
    """Draw segments for review into a spreadsheet with clips, or into a page for a browser.

    The clips of a spreadsheet are in a folder beside it. Segments are drawn from all that keep the
    rules of the tables, whatever their similarity. What was drawn is recorded under the sheet's
    name and stays out of training. The same call again gives the same bytes; a filled-in sheet is
    not overwritten.

    Args:
        workspace: the workspace or its folder.
        out: the file to write, a sheet (.xlsx, .csv, .tsv) or a page (.html); with reviewers,
            ``sheet.xlsx`` stands for ``sheet-ana.xlsx`` and so on. A page holds up to 50 MB of
            clips; more are in the folder beside it.
        n: how many segments in all; all if there are fewer. None: a tenth of those that can still
            be drawn, at most 1000.
        strategy: a key of `STRATEGIES`; a column, for ten strata by its quantiles; or
            ``disagreements``: what is undecided.
        threshold: the similarity at which the decision is expected, from -1 to 1, for strategies
            that use it.
        seed: another seed gives another sample.
        reviewers: names without blanks; each gets a sheet. None given: one sheet without a name.
        overlap: how many segments all reviewers are given, to compute their agreement; the others
            are divided among them.
        verdicts: the words to choose from; ``ok`` must be one of them.
        clips: ``wav`` or ``mp3``, which is a fifth of the size; by default ``wav`` for sheets,
            ``mp3`` for pages.
        zip: also write each sheet with its clips into one .zip to send.
        blind: hide hypothesis and similarity from reviewers, also in `ReviewPanel`; recorded with
            every verdict. By default true, or what an earlier export of this review was.
        segment_ids: review these segments, in this order, in place of a sample; `n`, `strategy`,
            `threshold` and `seed` are not used. They were picked, not drawn at random, hence their
            verdicts never count as a sample in `evidence`.

    Returns:
        A report with what was drawn and the files; clips that could not be cut are its problems.

    Raises:
        InputError: a parameter is not usable, or there is nothing to review.
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
    state = ReviewState.load(workspace)
    out = Path(out).absolute()
    workspace = state.workspace
    clips = clips or ("mp3" if out.suffix.lower() == PAGE else "wav")
    _check(out, threshold=threshold, reviewers=reviewers, verdicts=verdicts, clips=clips)
    if strategy == "risk" and "missing" in (learned := refresh(state)):
        raise InputError(
            f"{workspace.path}: {learned['missing']}; until then use --strategy stratified"
        )
    population = Population(state)
    if not population.reviewable.any():
        missing = (
            f"; the recordings of {population.without_audio.sum():,} are missing"
            if population.without_audio.any()
            else ""
        )
        raise InputError(
            f"{workspace.path}: none of its {len(population):,} segments can be reviewed{missing}"
        )
    record = state.records.get(out.stem)
    if strategy == DISAGREEMENTS:
        segment_ids = record.segment_ids if record else undecided_ids(state)
        if not segment_ids:
            raise InputError(f"{workspace.path}: reviewers left no segment undecided")
    picked = None if segment_ids is None else _picked(population, segment_ids)
    if picked is not None:
        n = len(picked)
        strategy = PICKED
    elif n is None:
        left = int(
            (population.reviewable & ~population.mask(_series(workspace.reviewed_ids()))).sum()
        )
        n = record.n if record else min(_MOST_BY_DEFAULT, max(1, left // _A_TENTH))
    _check_number(n, overlap, reviewers)
    blind = blind if blind is not None else record.blind if record else True
    options: dict[str, Any] = {
        "name": out.stem,
        "strategy": strategy,
        "n": n,
        "seed": seed,
        "threshold": threshold,
    }
    options |= {
        "reviewers": list(reviewers),
        "overlap": overlap,
        "verdicts": list(verdicts),
        "blind": blind,
    }
    strata = None
    if record is None:
        record, strata = _new_record(options, population, picked)
    record.check_parameters(options)
    if picked is not None and set(record.segment_ids) - set(picked):
        raise ExistsError(
            f"review {record.name} was exported with other segments; these need another name"
        )
    rows = _drawn_rows(record, population, encoding=clips)
    files, failed, warnings = _make(rows, record, workspace, out, encoding=clips, zip=zip)
    rows = _without_missing_clips(rows, workspace, failed)
    kept = [path for path, data in files.items() if _is_filled_in(path, data, record)]
    if strata is not None:
        core_tables.write(workspace, population.frame(strata), table=frame_table(record.name))
    # The record first: a sheet must never exist while its segments can still go into training.
    write_json(workspace.path / "reviews" / f"{record.name}.json", asdict(record))
    exports = workspace.path / EXPORTS
    held = read_json(exports) if exports.exists() else {}
    write_json(
        exports, held | {record.name: sorted({*held.get(record.name, []), *map(str, files)})}
    )
    for path in files.keys() - set(kept):
        write_bytes(path, files[path])
    warnings = [
        *(
            f"{path}: exists and has been filled in or saved since: not overwritten"
            for path in kept
        ),
        *warnings,
    ]
    facts, further = _facts(population, record, rows, files=list(files))
    problems = [f"{segment_id}: no clip, {reason}" for segment_id, reason in sorted(failed.items())]
    report = Report("review export", facts, [*warnings, *further], problems)
    workspace.save_report("review", report.to_dict())
    return report


def _make(  # noqa: PLR0914
    rows: pl.DataFrame,
    record: ReviewRecord,
    workspace: Workspace,
    out: Path,
    *,
    encoding: str,
    zip: bool,
) -> tuple[dict[Path, bytes], dict[str, str], list[str]]:
    """Write the clips that are not embedded.

    Return all files (sheets or pages, archives), failed clips, and warnings.
    """
    root = workspace.audio
    how = compared(workspace)
    kind = out.suffix.lower()
    files: dict[Path, bytes] = {}
    failed: dict[str, str] = {}
    warnings = []
    shares = {reviewer: ids for reviewer, ids in record.shares().items() if ids}
    if kind != PAGE:
        most = max(map(len, shares.values()))
        check_size(most, 0 if root is None else most)
        for row, _, clip in cut_clips(rows, root, failed, encoding=encoding):
            keep_clip(out.parent / row["clip"], clip)
        rows = _without_missing_clips(rows, workspace, failed)
    for reviewer, ids in shares.items():
        part = rows.filter(pl.col("segment_id").is_in(ids))
        path = out.with_name(f"{out.stem}-{reviewer}{out.suffix}") if reviewer else out
        if kind == PAGE:
            page, clips = write_page(
                part,
                record,
                reviewer,
                audio_root=root,
                folder=out.parent,
                encoding=encoding,
                compared=how,
                failed=failed,
            )
            made = {path: page}
            if clips:
                more = (
                    f"its clips take more than {MOST_EMBEDDED_BYTES / 1e6:g} MB and are in "
                    "the folder 'clips' beside it"
                )
                warnings.append(f"{path}: {more}: send both (zip puts them into one file)")
        else:
            is_workbook = kind == ".xlsx"
            clips = part["clip"].drop_nulls().sort().to_list()
            sheet = (
                write_sheet(part, record, reviewer, **how)
                if is_workbook
                else _delimited(part, record, reviewer, kind[1:])
            )
            made = {path: sheet}
        files |= made | (_zipped(made, clips, path) if zip else {})
    return files, failed, warnings


def _without_missing_clips(
    rows: pl.DataFrame, workspace: Workspace, failed: Mapping[str, str]
) -> pl.DataFrame:
    cut = ~pl.col("segment_id").is_in(list(failed)) & pl.lit(workspace.audio_root is not None)
    note = pl.lit("no audio yet" if workspace.audio_root is None else "not readable")
    return rows.with_columns(clip=pl.when(cut).then("clip"), note=note)


def _check(
    out: Path, *, threshold: float, reviewers: Sequence[str], verdicts: Sequence[str], clips: str
) -> None:
    """Raise InputError for unusable parameters.

    These include verdicts that a spreadsheet would not read as text, or would not count.
    """
    if out.suffix.lower() not in {PAGE, *KINDS} or out.is_dir():
        raise InputError(
            f"{out}: the file must end in {', '.join(KINDS)} for a sheet, or in {PAGE} for a page"
        )
    if not -1 <= threshold <= 1:
        raise InputError(f"threshold must be from -1 to 1, not {threshold}")
    for what, names, allowed, kinds in (
        ("reviewer", reviewers, _REVIEWER, "letters, digits and . _ - are allowed, at most 40"),
        (
            "verdict",
            verdicts,
            _WORD,
            (
                "letters, digits, blanks and - / ' are allowed, at most 40, "
                "the first a letter or digit"
            ),
        ),
    ):
        if odd := [name for name in names if not allowed.fullmatch(name)]:
            raise InputError(f"{what} {odd[0]!r}: {kinds}")
        if len({name.casefold() for name in names}) < len(names):
            raise InputError(f"{what}s {', '.join(names)}: one is given twice")
    get_by_name(dict.fromkeys(ENCODINGS), clips, "clips")
    if odd := [word for word in verdicts if word.casefold() in {OK, UNSURE} and not word.islower()]:
        raise InputError(
            f"verdict {odd[0]!r}: write {odd[0].lower()!r}, which has a special meaning"
        )
    if OK not in verdicts:
        named = ", ".join(verdicts) or "none"
        raise InputError(
            f"verdicts {named}: 'ok' must be among them, it means that a transcript is right"
        )


def _check_number(n: int, overlap: int, reviewers: Sequence[str]) -> None:
    if n < 1:
        raise InputError(f"n must be 1 or more, not {n}")
    if overlap and len(reviewers) < 2:
        raise InputError(f"overlap={overlap}: needs two or more reviewers")
    if not 0 <= overlap <= n:
        raise InputError(f"overlap={overlap}: must be from 0 to n, which is {n}")


def _series(ids: Iterable[str]) -> pl.Series:
    return pl.Series("segment_id", list(ids), dtype=pl.String)


def _picked(population: Population, segment_ids: Ids) -> list[str]:
    """Return picked segments, each once.

    Raise InputError if there is none, or one is not in the workspace.
    """
    picked = list(dict.fromkeys(as_ids(segment_ids)))
    for unknown in np.flatnonzero(population.places(_series(picked)) < 0)[:1]:
        raise InputError(f"{population.state.workspace.path}: no segment {picked[unknown]!r}")
    if not picked:
        raise InputError("segment_ids: there are none")
    return picked


def _new_record(
    options: Mapping[str, Any], population: Population, picked: Sequence[str] | None
) -> tuple[ReviewRecord, Strata | None]:
    """Take what was picked, or draw from what nobody has reached, with the strata.

    Raise InputError if nothing is left.
    """
    state = population.state
    strata = None
    before = rounds(state, population.read(state.drawn["segment_id"]))
    if picked is not None:
        there = _series(picked).filter(
            pl.Series(population.reviewable[population.places(_series(picked))])
        )
        drawn = there.to_frame().with_columns(probability=pl.lit(1.0), stratum=pl.lit(PICKED))
        if drawn.is_empty():
            raise InputError(
                f"{state.workspace.path}: none of the {len(picked):,} picked segments can "
                "be reviewed"
            )
    else:
        strata = population.strata(
            options["strategy"], threshold=options["threshold"], rounds=before
        )
        drawn = population.draw(strata, n=options["n"], salt=salt_of(options["seed"], before))
    if drawn.is_empty():
        given = "have been judged or passed: " + ", ".join(
            f"{len(one.judged_ids):,} in {one.name}" for one in before
        )
        every = int(population.reviewable.sum())
        raise InputError(
            f"{state.workspace.path}: all {every:,} segments that can be reviewed {given}"
        )
    shown = drawn.select("segment_id").join(
        population.read(drawn["segment_id"]), on="segment_id", maintain_order="left"
    )
    record = ReviewRecord(
        **options,
        corpus=state.fingerprint,
        segment_ids=drawn["segment_id"].to_list(),
        probabilities=drawn["probability"].to_list(),
        contents=content_hashes(shown),
        words=word_hashes(shown),
        strata=drawn["stratum"].to_list(),
        after=[one.name for one in before],
    )
    return record, strata


def _drawn_rows(record: ReviewRecord, population: Population, *, encoding: str) -> pl.DataFrame:
    """Return the rows of the sheet with the names of their clips.

    Raise ExistsError if the segments have changed, InputError if their audio folder is missing.
    """
    # Nothing is drawn again: a strategy may depend on verdicts that have been given since.
    state = population.state
    held = population.read(record.segment_ids)
    held = held.filter(
        pl.Series(population.reviewable[population.places(held["segment_id"])], dtype=pl.Boolean)
    )
    drawn = record.rows.select("segment_id", "content").join(
        held, on="segment_id", how="left", maintain_order="left"
    )
    is_known = (
        record.corpus in state.generations
        and not state.later(record.corpus).is_in(record.segment_ids).any()
    )
    if not is_known or record.contents != content_hashes(drawn):
        raise ExistsError(
            f"review {record.name} was exported from segments that have changed since: "
            "give another name"
        )
    names = pl.Series(
        [f"clips/{name}" for name in clip_file_names(record.segment_ids, encoding)], dtype=pl.String
    )
    check_audio_folders(state.workspace, drawn["recording_id"])
    shown = drawn.with_columns(content=pl.Series(record.row_hashes(), dtype=pl.String))
    return shown.with_columns(duration_s=seconds_column(), clip=names)


def _delimited(rows: pl.DataFrame, record: ReviewRecord, reviewer: str, kind: str) -> bytes:
    """Return the sheet of a reviewer as CSV or TSV."""
    plain = rows.select(
        "clip",
        "segment_id",
        transcript="text",
        hypothesis="asr_text",
        speaker="speaker_id",
        similarity=pl.col("similarity").round(3),
        key=pl.Series(
            [row_key(content, reviewer, record.name) for content in rows["content"]],
            dtype=pl.String,
        ),
        **{"duration s": pl.col("duration_s").round(2), **dict.fromkeys(FILLED_IN, pl.lit(""))},
    ).select(*column_places(record))
    return write_delimited(plain, kind)


def _zipped(files: Mapping[Path, bytes], clips: Iterable[str], sheet: Path) -> dict[Path, bytes]:
    """Return an archive of files and their clips, in a folder of the sheet's name.

    Equal files give equal bytes.
    """
    held = {path.name: data for path, data in files.items()}
    held |= {name: (sheet.parent / name).read_bytes() for name in clips}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in held.items():
            entry = zipfile.ZipInfo(f"{sheet.stem}/{name}")  # of 1980, and of no system
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return {sheet.with_suffix(".zip"): out.getvalue()}


def _is_filled_in(path: Path, data: bytes, record: ReviewRecord) -> bool:
    """Return whether a file of this review exists with other content.

    Raise ExistsError if it is of no or another review.
    """
    if not path.exists() or path.read_bytes() == data:
        return False
    if path.suffix == ".zip":
        held = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
        ours = any(f"{path.stem}/{path.stem}{kind}" in held for kind in (*KINDS, PAGE))
    else:
        try:
            ours = record.name in read_sheet(path).reviews
        except InputError:
            ours = False
    if not ours:
        what = (
            "exists with other content"
            if path.suffix == PAGE
            else f"exists and is not a sheet of review {record.name}"
        )
        raise ExistsError(f"{path}: {what}; move it away or give another --out")
    return True


def _facts(
    population: Population, record: ReviewRecord, rows: pl.DataFrame, *, files: list[Path]
) -> tuple[dict[str, Any], list[str]]:
    """Return the facts of the report, and warnings about what was drawn and what is left."""
    state = population.state
    pool = population.reviewable
    left = population.numbers["seconds"][pool & ~population.mask(_series(reviewed_ids(state)))]
    shares = [
        {"reviewer": name, "segments": len(ids)} for name, ids in record.shares().items() if ids
    ]
    what = "page" if any(path.suffix.lower() == PAGE for path in files) else "sheet"
    facts = {
        "drawn": len(rows),
        "from": int(pool.sum()),
        "left_for_train": {"segments": len(left), "hours": round(float(left.sum()) / 3600, 4)},
        "strategy": record.strategy,
        "seed": record.seed,
        "clips": rows["clip"].count(),
        "minutes": rows["duration_s"].sum() / 60,
        **({"reviewers": shares} if record.reviewers else {}),
        **({"seen_by_all": min(record.overlap, len(rows))} if record.overlap else {}),
        what if len(files) == 1 else "files": ", ".join(map(str, files)),
    }
    warnings = []
    if record.n > len(rows):
        others = " and have not been judged yet" if record.after else ""
        warnings.append(
            f"{record.n:,} were requested, only {len(rows):,} segments can be "
            f"reviewed{others}: all are in the {what}"
        )
    earlier = [
        key for one in state.records.values() if one.name in record.after for key in one.segment_ids
    ]
    if twice := int(rows["segment_id"].is_in(earlier).sum()) if record.strategy != PICKED else 0:
        warnings.append(
            f"{twice:,} of them are also in an earlier review, "
            "where nobody had judged them yet: each counts once"
        )
    if silent := int(population.without_audio.sum()):
        names = population.column(pl.col("recording_id").cast(pl.Categorical)).filter(
            pl.Series(population.without_audio)
        )
        names = names.unique().cast(pl.String).sort()
        shown = ", ".join([*names.head(3), *["..."] * (len(names) > 3)])
        warnings.append(
            f"not drawn from: {silent:,} segments of {len(names):,} recordings that are "
            f"missing ({shown})"
        )
    if in_train := (rows["split"] == "train").sum():
        warnings.append(
            f"{in_train:,} of them are in train, where they must not be: "
            "run select again before materialize"
        )
    if state.workspace.audio is None:
        warnings.append(f"no audio yet: the {what} has no clips")
    if (num_given := int(pool.sum()) - len(left)) * _A_TENTH > pool.sum():
        given = (
            f"{num_given:,} of {pool.sum():,} segments that can be reviewed were given to "
            "reviewers and stay out of train"
        )
        warnings.append(
            f"{given}; left for training are {len(left):,} segments ({duration(float(left.sum()))})"
        )
    return facts, warnings
