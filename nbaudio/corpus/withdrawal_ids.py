"""Ids that `withdraw` was given, as they are spelled in the workspace."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.report import count
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.tombstones import tombstone
from nbaudio.tables.workspace import Workspace
from nbaudio.text.speaker_names import are_whole_floats, look_alikes, one_spelling

_SHOWN_SPELLINGS = 5


@dataclass(frozen=True)
class WithdrawalIds:
    """What is withdrawn.

    Attributes:
        by_kind: ids by kind (``speaker``, ``recording``, ``segment``), as the tables spell them.
        warnings: how many ids were given in another spelling; without ids, as reports are stored.
        look_alikes: a line for each speaker that stays and looks like one that is withdrawn.
    """

    by_kind: dict[str, list[str]]
    warnings: list[str]
    look_alikes: list[str]


def find_ids(
    workspace: Workspace, named: Mapping[str, list[str]], withdrawn: Collection[str]
) -> WithdrawalIds:
    """Return the ids of a workspace that were named, by kind.

    A speaker has all spellings that are one by `one_spelling`, and is 12 and 12.0 where all are
    whole numbers. Another id may differ from the only one that is equal by `one_spelling`.

    Raise InputError if nothing is named, or if an id is unknown: it is not in the workspace and has
    no tombstone among the hashes `withdrawn`. The message names the spellings that look like it.
    """
    if not any(named.values()):
        raise InputError("name what to withdraw: --speaker ID, --recording ID or --segments FILE")
    by_kind = dict[str, list[str]]()
    num_otherwise = 0
    alike = list[str]()
    for kind, all_keys in named.items():
        keys = list(dict.fromkeys(all_keys))
        ids = _ids(workspace, kind, keys)
        missing = {key for key in keys if key not in ids and tombstone(kind, key) not in withdrawn}
        if keys and (missing or kind == "speaker"):
            ids = _ids(workspace, kind)
        by_key = _same_ids(kind, keys, missing, ids)
        _check_known(workspace, kind, keys, [key for key in missing if key not in by_key], ids)
        by_kind[kind] = list(dict.fromkeys(id_ for key in keys for id_ in by_key.get(key, [key])))
        num_otherwise += len(set(by_kind[kind]) - set(keys))
        if kind == "speaker":
            alike = list(_look_alikes_that_stay(by_kind[kind], ids))
    warnings = []
    if num_otherwise:
        warnings = [
            f"{count(num_otherwise, 'ids', 'are')} spelled otherwise in the workspace, in blanks, "
            "in the form of Unicode or as whole numbers"
        ]
    return WithdrawalIds(by_kind, warnings, alike)


def _ids(workspace: Workspace, kind: str, keys: Iterable[str] | None = None) -> set[str]:
    """Return the ids of a kind that segments have; those among `keys` if there are any."""
    column = f"{kind}_id"
    if column not in workspace_tables.table_schema(workspace):
        return set()
    rows = workspace_tables.scan(workspace, [column]).select(pl.col(column).cast(pl.String))
    if keys is not None:
        rows = rows.filter(pl.col(column).is_in(pl.Series([*keys], dtype=pl.String).implode()))
    return set(rows.unique().collect(**STREAMED)[column].drop_nulls())


def _same_ids(
    kind: str, keys: Iterable[str], missing: Collection[str], ids: Collection[str]
) -> dict[str, list[str]]:
    """Return the ids that each key means, where they are not the key alone."""
    if kind != "speaker" and not missing:
        return {}
    spellings = _spellings({*keys, *ids}, are_numbers=kind == "speaker")
    groups = dict[str, list[str]]()
    for id_ in sorted(ids):
        groups.setdefault(spellings[id_], []).append(id_)
    same = {key: groups[spellings[key]] for key in keys if spellings[key] in groups}
    if kind == "speaker":
        return same
    return {key: same[key] for key in missing if len(same.get(key, ())) == 1}


def _spellings(ids: Iterable[str], *, are_numbers: bool) -> dict[str, str]:
    """Return the spelling of each id that all of its spellings share.

    12.0 is 12 if `are_numbers` holds and all ids are whole numbers.
    """
    frame = pl.DataFrame({"id": sorted(ids)}, schema={"id": pl.String})
    spelled = frame.with_columns(spelling=one_spelling(pl.col("id")).fill_null(""))
    if are_numbers and are_whole_floats(spelled["spelling"].to_list()):
        spelled = spelled.with_columns(pl.col("spelling").str.replace(r"\.0*$", ""))
    return dict(spelled.iter_rows())


def _check_known(
    workspace: Workspace, kind: str, keys: list[str], unknown: list[str], ids: Collection[str]
) -> None:
    """Raise InputError, with the ids that look alike, if an id is unknown."""
    if not unknown:
        return
    first = min(unknown, key=keys.index)
    groups = look_alikes({first, *ids})
    alike = [id_ for group in groups if first in group for id_ in group if id_ != first]
    hint = ""
    if alike:
        shown = ", ".join(map(repr, alike[:_SHOWN_SPELLINGS]))
        hint = f"; spelled alike: {shown}: name each that is meant"
    raise InputError(
        f"{workspace.path}: no {kind} {first!r} ({len(unknown)} of {len(keys)} are unknown){hint}"
    )


def _look_alikes_that_stay(withdrawn: Collection[str], speakers: Collection[str]) -> Iterator[str]:
    """Yield a line for each speaker that looks like one that is withdrawn, and is not."""
    for group in look_alikes({*withdrawn, *speakers}):
        alike = [speaker for speaker in group if speaker in withdrawn]
        if not alike:
            continue
        for speaker in group:
            if speaker not in withdrawn:
                yield (
                    f"speaker {speaker!r} stays, and looks like {alike[0]!r}, which is withdrawn; "
                    "withdraw it too if it is the same person"
                )
