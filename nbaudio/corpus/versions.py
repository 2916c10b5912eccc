"""Versions of a corpus.

A new version keeps what is unchanged in its base. The folders of versions are beside each other
(CORPUS, CORPUS-v2, ...).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from msgspec import UNSET

from nbaudio.audio import encoder
from nbaudio.audio.channels import check_channel
from nbaudio.core.atomic import sha256_file
from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import parse_size
from nbaudio.core.leftovers import scratch_folder
from nbaudio.corpus.clip_locations import PLACES, check_locations
from nbaudio.corpus.clips_in_packs import LOCATED
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.corpus.containers.shard_files import ADDED_IN, Shard, version_of
from nbaudio.corpus.corpus_tables import freeze_table, key_of_id, selection_hash
from nbaudio.corpus.layout import CORPUS_JSON, Layout, intact_table, read_corpus_info
from nbaudio.corpus.plan import ShardLimits, plan_of_corpus
from nbaudio.corpus.shards import CLIP_FACTS, ESTIMATES, LOCATION, NOT_METADATA, write_record
from nbaudio.storage.folders import Folder, folder_at
from nbaudio.storage.urls import stays_inside
from nbaudio.tables.buckets import bucket_count, hash_bucket, joined_schema, store, write_buckets
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.parquet_files import num_rows, parquet_slices, reading_parquet, scan_rows
from nbaudio.tables.schemas import SEGMENTS, conform
from nbaudio.tables.split_names import in_training, is_split_name
from nbaudio.tables.tombstones import is_withdrawn
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_schema
from nbaudio.text.near_duplicates import sentences

_TABLE = "segments.parquet"
# What must be equal for two recordings to have the same audio.
_AUDIO_COLUMNS = ("recording_id", "sampling_rate", "num_channels", "num_samples", "sha256")
# The columns of each corpus that are read here; `window`, the last of CLIP_FACTS, is in few.
_READ_COLUMNS = (
    "segment_id",
    "recording_id",
    "start_sample",
    "end_sample",
    "split",
    *CLIP_FACTS[:-1],
    *LOCATION,
)
# The parameters of a corpus that is no version of another one.
_DEFAULTS: dict[str, Any] = {
    "container": "webdataset",
    "text": None,
    "rate": 16000,
    "channel": "mix",
    "encoding": "flac",
    "shard_size": 500_000_000,
    "shard_count": None,
    "window": 1,
}

_KEPT = joined_schema(LOCATED, {"base_row": pl.UInt32(), "is_sure": pl.Boolean()})
"""Columns of clips of a base whose rows are unchanged in a segments table.

