"""The command `review export`: draw a sample, cut its clips, write the sheets, and record what was drawn."""

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.atomic import atomic_write, write_json
from nbaudio.core.errors import ExistsError, InputError, get_by_name
from nbaudio.core.hashing import clip_file_names
from nbaudio.core.report import Report, duration
from nbaudio.core.tables import seconds_column
from nbaudio.review.cell_escaping import SEPARATORS, write_delimited
from nbaudio.review.corrections import uncorrected
from nbaudio.review.rounds import rounds
from nbaudio.review.sampling import STRATEGIES, draw, reviewable_segments
from nbaudio.review.sheet_clips import ENCODINGS, write_clips
from nbaudio.review.sheet_reader import read_sheet
from nbaudio.review.sheet_writer import COLUMNS, FILLED_IN, check_size, row_key, write_sheet
from nbaudio.review.state import (
    VERDICTS,
    ReviewRecord,
    ReviewState,
    check_verdict_list,
    content_hashes,
    fingerprint,
    reviewed_ids,
    word_hashes,
)
from nbaudio.storage.workspace import Workspace
from nbaudio.text.score import normalization_steps

_MOST_BY_DEFAULT = 1000
_A_TENTH = 10
_REVIEWER = re.compile(r"\w[\w.-]{0,39}")


