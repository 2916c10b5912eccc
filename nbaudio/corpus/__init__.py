"""Corpora on disk: make them from a workspace (`materialize`), verify them (`verify`), rewrite them (`convert`).

corpus.json        parameters, versions, sources, splits, every shard with its SHA-256; written last
segments.parquet   one row per clip: metadata, and shard, byte offset and length of its audio
rejected.parquet   one row per rejected segment, with the rule that rejected it
vocab.json         characters with ids
<split>/<split>-00000-of-00012.<extension>
"""
