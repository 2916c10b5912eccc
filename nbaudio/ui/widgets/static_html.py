"""HTML of clips, word differences and tables in saved pages.

It has no scripts and no style sheets, and nothing is loaded from elsewhere.

Every text is escaped and isolated: neither markup nor direction marks affect the text around it.
Colors only repeat other marks.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from typing import Any

import polars as pl

from nbaudio.audio import encode_clip, encoder
from nbaudio.core.errors import AudioError, NbaudioError
from nbaudio.core.report import shorten, show
from nbaudio.review.review_page import segment_facts
from nbaudio.sources.audio_folder import missing_folder
from nbaudio.tables.dataframes import as_polars
from nbaudio.text import word_diff
from nbaudio.text.aligned_words import MOST_CHARACTERS
from nbaudio.text.score import compared
from nbaudio.ui.widgets.clip_audio import Row, Sound, clip_picture, read_sound
from nbaudio.ui.widgets.segments import Segments, further_hypotheses

MOST_CLIPS = 12
LONGEST_S = 30  # seconds of a clip
MOST_BYTES = 8_000_000  # bytes of audio in a page
MOST_ROWS = 50
_MOST_FAILURES = 5  # an unreachable server fails for each clip, after its timeouts
_LONGEST_CELL = 300
_LONGEST_WORD = 40
# Mixed with the color of the text, they have a contrast of 4.5:1 on light and on dark pages, which
# no single color has.
_DELETED = (
    "color:color-mix(in srgb, currentColor 40%, "
    "#D55E00);text-decoration:line-through;unicode-bidi:isolate"
)
_INSERTED = (
    "color:color-mix(in srgb, currentColor 40%, "
    "#0072B2);text-decoration:underline;text-decoration-thickness:2px;"
    "font-weight:bold;unicode-bidi:isolate"
)
# Clips stand beside each other where there is room.
_GRID = "display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,18em),1fr));gap:0 2em"
# Fainter than the text, with a contrast of 4.5:1 on light and on dark pages.
_FAINT = "font-size:90%;color:color-mix(in srgb, currentColor 72%, transparent)"
_TRANSCRIPT_WIDTHS = (32, 68)  # percent, of the ids and of the transcripts
_FORMATTED = "text-decoration:underline dotted"
_KEY = (
    f'<div style="font-size:90%"><del style="{_DELETED}">only in the transcript</del> '
    f'<ins style="{_INSERTED}">only in the hypothesis</ins></div>'
)
_MIME = {b"fLaC": "audio/flac", b"RIFF": "audio/wav"}


@dataclass(frozen=True)
class StaticClip:
    """A segment of a saved page."""

    segment_id: str
    facts: tuple[str, ...]
    text: str
    asr_text: str | None = None  # without it the text is shown without differences
    audio: bytes | None = None  # an encoded file
    note: str | None = None  # a warning
    picture: bytes | None = None  # a PNG of its waveform and spectrogram
    further: Mapping[str, str] = field(default_factory=dict)  # further hypotheses by name
    compared: Mapping[str, Any] = field(default_factory=dict, repr=False)  # options of `word_diff`


@dataclass(frozen=True)
class Clips:
    """Clips as Jupyter and saved pages show them.

    `hidden` is the number of clips beyond the limit. `note` is about all of them.
    """

    clips: tuple[StaticClip, ...]
    hidden: int = 0
    note: str | None = None

    def _repr_html_(self) -> str:
        key = ""
        if any(clip.asr_text is not None or clip.further for clip in self.clips):
            key = _KEY
        shown = "".join(map(clip_html, self.clips)) or "<p>no segments</p>"
        more = f"<p>and {self.hidden:,} more, not shown</p>" if self.hidden else ""
        grid = f'<div style="{_GRID}">{shown}</div>'
        return f"<div>{_note_html(self.note)}{key}{grid}{more}</div>"

    def __repr__(self) -> str:
        return f"{len(self.clips)} clips"


@dataclass(frozen=True)
class Table:
    """The first `limit` rows of a frame as Jupyter shows them.

    `total` is the number of all rows if `frame` is only the beginning.
    """

    frame: pl.DataFrame
    limit: int = MOST_ROWS
    total: int | None = None
    caption: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "frame", as_polars(self.frame))

    def _repr_html_(self) -> str:
        sides = {
            name: "right" if dtype.is_numeric() else "left"
            for name, dtype in self.frame.schema.items()
        }
        align = {name: f"text-align:{side};vertical-align:top" for name, side in sides.items()}
        head = "".join(
            f'<th scope="col" style="{align[name]}">{escape(name)}</th>'
            for name in self.frame.columns
        )
        rows = "".join(
            f"<tr>{''.join(_cell(value, align[name]) for name, value in row.items())}</tr>"
            for row in self.frame.head(self.limit).iter_rows(named=True)
        )
        total = len(self.frame) if self.total is None else self.total
        more = _more_rows(total - self.limit)
        caption = ""
        if self.caption:
            caption = f"<caption>{escape(self.caption)}</caption>"
        body = rows or "<tr><td>no rows</td></tr>"
        # JupyterLab centers a table of a saved widget. The pages of a run limit its height.
        return (
            '<div class="nbaudio-rows"><table style="margin-left:0">'
            f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
        )

    def __repr__(self) -> str:
        return repr(self.frame)


@dataclass(frozen=True)
class TranscriptRows:
    """The first `limit` rows of segments as saved pages show them: the transcript is the row.

    The hypothesis stands below it. Other columns stand below the id, so that no page is too narrow.
    `hypothesis` is its column, None without one.
    """

    frame: pl.DataFrame
    hypothesis: str | None
    limit: int
    total: int

    def _repr_html_(self) -> str:
        below = self.hypothesis if self.hypothesis in self.frame.columns else None
        named = (_lines("segment_id"), _lines("text", below))
        head = "".join(
            f'<th scope="col" style="text-align:left;width:{width}%">{name}</th>'
            for name, width in zip(named, _TRANSCRIPT_WIDTHS, strict=True)
        )
        rows = "".join(
            _transcript_row(row, below) for row in self.frame.head(self.limit).iter_rows(named=True)
        )
        body = rows or '<tr><td colspan="2">no rows</td></tr>'
        more = _more_rows(self.total - self.limit)
        style = "margin-left:0;table-layout:fixed;width:100%"
        return (
            f'<div class="nbaudio-rows"><table style="{style}"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>{more}"
        )

    def __repr__(self) -> str:
        return repr(self.frame)


def _more_rows(number: int) -> str:
    if number <= 0:
        return ""
    return f"<p>and {number:,} more rows</p>"


def _transcript_row(row: Mapping[str, Any], hypothesis: str | None) -> str:
    facts = [
        f"{name} {_shown(value)}"
        for name, value in row.items()
        if name not in {"segment_id", "text", hypothesis} and value is not None
    ]
    left = _lines(_shown(row["segment_id"]), " · ".join(facts))
    below = _shown(row[hypothesis]) if hypothesis else None
    right = _lines(_shown(row["text"]), below)
    cell = "text-align:left;vertical-align:top;overflow-wrap:anywhere"
    return f'<tr><td style="{cell}">{left}</td><td style="{cell}">{right}</td></tr>'


def _lines(first: str, second: str | None = None) -> str:
    """Return one text above another, fainter one."""
    above = f'<div dir="auto">{escape(first)}</div>'
    if second:
        return f'{above}<div dir="auto" style="{_FAINT}">{escape(second)}</div>'
    return above


def _shown(value: Any) -> str:
    """Return a value as text of bounded length."""
    return shorten(show(value), _LONGEST_CELL, " …")


def _cell(value: Any, align: str) -> str:
    """Return a cell of an HTML table; `align` is that of its text."""
    shown = _shown(value)
    # Blanks are shown as they are, since names differ in them. An id stays in one line, though it
    # has hyphens.
    whole = len(shown.split()) == 1 and len(shown) <= _LONGEST_WORD
    if whole:
        wrap = "white-space:pre"
    else:
        wrap = "white-space:pre-wrap;overflow-wrap:anywhere"
    return f'<td dir="auto" style="{align};{wrap}">{escape(shown)}</td>'


def diff_html(text: str, asr_text: str, **compared: Any) -> str:
    """Return the words of a transcript and a hypothesis in one line.

    Differences are marked as deleted or inserted.
    """
    parts = []
    for part in word_diff(_cut(text), _cut(asr_text), **compared):
        reference = escape(" ".join(part.reference))
        hypothesis = escape(" ".join(part.hypothesis))
        if part.kind == "equal":
            parts.append(reference)
        elif part.kind == "formatting":
            parts.append(
                f'<span style="{_FORMATTED}" title="formatting: {hypothesis}">{reference}</span>'
            )
        else:
            if part.reference:
                parts.append(f'<del style="{_DELETED}">{reference}</del>')
            if part.hypothesis:
                parts.append(f'<ins style="{_INSERTED}">{hypothesis}</ins>')
    return " ".join(parts)


def clip_html(clip: StaticClip) -> str:
    """Return id and facts of a clip, an audio element that holds its audio, and its words."""
    name = escape(clip.segment_id)
    facts = "".join(
        f' · <span style="unicode-bidi:isolate">{escape(fact)}</span>' for fact in clip.facts
    )
    audio = ""
    if clip.audio is not None:
        data_url = (
            f"data:{_MIME.get(clip.audio[:4], 'audio/mpeg')};base64,"
            f"{b64encode(clip.audio).decode()}"
        )
        if clip.picture is not None:
            style = "display:block;width:100%;max-width:480px;height:104px;margin-top:4px"
            picture = b64encode(clip.picture).decode()
            audio = (
                f'<img alt="waveform and spectrogram of {name}" style="{style}" '
                f'src="data:image/png;base64,{picture}" />'
            )
        style = "display:block;height:34px;width:100%;max-width:480px;margin:4px 0"
        audio += (
            f'<audio controls preload="metadata" aria-label="{name}" style="{style}" '
            f'src="{data_url}"></audio>'
        )
    if clip.asr_text is None:
        words = escape(_cut(clip.text))
    else:
        words = diff_html(clip.text, clip.asr_text, **clip.compared)
    further = (
        (escape(by), diff_html(clip.text, heard, **clip.compared))
        for by, heard in clip.further.items()
    )
    lines = [words, *(f"<code>{by}</code> {heard}" for by, heard in further)]
    style = "margin:4px 0;max-width:60em;overflow-wrap:anywhere;unicode-bidi:isolate"
    paragraphs = "".join(f'<p dir="auto" style="{style}">{line}</p>' for line in lines)
    note = _note_html(clip.note)
    return (
        '<div style="padding:8px 0;border-bottom:1px solid #ccc;text-align:start">'
        "<div><code "
        f'style="unicode-bidi:isolate">{name}</code>{facts}</div>{audio}{note}{paragraphs}</div>'
    )


def _note_html(note: str | None) -> str:
    if not note:
        return ""
    return f'<div style="font-style:italic">&#9888; {escape(note)}</div>'


def _cut(text: str) -> str:
    """Return a text of at most `MOST_CHARACTERS`, and how many more there are."""
    rest = len(text) - MOST_CHARACTERS
    if rest <= 0:
        return text
    return f"{text[:MOST_CHARACTERS]} … ({rest:,} more characters)"


def saved_clips(
    segments: Segments, numbers: Sequence[int], *, limit: int = MOST_CLIPS, sound: bool = True
) -> Clips:
    """Return segments for a saved page, with their audio unless `sound` is False.

    Where one has no audio, a note says why. Where its folder is missing, one note says so.
    """
    rows = [(segments.row(number),) for number in numbers[:limit]]
    read = partial(read_saved_sound, segments) if sound else None
    clips = read_clips(rows, read, longest_s=LONGEST_S, **compared(segments.workspace))
    ids = [row["recording_id"] for (row,) in rows if sound]
    note = missing_folder(segments.workspace, ids)
    return Clips(tuple(clips), max(0, len(numbers) - limit), note)


def read_saved_sound(segments: Segments, row: Row) -> Sound:
    """Read the audio of a segment; raise AudioError where there is none.

    The reason does not name a missing folder: the page may be sent to others.
    """
    if missing_folder(segments.workspace, [row["recording_id"]]):
        raise AudioError("no sound: its audio folder is not there")
    return read_sound(segments.audio_root, row, even=False)


@dataclass(frozen=True)
class _ClipSound:
    """The encoded audio and the picture of a clip, and a note on what is missing."""

    audio: bytes | None = None
    picture: bytes | None = None
    note: str | None = None


def _encode_beginning(sound: Sound, longest_s: int, encoding: str) -> _ClipSound:
    """Encode and draw the first `longest_s` seconds of a sound; note if there is more of it."""
    most = round(longest_s * sound.rate)
    samples = sound.samples[:most]
    if sound.rate not in encoder(encoding).rates:
        encoding = "flac"
    clip = encode_clip(samples, sound.rate, encoding)
    note = f"the first {longest_s} s of it" if len(sound.samples) > most else None
    return _ClipSound(clip, clip_picture(samples, sound.rate), note)


def read_clips(
    rows: Iterable[tuple[Any, ...]],
    read: Callable[[Row], Sound] | None,
    *,
    longest_s: int,
    encoding: str = "flac",
    folder: str = "",
    **compared: Any,
) -> list[StaticClip]:
    """Return the clips of rows with further facts, at most `MOST_BYTES` of audio.

    Args:
        rows: a segment each, then further facts about it.
        read: reads the audio of a segment; None for clips without sound.
        longest_s: seconds of audio that a clip has at most.
        encoding: of the audio; FLAC is taken for a rate that it does not have.
        folder: left out of the notes on clips that cannot be read.
        compared: how words are compared, as for `word_diff`.
    """
    clips: list[StaticClip] = []
    left = MOST_BYTES
    failures = 0
    for row, *facts in rows:
        heard = _ClipSound()
        if failures >= _MOST_FAILURES:
            note = f"no sound: it was not tried after {failures} clips that could not be read"
            heard = _ClipSound(note=note)
        elif read:
            try:
                sound = read(row)
                failures = 0
                heard = _encode_beginning(sound, longest_s, encoding)
            except (NbaudioError, OSError) as error:
                reason = str(error).removeprefix("no sound: ")
                failures += reason == str(error)
                heard = _ClipSound(note=f"no sound: {reason.replace(folder, '')}")
        if heard.audio and len(heard.audio) > left:
            note = f"no sound: the page holds {MOST_BYTES / 1e6:g} MB of it already"
            heard = replace(heard, audio=None, note=note)
        left -= len(heard.audio or b"")
        clips.append(
            StaticClip(
                row["segment_id"],
                (*segment_facts(row), *facts),
                row["text"] or "",
                row["asr_text"],
                heard.audio,
                heard.note,
                heard.picture,
                further_hypotheses(row),
                compared,
            )
        )
    return clips
