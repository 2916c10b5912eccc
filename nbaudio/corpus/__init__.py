"""Corpora on disk: made from a workspace (`materialize`), proved whole (`verify`), written anew in other shards (`convert`).

`status` says how far one is that is being made.

corpus.json        parameters, versions, sources, splits, every shard with its SHA-256; written last
segments.parquet   one row per clip: metadata, and shard, byte offset and length of its audio
rejected.parquet   one row per segment that is not in, with the rule that put it out
vocab.json         characters with ids
<split>/<split>-00000-of-00012.<extension>
"""
