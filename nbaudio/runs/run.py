"""All notebooks in order, and what came of them."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbaudio.core.errors import NbaudioError
from nbaudio.core.report import Report
from nbaudio.core.resources import bundled
from nbaudio.runs.manifests import defaults, list_notebooks, parameters, parse_only

# Steps in the order in which their reports are told.
_STEPS = ("ingest", "score", "review", "review_import", "select", "materialize", "verify")
_PLACES = ("notebooks", "html", "workspace", "corpus")


def run(
    manifest: str | Path,
    *,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    only: str | None = None,
) -> Report:
    """Run the notebooks in order with the parameters of a manifest.

    Run again with the same `out` it goes on: what has been cut is not cut again.

    Args:
        manifest: a YAML file, such as those in data_manifests.
        out: the folder for everything; the manifest's name with ``-output``, in the current folder, unless given.
        settings: parameters that go before the manifest's.
        only: which notebooks, such as ``1-5`` or ``2,4-6``; all unless given.

    Returns:
        Where everything is, what each step counted, and the page to open; its warnings and problems are those of the steps.

    Raises:
        InputError: the manifest cannot be read, or a parameter is not known.
        NbaudioError: a notebook failed; names the cell and what it said. It is kept up to there.
    """
    manifest = Path(manifest)
    notebooks = list_notebooks()
    chosen = parse_only(only, len(notebooks))
    values = parameters(manifest, settings or {})
    from nbaudio.runs.execute import execute  # takes seconds to import
    from nbaudio.runs.pages import link_pages

    out = Path(out if out is not None else f"{manifest.stem}-output").absolute()
    values = {"workspace": str(out / "workspace"), "corpus": str(out / "corpus"), **values}
    try:
        (out / "notebooks").mkdir(parents=True, exist_ok=True)
        before = _reports(Path(values["workspace"]))
        try:
            for number in chosen:
                source = notebooks[number - 1]
                print(f"{number}/{len(notebooks)} {source.stem} …", end=" ", file=sys.stderr, flush=True)
                began = time.monotonic()
                try:
                    execute(source, out, {name: values[name] for name in defaults(source) if name in values})
                finally:
                    print(f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        finally:
            index = link_pages(out, notebooks)
        after = _reports(Path(values["workspace"]))
    except OSError as error:
        raise NbaudioError(f"{error.filename or out}: {error.strerror or error}") from error
    facts: dict[str, Any] = {
        "ran": [notebooks[number - 1].stem for number in chosen],
        "notebooks": str(out / "notebooks"),
        "html": str(out / "html"),
        **{name: values[name] for name in ("workspace", "corpus") if Path(values[name]).is_dir()},
    }
    new = {step: report for step, (stamp, report) in after.items() if before.get(step, (None,))[0] != stamp}
    facts |= {step: _counts(report["facts"]) for step, report in new.items()} | {"open": str(index)}
    warnings, problems = (
        [f"{step}: {line}" for step, report in new.items() for line in report[kind]] for kind in ("warnings", "problems")
    )
    return Report("run", facts, warnings=warnings, problems=problems)


def demo(*, out: str | Path | None = None) -> Report:
    """Run the whole job on the bundled corpus, then show how each of its troubles was caught.

    Args:
        out: the folder for everything; ``nbaudio-demo`` in the current folder unless given.

    Returns:
        Where everything is, a line for each trouble, and the page to open. Problems are troubles that were not caught, and
        whatever went wrong that was not meant to.

    Raises:
        NbaudioError: a notebook failed.
    """
    from nbaudio.runs.demo_check import check_demo

    out = Path(out if out is not None else "nbaudio-demo").absolute()
    done = run(bundled("data_manifests/demo.yaml"), out=out)
    caught, problems = check_demo(out, done.problems)
    places: dict[str, Any] = {name: done.facts[name] for name in _PLACES if name in done.facts}
    made = {name: done.facts["materialize"][name] for name in ("kept", "rejected", "shards")}
    table = [{"trouble": trouble, "caught": how} for trouble, how in caught.items()]
    return Report("demo", places | {"made": made, "troubles": table, "open": done.facts["open"]}, problems=problems)


def _reports(workspace: Path) -> dict[str, tuple[int, dict[str, Any]]]:
    """The reports of a workspace, those of known steps first and in order, each with the time of its file."""
    paths = {path.stem: path for path in sorted((workspace / "reports").glob("*.json"))}
    order = [*(step for step in _STEPS if step in paths), *(step for step in paths if step not in _STEPS)]
    return {step: (paths[step].stat().st_mtime_ns, json.loads(paths[step].read_text(encoding="utf8"))) for step in order}


def _counts(facts: Mapping[str, Any]) -> dict[str, float]:
    numbers = {name: value for name, value in facts.items() if isinstance(value, int | float) and name != "seed"}
    return {name: value for name, value in numbers.items() if not isinstance(value, bool)}
