"""`make bench`: the table that it writes into docs/benchmarks.md, and the names that CI uses."""

import re
import shlex
import sys

import pytest
from pages import TOP, text

sys.path.append(str(TOP / "benchmarks"))

import bench

PAGE = "# Benchmarks\n\n{0}\nold\n\n| a |\n{1}\n\nText with | bars |.\n"


def contender(name, figures, needs=()):
    """A contender whose turns have these figures."""
    turns = iter(figures)
    return bench.Contender(name, lambda: next(turns), needs)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A page of benchmarks with an old table."""
    path = tmp_path / "benchmarks.md"
    path.write_text(PAGE.format(bench.BEGIN, bench.END))
    monkeypatch.setattr(bench, "PAGE", path)
    return path


@pytest.fixture
def comparisons(monkeypatch):
    """Two comparisons, the second of which fails."""

    def fail(_):
        raise RuntimeError("no recordings")

    def contenders(_):
        return [
            contender("nbaudio", [2.0, 4.0, 3.0]),
            contender("bare loop", [1.0, 4.0, 4.5]),
            contender("other", [], ("no_such_package",)),
        ]

    entries = {
        "cut": bench.Comparison("cut an hour", "s", contenders, 3),
        "broken": bench.Comparison("stream", "clips/s", fail),
    }
    monkeypatch.setattr(bench, "COMPARISONS", entries)


def run(monkeypatch, *words):
    """The exit code of the script with these arguments."""
    monkeypatch.setattr(sys, "argv", ["bench.py", *words])
    return bench.main()


CUT_ROWS = (
    "| `cut` | cut an hour | 3.00 s | bare loop | 4.00 s | **1.00** (0.50–1.50) |\n"
    "| `cut` | cut an hour | | other | not run: needs no_such_package | |\n"
)
CUT_LINES = CUT_ROWS.replace("| `cut` | cut an hour | | other", "| | | | other")


@pytest.mark.usefixtures("comparisons")
def test_the_table_replaces_what_is_between_the_comments(page, monkeypatch):
    assert run(monkeypatch, "--only", "cut") == 0
    before, rest = page.read_text().split(f"{bench.BEGIN}\n\n")
    table, after = rest.split(f"\n{bench.END}\n")
    assert (before, after) == ("# Benchmarks\n\n", "\nText with | bars |.\n")
    machine, *lines = table.splitlines(keepends=True)
    assert re.fullmatch(
        r".+, \d+ cores, Python [\d.]+\S*, nbaudio \S+, \d{4}-\d\d-\d\d:\n", machine
    )
    assert "".join(lines[3:]) == CUT_LINES


@pytest.mark.usefixtures("comparisons")
def test_a_comparison_that_fails_has_a_row_and_the_others_run(page, monkeypatch, capsys):
    old = page.read_text()
    assert run(monkeypatch, "--print", "--only", "broken", "cut") == 1
    assert page.read_text() == old
    printed = capsys.readouterr()
    assert f"| `broken` | stream | | all | not run: failed | |\n{CUT_ROWS}" in printed.out
    assert printed.err == "broken: no recordings\n"


def test_rates_count_as_seconds_do(monkeypatch, tmp_path):
    entry = bench.Comparison(
        "stream",
        "clips/s",
        lambda _: [contender("nbaudio", [300.0]), contender("prototype", [200.0])],
        1,
    )
    monkeypatch.setattr(bench, "COMPARISONS", {"stream": entry})
    (row,) = bench.compare("stream", tmp_path)
    assert str(row) == (
        "| `stream` | stream | 300 clips/s | prototype | 200 clips/s | **1.50** (1.50–1.50) |"
    )


@pytest.mark.parametrize(
    "broken",
    [
        "no comments",
        f"{bench.BEGIN}\n",
        f"{bench.END}\n{bench.BEGIN}\n",
        f"{bench.BEGIN}\n{bench.BEGIN}\n{bench.END}\n",
    ],
)
def test_a_page_without_the_comments_is_not_written(broken):
    with pytest.raises(ValueError, match="once each"):
        bench.insert_table(broken, "table")


def test_the_page_has_the_comments_and_ci_runs_comparisons_that_exist():
    page = text(TOP / "docs/benchmarks.md")
    assert "\n\nnew\n\n" in bench.insert_table(page, "new")
    (line,) = re.findall(r"benchmarks/bench\.py (.+?) *\|\|", text(TOP / ".ci/run"))
    words = shlex.split(line)
    names = words[words.index("--only") + 1 :]
    assert len(names) == 3
    assert set(names) <= set(bench.COMPARISONS)
    assert "--print" in words
