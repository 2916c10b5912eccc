"""Names of the rules of `select` that put a segment out."""

GROUPING_RULES = ("crosses_splits", "beyond_split_size", "not_gold")
"""Reasons of segments that grouping keeps out of all splits."""

LATER_RULES = ("reviewed", *GROUPING_RULES, "over_budget")
"""Reasons of segments that pass every filter and still are out."""


RULES = ("no_audio", "below_similarity", "too_long", "too_short", *LATER_RULES)
"""Reasons that `select` gives, besides those of `tables.segment_failures`."""
