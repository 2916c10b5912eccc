"""Apply reviewers' corrections of texts and bounds, and revert them.

The corrections in the logs are applied to the segments table.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.report import Report, first_lines
from nbaudio.review.state import (
    CORRECTION_LOG,
    OK,
    VERDICT_LOG,
    ReviewState,
    content_hashes,
    corrections,
)
from nbaudio.tables import workspace_tables
from nbaudio.tables.row_values import ROW, with_rows
from nbaudio.tables.schemas import (
    AGREEMENT,
    CORRECTED_TEXTS,
    SIGNALS,
    WORD_TIMES,
    is_score,
    text_column,
)
from nbaudio.tables.workspace import Workspace, locks_workspace
from nbaudio.text.normalization import nfc
from nbaudio.text.score import rescored

_CORRECTIONS = {"segment_id": pl.String, "text_corrected": pl.String, "text_origin": pl.String}


@locks_workspace("review correct-texts")
def correct_texts(workspace: Workspace | str | Path | ReviewState) -> Report:
    """Apply corrected texts that hold to the segments table, and revert those that no longer do.

    A correction is applied if it is the only one, nobody says that the transcript is ok, and the
    segment is still as it was judged; an applied one stays. It is scored with the normalization
    steps of the last `score`. The report has how many hold and how many rows changed; its problems
    are the segments whose correction was not applied.

    Examples:
        >>> import tempfile
        >>> from nbaudio.review import Verdict, append_verdicts
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> rows = {"segment_id": ["s"], "text": ["evo blic"], "asr_text": ["evo blitz"]}
        >>> workspace.save(segments=pl.DataFrame(rows))
        >>> [content] = content_hashes(workspace.segments)
        >>> time = "2026-11-21T03:00:00Z"
        >>> verdict = Verdict("s", content, "wrong words", "", "evo blitz", "ana", time, "sheet")
        >>> append_verdicts(workspace, [verdict])
        >>> correct_texts(workspace).facts["corrected_now"]
        1
        >>> workspace.segments.select("text", "text_raw", "text_origin").rows()
        [('evo blitz', 'evo blic', 'ana (sheet)')]
        >>> uncorrected(workspace, workspace.segments)["text"].to_list()
        ['evo blic']
    """
    state = ReviewState.load(workspace)
    # The segments whose text is corrected, or said to be wrong.
    where = workspace_tables.has_id(
        state.verdicts.filter(pl.col("corrected_text").is_not_null())["segment_id"]
    )
    if "text_corrected" in workspace_tables.table_schema(state.workspace):
        where |= pl.col("text_corrected").is_not_null()
    segments = workspace_tables.read(state.workspace, where=where, row=ROW)
    before = uncorrected(state, segments)
    agreed = _agreed_corrections(before, segments, state.verdicts)
    before = before.drop("text_corrected", "text_origin", strict=False)
    before = before.join(agreed.corrections, on="segment_id", how="left", maintain_order="left")
    rows = text_column(segments, "text_corrected").ne_missing(before["text_corrected"]).arg_true()
    if len(rows):
        after = _rewritten(state.workspace, segments, before, rows)
        fresh = (
            before[rows]
            .filter(pl.col("text_corrected").is_not_null())
            .select("segment_id", "text", *_scores(segments))
        )
        originals = pl.concat([fresh, state.original_texts], how="diagonal")
        originals = originals.unique("segment_id", keep="first", maintain_order=True)
        # First the old values, then the new ones: a kill in between loses neither.
        state.workspace.save(**{CORRECTED_TEXTS: originals})
        state.workspace.save(segments=with_rows(state.workspace, after))
    facts = {"corrected_texts": before["text_corrected"].count(), "corrected_now": len(rows)}
    problems = first_lines(agreed.problems, VERDICT_LOG)
    warnings = _stale_columns(state.workspace, num_changed=len(rows))
    report = Report("review correct-texts", facts, warnings, problems)
    state.workspace.save_report("correct_texts", report.to_dict())
    return report


def _stale_columns(workspace: Workspace, *, num_changed: int) -> list[str]:
    """Return a line for each column of a model that gets texts, if some of them changed."""
    return [
        f"{column} is from the texts before: run nbaudio measure again with {record['with']}"
        f" --as {record['name']}"
        for column, record in workspace.measured_columns.items()
        if num_changed and "text" in record["inputs"]["columns"]
    ]


def uncorrected(workspace: Workspace | ReviewState, segments: pl.DataFrame) -> pl.DataFrame:
    """Return rows of the segments table as they were given to reviewers.

    Texts, scores and bounds are those from before corrections.
    """
    state = ReviewState.load(workspace)
    segments = _uncorrected_bounds(state, segments)
    corrected = segments.filter(text_column(segments, "text_corrected").is_not_null()).select(
        "segment_id"
    )
    if corrected.is_empty():
        return segments
    names = [name for name in ("text", *_scores(segments)) if name in state.original_texts.columns]
    old = state.original_texts.select("segment_id", *names).join(
        corrected, on="segment_id", how="semi"
    )
    return segments.update(old, on="segment_id", include_nulls=True, maintain_order="left")


@locks_workspace("review correct-bounds")
def correct_bounds(workspace: Workspace | str | Path) -> Report:
    """Apply the corrected boundaries to the segments table.

    Word times move with the start; signals and values of models are dropped until the next
    `measure`. Called again it changes nothing. The report has how many segments were corrected now
    and before, and by how many seconds now; a correction is a problem, and not applied, if the
    table no longer has its old bounds.

    Examples:
        >>> import tempfile
        >>> from nbaudio.review.state import Correction, append_corrections
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> row = {"segment_id": "s", "recording_id": "r", "start_sample": 100, "end_sample": 900}
        >>> recordings = pl.DataFrame({"recording_id": ["r"], "sampling_rate": [100]})
        >>> workspace.save(recordings=recordings, segments=pl.DataFrame([row]))
        >>> correction = Correction("s", 80, 900, 100, 900, "ana", "2026-11-21T03:00:00Z")
        >>> append_corrections(workspace, [correction])
        >>> correct_bounds(workspace).facts["corrected_now"]
        1
        >>> workspace.segments["start_sample"].to_list()
        [80]
    """
    workspace = Workspace.open(workspace)
    logged = _logged_bounds(workspace)
    is_done = _has_bounds("new_start", "new_end")
    is_as_it_was = _has_bounds("was_start", "was_end")
    todo = logged.filter(is_as_it_was & ~is_done)
    changed = logged.filter(~(is_as_it_was | is_done).fill_null(value=False))
    if len(todo):
        measured = workspace.measured_columns
        workspace.save(segments=with_rows(workspace, _with_new_bounds(todo, measured)))
    moved = sum((pl.col(f"new_{side}") - pl.col(f"was_{side}")).abs() for side in ("start", "end"))
    facts = {
        "corrected_now": len(todo),
        "corrected_before": logged.filter(is_done).height,
        "seconds_moved_now": todo.select((moved / pl.col("rate")).sum()).item(),
    }
    problems = [
        f"{segment_id}: its bounds are no longer those that were corrected"
        for segment_id in changed["segment_id"]
    ]
    report = Report("review correct-bounds", facts, problems=first_lines(problems, CORRECTION_LOG))
    workspace.save_report("correct_bounds", report.to_dict())
    return report


def _logged_bounds(workspace: Workspace) -> pl.DataFrame:
    """Return the segments with corrected bounds, a row for each line of the log.

    Beside the columns of the segments table, there are `new_start` and `new_end`, `was_start` and
    `was_end` in samples, `by`, the reviewer, and the `rate` of the recording in Hz.
    """
    log = corrections(workspace).drop("time")
    log = log.rename({"start_sample": "new_start", "end_sample": "new_end", "reviewer": "by"})
    is_corrected = workspace_tables.has_id(log["segment_id"])
    segments = workspace_tables.read(workspace, where=is_corrected, row=ROW)
    rates = workspace.recordings.select("recording_id", rate="sampling_rate")
    logged = segments.join(log, on="segment_id", maintain_order="left")
    return logged.join(rates, on="recording_id", how="left")


def _has_bounds(start: str, end: str) -> pl.Expr:
    """Return which segments begin and end at the samples in two columns."""
    return (pl.col("start_sample") == pl.col(start)) & (pl.col("end_sample") == pl.col(end))


def _with_new_bounds(segments: pl.DataFrame, measured: Iterable[str]) -> pl.DataFrame:
    """Return the columns of `_logged_bounds` that change: bounds, word times, signals.

    `measured` are the columns of models, which change, too.
    """
    dropped = {*SIGNALS, *measured}
    signals = (
        pl.lit(None, dtype).alias(name)
        for name, dtype in segments.schema.items()
        if name in dropped
    )
    return segments.select(
        ROW,
        _moved_words(segments),
        *signals,
        start_sample="new_start",
        end_sample="new_end",
        corrected_by="by",
    )


@dataclass(frozen=True)
class _Agreed:
    """The corrections that reviewers agree on (`_CORRECTIONS`), and why others do not apply."""

    corrections: pl.DataFrame
    problems: list[str]


@dataclass(frozen=True)
class _Versions:
    """The content hashes of a segment before corrections and now, and its corrected text.

    Hashes are None if there is no such segment, the text is None if it is not corrected.
    """

    before: str | None
    now: str | None
    text_corrected: str | None


def _agreed_corrections(before: pl.DataFrame, now: pl.DataFrame, verdicts: pl.DataFrame) -> _Agreed:
    """Return the corrections to apply to segments, as they were `before` and are `now`."""
    concerned = verdicts.filter(pl.col("corrected_text").is_not_null().any().over("segment_id"))
    is_concerned = pl.col("segment_id").is_in(concerned["segment_id"].implode())
    before = before.filter(is_concerned).unique("segment_id", keep="first")
    now = now.filter(is_concerned).unique("segment_id", keep="first")
    hashes_before = dict(zip(before["segment_id"], content_hashes(before), strict=True))
    hashes_now = dict(zip(now["segment_id"], content_hashes(now), strict=True))
    texts_now = dict(zip(now["segment_id"], text_column(now, "text_corrected"), strict=True))
    rows = []
    problems = []
    for (segment_id,), on_segment in concerned.group_by("segment_id", maintain_order=True):
        key = str(segment_id)
        versions = _Versions(hashes_before.get(key), hashes_now.get(key), texts_now.get(key))
        # The correction of a corrected text replaces the first one.
        latest = on_segment.filter(pl.col("corrected_text").is_not_null()).unique(
            "reviewer", keep="last", maintain_order=True
        )
        problem = _problem(on_segment, latest, versions)
        if problem:
            problems.append(f"{key}: {problem}")
        else:
            reviews = ", ".join(sorted(set(latest["review"])))
            rows.append((key, nfc(latest["corrected_text"][0]), f"{_names(latest)} ({reviews})"))
    return _Agreed(pl.DataFrame(rows, schema=_CORRECTIONS, orient="row"), problems)


def _problem(on_segment: pl.DataFrame, latest: pl.DataFrame, versions: _Versions) -> str:
    """Return why a correction is not applied, empty if it is.

    Args:
        on_segment: the verdicts on a segment.
        latest: the last correction of each reviewer among them.
        versions: of the segment.
    """
    texts = {nfc(text) for text in latest["corrected_text"]}
    if len(texts) > 1:
        return f"{_names(latest)} correct its text differently: not applied until they agree"
    # An ok on the corrected text does not contradict the correction.
    is_ok = on_segment.filter(verdict=OK, content=versions.before or "")
    if len(is_ok):
        return (
            f"{_names(is_ok)} says ok, {_names(latest)} corrects the text: "
            "not applied until they agree"
        )
    is_applied = {versions.text_corrected} == texts
    if not is_applied and not set(latest["content"]) <= {versions.before, versions.now}:
        return f"has changed since {_names(latest)} corrected it: not applied"
    return ""


def _names(verdicts: pl.DataFrame) -> str:
    """Return the names of the reviewers of verdicts."""
    return ", ".join(sorted(verdicts["reviewer"]))


def _scores(segments: pl.DataFrame) -> list[str]:
    """Return the columns that follow a corrected text, and that `uncorrected` restores."""
    return [name for name in segments.columns if is_score(name) and name != "asr_text_normalized"]


def _rewritten(
    workspace: Workspace, segments: pl.DataFrame, before: pl.DataFrame, rows: pl.Series
) -> pl.DataFrame:
    """Return the table with some rows (by number) restored to `before`.

    Where `before` has a `text_corrected`, the row is then corrected.
    """
    corrected = pl.col("text_corrected").is_not_null()
    new = before[rows].with_columns(
        text=pl.coalesce("text_corrected", "text"),
        text_raw=pl.when(corrected).then(pl.coalesce("text_raw", "text")).otherwise("text_raw"),
    )
    scores = rescored(workspace, new)
    names = _scores(segments)
    columns = {name: pl.Series([None] * len(new), dtype=new.schema[name]) for name in names}
    columns |= {name: scores[name] for name in names if name in scores}
    is_followed = {name: corrected & pl.col(_guard(name)).is_not_null() for name in names}
    new = new.with_columns(
        pl.when(is_followed[name]).then(columns[name]).otherwise(name).alias(name) for name in names
    )
    written = ("text", *names, "text_raw", "text_corrected", "text_origin")
    return segments.with_columns(
        text_column(segments, name).scatter(rows, new[name]) for name in written
    )


def _guard(score: str) -> str:
    """Return the column without which a score stays null when the text is corrected.

    Unscored segments stay unscored; a normal form follows its text in any case.
    """
    if score in AGREEMENT:
        return "agreement"
    if score == "text_normalized":
        return "text"
    return re.sub(r"^(spoken_)?(wer|cer|similarity)", "similarity", score)


def _uncorrected_bounds(state: ReviewState, segments: pl.DataFrame) -> pl.DataFrame:
    """Return segments with their boundaries from before any correction, and `corrected_by` null."""
    if "corrected_by" not in segments.columns or not segments["corrected_by"].count():
        return segments
    moved = segments.with_row_index("row").filter(pl.col("corrected_by").is_not_null())
    bounds = {
        key: (start, end)
        for key, start, end in moved.select("segment_id", "start_sample", "end_sample").iter_rows()
    }
    # Corrected twice, a segment has two lines: the later one begins where the earlier one ends.
    log = state.correction_log.select(
        "segment_id", "start_sample", "end_sample", "was_start", "was_end"
    )
    for key, start, end, was_start, was_end in log.reverse().iter_rows():
        if bounds.get(key) == (start, end):
            bounds[key] = (was_start, was_end)
    starts, ends = zip(*(bounds[key] for key in moved["segment_id"]), strict=True)
    moved = moved.with_columns(
        new_start=pl.Series(starts, dtype=pl.Int64), new_end=pl.Series(ends, dtype=pl.Int64)
    )
    back = moved.select("row", start_sample="new_start", end_sample="new_end")
    if "word_times" in segments.columns:
        rates = state.workspace.recordings.select("recording_id", rate="sampling_rate")
        back = back.with_columns(
            _moved_words(moved.join(rates, on="recording_id", how="left", maintain_order="left"))
        )
    restored = (
        segments.with_row_index("row").update(back, on="row", maintain_order="left").drop("row")
    )
    return restored.with_columns(corrected_by=pl.lit(None, dtype=pl.String))


def _moved_words(segments: pl.DataFrame) -> pl.Series:
    """Return the word times, counted from `new_start` instead of `start_sample`."""

    def moved(row: Mapping[str, Any]) -> Any:
        if row["word_times"] is None or not row["rate"]:
            return row["word_times"]
        shift = (row["start_sample"] - row["new_start"]) / row["rate"]
        return [
            {"start": time["start"] + shift, "end": time["end"] + shift}
            for time in row["word_times"]
        ]

    return pl.Series(
        "word_times", [moved(row) for row in segments.iter_rows(named=True)], dtype=WORD_TIMES
    )
