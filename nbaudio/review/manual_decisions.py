"""Manual decisions on single segments, kept as ``W/decisions.parquet``; `select` follows them."""

from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED, Frame, as_polars
from nbaudio.tables.row_values import ROW, with_rows
from nbaudio.tables.schemas import DECISIONS, RECORDINGS, SEGMENTS, conform
from nbaudio.tables.segment_rules import RULES, segment_failures
from nbaudio.tables.workspace import Workspace, locks_workspace
from nbaudio.tables.workspace_tables import table_path

BY_HAND = "by_hand"  # the reason of a manual rejection without a reason

_GIVEN = pl.Schema({"segment_id": pl.String, "decision": pl.String, "reason": pl.String})
_HELD = pl.Schema({**_GIVEN, "decision": SEGMENTS["decision"]})


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
    if missing := [name for name in ("segment_id", "decision") if name not in rows.columns]:
        raise InputError(
            f"decisions: no column {missing[0]}; columns are {', '.join(rows.columns) or 'none'}"
        )
    said = conform(rows, _GIVEN, "decisions").select(_GIVEN.names()).drop_nulls("decision")
    _refuse(said, pl.col("segment_id").is_null(), "rows with a decision have no segment_id")
    _refuse(
        said,
        ~pl.col("decision").is_in(DECISIONS),
        f"a decision is {', '.join(DECISIONS)}; unknown are",
        "decision",
    )
    columns = ("segment_id", "split", "decision", "reason")
    is_given = workspace_tables.has_id(said["segment_id"])
    segments = workspace_tables.read(workspace, columns, where=is_given, row=ROW)
    _refuse(
        said,
        ~workspace_tables.has_id(segments["segment_id"]),
        f"{workspace.path} has no segment",
        "segment_id",
    )
    rules = sorted({*RULES, *segment_failures(pl.DataFrame(schema=RECORDINGS))})
    by_rule = (pl.col("decision") == "reject") & pl.col("reason").is_in(rules).fill_null(
        value=False
    )
    whole = (
        "split" in rows.columns
        or workspace_tables.scan(workspace, ["segment_id"])
        .select(is_given.all())
        .collect(**STREAMED)
        .item()
    )
    edited = _edited(said, segments, pl.lit(whole) | by_rule)
    _refuse(
        edited, pl.col("segment_id").is_duplicated(), "given twice, but differently:", "segment_id"
    )
    _refuse(
        edited,
        by_rule,
        "the reason is a rule of select (is the table older than the last select?):",
        "reason",
    )
    if len(edited):
        _take(workspace, segments, edited)
    count = dict(edited["decision"].value_counts().iter_rows())
    facts = {
        **{
            name: count.get(name.removesuffix("ed"), 0)
            for name in ("accepted", "rejected", "pending")
        },
        "unchanged": len(said) - len(edited),
        "in_force": dict(
            decisions(workspace)["decision"]
            .cast(pl.String)
            .value_counts()
            .sort("decision")
            .iter_rows()
        ),
    }
    notes = (
        [f"{len(edited):,} decisions apply from the next select on: run it again"]
        if len(edited)
        else []
    )
    report = Report("review import-decisions", facts, notes)
    workspace.save_report("import_decisions", report.to_dict())
    return report


def decisions(workspace: Workspace | str | Path) -> pl.DataFrame:
    """Return the decisions in force.

    The columns are `segment_id`, `decision` (accept or reject) and `reason` (of rejected segments).
    """
    workspace = Workspace.open(workspace)
    held = conform(
        workspace.table("decisions", _HELD), _HELD, str(table_path(workspace, "decisions"))
    ).select(_HELD.names())
    return held.filter(pl.col("decision").is_in(["accept", "reject"])).unique(
        "segment_id", keep="last", maintain_order=True
    )


def _refuse(said: pl.DataFrame, wrong: pl.Expr, what: str, column: str = "") -> None:
    """Raise InputError if any rows are wrong.

    The message names the first three values of `column` in these rows, and how many more there are.
    """
    found = said.filter(wrong)
    if found.is_empty():
        return
    values = found[column].unique(maintain_order=True).to_list() if column else []
    more = f" and {len(values) - 3:,} more" if len(values) > 3 else ""
    raise InputError(
        f"decisions: {what}{' ' * bool(values)}{', '.join(map(repr, values[:3]))}{more}; "
        "nothing imported"
    )


def _edited(said: pl.DataFrame, segments: pl.DataFrame, compared: pl.Expr) -> pl.DataFrame:
    """Return the rows that are decisions.

    Rows that are `compared` are decisions if they differ from the segments table.
    """
    now = segments.select(
        "segment_id", was=pl.col("decision").cast(pl.String), why="reason"
    ).unique("segment_id", keep="first")
    both = said.unique(maintain_order=True).join(
        now, on="segment_id", how="left", maintain_order="left"
    )
    other_reason = (
        (pl.col("decision") == "reject")
        & pl.col("reason").is_not_null()
        & pl.col("reason").ne_missing(pl.col("why"))
    )
    return both.filter(
        ~compared | pl.col("decision").ne_missing(pl.col("was")) | other_reason
    ).select(said.columns)


def _take(workspace: Workspace, segments: pl.DataFrame, edited: pl.DataFrame) -> None:
    """Save decisions and update the segments table.

    A segment accepted anew is pending, since it has no split yet.
    """
    rejected = pl.col("decision") == "reject"
    edited = edited.with_columns(reason=pl.when(rejected).then(pl.col("reason").fill_null(BY_HAND)))
    others = decisions(workspace).join(edited, on="segment_id", how="anti", maintain_order="left")
    held = pl.concat([others, edited.filter(pl.col("decision") != "pending").cast(_HELD)])
    new = edited.select("segment_id", new="decision", why="reason")
    both = segments.join(new, on="segment_id", maintain_order="left")
    changes = (pl.col("new") != "accept") | (pl.col("decision") != "accept")
    shown = (
        pl.when(pl.col("new") == "reject")
        .then(pl.lit("reject"))
        .otherwise(pl.lit("pending"))
        .cast(SEGMENTS["decision"])
    )
    after = both.with_columns(
        split=pl.when(~changes).then("split"),
        decision=pl.when(changes).then(shown).otherwise("decision"),
        reason=pl.when(changes).then("why").otherwise("reason"),
    )
    workspace.save_together(
        decisions=held,
        segments=with_rows(workspace, after.select(ROW, "split", "decision", "reason")),
    )
