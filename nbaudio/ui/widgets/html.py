"""HTML of clips and word differences, from plain values.

Conventions: every text is escaped and isolated, so that neither markup nor direction marks in it reach what stands around it.
Differences are told by strike-through and underline, colour only helps. No scripts, no style sheets, nothing from elsewhere.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from nbaudio.text import word_diff

# A longer text is no sentence, and would freeze the page.
MOST_CHARACTERS = 2000

_DELETED = "color:#A33A00;text-decoration:line-through;unicode-bidi:isolate"
_INSERTED = "color:#00557F;text-decoration:underline;text-decoration-thickness:2px;font-weight:bold;unicode-bidi:isolate"
_MIME = {b"fLaC": "audio/flac", b"RIFF": "audio/wav"}


@dataclass(frozen=True)
class ClipView:
    """What is shown of a segment.

    Attributes:
        segment_id: its key.
        facts: short facts, such as ``5.8 s``.
        text: the human words.
        asr_text: the recogniser's; None where there are none, and the text is then shown as it is.
        audio: a complete FLAC or WAV file; None where there is nothing to hear.
        note: why something is not as it should be.
    """

    segment_id: str
    facts: tuple[str, ...]
    text: str
    asr_text: str | None = None
    audio: bytes | None = None
    note: str | None = None


def diff_html(text: str, asr_text: str) -> str:
    """The words of a transcript and of a hypothesis in one line, where they part marked as deleted or inserted.

    Examples:
        >>> diff_html("<b>", "<b>")
        '&lt;b&gt;'
    """
    parts = []
    for part in word_diff(_cut(text), _cut(asr_text)):
        if part.kind == "equal":
            parts.append(escape(" ".join(part.reference)))
            continue
        if part.reference:
            parts.append(f'<del style="{_DELETED}">{escape(" ".join(part.reference))}</del>')
        if part.hypothesis:
            parts.append(f'<ins style="{_INSERTED}">{escape(" ".join(part.hypothesis))}</ins>')
    return " ".join(parts)


def clip_html(clip: ClipView) -> str:
    """One clip: its id and facts, an audio control that holds the sound, and the words."""
    name = escape(clip.segment_id)
    facts = "".join(f' · <span style="unicode-bidi:isolate">{escape(fact)}</span>' for fact in clip.facts)
    sound = ""
    if clip.audio is not None:
        data = f"data:{_MIME.get(clip.audio[:4], 'audio/mpeg')};base64,{b64encode(clip.audio).decode()}"
        style = "display:block;height:34px;width:100%;max-width:480px;margin:4px 0"
        sound = f'<audio controls preload="metadata" aria-label="{name}" style="{style}" src="{data}"></audio>'
    words = escape(_cut(clip.text)) if clip.asr_text is None else diff_html(clip.text, clip.asr_text)
    note = f'<div style="font-style:italic">&#9888; {escape(clip.note)}</div>' if clip.note else ""
    return (
        '<div style="padding:8px 0;border-bottom:1px solid #ccc;text-align:start">'
        f'<div><code style="unicode-bidi:isolate">{name}</code>{facts}</div>{sound}{note}'
        f'<p dir="auto" style="margin:4px 0;max-width:60em;overflow-wrap:anywhere;unicode-bidi:isolate">{words}</p></div>'
    )


def clips_html(clips: Sequence[ClipView], *, hidden: int = 0) -> str:
    """Clips below one another, with the key to the marks, and how many more there would be."""
    key = (
        f'<div style="font-size:90%"><del style="{_DELETED}">only in the transcript</del> '
        f'<ins style="{_INSERTED}">only in the hypothesis</ins></div>'
    )
    shown = "".join(map(clip_html, clips)) if clips else "<p>no segments</p>"
    more = f"<p>and {hidden:,} more, not shown</p>" if hidden else ""
    return f"<div>{key if any(clip.asr_text is not None for clip in clips) else ''}{shown}{more}</div>"


def _cut(text: str) -> str:
    rest = len(text) - MOST_CHARACTERS
    return text if rest <= 0 else f"{text[:MOST_CHARACTERS]} … ({rest:,} more characters)"
