"""The version of a corpus on which a new one is based: its unchanged clips, its shards, and what it holds out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from msgspec import UNSET

from nbaudio.audio import encoder
from nbaudio.core.atomic import sha256_file
from nbaudio.core.channels import check_channel
from nbaudio.core.errors import InputError
from nbaudio.core.input_guards import parse_size
from nbaudio.core.source_splits import in_training, is_split_name
from nbaudio.core.tables import SEGMENTS, conform, parquet_slices, reading_parquet
from nbaudio.core.tombstones import is_withdrawn
from nbaudio.corpus.containers.base import Shard
from nbaudio.corpus.layout import CORPUS_JSON, Layout, intact_table, read_corpus_info
from nbaudio.corpus.locations import check_locations
from nbaudio.corpus.plan import ShardLimits
from nbaudio.corpus.shards import CLIP_FACTS, LOCATION, write_record
from nbaudio.storage.folders import Folder, folder_at
from nbaudio.storage.urls import stays_inside
from nbaudio.text.near_duplicates import sentences

_TABLE = "segments.parquet"
# The columns of each corpus that are read here; `window`, the last of CLIP_FACTS, is in few.
_NAMES = ("segment_id", "recording_id", "start_sample", "end_sample", "split", *CLIP_FACTS[:-1], *LOCATION)
# The parameters of a corpus that is no version of another one.
_DEFAULTS: dict[str, Any] = {"container": "webdataset", "text": None, "rate": 16000, "channel": "mix", "encoding": "flac"}
_DEFAULTS |= {"shard_size": 500_000_000, "shard_count": None, "window": 1}


@dataclass(frozen=True)
class Base:
    """A complete corpus that another version is based on; `sha256` is of its corpus.json."""

    folder: Folder
    info: dict[str, Any]
    sha256: str
    table: Path = field(repr=False)  # its segments.parquet on this machine

    def __str__(self) -> str:
        return str(self.folder)

    @classmethod
    @contextmanager
    def opened(cls, where: str | Path) -> Iterator["Base"]:
        """Yield the corpus at a path or URL; raise InputError if it is incomplete or its table is not as it was written."""
        folder = folder_at(where)
        info = read_corpus_info(folder)
        with folder.local(CORPUS_JSON) as path:
            sha256 = sha256_file(path)
        with intact_table(folder, info, _TABLE) as table:
            with reading_parquet(table):
                held = pl.read_parquet_schema(table)
            if missing := [name for name in (*_NAMES, "text") if name not in held]:
                raise InputError(f"{folder}/{_TABLE}: the column {missing[0]} is missing; is {folder} a corpus?")
            yield cls(folder, info, sha256, table)

    @property
    def version(self) -> int:
        """The number of the version, from 1."""
        return int(self.info.get("version", 1))

    def to_json(self) -> dict[str, Any]:
        """Return what corpus.json holds about the base of a version."""
        return {"version": self.version, "corpus": self.folder.place.name, "sha256": self.sha256}

    @cached_property
    def columns(self) -> pl.Schema:
        """The metadata columns of all versions."""
        held = pl.scan_parquet(self.table, glob=False).collect_schema()
        return pl.Schema({name: dtype for name, dtype in held.items() if name not in (*CLIP_FACTS, *LOCATION)})

    @cached_property
    def clips(self) -> pl.DataFrame:
        """All clips in order: keys, facts, location (`pack`, `offset`, `length`, `clip_sha256`), and the `name` of the shard."""
        clips = pl.scan_parquet(self.table, glob=False).select(*_NAMES, "^window$").collect()
        check_locations(self.folder, clips.to_arrow())
        for split, shard in clips.select("split", "shard").unique().iter_rows():
            if not isinstance(split, str) or not is_split_name(split) or not stays_inside(shard):
                where = f"shard {shard!r} of split {split!r}"
                raise InputError(f"{self.folder}/{_TABLE}: {where} is not valid; is {self.folder} a corpus?")
        listed = [shard["name"] for shard in self.info["shards"]]
        folders = pl.col("shard").str.extract("^([^/]+/[^/]+)/")
        name = pl.when(pl.col("shard").is_in(listed)).then("shard").otherwise(folders).alias("name")
        pack = pl.format("{}/{}", pl.lit(str(self.folder)), "shard").alias("pack")
        return clips.with_columns(name, pack).drop("shard").rename({"audio_sha256": "clip_sha256"})

    def same_rows(self, table: Path, recordings: pl.DataFrame) -> pl.DataFrame:
        """Return the clips whose accepted row in the segments table has the same values in all columns of the base."""
        now = pl.concat(self._fingerprints(part.filter(pl.col("decision") == "accept")) for part in parquet_slices(table))
        before = pl.concat(self._fingerprints(part) for part in parquet_slices(self.table))
        keys = ["segment_id", "fingerprint"]
        found = self.clips.with_columns(before["fingerprint"]).join(now, on=keys, how="semi", maintain_order="left")
        sources = pl.DataFrame(self.info.get("sources", []), schema={"recording_id": pl.String, "sha256": pl.String})
        known = recordings.select("recording_id", "sha256").drop_nulls().join(sources, on=["recording_id", "sha256"])
        return found.with_columns(same_audio=pl.col("recording_id").is_in(known["recording_id"].implode())).drop("fingerprint")

    def conformed(self, part: pl.DataFrame) -> pl.DataFrame:
        """Return rows of a segments table with the metadata columns of the base."""
        return conform(conform(part, SEGMENTS, "segments"), self.columns, str(self)).select(self.columns.names())

    def _fingerprints(self, part: pl.DataFrame) -> pl.DataFrame:
        row = pl.struct(pl.col(name).hash() for name in self.columns).hash()
        return self.conformed(part).select("segment_id", fingerprint=row)

    def shard_limits(self, limits: ShardLimits) -> ShardLimits:
        """Return the limits for new shards: a number of shards in the base stands for their size."""
        if limits.shard_count is None:
            return limits
        total = sum(shard["bytes"] for shard in self.info["shards"])
        return replace(limits, shard_count=None, shard_size=max(1, total // max(1, len(self.info["shards"]))))

    def left_out(self, table: Path) -> list[str]:
        """Return the columns of a segments table that hold values and that the base does not have."""
        held = pl.scan_parquet(table, glob=False)
        others = [name for name in held.collect_schema() if name not in (*self.columns, *SEGMENTS, *CLIP_FACTS, *LOCATION)]
        counts = held.select(pl.col(others).count()).collect() if others else pl.DataFrame()
        return [name for name in others if counts[name].item()]

    def keep_shards(self, layout: Layout, clips: pl.DataFrame) -> list[Shard]:
        """Link or copy the shards whose clips are all among `clips`, write their records, and return them in order."""
        counts = dict(clips["name"].value_counts().iter_rows())
        row = pl.col("row")
        places = self.clips.with_row_index("row").group_by("name").agg(row.min(), length=row.max() - row.min() + 1)
        starts = {name: (start, length) for name, start, length in places.iter_rows()}
        kept = []
        for shard in self.info["shards"]:
            name = shard["name"]
            start, length = starts.get(name, (0, 0))
            if not counts.get(name) == length == shard["segments"]:
                continue
            rows = pl.scan_parquet(self.table, glob=False).slice(start, length).collect()
            layout.folder.copy_from(self.folder, name, shard["sha256"], shard["bytes"])
            path = write_record(layout, name, rows, {each: shard[each] for each in ("plan", "sha256", "bytes")})
            kept.append(Shard(name, shard["split"], length, shard["bytes"], shard["sha256"], shard["plan"], path, kept=True))
        return kept

    @property
    def _grouped(self) -> list[str]:
        return [key for key in self.info["selection"].get("parameters", {}).get("group_by", []) if key in self.columns]

    def earlier_splits(self) -> pl.DataFrame:
        """Return the splits as the table `EARLIER_SPLITS` has them."""
        grouped = {name: pl.col(name).cast(pl.String) for name in self._grouped}
        held = pl.scan_parquet(self.table, glob=False)
        return held.select("segment_id", "split", sentence=sentences(pl.col("text")), **grouped).collect()

    def shared_with_train(self, table: Path, withdrawn: pl.DataFrame) -> tuple[str | None, str | None]:
        """Describe a held-out segment that is in train now, and a new one of train with a sentence or group of a held-out one."""
        grouped = self._grouped
        names = list(dict.fromkeys(("segment_id", "recording_id", "speaker_id", "split", "text", *grouped)))
        sentence = sentences(pl.col("text")).alias("sentence")
        trains = pl.col("split").cast(pl.String).map_batches(in_training, return_dtype=pl.Boolean)
        before = pl.scan_parquet(self.table, glob=False).select(names)
        rows = before.filter(~trains).with_columns(sentence).collect()
        rows = rows.filter(~is_withdrawn(rows, withdrawn))
        others = before.filter(trains).select("segment_id").collect()["segment_id"]
        train = pl.scan_parquet(table, glob=False).filter((pl.col("decision") == "accept") & trains).with_columns(sentence)

        def first(entered: pl.LazyFrame, *columns: str) -> str | None:
            for column in columns:
                hits = entered.filter(_among(column, rows[column])).select("segment_id", value=column).head(1).collect()
                for segment, value in hits.iter_rows():
                    split = rows.filter(pl.col(column) == value)["split"][0]
                    what = "which is" if column == "segment_id" else f"which has the {column} {value!r} of a segment"
                    return f"segment {segment!r} of train, {what} in {split} of the base {self}"
            return None

        return first(train, "segment_id"), first(train.filter(~_among("segment_id", others)), *grouped, "sentence")


def _among(column: str, values: pl.Series) -> pl.Expr:
    return pl.col(column).is_in(values.drop_nulls().unique().implode())


def corpus_parameters(given: Mapping[str, Any], base: Base | None) -> dict[str, Any]:
    """Return parameters of `materialize`, those not given (`msgspec.UNSET`) as in `base` or by default; InputError if invalid."""
    chosen = {name: value for name, value in given.items() if value is not UNSET}
    if "shard_size" in chosen:
        chosen["shard_size"] = parse_size(chosen["shard_size"])
    if "channel" in chosen:
        chosen["channel"] = str(chosen["channel"])
    of_base = base.info["parameters"] if base else {}
    held = {name: of_base.get(name, default) for name, default in _DEFAULTS.items()}
    for name, value in chosen.items() if base else ():
        if value != held[name]:
            raise InputError(f"{name} is {held[name]} in the base {base}, not {value}: leave it out, or leave out --base")
    values = held | chosen
    if (rate := values["rate"]) is not None and rate < 1:
        raise InputError(f"rate must be 1 Hz or more, not {rate}")
    encoder(values["encoding"]).check_rate(rate)
    check_channel(values["channel"])
    # Corpora of older versions have no parameter `text`.
    return {name: value for name, value in values.items() if name != "text" or value is not None}


def find_base(folder: Folder) -> str | None:
    """Return the base of a corpus if it is beside it, under its name and with the hash of its corpus.json."""
    base = read_corpus_info(folder).get("base")
    if not base or not stays_inside(str(base.get("corpus", ""))):
        return None
    found = Folder(folder.place.parent / base["corpus"])
    return str(found) if found.exists(CORPUS_JSON) and found.holds(CORPUS_JSON, base["sha256"]) else None
