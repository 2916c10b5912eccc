"""Readers of foreign layouts, one module each, and `ingest`, which makes a workspace of what they read."""
