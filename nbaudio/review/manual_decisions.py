"""Manual decisions on single segments, kept as ``W/decisions.parquet``; `select` follows them."""

from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED, Frame, as_polars
from nbaudio.tables.rejection_reasons import REASONS, segment_failures
from nbaudio.tables.row_values import ROW, with_rows
from nbaudio.tables.schemas import DECISIONS, RECORDINGS, SEGMENTS, conform
from nbaudio.tables.workspace import Workspace, locks_workspace
from nbaudio.tables.workspace_tables import table_path

BY_HAND = "by_hand"  # the reason of a manual rejection without a reason

_IMPORTED = pl.Schema({"segment_id": pl.String, "decision": pl.String, "reason": pl.String})
_STORED = pl.Schema({**_IMPORTED, "decision": SEGMENTS["decision"]})


@locks_workspace("review import-decisions")
def import_decisions(workspace: Workspace | str | Path, table: Frame) -> Report:
    """Import decisions edited in pandas or polars.

    They accept or reject single segments, whatever the rules of `select` say. An accepted segment
    passes the filters on similarity and duration, and a budget is filled with accepted ones first;
    what would be leakage, was given to reviewers, or cannot be cut stays out. ``pending`` withdraws
    a decision. Decisions hold from the next `select` until they are withdrawn; another ingest keeps
    them.

    Args:
        workspace: the workspace or its folder.
        table: with `segment_id`, `decision` (pending, accept or reject; rows without one are
            skipped) and optionally `reason`. Of an edited segments table (one with a column
            `split`, or with all segments) the rows count that differ from the workspace's; of
            another table all rows count, except those that repeat what a rule of `select` rejected.

    Returns:
        How many segments are accepted, rejected or pending now that were not before, and how many
        decisions are in force.

    Raises:
        InputError: a column is missing, an id or a decision is unknown, a segment has two different
            decisions, or the reason is a rule of `select`; then nothing is imported.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> rows = {"segment_id": ["a", "b"], "decision": ["accept", "accept"]}
        >>> workspace.save(segments=pl.DataFrame(rows))
        >>> table = workspace.to_pandas()
        >>> table.loc[table["segment_id"] == "b", ["decision", "reason"]] = "reject", "applause"
        >>> import_decisions(workspace, table).facts["rejected"]
        1
        >>> workspace.segments.select("segment_id", "decision", "reason").rows()
        [('a', 'accept', None), ('b', 'reject', 'applause')]
    """
    workspace = Workspace.open(workspace)
    rows = as_polars(table, "decisions")
    imported = _read_decisions(rows)
    has_decision = workspace_tables.has_id(imported["segment_id"])
    columns = ("segment_id", "split", "decision", "reason")
    segments = workspace_tables.read(workspace, columns, where=has_decision, row=ROW)
    is_unknown = ~workspace_tables.has_id(segments["segment_id"])
    _refuse(imported, is_unknown, f"{workspace.path} has no segment", "segment_id")
    by_rule = _is_by_select()
    is_edited_table = "split" in rows.columns or _are_all(workspace, has_decision)
    edited = _edited(imported, segments, pl.lit(is_edited_table) | by_rule)
    is_repeated = pl.col("segment_id").is_duplicated()
    _refuse(edited, is_repeated, "given twice, but differently:", "segment_id")
    _refuse(
        edited,
        by_rule,
        "the reason is a rule of select (is the table older than the last select?):",
        "reason",
    )
    if len(edited):
        _store(workspace, segments, edited)
    report = _report(edited, num_imported=len(imported), in_force=decisions(workspace))
    workspace.save_report("import_decisions", report.to_dict())
    return report


