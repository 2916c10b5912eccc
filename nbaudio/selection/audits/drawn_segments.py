"""A sample of a workspace's segments that are decoded, for the checks that need samples."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from nbaudio.audio import open_recording
from nbaudio.audio.signals import window_signals
from nbaudio.core.errors import AudioError, one_line, redact_urls
from nbaudio.core.progress import progress
from nbaudio.formats.dataset import CLIP
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.selection.audits.audited import SIGNALS
from nbaudio.selection.audits.decoded_sample import draw, with_decoded_sample
from nbaudio.sources.audio_folder import required_audio
from nbaudio.storage.location import Location
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.workspace import Workspace

_CHANNEL = "mix"
_WINDOW = ("segment_id", "recording_id", "start_sample", "end_sample", "source_channel", CLIP)
_HEARD = pl.Schema(
    {"segment_id": pl.String()}
    | {name: dtype for name, dtype in SIGNALS.items() if name not in ("similarity", "decoded_s")}
)


def with_drawn_segments(rows: pl.DataFrame, workspace: Workspace, number: int) -> pl.DataFrame:
    """Return rows of a workspace with signals of a number of them; in all others these are null.

    Segments that a selection left out are not drawn. Of a dataset that was ingested without its
    audio, the drawn clips are fetched. Raise InputError if the workspace has no audio.
    """
    windows = workspace_tables.scan(workspace, _WINDOW).collect(**STREAMED)
    if "source_channel" not in windows.columns:
        windows = windows.with_columns(source_channel=pl.lit(None, pl.String))
    shipped = rows.filter(~pl.col("is_left_out")).select("segment_id")
    windows = windows.join(shipped, on="segment_id", how="semi", maintain_order="left")
    if workspace.audio is None and CLIP in windows.columns:
        clips = windows.select("segment_id", clip=CLIP)
        placed = rows.drop("clip").join(clips, on="segment_id", how="left", maintain_order="left")
        return with_decoded_sample(placed, DatasetFiles.at(workspace.settings["source"]), number)
    root = required_audio(workspace)
    drawn = draw(windows.drop_nulls("start_sample"), number)
    recordings = workspace.recordings.select("recording_id", "path", "num_samples")
    placed = drawn.join(recordings, on="recording_id").sort("recording_id", "start_sample")
    heard = []
    with progress("decode segments", len(placed), "segments") as advance:
        for window in placed.iter_rows(named=True):
            heard.append({"segment_id": window["segment_id"], **_heard(window, root)})
            advance(1)
    columns = pl.DataFrame(heard, schema=_HEARD)
    others = rows.drop(name for name in _HEARD if name != "segment_id")
    return others.join(columns, on="segment_id", how="left", maintain_order="left").select(
        rows.columns
    )


def _heard(window: Mapping[str, Any], root: Location) -> dict[str, Any]:
    """Return the signals of a window of a recording, or why it cannot be decoded."""
    start = window["start_sample"]
    stop = window["end_sample"]
    try:
        with open_recording(root / window["path"], windows=1) as recording:
            signals = window_signals(
                recording,
                start,
                stop,
                window["source_channel"] or _CHANNEL,
                num_samples=window["num_samples"],
            )
    except (AudioError, OSError) as error:
        return {"audio_problem": redact_urls(one_line(error))}
    heard = {name: value for name, value in signals.items() if name in _HEARD}
    return heard | {"audio_problem": ""}
