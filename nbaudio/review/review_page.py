"""Write the review page, which opens offline in any browser and connects to nothing.

Equal rows give equal bytes.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio.drawing import BANDS, peaks, spectrogram
from nbaudio.core.bundled_files import front_end
from nbaudio.core.hashing import json_hash
from nbaudio.review.sheet_clips import RATE, MissingClip, cut_clips, keep_clip
from nbaudio.review.state import VERDICTS, ReviewRecord
from nbaudio.storage.location import Location
from nbaudio.text.aligned_words import MOST_CHARACTERS, align_words

MOST_EMBEDDED_BYTES = (
    50_000_000  # of clips in a page; with more, they are files in the folder beside it
)

_SCRIPTS = (
    "core",
    "player",
    "table_columns",
    "table",
    "page_kernel",
    "review_panel",
    "review_page",
)
_STYLES = ("style", "review_page")
# Columns a second of the waveform and of the spectrogram; levels of the spectrogram, and bands of
# `spectrogram` in one.
_PEAKS_A_SECOND = 200
_COLUMNS_A_SECOND = 50
_LEVELS = 16
_BANDS = BANDS // 2
_MEDIA = {"wav": "audio/wav", "mp3": "audio/mpeg"}


@dataclass(frozen=True)
class ReviewPage:
    """A review page.

    Attributes:
        html: the page.
        files: the clips that are files in its folder; empty if the page holds them.
        failures: why segments have no clip, by segment id.
    """

    html: bytes
    files: list[str]
    failures: Mapping[str, str]


def write_page(
    rows: pl.DataFrame,
    record: ReviewRecord,
    reviewer: str,
    *,
    audio_root: Location | None,
    folder: Path,
    encoding: str,
    compared: Mapping[str, Any],
) -> ReviewPage:
    """Return the page of a reviewer; write its clips into `folder` if it cannot hold them.

    Args:
        rows: segments in the order of the page, with `clip`, the name of a file in `folder`.
        record: of the review.
        reviewer: the name, or an empty string.
        audio_root: the folder of the recordings; None without audio.
        folder: that of the page.
        encoding: of the clips, one of `ENCODINGS`.
        compared: options of `align_words`.
    """
    clips = _page_clips(rows, audio_root, folder, encoding)
    facts = {
        "fingerprint": json_hash([record.name, reviewer, rows["content"].to_list()]),
        "review": record.name,
        "corpus": record.corpus,
        "reviewer": reviewer,
        "blind": record.blind,
        "media": _MEDIA[encoding],
        "words": [[word, VERDICTS.get(word, "")] for word in record.verdicts],
        "silent": "no audio yet" if audio_root is None else "no sound: not readable",
        "clips": [
            _clip(row, record, compared, clips.files.get(row["content"]))
            for row in rows.iter_rows(named=True)
        ],
    }
    blocks = clips.blocks(rows["content"])
    media = "file: 'self'" if clips.files else "blob:"
    html = _html(f"Review {record.name}", facts, blocks, media=media)
    return ReviewPage(html, sorted(clips.files.values()), clips.failures)


@dataclass(frozen=True)
class _PageClips:
    """The clips of a page by the `content` of their rows.

    Attributes:
        pictures: of all clips (see `_picture`).
        sounds: clips that the page holds; empty if they are files.
        files: clips that are files, relative to the page; empty if the page holds them.
        failures: why there is no clip, by segment id.
    """

    pictures: Mapping[str, bytes]
    sounds: Mapping[str, bytes]
    files: Mapping[str, str]
    failures: Mapping[str, str]

    def blocks(self, contents: Iterable[str]) -> Iterator[str]:
        """Yield the elements with the pictures and sounds of rows, numbered in order."""
        for number, content in enumerate(contents):
            for kind, clips in (("picture", self.pictures), ("sound", self.sounds)):
                if content in clips:
                    text = base64.b64encode(clips[content]).decode()
                    yield _block(f"{kind}-{number}", text, "text/plain")


def _page_clips(
    rows: pl.DataFrame, audio_root: Location | None, folder: Path, encoding: str
) -> _PageClips:
    """Cut the clips of a page; write them into files once they are too large for the page."""
    names = dict(rows.select("content", "clip").iter_rows())
    pictures: dict[str, bytes] = {}
    sounds: dict[str, bytes] = {}  # clips that have not been written into files
    failures: dict[str, str] = {}
    size = 0
    for clip in cut_clips(rows, audio_root, encoding=encoding):
        if isinstance(clip, MissingClip):
            failures[clip.segment_id] = clip.reason
            continue
        content = clip.row["content"]
        pictures[content] = _picture(clip.samples)
        sounds[content] = clip.content
        size += len(clip.content)
        if size > MOST_EMBEDDED_BYTES:
            for row_content, sound in sounds.items():
                keep_clip(folder / names[row_content], sound)
            sounds.clear()
    if sounds:
        files = {}
    else:
        files = {row_content: names[row_content] for row_content in pictures}
    return _PageClips(pictures, sounds, files, failures)


def _clip(
    row: Mapping[str, Any], record: ReviewRecord, compared: Mapping[str, Any], file: str | None
) -> dict[str, Any]:
    """Return what the page knows of a segment.

    Hypothesis and similarity are left out if the review is blind.
    """
    text = row["text"] or ""
    hypothesis = None
    similarity = None
    if not record.blind:
        hypothesis = row["asr_text"]
        similarity = row["similarity"]
    times = row.get("word_times")
    return {
        "segment_id": row["segment_id"],
        "content": row["content"],
        "facts": segment_facts({**row, "similarity": similarity}),
        "text": text,
        "words": align_words(
            text, hypothesis, times and [(time["start"], time["end"]) for time in times], **compared
        ),
        "seconds": round(row["duration_s"] or 0.0, 4),
        "unshown": max(0, len(text) - MOST_CHARACTERS),
        "file": file,
    }


def segment_facts(row: Mapping[str, Any]) -> list[str]:
    """Return speaker, duration and similarity of a segment as short texts."""
    facts = [row["speaker_id"] or "speaker not known"]
    if row["duration_s"] is not None:
        facts.append(f"{row['duration_s']:.1f} s")
    similarity = row["similarity"]
    if similarity is not None:
        # More digits, where the first ones would say 1 of texts that differ.
        digits = 2 if similarity <= 0.95 or similarity == 1 else 4
        facts.append(f"similarity {similarity:.{digits}f}")
    return facts


def _picture(samples: NDArray[np.int16]) -> bytes:
    """Return peaks and spectrogram of a clip, compressed.

    The order is the number of peaks (uint32), peaks, levels (bytes).
    """
    seconds = len(samples) / RATE
    wave = peaks(samples, max(1, round(seconds * _PEAKS_A_SECOND)))
    levels = spectrogram(samples, max(1, round(seconds * _COLUMNS_A_SECOND)))
    levels = (
        levels.reshape(len(levels), _BANDS, -1).max(axis=2)
        // (256 // _LEVELS)
        * (255 // (_LEVELS - 1))
    )
    shown = levels.repeat(BANDS // _BANDS, axis=1).astype(np.uint8)
    return zlib.compress(
        np.uint32(len(wave)).astype("<u4").tobytes() + wave.tobytes() + shown.tobytes(), 9
    )


def _html(title: str, facts: Mapping[str, Any], blocks: Iterator[str], *, media: str) -> bytes:
    """Return a page that shows facts; `media` is where its policy lets it play sounds from."""
    style = front_end(*_STYLES, kind="css")
    # A function in strict mode keeps its names apart from everything else in the page.
    script = f'"use strict";\n(() => {{\n{front_end(*_SCRIPTS)}\nstartPage();\n}})();\n'
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"media-src {media}; "
        "connect-src 'none'; form-action 'none'; base-uri 'none'"
    )
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<meta '
        'name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        "<noscript><p>This page needs JavaScript, which this browser does not "
        'run.</p></noscript>\n<main id="review"></main>\n'
    )
    # The script comes before the clips, so that the page works while they are being read.
    texts = json.dumps(facts, separators=(",", ":")).translate(
        {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}
    )
    parts = [
        head,
        _block("data", texts, "application/json"),
        f"<script>{script}</script>\n",
        *blocks,
        "</body>\n</html>\n",
    ]
    return "".join(parts).encode()


def _block(name: str, text: str, kind: str) -> str:
    """Return an element with data, which no browser executes or shows."""
    return f'<script type="{kind}" id="{name}">{text}</script>\n'


def _hash(text: str) -> str:
    """Return the hash of a script or style sheet as a content security policy has it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
