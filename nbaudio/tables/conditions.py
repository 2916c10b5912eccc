"""SQL conditions such as ``similarity < 0.5``, from fields that anybody can type into.

They are bounded before polars parses them.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from math import prod

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.processes import panics_are_silent

MOST_CHARACTERS = 1_000_000
# names, keywords and operators; polars takes seconds for 3,000 and exhausts the stack at 6,000
MOST_WORDS = 800
MOST_NESTED = 40
LONGEST_TEXT = 1000
LONGEST_PATTERN = 200
MOST_REPEATED = 1000
# None makes texts longer, so that the cost of a condition is bounded by the rows.
FUNCTIONS = (
    "abs",
    "avg",
    "cast",
    "ceil",
    "coalesce",
    "count",
    "date_part",
    "ends_with",
    "exp",
    "extract",
    "first",
    "floor",
    "greatest",
    "if",
    "ifnull",
    "last",
    "least",
    "left",
    "length",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "max",
    "median",
    "min",
    "mod",
    "nullif",
    "octet_length",
    "position",
    "pow",
    "power",
    "quantile_cont",
    "right",
    "round",
    "rtrim",
    "sign",
    "sqrt",
    "starts_with",
    "stddev",
    "strpos",
    "substr",
    "sum",
    "trim",
    "try_cast",
    "upper",
    "variance",
)

_BEFORE_PARENTHESES = frozenset(
    ("and", "between", "case", "else", "in", "is", "like", "not", "or", "over", "then", "when")
)
# Joined texts may be of any length, and other kinds of quotes hide what follows them.
_UNSUPPORTED = frozenset(("||", "--", "/*", "$", "'", ";"))
_STRING_KINDS = frozenset("benqrux&")
_NOT_UNDERSTOOD = (
    "not understood; write a condition such as similarity < 0.5 and speaker_id = 'spk7'"
)
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*')|(?P<name>"[^"]*"|`[^`]*`)|(?P<word>[^\W\d]\w*)|(?P<number>\.?\d[\w.]*)|(?P<space>\s+)"""
    r"""|(?P<operator>!?~~?\*?|\|\||::|--|/\*|[<>=!]+|[^\w\s])"""
)
_REGEX_OPERATORS = frozenset(("~", "~*", "!~", "!~*", "rlike", "regexp"))
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")
_LONGEST_SHOWN = 200
_NUMBERS = (None, 0, 1, 2)
_VALUES = {pl.String: (None, "", "1", "a"), pl.Boolean: (None, False, True, True)}


def parse_condition(where: str, schema: pl.Schema, columns: Sequence[str]) -> pl.Expr:
    """Parse a condition over a schema.

    Raise InputError, naming `columns`, if it is invalid, not true or false, or over a limit.
    """
    if problem := _problem(where):
        raise InputError(f"filter {_short(where)}: {problem}")
    with condition_errors(where, columns):
        expression = pl.sql_expr(where).alias("where")
        dtype = pl.LazyFrame(schema=schema).select(expression).collect_schema()["where"]
        # Panics depend on the types. Other errors may be of values that the table does not have.
        with suppress(pl.exceptions.PolarsError):
            computed = _values_of_each_type(schema, expression).select(expression)
            if computed["where"].dtype not in (pl.Null, dtype):
                raise TypeError(f"{dtype} was expected")
    if dtype not in (pl.Boolean, pl.Null):
        given = (
            "a text"
            if dtype == pl.String
            else "a number"
            if dtype.is_numeric()
            else "something else"
        )
        raise InputError(
            f"filter {_short(where)}: must be a condition such as similarity < 0.5; "
            f"this gives {given}"
        )
    if dtype == pl.Null:  # null whatever the row, but of any type once it is computed
        return pl.lit(None, dtype=pl.Boolean).alias("where")
    return expression


def condition_mask(frame: pl.DataFrame, where: str, columns: Sequence[str]) -> pl.Series:
    """Return for each row of a frame whether a condition is true, false for null.

    Raise InputError as `parse_condition` does.
    """
    condition = parse_condition(where, frame.schema, columns).fill_null(value=False)
    with condition_errors(where, columns):
        mask = frame.select(condition).to_series()
        is_constant = len(mask) != len(frame)
        return mask.new_from_index(0, len(frame)) if is_constant else mask


