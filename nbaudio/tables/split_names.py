"""Roles of splits by the words of their names.

Held-out words win: ``train_dev`` is held out, ``train_no_dev`` is not.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Literal

import polars as pl

Role = Literal["train", "dev", "test"]
_ROLES: tuple[Role, ...] = ("train", "dev", "test")

_WORD = re.compile(r"[a-z]+[0-9]*")
_HELD_OUT = re.compile(
    r"(?P<dev>(?:dev|devel|development|val|valid|validation|heldout|held)(?:set)?[0-9]*|dt[0-9]+)"
    r"|(?P<test>(?:test|testing|tst|eval|evaluation)(?:set)?[0-9]*|et[0-9]+)"
)
_TRAIN = re.compile(r"(?:train|training|trn|tr)(?:set)?[0-9]*")
_NAME = re.compile(r"[^\W\d]\w{0,63}")
_WITHOUT = ("no", "non", "without")
# Names of WSJ0-mix and its successors; inside longer names they mean something else, such as Common
# Voice.
_WHOLE_NAMES: Mapping[str, Role] = MappingProxyType({"cv": "dev", "tt": "test"})


@lru_cache(maxsize=4096)
def split_role(name: str) -> Role | None:
    """Return what a source's split is for, judged by its name; None for an unknown name."""
    words = _WORD.findall(name.casefold())
    if whole := _WHOLE_NAMES.get(name.casefold()):
        return whole
    for place, word in enumerate(words):
        if (match := _HELD_OUT.fullmatch(word)) and not (place and words[place - 1] in _WITHOUT):
            return "dev" if match["dev"] else "test"
    return "train" if any(map(_TRAIN.fullmatch, words)) else None


@lru_cache(maxsize=4096)
def split_in(path: str) -> str | None:
    """Return the outermost part of a path that names a split.

    The path has only folders, or a file without its extension.
    """
    return next(filter(split_role, PurePosixPath(path).parts), None)


def is_held_out(name: str) -> bool:
    """Return whether a split is kept out of training: every split but those for training."""
    return split_role(name) != "train"


def in_training(splits: pl.Series) -> pl.Series:
    """Return whether each split is for training; null where there is none."""
    return splits.is_in([name for name in splits.drop_nulls().unique() if not is_held_out(name)])


def is_split_name(name: str) -> bool:
    """Return whether a corpus can have a split of that name.

    A name has letters, digits and ``_``, at most 64, and is not a number alone.
    """
    return _NAME.fullmatch(name) is not None


def ordered_splits(names: Iterable[str | None]) -> list[str]:
    """Return the names of splits, each once, in the order in which they are listed.

    Splits for training come first, then those for dev, those for test, and others.
    """
    return sorted(
        {name for name in names if name},
        key=lambda name: ((*_ROLES, None).index(split_role(name)), name),
    )


def listed_splits(names: Iterable[str | None]) -> list[str]:
    """Return the splits to list in reports, in order.

    They are those of `names`, or all of train, dev and test where there are no others.
    """
    splits = ordered_splits(names)
    if set(splits) <= {*_ROLES}:
        return list(_ROLES)
    return splits


def split_of_folder(path: str) -> str | None:
    """Return `split_in` of the folders of a file: the file itself may be called ``test.wav``."""
    return split_in(path.rpartition("/")[0])
