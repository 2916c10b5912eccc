"""SQL conditions such as ``similarity < 0.5``, from fields that anybody can type into.

A condition sees the columns of its table and nothing else. Its size and its functions are checked
before polars parses it. No other module parses or evaluates conditions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.processes import panics_are_silent
from nbaudio.core.report import shorten
from nbaudio.tables.dataframes import STREAMED

MOST_CHARACTERS = 1_000_000  # of a condition
# Names, keywords and operators: polars takes seconds for 3,000 and exhausts the stack at 6,000.
MOST_WORDS = 800
MOST_NESTED = 40  # parentheses within each other
LONGEST_TEXT = 1000  # characters of a string
LONGEST_PATTERN = 200  # characters of a regular expression
MOST_REPEATED = 1000  # repetitions in a regular expression: the product of its counts
# No function here makes a text longer, so that the rows bound the cost of a condition.
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

# Keywords after which a parenthesis begins no arguments.
_BEFORE_PARENTHESES = frozenset(
    ("and", "between", "case", "else", "in", "is", "like", "not", "or", "over", "then", "when")
)
# Joined texts may be of any length. Comments, quotes of another kind and strings that do not end
# hide what follows them from `_TOKEN`.
_UNSUPPORTED = frozenset(("||", "--", "/*", "$", "'", ";"))
# Letters in front of strings of another kind, such as e'a\'b', which may end elsewhere.
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
# Values that a condition is tried on, as many of each type.
_EXAMPLE_NUMBERS = (None, 0, 1, 2)
_EXAMPLES = {pl.String: (None, "", "1", "a"), pl.Boolean: (None, False, True, True)}


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
        """Whether a row's result may depend on other rows, as with ``wer > avg(wer)``.

        It is true also where such a function is only named within a string.
        """
        return _OF_ALL_ROWS.search(self.text) is not None


def parse_condition(text: str, schema: Mapping[str, pl.DataType]) -> Condition:
    """Parse a condition over the columns of a table with their types.

    Raise InputError if it is invalid, not true or false, or over a limit.
    """
    expression = _parsed(text, schema)
    columns = tuple(dict.fromkeys(expression.meta.root_names()))
    with _raise_input_error(text, schema):
        dtype = pl.LazyFrame(schema=schema).select(where=expression).collect_schema()["where"]
        _try_on_examples(expression, {name: schema[name] for name in columns}, dtype)
    if dtype not in (pl.Boolean, pl.Null):
        raise InputError(
            f"filter {_short(text)}: must be a condition such as similarity < 0.5; "
            f"this gives {_kind_of_value(dtype)}"
        )
    if dtype == pl.Null:  # null in each row; polars may compute it as a column of any type
        return Condition(text, pl.lit(value=False), columns)
    return Condition(text, expression.fill_null(value=False), columns)


def _try_on_examples(
    expression: pl.Expr, schema: Mapping[str, pl.DataType], dtype: pl.DataType
) -> None:
    """Compute a condition of example values, as polars panics at some types only then.

    `schema` has the columns that it reads, `dtype` is the type that polars expects of it. Raise
    TypeError if its values are of another type, PanicException if polars panics.
    """
    # Other errors may be of examples that are unlike the values of the table.
    with suppress(pl.exceptions.PolarsError):
        computed = _example_rows(schema).select(where=expression)
        if computed["where"].dtype not in (pl.Null, dtype):
            raise TypeError(f"{dtype} was expected")


def _example_rows(schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return a few rows of columns of these types: some values and a null, or only nulls."""
    series = []
    for name, dtype in schema.items():
        values: Sequence[object] = _EXAMPLES.get(dtype.base_type(), _EXAMPLE_NUMBERS)
        if not dtype.is_numeric() and dtype not in (pl.String, pl.Boolean):
            values = [None] * len(values)
        series.append(pl.Series(name, values, dtype=dtype))
    return pl.DataFrame(series)


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
    with _raise_input_error(condition.text, ()):
        if isinstance(rows, pl.LazyFrame):
            # `select` alone would return one row for a constant.
            streamed = rows.with_columns(where=condition.expression).select("where")
            return streamed.collect(**STREAMED).to_series()
        is_met = rows.select(where=condition.expression).to_series()
        if len(is_met) == len(rows):
            return is_met
        return is_met.new_from_index(0, len(rows))  # a constant, which was computed once


