"""The tables beside the shards, and the manifest: what is in, what is out and why."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from nbaudio.corpus.layout import Layout
from nbaudio.corpus.packs import UNREADABLE, Failure
from nbaudio.corpus.shards import ShardResult
from nbaudio.files import sha256_file, whole_file, write_json
from nbaudio.tables import SPLITS
from nbaudio.text import vocabulary
from nbaudio.version import __version__


@dataclass(frozen=True)
class CorpusTables:
    """What becomes segments.parquet and rejected.parquet: together every segment of the workspace, once."""

    segments: pl.DataFrame
    rejected: pl.DataFrame


def corpus_tables(
    metadata: pl.DataFrame,
    shards: list[ShardResult],
    segments: pl.DataFrame,
    keys: pl.DataFrame,
    failures: dict[str, Failure],
) -> CorpusTables:
    """The tables of a corpus.

    Args:
        metadata: of all clips that are in.
        shards: where each of them is.
        segments: the workspace's segments.
        keys: `segment_id` and `clip_key` of all that were accepted.
        failures: what could not be cut, by clip key.
    """
    places = pl.DataFrame(
        [
            (segment_id, shard.name, offset, length)
            for shard in shards
            for segment_id, (offset, length) in zip(shard.segment_ids, shard.places, strict=True)
        ],
        schema={"segment_id": pl.String, "shard": pl.String, "offset": pl.Int64, "length": pl.Int64},
        orient="row",
    )
    inside = places.join(metadata, on="segment_id", how="left", maintain_order="left")
    inside = inside.select(*metadata.columns, "shard", "offset", "length")
    details = pl.DataFrame(
        [(key, failure.detail) for key, failure in failures.items()],
        schema={"clip_key": pl.String, "detail": pl.String},
        orient="row",
    )
    lost = keys.join(details, on="clip_key", how="inner").select("segment_id", "detail")
    outside = segments.join(places, on="segment_id", how="anti", maintain_order="left")
    outside = outside.join(lost, on="segment_id", how="left", maintain_order="left").with_columns(
        reason=pl.when(pl.col("detail").is_not_null()).then(pl.lit(UNREADABLE)).otherwise("reason"),
        decision=pl.lit("reject").cast(segments.schema["decision"]),
        split=pl.lit(None).cast(segments.schema["split"]),
    )
    return CorpusTables(inside, outside)


def publish(
    layout: Layout, tables: CorpusTables, shards: list[ShardResult], recordings: pl.DataFrame, selection: dict[str, Any]
) -> dict[str, Any]:
    """Write the tables of the corpus and give its manifest, all but the parameters."""
    layout.keep_only({shard.name for shard in shards})
    for name, frame in (("segments", tables.segments), ("rejected", tables.rejected)):
        with whole_file(layout.root / f"{name}.parquet") as partial:
            frame.write_parquet(partial)
    write_json(layout.root / "vocab.json", vocabulary(tables.segments["text"]).to_json())
    used = recordings.filter(pl.col("recording_id").is_in(tables.segments["recording_id"].implode())).sort("recording_id")
    facts = ("recording_id", "path", "sampling_rate", "num_channels", "num_samples", "codec", "sha256")
    reasons = tables.rejected.group_by("reason").len().sort("reason")
    return {
        "format": "nbaudio corpus 1",
        "nbaudio": __version__,
        "selection": selection.get("facts", {}),
        "splits": {split: _split_facts(tables.segments.filter(pl.col("split") == split)) for split in SPLITS},
        "rejected": dict(reasons.iter_rows()),
        "sources": used.select(facts).to_dicts(),
        "shards": [
            {
                "name": shard.name,
                "split": shard.split,
                "segments": len(shard.segment_ids),
                "bytes": shard.num_bytes,
                "sha256": shard.sha256,
                "plan": shard.plan,
            }
            for shard in shards
        ],
        "tables": {name: sha256_file(layout.root / name) for name in ("segments.parquet", "rejected.parquet", "vocab.json")},
    }


def _split_facts(segments: pl.DataFrame) -> dict[str, Any]:
    return {
        "segments": segments.height,
        "hours": round(float(segments["duration_s"].sum()) / 3600, 6),
        "speakers": segments["speaker_id"].drop_nulls().n_unique(),
        "recordings": segments["recording_id"].n_unique(),
    }