@contextmanager
def condition_errors(where: str, columns: Sequence[str]) -> Iterator[None]:
    """Raise InputError for whatever polars raises for a condition, also where it panics.

    Messages of polars name columns and types that the user did not write.
    """
    try:
        with panics_are_silent():
            yield
    except pl.exceptions.PolarsError as error:
        raise InputError(f"filter {_short(where)}: {_reason(error, columns)}") from error
    except (pl.exceptions.PanicException, ValueError, TypeError, OverflowError) as error:
        raise InputError(f"filter {_short(where)}: {_NOT_UNDERSTOOD}") from error


def _values_of_each_type(schema: pl.Schema, expression: pl.Expr) -> pl.DataFrame:
    """Return a few rows of the columns that an expression names, with a null in each."""
    series = []
    for name in expression.meta.root_names():
        values = _VALUES.get(schema[name].base_type(), _NUMBERS)
        is_usual = schema[name].is_numeric() or schema[name] in (pl.String, pl.Boolean)
        series.append(
            pl.Series(name, values if is_usual else [None] * len(values), dtype=schema[name])
        )
    return pl.DataFrame(series)


def _problem(where: str) -> str | None:
    """Return which limit a condition exceeds; None if polars may parse it."""
    if len(where) > MOST_CHARACTERS:
        return f"{len(where):,} characters; at most {MOST_CHARACTERS:,} are allowed"
    words = 0
    before = ""
    opened: list[str] = []  # what is in front of each open parenthesis
    for token in _TOKEN.finditer(where):
        kind = str(token.lastgroup)
        value = token[0] if token.lastgroup == "text" else token[0].lower()
        if kind == "space":
            continue
        if problem := _token_problem(kind, value, before):
            return problem
        if value == "(":
            opened.append(before)
        elif value == ")":
            del opened[-1:]
        elif kind not in ("text", "number"):
            words += value not in ",-" or opened[-1:] != ["in"]
        if words > MOST_WORDS or len(opened) > MOST_NESTED:
            return (
                "too long; write many values as speaker_id IN ('spk7', 'spk9'), "
                f"at most {MOST_WORDS} words besides"
            )
        before = value
    return None


def _token_problem(kind: str, value: str, before: str) -> str | None:
    if kind == "text":
        if before in _STRING_KINDS:
            return _NOT_UNDERSTOOD
        if len(value) > LONGEST_TEXT:
            return f"a string has {len(value):,} characters; at most {LONGEST_TEXT:,} are allowed"
        if before in _REGEX_OPERATORS:
            repeated = prod(int(most or least or 1) or 1 for least, most in _COUNTS.findall(value))
            if len(value) > LONGEST_PATTERN or repeated > MOST_REPEATED:
                return (
                    f"a pattern may have {LONGEST_PATTERN} characters and {MOST_REPEATED:,} "
                    "repetitions"
                )
    if value in _UNSUPPORTED:
        return f"{value} is not supported"
    # Quoted names of functions are functions too.
    if (
        value == "("
        and (before[:1].isalpha() or before[:1] in ("_", '"', "`"))
        and before not in _BEFORE_PARENTHESES
    ):
        called = before.strip('"`')
        if called not in FUNCTIONS:
            return (
                f"there is no function {_short(called)[1:-1]}; functions are {', '.join(FUNCTIONS)}"
            )
    return None


def _short(where: str) -> str:
    return repr(where if len(where) <= _LONGEST_SHOWN else f"{where[:_LONGEST_SHOWN]} …")


def _reason(error: pl.exceptions.PolarsError, columns: Sequence[str]) -> str:
    if isinstance(error, pl.exceptions.ColumnNotFoundError) and (
        found := re.search(r'column "([^"]*)"', str(error))
    ):
        name = found[1]
        if near := get_close_matches(name, columns, n=3):
            return f"there is no column {name}; did you mean {' or '.join(near)}?"
        return (
            f"there is no column {name}; strings are quoted: '{name}'; "
            f"columns are {', '.join(columns)}"
        )
    if "cannot compare" in str(error):
        return (
            "a string is compared with a number; quote strings, not numbers: "
            "speaker_id = 'spk7', similarity < 0.5"
        )
    if "conversion from" in str(error):
        return "a string that is not a number cannot be converted to one"
    return _NOT_UNDERSTOOD
