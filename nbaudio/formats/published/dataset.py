"""A dataset as others published it: one row a clip, without audio."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from nbaudio.tables.provenance import PROVENANCE

#: Columns of `Published.rows`; what a dataset does not have is null.
ROWS = pl.Schema(
    dict.fromkeys(
        ("segment_id", "source_id", "split", "text", "asr_text", "speaker_id", "recording_id"),
        pl.String(),
    )
    | {"duration_s": pl.Float64()}
    | dict.fromkeys(("audio_sha256", "license", "consent", "language", "clip"), pl.String())
    | {"is_open": pl.Boolean()}
)

# A blank value of these fields would be a speaker, recording or clip that many rows share.
_NAMING = ("speaker_id", "recording_id", "audio_sha256")

#: Columns that hold each field, the preferred first.
USUAL_COLUMNS: Mapping[str, Sequence[str]] = {
    "text": ("text", "sentence", "transcription", "transcript", "normalized_text", "raw_text"),
    "asr_text": ("asr_text", "pred_text", "hypothesis", "whisper_transcript"),
    "speaker_id": ("speaker_id", "client_id", "speaker", "spk_id", "speaker_name"),
    "source_id": ("segment_id", "id", "utterance_id", "utt_id", "audio_id", "key"),
    "recording_id": (
        *("recording_id", "recording", "source_recording", "video_id", "episode_id"),
        *("session_id", "chapter_id", "original_audio_id", "file"),
    ),
    "duration_s": (
        *("duration", "duration_s", "audio_duration", "duration_seconds", "audio_length"),
        *("length", "duration_ms"),
    ),
    "audio_sha256": ("audio_sha256", "sha256", "audio_hash", "audio_md5", "md5"),
    "license": PROVENANCE["license"],
    "consent": PROVENANCE["consent"],
    "language": ("language", "lang", "locale"),
    "split": ("split",),
}


@dataclass(frozen=True)
class Published:
    """A dataset without its audio.

    Attributes:
        layout: how it is stored, such as ``Parquet``.
        rows: one row a clip, as `ROWS`. `segment_id` is unique: the file and row, or the source's
            own id where these are unique. `clip` says where the audio is, see `clip_bytes`.
            `is_open` is set where a clip ends with its recording, of unknown length.
        columns: by field, the column that it was taken from.
        declared: by split, the number of rows that the dataset declares.
        license: of the dataset as a whole, as it declares.
        not_read: columns and files that were left out.
        notes: further lines about how it was read.
        problems: what could not be read.
        num_bytes: of the dataset's data files.
    """

    layout: str
    rows: pl.DataFrame
    columns: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, int] = field(default_factory=dict)
    license: str | None = None
    not_read: Sequence[str] = ()
    notes: Sequence[str] = ()
    problems: Sequence[str] = ()
    num_bytes: int = 0


def chosen_columns(available: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """Return by field the column that holds it; `options` take precedence over usual names.

    Names are compared without case. A field without a column is left out.
    """
    by_folded_name = {name.casefold(): name for name in reversed(available)}
    columns = {}
    for field_name, usual_names in USUAL_COLUMNS.items():
        candidates = [options[field_name]] if field_name in options else usual_names
        present = [name for name in map(str.casefold, candidates) if name in by_folded_name]
        if present:
            columns[field_name] = by_folded_name[present[0]]
    return columns


def as_rows(frame: pl.DataFrame, place: str) -> pl.DataFrame:
    """Return a frame of some fields of `ROWS` as such rows, in order.

    A row is named by its `place`, such as the name of the file, and its number.
    """
    number = pl.int_range(pl.len()).cast(pl.String)
    named = frame.with_columns(segment_id=pl.lit(f"{place}:") + number)
    fields = [
        _field(name, dtype) if name in named else pl.lit(None, dtype).alias(name)
        for name, dtype in ROWS.items()
    ]
    return named.select(fields)


def _field(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a field as texts or numbers; what cannot be a number, or names nothing, is null."""
    column = pl.col(name).cast(dtype, strict=False)
    if name in _NAMING:
        return pl.when(column.str.contains(r"\S")).then(column).alias(name)
    return column


def with_source_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows that are named by the source's own ids, if each row has another one."""
    ids = rows["source_id"]
    if len(ids) and ids.null_count() == 0 and ids.n_unique() == len(ids):
        return rows.with_columns(segment_id="source_id")
    return rows
