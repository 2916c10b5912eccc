"""Which channels of a recording are heard, in one notation: for a corpus as a whole, and for segments of their own.

Conventions: ``mix`` is the mean of all channels, ``left`` the first, ``right`` the second; else numbers from 0 with commas
between, of which the mean is taken. A segment's own channel is its column `source_channel`, null or absent where the source names
none; it goes before what is asked for the whole corpus, as two speakers of a call are on two channels of one recording.
"""

import re

import polars as pl

from nbaudio.core.errors import AudioError, InputError

CHANNELS = ("mix", "left", "right")
_NOTATION = rf"^({'|'.join(CHANNELS)}|[0-9]{{1,3}}(,[0-9]{{1,3}})*)$"


def check_channel(channel: str) -> None:
    """Let pass what is in the notation.

    Raises:
        InputError: it is not; says what is allowed.

    Examples:
        >>> check_channel("0,1")
        >>> check_channel("up")
        Traceback (most recent call last):
        nbaudio.core.errors.InputError: channel 'up' is unknown; known are mix, left, right, or numbers from 0 such as 2 or 0,1
    """
    if not re.fullmatch(_NOTATION, channel):
        raise InputError(f"channel {channel!r} is unknown; known are {', '.join(CHANNELS)}, or numbers from 0 such as 2 or 0,1")


def channel_numbers(channel: str, num_channels: int) -> list[int]:
    """The channels of a recording that are meant, from 0.

    Raises:
        AudioError: the recording has no such channel.
        InputError: the channel is not in the notation.

    Examples:
        >>> channel_numbers("mix", 3), channel_numbers("right", 2), channel_numbers("2,0", 3)
        ([0, 1, 2], [1], [2, 0])
    """
    if channel == "mix":
        return list(range(num_channels))
    check_channel(channel)
    numbers = [0] if channel == "left" else [1] if channel == "right" else list(dict.fromkeys(map(int, channel.split(","))))
    if max(numbers) >= num_channels:
        has = "one channel" if num_channels == 1 else f"{num_channels} channels"
        raise AudioError(f"channel {channel} asked for, the recording has {has}")
    return numbers


def source_channel(segments: pl.DataFrame) -> pl.Expr:
    """The column `source_channel` of segments that may lack it: text, null where a segment names no channel."""
    held = pl.col("source_channel") if "source_channel" in segments.columns else pl.lit(None)
    return held.cast(pl.String).alias("source_channel")


def has_unknown_channel() -> pl.Expr:
    """Whether `source_channel` is nothing that the recording has, by its `num_channels` where they are known.

    Examples:
        >>> frame = pl.DataFrame({"source_channel": ["1", "right", "0,2", "A", None], "num_channels": [2, 1, 2, 2, 2]})
        >>> frame.select(has_unknown_channel().fill_null(value=False)).to_series().to_list()
        [False, True, True, True, False]
    """
    own = pl.col("source_channel")
    numbers = own.replace({"left": "0", "right": "1"}).str.extract_all("[0-9]+").list.eval(pl.element().cast(pl.Int64))
    return ~own.str.contains(_NOTATION) | (numbers.list.max() >= pl.col("num_channels"))
