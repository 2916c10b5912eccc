"""Run the notebooks in order with the parameters of a manifest."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbaudio.core.errors import InputError, NbaudioError
from nbaudio.core.report import Report
from nbaudio.corpus.versions import latest_version
from nbaudio.runs.key_figures import describe_step
from nbaudio.runs.own_data import is_manifest, manifest_of_data
from nbaudio.runs.parameters import defaults, list_notebooks, parameters, parse_only
from nbaudio.runs.preflight import check_modules, check_run
from nbaudio.runs.server_process import KernelServer
from nbaudio.storage.urls import is_url, redact_url

if TYPE_CHECKING:
    from nbaudio.runs.execute import PageWriter
    from nbaudio.runs.kernels import RunKernels

_TURN_S = 0.0005  # a tenth of Python's seconds for the turn of a thread
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


@dataclass(frozen=True)
class _StepReport:
    """What a step stored about itself in the workspace."""

    step: str
    facts: dict[str, Any]
    warnings: list[str]
    problems: list[str]


def run_manifest(
    manifest: str | Path,
    *,
    out: str | Path | None,
    settings: Mapping[str, Any],
    only: str | None,
    server: KernelServer | None,
) -> Report:
    """Run the notebooks as `nbaudio.run` does.

    Args:
        manifest: as of `nbaudio.run`.
        out: as of `nbaudio.run`.
        settings: as of `nbaudio.run`.
        only: as of `nbaudio.run`.
        server: forks the kernels; None: each is a new interpreter.

    Returns:
        The report of `nbaudio.run`.

    Raises:
        InputError: as by `nbaudio.run`.
        NbaudioError: as by `nbaudio.run`.
    """
    notebooks = list_notebooks()
    numbers = parse_only(only, len(notebooks))
    name = Path(manifest).absolute().stem
    out = Path(out if out is not None else f"{name}-output").absolute()
    manifest_path = _manifest_path(manifest, out, settings)
    values = {
        "workspace": str(out / "workspace"),
        "corpus": str(out / "corpus"),
        **parameters(manifest_path, settings),
    }
    needed = {name for number in numbers for name in defaults(notebooks[number - 1])}
    check_run(values, needed)
    check_modules(values, needed, out)
    workspace = Path(values["workspace"])
    try:
        (out / "notebooks").mkdir(parents=True, exist_ok=True)
        earlier_times = _report_times(workspace)
        index_page = _execute(notebooks, numbers, out, values, needed=needed, server=server)
        step_reports = _new_reports(workspace, earlier_times)
    except OSError as error:
        raise NbaudioError(f"{error.filename or out}: {error.strerror or error}") from error
    facts: dict[str, Any] = {
        "ran": [notebooks[number - 1].stem for number in numbers],
        "notebooks": str(out / "notebooks"),
        "html": str(out / "html"),
        **_output_folders(values),
        **{report.step: _counts(report.facts) for report in step_reports},
        "open": str(index_page),
    }
    return _report(facts, step_reports)


def _report(facts: dict[str, Any], step_reports: Sequence[_StepReport]) -> Report:
    """Return the report of a run, with the warnings and problems of its steps."""
    return Report(
        "run",
        facts,
        warnings=[f"{report.step}: {line}" for report in step_reports for line in report.warnings],
        problems=[f"{report.step}: {line}" for report in step_reports for line in report.problems],
        sentences=_key_figures(step_reports),
    )


def _manifest_path(source: str | Path, out: Path, settings: Mapping[str, Any]) -> Path:
    """Return the path of a manifest.

    `source` is a manifest, or a folder or file of data: then the manifest is written in `out`, and
    what it assumes is printed.
    """
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
    notebooks: Sequence[Path],
    numbers: Sequence[int],
    out: Path,
    values: Mapping[str, Any],
    *,
    needed: Set[str],
    server: KernelServer | None,
) -> Path:
    """Execute the notebooks with these numbers, from 1, and link their pages.

    `needed` are the names of their parameters. Return the path of the page that lists them.
    """
    from nbaudio.runs.execute import PageWriter, link_pages
    from nbaudio.runs.kernels import run_kernels

    _begin_proof(server, values, needed)
    pages = PageWriter(out)
    names = [notebooks[number - 1].stem for number in numbers]
    with _short_turns(), run_kernels(server, out, names) as kernels:
        try:
            for number in numbers:
                notebook = notebooks[number - 1]
                used = {name: values[name] for name in defaults(notebook) if name in values}
                _execute_notebook(notebook, number, numbers, used, pages=pages, kernels=kernels)
        finally:
            # After a failure, too: the pages of the notebooks that ran are there to look at. The
            # last kernel ends meanwhile.
            pages.finish()
            index_page = link_pages(out, notebooks)
    return index_page


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take turns more often, so that no cell waits for the thread that writes pages."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _begin_proof(server: KernelServer | None, values: Mapping[str, Any], needed: Set[str]) -> None:
    """Begin to prove the demo's made pairs if one of the notebooks shows the proof."""
    made_pairs = values.get("made_pairs")
    if server is not None and made_pairs is not None and "made_pairs" in needed:
        # The folder in 05_review_sheet, which waits for the proof.
        out = Path(values["workspace"]).parent / "made-pairs"
        server.request("prove", made_pairs, str(out))


