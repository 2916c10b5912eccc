"""Channels of a recording.

``mix`` is the mean of all, ``left`` the first, ``right`` the second, ``0,2`` the mean of these,
counted from 0. ``track2`` is the mix of the second audio track of a container, and ``track2:left``
its first channel; otherwise the first track is meant.
"""

import re

from nbaudio.core.errors import AudioError, InputError

CHANNELS = ("mix", "left", "right")
_IN_A_TRACK = rf"({'|'.join(CHANNELS)}|[0-9]{{1,3}}(,[0-9]{{1,3}})*)"
NOTATION = rf"^({_IN_A_TRACK}|track[1-9][0-9]{{0,2}}(:{_IN_A_TRACK})?)$"


def check_channel(channel: str) -> None:
    """Validate the notation of a channel; raise InputError with the allowed values."""
    if not re.fullmatch(NOTATION, channel):
        raise InputError(
            f"channel {channel!r} is unknown; known are {', '.join(CHANNELS)}, "
            "or numbers from 0 such as 2 or 0,1, or an audio track such as track2"
        )


def split_track(channel: str) -> tuple[int | None, str]:
    """Return the number of the audio track that a notation names, and the channel in it.

    The number is None where it names none, and the channel ``mix`` where it names a track alone.

    Examples:
        >>> split_track("track2"), split_track("track1:left"), split_track("0,1")
        ((2, 'mix'), (1, 'left'), (None, '0,1'))
    """
    if not channel.startswith("track"):
        return None, channel
    check_channel(channel)
    number, _, own_channel = channel.removeprefix("track").partition(":")
    return int(number), own_channel or "mix"


def channel_numbers(channel: str, num_channels: int) -> list[int]:
    """Return the channel numbers, from 0, that a notation selects in its track.

    Raise AudioError where the recording lacks one.
    """
    check_channel(channel)
    _, channel = split_track(channel)
    if channel == "mix":
        return list(range(num_channels))
    named_numbers = {"left": [0], "right": [1]}
    numbers = named_numbers.get(channel)
    if numbers is None:
        numbers = list(dict.fromkeys(map(int, channel.split(","))))
    if max(numbers) >= num_channels:
        has = "one channel" if num_channels == 1 else f"{num_channels} channels"
        raise AudioError(f"channel {channel} does not exist, the recording has {has}")
    return numbers