`shard` and `base_row`, from 0, are those of the base; `row` is that of the segments table.
`is_sure` is whether the recording is known to be the same, so that the audio is, too.
"""


@dataclass(frozen=True)
class KeptClips:
    """Clips of a base that a version keeps.

    `shards` are copied whole; `clips`, as `LOCATED`, are the clips of shards that lose others.
    """

    shards: list[Shard]
    clips: pl.LazyFrame

    @classmethod
    def none(cls) -> "KeptClips":
        """Return the kept clips of a corpus without a base: none."""
        return cls([], pl.LazyFrame(schema=LOCATED))


class SharedWithTrain(NamedTuple):
    """Segments of train that share what a base holds out, each in a sentence that names it.

    Attributes:
        moved: one that was held out itself; None if there is none.
        shared: one that is new, and has a sentence or group of a held-out one; None if there is
            none.
    """

    moved: str | None
    shared: str | None


@dataclass(frozen=True)
class Base:
    """A complete corpus that another version is based on; `sha256` is of its corpus.json."""

    folder: Folder
    corpus_info: dict[str, Any]
    sha256: str
    table: Path = field(repr=False)  # the path of its segments.parquet on this machine

    def __str__(self) -> str:
        return str(self.folder)

    @classmethod
    @contextmanager
    def opened(cls, where: str | Path) -> Iterator["Base"]:
        """Yield the corpus at a path or URL.

        Raise InputError if it is incomplete or its table is not as it was written.
        """
        folder = folder_at(where)
        corpus_info = read_corpus_info(folder)
        with folder.local(CORPUS_JSON) as path:
            sha256 = sha256_file(path)
        with intact_table(folder, corpus_info, _TABLE) as table:
            with reading_parquet(table):
                schema = pl.read_parquet_schema(table)
            if missing := [name for name in (*_READ_COLUMNS, "text") if name not in schema]:
                raise InputError(
                    f"{folder}/{_TABLE}: the column {missing[0]} is missing; is {folder} a corpus?"
                )
            yield cls(folder, corpus_info, sha256, table)

    def check_container(self) -> None:
        """Raise InputError if its container is one that only earlier versions of nbaudio wrote."""
        name = self.corpus_info["parameters"]["container"]
        if name not in CONTAINERS:
            raise InputError(
                f"{self}: container {name} is no longer written; base the version on a copy that "
                f"'nbaudio convert {self} --container webdataset --out OTHER' makes"
            )

    @property
    def version(self) -> int:
        """The number of the version, from 1."""
        return int(self.corpus_info.get("version", 1))

    def to_json(self) -> dict[str, Any]:
        """Return what corpus.json holds about the base of a version."""
        return {"version": self.version, "corpus": self.folder.place.name, "sha256": self.sha256}

    @cached_property
    def columns(self) -> pl.Schema:
        """The metadata columns of all versions."""
        schema = self.scan().collect_schema()
        return pl.Schema(
            {name: dtype for name, dtype in schema.items() if name not in NOT_METADATA}
        )

    def scan(self) -> pl.LazyFrame:
        """Scan the rows of all clips."""
        return scan_rows(self.table)

    def clips(self) -> pl.LazyFrame:
        """Return the clips as `LOCATED`, with recordings and bounds, in order.

        `row` and `position` are the row of the base. Raise InputError if a clip has a place that no
        corpus has.
        """
        self._check_places()
        clips = plan_of_corpus(self.table, (*CLIP_FACTS, *LOCATION)).with_columns(
            clip_sha256="audio_sha256",
            pack=pl.format("{}/{}", pl.lit(str(self.folder)), "pack"),
            position="row",
        )
        located = (pl.col(name).cast(dtype) for name, dtype in LOCATED.items())
        return clips.select(*located, "recording_id", "start_sample", "end_sample")

    def _check_places(self) -> None:
        """Raise InputError if a clip has a place that no corpus has."""
        for part in parquet_slices(self.table, (*PLACES, "split")):
            check_locations(self.folder, part.to_arrow())
            for split, shard in part.select("split", "shard").unique().iter_rows():
                is_split = isinstance(split, str) and is_split_name(split)
                if not is_split or not stays_inside(shard):
                    where = f"shard {shard!r} of split {split!r}"
                    raise InputError(
                        f"{self.folder}/{_TABLE}: {where} is not valid; is {self.folder} a corpus?"
                    )

    def unchanged(
        self, table: Path, recordings: pl.DataFrame, *, num_rows: int, folder: Path
    ) -> pl.LazyFrame:
        """Find the clips of the base whose segments are still accepted, with the same metadata.

        The rows in the segments table and in the base have the same id, and the same fingerprint of
        all metadata columns of the base. Whether the audio is the same, `is_sure` says.

        Args:
            table: the file of the segments table.
            recordings: the recordings of the workspace.
            num_rows: the larger number of rows of both tables.
            folder: a folder for buckets.

        Returns:
            These clips, with the columns of `_KEPT`.
        """
        count = bucket_count(num_rows)
        bucket = hash_bucket("segment_id", count)
        now_schema = pl.Schema(
            {"segment_id": pl.String, "row": pl.UInt32, "fingerprint": pl.UInt64}
        )
        now = store(self._accepted_fingerprints(table), folder / "now", now_schema)
        before = self._with_fingerprints(recordings)
        before_by_id = write_buckets(before, bucket, count=count, folder=folder / "before-by-id")
        now_by_id = write_buckets(now, bucket, count=count, folder=folder / "now-by-id")
        unchanged = (
            old.join(new, on=["segment_id", "fingerprint"])
            for old, new in zip(before_by_id, now_by_id, strict=True)
        )
        return store(unchanged, folder / "unchanged", _KEPT)

    def _with_fingerprints(self, recordings: pl.DataFrame) -> pl.LazyFrame:
        """Return the clips of the base with the columns of `_KEPT` but `row`, and `fingerprint`."""
        sources = pl.DataFrame(
            self.corpus_info.get("sources", []),
            schema={"recording_id": pl.String, "sha256": pl.String},
        )
        unchanged_recordings = (
            recordings.select("recording_id", "sha256")
            .drop_nulls()
            .join(sources, on=["recording_id", "sha256"])
        )
        is_sure = pl.col("recording_id").is_in(unchanged_recordings["recording_id"].implode())
        rows = self.scan().select(fingerprint=self._fingerprint())
        columns = [name for name in _KEPT if name != "row"]
        clips = self.clips().with_columns(base_row="row", is_sure=is_sure).select(columns)
        return pl.concat([clips, rows], how="horizontal")

    def _accepted_fingerprints(self, table: Path) -> Iterator[pl.DataFrame]:
        """Yield the accepted rows of a segments table: `segment_id`, `row`, `fingerprint`."""
        start = 0
        for part in parquet_slices(table):
            fingerprints = self.conformed(part).select(fingerprint=self._fingerprint())
            numbered = part.select("segment_id", "decision").with_row_index("row", offset=start)
            yield numbered.hstack(fingerprints).filter(pl.col("decision") == "accept")
            start += len(part)

    def _fingerprint(self) -> pl.Expr:
        """Return a hash of the values of each row in the metadata columns of the base.

        Values are cast to their type in the segments table and then to that in the base, so that
        equal values of both tables have equal hashes.
        """
        values = (
            pl.col(name).cast(SEGMENTS.get(name, dtype)).cast(dtype)
            for name, dtype in self.columns.items()
        )
        return pl.struct(value.hash() for value in values).hash()

    def conformed(self, part: pl.DataFrame) -> pl.DataFrame:
        """Return rows of a segments table with the metadata columns of the base."""
        return conform(conform(part, SEGMENTS, "segments"), self.columns, str(self)).select(
            self.columns.names()
        )

    def shard_limits(self, limits: ShardLimits) -> ShardLimits:
        """Return the limits for new shards.

        A number of shards is that of a whole corpus. New shards get the mean size of those of the
        base instead.
        """
        if limits.shard_count is None:
            return limits
        total = sum(shard["bytes"] for shard in self.corpus_info["shards"])
        return replace(
            limits,
            shard_count=None,
            shard_size=max(1, total // max(1, len(self.corpus_info["shards"]))),
        )

    def left_out(self, table: Path) -> list[str]:
        """Return the columns of a segments table that the base lacks, and that have values.

        The version leaves them out, since all versions have the columns of the base.
        """
        segments = scan_rows(table)
        others = [
            name
            for name in segments.collect_schema()
            if name not in (*self.columns, *SEGMENTS, *NOT_METADATA, *ESTIMATES)
        ]
        if others:
            counts = segments.select(pl.col(others).count()).collect()
        else:
            counts = pl.DataFrame()
        return [name for name in others if counts[name].item()]

    def keep_shards(self, layout: Layout, kept_clips: pl.LazyFrame) -> KeptClips:
        """Copy the shards all of whose clips are kept, by links if possible, with records.

        `kept_clips` has the columns of `_KEPT`.
        """
        counts = (
            kept_clips.group_by("shard")
            .agg(pl.len(), first=pl.col("base_row").min(), last=pl.col("base_row").max())
            .collect(**STREAMED)
        )
        rows_by_shard = {
            name: (count, first, last) for name, count, first, last in counts.iter_rows()
        }
        shards = []
        for shard in self.corpus_info["shards"]:
            count, first, last = rows_by_shard.get(shard["name"], (0, 0, 0))
            # `_copy_shard` needs rows that follow each other, as nbaudio writes them.
            if count and count == last - first + 1 == shard["segments"]:
                shards.append(self._copy_shard(layout, shard, first))
        copied = [shard.name for shard in shards]
        others = kept_clips.filter(~pl.col("shard").is_in(copied)).select(LOCATED.names())
        return KeptClips(shards, others)

    def _copy_shard(self, layout: Layout, shard: dict[str, Any], first_row: int) -> Shard:
        """Copy a shard, whose clips begin at a row of the base, and write its record."""
        name = shard["name"]
        rows = self.scan().slice(first_row, shard["segments"]).collect()
        layout.folder.copy_from(self.folder, name, shard["sha256"], shard["bytes"])
        return Shard(
            name,
            shard["split"],
            shard["segments"],
            shard["bytes"],
            shard["sha256"],
            shard["plan"],
            write_record(layout, shard, rows),
            was_whole=True,
        )

    @property
    def _group_by(self) -> list[str]:
        """The columns that the selection of the base was grouped by."""
        return [
            key
            for key in self.corpus_info["selection"].get("parameters", {}).get("group_by", [])
            if key in self.columns
        ]

    def earlier_splits(self) -> pl.DataFrame:
        """Return the splits as the table `EARLIER_SPLITS` has them."""
        groups = {name: pl.col(name).cast(pl.String) for name in self._group_by}
        return (
            self.scan()
            .select("segment_id", "split", sentence=sentences(pl.col("text")), **groups)
            .collect()
        )

    def added_in(self) -> pl.DataFrame:
        """Return `key`, a hash of the id of each clip, and `added_in`.

        A corpus of nbaudio 0.2.0 or earlier has no such column; its shards name their versions.
        """
        version = pl.col("shard").map_batches(_versions_of, return_dtype=pl.Int32)
        if ADDED_IN in self.scan().collect_schema():
            version = pl.col(ADDED_IN)
        return (
            self.scan()
            .select(key_of_id(), version.cast(pl.Int32).alias(ADDED_IN))
            .collect()
            .sort("key")
        )

    def shared_with_train(self, table: Path, withdrawn: pl.DataFrame) -> "SharedWithTrain":
        """Find segments of train that share what the base holds out.

        Args:
            table: the file of the segments table.
            withdrawn: tombstones; what they withdraw is no longer held out.
        """
        group_by = self._group_by
        names = list(
            dict.fromkeys(("segment_id", "recording_id", "speaker_id", "split", "text", *group_by))
        )
        sentence = sentences(pl.col("text")).alias("sentence")
        trains = pl.col("split").cast(pl.String).map_batches(in_training, return_dtype=pl.Boolean)
        before = self.scan().select(names)
        held_out = before.filter(~trains).with_columns(sentence).collect()
        held_out = held_out.filter(~is_withdrawn(held_out, withdrawn))
        trained_ids = before.filter(trains).select("segment_id").collect()["segment_id"]
        train = (
            scan_rows(table)
            .filter((pl.col("decision") == "accept") & trains)
            .with_columns(sentence)
        )
        new_in_train = train.filter(~_among("segment_id", trained_ids))
        shared = (
            self._first_shared(new_in_train, held_out, name) for name in (*group_by, "sentence")
        )
        return SharedWithTrain(
            self._first_shared(train, held_out, "segment_id"),
            next((description for description in shared if description), None),
        )

    def _first_shared(self, train: pl.LazyFrame, held_out: pl.DataFrame, column: str) -> str | None:
        """Describe the first segment of train that has a column's value of a held-out segment."""
        is_shared = _among(column, held_out[column])
        first = train.filter(is_shared).select("segment_id", value=column).head(1).collect()
        if first.is_empty():
            return None
        segment, value = first.row(0)
        split = held_out.filter(pl.col(column) == value)["split"][0]
        if column == "segment_id":
            what = "which is"
        else:
            what = f"which has the {column} {value!r} of a segment"
        return f"segment {segment!r} of train, {what} in {split} of the base {self}"


