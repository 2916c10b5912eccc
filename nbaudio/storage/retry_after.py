"""What servers ask for, whoever talks to them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait, from a number or a date; by the server's own clock where it tells it.

    Source: RFC 9110, 10.2.3.

    Args:
        headers: of an answer; their names as `headers` compares them.

    Examples:
        >>> retry_after({"Retry-After": "120"}), retry_after({})
        (120.0, None)
        >>> retry_after({"Retry-After": "Sat, 21 Nov 2026 01:00:30 GMT", "Date": "Sat, 21 Nov 2026 01:00:00 GMT"})
        30.0
    """
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        now = parsedate_to_datetime(headers["Date"]) if "Date" in headers else datetime.now(UTC)
        return max((until - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
