"""What a model gets for each segment, and the key under which its answer is kept.

A key is a hash of the clip, if the model gets samples, and of the values of columns. Segments with
equal keys get one answer.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import polars as pl

from nbaudio.corpus.clip_keys import (
    recording_facts,
    segment_columns,
    segments_with_audio,
    text_hashes,
    with_clip_keys,
)
from nbaudio.corpus.cutting import ClipFormat
from nbaudio.tables.amounts import seconds_column
from nbaudio.tables.workspace import Workspace

MEASURED_FOLDER = "measured"
"""Folder of a workspace with the values of models, each with the key of its clip."""

DURATION = "duration_s"
"""The length of a segment in seconds, which models can get as if it were a column."""

_TIMES = ("start_sample", "end_sample", "source_start", "source_end")
_KEYED = pl.Schema(
    {
        "row": pl.UInt32,
        "segment_id": pl.String,
        "recording_id": pl.String,
        "start_sample": pl.Int64,
        "end_sample": pl.Int64,
        "channel": pl.String,
        "inputs": pl.String,
        "clip_key": pl.String,
    }
)


@dataclass(frozen=True)
class ModelInputs:
    """What a model gets.

    Attributes:
        clip_format: the format of the samples; None if it gets none.
        columns: the columns of the segments table whose values it gets; `DURATION` is one of them.
    """

    clip_format: ClipFormat | None
    columns: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return the inputs as the settings of a workspace store them."""
        if self.clip_format is None:
            return {"columns": [*self.columns]}
        samples = {"rate": self.clip_format.rate, "channel": self.clip_format.channel}
        return {"samples": samples, "columns": [*self.columns]}

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> "ModelInputs":
        """Return the inputs of a `record`."""
        samples = record.get("samples")
        clip_format = samples and sample_format(samples["rate"], samples["channel"])
        return cls(clip_format, tuple(record["columns"]))


def sample_format(rate: int | None, channel: str) -> ClipFormat:
    """Return the format of samples at a rate in Hz; None is the rate of the recording."""
    return ClipFormat(rate, channel, "wav")


def keyed_segments(workspace: Workspace, inputs: ModelInputs) -> pl.LazyFrame:
    """Return the segments for which a model can be called, in the order of the table.

    They are those with audio if the model gets samples, else all. The columns are `row`,
    `segment_id`, `recording_id`, `start_sample`, `end_sample`, `channel`, `inputs` (a JSON list of
    the values of columns; null if there are none) and `clip_key`.
    """
    stored = tuple(name for name in inputs.columns if name != DURATION)
    facts = recording_facts(workspace.recordings)
    needed = tuple(dict.fromkeys((*_TIMES, *stored)))
    if inputs.clip_format is None:
        ids = ("segment_id", "recording_id")
        rows = segment_columns(workspace, tuple(dict.fromkeys((*ids, *needed))))
        keyed = rows.with_columns(audio_key=pl.lit(""), channel=pl.lit(None, pl.String))
    else:
        rows = segments_with_audio(workspace, needed)
        keyed = with_clip_keys(rows, facts, inputs.clip_format, "audio_key").with_columns(
            channel=pl.col("source_channel").fill_null(inputs.clip_format.channel)
        )
    return _with_values(keyed, facts, inputs).select(_KEYED.names()).cast(_KEYED)


def _with_values(segments: pl.LazyFrame, facts: pl.DataFrame, inputs: ModelInputs) -> pl.LazyFrame:
    """Add `inputs` and `clip_key` to segments with `audio_key`, the key of the samples."""
    if not inputs.columns:
        no_values = pl.lit(None, pl.String)
        return segments.with_columns(inputs=no_values, clip_key="audio_key")
    if DURATION in inputs.columns:
        rates = facts.lazy().select("recording_id", "sampling_rate")
        with_rates = segments.join(rates, on="recording_id", how="left", maintain_order="left")
        segments = with_rates.with_columns(seconds_column())
    values = pl.struct(*(_value(name) for name in inputs.columns))
    encoded = values.map_batches(_encode_rows, return_dtype=pl.String, is_elementwise=True)
    names = pl.lit(",".join(inputs.columns))
    hashed_text = pl.format("{}|{}|{}", "audio_key", names, "inputs")
    key = hashed_text.map_batches(text_hashes, return_dtype=pl.String, is_elementwise=True)
    return segments.with_columns(inputs=encoded).with_columns(clip_key=key)


def _value(name: str) -> pl.Expr:
    """Return the values of a column; a segment without text has an empty one."""
    if name == "text":
        return pl.col("text").fill_null("")
    return pl.col(name)


def _encode_rows(values: pl.Series) -> pl.Series:
    """Return the fields of each struct as a JSON list."""
    rows = values.struct.unnest().iter_rows()
    return pl.Series([msgspec.json.encode(row).decode() for row in rows], dtype=pl.String)
