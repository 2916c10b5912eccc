"""The page of an audit: its findings with examples, and what was not checked."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from nbaudio.core.report import count, percent, show
from nbaudio.selection.audits.findings import Finding
from nbaudio.ui.statistics.page_html import Section, render_page


def audit_page(facts: Mapping[str, Any], findings: Sequence[Finding], notes: Sequence[str]) -> str:
    """Return the page as HTML that opens offline; facts are those of the report."""
    above = [finding for finding in findings if finding.is_problem]
    within = [finding for finding in findings if finding.count and not finding.is_problem]
    sections = [
        _overview(facts, above),
        *(_finding(finding) for finding in above),
        *(_finding(finding) for finding in within),
        _all_checks(findings),
    ]
    if notes:
        table = pl.DataFrame({"what": list(notes)})
        about = "Parts of the dataset, and checks, that say nothing here."
        sections.append(Section("Not read and not run", about, {"Left out": table}))
    return render_page(f"Audit of {facts['of']}", sections)


def _overview(facts: Mapping[str, Any], above: Sequence[Finding]) -> Section:
    """Return the section with amounts and the number of findings."""
    left_out = facts["left_out"]
    note_on_rows = f"{left_out:,} more are left out" if left_out else ""
    figures = [
        ("findings", show(len(above)), "checks that are above their limits"),
        ("rows", show(facts["rows"]), note_on_rows),
        ("audio", show(facts["hours"], "hours"), "by the durations that it declares"),
    ]
    if "bytes_read" in facts:
        size = show(facts["bytes_of_data"], "bytes")
        figures.append(("read", show(facts["bytes_read"], "bytes"), f"of {size}"))
    splits = pl.DataFrame(
        {"split": list(facts["splits"]), "rows": list(facts["splits"].values())},
        schema={"split": pl.String, "rows": pl.Int64},
    )
    schema = dict.fromkeys(("what", "value", "note"), pl.String)
    return Section(
        "Overview",
        f"Stored as {facts['layout']}.",
        {"Splits": splits},
        figures=pl.DataFrame(figures, schema=schema, orient="row"),
    )


def _finding(finding: Finding) -> Section:
    """Return the section of a check with what it found."""
    amount = f"{count(finding.count or 0, 'rows')}, {percent(finding.share or 0)}"
    state = "within" if finding.ok else "above"
    left_out = f" {finding.left_out:,} more are left out already." if finding.left_out else ""
    examples = pl.DataFrame({"example": list(finding.examples)}, schema={"example": pl.String})
    return Section(
        finding.check[:1].upper() + finding.check[1:],
        f"{finding.means[:1].upper()}{finding.means[1:]}: {amount}, {state} the limit of "
        f"{percent(finding.limit)}.{left_out} {finding.explained or finding.mend}",
        {"Examples": examples},
        finding=f"{amount} ({state} the limit)",
    )


def _all_checks(findings: Sequence[Finding]) -> Section:
    """Return the section with the table of all checks and their limits."""
    rows = [
        {
            "check": finding.check,
            "rows": finding.count,
            "share [%]": None if finding.share is None else round(100 * finding.share, 2),
            "limit [%]": round(100 * finding.limit, 2),
            "within limit": finding.ok,
            "left out already": finding.left_out,
            "what it counts": finding.means,
        }
        for finding in findings
    ]
    table = pl.DataFrame(rows, infer_schema_length=None)
    return Section("All checks", "Each check with its limit.", {"Checks": table})
