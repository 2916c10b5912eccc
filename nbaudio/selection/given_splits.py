"""Splits that a source, a table or an earlier corpus gives to segments.

`select` divides the other segments around them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.formats.table import ENDINGS, Cells, cell_texts, read_cells
from nbaudio.selection.look_alikes import TOGETHER, joined_speakers
from nbaudio.storage.folders import Folder, folder_at, read_object
from nbaudio.storage.location import location
from nbaudio.storage.urls import redact_url
from nbaudio.tables.dataframes import Frame, as_polars
from nbaudio.tables.parquet_files import read_parquet
from nbaudio.tables.rows import Rows
from nbaudio.tables.split_names import is_held_out, is_split_name, split_role
from nbaudio.text.near_duplicates import sentences
from nbaudio.text.speaker_names import SPEAKER

SOURCE = "source"  # the value of ``splits`` that takes the column `source_split`
KEYS = ("segment_id", "recording_id", "speaker_id")  # a table gives splits by one of these
_FIELDS = ("segment_id", "split", "sentence")  # of earlier segments; the others are keys

Splits = str | Path | Frame


class GivenSplits(NamedTuple):
    """Splits that are given to segments.

    These are the `split` of each segment or null, the segments of an earlier corpus (as
    `EARLIER_SPLITS`), and notes for the report.
    """

    split: pl.Series | None
    corpus: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()


def given_splits(
    segments: pl.DataFrame,
    splits: Splits,
    *,
    earlier: pl.DataFrame | None = None,
    look_alikes: str = TOGETHER,
) -> GivenSplits:
    """Read given splits, from what `select` takes, with its `look_alikes`.

    Sets of the source keep the names of `earlier` ones. Raise InputError for a contradiction.
    """
    if isinstance(splits, str) and splits == SOURCE:
        return _of_source(segments, earlier)
    if not isinstance(splits, str | Path):
        frame = as_polars(splits, "splits")
        cells = Cells(Rows.collect([frame]), range(1, len(frame) + 1), [])
        return _of_table(segments, cells, "splits", look_alikes)
    name = redact_url(str(splits))
    ending = Path(name).suffix.lower()
    place = location(splits)
    if ending in ENDINGS and not place.is_folder():
        with folder_at(str(place.parent)).local(place.name) as path:
            cells = read_cells(path, ending=ending, is_header=_is_header)
        table_splits = _of_table(segments, cells, name, look_alikes)
        unread = [f"{name}: {note}" for note in cells.all_notes()]
        return table_splits._replace(notes=(*unread, *table_splits.notes))
    return _of_corpus(segments, folder_at(splits), name)


def _of_source(segments: pl.DataFrame, earlier: pl.DataFrame | None) -> GivenSplits:
    """Translate `source_split`.

    Two held-out sets of one kind keep their own names, and all keep those of an earlier version.
    """
    if "source_split" not in segments.columns or segments["source_split"].null_count() == len(
        segments
    ):
        raise InputError(
            "splits=source: the source gives no splits (no source_split); "
            "name a table or a corpus instead"
        )
    rows = segments.select("segment_id", source_split=pl.col("source_split").cast(pl.String))
    counts = dict(rows["source_split"].drop_nulls().value_counts().sort("source_split").iter_rows())
    names = _names_of_sets(counts)
    if earlier is not None:
        names |= _earlier_names(rows, earlier, names)
    split = rows["source_split"].replace_strict(names, default=None, return_dtype=pl.String)
    unknown = {name: count for name, count in counts.items() if name not in names}
    if not unknown:
        return GivenSplits(split.alias("given"))
    listed = ", ".join(f"{name!r} {count:,}" for name, count in unknown.items())
    note = (
        "splits=source: no split is known by these names, "
        f"and their segments are divided as usual: {listed}"
    )
    return GivenSplits(split.alias("given"), None, (note,))


def _names_of_sets(source_splits: Iterable[str]) -> dict[str, str]:
    """Return the split of each set of a source whose name says what it is for.

    Held-out sets have their own names where several are for the same.
    """
    roles = {name: role for name in source_splits if (role := split_role(name))}
    num_sets = Counter(roles.values())
    names: dict[str, str] = {}
    for name, role in roles.items():
        names[name] = role
        if role != "train" and num_sets[role] > 1:
            names[name] = _split_name(name, role)
    return names


def _split_name(name: str, role: str) -> str:
    """Return the name of a source's set as that of a split, with what it is for if need be."""
    plain = re.sub(r"\W", "_", name)[:64]
    if is_split_name(plain):
        return plain
    return f"{role}_{plain}"[:64]


