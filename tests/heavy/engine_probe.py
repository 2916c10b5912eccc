"""Results of an engine on plain tasks, as JSON; for clusters.py.

    python engine_probe.py plain ENGINE
    python engine_probe.py lost ENGINE FILE,TIMES...
    python engine_probe.py slow ENGINE FOLDER [ADDRESS]

Tasks of ``plain`` call functions of nbaudio or Python. Of ``lost``, a task kills its worker so many
times, counted in the file. Tasks of ``slow`` write what they do into a folder, so that a test can
kill their workers.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from nbaudio.core.errors import NbaudioError, WorkerLostError
from nbaudio.core.input_guards import parse_size
from nbaudio.engine import EngineLocation, RunTasks, worker_pool


def plain(engine: str) -> None:
    """Print the results of plain tasks, the error of one, and how many are taken ahead."""
    found: dict[str, Any] = {}
    with worker_pool(EngineLocation(engine, 2)) as run:
        found["values"] = sorted(run(parse_size, [f"{number}kB" for number in range(1, 41)]))
        try:
            list(run(parse_size, ["1kB", "a lot", "2kB"]))
        except NbaudioError as error:
            found["error"] = f"{type(error).__name__}: {error}"
        taken: list[int] = []
        results = run(time.sleep, (taken.append(number) or 0.02 for number in range(80)))
        first = next(results)
        found["taken before the first result"] = len(taken)
        found["results"] = len([first, *results])
    print(json.dumps(found))


def deadly(task: tuple[int, str, int]) -> int:
    """Task 3 kills its worker."""
    number, deaths, times = task
    if number == 3:
        with Path(deaths).open("a+") as file:
            if file.tell() < times:
                file.write("x")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
    return number


def lost(engine: str, *deaths: str) -> None:
    """Print a list of results and lost tasks, for each file of deaths."""
    with worker_pool(EngineLocation(engine, 2)) as run:
        print(json.dumps([run_deadly(run, *each.rsplit(",", 1)) for each in deaths]))


def run_deadly(run: RunTasks, deaths: str, times: str) -> dict[str, list[int]]:
    """Return the numbers of the tasks with a result, and of those that lost all their workers."""
    import engine_probe  # workers import it by this name

    found: dict[str, list[int]] = {"results": [], "lost": []}
    tasks = [(number, deaths, int(times)) for number in range(8)]
    try:
        found["results"] += run(engine_probe.deadly, tasks)
    except WorkerLostError as error:
        found["lost"] = [number for number, *_ in error.tasks]
    return {name: sorted(numbers) for name, numbers in found.items()}


def slow(task: tuple[int, str]) -> int:
    """Take 5 s for task 0, 0.3 s for others; write the process id, and then that it is done."""
    number, folder = task
    (Path(folder) / f"{number}.{os.getpid()}.begun").touch()
    time.sleep(5 if number == 0 else 0.3)
    (Path(folder) / f"{number}.{os.getpid()}.done").touch()
    return number


def slow_tasks(engine: str, folder: str, address: str | None = None) -> None:
    """Print the results of eight slow tasks."""
    import engine_probe  # workers import it by this name

    with worker_pool(EngineLocation(engine, 2, address)) as run:
        results = sorted(run(engine_probe.slow, [(number, folder) for number in range(8)]))
    print(json.dumps(results))


if __name__ == "__main__":
    {"plain": plain, "lost": lost, "slow": slow_tasks}[sys.argv[1]](*sys.argv[2:])
