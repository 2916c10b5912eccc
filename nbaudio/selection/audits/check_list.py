"""All checks of an audit, in the order of the report."""

from collections.abc import Mapping, Sequence
from functools import partial

from nbaudio.core.errors import InputError, get_by_name
from nbaudio.selection.audits import metadata_checks, signal_checks, split_checks, text_checks
from nbaudio.selection.audits.audited import Audited
from nbaudio.selection.audits.findings import (
    Check,
    Finding,
    Hits,
    Settings,
    example_rows,
    not_run,
    run_check,
)
from nbaudio.selection.avoid import AvoidedData
from nbaudio.tables.split_names import in_training

CHECKS: tuple[Check, ...] = (
    *split_checks.CHECKS,
    *text_checks.CHECKS,
    *metadata_checks.CHECKS,
    *signal_checks.CHECKS,
)


def check_limits(limits: Mapping[str, float]) -> None:
    """Raise InputError for a limit of an unknown check, or one that is no share."""
    for name, limit in limits.items():
        get_by_name({check.name: check for check in CHECKS}, name, "check")
        if not 0 <= limit <= 1:
            raise InputError(f"limit of {name!r}: expected a share between 0 and 1, not {limit!r}")


def run_checks(audited: Audited, settings: Settings, limits: Mapping[str, float]) -> list[Finding]:
    """Run all checks; `limits` replace those of checks by name."""
    findings = []
    for check in CHECKS:
        if check.name == "declared against real rows" and not audited.declared:
            findings.append(not_run(check, "nothing is declared"))
            continue
        findings.append(run_check(check, audited, settings, limits.get(check.name, check.limit)))
    return findings


def run_avoid_checks(
    audited: Audited, others: Sequence[AvoidedData], settings: Settings
) -> list[Finding]:
    """Return a finding for each of other data: rows that share a sentence or audio with it.

    Only rows that may be trained on count, where there are splits.
    """
    findings = []
    for other in others:
        check = Check(
            f"shared with {other.name}",
            "rows for training that share a sentence, a near sentence or a clip with it",
            0.0,
            "Leave them out: nbaudio select W --avoid OTHER.",
            partial(_shared_with, other),
            ("text",),
        )
        findings.append(run_check(check, audited, settings, check.limit))
    return findings


def _shared_with(other: AvoidedData, audited: Audited, _: Settings) -> Hits:
    """Return the rows for training that share something with other data, with what it is."""
    shipped = audited.shipped
    rows = shipped.filter(in_training(shipped["split"].fill_null("train")))
    reasons = other.reasons(rows.select("text", "audio_sha256", *other.ids))
    shared_what = reasons.str.strip_prefix("avoided_").str.replace_all("_", " ", literal=True)
    shared = rows.with_columns(shares=shared_what).drop_nulls("shares")
    return Hits(len(shared), len(rows), example_rows(shared, "shares", "text"))
