"""Find segments that share a sentence, a near sentence or audio with other data.

Sentences are compared as everywhere: `nbaudio.text.near_duplicates.sentences` folds them, and
`nbaudio.selection.near_held_out` says which are near. Equal sentences of any length are shared;
near ones have at least four words.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.selection.near_held_out import NEAR_HELD_OUT, NearSentences
from nbaudio.sources.other_data import Other, read_other
from nbaudio.tables.dataframes import IN_ORDER
from nbaudio.tables.rejection_reasons import (
    AVOIDED_AUDIO,
    AVOIDED_ID,
    AVOIDED_NEAR_SENTENCE,
    AVOIDED_SENTENCE,
)
from nbaudio.text.near_duplicates import sentences

#: Columns of ids by which other data may be avoided, if that is asked for.
ID_COLUMNS = ("speaker_id", "recording_id")
_COMPARED = ("text", "audio_sha256", "recording_id", "start_sample", "end_sample", *ID_COLUMNS[:1])
_ROWS = 1 << 17  # segments that are compared at once, as large data is prepared anew for each part
_LONGEST = 1 << 62  # samples of a recording whose length does not matter


@dataclass(frozen=True, eq=False)
class AvoidedData:
    """Other data that a selection avoids.

    Attributes:
        name: its name, without folders of this machine and secrets.
        splits: names of its splits that count; empty where it has none, or all count.
        sentences: its folded sentences, each once, sorted.
        clips: hashes of its encoded clips, each once, sorted.
        windows: windows of its recordings: `sha256`, `start_sample`, `end_sample`, sorted; both
            samples are null where a whole recording is a segment.
        ids: by column of `by`, its values, each once, sorted.
    """

    name: str
    splits: tuple[str, ...]
    sentences: pl.Series
    clips: pl.Series
    windows: pl.DataFrame
    ids: dict[str, pl.Series]

    @property
    def label(self) -> str:
        """Its name with the splits that count, such as ``other:dev,test``."""
        return ":".join(filter(None, (self.name, ",".join(self.splits))))

    def update(self, digest: "hashlib._Hash") -> None:
        """Add all that is compared to a hash, in an order that does not depend on the data's."""
        compared = (self.sentences, self.clips, *self.windows.iter_columns(), *self.ids.values())
        for values in compared:
            digest.update(f"{values.name} {len(values)}\n".encode())
            for part in values.cast(pl.String).fill_null("").to_frame().iter_slices(1 << 16):
                digest.update("\n".join(part.to_series()).encode())

    def reasons(self, rows: pl.DataFrame, threshold: float = NEAR_HELD_OUT) -> pl.Series:
        """Return for each segment what it shares, one of `AVOIDED`, or null.

        Args:
            rows: segments with `text`; and `audio_sha256` (of the encoded clip), `sha256` (of the
                recording) with `start_sample` and `end_sample`, and ids, as far as there are any.
            threshold: similarity in [0.9, 1] above which sentences are near; 1 for equal ones only.
        """
        folded = rows.select(sentences(pl.col("text"))).to_series()
        is_equal = folded.hash().is_in(self._hashes) & folded.is_not_null()
        is_near = is_equal
        if threshold < 1 and len(self.sentences):
            is_near = self._near(threshold).near(folded)
        reason = (
            pl.when(self._shares_id(rows))
            .then(pl.lit(AVOIDED_ID))
            .when(self._shares_audio(rows))
            .then(pl.lit(AVOIDED_AUDIO))
            .when(is_equal.fill_null(value=False))
            .then(pl.lit(AVOIDED_SENTENCE))
            .when(is_near.fill_null(value=False))
            .then(pl.lit(AVOIDED_NEAR_SENTENCE))
        )
        return rows.select(reason.alias("reason")).to_series()

    def _near(self, threshold: float) -> NearSentences:
        """Return the sentences to find near ones, which are prepared once for a threshold."""
        if threshold not in self._prepared:
            self._prepared[threshold] = NearSentences(self.sentences, threshold)
        return self._prepared[threshold]

    @cached_property
    def _hashes(self) -> pl.Series:
        """Hashes of the sentences, which take a tenth of their memory."""
        return self.sentences.hash().implode()

    @cached_property
    def _prepared(self) -> dict[float, NearSentences]:
        return {}

    def _shares_id(self, rows: pl.DataFrame) -> pl.Series:
        """Return for each segment whether one of its ids is one of this data."""
        shares = [
            pl.col(name).cast(pl.String).is_in(values.implode()).fill_null(value=False)
            for name, values in self.ids.items()
            if name in rows.columns
        ]
        no_id = pl.repeat(value=False, n=pl.len())
        return rows.select(pl.any_horizontal(no_id, *shares)).to_series()

    def _shares_audio(self, rows: pl.DataFrame) -> pl.Series:
        """Return for each segment whether its clip, or a part of its recording, is in this data."""
        shares = _overlaps(rows, self.windows)
        if "audio_sha256" in rows.columns:
            shares |= rows["audio_sha256"].is_in(self.clips.implode()).fill_null(value=False)
        return shares


def read_avoided(others: Sequence[Other], *, by: Sequence[str] = ()) -> tuple[AvoidedData, ...]:
    """Read other data, with the ids of the columns `by`, one of `ID_COLUMNS` each.

    Raises:
        InputError: one of them cannot be read, or has nothing that could be shared.
    """
    if unknown := [name for name in by if name not in ID_COLUMNS]:
        raise InputError(f"avoid_by={unknown[0]!r}: must be {' or '.join(ID_COLUMNS)}")
    return tuple(_avoided(other, by) for other in others)


