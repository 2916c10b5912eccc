"""Cut one clip of a workspace from its recording, as `materialize` does."""

from functools import partial
from pathlib import Path

import polars as pl

from nbaudio.audio import read_clip
from nbaudio.core import tables
from nbaudio.core.errors import AudioError, InputError
from nbaudio.reading.clips import Clip
from nbaudio.storage.workspace import Workspace


def clip(workspace: str | Path | Workspace, segment_id: str, *, rate: int | None = 16000, channel: str = "mix") -> Clip:
    """Cut the clip of a segment, with the samples that `materialize` cuts for the same rate and channel.

    Args:
        workspace: the workspace or its folder.
        segment_id: which segment.
        rate: Hz; None keeps the recording's own.
        channel: ``mix``, ``left``, ``right`` or numbers such as ``0,1``, where the segment has no `source_channel` of its own.

    Returns:
        A clip with `samples` (int16, shape (samples,)), `rate`, `text`, `metadata`, `save(path)` and `to_pydub()`.

    Raises:
        InputError: there is no such segment, or the rate or channel is invalid.
        AudioError: its recording is missing or cannot be decoded, or its times are not inside the recording.

    Examples:
        >>> import numpy as np, soundfile, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> soundfile.write(folder / "a.wav", np.zeros(48000), 48000)
        >>> workspace = Workspace.create(folder / "w", source="asr.json", audio=str(folder))
        >>> facts = {"path": "a.wav", "sampling_rate": 48000, "num_channels": 1, "num_samples": 48000}
        >>> segment = {"segment_id": "s", "recording_id": "a", "start_sample": 12000, "end_sample": 36000}
        >>> workspace.save(recordings=pl.DataFrame([{"recording_id": "a", **facts}]), segments=pl.DataFrame([segment]))
        >>> clip(workspace, "s").samples.shape
        (8000,)
    """
    workspace = Workspace.open(workspace)
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int) or rate < 1):
        raise InputError(f"rate={rate!r}: must be a whole number of Hz, 1 or more, or None")
    found = tables.read(workspace, where=pl.col("segment_id") == segment_id)
    if found.is_empty():
        raise InputError(f"{workspace.path}: no segment {segment_id!r}")
    row = found.row(0, named=True)
    recordings = workspace.recordings.filter(pl.col("recording_id") == row["recording_id"])
    source = recordings.row(0, named=True) if len(recordings) else {}
    root, start, end, length = workspace.audio, row["start_sample"], row["end_sample"], source.get("num_samples")
    if root is None or length is None or start is None or end is None:
        raise AudioError(f"{segment_id}: its recording {row['recording_id']} is missing; ingest with audio")
    if not 0 <= start < end <= length:
        raise AudioError(f"{segment_id}: samples {start} to {end} are not inside the recording of {length}")
    own = row.get("source_channel") or channel
    samples = read_clip(root / source["path"], start, end, num_samples=length, rate=rate, channel=own)
    return Clip(segment_id, samples, rate or source["sampling_rate"], None, partial(dict, row))
