"""Results of an engine on plain tasks, as JSON: ``python engine_probe.py ENGINE [ADDRESS]``, for
test_engines.

The tasks call functions of nbaudio or Python, as workers have nothing else; but for ``python
engine_probe.py lost ENGINE FILE TIMES``, where a task kills its worker so many times, counted in
the file; and for ``python engine_probe.py slow ENGINE FOLDER [ADDRESS]``, where tasks write what
they do into a folder, so that a test can kill their workers.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from nbaudio.core.errors import NbaudioError, WorkerLostError
from nbaudio.core.input_guards import parse_size
from nbaudio.engine import EngineLocation, worker_pool


def main(engine: str, address: str | None = None) -> None:
    """Print the results of an engine on plain tasks as JSON."""
    found = {}
    with worker_pool(EngineLocation(engine, 2, address)) as run:
        found["values"] = sorted(run(parse_size, [f"{number}kB" for number in range(1, 41)]))
        try:
            list(run(parse_size, ["1kB", "a lot", "2kB"]))
        except NbaudioError as error:
            found["error"] = f"{type(error).__name__}: {error}"
        if engine != "beam":  # a pipeline is told all of its tasks before it runs
            taken: list[int] = []
            results = run(time.sleep, (taken.append(number) or 0.02 for number in range(200)))
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


def lost(engine: str, deaths: str, times: str) -> None:
    """Print results and lost tasks."""
    import engine_probe  # workers import it by this name

    found: dict[str, list[int]] = {"results": [], "lost": []}
    with worker_pool(EngineLocation(engine, 2)) as run:
        try:
            for result in run(
                engine_probe.deadly, [(number, deaths, int(times)) for number in range(8)]
            ):
                found["results"].append(result)
        except WorkerLostError as error:
            found["lost"] = [number for number, *_ in error.tasks]
    print(json.dumps({name: sorted(numbers) for name, numbers in found.items()}))


def slow(task: tuple[int, str]) -> int:
    """Take 8 s for task 0, 0.3 s for others; write the process id, and then that it is done."""
    number, folder = task
    (Path(folder) / f"{number}.{os.getpid()}.begun").touch()
    time.sleep(8 if number == 0 else 0.3)
    (Path(folder) / f"{number}.{os.getpid()}.done").touch()
    return number


def slow_tasks(engine: str, folder: str, address: str | None = None) -> None:
    """Print the results of eight slow tasks."""
    import engine_probe  # workers import it by this name

    with worker_pool(EngineLocation(engine, 2, address)) as run:
        results = sorted(run(engine_probe.slow, [(number, folder) for number in range(8)]))
    print(json.dumps(results))


if __name__ == "__main__":
    if sys.argv[1] == "lost":
        lost(*sys.argv[2:])
    elif sys.argv[1] == "slow":
        slow_tasks(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