def _avoided(other: Other, by: Sequence[str]) -> AvoidedData:
    """Return what of other data is compared."""
    read = read_other(other)
    rows = read.rows
    folded = rows.select(sentence=sentences(pl.col("text"))).to_series()
    if folded.null_count() == len(folded):
        raise InputError(f"{read.name}: has no sentences to avoid; every text is empty")
    windows = rows.select("sha256", "start_sample", "end_sample").drop_nulls("sha256").unique()
    return AvoidedData(
        read.name,
        read.splits,
        folded.drop_nulls().unique().sort(),
        rows["audio_sha256"].drop_nulls().unique().sort(),
        windows.sort(windows.columns),
        {name: rows[name].drop_nulls().unique().sort() for name in by},
    )


def parameters_of(avoided: Sequence[AvoidedData]) -> dict[str, Any]:
    """Return the parameters of a selection that avoids this data; none without any.

    They are `avoid`, the labels; `avoid_by`; and `avoid_sha256`, of all that is compared.
    """
    if not avoided:
        return {}
    digest = hashlib.sha256()
    for other in avoided:
        other.update(digest)
    return {
        "avoid": tuple(other.label for other in avoided),
        "avoid_by": tuple(avoided[0].ids),
        "avoid_sha256": digest.hexdigest(),
    }


def notes_on_dropped(
    earlier: Mapping[str, Any], later: Mapping[str, Any], names: tuple[str, str]
) -> list[str]:
    """Return a note if a later selection does not avoid what an earlier one avoids.

    Args:
        earlier: parameters of the earlier selection.
        later: those of the later one.
        names: what a sentence calls them, such as ``the base`` and ``this selection``.
    """
    before = list(earlier.get("avoid", ()))
    after = list(later.get("avoid", ()))
    consequence = "what shares sentences with it may be in train now"
    if missing := [label for label in before if label not in after]:
        return [f"{names[0]} avoids {', '.join(missing)}, {names[1]} does not: {consequence}"]
    if before and before == after and earlier["avoid_sha256"] != later["avoid_sha256"]:
        return [
            f"{names[0]} avoids {', '.join(before)} with other content than {names[1]}: "
            f"{consequence}"
        ]
    return []


def shared_with(
    avoided: Sequence[AvoidedData],
    segments: pl.LazyFrame,
    recordings: pl.DataFrame,
    numbers: pl.Series,
    threshold: float,
) -> pl.DataFrame:
    """Return which segments share something with other data.

    Args:
        avoided: the other data.
        segments: the table of segments.
        recordings: the table of recordings.
        numbers: numbers of the rows of `segments` that are compared.
        threshold: see `AvoidedData.reasons`.

    Returns:
        A row for each segment that does, in order: `row`, its number; `shared`, the first of
        `AVOIDED` that holds; and `source`, the number of the first data that it shares it with.
    """
    schema = pl.Schema({"row": numbers.dtype, "shared": pl.String(), "source": pl.Int32()})
    parts = [pl.DataFrame(schema=schema)]
    if avoided and len(numbers):
        names = [name for name in _COMPARED if name in segments.collect_schema()]
        rows = segments.select(names).with_row_index("row").cast({"row": numbers.dtype})
        rows = rows.filter(pl.col("row").is_in(numbers.implode()))
        if "sha256" in recordings.columns:
            hashes = recordings.select("recording_id", "sha256").unique("recording_id").lazy()
            rows = rows.join(hashes, on="recording_id", how="left", maintain_order="left")
        batches = rows.collect_batches(chunk_size=_ROWS, **IN_ORDER)
        parts += [_shared_rows(avoided, part, threshold).cast(schema) for part in batches]
    return pl.concat(parts)


def _shared_rows(
    avoided: Sequence[AvoidedData], rows: pl.DataFrame, threshold: float
) -> pl.DataFrame:
    """Return the rows that share something with other data; see `shared_with`."""
    shared = []
    for source, other in enumerate(avoided):
        reasons = rows.select("row", shared=other.reasons(rows, threshold))
        shared.append(reasons.drop_nulls("shared").with_columns(source=pl.lit(source)))
    return pl.concat(shared).unique("row", keep="first", maintain_order=True).sort("row")


def _overlaps(rows: pl.DataFrame, windows: pl.DataFrame) -> pl.Series:
    """Return which segments overlap a window of a recording with the same hash."""
    is_none = pl.Series("overlaps", [False], dtype=pl.Boolean)
    if "sha256" not in rows.columns or windows.is_empty():
        return is_none.new_from_index(0, len(rows))
    last = pl.lit(_LONGEST)
    starts = windows.select(
        "sha256",
        start=pl.col("start_sample").fill_null(0),
        end=pl.col("end_sample").fill_null(last),
    ).sort("sha256", "start", "end")
    # A window overlaps if one that begins before its end ends behind its start.
    starts = starts.with_columns(pl.col("end").cum_max().over("sha256"))
    asked = rows.select(
        "sha256",
        begin=pl.col("start_sample").fill_null(0),
        start=pl.col("end_sample").fill_null(last) - 1,
    ).with_row_index("place")
    joined = asked.sort("start").join_asof(
        starts.sort("start"), on="start", by="sha256", strategy="backward", check_sortedness=False
    )
    overlaps = joined.sort("place").select(overlaps=pl.col("end") > pl.col("begin"))
    return overlaps.to_series().fill_null(value=False)