def _read_decisions(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that have a decision, as `_IMPORTED`.

    Raise InputError if a column is missing, a row has no segment, or a decision is unknown.
    """
    missing = [name for name in ("segment_id", "decision") if name not in rows.columns]
    if missing:
        raise InputError(
            f"decisions: no column {missing[0]}; columns are {', '.join(rows.columns) or 'none'}"
        )
    conformed = conform(rows, _IMPORTED, "decisions")
    imported = conformed.select(_IMPORTED.names()).drop_nulls("decision")
    _refuse(imported, pl.col("segment_id").is_null(), "rows with a decision have no segment_id")
    is_unknown = ~pl.col("decision").is_in(DECISIONS)
    allowed = f"a decision is {', '.join(DECISIONS)}; unknown are"
    _refuse(imported, is_unknown, allowed, "decision")
    return imported


def _is_by_select() -> pl.Expr:
    """Return which decisions are rejections by `select` itself."""
    reasons = sorted({*REASONS, *segment_failures(pl.DataFrame(schema=RECORDINGS))})
    is_of_select = pl.col("reason").is_in(reasons).fill_null(value=False)
    return (pl.col("decision") == "reject") & is_of_select


def _are_all(workspace: Workspace, where: pl.Expr) -> bool:
    """Return whether a condition on the id holds for all segments of a workspace."""
    ids = workspace_tables.scan(workspace, ["segment_id"])
    return bool(ids.select(where.all()).collect(**STREAMED).item())


def _report(edited: pl.DataFrame, *, num_imported: int, in_force: pl.DataFrame) -> Report:
    """Return the report on decisions that were edited, of those that were imported.

    `in_force` are the decisions in force now.
    """
    counts = dict(edited["decision"].value_counts().iter_rows())
    counts_in_force = in_force["decision"].cast(pl.String).value_counts().sort("decision")
    facts = {
        "accepted": counts.get("accept", 0),
        "rejected": counts.get("reject", 0),
        "pending": counts.get("pending", 0),
        "unchanged": num_imported - len(edited),
        "in_force": dict(counts_in_force.iter_rows()),
    }
    notes = []
    if len(edited):
        notes.append(f"{len(edited):,} decisions apply from the next select on: run it again")
    return Report("review import-decisions", facts, notes)


def decisions(workspace: Workspace | str | Path) -> pl.DataFrame:
    """Return the decisions in force.

    The columns are `segment_id`, `decision` (accept or reject) and `reason` (of rejected segments).
    """
    workspace = Workspace.open(workspace)
    path = table_path(workspace, "decisions")
    stored = conform(workspace.table("decisions", _STORED), _STORED, str(path))
    rows = stored.select(_STORED.names()).filter(pl.col("decision").is_in(["accept", "reject"]))
    return rows.unique("segment_id", keep="last", maintain_order=True)


def _refuse(rows: pl.DataFrame, where: pl.Expr, reason: str, column: str = "") -> None:
    """Raise InputError if a condition holds for any rows.

    The message names the first three values of `column` in these rows, and how many more there are.
    """
    refused = rows.filter(where)
    if refused.is_empty():
        return
    shown = ""
    if column:
        values = refused[column].unique(maintain_order=True).to_list()
        shown = f" {', '.join(map(repr, values[:3]))}"
        if len(values) > 3:
            shown += f" and {len(values) - 3:,} more"
    raise InputError(f"decisions: {reason}{shown}; nothing imported")


def _edited(imported: pl.DataFrame, segments: pl.DataFrame, compared: pl.Expr) -> pl.DataFrame:
    """Return the rows that are decisions.

    Rows that are `compared` are decisions if they differ from the segments table.
    """
    current = segments.select(
        "segment_id",
        current_decision=pl.col("decision").cast(pl.String),
        current_reason="reason",
    ).unique("segment_id", keep="first")
    rows = imported.unique(maintain_order=True).join(
        current, on="segment_id", how="left", maintain_order="left"
    )
    has_other_decision = pl.col("decision").ne_missing(pl.col("current_decision"))
    has_other_reason = (
        (pl.col("decision") == "reject")
        & pl.col("reason").is_not_null()
        & pl.col("reason").ne_missing(pl.col("current_reason"))
    )
    return rows.filter(~compared | has_other_decision | has_other_reason).select(imported.columns)


def _store(workspace: Workspace, segments: pl.DataFrame, edited: pl.DataFrame) -> None:
    """Save decisions and update the segments table.

    A segment accepted anew is pending, since it has no split yet.
    """
    is_rejected = pl.col("decision") == "reject"
    reason = pl.when(is_rejected).then(pl.col("reason").fill_null(BY_HAND))
    edited = edited.with_columns(reason=reason)
    others = decisions(workspace).join(edited, on="segment_id", how="anti", maintain_order="left")
    in_force = edited.filter(pl.col("decision") != "pending").cast(_STORED)
    new = edited.select("segment_id", new="decision", new_reason="reason")
    changed = segments.join(new, on="segment_id", maintain_order="left")
    changes = (pl.col("new") != "accept") | (pl.col("decision") != "accept")
    decision = (
        pl.when(pl.col("new") == "reject")
        .then(pl.lit("reject"))
        .otherwise(pl.lit("pending"))
        .cast(SEGMENTS["decision"])
    )
    after = changed.with_columns(
        split=pl.when(~changes).then("split"),
        decision=pl.when(changes).then(decision).otherwise("decision"),
        reason=pl.when(changes).then("new_reason").otherwise("reason"),
    )
    workspace.save_together(
        decisions=pl.concat([others, in_force]),
        segments=with_rows(workspace, after.select(ROW, "split", "decision", "reason")),
    )
