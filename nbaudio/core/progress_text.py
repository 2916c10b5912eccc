"""Progress in words: how much of the work is done, how fast it goes, and the time left.

The unit says what is counted. `AUDIO` is compared with real time, and units that begin with "GB"
or "bytes" are sizes. All other units are things in the plural, such as "shards".
"""

import math

from nbaudio.core.report import duration, size

AUDIO = "h of audio"
_BYTES_OF_UNIT = {"GB": 1e9, "bytes": 1.0}

# Shares of a whole add up to a little less than it.
_WHOLE = 0.999
# A speed from less time says little, and a time left is zero or absurd.
_LEAST_SECONDS = 0.5


def rate_and_time_left(
    done: float, seconds: float, remaining: float
) -> tuple[float | None, float | None]:
    """Return the rate of the work per second, and the seconds that the rest takes.

    So far, `done` units took `seconds`, and `remaining` units are left. Both are None if unknown.
    """
    if done <= 0 or seconds <= 0:
        return None, None
    rate = done / seconds
    return rate, remaining / rate


def state_text(unit: str, done: float, total: float, seconds: float) -> str:
    """Return the state of work that took `seconds` so far.

    Examples:
        >>> state_text(AUDIO, 12.3, 1800.0, 107.5)
        '12.3 of 1,800 h of audio, 412 x real time, 4.3 h left'
        >>> state_text("shards", 12, 12, 360)
        '12 shards in 6 min, 2 shards a minute'
    """
    if not total:
        return amount_text(unit, done)
    rate, seconds_left = rate_and_time_left(done, seconds, total - done)
    speed = None if rate is None or seconds < _LEAST_SECONDS else speed_text(unit, rate)
    if _is_whole(done, total):
        parts = [f"{amount_text(unit, done)} in {duration(seconds)}", speed]
    else:
        left = f"{time_left_text(seconds_left)} left" if speed and seconds_left else None
        parts = [amount_text(unit, done, total), speed, left]
    return ", ".join(part for part in parts if part)


def final_text(unit: str, done: float, total: float, seconds: float) -> str:
    """Return what remains to be said when the work has ended, before its end if it was stopped.

    Examples:
        >>> final_text("recordings", 3, 10, 6.0)
        '3 of 10 recordings in 6 s, then stopped'
    """
    if _is_whole(done, total):
        return state_text(unit, done, total, seconds)
    return f"{amount_text(unit, done, total)} in {duration(seconds)}, then stopped"


def amount_text(unit: str, done: float, total: float | None = None) -> str:
    """Return an amount, or how much of a total is done.

    Audio of less than 2 hours in all is in minutes, or in seconds.

    Examples:
        >>> amount_text(AUDIO, 0.02, 0.15)
        '1.2 of 9 min of audio'
        >>> amount_text("GB of recordings", 0.512, 95.0)
        '512 MB of 95 GB of recordings'
    """
    most = done if total is None else total
    if unit == AUDIO:
        per_hour, shown_unit = _audio_unit(most)
        amounts = [number_text(amount * per_hour) for amount in (done, most)]
        noun = f" {shown_unit} of audio"
    elif _size_of(unit):
        amounts = [size(amount * _size_of(unit)) for amount in (done, most)]
        noun = unit.removeprefix(unit.partition(" ")[0])
    else:
        amounts = [f"{amount:,.0f}" for amount in (done, most)]
        noun = f" {unit}"
    if total is None:
        return f"{amounts[0]}{noun}"
    return f"{amounts[0]} of {amounts[1]}{noun}"


def speed_text(unit: str, rate: float) -> str:
    """Return the speed of work at a rate in units per second.

    Examples:
        >>> speed_text(AUDIO, 0.1144)
        '412 x real time'
        >>> speed_text("GB of recordings", 0.41)
        '410 MB/s'
        >>> [speed_text("shards", rate) for rate in (12.5, 0.35, 0.001)]
        ['12.5 shards/s', '21 shards a minute', '3.6 shards an hour']
    """
    if unit == AUDIO:
        return f"{number_text(3600 * rate)} x real time"
    if _size_of(unit):
        return f"{size(rate * _size_of(unit))}/s"
    if rate >= 1:
        return f"{number_text(rate)} {unit}/s"
    if rate >= 1 / 60:
        return f"{number_text(60 * rate)} {unit} a minute"
    return f"{number_text(3600 * rate)} {unit} an hour"


def time_left_text(seconds: float) -> str:
    """Return a time left, as exactly as it can be known.

    Examples:
        >>> [time_left_text(seconds) for seconds in (0.3, 42, 250, 7300, 400_000)]
        ['1 s', '42 s', '4 min', '2.0 h', '111 h']
    """
    if seconds < 99.5:
        return f"{max(1, math.ceil(seconds))} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 36_000:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 3600:,.0f} h"


def number_text(value: float) -> str:
    """Return a number with about three digits.

    Examples:
        >>> [number_text(value) for value in (0.0123, 1.5, 12.34, 411.8, 1800)]
        ['0.01', '1.5', '12.3', '412', '1,800']
    """
    if value >= 99.95:
        return f"{value:,.0f}"
    decimals = 1 if value >= 9.995 else 2
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".")


def _is_whole(done: float, total: float) -> bool:
    return done >= _WHOLE * (total or 0)


def _audio_unit(hours: float) -> tuple[float, str]:
    """Return how many of the best unit are an hour, and its name."""
    if hours >= 2:
        return 1.0, "h"
    if hours * 60 >= 2:
        return 60.0, "min"
    return 3600.0, "s"


def _size_of(unit: str) -> float:
    """Return the bytes of a unit of size; 0 for others."""
    return _BYTES_OF_UNIT.get(unit.partition(" ")[0], 0.0)