def _error_line(text: str, error: Exception, columns: Iterable[str]) -> str:
    """Return what is wrong with a condition, in terms of its text and the table's columns.

    Messages of polars name columns and types that the user did not write.
    """
    reason = _NOT_UNDERSTOOD
    if isinstance(error, pl.exceptions.PolarsError):
        reason = _reason(error, list(columns))
    return f"filter {_short(text)}: {reason}"


@contextmanager
def _raise_input_error(text: str, columns: Iterable[str]) -> Iterator[None]:
    """Raise InputError for whatever polars raises for a condition, also where it panics.

    `columns` are those of the table, for the message.
    """
    try:
        with panics_are_silent():
            yield
    except _ERRORS as error:
        raise InputError(_error_line(text, error, columns)) from error


def _parsed(text: str, columns: Iterable[str]) -> pl.Expr:
    """Return a condition as polars parses it; raise InputError if it cannot, or over a limit.

    `columns` are those of the table, for the message.
    """
    if problem := _problem(text):
        raise InputError(f"filter {_short(text)}: {problem}")
    with _raise_input_error(text, columns):
        return pl.sql_expr(text)


def _problem(where: str) -> str | None:
    """Return why polars may not parse a condition, such as a limit; None if it may."""
    if len(where) > MOST_CHARACTERS:
        return f"{len(where):,} characters; at most {MOST_CHARACTERS:,} are allowed"
    words = 0
    before = ""
    opened: list[str] = []  # the token in front of each open parenthesis
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
            del opened[-1:]  # polars reports a parenthesis that nothing opened
        elif kind not in ("text", "number"):
            is_in_list = opened[-1:] == ["in"] and value in (",", "-")
            words += not is_in_list
        if words > MOST_WORDS or len(opened) > MOST_NESTED:
            return (
                "too long; write many values as speaker_id IN ('spk7', 'spk9'), "
                f"at most {MOST_WORDS} words besides"
            )
        before = value
    return None


def _token_problem(kind: str, value: str, before: str) -> str | None:
    """Return why a token of a condition is not allowed; None if it is.

    `kind` and `value` are those of the token, `before` is the text of the token before it.
    """
    if kind == "text":
        return _string_problem(value, before)
    if value in _UNSUPPORTED:
        return f"{value} is not supported"
    if value == "(":
        return _function_problem(before)
    return None


def _string_problem(text: str, before: str) -> str | None:
    """Return why a string is not allowed after the token `before`; None if it is."""
    if before in _STRING_KINDS:
        return _NOT_UNDERSTOOD
    if len(text) > LONGEST_TEXT:
        return f"a string has {len(text):,} characters; at most {LONGEST_TEXT:,} are allowed"
    if before not in _REGEX_OPERATORS:
        return None
    if len(text) > LONGEST_PATTERN or _repetitions(text) > MOST_REPEATED:
        return f"a pattern may have {LONGEST_PATTERN} characters and {MOST_REPEATED:,} repetitions"
    return None


def _repetitions(pattern: str) -> int:
    """Return the product of all counts of a regular expression, as they may be nested.

    Of ``{2,5}`` it takes 5, of ``{2,}`` 2.
    """
    repetitions = 1
    for least, most in _COUNTS.findall(pattern):
        repetitions *= max(1, int(most or least or 1))
    return repetitions


def _function_problem(before: str) -> str | None:
    """Return why a parenthesis is not allowed after the token `before`; None if it is."""
    # A quoted name in front of a parenthesis is that of a function, too.
    is_name = before[:1].isalpha() or before[:1] in ("_", '"', "`")
    if not is_name or before in _BEFORE_PARENTHESES:
        return None
    function = before.strip('"`')
    if function in FUNCTIONS:
        return None
    shown = _short(function)[1:-1]  # without the quotes
    return f"there is no function {shown}; functions are {', '.join(FUNCTIONS)}"


def _short(where: str) -> str:
    """Return a text in quotes, escaped and cut, for messages."""
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
