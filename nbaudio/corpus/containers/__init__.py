"""Containers of a corpus: one module per shard format, and the registry of all."""