def _earlier_names(
    rows: pl.DataFrame, earlier: pl.DataFrame, names: Mapping[str, str]
) -> dict[str, str]:
    """Return the held-out sets of `names` that were one split in earlier versions, with its name.

    `rows` have `segment_id` and `source_split`.
    """
    pairs = (
        rows.join(earlier.select("segment_id", "split"), on="segment_id")
        .select("source_split", "split")
        .unique()
    )
    splits_before = pairs.group_by("source_split").agg("split").iter_rows()
    return {
        name: splits[0]
        for name, splits in splits_before
        if names.get(name, "train") != "train" and len(splits) == 1 and is_held_out(splits[0])
    }


def _is_header(names: Sequence[str]) -> bool:
    """Return whether columns say the split of segments, recordings or speakers."""
    return "split" in names and not {*KEYS}.isdisjoint(names)


def _of_table(segments: pl.DataFrame, cells: Cells, where: str, look_alikes: str) -> GivenSplits:
    """Give splits by a table, by whichever of `KEYS` it has.

    TRAIN is train: else they would be two splits, and one folder where case does not count.
    """
    if cells.problems:
        raise InputError(f"{where}: line {cells.problems[0].line}: {cells.problems[0].reason}")
    key = _key_of_table(cells.frame, where)
    texts = [
        cell_texts(Path(where), cells.frame[name], empty=False).str.strip_chars()
        for name in (key, "split")
    ]
    table = pl.DataFrame(texts).with_columns(line=pl.Series(cells.lines, dtype=pl.Int64))
    _check_rows(table, key, where)
    lower = pl.col("split").str.to_lowercase()
    is_usual = lower.is_in(["train", "dev", "test"])
    table = table.with_columns(split=pl.when(is_usual).then(lower).otherwise("split"))
    first = table.unique([key, "split"], keep="first", maintain_order=True)
    _check_agreement(first, key, where)
    named_splits = _named(segments, key, first, where, look_alikes)
    if named_splits.split is not None and named_splits.split.null_count() == len(segments):
        raise InputError(f"{where}: none of its {len(first):,} values of {key} is in the workspace")
    return named_splits


def _key_of_table(frame: pl.DataFrame, where: str) -> str:
    """Return which of `KEYS` a table has; raise InputError if it has no rows, or not one key."""
    if frame.is_empty():
        raise InputError(f"{where}: no rows")
    keys = [key for key in KEYS if key in frame.columns]
    if len(keys) != 1 or "split" not in frame.columns:
        raise InputError(
            f"{where}: expected a column split and one of {', '.join(KEYS)}; "
            f"it has {', '.join(frame.columns)}"
        )
    return keys[0]


def _check_agreement(table: pl.DataFrame, key: str, where: str) -> None:
    """Raise InputError for a value of the key that has two splits in a table of distinct rows."""
    repeated = table.filter(pl.col(key).is_duplicated()).sort(key, "line", maintain_order=True)
    if repeated.is_empty():
        return
    before, row = repeated.head(2).rows(named=True)
    raise InputError(
        f"{where}: row {row['line']}: {key} {before[key]!r} is given as {row['split']}, "
        f"in row {before['line']} as {before['split']}"
    )