def export(
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
    clips: str = "wav",
    tables: Sequence[str] = (),
    zip: bool = False,
) -> Report:
    """Draw segments for review into a spreadsheet, with their clips in a folder beside it.

    Segments are drawn from all that keep the rules of the tables, whatever their similarity. What was drawn is recorded under the
    sheet's name and stays out of training. The same call again gives the same bytes; a filled-in sheet is not overwritten.

    Args:
        workspace: the workspace or its folder.
        out: the .xlsx file to write; with reviewers, ``sheet.xlsx`` stands for ``sheet-ana.xlsx`` and so on.
        n: how many segments in all; all if there are fewer. None: a tenth of those that can still be drawn, at most 1000.
        strategy: a key of `STRATEGIES`.
        threshold: the similarity at which the decision is expected, from -1 to 1, for strategies that use it.
        seed: another seed gives another sample.
        reviewers: names without blanks; each gets a sheet. None given: one sheet without a name.
        overlap: how many segments all reviewers are given, to compute their agreement; the others are divided among them.
        verdicts: the words to choose from; ``ok`` must be one of them.
        clips: ``wav`` or ``mp3``, which is a fifth of the size.
        tables: ``csv`` or ``tsv`` also writes each sheet as such a file.
        zip: also write each sheet with its clips into one .zip to send.

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
    state, out = ReviewState.load(workspace), Path(out).absolute()
    workspace = state.workspace
    _check(out, strategy=strategy, threshold=threshold, reviewers=reviewers, clips=clips, tables=tables)
    check_verdict_list(verdicts)

    segments = uncorrected(state, workspace.segments)
    pool, silent = reviewable_segments(workspace, segments)
    if pool.is_empty():
        missing = f"; the recordings of {len(silent):,} are missing" if len(silent) else ""
        raise InputError(f"{workspace.path}: none of its {len(segments):,} segments can be reviewed{missing}")
    record = ReviewRecord.find(workspace, out.stem)
    if n is None:
        left = pool.filter(~pl.col("segment_id").is_in(list(workspace.reviewed_ids())))
        n = record.n if record else min(_MOST_BY_DEFAULT, max(1, len(left) // _A_TENTH))
    _check_number(n, overlap, reviewers)
    options: dict[str, Any] = {"strategy": strategy, "n": n, "seed": seed, "threshold": threshold, "reviewers": list(reviewers)}
    options |= {"overlap": overlap, "verdicts": list(verdicts)}
    record = record or _new_record(out.stem, options, state, segments=segments, pool=pool, silent=silent)
    record.check_parameters(options)
    shares = {reviewer: ids for reviewer, ids in record.shares().items() if ids}
    most = max(map(len, shares.values()))
    check_size(most, 0 if workspace.audio_root is None else most)
    rows, failed = _with_clips(record, segments, pool, workspace, out.parent, encoding=clips)

    files: dict[Path, bytes] = {}
    kept: list[Path] = []
    steps = normalization_steps(workspace)
    for reviewer, ids in shares.items():
        part = rows.filter(pl.col("segment_id").is_in(ids))
        path = out.with_name(f"{out.stem}-{reviewer}{out.suffix}") if reviewer else out
        made = {path: write_sheet(part, record, reviewer, steps=steps)}
        made |= {path.with_suffix(f".{kind}"): _delimited(part, record, reviewer, kind) for kind in tables}
        if zip:
            made |= _zipped(made, part, path)
        kept += [path for path, data in made.items() if _is_filled_in(path, data, record)]
        files |= made
    # The record first: a sheet must never exist while its segments can still go into training.
    write_json(workspace.path / "reviews" / f"{record.name}.json", asdict(record))
    for path in files.keys() - set(kept):
        with atomic_write(path) as partial:
            partial.write_bytes(files[path])
    report = _report(rows, pool, silent, state, record=record, shares=shares, files=files, kept=kept, failed=failed)
    workspace.save_report("review", report.to_dict())
    return report


def _check(out: Path, *, strategy: str, threshold: float, reviewers: Sequence[str], clips: str, tables: Sequence[str]) -> None:
    if out.suffix.lower() != ".xlsx" or out.is_dir():
        raise InputError(f"{out}: a review sheet is a file that ends in .xlsx")
    get_by_name(STRATEGIES, strategy, "strategy")
    if not -1 <= threshold <= 1:
        raise InputError(f"threshold must be from -1 to 1, not {threshold}")
    if wrong := [name for name in reviewers if not _REVIEWER.fullmatch(name)]:
        raise InputError(f"reviewer {wrong[0]!r}: letters, digits and . _ - are allowed, at most 40")
    if len({name.casefold() for name in reviewers}) < len(reviewers):
        raise InputError(f"reviewers {', '.join(reviewers)}: one is given twice")
    for name, known, what in ((clips, ENCODINGS, "clips"), *((kind, SEPARATORS, "table") for kind in tables)):
        get_by_name(dict.fromkeys(known), name, what)


def _check_number(n: int, overlap: int, reviewers: Sequence[str]) -> None:
    if n < 1:
        raise InputError(f"n must be 1 or more, not {n}")
    if overlap and len(reviewers) < 2:
        raise InputError(f"overlap={overlap}: needs two or more reviewers")
    if not 0 <= overlap <= n:
        raise InputError(f"overlap={overlap}: must be from 0 to n, which is {n}")


def _new_record(
    name: str, options: Mapping[str, Any], state: ReviewState, *, segments: pl.DataFrame, pool: pl.DataFrame, silent: pl.DataFrame
) -> ReviewRecord:
    """Draw from the part of the pool that earlier reviews left; raise InputError if nothing is left."""
    before = rounds(state, segments)
    drawn = draw(pool, **{option: options[option] for option in ("strategy", "n", "seed", "threshold")}, rounds=before)
    if drawn.is_empty():
        given = "have been given to reviewers: " + ", ".join(f"{len(one.rows):,} in {one.name}" for one in before)
        raise InputError(f"{state.workspace.path}: all {len(pool):,} segments that can be reviewed {given}")
    shown = drawn.select("segment_id").join(pool, on="segment_id", maintain_order="left")
    return ReviewRecord(
        name=name,
        **options,
        corpus=fingerprint(segments),
        segment_ids=drawn["segment_id"].to_list(),
        probabilities=drawn["probability"].to_list(),
        contents=content_hashes(shown),
        words=word_hashes(shown),
        strata=drawn["stratum"].to_list(),
        after=[one.name for one in before],
        missing=silent["recording_id"].unique().sort().to_list(),
    )


def _with_clips(
    record: ReviewRecord, segments: pl.DataFrame, pool: pl.DataFrame, workspace: Workspace, folder: Path, *, encoding: str
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the rows of the sheet with their clips cut, and the reasons for missing clips by segment id.

    Raise ExistsError if the segments have changed. A second call does not draw again: a strategy may depend on verdicts that have
    been given since.
    """
    drawn = pl.DataFrame(
        {"segment_id": record.segment_ids, "probability": record.probabilities, "content": record.contents},
        schema_overrides={"segment_id": pl.String},
    ).join(pool, on="segment_id", how="left", maintain_order="left")
    if record.corpus != fingerprint(segments) or record.contents != content_hashes(drawn):
        raise ExistsError(f"review {record.name} was exported from segments that have changed since: give another name")
    names = pl.Series(clip_file_names(record.segment_ids, encoding), dtype=pl.String)
    rows, root = drawn.with_columns(duration_s=seconds_column(), clip=names), workspace.audio
    failed = {} if root is None else write_clips(rows, root, folder / "clips", encoding=encoding)
    cut = pl.lit(root is not None) & ~pl.col("segment_id").is_in(list(failed))
    note = pl.lit("no audio yet" if root is None else "not readable")
    return rows.with_columns(clip=pl.when(cut).then(pl.lit("clips/") + pl.col("clip")), note=note), failed


