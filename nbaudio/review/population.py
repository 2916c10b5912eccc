"""The segments of a workspace by number, for review and evidence.

Numbers are in memory, ids and texts are read in batches.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.core.hashing import hash_column
from nbaudio.core.threads import in_threads
from nbaudio.review.corrections import uncorrected
from nbaudio.review.rounds import JUDGED, OUTCOMES, Round
from nbaudio.review.sampling import (
    Strata,
    anomaly_facts,
    draw_from,
    pool_columns,
    reached,
    risk_columns,
    strata_of,
)
from nbaudio.review.state import ReviewState, frame_contents
from nbaudio.tables import rejection_reasons, workspace_tables
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.rejection_reasons import WINDOW, segment_failures, source_channel
from nbaudio.tables.row_values import ROW, first_occurrences, row_hashes
from nbaudio.tables.rows import with_starts
from nbaudio.tables.schemas import LEFT_OUT, RECORDINGS, SEGMENTS, conform
from nbaudio.tables.workspace_tables import table_schema

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_FACTS = ("path", "sampling_rate", "num_channels", "num_samples")
#: Columns that every reader of segments needs: those of `JUDGED` that are no texts, and a channel.
_ALWAYS_READ = (*(name for name in JUDGED if name not in ("text", "asr_text")), "source_channel")
#: The duration in seconds, 0 if it is not known.
SECONDS = seconds_column().fill_null(0.0)
_OTHER_SPACES = r"[^\S ]|  |^ | $|^$"  # other than single blanks between words


def word_counts(texts: pl.Series) -> pl.Series:
    """Return the number of words of each text, 0 for null. White space separates words.

    Most texts have single blanks between words, and counting blanks takes a third of the time.
    """
    counts = texts.str.count_matches(" ", literal=True) + 1
    has_other_spaces = texts.str.contains(_OTHER_SPACES)
    others = texts.filter(has_other_spaces)
    if len(others):
        counts = counts.scatter(has_other_spaces.arg_true(), others.str.count_matches(r"\S+"))
    return counts.fill_null(0)


#: The number of words of the text.
WORDS = pl.col("text").map_batches(word_counts, return_dtype=pl.UInt32, is_elementwise=True)


def group_hashes(values: pl.Series) -> pl.Series:
    """Return a hash of each value of a column whose values are groups; null has one too.

    Frames store it, as a group may be a person who is withdrawn later.
    """
    texts = values.cast(pl.String)
    kinds = texts.unique(maintain_order=True)
    named = ("=" + kinds).fill_null("none")
    return texts.replace_strict(kinds, hash_column(named, "group"), return_dtype=pl.UInt64)


def _with_always_read(columns: Iterable[str]) -> list[str]:
    """Return the names of columns, and of those that every reader of segments needs."""
    return list(dict.fromkeys((*_ALWAYS_READ, *columns)))


@dataclass(frozen=True)
class Population:
    """The segments as they were given to reviewers, one per id, in the order of the table.

    The place of a segment is its number among them, from 0; arrays have a value for each place. Its
    row is its number in the table, which may repeat ids: the first row of an id counts.

    Ids are found by 64-bit hashes, which are equal for two of ten million segments with a
    probability of 3e-6.
    """

    state: ReviewState

    def __len__(self) -> int:
        return int(np.count_nonzero(self._is_first))

    @cached_property
    def _recordings(self) -> pl.DataFrame:
        """The recordings by unique `recording_id`, with the columns of `RECORDINGS`."""
        facts = conform(self.state.workspace.recordings, RECORDINGS, "recordings")
        return facts.unique("recording_id", keep="first", maintain_order=True)

    @cached_property
    def _is_first(self) -> Bools:
        """Which rows of the table are the first of their ids."""
        return first_occurrences(self._hashes.collect(**STREAMED).to_series().to_numpy())

    @cached_property
    def _repeats(self) -> Ints:
        """The numbers of the rows that are not the first of their ids."""
        return np.flatnonzero(~self._is_first)

    @property
    def _hashes(self) -> pl.LazyFrame:
        """A query of the hash of each segment id, in the order of the table."""
        return workspace_tables.scan(self.state.workspace, ["segment_id"]).select(
            key=pl.col("segment_id").hash()
        )

    def places(self, segment_ids: pl.Series) -> Ints:
        """Return the place of each id among the segments, -1 where there is none.

        Each call reads all ids of the table.
        """
        wanted = segment_ids.cast(pl.String).hash()
        if wanted.is_empty():
            return np.zeros(0, dtype=np.int64)
        matches = (
            self._hashes.with_row_index("row")
            .filter(pl.col("key").is_in(wanted.implode()))
            .collect(**STREAMED)
        )
        matches = matches.filter(
            pl.Series(self._is_first[matches["row"].to_numpy()], dtype=pl.Boolean)
        )
        place = matches["row"].cast(pl.Int64) - np.searchsorted(
            self._repeats, matches["row"].to_numpy()
        )
        return wanted.replace_strict(
            matches["key"], place, default=-1, return_dtype=pl.Int64
        ).to_numpy()

    def mask(self, segment_ids: pl.Series) -> Bools:
        """Return which segments have one of some ids."""
        return self.mask_of_keys(segment_ids.cast(pl.String).hash())

    def mask_of_keys(self, keys: pl.Series) -> Bools:
        """Return which segments have an id with one of some hashes."""
        is_wanted = self._hashes.collect(**STREAMED).to_series().is_in(keys.implode())
        return is_wanted.to_numpy()[self._is_first]

    def batches(self, columns: Iterable[str]) -> Iterator[pl.DataFrame]:
        """Yield columns of the segments, batch by batch.

        Columns that are not there are left out; `JUDGED` but for texts, `source_channel` and facts
        of recordings are added.
        """
        names = _with_always_read(columns)
        expected = pl.Schema({name: dtype for name, dtype in SEGMENTS.items() if name in names})
        done = 0
        for batch in workspace_tables.read_batches(self.state.workspace, columns=names):
            mask = self._is_first[done : done + len(batch)]
            done = done + len(batch)
            yield self._joined(
                uncorrected(self.state, conform(batch, expected, "segments")).filter(mask)
            )

    def id_batches(self) -> Iterator[pl.Series]:
        """Yield the ids of the segments, batch by batch."""
        done = 0
        for batch in workspace_tables.read_batches(self.state.workspace, columns=("segment_id",)):
            mask = self._is_first[done : done + len(batch)]
            done += len(batch)
            yield batch["segment_id"].filter(pl.Series(mask))

    def read(
        self, segment_ids: Iterable[str], columns: Iterable[str] | None = None
    ) -> pl.DataFrame:
        """Return some segments with facts of their recordings, in the order of the table.

        Segments that are not there are left out. `columns` are those that are read, beside the ones
        that `batches` adds; None reads all. `source_name` is what the source calls the recording:
        its id there, else the name of its file without folders.
        """
        return self.as_reviewed(self.rows(segment_ids, columns))

    def rows(
        self, segment_ids: Iterable[str], columns: Iterable[str] | None = None
    ) -> pl.DataFrame:
        """Return all columns of the rows with some ids, or those of `batches`, as the table is."""
        wanted = pl.Series(list(segment_ids), dtype=pl.String)
        return workspace_tables.read(
            self.state.workspace,
            None if columns is None else _with_always_read(columns),
            where=pl.col("segment_id").is_in(wanted.implode()),
        )

    def as_reviewed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return what `read` does of `rows` of the table."""
        first = uncorrected(self.state, rows).unique(
            "segment_id", keep="first", maintain_order=True
        )
        return (
            self._joined(first)
            .drop("source_name", strict=False)
            .join(self._source_names, on="recording_id", how="left", maintain_order="left")
        )

    @cached_property
    def _source_names(self) -> pl.DataFrame:
        """What the source calls each recording, by `recording_id`."""
        name_columns = [name for name in ("source_recording",) if name in self._recordings.columns]
        file_name = pl.col("path").str.extract("([^/]+)/*$")
        return self._recordings.select(
            "recording_id", source_name=pl.coalesce(*name_columns, file_name, "recording_id")
        )

    def _joined(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows of segments with the facts of their recordings."""
        facts = self._recordings.select("recording_id", *_FACTS)
        rows = rows.drop(_FACTS, strict=False).with_columns(source_channel(rows))
        return rows.join(facts, on="recording_id", how="left", maintain_order="left")

    def arrays(
        self, columns: Iterable[str], function: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> dict[str, NDArray[Any]]:
        """Return what a function computes from each batch of columns, without nulls.

        Each array is filled in place, so that it is in memory once.
        """
        arrays: dict[str, NDArray[Any]] = {}
        for start, batch in with_starts(in_threads(function, self.batches(columns))):
            parts = {values.name: values.to_numpy() for values in batch}
            arrays = arrays or {
                name: np.empty(len(self), dtype=part.dtype) for name, part in parts.items()
            }
            for name, part in parts.items():
                arrays[name][start : start + len(part)] = part
        return arrays

    def map_batches(
        self, columns: Iterable[str], function: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> pl.DataFrame:
        """Return what a function computes from each batch of columns.

        The function should return whole numbers or codes, which take little memory.
        """
        frame = pl.concat([*in_threads(function, self.batches(columns))])
        # Column by column, so that only one column at a time is in memory twice.
        return pl.DataFrame([frame.drop_in_place(name).rechunk() for name in frame.columns])

    def column(self, what: pl.Expr) -> pl.Series:
        """Return an expression over columns of the table, row by row."""
        return self.map_batches(
            what.meta.root_names(), lambda batch: batch.select(what)
        ).to_series()

    @cached_property
    def accepted(self) -> Bools:
        """Which segments the last `select` keeps."""
        return self.column(pl.col("decision") == "accept").fill_null(value=False).to_numpy()

    @cached_property
    def left_out(self) -> pl.DataFrame:
        """`segment_id` and `split` of what `select` leaves out only because it was reviewed.

        What was rejected by hand is among them, with a null `split`.
        """
        workspace = self.state.workspace
        if not workspace_tables.table_path(workspace, LEFT_OUT).exists():  # nothing is selected yet
            return pl.DataFrame(schema={"segment_id": pl.String, "split": pl.String})
        left_out = workspace.table(LEFT_OUT)
        is_left_out = pl.col("segment_id").is_in(left_out["segment_id"].implode())
        columns = ("segment_id", "decision", "reason")
        decisions = workspace_tables.read(workspace, columns, where=is_left_out)
        rejected = decisions.unique("segment_id", keep="first").filter(decision="reject")
        still = left_out.join(rejected, on=["segment_id", "reason"], how="semi")
        return still.select("segment_id", "split")

    @cached_property
    def numbers(self) -> dict[str, NDArray[Any]]:
        """`seconds` and `similarity` of each segment.

        Unknown seconds are 0, and an unknown similarity is NaN.
        """
        similarity = pl.col("similarity").fill_null(np.nan)
        return self.arrays(["similarity"], lambda rows: rows.select(similarity, seconds=SECONDS))

    def release(self) -> None:
        """Free `numbers`, 12 bytes for each segment; they are read again when asked for."""
        self.__dict__.pop("numbers", None)

    @cached_property
    def _rules_and_audio(self) -> tuple[Bools, Bools]:
        """Which segments break no rule, and which have audio."""
        rules = segment_failures(self._recordings)
        # `duplicate` and `empty_text` compare a segment with all others.
        violations = [
            rule.fill_null(value=False)
            for name, rule in rules.items()
            if name not in ("duplicate", "empty_text")
        ]
        is_rejected = (pl.col("decision") == "reject") & pl.col("reason").is_in(list(rules))
        has_no_id = pl.col("segment_id").is_null()
        text = pl.col("text")
        has_no_window = pl.any_horizontal(pl.col("path", "start_sample", "end_sample").is_null())
        facts = {
            "broken": pl.any_horizontal(*violations, is_rejected.fill_null(value=False), has_no_id),
            "empty": text.is_null() | ~text.str.contains(r"\S"),
            "has_text": text.is_not_null(),
            "window": rejection_reasons.window().hash(),
            "has_audio": ~has_no_window | pl.lit(self.state.workspace.audio_root is None),
        }
        arrays = self.arrays(
            (*WINDOW, "text", "decision", "reason"), lambda rows: rows.select(**facts)
        )
        broken = arrays["broken"]
        if arrays["has_text"].any():  # without any text, texts are still to come
            broken = broken | arrays["empty"]
        return ~broken & first_occurrences(arrays["window"]), arrays["has_audio"]

    @property
    def reviewable(self) -> Bools:
        """Which segments can be reviewed: they break no rule, and have audio if any segment has."""
        keeps_rules, has_audio = self._rules_and_audio
        return keeps_rules & has_audio

    @property
    def without_audio(self) -> Bools:
        """Which segments break no rule, but have no audio."""
        keeps_rules, has_audio = self._rules_and_audio
        return keeps_rules & ~has_audio

    def strata(self, strategy: str, *, threshold: float, rounds: Sequence[Round] = ()) -> Strata:
        """Return the strata of all that can be reviewed and that nobody has reached in a round."""
        columns = pool_columns(
            strategy, pl.Schema({**table_schema(self.state.workspace), **RECORDINGS})
        )
        reached_segments = reached(rounds)
        verdict = pl.Series("verdict", [None], dtype=OUTCOMES).new_from_index(0, len(self))
        places = self.places(reached_segments["segment_id"])
        is_in_table = places >= 0
        verdict = verdict.scatter(
            places[is_in_table], reached_segments["verdict"].filter(pl.Series(is_in_table))
        )
        is_reached = pl.repeat(value=False, n=len(self), eager=True).scatter(
            places[is_in_table], values=True
        )
        pool = pl.DataFrame({"verdict": verdict, "reached": is_reached})
        if "similarity" in columns:
            pool = pool.hstack([pl.Series("similarity", self.numbers["similarity"])])
        if others := [name for name in columns if name != "similarity"]:
            functions = {"suspicious": anomaly_facts, "risk": risk_columns}
            function = functions.get(
                strategy, lambda rows: rows.select(others).cast({pl.String: pl.Categorical()})
            )
            pool = pool.hstack(self.map_batches(others, function))
        can_be_drawn = self.reviewable
        if not can_be_drawn.all():
            pool = pool.filter(can_be_drawn)
        strata = strata_of(pool, strategy=strategy, threshold=threshold)
        number = np.full(len(self), -1, dtype=np.int32)
        number[can_be_drawn] = strata.number
        return replace(strata, number=number)

    def draw(self, strata: Strata, *, n: int, salt: str) -> pl.DataFrame:
        """Return `draw_from` of strata with the `segment_id` of each row."""
        hashes = row_hashes(workspace_tables.scan(self.state.workspace, ["segment_id"]))
        drawn = draw_from(
            strata, lambda places, salt: hashes(self._rows(places), salt), n=n, salt=salt
        )
        return drawn.select(self.ids(drawn["place"]), "probability", "stratum")

    def _rows(self, places: pl.Series) -> pl.Series:
        """Return the rows of the segments at some places."""
        # The first place behind each repeat. A row is a place plus the number of repeats before it.
        places_behind = self._repeats - np.arange(len(self._repeats))
        if len(places_behind):
            return places + np.searchsorted(places_behind, places.to_numpy(), side="right")
        return places

    def ids(self, places: pl.Series) -> pl.Series:
        """Return the ids of the segments at some places, in that order."""
        rows = self._rows(places).cast(pl.UInt32).alias(ROW)
        ids = workspace_tables.read(
            self.state.workspace,
            ["segment_id"],
            where=pl.col(ROW).is_in(rows.unique().implode()),
            row=ROW,
        )
        return rows.to_frame().join(ids, on=ROW, how="left", maintain_order="left")["segment_id"]

    def frame(
        self, strata: Strata, has_duration: pl.Expr, *, by: str = ""
    ) -> Iterator[pl.DataFrame]:
        """Yield what a draw took segments from.

        The columns are `segment_id`, `stratum`, `weight`, `rate`, `content`, and, for thresholds
        that are chosen later, `similarity` and `has_duration`: whether its duration is one that is
        selected. `group` is the hash of the column `by`, if there is one.
        """
        columns = ("text", "similarity", by) if by else ("text", "similarity")
        for start, batch in with_starts(self.batches(columns)):
            in_strata = np.flatnonzero(strata.number[start : start + len(batch)] >= 0)
            rows = batch[in_strata]
            groups = {"group": group_hashes(rows[by])} if by else {}
            yield pl.concat(
                [
                    rows.select("segment_id"),
                    strata.table(start + in_strata),
                    rows.select(
                        content=frame_contents(rows),
                        similarity=pl.col("similarity").fill_nan(None),
                        has_duration=has_duration,
                        **groups,
                    ),
                ],
                how="horizontal",
            )
