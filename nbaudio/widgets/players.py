"""Clips to listen to, with their words: cut from the recordings of a workspace, or read back from the shards of a corpus.

The sound is inside the page (16 kHz, one channel, FLAC), so that a saved notebook plays anywhere. Hence the bounds: at most
`MOST_CLIPS` clips unless told otherwise, the first `LONGEST_S` seconds of each, `MOST_BYTES` of sound in all.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import encode_clip, read_clip
from nbaudio.corpus import reading
from nbaudio.errors import AudioError, InputError
from nbaudio.places import Remote
from nbaudio.tables import with_durations
from nbaudio.widgets.pages import Clip, clips_html
from nbaudio.workspace import Workspace

MOST_CLIPS = 12
LONGEST_S = 30
MOST_BYTES = 8_000_000

RATE = 16000


@dataclass(frozen=True)
class Player:
    """Clips as Jupyter shows them.

    Attributes:
        clips: what is shown.
        hidden: how many were asked for beyond the limit.
    """

    clips: tuple[Clip, ...]
    hidden: int = 0

    def _repr_html_(self) -> str:
        return clips_html(self.clips, hidden=self.hidden)

    def __repr__(self) -> str:
        return f"Player of {len(self.clips)} clips"


def player(workspace: str | Path | Workspace, segment_ids: Iterable[str], *, limit: int = MOST_CLIPS) -> Player:
    """Segments to listen to: id, speaker, duration, similarity, word difference and sound.

    Args:
        workspace: with audio; without it the words are shown alone.
        segment_ids: which ones, in the order to show.
        limit: how many at most.

    Returns:
        The player; a segment that cannot be heard says why.

    Raises:
        InputError: a segment is not in the workspace.
    """
    workspace = Workspace.open(workspace)
    rows, hidden = _rows(workspace, segment_ids, limit)
    budget, clips = MOST_BYTES, []
    for row in rows:
        audio, note = _sound(workspace.audio_root, row)
        if audio and len(audio) > budget:
            audio, note = None, f"no sound: the page holds {MOST_BYTES / 1e6:g} MB of it already"
        budget -= len(audio or b"")
        clips.append(_clip(row, audio, note))
    return Player(tuple(clips), hidden)


def diff(workspace: str | Path | Workspace, segment_ids: Iterable[str], *, limit: int = 50) -> Player:
    """The same without sound: where transcript and hypothesis part, word by word.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp(), source="asr.json", audio=None)
        >>> segments = pl.DataFrame({"segment_id": ["s"], "recording_id": ["r"], "text": ["evo blic"], "asr_text": ["evo blitz"]})
        >>> workspace.save(recordings=pl.DataFrame({"recording_id": ["r"]}), segments=segments)
        >>> diff(workspace, ["s"])
        Player of 1 clips
    """
    rows, hidden = _rows(Workspace.open(workspace), segment_ids, limit)
    return Player(tuple(_clip(row, None, None) for row in rows), hidden)


def corpus_player(corpus: str | Path, segment_ids: Iterable[str] | None = None, *, limit: int = 3) -> Player:
    """Clips read back from the shards of a corpus by byte offset, to hear what a training program will get.

    Args:
        corpus: the corpus folder.
        segment_ids: which ones; the first of the table unless given.
        limit: how many at most.

    Raises:
        InputError: there is no corpus, or a clip is not in it.
        AudioError: a shard is damaged.
    """
    table = reading.clips(corpus)
    wanted = list(table["segment_id"] if segment_ids is None else segment_ids)
    shown = wanted[:limit]
    audio = reading.read_audio(corpus, shown)
    rows = {row["segment_id"]: row for row in table.filter(pl.col("segment_id").is_in(shown)).iter_rows(named=True)}
    clips = [
        _clip(row, data, None, f"{row['shard']} at byte {row['offset']:,}, {row['length']:,} bytes")
        for row, data in zip((rows[key] for key in shown), audio, strict=True)
    ]
    return Player(tuple(clips), 0 if segment_ids is None else len(wanted) - len(shown))


def _rows(workspace: Workspace, segment_ids: Iterable[str], limit: int) -> tuple[list[dict[str, Any]], int]:
    """The segments with the facts of their recordings, in the order asked for; and how many the limit left out."""
    wanted = list(segment_ids)
    recordings = workspace.recordings
    facts = recordings.select("recording_id", "path", "num_samples")
    segments = with_durations(workspace.segments, recordings).join(facts, on="recording_id", how="left")
    rows = {row["segment_id"]: row for row in segments.filter(pl.col("segment_id").is_in(wanted[:limit])).iter_rows(named=True)}
    unknown = [key for key in wanted[:limit] if key not in rows]
    if unknown:
        raise InputError(f"{workspace.path}: no segment {unknown[0]!r}")
    return [rows[key] for key in wanted[:limit]], max(0, len(wanted) - limit)


def _sound(root: Path | Remote | None, row: dict[str, Any]) -> tuple[bytes | None, str | None]:
    """A segment's clip, and what is wrong with it."""
    start, end, rate = row["start_sample"], row["end_sample"], row["sampling_rate"]
    if root is None or row["path"] is None or start is None or end is None:
        return None, "no sound: its recording is not there"
    if not 0 <= start < end <= row["num_samples"]:
        return None, "no sound: its times are not inside the recording"
    shown_end = min(end, start + LONGEST_S * rate)
    try:
        channel = row.get("source_channel") or "mix"
        samples = read_clip(root / row["path"], start, shown_end, num_samples=row["num_samples"], rate=RATE, channel=channel)
    except AudioError as error:
        return None, f"no sound: {error}"
    return encode_clip(samples, RATE, "flac"), f"the first {LONGEST_S} s of it" if shown_end < end else None


def _clip(row: dict[str, Any], audio: bytes | None, note: str | None, *further: str) -> Clip:
    facts = [row["speaker_id"] or "speaker not known"]
    if row["duration_s"] is not None:
        facts.append(f"{row['duration_s']:.1f} s")
    if row["similarity"] is not None:
        facts.append(f"similarity {row['similarity']:.2f}")
    return Clip(row["segment_id"], (*facts, *further), row["text"] or "", row["asr_text"], audio, note)