def _execute_notebook(
    notebook: Path,
    number: int,
    numbers: Sequence[int],
    values: dict[str, Any],
    *,
    pages: "PageWriter",
    kernels: "RunKernels",
) -> None:
    """Execute the notebook with a number, of those of a run; print its name and its time."""
    from nbaudio.runs.execute import execute

    step = f"{number}/{len(list_notebooks())} {notebook.stem} …"
    print(step, end=" ", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        execute(notebook, values, pages=pages, kernels=kernels)
    except NbaudioError as error:
        raise NbaudioError(f"{error}; {_how_to_continue(number, numbers)}") from error
    finally:
        print(f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def _how_to_continue(failed: int, numbers: Sequence[int]) -> str:
    """Return what to do after the cause of a failure is removed.

    Args:
        failed: the number of the notebook that failed.
        numbers: the numbers of the notebooks of the run, in order.

    Returns:
        A clause, such as ``run the same command with --only 4-6 to continue``.
    """
    rest = [number for number in numbers if number >= failed]
    if len(rest) == len(numbers):
        return "run the same command again to continue"
    is_range = rest == list(range(rest[0], rest[-1] + 1))
    if is_range and len(rest) > 1:
        only = f"{rest[0]}-{rest[-1]}"
    else:
        only = ",".join(map(str, rest))
    return f"run the same command with --only {only} to continue"


def _output_folders(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the workspace and the latest version of the corpus, if they exist on this machine."""
    corpus = values["corpus"]
    folders = {
        "workspace": values["workspace"],
        "corpus": corpus if is_url(corpus) else latest_version(corpus),
    }
    return {name: folder for name, folder in folders.items() if Path(folder).is_dir()}


def _counts(facts: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the numbers among the facts of a step, without its seed, which counts nothing."""
    return {
        name: value
        for name, value in facts.items()
        # True and False are instances of int, too.
        if type(value) in (int, float) and name != "seed"
    }


def _key_figures(reports: Sequence[_StepReport]) -> dict[str, list[str]]:
    """Return the key figure of each step that has one, as `Report.sentences` has it."""
    figures = {report.step: describe_step(report.step, report.facts) for report in reports}
    return {step: [figure] for step, figure in figures.items() if figure}


def _report_paths(workspace: Path) -> dict[str, Path]:
    """Return the files of the reports in a workspace by step, in the order of the steps."""
    paths = {path.stem: path for path in sorted((workspace / "reports").glob("*.json"))}
    further_steps = [step for step in paths if step not in _STEPS]
    return {step: paths[step] for step in (*_STEPS, *further_steps) if step in paths}


def _report_times(workspace: Path) -> dict[str, int]:
    """Return by step when its report was written, in nanoseconds."""
    return {step: path.stat().st_mtime_ns for step, path in _report_paths(workspace).items()}


def _new_reports(workspace: Path, earlier_times: Mapping[str, int]) -> list[_StepReport]:
    """Return the reports that were written after `earlier_times`, the result of `_report_times`."""
    reports = []
    for step, path in _report_paths(workspace).items():
        if path.stat().st_mtime_ns != earlier_times.get(step):
            content = json.loads(path.read_text(encoding="utf8"))
            reports.append(
                _StepReport(step, content["facts"], content["warnings"], content["problems"])
            )
    return reports
