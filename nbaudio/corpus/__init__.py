"""Corpora on disk.

`materialize` makes a corpus from a workspace, `verify` checks one, and `convert` rewrites one.
"""
