"""Conditions of `--where` and of filters: whatever polars does with one, an error is one line."""

import itertools
import os
import subprocess
import sys
from threading import Thread

import polars as pl
import pytest
from sheets import make_workspace

from nbaudio.core.errors import InputError
from nbaudio.core.processes import panics_are_silent
from nbaudio.tables.conditions import FUNCTIONS, MOST_WORDS, parse_condition, rows_that_meet

FRAME = pl.DataFrame(
    {
        "text": ["a", "b", None],
        "share": [1.0, 0.0, None],
        "count": [1, 0, 2],
        "flag": [True, None, False],
        "words": [["a"], [], None],
        "time": [{"start": 1}, None, None],
    }
)
VALUES = ("text", "share", "count", "flag", "words", "time", "null", "'a'", "0", "-1", "share / 0")
HUGE = ", ".join(str(number) for number in range(120_000))


def evaluate(where):
    """Return what is wrong with a condition, if anything; it is one line with the condition."""
    said = ""
    try:
        mask = rows_that_meet(parse_condition(where, FRAME.schema), FRAME)
        streamed = rows_that_meet(parse_condition(where, FRAME.schema), FRAME.lazy())
    except InputError as error:
        said = str(error)
    if said:
        assert said.startswith(f"filter {where!r}"[:20])
        assert "\n" not in said
        return said
    assert mask.dtype == pl.Boolean
    assert len(mask) == len(FRAME)
    assert mask.null_count() == 0
    # Null in a struct is no null for the one engine of polars, and one for the other.
    assert streamed.equals(mask) or "time" in where
    return None


def calls(function):
    """Conditions on a function with every combination of up to two values."""
    uses = itertools.cycle(["{0} > 1", "{0} = 'a'", "{0} = 1 and {0} is null"])
    for count in range(3):
        for values in itertools.product(VALUES, repeat=count):
            yield next(uses).format(f"{function}({', '.join(values)})")


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_condition_with_any_function_prints_no_panic(capfd, function):
    for where in calls(function):
        evaluate(where)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "operator", ["+", "-", "*", "/", "//", "%", "=", "and", "or", "like", "in", "is", "~", "<=>"]
)
def test_a_condition_with_any_operator_prints_no_panic(capfd, operator):
    uses = itertools.cycle(["{0} {1} {2}", "({0} {1} {2}) > 1", "{0} {1} {2} and {0}"])
    for first, second in itertools.product(VALUES, repeat=2):
        evaluate(next(uses).format(first, operator, second))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kind", ["int", "double", "text", "json", "timestamp", "decimal(99, 9)"])
def test_a_condition_with_any_cast_prints_no_panic(capfd, kind):
    for value in VALUES:
        evaluate(f"cast({value} as {kind}) = 'a'")
        evaluate(f"try_cast({value} as {kind}) > 1")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "where",
    [
        "greatest() > 1",
        "least()",
        "flag + null and flag",
        "(0 // null) > 1",
        "cast('' as json) = 'a'",
        "extract(epoch from time) > 1",
        "text = '\ud800'",
        "(" * 100 + "share > 1" + ")" * 100,
        "not " * 900 + "flag",
        "share" + ".a" * 390 + " > 1",
        "count in (" + "-" * 5000 + "1)",
        "case",
        "",
    ],
)
def test_a_condition_that_cannot_be_evaluated_is_a_one_line_error(capfd, where):
    assert evaluate(where) is not None
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("share / 0 > 1", [True, True, False]),
        (f"count in ({HUGE})", [True, True, True]),
        (f"count not in ({HUGE})", [False, False, False]),
        ("mod(count, 2) = 0", [False, True, True]),
        ("cast(text as double) > 1 or true", None),
        ("greatest(share, count) >= 1", [True, False, True]),
    ],
)
def test_valid_conditions_select_the_expected_rows(where, expected):
    if expected is None:
        assert "cannot be converted" in evaluate(where)
    else:
        condition = parse_condition(where, FRAME.schema)
        assert rows_that_meet(condition, FRAME).to_list() == expected


@pytest.mark.slow
@pytest.mark.parametrize("where", ["greatest() > 1", "flag_a + null and flag_a"])
def test_select_prints_one_line_for_a_condition_that_fails(tmp_path, where):
    workspace = make_workspace(tmp_path / "w")
    segments = workspace.segments.with_columns(flag_a=pl.lit(value=True))
    workspace.save(segments=segments)
    command = [sys.executable, "-m", "nbaudio", "select", str(workspace.path), "--where", where]
    environment = os.environ | {"RUST_BACKTRACE": "full"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert where in done.stderr


def test_output_of_other_threads_is_printed_after_a_silenced_panic(capfd):
    with panics_are_silent():
        os.write(2, b"of another thread\n")
        assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == "of another thread\n"


def test_standard_error_is_restored_after_conditions_in_many_threads(capfd):
    before = os.fstat(2)
    threads = [Thread(target=evaluate, args=("greatest() > 1",)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.path.samestat(os.fstat(2), before)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("where", "gives"), [("text", "a text"), ("share", "a number"), ("words", "something else")]
)
def test_a_value_that_is_no_condition_is_named_by_its_kind(where, gives):
    assert evaluate(where).endswith(f"such as similarity < 0.5; this gives {gives}")


@pytest.mark.parametrize(("where", "expected"), [("1 = 1", True), ("null", False)])
def test_a_constant_has_a_value_in_each_row(where, expected):
    condition = parse_condition(where, FRAME.schema)
    assert condition.columns == ()
    assert rows_that_meet(condition, FRAME).to_list() == [expected] * 3
    assert rows_that_meet(condition, FRAME.lazy()).to_list() == [expected] * 3


def test_minus_and_comma_are_words_except_in_a_list_of_values():
    assert evaluate(f"count in ({', '.join(['-1'] * MOST_WORDS)})") is None
    assert "too long" in evaluate(f"coalesce({', '.join(['1'] * MOST_WORDS)}, share) > 1")
