"""The key figure of each step and notebook, in a few words."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.core.atomic import read_json
from nbaudio.core.errors import NbaudioError
from nbaudio.core.report import count, percent_down, show
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.split_names import ordered_splits
from nbaudio.tables.workspace import Workspace

Facts = Mapping[str, Any]
_DEFAULT_THRESHOLD = 0.8
_WITHOUT_FILE = ("missing", "ambiguous")
_BATCH = re.compile(r"\((\d+), \d+\)")  # the shape of a batch: clips, samples


def describe_step(step: str, facts: Facts) -> str:
    """Return the key figure of a step, such as ``81 clips in 7 shards, 6.2 MB``.

    Args:
        step: the name of its report, such as ``ingest`` or ``score_large``.
        facts: those of its report.

    Returns:
        A few words; empty for a step without a key figure, and for facts of an earlier version.

    Examples:
        >>> describe_step("materialize", {"kept": 81, "shards": 7, "bytes": 6_195_000})
        '81 clips in 7 shards, 6.2 MB'
    """
    name = "score" if step.startswith("score_") else step
    describe = _STEPS.get(name)
    if describe is None:
        return ""
    try:
        return describe(facts)
    except (LookupError, TypeError):
        return ""


def describe_notebook(stem: str, notebook: Mapping[str, Any]) -> str:
    """Return the key figure of an executed notebook, from the tables and reports that it wrote.

    Args:
        stem: its name, such as ``01_ingest``.
        notebook: the notebook as JSON, with papermill's parameters in its metadata.

    Returns:
        A few words; empty where there is nothing to count.
    """
    describe = _NOTEBOOKS.get(stem)
    if describe is None:
        return ""
    try:
        return describe(notebook)
    except (LookupError, NbaudioError, OSError, TypeError, ValueError):  # of an earlier version
        return ""


def _ingest(facts: Facts) -> str:
    """Count segments, recordings and names without a file."""
    figures = [
        count(facts["segments"], "segments"),
        count(facts["recordings"], "recordings"),
        show(facts["hours"], "hours"),
    ]
    names = facts["names"]
    if isinstance(names, str):
        return ", ".join([*figures[:2], names])
    if missing := sum(names.get(decision, 0) for decision in _WITHOUT_FILE):
        figures.append(f"{count(missing, 'names')} without a file")
    return ", ".join(figures)


def _score(facts: Facts) -> str:
    """Give the median similarity."""
    if not facts["scored"]:
        return "no segment has a hypothesis"
    scored = f"{facts['scored']:,} of {count(facts['segments'], 'segments')} scored"
    return f"median similarity {show(facts['median_similarity'])}, {scored}"


def _measure(facts: Facts) -> str:
    """Count measured segments, and those that are clipped or cut."""
    measured = facts["measured_now"] + facts["already_measured"]
    figures = [f"{count(measured, 'segments')} measured"]
    if facts["clipped"]:
        figures.append(f"{facts['clipped']:,} with clipped samples")
    if cut := facts["cut_start"] + facts["cut_end"]:
        figures.append(f"{cut:,} cut within a word")
    return ", ".join(figures)


def _evidence(facts: Facts) -> str:
    """Say what the verdicts prove."""
    claim = facts["selection"]
    if not claim["reviewed"] or claim["low"] is None:
        return "nothing is proven: no clip was reviewed"
    clips = count(claim["segments"], "clips")
    proven = f"at least {percent_down(claim['low'])} of {clips} are right"
    groups = [
        f"at least {percent_down(worst['low'])} of each {worst['by']}"
        for worst in claim.get("worst", ())
    ]
    return ", ".join([proven, f"{claim['reviewed']:,} reviewed", *groups])


def _select(facts: Facts) -> str:
    """Count clips and duration of each split."""
    splits = {name: split for name, split in facts.items() if _is_split(split)}
    parts = [
        f"{name} {count(splits[name]['segments'], 'clips')}, {show(splits[name]['hours'], 'hours')}"
        for name in ordered_splits(splits)
    ]
    return "; ".join(parts) or "no segment is kept"


def _is_split(fact: Any) -> bool:
    """Return whether a fact of `select` has the amounts of a split."""
    return isinstance(fact, Mapping) and "speakers" in fact and fact.get("segments", 0) > 0


def _materialize(facts: Facts) -> str:
    """Count clips, shards and bytes."""
    clips = count(facts["kept"], "clips")
    return f"{clips} in {count(facts['shards'], 'shards')}, {show(facts['bytes'], 'bytes')}"


def _verify(facts: Facts) -> str:
    """Say whether a corpus is whole."""
    if not facts["whole"]:
        return "damaged, see the problems"
    return f"{count(facts['clips_decoded'], 'clips')} decoded, 0 problems"


_STEPS: Mapping[str, Callable[[Facts], str]] = {
    "ingest": _ingest,
    "score": _score,
    "measure": _measure,
    "review": lambda facts: f"{count(facts['drawn'], 'segments')} drawn for review",
    "review_import": lambda facts: f"{count(facts['verdicts_in_all'], 'verdicts')} in all",
    "evidence": _evidence,
    "select": _select,
    "materialize": _materialize,
    "verify": _verify,
}


def _parameters(notebook: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters that papermill gave to a notebook."""
    parameters: Mapping[str, Any] = notebook["metadata"]["papermill"]["parameters"]
    return parameters


