"""Seconds to samples: the only place where time is rounded.

Conventions: `seconds` are the source's own decimals (a string such as ``"3207.7"``), `rate` is in Hz, a sample index counts
samples per channel from the start of the recording. Start and end are rounded each on its own, half up, from exact decimals:
``floor(seconds * rate + 1/2)``. No float is involved, so 0.1 s is the same sample everywhere.
"""

from decimal import Context, Decimal, InvalidOperation

import polars as pl

# Seven digits before the point and six behind: products with any rate stay below 2^63.
_PLAIN_DECIMAL = r"^([0-9]{1,7})(?:\.([0-9]{1,6}))?$"

# More digits than any source writes: sums are exact, and an exponent such as 1e-999999 costs nothing.
_SUMS = Context(prec=100)

# Places behind the point: 1/4096 s and all multiples of it are exact, and one sample is far more than the last place.
_PLACES = 12


def to_samples(seconds: str | int | Decimal, rate: int) -> int | None:
    """Sample index of a time.

    Args:
        seconds: decimal seconds, as the source writes them; exponents and signs are allowed.
        rate: sampling rate in Hz.

    Returns:
        The index, or None where `seconds` is not a finite number.

    Examples:
        >>> to_samples("3207.7", 48000)
        153969600
        >>> to_samples("0.00003125", 16000)  # half a sample goes up
        1
        >>> to_samples("NaN", 16000) is None
        True
    """
    try:
        value = Decimal(seconds)
    except InvalidOperation:
        return None
    # A recording never reaches 10^12 s; an exponent beyond that would only ask for gigabytes of digits.
    if not value.is_finite() or value.adjusted() > 12:
        return None
    if value.adjusted() < -12:
        return 0
    numerator, denominator = value.as_integer_ratio()
    return rescale(numerator, denominator, rate)


def rescale(position: int, from_rate: int, to_rate: int) -> int:
    """The sample at `to_rate` that lies at `position` at `from_rate`, half up.

    Examples:
        >>> rescale(44100, 44100, 16000)
        16000
        >>> rescale(1, 48000, 24000)
        1
    """
    return (2 * position * to_rate + from_rate) // (2 * from_rate)


def to_samples_column(seconds: pl.Series, rate: pl.Series) -> pl.Series:
    """`to_samples` for two columns of equal length: str seconds and integer Hz -> i64, null where either is null or not usable.

    Plain decimals with up to six places take an integer path inside polars; all others take `to_samples` one by one.

    Examples:
        >>> to_samples_column(pl.Series(["0.5", "1e-3", "x"]), pl.Series([16000, 16000, 16000])).to_list()
        [8000, 16, None]
    """
    frame = pl.DataFrame({"seconds": seconds, "rate": rate.cast(pl.Int64)}).with_columns(
        whole=pl.col("seconds").str.extract(_PLAIN_DECIMAL, 1).cast(pl.Int64),
        places=pl.col("seconds").str.extract(_PLAIN_DECIMAL, 2).fill_null("").str.pad_end(6, "0").cast(pl.Int64),
    )
    million = 1_000_000
    fast = frame.select(
        samples=((pl.col("whole") * million + pl.col("places")) * pl.col("rate") + million // 2) // million,
        slow=pl.col("whole").is_null() & pl.col("seconds").is_not_null() & pl.col("rate").is_not_null(),
    )
    samples = fast["samples"]
    odd = fast["slow"].arg_true()
    if len(odd):
        exact = [to_samples(s, r) for s, r in frame[odd].select("seconds", "rate").iter_rows()]
        samples = samples.scatter(odd, pl.Series(exact, dtype=pl.Int64))
    return samples.alias("samples")


def decimal_seconds(samples: int, rate: int) -> Decimal:
    """Seconds of a sample index to write down, such that `to_samples` finds the sample again.

    Exact where twelve places are enough, as they are at 8, 16 or 32 kHz; otherwise the twelfth is rounded up, so that readers
    that cut `seconds * rate` off find it too.

    Args:
        samples: an index or a length, 0 or more.
        rate: sampling rate in Hz.

    Examples:
        >>> decimal_seconds(1, 16000), decimal_seconds(44100, 44100), decimal_seconds(1, 48000)
        (Decimal('0.0000625'), Decimal('1'), Decimal('0.000020833334'))
    """
    places = next((places for places in range(_PLACES) if samples * 10**places % rate == 0), _PLACES)
    return Decimal(-(-samples * 10**places // rate)).scaleb(-places)


def add_seconds(start: str, duration: str) -> str:
    """The end of a stretch whose source gives start and duration: their exact sum, ``NaN`` where either is not a finite number.

    Examples:
        >>> add_seconds("3207.70", "19.84"), add_seconds("0.1", "0.2"), add_seconds("NaN", "1")
        ('3227.54', '0.3', 'NaN')
    """
    try:
        values = Decimal(start), Decimal(duration)
    except InvalidOperation:
        return "NaN"
    return str(_SUMS.add(*values)) if all(value.is_finite() for value in values) else "NaN"
