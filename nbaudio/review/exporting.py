"""The export step: draw a sample, cut its clips, write the sheet, remember what was given away."""

from pathlib import Path

import polars as pl

from nbaudio.channels import own_channel
from nbaudio.errors import ExistsError, InputError
from nbaudio.files import whole_file
from nbaudio.report import Report
from nbaudio.review.clips import clip_names, write_clips
from nbaudio.review.record import ReviewRecord, content_hashes, fingerprint
from nbaudio.review.sampling import STRATEGIES
from nbaudio.review.sheet import check_size, write_sheet
from nbaudio.tables import seconds_column, segment_failures
from nbaudio.workspace import Workspace

_CLIPS = "clips"
_NO_AUDIO = "no audio yet"
_SHOWN_RECORDINGS = 3


def export(
    workspace: Workspace | str | Path, *, out: str | Path, n: int = 1000, strategy: str = "random", seed: int = 42
) -> Report:
    """Draw segments for review into a spreadsheet, with their clips in a folder beside it.

    Drawn is from the segments that keep the rules of the tables; whether they have a hypothesis, or were left out for their
    similarity, does not matter. What was drawn is remembered in the workspace under the sheet's name and stays out of training.
    The same call again gives the same bytes; a sheet that has been filled in is never overwritten.

    Args:
        workspace: the workspace or its folder.
        out: the .xlsx file to write.
        n: how many segments; all where there are fewer.
        strategy: a key of `STRATEGIES`.
        seed: another seed gives another sample.

    Returns:
        A report with what was drawn and where it is; clips that could not be cut are its problems.

    Raises:
        InputError: a parameter is not usable, or there is nothing to review.
        ExistsError: the review's name, its sheet or a clip is there with other content.

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
    workspace, out = Workspace.open(workspace), Path(out)
    if out.suffix.lower() != ".xlsx" or out.is_dir():
        raise InputError(f"{out}: a review sheet is a file that ends in .xlsx")
    if n < 1:
        raise InputError(f"n must be 1 or more, not {n}")
    if strategy not in STRATEGIES:
        raise InputError(f"strategy {strategy!r} is unknown; known are {', '.join(STRATEGIES)}")

    segments = workspace.segments
    pool = reviewable(workspace.recordings, segments)
    audible = workspace.audio_root is not None
    silent = pool.filter(pl.any_horizontal(pl.col("path", "start_sample", "end_sample").is_null())) if audible else pool.clear()
    # What cannot be heard cannot be judged; before any audio has come, the texts alone can be looked at.
    pool = pool.join(silent, on="segment_id", how="anti", maintain_order="left")
    if pool.is_empty():
        raise InputError(f"{workspace.path}: none of its {len(segments):,} segments can be reviewed")
    drawn = STRATEGIES[strategy](pool, n, seed).join(pool, on="segment_id", how="left", maintain_order="left")
    drawn = drawn.with_columns(
        duration_s=seconds_column(),
        clip=pl.Series(clip_names(drawn["segment_id"].to_list())),
    )
    check_size(len(drawn), len(drawn) if audible else 0)
    record = ReviewRecord(
        name=out.stem,
        strategy=strategy,
        n=n,
        seed=seed,
        corpus=fingerprint(segments),
        segment_ids=drawn["segment_id"].to_list(),
        probabilities=drawn["probability"].to_list(),
        contents=content_hashes(drawn),
    )
    record.check_free(workspace)

    failed: dict[str, str] = {}
    if workspace.audio_root is not None:
        failed = write_clips(drawn, workspace.audio_root, out.parent / _CLIPS)
    cut = pl.lit(audible) & ~pl.col("segment_id").is_in(list(failed))
    rows = drawn.with_columns(
        clip=pl.when(cut).then(pl.lit(f"{_CLIPS}/") + pl.col("clip")),
        note=pl.lit("not readable" if audible else _NO_AUDIO),
    )
    data = write_sheet(rows, record)
    if out.exists() and out.read_bytes() != data:
        raise ExistsError(
            f"{out}: is there and differs (filled in, or made from other texts or audio); move it away or give another --out"
        )
    # Remembered first: a sheet must never be out while its segments can still go into training.
    record.save(workspace)
    with whole_file(out) as partial:
        partial.write_bytes(data)
    report = _report(rows, pool, silent, record=record, out=out, failed=failed)
    workspace.save_report("review", report.to_dict())
    return report


def reviewable(recordings: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """The segments that break no rule of the tables, one per id, with `path`, `sampling_rate` and `num_samples` joined on."""
    facts = recordings.select("recording_id", "path", "sampling_rate", "num_channels", "num_samples")
    facts = facts.unique("recording_id", keep="first")
    joined = segments.with_columns(own_channel(segments)).join(facts, on="recording_id", how="left", maintain_order="left")
    rules = segment_failures(recordings)
    broken = pl.any_horizontal(rule.fill_null(value=False) for rule in rules.values())
    known_bad = ((pl.col("decision") == "reject") & pl.col("reason").is_in(list(rules))).fill_null(value=False)
    kept = joined.filter(~broken & ~known_bad & pl.col("segment_id").is_not_null())
    return kept.unique("segment_id", keep="first", maintain_order=True)


def _report(
    rows: pl.DataFrame, pool: pl.DataFrame, silent: pl.DataFrame, *, record: ReviewRecord, out: Path, failed: dict[str, str]
) -> Report:
    facts = {
        "drawn": len(rows),
        "from": len(pool),
        "strategy": record.strategy,
        "seed": record.seed,
        "clips": rows["clip"].count(),
        "minutes": rows["duration_s"].sum() / 60,
        "sheet": str(out),
    }
    warnings = []
    if record.n > len(pool):
        warnings.append(f"{record.n:,} were asked for, only {len(pool):,} segments can be reviewed: all are in the sheet")
    if len(silent):
        names = silent["recording_id"].unique().sort()
        shown = ", ".join(names.head(_SHOWN_RECORDINGS)) + (", ..." if len(names) > _SHOWN_RECORDINGS else "")
        warnings.append(f"not drawn from: {len(silent):,} segments of {len(names):,} recordings that are missing ({shown})")
    if rows["clip"].count() == 0 and not failed:
        warnings.append("no audio yet: the sheet has no clips")
    problems = [f"{segment_id}: no clip, {reason}" for segment_id, reason in sorted(failed.items())]
    return Report("review export", facts, warnings=warnings, problems=problems)
