"""Corpora on disk: make them from a workspace (`materialize`), verify them (`verify`), rewrite them (`convert`)."""
