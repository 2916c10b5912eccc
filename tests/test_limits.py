"""No function is over the limits of readable code, but for a list that may only get shorter."""

import ast

import pytest
from limits import OFFENDERS, count_nodes, measure, read_list


@pytest.mark.slow
def test_functions_over_a_limit_are_on_the_list_with_their_figures() -> None:
    measured = measure()
    listed = read_list()
    new = {key: figures for key, figures in measured.items() if key not in listed}
    assert new == {}, "simplify these functions"
    grown = {
        key: {rule: (listed[key].get(rule), figure) for rule, figure in figures.items()}
        for key, figures in measured.items()
        if any(figure > listed[key].get(rule, 0) for rule, figure in figures.items())
    }
    assert grown == {}, "these functions were over a limit and have grown: (listed, now)"
    assert listed == measured, "these functions are simpler now: run python tests/limits.py"


def test_the_list_of_offenders_is_sorted() -> None:
    lines = OFFENDERS.read_text(encoding="utf8").splitlines()
    assert lines == sorted(lines)
    assert len({line.split()[1] + line.split()[0] for line in lines}) == len(lines)


@pytest.mark.parametrize(
    ("source", "nodes"),
    [
        ("def f(a, b=1):\n    '''Text.'''\n    return a\n", 3),  # Return, Name, Load
        ("def f():\n    pass\n", 1),
        # FunctionDef, arguments, Return, Constant.
        ("def f():\n    def g():\n        return 1\n", 4),
    ],
)
def test_the_count_of_syntax_nodes_covers_the_function_body(source: str, nodes: int) -> None:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert count_nodes(function) == nodes