def _check_rows(table: pl.DataFrame, key: str, where: str) -> None:
    """Raise InputError for an empty cell, or for a split that is no name."""
    for line, value, split in table.select("line", key, "split").iter_rows():
        if value is None or split is None:
            empty = key if value is None else "split"
            raise InputError(f"{where}: row {line}: {empty} is empty")
        if not is_split_name(split):
            raise InputError(
                f"{where}: row {line}: split {split!r}: a name has letters, digits and _, "
                "at most 64, no digit first"
            )
    spelled = table["split"].unique().sort()
    if folded := spelled.filter(spelled.str.to_lowercase().is_duplicated()).to_list():
        raise InputError(f"{where}: the splits {' and '.join(folded)} differ only in case")


def _named(
    segments: pl.DataFrame, key: str, table: pl.DataFrame, where: str, look_alikes: str = TOGETHER
) -> GivenSplits:
    """Give splits by the values of a key; values that no segment has are noted.

    A value that the table does not spell so is that of another spelling, if all such spellings in
    the table have one split.
    """
    values = segments[key].cast(pl.String)
    exact = values.replace_strict(table[key], table["split"], default=None, return_dtype=pl.String)
    missing = table[key].filter(~table[key].is_in(values.drop_nulls().unique().implode())).sort()
    if missing.is_empty():
        return GivenSplits(exact.alias("given"))
    joined = {}
    if key == SPEAKER:
        joined = joined_speakers([segments, table], look_alikes)
    spelled = table.select(_one_spelling(key, joined), "split").unique()
    certain = spelled.filter(~pl.col(key).is_duplicated())
    spelling = values.to_frame(key).select(_one_spelling(key, joined)).to_series()
    by_spelling = spelling.replace_strict(
        certain[key], certain["split"], default=None, return_dtype=pl.String
    )
    split = exact.fill_null(by_spelling)
    is_absent = ~pl.col(key).is_in(spelling.drop_nulls().unique().implode())
    absent = missing.filter(
        missing.to_frame().select(_one_spelling(key, joined)).select(is_absent).to_series()
    )
    if absent.is_empty():
        return GivenSplits(split.alias("given"))
    note = (
        f"{where}: {len(absent):,} of {len(table):,} values of {key} are not in the "
        f"workspace, such as {absent.first()!r}"
    )
    return GivenSplits(split.alias("given"), notes=(note,))


def _one_spelling(key: str, joined: Mapping[str, str]) -> pl.Expr:
    """Return the values of a key in one spelling: `joined` speakers, ids in Unicode NFC."""
    if joined:
        return pl.col(key).replace(dict(joined))
    return pl.col(key).str.normalize("NFC")


def _of_corpus(segments: pl.DataFrame, corpus: Folder, where: str) -> GivenSplits:
    """Give splits by those of a corpus; raise InputError if it cannot be read."""
    try:
        grouped = [
            str(name)
            for name in read_object(corpus, "corpus.json")["selection"]["parameters"]["group_by"]
        ]
    except (AudioError, InputError, KeyError, TypeError) as error:
        tables = ", ".join(ENDINGS)
        raise InputError(
            f"splits={where}: neither {SOURCE!r}, a table ({tables}) nor a corpus: "
            f"{one_line(error)}"
        ) from error
    columns = [name for name in dict.fromkeys(grouped) if name not in _FIELDS]
    with corpus.local("segments.parquet") as path:
        frame = read_parquet(path, [*dict.fromkeys(("segment_id", "split", "text", *columns))])
    if nested := [name for name, dtype in frame.schema.items() if dtype.is_nested()]:
        raise InputError(
            f"{corpus}/segments.parquet: {nested[0]} is {frame.schema[nested[0]]}, not text"
        )
    frame = frame.cast(pl.String, strict=False).drop_nulls(["segment_id", "split"])
    table = frame.select("segment_id", "split", *columns, sentence=sentences(pl.col("text")))
    if odd := [name for name in table["split"].unique() if not is_split_name(name)]:
        raise InputError(f"{corpus}/segments.parquet: {odd[0]!r} is no name of a split")
    return _named(segments, "segment_id", table.unique("segment_id", keep="first"), where)._replace(
        corpus=table
    )
