"""Run the notebooks in order with the parameters of a manifest."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbaudio.core.errors import InputError, NbaudioError
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.versions import latest_version
from nbaudio.runs.key_figures import describe_step
from nbaudio.runs.own_data import is_manifest, manifest_of_data
from nbaudio.runs.parameters import defaults, list_notebooks, parameters, parse_only
from nbaudio.runs.preflight import check_run
from nbaudio.storage.urls import is_url, redact_url

# Order of the steps in the report; others come after these, by name.
_STEPS = (
    "ingest",
    "score",
    "measure",
    "review",
    "review_import",
    "evidence",
    "select",
    "materialize",
    "verify",
)


@interruptible
def run(
    manifest: str | Path,
    *,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    only: str | None = None,
) -> Report:
    """Run the notebooks in order with the parameters of a manifest, or on a folder or file of data.

    Run it again with the same `out` to resume: clips that have been cut are not cut again.

    Args:
        manifest: a YAML file, such as those in data_manifests. Or a folder or file of transcripts
            and recordings: then their format is found out, and ``manifest.yaml`` is written in
            `out` with what was assumed.
        out: the folder for everything; the manifest's name with ``-output``, in the current folder,
            unless given.
        settings: parameters that override those of the manifest.
        only: which notebooks, such as ``1-5`` or ``2,4-6``; all unless given.

    Returns:
        Paths of all outputs, the counts of each step, and the page to open, with the warnings and
        problems of the steps.

    Raises:
        InputError: the manifest cannot be read, a parameter is unknown or not allowed, a path does
            not exist, or the format of data cannot be found out.
        NbaudioError: a notebook failed; names the cell and its error. The notebook is kept up to
            that cell.
    """
    notebooks = list_notebooks()
    chosen = parse_only(only, len(notebooks))
    name = Path(manifest).absolute().stem
    out = Path(out if out is not None else f"{name}-output").absolute()
    path = _manifest_of(manifest, out, settings or {})
    outputs = {"workspace": str(out / "workspace"), "corpus": str(out / "corpus")}
    values = outputs | parameters(path, settings or {})
    check_run(values, {name for number in chosen for name in defaults(notebooks[number - 1])})
    workspace = Path(values["workspace"])
    try:
        (out / "notebooks").mkdir(parents=True, exist_ok=True)
        before = _reports(workspace)
        index = _execute(notebooks, chosen, out, values)
        after = _reports(workspace)
    except OSError as error:
        raise NbaudioError(f"{error.filename or out}: {error.strerror or error}") from error
    new = [report for report in after if report not in before]
    facts: dict[str, Any] = {
        "ran": [notebooks[number - 1].stem for number in chosen],
        "notebooks": str(out / "notebooks"),
        "html": str(out / "html"),
        **_made_folders(values),
        **{report.step: _counts(report.content["facts"]) for report in new},
        "open": str(index),
    }
    return Report(
        "run",
        facts,
        warnings=_lines(new, "warnings"),
        problems=_lines(new, "problems"),
        sentences=_sentences(new),
    )


def _manifest_of(source: str | Path, out: Path, settings: Mapping[str, Any]) -> Path:
    """Return a manifest, or that of a folder or file of data; print what it assumes."""
    if is_url(str(source)):
        raise InputError(
            f"{redact_url(str(source))}: is a URL; name its format and source in a manifest"
        )
    if is_manifest(Path(source)):
        return Path(source)
    manifest = manifest_of_data(Path(source), out, settings)
    for line in manifest.lines:
        print(line, file=sys.stderr)
    return manifest.path


def _execute(
    notebooks: Sequence[Path], chosen: Sequence[int], out: Path, values: Mapping[str, Any]
) -> Path:
    """Execute the chosen notebooks and link their pages; return the index of the pages."""
    from nbaudio.runs.execute import execute, link_pages  # takes seconds to import

    try:
        for number in chosen:
            notebook = notebooks[number - 1]
            step = f"{number}/{len(notebooks)} {notebook.stem} …"
            print(step, end=" ", file=sys.stderr, flush=True)
            began = time.monotonic()
            notebook_values = {name: values[name] for name in defaults(notebook) if name in values}
            try:
                execute(notebook, out, notebook_values)
            except NbaudioError as error:
                raise NbaudioError(f"{error}; {_remedy(number, chosen)}") from error
            finally:
                print(f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    finally:
        index = link_pages(out, notebooks)
    return index


def _remedy(failed: int, chosen: Sequence[int]) -> str:
    """Return the command to run after the cause of a failure is removed."""
    rest = [number for number in chosen if number >= failed]
    if len(rest) == len(chosen):
        return "run the same command again to continue"
    is_range = rest == list(range(rest[0], rest[-1] + 1))
    if is_range and len(rest) > 1:
        only = f"{rest[0]}-{rest[-1]}"
    else:
        only = ",".join(map(str, rest))
    return f"run the same command with --only {only} to continue"


def _made_folders(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the workspace and the latest version of the corpus, as far as they exist here."""
    corpus = values["corpus"]
    made = {
        "workspace": values["workspace"],
        "corpus": corpus if is_url(corpus) else latest_version(corpus),
    }
    return {name: folder for name, folder in made.items() if Path(folder).is_dir()}


def _counts(facts: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the numbers among the facts of a step."""
    return {
        name: value
        for name, value in facts.items()
        if type(value) in (int, float) and name != "seed"
    }


def _sentences(reports: Sequence["_StepReport"]) -> dict[str, list[str]]:
    """Return the key figure of each step that has one."""
    figures = {
        report.step: describe_step(report.step, report.content["facts"]) for report in reports
    }
    return {step: [figure] for step, figure in figures.items() if figure}


def _lines(reports: Sequence["_StepReport"], kind: str) -> list[str]:
    """Return the warnings or problems of all reports, each with its step."""
    return [f"{report.step}: {line}" for report in reports for line in report.content[kind]]


@dataclass(frozen=True)
class _StepReport:
    """The report of a step in a workspace; `written_ns` is the modification time of its file."""

    step: str
    written_ns: int
    content: dict[str, Any] = field(compare=False)


def _reports(workspace: Path) -> list[_StepReport]:
    """Return the reports of a workspace in the order of the steps."""
    paths = {path.stem: path for path in sorted((workspace / "reports").glob("*.json"))}
    further_steps = [step for step in paths if step not in _STEPS]
    return [
        _StepReport(
            step, paths[step].stat().st_mtime_ns, json.loads(paths[step].read_text(encoding="utf8"))
        )
        for step in (*_STEPS, *further_steps)
        if step in paths
    ]
