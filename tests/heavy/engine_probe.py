"""What an engine makes of plain tasks, as JSON: ``python engine_probe.py ENGINE [ADDRESS]``; test_engines asks it.

The tasks are calls of one of nbaudio's own functions, as workers have nothing but nbaudio.
"""

import itertools
import json
import sys

from nbaudio.engine import Site, workers
from nbaudio.errors import NbaudioError
from nbaudio.sizes import parse_size


def main(engine: str, address: str | None = None) -> None:
    found = {}
    with workers(engine, Site(2, address)) as run:
        found["values"] = sorted(run(parse_size, [f"{number}kB" for number in range(1, 41)]))
        try:
            list(run(parse_size, ["1kB", "a lot", "2kB"]))
        except NbaudioError as error:
            found["error"] = f"{type(error).__name__}: {error}"
        if engine != "beam":  # a pipeline is told all of its tasks before it runs
            taken = itertools.count(1)
            results = run(parse_size, (f"{next(taken)}kB" for _ in range(200)))
            first = next(results)
            found["taken before the first result"] = next(taken)
            found["results"] = len([first, *results])
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
