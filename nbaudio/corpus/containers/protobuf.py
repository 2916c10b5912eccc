"""Protocol buffers as far as `tf.train.Example` needs them, written field by field, so that equal values give equal bytes.

Sources: https://protobuf.dev/programming-guides/encoding, and TensorFlow's `example.proto` and `feature.proto`.
"""

from array import array
from collections.abc import Sequence
from functools import lru_cache

_LENGTH_DELIMITED = 2


def varint(number: int) -> bytes:
    """A number of at most 64 bits; negative ones as two's complement.

    Examples:
        >>> varint(300).hex(), len(varint(-1))
        ('ac02', 10)
    """
    rest = number & 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def field(number: int, *parts: bytes) -> bytes:
    """A field that holds bytes, a text or a message.

    Examples:
        >>> field(1, b"ab").hex()
        '0a026162'
    """
    return b"".join((head(number, sum(map(len, parts))), *parts))


def wrap_field(number: int, parts: Sequence[bytes]) -> list[bytes]:
    """The parts of a field that holds such parts, for what is too large to be joined again at every level.

    Examples:
        >>> b"".join(wrap_field(1, [b"a", b"b"])) == field(1, b"a", b"b")
        True
    """
    return [head(number, sum(map(len, parts))), *parts]


@lru_cache(maxsize=4096)  # nearly all are short, and the same again and again
def head(number: int, size: int) -> bytes:
    """What stands before the `size` bytes of a field."""
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(size)


def texts(values: Sequence[bytes]) -> bytes:
    """A `Feature` of texts or bytes."""
    return field(1, *(field(1, value) for value in values))


def floats(values: Sequence[float]) -> bytes:
    """A `Feature` of 32-bit floats."""
    return field(2, field(1, array("f", values).tobytes()))


def integers(values: Sequence[int]) -> bytes:
    """A `Feature` of 64-bit integers."""
    return field(3, field(1, *map(varint, values)))


@lru_cache(maxsize=256)  # those that come clip after clip, such as what is not known
def map_entry(key: str, value: bytes) -> bytes:
    """An entry of a map from texts to messages, as `Features` and `FeatureLists` hold it."""
    return field(1, field(1, key.encode()), field(2, value))
