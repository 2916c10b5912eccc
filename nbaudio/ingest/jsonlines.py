"""Columns of values from JSON lines, faster than a Python object per line and without losing a digit or a line.

Conventions: a field has a kind, which says what its JSON may be and what becomes of it. msgspec finds the raw JSON of each
field, polars reads those columns a block at a time; what it cannot read plainly (escapes, other separators, odd types) goes
value by value through msgspec. A line that is not strict JSON goes through the tolerant standard library, since Python writes
NaN where JSON has no word for it. What remains is a problem with its line number and a reason.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

_BLOCK_BYTES = 4 << 20
_LINE_FEED = ord("\n")

_ABSENT = msgspec.Raw(b"")

_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(frozen=True)
class Kind:
    """Two ways from raw JSON to values of one type; what is absent becomes null.

    Attributes:
        dtype: of the values.
        fast: a column at a time; each raw value ends in a line feed.
        odd: raw JSON and what `fast` made of it -> whether that value is to be read the slow way instead.
        slow: one value; agrees with `fast` wherever that is not `odd`; a ValueError says what is wrong with it.
    """

    dtype: pl.DataType
    fast: Callable[[pl.Expr], pl.Expr]
    odd: Callable[[pl.Expr, pl.Expr], pl.Expr]
    slow: Callable[[bytes], Any]


@dataclass(frozen=True)
class Block:
    """Some lines of a file.

    Attributes:
        values: one row per readable line: `line` (from 1) and a column per field.
        problems: number and reason of each line that is not.
        composed: whether no text can hold a character that Unicode would compose, so that it is in NFC.
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


def _slow_words(raw: bytes) -> str | None:
    value = msgspec.json.decode(raw, type=list[str] | str | None)
    return " ".join(value) if isinstance(value, list) else value


def _slow_floats(raw: bytes) -> list[float | None] | None:
    values = msgspec.json.decode(raw, type=list[float | str | None] | None)
    return None if values is None else [None if value is None else float(value) for value in values]


def _escaped(raw: pl.Expr) -> pl.Expr:
    return raw.str.contains("\\", literal=True)


#: A string; a number is taken as it is written.
TEXT = Kind(
    pl.String(),
    fast=lambda raw: raw.str.strip_prefix('"').str.strip_suffix('"\n'),
    odd=lambda raw, _: ~raw.str.starts_with('"') | _escaped(raw),
    slow=_slow_text,
)

#: A number in the source's own characters; a string is taken for its content, null and NaN as they stand.
NUMBER = Kind(
    pl.String(),
    fast=lambda raw: raw.str.strip_suffix("\n"),
    odd=lambda raw, _: ~raw.str.contains("^[-0-9]"),
    slow=_slow_number,
)

#: A list of words, joined by a blank; a single string is taken as it is.
WORDS = Kind(
    pl.String(),
    fast=lambda raw: raw.str.strip_prefix('["').str.strip_suffix('"]\n').str.replace_all('", "', " ", literal=True),
    # Words have no bare quotes: one that is left belongs to another separator or to an item that is no word.
    odd=lambda raw, words: ~raw.str.starts_with('["') | _escaped(raw) | words.str.contains('"', literal=True),
    slow=_slow_words,
)

#: A list of numbers.
FLOATS = Kind(
    pl.List(pl.Float32),
    fast=lambda raw: raw.str.strip_chars("[]\n").str.split(", ").cast(pl.List(pl.Float32), strict=False),
    odd=lambda raw, _: ~raw.str.contains(r"^\[[0-9.]+(?:, [0-9.]+)*\]\n$"),
    slow=_slow_floats,
)


