"""What the reviews prove of a selection, short enough for corpus.json, the data card and the page of `stats`."""

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
_TOLD = ("wanted", "lowest proven", "method")
_SAME = 1e-9


def claim(evidence: Mapping[str, Any], selection: Mapping[str, Any]) -> dict[str, Any]:
    """What the report of `evidence` says of what a selection kept.

    Args:
        evidence: the report, with its `curve`; empty where there is none.
        selection: the facts of the report of `select`.

    Returns:
        Of all segments at or above the threshold of the selection, whether they are in or not: `threshold`, how many there are,
        how many were reviewed, precision and its bounds, as `evidence` tells them; what was wanted and by which method; and
        `curve`, the same at `THRESHOLDS`. Empty where nobody has judged anything.

    Examples:
        >>> row = {"threshold": 0.8, "segments": 10, "reviewed": 4, "precision": 0.75}
        >>> claim({"facts": {"wanted": "0.98 right"}, "curve": [row]}, {"parameters": {"min_similarity": 0.8}})["precision"]
        0.75
    """
    curve = [row for row in evidence.get("curve", []) if row["segments"]]
    if not any(row["reviewed"] for row in curve):
        return {}
    used = threshold_of(selection)
    at: Mapping[str, Any] = next((row for row in curve if abs(row["threshold"] - used) < _SAME), {})
    told = {name: evidence["facts"][name] for name in _TOLD if name in evidence["facts"]}
    shown = [row for row in curve if any(abs(row["threshold"] - one) < _SAME for one in THRESHOLDS)]
    return {**at, **told, "curve": shown}


def labelled(claimed: Mapping[str, Any]) -> dict[str, Any]:
    """A claim as people read it: what is told of its threshold, by name, the most telling first.

    Examples:
        >>> labelled({"precision": 0.75, "threshold": 0.8, "curve": []})
        {'threshold on similarity': 0.8, 'right, estimated share': 0.75}
    """
    return {label: claimed[name] for name, label in _LABELS.items() if name in claimed}


def threshold_of(selection: Mapping[str, Any]) -> float:
    """The threshold on similarity of a selection, 0.8 where there is none yet; of the facts of the report of `select`."""
    return float(selection.get("parameters", {}).get("min_similarity", 0.8))
