"""Measure what each engine adds.

It is the seconds to start, the overhead of a task, the speed-up with more jobs and the serial
fraction that explains it.

    python benchmarks/engines.py [--engines loky,threading,dask,ray,spark,beam] [--jobs 1,2]
                                 [--tasks 400] [--work 0.05]

Every measurement is a separate process. *Start* is until as many empty tasks as there are jobs are
back; *a task* the time of each of `--tasks` further ones; both with the most jobs. *Speed-up* is of
64 tasks that compute for `--work` seconds each, against one job of loky, which runs them in the
driver: jobs beyond the cores tell what they cost, not what they could bring. The serial fraction f
is that of Amdahl's law, speed-up = 1 / (f + (1 - f) / jobs), for jobs up to the number of cores.

For comparison the published curve of the field's Spark case: 702, 389 and 196 s on 1, 2 and 4
threads, 3.5 times as fast on 8 and no faster beyond: speed-ups of 1.80 and 3.58, f = 0.11, 0.04
and, on 8, 0.18. Numbers go to standard output as Markdown.
"""

import argparse
import json
import os
import subprocess
import sys
import time

from nbaudio.engine import ENGINES, EngineLocation, worker_pool

PUBLISHED = {1: 702.0, 2: 389.0, 4: 196.0, 8: 702.0 / 3.5}


def main() -> None:
    """Measure every engine and print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--engines", default=",".join(ENGINES))
    options.add_argument("--jobs", default="1,2")
    options.add_argument("--tasks", type=int, default=400)
    options.add_argument("--work", type=float, default=0.05, help="seconds of a task")
    options.add_argument("--one", nargs=2, metavar=("ENGINE", "JOBS"), help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.one:
        print(json.dumps(measured(asked.one[0], int(asked.one[1]), asked.tasks, asked.work)))
        return
    jobs = [int(number) for number in asked.jobs.split(",")]
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, {asked.tasks} empty tasks, 64 tasks of {asked.work} s\n")
    print(
        "| engine | start, s | a task, ms | "
        + " | ".join(f"speed-up, {number} jobs" for number in jobs)
        + " | serial fraction |"
    )
    print("|---|---|---|" + "---|" * len(jobs) + "---|")
    for engine in asked.engines.split(","):
        # Each time anew: other programs on the machine come and go.
        base = ask(["--one", "loky", "1", "--tasks", "1", "--work", str(asked.work)])["work"]
        runs = {
            n: ask(
                ["--one", engine, str(n), "--tasks", str(asked.tasks), "--work", str(asked.work)]
            )
            for n in jobs
        }
        speed = {number: base / run["work"] for number, run in runs.items()}
        most = max((number for number in jobs if number <= cores), default=1)
        last = runs[max(jobs)]
        curve = " | ".join(f"{speed[number]:.2f}" for number in jobs)
        print(
            (
                f"| {engine} | {last['start']:.1f} | {last['task'] * 1000:.1f} | {curve} | "
                f"{fraction_text(serial(speed[most], most))} |"
            ),
            flush=True,
        )
    print("\n| published | seconds | speed-up | serial fraction |\n|---|---|---|---|")
    for number, seconds in PUBLISHED.items():
        gain = PUBLISHED[1] / seconds
        serial_share = fraction_text(serial(gain, number))
        print(f"| {number} threads | {seconds:.0f} | {gain:.2f} | {serial_share} |")


def ask(arguments: list[str]) -> dict[str, float]:
    """The same program, in a separate process."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measured(engine: str, jobs: int, tasks: int, work: float) -> dict[str, float]:
    """Return seconds: until the first empty task is back, of each other one, and of all that work.

    The last two are measured with workers that are awake.
    """
    began = time.perf_counter()
    with worker_pool(EngineLocation(engine, jobs)) as run:
        list(run(time.sleep, [0.0] * jobs))
        start = time.perf_counter() - began
        began = time.perf_counter()
        list(run(time.sleep, [0.0] * tasks))
        task = (time.perf_counter() - began) / tasks
        began = time.perf_counter()
        list(run(sum_of, [work] * 64))
        return {"start": start, "task": task, "work": time.perf_counter() - began}


def sum_of(seconds: float) -> int:
    """Compute for so many seconds of this thread."""
    total, until = 0, time.thread_time() + seconds
    while time.thread_time() < until:
        total += sum(range(1000))
    return total


def serial(speed_up: float, jobs: int) -> float | None:
    """The serial fraction by Amdahl's law.

    Examples:
        >>> serial(2.0, 2), serial(1.0, 2)
        (0.0, 1.0)
    """
    return None if jobs < 2 else (jobs / speed_up - 1) / (jobs - 1)


def fraction_text(fraction: float | None) -> str:
    """A fraction for the table."""
    return "" if fraction is None else f"{fraction:.2f}"


if __name__ == "__main__":
    main()
