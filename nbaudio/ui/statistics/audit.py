"""Audit a workspace, a corpus or any published dataset: a list of checks, each with its limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.atomic import write_bytes
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.selection.audits.audited import Audited
from nbaudio.selection.audits.check_list import check_limits, run_avoid_checks, run_checks
from nbaudio.selection.audits.decoded_sample import with_decoded_sample
from nbaudio.selection.audits.drawn_segments import with_drawn_segments
from nbaudio.selection.audits.findings import Finding, Settings
from nbaudio.selection.avoid import read_avoided
from nbaudio.sources.other_data import Other
from nbaudio.sources.published import read_published
from nbaudio.tables.split_names import ordered_splits
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.statistics.audit_target import as_audited, open_ours


@interruptible
def audit(
    target: str | Path,
    *,
    avoid: Sequence[Other] = (),
    out: str | Path | None = None,
    config: str | None = None,
    columns: Mapping[str, str] | None = None,
    limits: Mapping[str, float] | None = None,
    max_duration: float = 30.0,
    audio: int = 0,
) -> Report:
    """Check a workspace, a corpus or a published dataset; its audio is read only with `audio`.

    Only columns that checks need are read, by ranges, also of a dataset with embedded audio.
    Checks that need samples are run on a drawn sample, and are named as not run without one.

    Args:
        target: a workspace or corpus; or a dataset in Parquet, WebDataset tars or an AudioFolder,
            or a manifest of NeMo, Kaldi, lhotse or another format of `ingest`; at a path or URL,
            such as ``hf://datasets/OWNER/NAME``.
        avoid: test sets and other data with which rows for training must not share a sentence, a
            near sentence or a clip, as for `select`.
        out: a page to write, .html, which opens offline; an existing file is replaced.
        config: the configuration of a dataset of Hugging Face with several; the first by default.
        columns: by field, such as ``text`` or ``speaker_id``, the column that holds it, where it
            has no usual name.
        limits: by check, the largest share of rows that is no finding, in place of the default.
        max_duration: seconds of the longest clip that a model takes.
        audio: number of clips of a published dataset, or segments of a workspace that `measure`
            has not measured, to draw and decode. Of a corpus none are: `verify` decodes them.

    Returns:
        The facts have `findings`, one row a check. Findings above their limits are problems.

    Raises:
        InputError: the target cannot be read, names of an option are unknown, or an option is for
            published datasets only.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> rows = {"id": ["a", "b"], "text": ["dobar dan", "dobar dan"], "speaker": ["x", "y"]}
        >>> frame = pl.DataFrame(rows)
        >>> frame[:1].write_parquet(folder / "train-00000-of-00001.parquet")
        >>> frame[1:].write_parquet(folder / "test-00000-of-00001.parquet")
        >>> shared = audit(folder).facts["findings"][2]
        >>> shared["check"], shared["count"], shared["share"], shared["ok"]
        ('splits share sentences', 1, 1.0, False)
    """
    check_limits(limits or {})
    page = _checked_page(out)
    if isinstance(avoid, str | Path):
        avoid = [avoid]
    others = read_avoided(list(avoid))
    ours = open_ours(target)
    if ours is None:
        reading = _read_dataset(target, config, columns, num_decoded=audio)
    else:
        _check_no_dataset_options(ours, config, columns)
        if audio:
            ours = _with_audio(ours, target, audio)
        reading = _Reading(ours, {})
    settings = Settings(max_duration)
    findings = [
        *run_checks(reading.audited, settings, limits or {}),
        *run_avoid_checks(reading.audited, others, settings),
    ]
    report = _report(reading.audited, findings, reading.facts)
    if page is None:
        return report
    from nbaudio.ui.statistics.audit_page import audit_page  # matplotlib takes a second to import

    write_bytes(page, audit_page(report.facts, findings, report.warnings).encode())
    return replace(report, facts={**report.facts, "page": str(page)})


@dataclass(frozen=True)
class _Reading:
    """What is audited, and the facts of the report about how it was read."""

    audited: Audited
    facts: dict[str, Any]


def _check_no_dataset_options(
    ours: Audited, config: str | None, columns: Mapping[str, str] | None
) -> None:
    """Raise InputError for an option that applies to published datasets only."""
    for option, value in (("config", config), ("columns", columns)):
        if value:
            raise InputError(
                f"{option}: is for datasets that others published, not for a {ours.layout}"
            )


def _with_audio(ours: Audited, target: str | Path, number: int) -> Audited:
    """Return a workspace with the signals of `number` drawn segments, which are decoded.

    A workspace that `measure` has measured has the signals of all segments, and of a corpus none
    are decoded here: these are returned with a note that says so.
    """
    if ours.has("silence_share"):
        note = "--audio draws nothing: 'nbaudio measure' has measured the audio, and all is read"
        return replace(ours, notes=[*ours.notes, note])
    if ours.layout == "corpus":
        note = "audio: not read; 'nbaudio verify' decodes the clips of a corpus"
        return replace(ours, notes=[*ours.notes, note])
    return replace(ours, rows=with_drawn_segments(ours.rows, Workspace.open(target), number))


def _read_dataset(
    target: str | Path, config: str | None, columns: Mapping[str, str] | None, *, num_decoded: int
) -> _Reading:
    """Read the columns of a published dataset; fetch and decode `num_decoded` of its clips."""
    files = DatasetFiles.at(target)
    published = read_published(files, configuration=config, options=columns)
    audited = as_audited(target, published)
    if num_decoded:
        rows = with_decoded_sample(audited.rows, files, num_decoded)
        audited = replace(audited, rows=rows)
    facts = {
        "columns": [{"name": name, "column": column} for name, column in published.columns.items()],
        "bytes_read": files.totals.num_bytes,  # those of the clips included
        "bytes_of_data": published.num_bytes,
    }
    return _Reading(audited, facts)


def _checked_page(out: str | Path | None) -> Path | None:
    """Return the path of the page to write, if any; raise InputError unless it ends in .html."""
    if out is None:
        return None
    page = Path(out)
    if page.suffix.lower() != ".html":
        raise InputError(f"{page}: a page is written as .html")
    return page


def _report(
    audited: Audited, findings: Sequence[Finding], facts_of_reading: Mapping[str, Any]
) -> Report:
    """Return the report of an audit: amounts, the table of findings, and what is above a limit."""
    above = [finding for finding in findings if finding.is_problem]
    intended = [
        f"{finding.check}: {finding.count:,}, as {finding.explained}"
        for finding in findings
        if finding.ok is False and finding.explained
    ]
    not_run = [
        f"not run: {finding.check} ({finding.mend.removeprefix('not run: ')})"
        for finding in findings
        if finding.ok is None
    ]
    facts = {
        "of": audited.name.rstrip("/"),
        "layout": audited.layout,
        **_amounts(audited.rows),
        **facts_of_reading,
        "left_out_by_reason": _reasons(audited.rows),
        "findings": [finding.to_dict() for finding in findings],
        "above_their_limits": len(above),
    }
    not_read = [f"not read: {line}" for line in audited.not_read]
    notes = [*not_read, *audited.notes, *intended, *not_run]
    problems = [*audited.problems, *(finding.sentence() for finding in above)]
    return Report("audit", facts, notes, problems)


def _reasons(rows: pl.DataFrame) -> dict[str, int]:
    """Return how many rows a selection left out by reason, the most frequent first."""
    left_out = rows.filter("is_left_out")["reason"].drop_nulls()
    counted = left_out.value_counts().sort("count", "reason", descending=[True, False])
    return dict(counted.iter_rows())


def _amounts(rows: pl.DataFrame) -> dict[str, Any]:
    """Return the numbers of rows and of those left out, the hours, and the rows of each split.

    Rows that a selection left out are in none of the others; rows without a duration have no hours.
    """
    shipped = rows.filter(~pl.col("is_left_out"))
    counts = dict(shipped.group_by("split").len().iter_rows())
    seconds = shipped["duration_s"].filter(shipped["duration_s"].is_finite()).sum()
    return {
        "rows": len(shipped),
        "left_out": len(rows) - len(shipped),
        "hours": round(float(seconds or 0) / 3600, 4),
        "splits": {split: counts[split] for split in ordered_splits(counts)},
    }