def _versions_of(shards: pl.Series) -> pl.Series:
    """Return the version that each shard came with, by its name."""
    names = shards.unique()
    versions = [version_of(name) for name in names]
    return shards.replace_strict(names, versions, return_dtype=pl.Int32)


def _among(column: str, values: pl.Series) -> pl.Expr:
    """Return whether a column has one of some values."""
    return pl.col(column).is_in(values.drop_nulls().unique().implode())


def _parameters_of_base(base: Base) -> dict[str, Any]:
    """Return the parameters of a base, with defaults for those that earlier versions lack."""
    of_base = base.corpus_info["parameters"]
    return {name: of_base.get(name, default) for name, default in _DEFAULTS.items()}


def corpus_parameters(requested: Mapping[str, Any], base: Base | None) -> dict[str, Any]:
    """Return parameters of `materialize`; raise InputError if one is invalid.

    Those not given (`msgspec.UNSET`) are as in `base`, or by default.
    """
    if base:
        base.check_container()
    chosen = {name: value for name, value in requested.items() if value is not UNSET}
    if "shard_size" in chosen:
        chosen["shard_size"] = parse_size(chosen["shard_size"])
    if "channel" in chosen:
        chosen["channel"] = str(chosen["channel"])
    values = {**_DEFAULTS, **chosen}
    if base:
        values = _parameters_of_base(base)
        for name, value in chosen.items():
            if value != values[name]:
                raise InputError(
                    f"{name} is {values[name]} in the base {base}, not {value}: leave it out, "
                    "or leave out --base"
                )
    if (rate := values["rate"]) is not None and rate < 1:
        raise InputError(f"rate must be 1 Hz or more, not {rate}")
    encoder(values["encoding"]).check_rate(rate)
    check_channel(values["channel"])
    # Corpora of older versions have no parameter `text`.
    return {name: value for name, value in values.items() if name != "text" or value is not None}


