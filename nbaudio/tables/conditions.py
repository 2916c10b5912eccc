"""SQL conditions such as ``similarity < 0.5``, from fields that anybody can type into.

A condition sees the columns of its table and nothing else. It is bounded before polars parses it,
and parsed and evaluated here only.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.processes import panics_are_silent
from nbaudio.core.report import shorten
from nbaudio.tables.dataframes import STREAMED

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
    r"(?P<text>'(?:[^']|'')*')"
    r"""|(?P<name>"[^"]*"|`[^`]*`)"""
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<number>\.?\d[\w.]*)"
    r"|(?P<space>\s+)"
    r"|(?P<operator>!?~~?\*?|\|\||::|--|/\*|[<>=!]+|[^\w\s])"
)
_OF_ALL_ROWS = re.compile(
    r"\b(avg|count|first|last|max|median|min|quantile_cont|stddev|sum|variance)\W?\s*\(|\bover\b",
    re.IGNORECASE,
)
_ERRORS = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    ValueError,
    TypeError,
    OverflowError,
)
_REGEX_OPERATORS = frozenset(("~", "~*", "!~", "!~*", "rlike", "regexp"))
_COUNTS = re.compile(r"\{(\d*),?(\d*)\}")
_LONGEST_SHOWN = 200
_NUMBERS = (None, 0, 1, 2)
_VALUES = {pl.String: (None, "", "1", "a"), pl.Boolean: (None, False, True, True)}


@dataclass(frozen=True)
class Condition:
    """SQL condition over the columns of a table, parsed.

    Attributes:
        text: the condition as somebody wrote it.
        expression: true or false for each row, false for null.
        columns: names of the columns that it reads, each once; none of a constant.
    """

    text: str
    expression: pl.Expr
    columns: tuple[str, ...]

    @property
    def needs_all_rows(self) -> bool:
        """Whether a row's result may depend on other rows, as with ``wer > avg(wer)``."""
        return _OF_ALL_ROWS.search(self.text) is not None


def parse_condition(text: str, schema: Mapping[str, pl.DataType]) -> Condition:
    """Parse a condition over the columns of a table with their types.

    Raise InputError if it is invalid, not true or false, or over a limit.
    """
    expression = _parsed(text, schema)
    columns = tuple(dict.fromkeys(expression.meta.root_names()))
    with _one_error_line(text, schema):
        dtype = pl.LazyFrame(schema=schema).select(where=expression).collect_schema()["where"]
        # Panics depend on the types. Other errors may be of values that the table does not have.
        with suppress(pl.exceptions.PolarsError):
            values = _values_of_each_type({name: schema[name] for name in columns})
            computed = values.select(where=expression)
            if computed["where"].dtype not in (pl.Null, dtype):
                raise TypeError(f"{dtype} was expected")
    if dtype not in (pl.Boolean, pl.Null):
        raise InputError(
            f"filter {_short(text)}: must be a condition such as similarity < 0.5; "
            f"this gives {_kind_of_value(dtype)}"
        )
    if dtype == pl.Null:  # null whatever the row, but of any type once it is computed
        return Condition(text, pl.lit(value=False), columns)
    return Condition(text, expression.fill_null(value=False), columns)


def _kind_of_value(dtype: pl.DataType) -> str:
    """Return a name for the type of an expression's value, for messages."""
    if dtype == pl.String:
        return "a text"
    return "a number" if dtype.is_numeric() else "something else"


def condition_columns(text: str) -> tuple[str, ...]:
    """Return the names of the columns that a condition reads, each once, whatever the table.

    Raise InputError if it cannot be parsed.
    """
    return tuple(dict.fromkeys(_parsed(text, {}).meta.root_names()))


def rows_that_meet(condition: Condition, rows: pl.DataFrame | pl.LazyFrame) -> pl.Series:
    """Return for each row whether a condition is true; a lazy frame is streamed.

    Raise InputError if the condition cannot be computed of these values.
    """
    # Also a constant has a value in each row, and is computed once.
    with _one_error_line(condition.text, ()):
        if isinstance(rows, pl.LazyFrame):
            met = rows.with_columns(where=condition.expression).select("where")
            return met.collect(**STREAMED).to_series()
        met_now = rows.select(where=condition.expression).to_series()
        if len(met_now) == len(rows):
            return met_now
        return met_now.new_from_index(0, len(rows))


def error_line(text: str, error: Exception, columns: Iterable[str] = ()) -> str:
    """Return what is wrong with a condition, in terms of its text and the table's columns.

    Messages of polars name columns and types that the user did not write.
    """
    reason = _NOT_UNDERSTOOD
    if isinstance(error, pl.exceptions.PolarsError):
        reason = _reason(error, list(columns))
    return f"filter {_short(text)}: {reason}"


@contextmanager
def _one_error_line(text: str, columns: Iterable[str]) -> Iterator[None]:
    """Raise InputError for whatever polars raises for a condition, also where it panics."""
    try:
        with panics_are_silent():
            yield
    except _ERRORS as error:
        raise InputError(error_line(text, error, columns)) from error


def _parsed(text: str, columns: Iterable[str]) -> pl.Expr:
    """Return a condition as polars parses it, once it is within the limits."""
    if problem := _problem(text):
        raise InputError(f"filter {_short(text)}: {problem}")
    with _one_error_line(text, columns):
        return pl.sql_expr(text)


def _values_of_each_type(schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return a few rows of columns of these types, with a null in each."""
    series = []
    for name, dtype in schema.items():
        values: Sequence[object] = _VALUES.get(dtype.base_type(), _NUMBERS)
        if not dtype.is_numeric() and dtype not in (pl.String, pl.Boolean):
            values = [None] * len(values)
        series.append(pl.Series(name, values, dtype=dtype))
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
    """Return which limit a token of a condition exceeds; None if it is within the limits.

    `kind` and `value` are those of the token, `before` is the text of the token before it.
    """
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
    return repr(shorten(where, _LONGEST_SHOWN, " …"))


def _reason(error: pl.exceptions.PolarsError, columns: Sequence[str]) -> str:
    """Return what is wrong with a condition by the error of polars, for messages."""
    if isinstance(error, pl.exceptions.ColumnNotFoundError) and (
        match := re.search(r'column "([^"]*)"', str(error))
    ):
        name = match[1]
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
