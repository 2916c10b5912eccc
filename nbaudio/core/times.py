"""Seconds to samples, the only place where times are rounded.

A sample is ``floor(seconds * rate + 1/2)`` of exact decimals, with the rate in Hz.
"""

from datetime import UTC, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

# Seven digits before the point and six behind: products with any rate stay below 2^63.
_PLAIN_DECIMAL = r"^[0-9]{1,7}(?:\.[0-9]{1,6})?$"

# More digits than any source writes: sums are exact, and an exponent such as 1e-999999 allocates no
# memory.
_SUMS = Context(prec=100)
_MOST_DIGITS = 30  # digits of milliseconds before or behind the point

# Decimal places: 1/4096 s and its multiples are exact, and one sample is far longer than the last
# place.
_PLACES = 12


def to_samples(seconds: str | int | Decimal, rate: int) -> int | None:
    """Return the sample index of a time in decimal seconds, exponents and signs allowed.

    It is None where the time is not a finite number.
    """
    try:
        value = Decimal(seconds)
    except InvalidOperation:
        return None
    # No recording reaches 10^12 s; a larger exponent would only allocate gigabytes of digits.
    if not value.is_finite() or value.adjusted() > 12:
        return None
    if value.adjusted() < -12:
        return 0
    numerator, denominator = value.as_integer_ratio()
    return rescale(numerator, denominator, rate)


def rescale(position: int, from_rate: int, to_rate: int) -> int:
    """Return the sample at `to_rate` that lies at `position` at `from_rate`, rounded half up."""
    return (2 * position * to_rate + from_rate) // (2 * from_rate)


def to_samples_column(seconds: "pl.Series", rate: "pl.Series") -> "pl.Series":
    """Return `to_samples` of two columns.

    Seconds are str, rates are integers in Hz; the result is i64, null where either is null or not
    usable.
    """
    import polars as pl  # imported on demand, so that workers start faster

    million = 1_000_000
    frame = pl.DataFrame({"seconds": seconds, "rate": rate.cast(pl.Int64)}).with_columns(
        plain=pl.col("seconds").str.contains(_PLAIN_DECIMAL),
        # A float is off by at most a hundredth of a microsecond here.
        micros=(pl.col("seconds").cast(pl.Float64, strict=False) * million).round(),
    )
    # Decimals with more places, exponents or signs are converted one by one.
    samples, slow = frame.select(
        samples=(pl.when("plain").then("micros").cast(pl.Int64) * pl.col("rate") + million // 2)
        // million,
        slow=~pl.col("plain") & pl.col("rate").is_not_null(),
    )
    if slow.any():
        exact = [
            to_samples(s, r) for s, r in frame.filter(slow).select("seconds", "rate").iter_rows()
        ]
        samples = samples.scatter(slow.arg_true(), pl.Series(exact, dtype=pl.Int64))
    return samples


def decimal_seconds(samples: int, rate: int) -> Decimal:
    """Return seconds that `to_samples` inverts.

    A 12th place is rounded up, as readers may truncate ``seconds * rate``.
    """
    places = next(
        (places for places in range(_PLACES) if samples * 10**places % rate == 0), _PLACES
    )
    return Decimal(-(-samples * 10**places // rate)).scaleb(-places)


def add_seconds(start: str, duration: str) -> str:
    """Return the exact sum of start and duration; ``NaN`` where either is not a finite number."""
    try:
        values = Decimal(start), Decimal(duration)
    except InvalidOperation:
        return "NaN"
    if all(value.is_finite() for value in values):
        return str(_SUMS.add(*values))
    return "NaN"


def seconds_of_milliseconds(milliseconds: str) -> str:
    """Return the exact seconds of decimal milliseconds; what is no number stays as it is.

    Examples:
        >>> [seconds_of_milliseconds(text) for text in ("1500", "0.25", "soon")]
        ['1.5', '0.00025', 'soon']
    """
    try:
        value = Decimal(milliseconds)
    except InvalidOperation:
        return milliseconds
    # A larger exponent would only allocate gigabytes of digits.
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        return milliseconds
    seconds = f"{_SUMS.scaleb(value, -3):f}"
    if "." not in seconds:
        return seconds
    return seconds.rstrip("0").rstrip(".")


def utc_now() -> str:
    """Return the current time, ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
