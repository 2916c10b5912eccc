"""What is read of recordings with pictures, several tracks, or channels that cancel.

The tracks are those of `nbaudio.audio.probe`. `source_channel` of segments names one other than the
first, and the channel that is used where the mix of all has no signal (see
`nbaudio.audio.channels`).
"""

from collections import Counter
from collections.abc import Iterator

import polars as pl

from nbaudio.audio.decode_errors import BEHIND_HEADER, CHAINED
from nbaudio.core.errors import InputError
from nbaudio.formats.transcripts import NotRead
from nbaudio.tables.rejection_reasons import source_channel
from nbaudio.tables.rows import Rows

#: Names of options of every format.
TRACK = "track"
CLOCK = "clock"

# By the phrase of the warning of a recording: what is not read, and what reads it
_NOT_READ = {
    BEHIND_HEADER: (
        "sound behind the length in the header",
        "write it anew, such as by ffmpeg -ignore_length 1 -i a.wav b.wav",
    ),
    CHAINED: (
        "Ogg files behind the first one in a file",
        "write it anew, such as by ffmpeg -i a.ogg b.flac",
    ),
}
_CLOCKS = {"picture": True, "sound": False}
_OPTIONAL = ("track", "sound_start", "tracks_not_read", "uncancelled_channel")


def is_on_picture_clock(clock: str | None, *, default: bool) -> bool:
    """Return whether times count from the first picture, as an option says or by default.

    Raise InputError for another value of the option.
    """
    if clock is None:
        return default
    if clock not in _CLOCKS:
        raise InputError(f"option clock={clock!r}: must be {' or '.join(_CLOCKS)}")
    return _CLOCKS[clock]


def without_empty_columns(recordings: pl.DataFrame) -> pl.DataFrame:
    """Return recordings without the columns on tracks and pictures that no recording needs."""
    empty = [
        name
        for name in _OPTIONAL
        if name in recordings.columns and recordings[name].null_count() == len(recordings)
    ]
    return recordings.drop(empty)


def without_starts(recordings: pl.DataFrame) -> pl.DataFrame:
    """Return recordings without what places times that count from the first picture."""
    return recordings.drop("sound_start", strict=False)


def with_tracks(rows: Rows, audit: pl.DataFrame, recordings: pl.DataFrame) -> Rows:
    """Return rows with the audio track that is read in `source_channel`, if it is not the first.

    Segments whose source names a track itself keep it.
    """
    if "track" not in recordings.columns or not (recordings["track"] > 1).any():
        return rows
    tracks = audit.select("name", "recording_id").join(
        recordings.select("recording_id", "track"), on="recording_id", how="left"
    )
    stated = pl.col("source_channel")
    named = pl.concat_str(pl.format("track{}", "track"), stated, separator=":", ignore_nulls=True)
    is_other = (pl.col("track") > 1) & ~stated.str.starts_with("track").fill_null(value=False)
    channel = pl.when(is_other).then(named).otherwise(stated)
    return _with_source_channel(rows, tracks.select("name", "track").unique("name"), channel)


def with_uncancelled_channels(rows: Rows, audit: pl.DataFrame, recordings: pl.DataFrame) -> Rows:
    """Return rows with a single channel in `source_channel` where the mix would have no signal.

    Segments whose source names a channel itself keep it.
    """
    if "uncancelled_channel" not in recordings.columns:
        return rows
    channels = audit.select("name", "recording_id").join(
        recordings.select("recording_id", "uncancelled_channel"), on="recording_id", how="left"
    )
    return _with_source_channel(
        rows,
        channels.select("name", "uncancelled_channel").unique("name"),
        pl.coalesce("source_channel", "uncancelled_channel"),
    )


def _with_source_channel(rows: Rows, facts: pl.DataFrame, channel: pl.Expr) -> Rows:
    """Return rows with another `source_channel`.

    `channel` is computed from the one there is and from `facts`, which have one row for each
    `name` of a recording.
    """

    def with_channel(frame: pl.DataFrame) -> pl.DataFrame:
        joined = frame.select("name", source_channel(frame)).join(
            facts, on="name", how="left", maintain_order="left"
        )
        return frame.with_columns(joined.select(channel.alias("source_channel")).to_series())

    return rows.map(with_channel)


def counted_from_sound(samples: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Return segments whose samples count from the first sample instead of the first picture.

    A segment that begins before the sound begins with it.
    """
    if "sound_start" not in recordings.columns:
        return samples
    starts = recordings.select("recording_id", "sound_start")
    late = samples.select("recording_id").join(
        starts, on="recording_id", how="left", maintain_order="left"
    )
    shift = late["sound_start"].fill_null(0)
    start = pl.col("start_sample") - shift
    return samples.with_columns(
        start_sample=pl.when(shift > 0).then(pl.max_horizontal(start, 0)).otherwise("start_sample"),
        end_sample=pl.col("end_sample") - shift,
    )


def sound_not_read(recordings: pl.DataFrame) -> Iterator[NotRead]:
    """Yield the kinds of sound that is not read, with the number of recordings that have it."""
    if "probe_warning" not in recordings.columns:
        return
    for phrase, (what, remedy) in _NOT_READ.items():
        count = recordings["probe_warning"].str.contains(phrase, literal=True).sum()
        yield NotRead(f"{what} (recordings)", int(count), remedy)


def tracks_not_read(recordings: pl.DataFrame) -> Iterator[NotRead]:
    """Yield the audio tracks that are not read, with the number of recordings that have them."""
    if "tracks_not_read" not in recordings.columns:
        return
    counts = Counter(
        label
        for labels in recordings["tracks_not_read"].drop_nulls()
        for label in labels.split("\n")
    )
    for label, count in sorted(counts.items()):
        number = int(label.partition(" ")[0])
        what = f"audio track {label} of recordings with several (recordings)"
        yield NotRead(what, count, f"--option track={number}")
