"""How many shards are good, and why: for whoever reads the corpus by whole shards, as all readers but ours do."""

from collections.abc import Sequence

# Hugging Face asks for files below this; a reader holds or fetches a shard at a time, and a broken transfer repeats it.
_MOST_BYTES = 1_000_000_000
# Smaller ones cost a request or an opened file for few clips.
_LEAST_BYTES = 20_000_000
# Shards that a reader should have to choose from, so that neighbours differ from epoch to epoch.
_SHARDS_A_READER = 4
_READERS = (1, 2, 4, 8, 16, 32, 64)


def shard_advice_lines(shards: Sequence[int]) -> str:
    """What a number of shards is good for, and which other would be.

    Args:
        shards: bytes of each shard of `train`.

    Returns:
        One line; empty where there are none.

    Examples:
        >>> shard_advice_lines([480_000_000] * 12)
        'read whole, even for 1, 2, 4 readers x workers; well shuffled for up to 3, for 8 take --shard-count 32 (180 MB each)'
    """
    if not shards:
        return ""
    even = ", ".join(str(readers) for readers in _READERS if len(shards) % readers == 0)
    enough = max(1, len(shards) // _SHARDS_A_READER)
    told = f"read whole, even for {even} readers x workers; well shuffled for up to {enough}"
    more = next((readers for readers in _READERS if readers > 2 * enough), _READERS[-1])
    size = sum(shards) // (more * _SHARDS_A_READER)
    if size >= _LEAST_BYTES:
        told += f", for {more} take --shard-count {more * _SHARDS_A_READER} ({round(size / 1e6)} MB each)"
    if max(shards) > _MOST_BYTES:
        told += f"; the largest has {max(shards) / 1e9:.1f} GB: below 1 GB a broken transfer repeats less, and hubs ask for it"
    return told