def find_base(folder: Folder) -> str | None:
    """Return the base of a corpus if it is beside it; None otherwise.

    It must have its name, and the hash of its corpus.json.
    """
    base = read_corpus_info(folder).get("base")
    if not base or not stays_inside(str(base.get("corpus", ""))):
        return None
    base_folder = Folder(folder.place.parent / base["corpus"])
    if base_folder.exists(CORPUS_JSON) and base_folder.holds(CORPUS_JSON, base["sha256"]):
        return str(base_folder)
    return None


def latest_version(corpus: str | Path) -> str:
    """Return the latest complete version of a corpus, a folder or URL.

    This is the corpus itself if there is no later one. ``CORPUS-v3`` counts if its corpus.json says
    that it is version 3.
    """
    corpus = str(corpus).rstrip("/")
    place = folder_at(corpus).place
    matches = (
        re.fullmatch(re.escape(place.name) + r"-v([2-9]|[1-9]\d+)", name)
        for name in place.parent.names()
    )
    for number in sorted((int(match[1]) for match in matches if match), reverse=True):
        folder = folder_at(later := f"{corpus}-v{number}")
        if folder.exists(CORPUS_JSON) and read_corpus_info(folder).get("version") == number:
            return later
    return corpus


def next_version(workspace: str | Path | Workspace, corpus: str | Path) -> tuple[str, str | None]:
    """Return `out` and `base` for the call of `materialize` that updates a corpus.

    - Without a complete version, `out` is the corpus itself, without a base.
    - If the latest version has what the workspace selects now, `out` is that version with its own
      base, and `materialize` changes nothing.
    - Otherwise `out` is the next version, such as ``CORPUS-v2``, and its base is the latest.
    """
    latest = latest_version(corpus)
    if not folder_at(latest).exists(CORPUS_JSON):
        return latest, None
    with Base.opened(latest) as version:
        base_of_latest = find_base(version.folder)
        # `materialize` needs the base again to find that nothing changes.
        has_its_base = base_of_latest is not None or not version.corpus_info.get("base")
        if has_its_base and _is_current(Workspace.open(workspace), version):
            return latest, base_of_latest
        return f"{str(corpus).rstrip('/')}-v{version.version + 1}", latest


def _is_current(workspace: Workspace, version: Base) -> bool:
    """Return whether a corpus has the selection of the workspace.

    Rows and the audio of recordings must be equal.
    """
    text = version.corpus_info["parameters"].get("text")
    lacks_text = text is not None and f"text_{text}" not in table_schema(workspace)
    if lacks_text or version.corpus_info["identity"].get("selection") != selection_hash(
        workspace, text
    ):
        return False
    recordings = workspace.recordings.select(_AUDIO_COLUMNS)
    sources = pl.DataFrame(
        version.corpus_info.get("sources", []),
        schema={name: recordings.schema[name] for name in _AUDIO_COLUMNS},
    )
    if len(sources.join(recordings, on=_AUDIO_COLUMNS, how="anti", nulls_equal=True)):
        return False
    with scratch_folder(workspace.path) as scratch:
        table = freeze_table(workspace, scratch / "segments.parquet", text)
        most = max(num_rows(table), num_rows(version.table))
        same = version.unchanged(table, recordings, num_rows=most, folder=scratch)
        return int(same.select(pl.len()).collect().item()) == num_rows(version.table)
