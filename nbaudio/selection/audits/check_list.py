"""All checks of an audit, in the order of the report."""

from collections.abc import Mapping

from nbaudio.core.errors import InputError, get_by_name
from nbaudio.selection.audits import metadata_checks, split_checks, text_checks
from nbaudio.selection.audits.audited import Audited
from nbaudio.selection.audits.findings import Check, Finding, Settings, not_run, run_check

CHECKS: tuple[Check, ...] = (
    *split_checks.CHECKS,
    *text_checks.CHECKS,
    *metadata_checks.CHECKS,
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
