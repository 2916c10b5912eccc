"""Read JSON lines into columns.

This is faster than one Python object per line, and loses neither a digit nor a line.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

from nbaudio.core import input_guards
from nbaudio.core.threads import in_threads

_BLOCK_BYTES = 4 << 20

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


class _OddError(ValueError):
    """A column that only the slow path reads."""


class Kind(NamedTuple):
    """Two ways from JSON to values of one type; absent fields become null."""

    dtype: pl.DataType
    arrow: pa.DataType
    slow: Callable[[bytes], Any]  # parses one value, or raises a ValueError
    # Converts a column that Arrow parsed, given its lines, to the same values, or raises
    # `_OddError`.
    fast: Callable[[str, pa.Array, pl.Series], pl.Series] = lambda name, values, _: pl.Series(
        name, values
    )


class Block(NamedTuple):
    """Some lines of a file.

    `values` has the number of each readable line (`line`, from 1) and its fields; `problems` has
    the numbers of the other lines and the reasons. `composed` says that all text is in NFC.
    """

    values: pl.DataFrame
    problems: list[tuple[int, str]]
    composed: bool


def _slow_text(raw: bytes) -> str | None:
    value = msgspec.json.decode(raw, type=str | int | float | None)
    return value if isinstance(value, str | None) else raw.decode()


def _slow_number(raw: bytes) -> str:
    value = msgspec.json.decode(raw, type=str | int | float | bool | None)
    return value if isinstance(value, str) else raw.decode()


def _fast_number(name: str, values: pa.Array, lines: pl.Series) -> pl.Series:
    """Extract the characters of each number from its line.

    Comparing values proves that they belong to this field.
    """
    # Null is told apart from absent.
    if values.null_count and lines.str.contains(f'"{name}"', literal=True).any():
        raise _OddError
    numbers = lines.str.extract(f'"{name}"' + r"\s*:\s*(-?[0-9][-+.0-9eE]*)").alias(name)
    if not numbers.cast(pl.Float64, strict=False).eq_missing(pl.Series(values)).all():
        raise _OddError
    return numbers


def _slow_words(raw: bytes) -> str | None:
    value = msgspec.json.decode(raw, type=list[str] | str | None)
    return " ".join(value) if isinstance(value, list) else value


def _fast_words(name: str, values: pa.Array, _: pl.Series) -> pl.Series:
    if values.flatten().null_count:
        raise _OddError
    return pl.Series(name, pc.binary_join(values, " "))


def _slow_floats(raw: bytes) -> list[float | None] | None:
    values = msgspec.json.decode(raw, type=list[float | str | None] | None)
    if values is None:
        return None
    return [None if value is None else float(value) for value in values]


TEXT = Kind(pl.String(), pa.string(), _slow_text)  # a string, or a number with its characters
#: A number in the source's own characters; a string stands for its content, null and NaN stay as
#: they are.
NUMBER = Kind(pl.String(), pa.float64(), _slow_number, _fast_number)
#: A list of words, joined by a blank; a single string stays as it is.
WORDS = Kind(pl.String(), pa.list_(pa.string()), _slow_words, _fast_words)
FLOATS = Kind(pl.List(pl.Float32), pa.list_(pa.float32()), _slow_floats)


def struct_fields(*names: str) -> Kind:
    """Return the kind of an object of which these fields are kept, as text."""
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
    absent = msgspec.Raw(b"null")

    def slow(raw: bytes) -> dict[str, str | None] | None:
        value = decode(raw)
        if value is None:
            return None
        return {name: _slow_text(bytes(value.get(name, absent))) for name in names}

    return Kind(
        pl.Struct(dict.fromkeys(names, pl.String)),
        pa.struct(dict.fromkeys(names, pa.string())),
        slow,
    )


def read_blocks(source: Path, kinds: Mapping[str, Kind]) -> Iterator[Block]:
    """Read the lines of a file in blocks, in order.

    Blank lines and fields that are not in `kinds` are skipped.
    """
    input_guards.check_regular(source)
    with source.open("rb") as file:

        def texts() -> Iterator[tuple[int, bytes]]:
            first = 1
            while text := file.read(_BLOCK_BYTES):
                rest = file.readline(input_guards.MAX_TEXT_BYTES + 1)
                input_guards.check_line(rest, source)
                yield first, text + rest
                first += text.count(b"\n") + rest.count(b"\n")

        yield from in_threads(lambda numbered: _block(*numbered, kinds), texts())


def _block(first: int, text: bytes, kinds: Mapping[str, Kind]) -> Block:
    """Read lines, numbered from `first`, all at once or, where any is not plain, one by one."""
    characters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(characters == ord("\n")) + 1
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    edges = np.concatenate(([0], ends)).astype(np.int64)
    try:
        values = _plain(first, text, edges, kinds)
        problems = list[tuple[int, str]]()
    except (pa.ArrowInvalid, _OddError):
        values, problems = _one_by_one(first, text, kinds)
    # Characters from U+0300 on, which NFC may compose, have a byte of 0xCC or more, or are escaped.
    composed = b"\\" not in text and int(characters.max()) < 0xCC
    return Block(values, problems, composed)


def _plain(
    first: int, text: bytes, edges: NDArray[np.int64], kinds: Mapping[str, Kind]
) -> pl.DataFrame:
    """Parse plain lines with Arrow.

    Raise `pa.ArrowInvalid` or `_OddError` where any line is blank, broken or of an odd type.
    """
    count = len(edges) - 1
    texts = pa.LargeStringArray.from_buffers(count, pa.py_buffer(edges), pa.py_buffer(text))
    texts.validate(full=True)  # Arrow does not validate the strings that it skips
    schema = pa.schema([(name, kind.arrow) for name, kind in kinds.items()])
    table = pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    if len(table) != count:
        raise _OddError
    lines = pl.Series(texts)
    columns = [kind.fast(name, table[name].combine_chunks(), lines) for name, kind in kinds.items()]
    return pl.DataFrame(
        [pl.int_range(first, first + count, dtype=pl.UInt32, eager=True).alias("line"), *columns]
    )


def _one_by_one(
    first: int, text: bytes, kinds: Mapping[str, Kind]
) -> tuple[pl.DataFrame, list[tuple[int, str]]]:
    """Read lines, numbered from `first`, by one Python object each; return rows and problems."""
    problems: list[tuple[int, str]] = []
    rows = []
    for number, line in enumerate(BytesIO(text), first):
        if not line.strip():
            continue
        try:
            try:
                raw = _decode(str(line, "utf8"))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                raw = _tolerant(line, kinds)
            rows.append(
                (
                    number,
                    *(
                        _slow_value(field, kind, bytes(raw.get(field, b"")))
                        for field, kind in kinds.items()
                    ),
                )
            )
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            problems.append((number, _reason(error)))
    schema = pl.Schema(
        {"line": pl.UInt32(), **{field: kind.dtype for field, kind in kinds.items()}}
    )
    return pl.DataFrame(rows, schema=schema, orient="row"), problems


def _slow_value(field: str, kind: Kind, raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return kind.slow(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{field}: {_reason(error)}") from error


def _tolerant(line: bytes, fields: Iterable[str]) -> dict[str, msgspec.Raw]:
    """Parse a line as Python writes JSON, with NaN and the like as strings."""
    value = json.loads(line.decode("utf-8-sig"), parse_float=Decimal, parse_constant=str)
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, not {type(value).__name__}")
    return {field: msgspec.Raw(_encode(value[field])) for field in fields if field in value}


def _reason(error: Exception) -> str:
    """Return why a line cannot be read."""
    match error:
        case json.JSONDecodeError():
            return f"not JSON: {error.msg} (character {error.pos + 1})"
        case UnicodeDecodeError():
            return (
                f"not UTF-8: byte 0x{error.object[error.start]:02x} (byte {error.start + 1} "
                "of the line)"
            )
        case UnicodeEncodeError():
            return "half a surrogate pair: not Unicode"
        case RecursionError():
            return "nested too deeply"
        case _:
            return str(error)
