"""Checks of a corpus or dataset, of whatever origin, by its tables."""
