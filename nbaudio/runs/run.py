"""Run the notebooks in order with the parameters of a manifest."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbaudio.core.errors import NbaudioError
from nbaudio.core.report import Report
from nbaudio.corpus.versions import latest_version
from nbaudio.runs.manifests import defaults, list_notebooks, parameters, parse_only
from nbaudio.storage.urls import is_url

# Order of the steps in the report.
_STEPS = ("ingest", "score", "review", "review_import", "select", "materialize", "verify")


def run(
    manifest: str | Path,
    *,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    only: str | None = None,
) -> Report:
    """Run the notebooks in order with the parameters of a manifest.

    Run it again with the same `out` to resume: clips that have been cut are not cut again.

    Args:
        manifest: a YAML file, such as those in data_manifests.
        out: the folder for everything; the manifest's name with ``-output``, in the current folder,
            unless given.
        settings: parameters that override those of the manifest.
        only: which notebooks, such as ``1-5`` or ``2,4-6``; all unless given.

    Returns:
        Paths of all outputs, the counts of each step, and the page to open, with the warnings and
        problems of the steps.

    Raises:
        InputError: the manifest cannot be read, or a parameter is unknown.
        NbaudioError: a notebook failed; names the cell and its error. The notebook is kept up to
            that cell.
    """
    manifest = Path(manifest)
    notebooks = list_notebooks()
    chosen = parse_only(only, len(notebooks))
    values = parameters(manifest, settings or {})
    from nbaudio.runs.execute import execute, link_pages  # takes seconds to import

    out = Path(out if out is not None else f"{manifest.stem}-output").absolute()
    values = {"workspace": str(out / "workspace"), "corpus": str(out / "corpus"), **values}
    try:
        (out / "notebooks").mkdir(parents=True, exist_ok=True)
        before = _reports(Path(values["workspace"]))
        try:
            for number in chosen:
                source = notebooks[number - 1]
                print(
                    f"{number}/{len(notebooks)} {source.stem} …",
                    end=" ",
                    file=sys.stderr,
                    flush=True,
                )
                began = time.monotonic()
                try:
                    execute(
                        source,
                        out,
                        {name: values[name] for name in defaults(source) if name in values},
                    )
                finally:
                    print(f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        finally:
            index = link_pages(out, notebooks)
        after = _reports(Path(values["workspace"]))
    except OSError as error:
        raise NbaudioError(f"{error.filename or out}: {error.strerror or error}") from error
    corpus = values["corpus"]
    made = {
        "workspace": values["workspace"],
        "corpus": corpus if is_url(corpus) else latest_version(corpus),
    }
    facts: dict[str, Any] = {
        "ran": [notebooks[number - 1].stem for number in chosen],
        "notebooks": str(out / "notebooks"),
        "html": str(out / "html"),
        **{name: folder for name, folder in made.items() if Path(folder).is_dir()},
    }
    new = {
        step: report
        for step, (stamp, report) in after.items()
        if before.get(step, (None,))[0] != stamp
    }
    for step, report in new.items():
        facts[step] = {
            name: value
            for name, value in report["facts"].items()
            if type(value) in (int, float) and name != "seed"
        }
    facts["open"] = str(index)
    warnings, problems = (
        [f"{step}: {line}" for step, report in new.items() for line in report[kind]]
        for kind in ("warnings", "problems")
    )
    return Report("run", facts, warnings=warnings, problems=problems)


def _reports(workspace: Path) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return the reports of a workspace in the order of the steps.

    Each comes with the modification time of its file in nanoseconds.
    """
    paths = {path.stem: path for path in sorted((workspace / "reports").glob("*.json"))}
    order = [
        *(step for step in _STEPS if step in paths),
        *(step for step in paths if step not in _STEPS),
    ]
    return {
        step: (paths[step].stat().st_mtime_ns, json.loads(paths[step].read_text(encoding="utf8")))
        for step in order
    }