def _delimited(rows: pl.DataFrame, record: ReviewRecord, reviewer: str, kind: str) -> bytes:
    """Return the sheet of a reviewer as CSV or TSV."""
    plain = rows.select(
        "clip",
        "segment_id",
        transcript="text",
        hypothesis="asr_text",
        speaker="speaker_id",
        similarity=pl.col("similarity").round(3),
        key=pl.Series([row_key(content, reviewer, record.name) for content in rows["content"]], dtype=pl.String),
        **{"duration s": pl.col("duration_s").round(2), **dict.fromkeys(FILLED_IN, pl.lit(""))},
    ).select(*COLUMNS)
    return write_delimited(plain, kind)


def _zipped(files: Mapping[Path, bytes], rows: pl.DataFrame, sheet: Path) -> dict[Path, bytes]:
    """Return an archive of files and the clips of their rows, in a folder of the sheet's name; equal files give equal bytes."""
    held = {path.name: data for path, data in files.items()}
    held |= {name: (sheet.parent / name).read_bytes() for name in rows["clip"].drop_nulls().sort()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in held.items():
            entry = zipfile.ZipInfo(f"{sheet.stem}/{name}")  # of 1980, and of no system
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return {sheet.with_suffix(".zip"): out.getvalue()}


def _is_filled_in(path: Path, data: bytes, record: ReviewRecord) -> bool:
    """Return whether a file of this review exists with other content; raise ExistsError if it is of no or another review."""
    if not path.exists() or path.read_bytes() == data:
        return False
    if path.suffix == ".zip":
        ours = zipfile.is_zipfile(path) and f"{path.stem}/{path.stem}.xlsx" in zipfile.ZipFile(path).namelist()
    else:
        try:
            ours = record.name in read_sheet(path).reviews
        except InputError:
            ours = False
    if ours:
        return True
    raise ExistsError(f"{path}: exists and is not a sheet of review {record.name}; move it away or give another --out")


def _report(
    rows: pl.DataFrame,
    pool: pl.DataFrame,
    silent: pl.DataFrame,
    state: ReviewState,
    *,
    record: ReviewRecord,
    shares: Mapping[str, Sequence[str]],
    files: Mapping[Path, bytes],
    kept: Sequence[Path],
    failed: Mapping[str, str],
) -> Report:
    left = pool.filter(~pl.col("segment_id").is_in(list(reviewed_ids(state)))).select(seconds_column())["duration_s"]
    facts = {
        "drawn": len(rows),
        "from": len(pool),
        "left_for_train": {"segments": len(left), "hours": round(float(left.sum()) / 3600, 4)},
        "strategy": record.strategy,
        "seed": record.seed,
        "clips": rows["clip"].count(),
        "minutes": rows["duration_s"].sum() / 60,
        **({"reviewers": [{"reviewer": name, "segments": len(ids)} for name, ids in shares.items()]} if record.reviewers else {}),
        **({"seen_by_all": min(record.overlap, len(rows))} if record.overlap else {}),
        "sheet" if len(files) == 1 else "files": ", ".join(map(str, files)),
    }
    warnings = [f"{path}: exists and has been filled in or saved since: not overwritten" for path in kept]
    if record.n > len(rows):
        others = " and have not been given to reviewers yet" if record.after else ""
        warnings.append(f"{record.n:,} were requested, only {len(rows):,} segments can be reviewed{others}: all are in the sheet")
    if len(silent):
        names = silent["recording_id"].unique().sort()
        shown = ", ".join([*names.head(3), *["..."] * (len(names) > 3)])
        warnings.append(f"not drawn from: {len(silent):,} segments of {len(names):,} recordings that are missing ({shown})")
    if in_train := (rows["split"] == "train").sum():
        warnings.append(f"{in_train:,} of them are in train, where they must not be: run select again before materialize")
    if rows["clip"].count() == 0 and not failed:
        warnings.append("no audio yet: the sheet has no clips")
    if (num_given := len(pool) - len(left)) * _A_TENTH > len(pool):
        given = f"{num_given:,} of {len(pool):,} segments that can be reviewed were given to reviewers and stay out of train"
        warnings.append(f"{given}; left for training are {len(left):,} segments ({duration(float(left.sum()))})")
    problems = [f"{segment_id}: no clip, {reason}" for segment_id, reason in sorted(failed.items())]
    return Report("review export", facts, warnings=warnings, problems=problems)
