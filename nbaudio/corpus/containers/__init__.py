"""One module per container: how clips lie in shards, written and read."""
