"""The tables beside the shards, and the manifest: what is in, what is out and why. No table is ever held whole."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from nbaudio.core.tables import ROWS_A_GROUP, SEGMENTS, SPLITS, conform, parquet_slices
from nbaudio.core.version import __version__
from nbaudio.corpus.containers.base import WrittenShard
from nbaudio.corpus.containers.registry import Container
from nbaudio.corpus.layout import UNREADABLE_AUDIO, Layout
from nbaudio.corpus.shards import ShardResult, rows_of
from nbaudio.selection.leakage import grouping, leakage_record
from nbaudio.storage.atomic import JsonRows, sha256_file, write_json
from nbaudio.storage.folders import Folder
from nbaudio.text import vocabulary


def publish(
    layout: Layout,
    shards: list[ShardResult],
    *,
    container: Container,
    lost: pl.DataFrame,
    table: Path,
    recordings: pl.DataFrame,
    selection: dict[str, Any],
) -> dict[str, Any]:
    """Write the tables of the corpus and give its manifest, all but the parameters.

    Args:
        layout: of the corpus.
        shards: all of them, in order.
        container: which they are in.
        lost: `segment_id` and `detail` of what was accepted and could not be cut.
        table: the segments table of the workspace.
        recordings: the recordings table.
        selection: the report of the selection.
    """
    beside = SideFile(layout.folder)
    characters = publish_shards(layout, shards, container=container, beside=beside)
    with layout.folder.local("segments.parquet") as path:
        leakage = leakage_record(pl.scan_parquet(path, glob=False), keys=grouping(selection.get("facts", {})))
        inside = pl.read_parquet(path, columns=["segment_id", "recording_id", "speaker_id", "split", "duration_s"], glob=False)
    reasons: Counter[str] = Counter()

    def rejected() -> Iterator[pl.DataFrame]:
        for part in parquet_slices(table):
            out = _rejected(conform(part, SEGMENTS, "segments"), inside, lost)
            reasons.update(out["reason"].fill_null("").to_list())
            yield out

    with beside.new("rejected.parquet") as path:
        write_table(path, rejected())
    with beside.new("vocab.json") as path:
        write_json(path, vocabulary(sorted(characters)).to_json())
    used = recordings.filter(pl.col("recording_id").is_in(inside["recording_id"].implode())).sort("recording_id")
    facts = ("recording_id", "path", "sampling_rate", "num_channels", "num_samples", "codec", "sha256")
    return {
        "format": "nbaudio corpus 1",
        "nbaudio": __version__,
        "selection": selection.get("facts", {}),
        "splits": {split: _split_facts(inside.filter(pl.col("split") == split)) for split in SPLITS},
        "leakage": leakage,
        "rejected": dict(sorted(reasons.items())),
        "sources": JsonRows(used.select(facts)),
        "shards": shard_entries(shards),
        "tables": beside.hashes,
        "table_bytes": beside.sizes,
    }


class SideFile:
    """What lies beside the shards, published file by file.

    Attributes:
        hashes: SHA-256 by name of what is published.
        sizes: bytes by name.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.hashes: dict[str, str] = {}
        self.sizes: dict[str, int] = {}

    @contextmanager
    def new(self, name: str) -> Iterator[Path]:
        """A path to write to, published under `name` when the context ends well."""
        with self._folder.new(name) as path:
            yield path
            self.hashes[name], self.sizes[name] = sha256_file(path), path.stat().st_size


def publish_shards(layout: Layout, shards: list[ShardResult], *, container: Container, beside: SideFile) -> set[str]:
    """Remove other shards, and write segments.parquet and what the container wants beside its shards.

    Returns:
        All characters of the transcripts.
    """
    layout.keep_only({shard.name for shard in shards})
    described = [
        WrittenShard(shard.name, shard.split, shard.segments, shard.num_bytes, shard.sha256, rows_of(layout.record(shard.name)))
        for shard in shards
    ]
    characters: set[str] = set()

    def kept() -> Iterator[pl.DataFrame]:
        for shard in described:
            for part in parquet_slices(shard.rows):
                characters.update(vocabulary(part["text"]).counts)
                yield part

    with beside.new("segments.parquet") as path:
        write_table(path, kept())
    for name, parts in container.side_files(described):
        with beside.new(name) as path, path.open("wb") as file:
            file.writelines(parts)
            file.flush()
    return characters


def shard_entries(shards: Iterable[ShardResult]) -> list[dict[str, Any]]:
    """The shards as corpus.json lists them."""
    return [
        {
            "name": shard.name,
            "split": shard.split,
            "segments": shard.segments,
            "bytes": shard.num_bytes,
            "sha256": shard.sha256,
            "plan": shard.plan,
        }
        for shard in shards
    ]


def _rejected(segments: pl.DataFrame, inside: pl.DataFrame, lost: pl.DataFrame) -> pl.DataFrame:
    """Those of some segments that are not in, each with the rule that put it out and, where it failed, what happened."""
    outside = segments.join(inside.select("segment_id"), on="segment_id", how="anti", maintain_order="left")
    return outside.join(lost, on="segment_id", how="left", maintain_order="left").with_columns(
        reason=pl.when(pl.col("detail").is_not_null()).then(pl.lit(UNREADABLE_AUDIO)).otherwise("reason"),
        decision=pl.lit("reject"),
        split=pl.lit(None, dtype=pl.String),
    )


def write_table(target: Path, parts: Iterable[pl.DataFrame]) -> None:
    """Write a table that comes in parts of the same columns, each a row group; empty ones only tell the columns."""
    writer: pq.ParquetWriter | None = None
    try:
        for part in parts:
            arrow = part.to_arrow(compat_level=pl.CompatLevel.oldest())
            writer = writer or pq.ParquetWriter(target, arrow.schema, compression="ZSTD")
            if len(part):
                writer.write_table(arrow, row_group_size=ROWS_A_GROUP)
    finally:
        if writer:
            writer.close()


def _split_facts(segments: pl.DataFrame) -> dict[str, Any]:
    return {
        "segments": segments.height,
        "hours": round(float(segments["duration_s"].sum()) / 3600, 6),
        "speakers": segments["speaker_id"].drop_nulls().n_unique(),
        "recordings": segments["recording_id"].n_unique(),
    }
