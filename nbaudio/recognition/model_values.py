"""The values that a model returns for a clip, and the types of the columns that they make.

A value is a number, yes or no, a word, or nothing; a record has several of them by name.
"""

import dataclasses
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.recognition.recognizers import Failure, read_text

_FIELD = re.compile(r"[A-Za-z0-9_]+")
_LEAST_INT, _GREATEST_INT = -(2**63), 2**63 - 1
_KINDS = {bool: "yes or no", int: "numbers", float: "numbers", str: "words"}

Scalar = bool | int | float | str


class Values(msgspec.Struct, frozen=True):
    """The values of a clip by field.

    The field of a value that is no record is empty. `not_finite` is how many were NaN or infinite;
    they have no value, as fields without one.
    """

    fields: dict[str, Scalar]
    not_finite: int = 0


def values_of(returned: object) -> Values | Failure:
    """Return what a model returned for a clip: a value, or a record of values by field.

    Records are dicts, named tuples and dataclasses.
    """
    record = _record_of(returned)
    if record is None:
        record = {"": returned}
    elif bad_names := [name for name in record if not _is_field(name)]:
        return Failure(
            f"its field {bad_names[0]!r}: names have letters from a to z, digits and underscores"
        )
    fields: dict[str, Scalar] = {}
    not_finite = 0
    for name, value in record.items():
        scalar = _scalar_of(value)
        if isinstance(scalar, Failure):
            return Failure(f"its field {name}: {scalar.reason}") if name else scalar
        if isinstance(scalar, float) and not math.isfinite(scalar):
            not_finite += 1
        elif scalar is not None:
            fields[name] = scalar
    return Values(fields, not_finite)


def _is_field(name: object) -> bool:
    return isinstance(name, str) and _FIELD.fullmatch(name) is not None


def _record_of(returned: object) -> dict[Any, Any] | None:
    """Return a record as a dict; None if it is a single value."""
    if isinstance(returned, Mapping):
        return dict(returned)
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        return dataclasses.asdict(returned)
    as_dict = getattr(returned, "_asdict", None)  # of a named tuple
    return dict(as_dict()) if callable(as_dict) else None


def _scalar_of(value: object) -> Scalar | Failure | None:
    """Return a single value; numbers of NumPy and of tensors become Python's."""
    # NumPy's float64 and str_ are subclasses of Python's types.
    if type(value) not in _KINDS and hasattr(value, "item"):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):
            return Failure(f"{type(value).__name__} is neither a number nor a word")
    if isinstance(value, str):
        return read_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value) if _LEAST_INT <= value <= _GREATEST_INT else float(value)
    if isinstance(value, float):
        return float(value)
    if value is None or isinstance(value, bool):
        return value
    return Failure(f"{type(value).__name__} is neither a number nor a word")


class ColumnTypes:
    """The types of columns, from all values that they get, and how many values each has.

    `counts` are by field.
    """

    def __init__(self, name: str) -> None:
        """Take the name of the columns, which those of records begin with."""
        self._name = name
        self._types: defaultdict[str, set[type]] = defaultdict(set)
        self.counts = Counter[str]()

    def add(self, fields: Mapping[str, Scalar]) -> list[str]:
        """Take the values of a clip; return the columns that no clip before had.

        Raise InputError if a column gets values of two kinds.
        """
        new_columns = []
        self.counts.update(fields.keys())
        for field, value in fields.items():
            types = self._types[field]
            if type(value) in types:
                continue
            if not types:
                new_columns.append(self.column(field))
            types.add(type(value))
            kinds = sorted({_KINDS[kind] for kind in types})
            if len(kinds) > 1:
                raise InputError(
                    f"column {self.column(field)}: the function returned {' and '.join(kinds)}; "
                    "a column has values of one kind"
                )
        return new_columns

    def column(self, field: str) -> str:
        """Return the column of a field."""
        return f"{self._name}_{field}" if field else self._name

    def schema(self) -> dict[str, pl.DataType]:
        """Return the type of each field in order of names; numbers if no clip has any value."""
        fields = sorted(self._types) or [""]
        return {field: _dtype(self._types[field]) for field in fields}


def _dtype(types: Iterable[type]) -> pl.DataType:
    """Return the type of a column whose values have some types."""
    for kind, dtype in ((str, pl.String()), (bool, pl.Boolean()), (float, pl.Float64())):
        if kind in types:
            return dtype
    return pl.Int64() if int in types else pl.Float64()
