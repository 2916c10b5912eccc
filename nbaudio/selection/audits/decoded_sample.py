"""A sample of clips that are fetched and decoded, for the checks that need samples."""

import tempfile
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import open_recording, probe
from nbaudio.audio.signals import window_signals
from nbaudio.core.atomic import write_bytes
from nbaudio.core.errors import AudioError
from nbaudio.core.hashing import hash_column
from nbaudio.core.progress import progress
from nbaudio.formats.published.clip_bytes import ClipBytes, NoClip, fetch_clips
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.selection.audits.audited import SIGNALS

_DECODED = [name for name in SIGNALS if name != "similarity"]
_CHANNEL = "mix"


def with_decoded_sample(
    rows: pl.DataFrame, files: DatasetFiles, number: int, *, seed: int = 42
) -> pl.DataFrame:
    """Return rows with what was heard in a number of them; in all others that is null.

    The clips are drawn by the hash of their ids, so that the same are drawn again.
    """
    drawn = draw(rows.drop_nulls("clip"), number, seed=seed)
    heard = []
    with progress("decode clips", len(drawn), "clips") as advance:
        for clip in fetch_clips(files, drawn["clip"]):
            heard.append({"clip": clip.clip, **_heard(clip)})
            advance(1)
    schema = pl.Schema({"clip": pl.String(), **{name: SIGNALS[name] for name in _DECODED}})
    columns = pl.DataFrame(heard, schema=schema)
    return rows.drop(_DECODED).join(columns, on="clip", how="left", maintain_order="left")


def draw(rows: pl.DataFrame, number: int, *, seed: int = 42) -> pl.DataFrame:
    """Return a number of rows, drawn by the hash of their `segment_id`."""
    order = rows.with_columns(order=hash_column(rows["segment_id"], f"audit {seed}"))
    return order.sort("order", "segment_id").head(number).drop("order")


def _heard(clip: ClipBytes | NoClip) -> dict[str, Any]:
    """Return the length and the signals of a clip, or why it cannot be decoded."""
    if isinstance(clip, NoClip):
        return {"audio_problem": clip.reason}
    with tempfile.TemporaryDirectory(prefix="nbaudio-") as folder:
        path = Path(folder, f"clip{clip.ending}")
        write_bytes(path, clip.content)
        try:
            return _signals(path)
        except AudioError as error:
            return {"audio_problem": str(error).replace(str(path), clip.clip)}


def _signals(path: Path) -> dict[str, Any]:
    """Return the length and the signals of a file; raise AudioError if it cannot be decoded."""
    facts = probe(path)
    with open_recording(path) as recording:
        signals = window_signals(
            recording, 0, facts.num_samples, _CHANNEL, num_samples=facts.num_samples
        )
    values = {name: value for name, value in signals.items() if name in _DECODED}
    seconds = facts.num_samples / facts.sampling_rate
    return values | {"decoded_s": seconds, "audio_problem": ""}
