"""Run cut tasks: with a progress bar, and past recordings that kill their workers."""

from collections.abc import Callable, Iterable, Iterator
from typing import cast

from nbaudio.core.errors import WorkerLostError
from nbaudio.core.progress import progress, progress_note
from nbaudio.core.progress_text import AUDIO
from nbaudio.corpus.cut_tasks import CutAmount, named_task
from nbaudio.corpus.cutting import CutResult, CutTask
from nbaudio.engine import RunTasks


def run_cut_tasks(
    run_tasks: RunTasks,
    what: str,
    function: Callable[[CutTask], CutResult],
    amount: CutAmount,
    tasks: Iterable[CutTask],
    *,
    show: bool,
) -> Iterator[CutResult]:
    """Yield what a function returns for each cut task, in any order.

    A recording that kills its worker fails, like any other bad recording. The reason of each
    failure is noted with the progress.

    Args:
        run_tasks: calls a function on tasks, in workers.
        what: short name of the work for the progress, such as ``measure``.
        function: `cut`, or another function that reads the windows of a task.
        amount: the clips and the audio of all tasks; without clips nothing is run.
        tasks: the tasks.
        show: whether the progress is shown.
    """
    if not amount.num_clips:
        return
    with progress(what, amount.seconds / 3600, AUDIO, show=show) as advance:
        for cut_result in _results_despite_losses(run_tasks, function, tasks):
            yield cut_result
            for reason in cut_result.failures.values():
                progress_note(reason)
            advance(cut_result.seconds / 3600)


def _results_despite_losses(
    run_tasks: RunTasks, function: Callable[[CutTask], CutResult], tasks: Iterable[CutTask]
) -> Iterator[CutResult]:
    """Yield the results of tasks; tasks that kill their workers are run source by source."""
    # A task that the engine took has a result, or is one of the lost tasks: `waiting` has the rest.
    waiting = iter(tasks)
    while True:
        try:
            yield from run_tasks(function, waiting)
        except WorkerLostError as error:
            for task in cast(tuple[CutTask, ...], error.tasks):
                yield from _results_by_source(run_tasks, function, task)
        else:
            return


def _results_by_source(
    run_tasks: RunTasks, function: Callable[[CutTask], CutResult], task: CutTask
) -> Iterator[CutResult]:
    """Run the sources of a task one by one; a source that kills its worker becomes a failure."""
    seconds = task.seconds / len(task.sources)
    for source in task.sources:
        try:
            yield from run_tasks(function, [named_task([source], task.pack.parent, seconds)])
        except WorkerLostError:
            reason = (
                f"{source.path.name}: the worker that decodes it is killed: it crashes a library, "
                "or needs too much memory"
            )
            failures = {clip_key: reason for clip_key, *_ in source.windows}
            yield CutResult(seconds, failures, values={})
