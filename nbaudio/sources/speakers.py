"""Merge the spellings of each speaker of a source; report missing speakers and look-alikes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError, one_line
from nbaudio.core.report import count, first_lines
from nbaudio.formats.delimited import open_delimited
from nbaudio.formats.transcripts import Problem, Transcripts, source_column
from nbaudio.tables import tombstones
from nbaudio.tables.dataframes import STREAMED
from nbaudio.text.speaker_names import (
    MISSING,
    OF_DIARIZER,
    SPEAKER,
    UNNAMED,
    look_alikes,
    one_spelling,
    speaker_ids,
)

OPTION = "speakers"
"""Option of every format: a table that merges speakers."""

_SAME_AS = "same_as"
_SOURCE_SPEAKER = "source_speaker"
_SHOWN_SPELLINGS = 5


def read_speaker_table(path: Path) -> dict[str, str]:
    """Read which speaker each speaker is: a table with the columns `speaker_id` and `same_as`.

    Raise InputError if it cannot be read, or if a speaker is two others or one that is merged.
    """
    needed = {SPEAKER, _SAME_AS}
    try:
        table = open_delimited(path, is_header=needed.issubset)
        if not needed <= {*table.header}:
            raise InputError(
                f"{path}: expected the columns {SPEAKER} and {_SAME_AS}; it has "
                f"{', '.join(table.header)}"
            )
        merged: dict[str, str] = {}
        for row in table.rows():
            if isinstance(row, Problem):
                raise InputError(f"{path}, line {row.line}: {row.reason}")
            cells = dict(zip(table.header, row.cells, strict=True))
            speaker, same_as = (_spelled(cells[name]) for name in (SPEAKER, _SAME_AS))
            if speaker is None or same_as is None:
                raise InputError(f"{path}, line {row.line}: a speaker is empty")
            if merged.setdefault(speaker, same_as) != same_as:
                raise InputError(
                    f"{path}, line {row.line}: {speaker!r} is {same_as!r} here and "
                    f"{merged[speaker]!r} before; keep one of them"
                )
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error
    for speaker, same_as in merged.items():
        if merged.get(same_as, same_as) != same_as:
            raise InputError(
                f"{path}: {speaker!r} is {same_as!r}, which is {merged[same_as]!r}; "
                "write the last one for both"
            )
    return merged


def _spelled(speaker: str) -> str | None:
    return pl.select(one_spelling(pl.lit(speaker))).item()  # type: ignore[no-any-return]


def with_merged_speakers(
    transcripts: Transcripts, merged: Mapping[str, str], withdrawn: pl.DataFrame
) -> Transcripts:
    """Return transcripts in which each speaker has one id; `merged` is the id of some of them.

    Ids are in Unicode NFC with single blanks, and 12 where all are whole numbers and some are
    written as 12.0. A speaker such as ``nan`` or ``NA`` is missing, unless `merged` names it. Where
    an id changes, a further column `source_speaker` has the source's spellings. Spellings that
    were `withdrawn` (tombstones) stay, and so stay out.
    """
    rows = transcripts.rows
    if SPEAKER not in rows.schema:
        return transcripts
    ids = speaker_ids(rows.unique(SPEAKER)[SPEAKER].cast(pl.String).drop_nulls(), merged)
    changed = ids.filter(pl.col("speaker").ne_missing(pl.col("spelling")))
    was_withdrawn = tombstones.reasons("speaker", changed["spelling"], withdrawn).is_not_null()
    changed = changed.filter(~was_withdrawn)
    if changed.is_empty():
        return transcripts
    new_ids = dict(changed.iter_rows())
    source_name = source_column(_SOURCE_SPEAKER, rows.schema, rows.schema)

    def with_ids(frame: pl.DataFrame) -> pl.DataFrame:
        if SPEAKER not in frame.columns:  # only some columns are read
            return frame
        speaker = pl.col(SPEAKER).cast(pl.String)
        return frame.with_columns(speaker.replace(new_ids), speaker.alias(source_name))

    notes = [
        *transcripts.notes,
        *_merged_notes(changed.drop_nulls("speaker"), source_name),
        *_missing_notes(changed.filter(pl.col("speaker").is_null())["spelling"]),
    ]
    return replace(transcripts, rows=rows.map(with_ids), notes=notes)


def _missing_notes(spellings: pl.Series) -> Iterator[str]:
    """Yield a line on speakers that are read as missing; blank ones go without saying."""
    names = ", ".join(repr(name) for name in spellings.sort() if name.strip() in MISSING)
    if names:
        yield (
            f"the speaker {names} is read as a missing one, as programs write it; if it is a "
            f"person, name it in --option {OPTION}=FILE, a table with the columns {SPEAKER} and "
            f"{_SAME_AS}"
        )


def _merged_notes(changed: pl.DataFrame, source_name: str) -> Iterator[str]:
    """Yield a line on spellings that changed; the column `source_name` has the source's."""
    if len(changed):
        spelling, speaker = changed.row(0)
        yield (
            f"{count(len(changed), 'spellings')} of speakers became the id of the same speaker, "
            f"such as {speaker!r} for {spelling!r}; {source_name} has the source's"
        )


def speaker_warnings(segments: pl.LazyFrame) -> Iterator[str]:
    """Warn of segments without a speaker beside others that have one, and of doubtful speakers.

    Such are ids that look alike, and those that may stand for several people.
    """
    if SPEAKER not in segments.collect_schema():
        return
    recordings = pl.col("recording_id").n_unique().alias("recordings")
    counts = segments.group_by(SPEAKER).agg(pl.len(), recordings).collect(**STREAMED)
    unknown = int(counts.filter(pl.col(SPEAKER).is_null())["len"].sum())
    speakers = counts[SPEAKER].drop_nulls().cast(pl.String)
    if unknown and len(speakers):
        yield (
            f"{count(unknown, 'segments', 'have')} no speaker, others have one: such segments are "
            "not kept apart by speaker in splits"
        )
    yield from _stand_in_warnings(counts.sort(SPEAKER))
    lines = [_look_alike(group) for group in look_alikes(speakers)]
    yield from first_lines(lines, "segments.parquet")


def _stand_in_warnings(counts: pl.DataFrame) -> Iterator[str]:
    """Yield a line on speakers that may be several people; `counts` has `len` and `recordings`."""
    speaker = pl.col(SPEAKER).cast(pl.String)
    unnamed = counts.filter(speaker.str.to_lowercase().is_in(UNNAMED))
    if len(unnamed):
        names = ", ".join(map(repr, unnamed[SPEAKER]))
        segments = count(int(unnamed["len"].sum()), "segments", "have")
        yield (
            f"{segments} the speaker {names}, who may be several people: nbaudio select W "
            f'--where "{SPEAKER} != {unnamed[SPEAKER][0]!r}" leaves such segments out'
        )
    numbered = counts.filter(speaker.str.contains(OF_DIARIZER), pl.col("recordings") > 1)
    if len(numbered):
        yield (
            f"{count(len(numbered), 'speakers', 'are')} in several recordings, such as "
            f"{numbered[SPEAKER][0]!r}: if a diarizer numbered the speakers of each recording, "
            "these are different people: nbaudio select W --group-by recording_id"
        )


def _look_alike(group: list[str]) -> str:
    shown = ", ".join(map(repr, group[:_SHOWN_SPELLINGS]))
    more = ", ..." if len(group) > _SHOWN_SPELLINGS else ""
    return (
        f"speakers that look alike: {shown}{more}; if they are one person, merge them by "
        f"--option {OPTION}=FILE, a table with the columns {SPEAKER} and {_SAME_AS}"
    )
