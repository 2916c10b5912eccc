"""Labels for the evidence about a selection in corpus.json, on the data card and on the page of `stats`."""

from collections.abc import Mapping
from typing import Any

THRESHOLDS = (-1.0, 0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Thresholds on similarity that tables show."""

_LABELS = {
    "threshold": "threshold on similarity",
    "segments": "segments at or above it",
    "hours": "hours",
    "reviewed": "reviewed",
    "wrong": "of them wrong",
    "unsure": "of them unsure",
    "precision": "right, estimated share",
    "low": "lower bound",
    "high": "upper bound",
    "at_least": "lower bound, one-sided",
    "wanted": "wanted",
    "lowest proven": "lowest threshold that is proven",
    "method": "method",
}


def describe_claim(claimed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of an `evidence.selection_claim` under readable names, the most important first.

    Examples:
        >>> describe_claim({"precision": 0.75, "threshold": 0.8, "curve": []})
        {'threshold on similarity': 0.8, 'right, estimated share': 0.75}
    """
    return {label: claimed[name] for name, label in _LABELS.items() if name in claimed}


def selection_threshold(selection: Mapping[str, Any]) -> float:
    """Return the threshold on similarity from the facts of the report of `select`, 0.8 if there is none."""
    return float(selection.get("parameters", {}).get("min_similarity", 0.8))