def parts(names: Mapping[str, str]) -> Kind:
    """The kind of an object of which some parts are kept, as text: JSON key -> name of the part."""
    fields = [(name, str | int | None, None) for name in names.values()]
    decode = msgspec.json.Decoder(
        msgspec.defstruct("Parts", fields, rename=dict(zip(names.values(), names, strict=True))) | None
    ).decode

    @lru_cache(maxsize=4096)  # few objects in many lines: speakers
    def slow(raw: bytes) -> dict[str, str | None] | None:
        value = decode(raw)
        if value is None:
            return None
        return {name: None if part is None else str(part) for name, part in msgspec.structs.asdict(value).items()}

    return Kind(
        pl.Struct(dict.fromkeys(names.values(), pl.String)),
        fast=lambda raw: pl.struct(pl.when(raw.is_null()).then(raw).alias(name) for name in names.values()),
        odd=lambda raw, _: raw.is_not_null(),
        slow=slow,
    )


def read_blocks(source: Path, kinds: Mapping[str, Kind]) -> Iterator[Block]:
    r"""The lines of a file, block by block, in order; blank lines and fields that are not named are passed over.

    Args:
        source: the file.
        kinds: the fields that are wanted.

    Examples:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp()) / "lines.json"
        >>> _ = source.write_text('{"at": 3.20, "words": ["dobar", "dan"]}\n{"at": NaN, "words": null}\n{"at": ')
        >>> [block] = read_blocks(source, {"at": NUMBER, "words": WORDS})
        >>> block.values.rows(), block.problems
        ([(1, '3.20', 'dobar dan'), (2, 'NaN', None)], [(3, 'not JSON: Expecting value (character 8)')])
    """
    line = msgspec.defstruct("Line", [(field, msgspec.Raw, _ABSENT) for field in kinds], gc=False)
    with source.open("rb") as file, ThreadPoolExecutor(1) as pool:
        # polars works on one block while Python takes the next one apart.
        ahead: tuple[_Rows, Future[pl.DataFrame]] | None = None
        first = 1
        while text := file.read(_BLOCK_BYTES) + file.readline():
            rows = _take_apart(text, first, line)
            first += rows.lines
            values = pool.submit(_fast_values(rows, kinds).collect)
            if ahead:
                yield _block(*ahead, kinds)
            ahead = rows, values
        if ahead:
            yield _block(*ahead, kinds)


@dataclass(frozen=True)
class _Rows:
    """Lines taken apart: the raw JSON of their fields, their numbers, and what is wrong with the others."""

    raw: list[msgspec.Struct]
    numbers: list[int]
    bad: dict[int, str]
    composed: bool
    lines: int


