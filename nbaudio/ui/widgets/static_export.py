"""Clips in a saved page, with their words: cut from the recordings of a workspace, or read back from the shards of a corpus.

The sound is inside the page (16 kHz, one channel, FLAC), so that a saved notebook plays anywhere. Hence the bounds: at most
`MOST_CLIPS` clips unless told otherwise, the first `LONGEST_S` seconds of each, `MOST_BYTES` of sound in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import encode_clip, read_clip
from nbaudio.core.errors import AudioError
from nbaudio.core.frames import Ids, as_ids
from nbaudio.reading import open_corpus
from nbaudio.storage.remote import Remote
from nbaudio.ui.widgets.html import ClipView, clips_html
from nbaudio.ui.widgets.listening import segment_facts
from nbaudio.ui.widgets.segments import Segments

MOST_CLIPS = 12
LONGEST_S = 30
MOST_BYTES = 8_000_000

RATE = 16000


@dataclass(frozen=True)
class StaticClips:
    """Clips as Jupyter and saved pages show them.

    Attributes:
        clips: what is shown.
        hidden: how many there are beyond the limit.
    """

    clips: tuple[ClipView, ...]
    hidden: int = 0

    def _repr_html_(self) -> str:
        return clips_html(self.clips, hidden=self.hidden)

    def __repr__(self) -> str:
        return f"{len(self.clips)} clips"


def saved_clips(segments: Segments, numbers: Sequence[int], *, limit: int = MOST_CLIPS, sound: bool = True) -> StaticClips:
    """Segments as a saved page shows them: id, speaker, duration, similarity, word difference and sound.

    Args:
        segments: of a workspace; one that cannot be heard says why.
        numbers: which ones, in the order to show.
        limit: how many at most.
        sound: False shows the words alone.
    """
    budget, clips = MOST_BYTES, []
    for number in numbers[:limit]:
        row = segments.row(number)
        audio, note = _sound(segments.audio_root, row) if sound else (None, None)
        if audio and len(audio) > budget:
            audio, note = None, f"no sound: the page holds {MOST_BYTES / 1e6:g} MB of it already"
        budget -= len(audio or b"")
        clips.append(_clip(row, audio, note))
    return StaticClips(tuple(clips), max(0, len(numbers) - limit))


def corpus_player(corpus: str | Path, segment_ids: Ids | None = None, *, limit: int = 3) -> StaticClips:
    """Clips read back from the shards of a corpus by byte offset, to hear what a training program will get.

    Args:
        corpus: the corpus folder.
        segment_ids: which ones, also as a pandas or polars table; the first of the corpus unless given.
        limit: how many at most.

    Raises:
        InputError: there is no corpus, or a clip is not in it.
        AudioError: a shard is damaged.
    """
    opened = open_corpus(corpus)
    table = opened.segments
    wanted = as_ids(table if segment_ids is None else segment_ids)
    shown = wanted[:limit]
    audio = [clip.encoded for clip in opened.read_many(shown, give="encoded")]
    rows = {row["segment_id"]: row for row in table.filter(pl.col("segment_id").is_in(shown)).iter_rows(named=True)}
    clips = [
        _clip(row, data, None, f"{row['shard']} at byte {row['offset']:,}, {row['length']:,} bytes")
        for row, data in zip((rows[key] for key in shown), audio, strict=True)
    ]
    return StaticClips(tuple(clips), 0 if segment_ids is None else len(wanted) - len(shown))


def _sound(root: Path | Remote | None, row: dict[str, Any]) -> tuple[bytes | None, str | None]:
    """A segment's clip, and what is wrong with it."""
    start, end, rate = row["start_sample"], row["end_sample"], row["sampling_rate"]
    if root is None or row["recording_path"] is None or start is None or end is None:
        return None, "no sound: its recording is not there"
    if not 0 <= start < end <= row["num_samples"]:
        return None, "no sound: its times are not inside the recording"
    shown_end = min(end, start + LONGEST_S * rate)
    try:
        channel = row.get("source_channel") or "mix"
        path = root / row["recording_path"]
        samples = read_clip(path, start, shown_end, num_samples=row["num_samples"], rate=RATE, channel=channel)
    except AudioError as error:
        return None, f"no sound: {error}"
    return encode_clip(samples, RATE, "flac"), f"the first {LONGEST_S} s of it" if shown_end < end else None


def _clip(row: dict[str, Any], audio: bytes | None, note: str | None, *further: str) -> ClipView:
    return ClipView(row["segment_id"], (*segment_facts(row), *further), row["text"] or "", row["asr_text"], audio, note)
