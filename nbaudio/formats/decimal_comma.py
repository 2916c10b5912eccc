"""Read numbers with a decimal comma, as most European programs write them, in columns of times.

A comma may also separate thousands. Which of both it does is found from all times of a table; where
every number could be either, it is asked for.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.formats.source_columns import USUAL_NAMES, plain_name
from nbaudio.tables.rows import Rows

# Forms of numbers with a comma, as regular expressions.
_ONE_GROUP = r"^[+-]?[1-9]\d{0,2},\d{3}$"  # 1,250: a decimal comma, or thousands
_SEVERAL_GROUPS = r"^[+-]?[1-9]\d{0,2}(,\d{3}){2,}$"  # 1,250,000
_GROUPS_AND_POINT = r"^[+-]?[1-9]\d{0,2}(,\d{3})+\.\d+$"  # 1,250.5
_POINTS_AND_COMMA = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+,\d+$"  # 1.250,5
_ONE_COMMA = r"^[+-]?\d*,\d+$"  # 0,5
_GROUPS_OF_POINTS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$"  # 1.250, beside 1.250,5
_DECIMAL_COMMA = (_ONE_COMMA, _POINTS_AND_COMMA)
_COMMA_BETWEEN_THOUSANDS = (_ONE_GROUP, _SEVERAL_GROUPS, _GROUPS_AND_POINT)
_NUMBERS = (r"^[+-]?\d*\.?\d+$", *_DECIMAL_COMMA, *_COMMA_BETWEEN_THOUSANDS, _GROUPS_OF_POINTS)
_DECIMAL_SIGNS = (",", ".")
_PLAIN_TIMES = frozenset(
    plain_name(name) for key in ("start", "end", "duration") for name in USUAL_NAMES[key]
) | {"offset"}


@dataclass(frozen=True)
class PointedRows:
    """Rows whose times have decimal points, and notes on how their commas were read."""

    rows: Rows
    notes: list[str]


@dataclass(frozen=True)
class _Commas:
    """Which forms of numbers with a comma some columns have, with a number of each kind."""

    decimal: str | None = None  # such as 0,5, which has a decimal comma
    thousands: str | None = None  # such as 1,250.5, whose commas separate thousands
    either: str | None = None  # such as 1,250
    points: str | None = None  # such as 1.250,5, whose points separate thousands

    def __or__(self, other: "_Commas") -> "_Commas":
        return _Commas(
            self.decimal or other.decimal,
            self.thousands or other.thousands,
            self.either or other.either,
            self.points or other.points,
        )


def with_decimal_points(
    source: Path,
    rows: Rows,
    named: Sequence[str],
    decimal: str | None = None,
    *,
    has_options: bool = False,
) -> PointedRows:
    """Replace decimal commas in columns of times by points, and remove separators of thousands.

    Args:
        source: the table, for messages.
        rows: its rows.
        named: columns that options name as times; those with usual names of times are too.
        decimal: the decimal sign, ``,`` or ``.``; found from the times unless given.
        has_options: whether that is an option of the command, which messages name.

    Raises:
        InputError: the numbers can be read in two ways, or `decimal` is another character.
    """
    if decimal not in (*_DECIMAL_SIGNS, None):
        raise InputError(f"option decimal={decimal!r}: must be , or .")
    columns = [
        name
        for name, dtype in rows.schema.items()
        if dtype == pl.String and (name in named or plain_name(name) in _PLAIN_TIMES)
    ]
    forms = {name: _forms(rows, name) for name in columns}
    commas = reduce(operator.or_, forms.values(), _Commas())
    if commas == _Commas():
        return PointedRows(rows, [])
    sign = decimal or _decimal_sign(source, commas, has_options=has_options)
    patterns: tuple[str, ...]
    if sign == ",":
        patterns = _DECIMAL_COMMA
        if commas.points:
            patterns = (*patterns, _GROUPS_OF_POINTS)
        example = commas.decimal or commas.either
        meaning = "a decimal comma"
        other = "."
    else:
        patterns = _COMMA_BETWEEN_THOUSANDS
        example = commas.thousands or commas.either
        meaning = "a comma between thousands"
        other = ","
    converted = rows.map(partial(_convert, columns=columns, patterns=patterns, sign=sign))
    listed = " and ".join(repr(name) for name, form in forms.items() if form != _Commas())
    option = f": --option decimal={other} reads them otherwise" if has_options else ""
    note = f"{listed}: numbers such as {example} are read as ones with {meaning}{option}"
    return PointedRows(converted, [note])


def decimal_comma_columns(rows: Rows) -> list[str]:
    """Return the columns of texts that hold only numbers, some of them with a decimal comma."""
    texts = [name for name, dtype in rows.schema.items() if dtype == pl.String]
    numbers = [name for name in texts if _has_only_numbers(rows, name)]
    return [name for name in numbers if _forms(rows, name).decimal]


def _has_only_numbers(rows: Rows, column: str) -> bool:
    """Return whether all values of a column of texts are numbers or blank."""
    for batch in rows.batches([column]):
        texts = batch[column].str.strip_chars().drop_nulls()
        texts = texts.filter(texts != "")
        is_number = pl.any_horizontal(pl.col(column).str.contains(form) for form in _NUMBERS)
        if not texts.to_frame().select(is_number.all()).item():
            return False
    return True


def _forms(rows: Rows, column: str) -> _Commas:
    """Return the forms of the numbers of a column that have a comma."""
    commas = _Commas()
    for batch in rows.batches([column]):
        texts = batch[column].str.strip_chars()
        texts = texts.filter(texts.str.contains(",", literal=True).fill_null(value=False))
        commas |= _Commas(
            decimal=_first(texts.filter(_is_decimal_comma(texts))),
            thousands=_first(
                texts.filter(
                    texts.str.contains(_SEVERAL_GROUPS) | texts.str.contains(_GROUPS_AND_POINT)
                )
            ),
            either=_first(texts.filter(texts.str.contains(_ONE_GROUP))),
            points=_first(texts.filter(texts.str.contains(_POINTS_AND_COMMA))),
        )
    return commas


def _is_decimal_comma(texts: pl.Series) -> pl.Series:
    is_one_comma = texts.str.contains(_ONE_COMMA) & ~texts.str.contains(_ONE_GROUP)
    return is_one_comma | texts.str.contains(_POINTS_AND_COMMA)


def _first(texts: pl.Series) -> str | None:
    return str(texts[0]) if len(texts) else None


def _decimal_sign(source: Path, commas: _Commas, *, has_options: bool) -> str:
    """Return the decimal sign of all times of a table."""
    if bool(commas.decimal) != bool(commas.thousands):
        return "," if commas.decimal else "."
    examples = [commas.decimal, commas.thousands, commas.either]
    shown = " and ".join(example for example in examples if example)
    remedy = "write them with decimal points"
    if has_options:
        remedy = "say which by --option decimal=, or --option decimal=."
    raise InputError(
        f"{source}: times such as {shown} can be read with a decimal comma or with commas between "
        f"thousands: {remedy}"
    )


def _convert(
    batch: pl.DataFrame, *, columns: Sequence[str], patterns: Sequence[str], sign: str
) -> pl.DataFrame:
    """Write the numbers of columns with a decimal point and without separators of thousands.

    Numbers are what one of the regular expressions `patterns` matches; other cells stay.
    """
    thousands = "." if sign == "," else ","
    expressions = []
    for column in (name for name in columns if name in batch.columns):
        texts = pl.col(column).str.strip_chars()
        is_number = pl.any_horizontal(texts.str.contains(pattern) for pattern in patterns)
        digits = texts.str.replace_all(thousands, "", literal=True)
        pointed = digits.str.replace(",", ".", literal=True)
        expressions.append(pl.when(is_number).then(pointed).otherwise(pl.col(column)).alias(column))
    return batch.with_columns(expressions)
