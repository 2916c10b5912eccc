"""What the checks of an audit look at: one row a clip, and what a dataset says about itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from nbaudio.formats.published.dataset import ROWS

#: Columns of what was heard in clips: written by `score` and `measure`, or of drawn clips.
SIGNALS = pl.Schema(
    dict.fromkeys(
        ("similarity", "clipped_share", "snr_db", "bandwidth_hz", "silence_share", "dc_offset"),
        pl.Float64(),
    )
    | dict.fromkeys(("cut_start", "cut_end"), pl.Boolean())
    | {"decoded_s": pl.Float64(), "audio_problem": pl.String()}
)

#: Columns of `Audited.rows`. `is_left_out` is set for segments that a selection left out.
COLUMNS = pl.Schema(
    [*ROWS.items(), *SIGNALS.items(), ("reason", pl.String()), ("is_left_out", pl.Boolean())]
)


@dataclass(frozen=True)
class Audited:
    """A corpus or dataset as checks see it.

    Attributes:
        name: its path or address.
        layout: how it is stored, such as ``Parquet``.
        rows: one row a clip, as `COLUMNS`.
        declared: by split, the number of rows that it declares.
        license: of the whole, as it is declared.
        explained: by check, why a finding is meant to be, in a workspace or corpus of nbaudio.
        not_read: parts that were left out.
        notes: further lines about how it was read.
        problems: what could not be read.
        num_bytes: of its data files, with the audio where they hold it.
    """

    name: str
    layout: str
    rows: pl.DataFrame
    declared: Mapping[str, int] = field(default_factory=dict)
    license: str | None = None
    explained: Mapping[str, str] = field(default_factory=dict)
    not_read: Sequence[str] = ()
    notes: Sequence[str] = ()
    problems: Sequence[str] = ()
    num_bytes: int = 0

    @property
    def shipped(self) -> pl.DataFrame:
        """The rows that no selection left out."""
        return self.rows.filter(~pl.col("is_left_out"))

    def has(self, *columns: str) -> bool:
        """Return whether each of some columns has a value in some row."""
        return all(self.rows[name].null_count() < len(self.rows) for name in columns)


def as_audited_rows(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame of some of `COLUMNS` as such rows; what is absent is null."""
    present = frame.collect_schema()
    defaults = {"is_left_out": False}
    return frame.select(
        pl.col(name).cast(dtype, strict=False)
        if name in present
        else pl.lit(defaults.get(name), dtype).alias(name)
        for name, dtype in COLUMNS.items()
    )
