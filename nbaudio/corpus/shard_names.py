"""The names of shards, such as ``train/train-v2-00000-of-00012.tar``."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbaudio.storage.folders import Folder

if TYPE_CHECKING:  # `nbaudio status` imports no codecs
    from nbaudio.corpus.containers.registry import Container

SHARD_NAME = re.compile(
    r"(?P<split>\w+)/((?P=split)(-v\d+)?-\d{5}-of-\d{5}(\.\w+|/[^/]+)|recording\.\d{6}\.tar)"
)
"""Paths of shards in a corpus, or of files in a shard that is a folder."""


def shard_name(
    container: "Container",
    split: str,
    index: int,
    count: int,
    *,
    version: int = 1,
    taken: Sequence[str] = (),
) -> str:
    """Return the path in a corpus of a new shard of a split.

    Args:
        container: the container of the shard.
        split: the split, which is also the name of the folder.
        index: the number of the shard among the new ones of its split, from 0.
        count: how many new shards the split has.
        version: the version of the corpus; names of later versions have it.
        taken: the paths of shards of earlier versions; where names have no count, their numbers
            are continued.
    """
    if "{count" not in container.stem:
        index += 1 + _last_number(split, taken)
    split_of_version = split if version == 1 else f"{split}-v{version}"
    stem = container.stem.format(split=split_of_version, index=index, count=count)
    if container.extension:
        return f"{split}/{stem}.{container.extension}"
    return f"{split}/{stem}"


def _last_number(split: str, names: Sequence[str]) -> int:
    """Return the last number in names such as ``train/recording.000000.tar``, -1 without any."""
    of_split = (name for name in names if name.startswith(f"{split}/"))
    return max((int(name.split(".")[1]) for name in of_split), default=-1)


def shard_names(folder: Folder) -> set[str]:
    """Return all files of a corpus that have the name of a shard, or of a file in one."""
    return {name for name in folder.names() if SHARD_NAME.fullmatch(name)}
