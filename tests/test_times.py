"""Seconds become samples by exact arithmetic, half up, and the fast column equals the slow
function."""

from decimal import ROUND_FLOOR, Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbaudio.core.times import rescale, to_samples, to_samples_column

RATES = st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000, 192000])
DECIMALS = st.decimals(0, 10**8, places=None, allow_nan=False, allow_infinity=False).map(str)
PLAIN = st.tuples(st.integers(0, 10**9), st.text("0123456789", max_size=8)).map(
    lambda p: f"{p[0]}.{p[1]}" if p[1] else str(p[0])
)
ODD = st.sampled_from(
    [
        "NaN",
        "Infinity",
        "",
        "x",
        "1e3",
        "1E-7",
        "-0.5",
        "+2.5",
        " 1.5",
        "1.",
        ".5",
        "0001.50",
        "1_0",
        "٣",
        "1e999999999",
    ]
)


@pytest.mark.parametrize(
    ("seconds", "rate", "samples"),
    [
        ("3207.7", 48000, 153_969_600),
        ("0.1", 44100, 4410),
        ("0.00003125", 16000, 1),
        ("0.000031249999", 16000, 0),
        ("1e-3", 16000, 16),
        ("-0.00003125", 16000, 0),
        ("-1", 16000, -16000),
        (3, 8000, 24000),
        (Decimal("0.3"), 10, 3),
        ("NaN", 8000, None),
        ("-Infinity", 8000, None),
        ("1e999999999", 8000, None),
        ("1e-999999999", 8000, 0),
        ("later", 8000, None),
    ],
)
def test_seconds_become_the_expected_samples(seconds: str, rate: int, samples: int | None) -> None:
    assert to_samples(seconds, rate) == samples


@given(DECIMALS, RATES)
def test_seconds_are_rounded_half_up_from_exact_decimals(seconds: str, rate: int) -> None:
    exact = Decimal(seconds) * rate + Decimal("0.5") if len(seconds) < 20 else None
    if exact is not None:
        assert to_samples(seconds, rate) == int(exact.to_integral_value(ROUND_FLOOR))


@given(
    st.lists(
        st.tuples(st.none() | PLAIN | DECIMALS | ODD, st.none() | RATES), min_size=1, max_size=30
    )
)
def test_the_column_equals_the_function(rows: list[tuple[str | None, int | None]]) -> None:
    seconds, rates = (list(column) for column in zip(*rows, strict=True))
    found = to_samples_column(pl.Series(seconds, dtype=pl.String), pl.Series(rates, dtype=pl.Int32))
    assert found.to_list() == [
        None if s is None or r is None else to_samples(s, r) for s, r in rows
    ]


@given(st.integers(0, 10**10), RATES, RATES)
def test_rescaling_is_the_nearest_sample_half_up(position: int, own: int, new: int) -> None:
    moved = rescale(position, own, new)
    assert 2 * moved * own <= 2 * position * new + own < 2 * (moved + 1) * own
    assert rescale(position, own, own) == position
