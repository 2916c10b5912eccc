"""Compare how many reviews a proof takes with two versions, for somebody who keeps one rule.

    python benchmarks/reviews_needed.py OUT.jsonl [--corpora 200]
    python benchmarks/reviews_needed.py --compare EARLIER.jsonl NOW.jsonl

The first form writes a line for each corpus of the cases `flat`, `steep`, `gradual` and `floor` of
`benchmarks/evidence.py`: one sheet, judged in its order, and the number of reviews after which the
target is first proven. To measure an earlier version, copy this file into `benchmarks` of a
checkout of it, and run it there with PYTHONPATH set to the checkout.

The second form prints a row for each case and strategy: the median number of reviews with each
version, and the geometric mean of the ratios of the corpora, which are the same in both, with its
95 % interval. A corpus without a proof counts with all rows of its sheet.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from evidence import CURVES, Task, simulate

SEGMENTS = 20_000
REVIEWS = 2000  # half of the rows of the sheet
SEED = 42


def write_outcomes(path: Path, corpora: int) -> None:
    """Simulate with this version; write a line for each corpus, case and strategy."""
    with path.open("w") as out:
        for number in range(corpora):
            for case in CURVES:
                task = Task(case, number, 1, SEGMENTS, REVIEWS, SEED, None)
                for outcome in simulate(task):
                    reviews = outcome.reviews if math.isfinite(outcome.reviews) else None
                    row = {"case": case, "strategy": outcome.strategy, "corpus": number}
                    out.write(json.dumps({**row, "reviews": reviews}) + "\n")


def read_outcomes(path: Path) -> dict[tuple[str, str, int], float]:
    """Return the numbers of reviews by case, strategy and corpus."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        (row["case"], row["strategy"], row["corpus"]): row["reviews"] or 2 * REVIEWS for row in rows
    }


def compare(earlier_path: Path, now_path: Path) -> pl.DataFrame:
    """Return a row for each case and strategy, of the corpora that both files have."""
    earlier = read_outcomes(earlier_path)
    now = read_outcomes(now_path)
    both = sorted(earlier.keys() & now.keys())
    rows = []
    for case, strategy in dict.fromkeys(key[:2] for key in both):
        keys = [key for key in both if key[:2] == (case, strategy)]
        pairs = np.array([(earlier[key], now[key]) for key in keys])
        rows.append({"case": case, "strategy": strategy, **compared_numbers(pairs)})
    return pl.DataFrame(rows)


def compared_numbers(pairs: np.ndarray) -> dict[str, Any]:
    """Return medians and mean ratio of pairs of numbers of reviews, of shape (corpora, 2)."""
    logarithms = np.log(pairs[:, 1] / pairs[:, 0])
    mean = logarithms.mean()
    margin = 1.96 * logarithms.std() / math.sqrt(len(pairs))
    earlier, now = np.median(pairs, axis=0)
    return {
        "corpora": len(pairs),
        "earlier": float(earlier),
        "now": float(now),
        "ratio": round(math.exp(mean), 2),
        "low": round(math.exp(mean - margin), 2),
        "high": round(math.exp(mean + margin), 2),
    }


def main() -> None:
    """Simulate with this version, or compare two files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--corpora", type=int, default=200)
    parser.add_argument("--compare", type=Path, nargs=2)
    options = parser.parse_args()
    if options.compare is None and options.out is None:
        parser.error("give OUT.jsonl, or --compare with two files")
    if options.compare is None:
        write_outcomes(options.out, options.corpora)
        return
    with pl.Config(tbl_cols=-1, tbl_rows=-1, tbl_formatting="MARKDOWN", tbl_width_chars=160):
        print(compare(*options.compare))


if __name__ == "__main__":
    main()
