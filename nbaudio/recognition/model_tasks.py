"""Call a model on the segments of a workspace, in workers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec
import polars as pl

from nbaudio.audio import Recording
from nbaudio.core.progress import progress, progress_note
from nbaudio.corpus.clip_keys import recording_facts
from nbaudio.corpus.cut_runs import run_cut_tasks
from nbaudio.corpus.cut_tasks import plan_cut
from nbaudio.corpus.cutting import CutResult, CutTask, Source, Window, clip_of, task_windows
from nbaudio.corpus.model_inputs import ModelInputs
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.recognition.model_arguments import ModelItem
from nbaudio.recognition.model_ledger import slices
from nbaudio.recognition.model_values import Values
from nbaudio.recognition.recognizers import Failure, Recognizer
from nbaudio.tables.workspace import Workspace

_ROWS_A_TASK = 4096

RowsTask = tuple[tuple[str, str], ...]
"""Keys with what a model gets for each: see `model_inputs.keyed_segments`."""


@dataclass(frozen=True)
class ModelCall:
    """A model, what it gets, and how many clips at most in one call; None is a whole task."""

    recognizer: Recognizer
    inputs: ModelInputs
    batch: int | None


@dataclass(frozen=True)
class Site:
    """Where workers run, and whether progress is shown."""

    location: EngineLocation
    show: bool


def call_model(
    workspace: Workspace, call: ModelCall, clips: pl.LazyFrame, *, site: Site, folder: Path
) -> Iterator[CutResult]:
    """Call a model on clips, each once; yield the values and failures of each task.

    Args:
        workspace: the workspace.
        call: the model.
        clips: as `keyed_segments` returns them, each key once.
        site: where workers run.
        folder: a folder for buckets.
    """
    if not clips.select(pl.len()).collect().item():
        return
    if call.inputs.clip_format is None:
        yield from _call_on_rows(call, clips, site)
        return
    planned = plan_cut(workspace, clips, recording_facts(workspace.recordings), folder=folder)
    function = partial(_measure_clips, call)
    with worker_pool(site.location) as run_tasks:
        amount, tasks = planned.amount, planned.tasks
        yield from run_cut_tasks(run_tasks, "measure", function, amount, tasks, show=site.show)


def _call_on_rows(call: ModelCall, rows: pl.LazyFrame, site: Site) -> Iterator[CutResult]:
    """Call a model that gets no samples."""
    total = rows.select(pl.len()).collect().item()
    with (
        progress("measure", total, "segments", show=site.show) as advance,
        worker_pool(site.location) as run_tasks,
    ):
        for done in run_tasks(partial(_measure_rows, call), _rows_tasks(rows)):
            yield done
            for reason in done.failures.values():
                progress_note(reason)
            advance(len(done.values) + len(done.failures))


def _rows_tasks(rows: pl.LazyFrame) -> Iterator[RowsTask]:
    """Yield the tasks of a model that gets no samples."""
    for part in slices(rows.select("clip_key", "inputs")):
        for task in part.iter_slices(_ROWS_A_TASK):
            yield tuple(task.iter_rows())


def _measure_rows(call: ModelCall, task: RowsTask) -> CutResult:
    """Call a model on what it gets for segments. Runs in a worker."""
    items = ((key, ModelItem(None, None, _values(call, inputs))) for key, inputs in task)
    failures: dict[str, str] = {}
    return CutResult(0.0, failures, _answers(call, items, {}, failures))


def _measure_clips(call: ModelCall, task: CutTask) -> CutResult:
    """Call a model on the clips of a task, a batch at a time. Runs in a worker."""
    failures: dict[str, str] = {}
    files = {key: source.path.name for source in task.sources for key, *_ in source.windows}
    inputs = {
        window[0]: values
        for source in task.sources
        for window, values in zip(source.windows, source.inputs, strict=False)  # or there are none
    }
    items = task_windows(task, partial(_item, call, inputs), failures)
    answers = _answers(call, items, files, failures)
    # A file that changed while it was read adds failures of clips that have an answer.
    values = {key: clip for key, clip in answers.items() if key not in failures}
    return CutResult(task.seconds, failures, values)


def _item(
    call: ModelCall,
    inputs: Mapping[str, str],
    recording: Recording,
    source: Source,
    window: Window,
) -> ModelItem:
    """Return what a model gets for a window of a recording.

    `inputs` are the values of columns for the clips of a task, by key.
    """
    clip_format = call.inputs.clip_format
    rate = clip_format.rate if clip_format else None
    samples = clip_of(recording, source, window, rate)
    values = _values(call, inputs.get(window[0], "[]"))
    return ModelItem(samples, rate or recording.sampling_rate, values)


def _values(call: ModelCall, inputs: str) -> dict[str, object]:
    """Return the values of columns from `inputs`, a JSON list."""
    return dict(zip(call.inputs.columns, msgspec.json.decode(inputs), strict=True))


def _answers(
    call: ModelCall,
    items: Iterator[tuple[str, ModelItem]],
    files: Mapping[str, str],
    failures: dict[str, str],
) -> dict[str, Values]:
    """Return the values of clips, in batches; add to `failures` why others have none.

    `files` are the names of the recordings, by key, if there are any.
    """
    values: dict[str, Values] = {}
    while batch := dict(islice(items, call.batch)):
        for key, answer in call.recognizer(batch).items():
            if isinstance(answer, Failure):
                where = f"{files[key]}: " if key in files else ""
                failures.setdefault(key, f"{where}{answer.reason}")
            else:
                values[key] = answer
    return values