def _take_apart(text: bytes, first: int, shape: type[msgspec.Struct]) -> _Rows:
    decoder = msgspec.json.Decoder(shape)
    lines = text.count(b"\n")
    composed, utf8 = _is_composed(text), _is_utf8(text)
    # Raw values are views of the text: nothing is copied until a column is made of them.
    view = memoryview(text)
    if utf8:  # msgspec does not look into the values that it leaves raw
        try:
            raw = decoder.decode_lines(view)
        except (msgspec.MsgspecError, RecursionError):
            raw = []
        if len(raw) == lines + (not text.endswith(b"\n")):  # no blank line was passed over
            return _Rows(raw, list(range(first, first + len(raw))), {}, composed, lines)
    rows = _Rows([], [], {}, composed, lines)
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _LINE_FEED).tolist()
    for number, (start, end) in enumerate(zip([0, *(end + 1 for end in ends)], [*ends, len(text)], strict=True), first):
        line = view[start:end]
        try:
            row = decoder.decode(line if utf8 else str(line, "utf8"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if not bytes(line).strip():
                continue
            try:
                row = _tolerant(bytes(line), shape)
            except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
                rows.bad[number] = _reason(error)
                continue
        rows.raw.append(row)
        rows.numbers.append(number)
    return rows


def _fast_values(rows: _Rows, kinds: Mapping[str, Kind]) -> pl.LazyFrame:
    """For every field that occurs its values and, as ``<field>?``, where they are odd."""
    raw = pl.LazyFrame({field: column for field in kinds if (column := _raw_column(rows.raw, field)) is not None})
    fields = raw.collect_schema().names()
    values = {f"{field}!": kinds[field].fast(pl.col(field)) for field in fields}
    odd = [kinds[field].odd(pl.col(field), pl.col(f"{field}!")).alias(f"{field}?") for field in fields]
    return raw.with_columns(**values).select(*(pl.col(f"{field}!").alias(field) for field in fields), *odd)


def _raw_column(rows: list[msgspec.Struct], field: str) -> pl.Series | None:
    """A field's raw JSON by row, each with a line feed behind it; None where no row has the field."""
    # No raw value holds a line feed, so that one joins and parts them without a Python string for each.
    joined = b"\n".join(chain(map(attrgetter(field), rows), [b""]))
    if len(joined) <= max(1, len(rows)):
        return None
    offsets = np.concatenate(([0], np.flatnonzero(np.frombuffer(joined, np.uint8) == _LINE_FEED) + 1))
    return pl.Series(field, pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(joined)))


def _block(rows: _Rows, query: Future[pl.DataFrame], kinds: Mapping[str, Kind]) -> Block:
    """Read what is odd the slow way, and leave out what cannot be read."""
    fast = query.result()
    columns = [pl.Series("line", rows.numbers, dtype=pl.UInt32)]
    unread: dict[int, str] = {}
    for field, kind in kinds.items():
        if field not in fast.columns:
            columns.append(pl.Series(field, [None], dtype=kind.dtype).new_from_index(0, len(rows.raw)))
            continue
        column = fast[field]
        odd = fast[f"{field}?"]
        if odd.any():
            places, slow = odd.arg_true(), []
            for place in places:
                raw, value = bytes(getattr(rows.raw[place], field)), None
                try:
                    value = kind.slow(raw) if raw else None
                except (ValueError, RecursionError) as error:
                    unread[place] = f"{field}: {_reason(error)}"
                slow.append(value)
            both = pl.concat([column, pl.Series(field, slow, dtype=kind.dtype)])
            take = np.arange(len(column))
            take[places.to_numpy()] = np.arange(len(column), len(both))
            column = both.gather(take)
        columns.append(column)
    values = pl.DataFrame(columns)
    if unread:
        values = values.filter(~pl.int_range(pl.len()).is_in(list(unread)))
    problems = rows.bad | {rows.numbers[row]: reason for row, reason in unread.items()}
    return Block(values, sorted(problems.items()), rows.composed)


def _is_composed(text: bytes) -> bool:
    """Whether no character can need composing: those from U+0300 on have a byte of 0xCC or more, or are escaped."""
    return b"\\" not in text and int(np.frombuffer(text, np.uint8).max()) < 0xCC


def _is_utf8(text: bytes) -> bool:
    one = pa.LargeStringArray.from_buffers(1, pa.py_buffer(np.array([0, len(text)])), pa.py_buffer(text))
    try:
        one.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _tolerant(line: bytes, shape: type[msgspec.Struct]) -> msgspec.Struct:
    """A line as Python's own writer makes it, with NaN and the like as strings."""
    value = json.loads(line.decode("utf-8-sig"), parse_float=Decimal, parse_constant=str)
    if not isinstance(value, dict):
        raise TypeError(f"an object is wanted, not {type(value).__name__}")
    return shape(**{field: msgspec.Raw(_encode(value[field])) for field in shape.__struct_fields__ if field in value})


def _reason(error: Exception) -> str:
    match error:
        case json.JSONDecodeError():
            return f"not JSON: {error.msg} (character {error.pos + 1})"
        case UnicodeDecodeError():
            return f"not UTF-8: byte 0x{error.object[error.start]:02x} (byte {error.start + 1} of the line)"
        case UnicodeEncodeError():
            return "half a surrogate pair: not Unicode"
        case RecursionError():
            return "nested too deeply"
        case _:
            return str(error)
