"""NeMo manifests: JSON lines with audio_filepath, offset, duration, text and, from a recogniser, pred_text.

Conventions: a segment ends at the exact sum of offset and duration; a line without either is the whole recording. Paths are
absolute or relative to the manifest.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbaudio.core.source_splits import split_role
from nbaudio.core.times import add_seconds
from nbaudio.formats.base import Problem, Transcripts, collect_rows
from nbaudio.formats.jsonlines import NUMBER, TEXT, read_blocks
from nbaudio.formats.manifests import innermost_root, manifests

_KINDS = {
    "audio_filepath": TEXT,
    "offset": NUMBER,
    "duration": NUMBER,
    "text": TEXT,
    "pred_text": TEXT,
    "speaker": TEXT,
    "lang": TEXT,
    "segment_id": TEXT,
}


def read(source: Path) -> Transcripts:
    """Read NeMo manifests.

    Args:
        source: a manifest, or a folder of them: then the name of each, without extension, is the split; ``manifest`` is none. The
            name of a single one is the split where it says so, such as ``test_manifest.json``.

    Returns:
        The transcripts; of further keys `segment_id` and `lang` (as `language`) are kept. The recordings' own folder where the
        first is found.

    Raises:
        InputError: there is no manifest, or none of its lines can be read.

    Examples:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp()) / "train.json"
        >>> _ = source.write_text('{"audio_filepath": "a.wav", "offset": 3207.70, "duration": 19.84, "text": "dobar dan"}')
        >>> read(source).frame.select("name", "source_start", "source_end", "text").rows()
        [('a.wav', '3207.70', '3227.54', 'dobar dan')]
    """
    files = manifests(source, (".json", ".jsonl"))
    found = collect_rows(
        source,
        (item for file in files for item in _items(file, source)),
        further=("segment_id", "source_split", "language"),
        wanted="a NeMo manifest, one JSON object a line with audio_filepath, duration and text",
    )
    return innermost_root(found, files[0].parent)


def _items(file: Path, source: Path) -> Iterator[dict[str, Any] | Problem]:
    named = file.stem != "manifest" if file != source else split_role(file.stem)
    split = file.stem if named else None
    for block in read_blocks(file, _KINDS):
        yield from (Problem(file.name, *problem) for problem in block.problems)
        for row in block.values.iter_rows(named=True):
            offset, duration = (None if row[key] == "null" else row[key] for key in ("offset", "duration"))
            if not row["audio_filepath"]:
                yield Problem(file.name, row["line"], "audio_filepath is missing")
            elif duration is None and offset is not None:
                yield Problem(file.name, row["line"], "duration is missing")
            else:
                start = offset or "0"
                yield {
                    "name": row["audio_filepath"],
                    "source_start": None if duration is None else start,
                    "source_end": None if duration is None else add_seconds(start, duration),
                    "text": row["text"],
                    "asr_text": row["pred_text"],
                    "speaker_id": row["speaker"],
                    "segment_id": row["segment_id"],
                    "source_split": split,
                    "language": row["lang"],
                }
