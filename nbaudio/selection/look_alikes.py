"""Keep the spellings of one speaker in one split, where ids of speakers look alike.

Ids look alike if they differ only in case, blanks, punctuation, diacritics or leading zeros (see
`nbaudio.text.speaker_names`). By default they count as one speaker when segments are divided.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import polars as pl

from nbaudio.core.report import count
from nbaudio.tables.dataframes import STREAMED
from nbaudio.text.speaker_names import SPEAKER, look_alikes, spelling_groups

TOGETHER = "together"
"""Value of `look_alikes` of `select`: ids that look alike are one speaker."""

APART = "apart"
"""Value of `look_alikes` of `select`: ids that look alike are several speakers."""

_Table = TypeVar("_Table", pl.DataFrame, pl.LazyFrame)


def joined_speakers(
    tables: Iterable[pl.DataFrame | pl.LazyFrame | None], choice: str
) -> dict[str, str]:
    """Return the id that stands for each speaker of tables that has several spellings.

    It is the first of them in the order of Unicode. With `APART`, only spellings in another Unicode
    composition or with other blanks count as one.
    """
    speakers = set[str]()
    for table in tables:
        if table is not None and SPEAKER in table.lazy().collect_schema():
            values = table.lazy().select(pl.col(SPEAKER).cast(pl.String).unique())
            speakers.update(values.collect(**STREAMED).to_series().drop_nulls())
    if choice == TOGETHER:
        groups = look_alikes(speakers)
    else:
        groups = spelling_groups(speakers)
    return {speaker: group[0] for group in groups for speaker in group[1:]}


def with_joined_speakers(table: _Table, joined: Mapping[str, str]) -> _Table:
    """Return a table in which joined speakers have one id."""
    if not joined or SPEAKER not in table.lazy().collect_schema():
        return table
    return table.with_columns(pl.col(SPEAKER).cast(pl.String).replace(dict(joined)))


def joined_notes(joined: Mapping[str, str], columns: Sequence[str]) -> Iterator[str]:
    """Yield a line on spellings that were kept in one split, if `columns` group by speaker."""
    if not joined or SPEAKER not in columns:
        return
    spelling, speaker = min(joined.items())
    speakers = count(len(set(joined.values())), "speakers", "have")
    yield (
        f"{speakers} several ids that look alike, such as {speaker!r} and {spelling!r}; each is "
        "kept in one split: look_alikes=apart tells them apart, and ingest --option speakers=FILE "
        "merges them"
    )
