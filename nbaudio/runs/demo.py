"""Run the demo, and show how each problem in its corpus was caught."""

from pathlib import Path
from typing import Any

from nbaudio.core import bundled_files
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.runs.run import run


@interruptible
def demo(*, out: str | Path | None = None) -> Report:
    """Run all steps on the bundled corpus, then show how each of its problems was caught.

    Args:
        out: output folder, by default ``nbaudio-demo`` in the current folder.

    Returns:
        Paths of all outputs, how each problem of the corpus was caught, the page to open. Its
        problems are those not caught, and problems that the corpus does not contain on purpose.

    Raises:
        NbaudioError: a notebook failed.
    """
    out = Path(out if out is not None else "nbaudio-demo").absolute()
    report = run(bundled_files.bundled("data_manifests/demo.yaml"), out=out)
    from nbaudio.runs.demo_check import check_demo
    from nbaudio.tables.workspace import Workspace

    caught, problems = check_demo(out, report.problems)
    facts: dict[str, Any] = {
        name: report.facts[name] for name in ("notebooks", "html", "workspace", "corpus")
    }
    facts["made"] = {
        name: report.facts["materialize"][name] for name in ("kept", "rejected", "shards")
    }
    second_act = Workspace.open(out / "made-pairs" / "workspace").report("made_pairs")
    facts["proof_of_made_pairs"] = second_act["facts"]["after_round_2"]
    facts["troubles"] = [{"trouble": trouble, "caught": how} for trouble, how in caught.items()]
    return Report("demo", {**facts, "open": report.facts["open"]}, problems=problems)