def _figure_of(*steps: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that joins the key figures of steps in the workspace of a notebook."""

    def describe(notebook: Mapping[str, Any]) -> str:
        reports = Path(_parameters(notebook)["workspace"]) / "reports"
        figures = [
            describe_step(path.stem, read_json(path)["facts"])
            for step in steps
            for path in sorted(reports.glob(f"{step}.json"))[:1]
        ]
        return "; ".join(filter(None, figures))

    return describe


def _scores(notebook: Mapping[str, Any]) -> str:
    """Give the similarity of the first hypothesis that was scored."""
    return _figure_of("score")(notebook) or _figure_of("score_*")(notebook)


def _signals(notebook: Mapping[str, Any]) -> str:
    """Count measured segments; a workspace without audio has none."""
    return _figure_of("measure")(notebook) or "no audio yet"


def _threshold(notebook: Mapping[str, Any]) -> str:
    """Count what the threshold on similarity keeps."""
    parameters = _parameters(notebook)
    workspace = Workspace.open(parameters["workspace"])
    chosen = (parameters.get("min_similarity"), workspace.threshold, _DEFAULT_THRESHOLD)
    threshold = next(value for value in chosen if value is not None)
    similarity = pl.col("similarity").fill_nan(None)
    sums = workspace_tables.scan(workspace, ["similarity"]).select(
        kept=(similarity >= threshold).sum(), scored=similarity.count()
    )
    num_kept, scored = sums.collect(**STREAMED).row(0)
    return f"a similarity of {threshold:g} keeps {num_kept:,} of {count(scored, 'segments')}"


def _reviews(notebook: Mapping[str, Any]) -> str:
    """Say what the verdicts prove, also about the made pairs of the demo."""
    figures = [_figure_of("evidence")(notebook)]
    parameters = _parameters(notebook)
    if parameters.get("made_pairs"):
        made = Path(parameters["workspace"]).parent / "made-pairs/workspace/reports/evidence.json"
        figures.append(f"made pairs: {_evidence(read_json(made)['facts'])}")
    return "; ".join(filter(None, figures))


def _first_batch(notebook: Mapping[str, Any]) -> str:
    """Count the clips of the first batch, from its shape among the outputs."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            text = "".join(output.get("data", {}).get("text/plain", ""))
            if shape := _BATCH.fullmatch(text.strip()):
                return f"{count(int(shape[1]), 'clips')} in the first batch"
    return ""


_NOTEBOOKS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "01_ingest": _figure_of("ingest"),
    "02_transcripts": _scores,
    "03_listen": _signals,
    "04_threshold": _threshold,
    "05_review_sheet": _reviews,
    "06_splits": _figure_of("select"),
    "07_materialize": _figure_of("materialize", "verify"),
    "08_read_back": _first_batch,
}
