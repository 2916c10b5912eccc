"""Results of an engine on plain tasks, as JSON: ``python engine_probe.py ENGINE [ADDRESS]``, for test_engines.

The tasks call functions of nbaudio or Python, as workers have nothing else.
"""

import json
import sys
import time

from nbaudio.core.errors import NbaudioError
from nbaudio.core.input_guards import parse_size
from nbaudio.engine import EngineLocation, worker_pool


def main(engine: str, address: str | None = None) -> None:
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


if __name__ == "__main__":
    main(*sys.argv[1:])
