"""Find the clips of NeMo's tarred manifests in their tars.

NeMo writes clips into ``audio_0.tar`` and so on, and a manifest whose lines have `shard_id`, or
one manifest for each tar. It finds a clip by the name without folder and ending. A further segment
of the same recording has the suffix ``-sub1`` and so on in the manifest, and no clip of its own.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.formats.transcripts import PROBLEMS, NotRead, Problem, Transcripts, with_not_read
from nbaudio.storage import archives
from nbaudio.tables.rows import Rows

#: The column of `Transcripts.rows` with the number of a clip's tar, where the source has one.
SHARD = "shard_id"

_TAR = re.compile(r".*?(\d+)\.(?:tar|tar\.gz|tgz|tar\.bz2|tbz2|tar\.xz|txz)")
_SHARD_MANIFEST = re.compile(r"manifest_(\d+)")
# Folder beside the tars in which NeMo writes a manifest for each tar.
_SHARD_FOLDER = "sharded_manifests"
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_MAX_FILES = 100_000
_SUBSEGMENT = re.compile(r"-sub\d+$")


@dataclass(frozen=True)
class TarClip:
    """A recording in a tar."""

    tar: Path
    member: str  # normalized name in the tar

    @property
    def base(self) -> str:
        """Its name without folders."""
        return self.member.rpartition("/")[2]


@dataclass
class TarIndex:
    """The recordings in some tars.

    Attributes:
        clips: by the name without folder and ending, in the order of the tars.
        tar_clips: the number of recordings in all tars.
        damaged_headers: the number of places where a recording may be lost.
        problems: one for each tar that is not whole.
    """

    clips: dict[str, list[TarClip]] = field(default_factory=lambda: defaultdict(list))
    tar_clips: int = 0
    damaged_headers: int = 0
    problems: list[Problem] = field(default_factory=list)

    def add(self, tar: Path) -> None:
        """Add the recordings of a tar."""
        contents = archives.TarContents(tar)
        members: list[str] = []
        try:
            members.extend(self._recordings(tar, contents))
        except archives.AlteredArchiveError as error:
            self.problems.append(_tar_problem(tar, f"{archives.ALTERED} ({one_line(error)})"))
            return
        except archives.BROKEN as error:
            reason = f"the archive is truncated or not an archive ({one_line(error)})"
            self.problems.append(_tar_problem(tar, f"{reason}; what comes before is read"))
        else:
            self.problems += [_tar_problem(tar, damage) for damage in contents.damages()]
        for member in dict.fromkeys(members):
            self.clips[_file_id(member)].append(TarClip(tar, member))
            self.tar_clips += 1
        self.damaged_headers += contents.damaged_headers

    def _recordings(self, tar: Path, contents: archives.TarContents) -> Iterator[str]:
        """Yield the names of recordings; one that is too large for memory is a problem."""
        for member in contents:
            if not name_matching.is_audio(member.name):
                continue
            if member.entry.size > archives.MAX_CONTENT_BYTES:
                most = archives.MAX_CONTENT_BYTES >> 20
                reason = f"{member.name}: larger than {most} MB; unpack the tar, and give --audio"
                self.problems.append(_tar_problem(tar, input_guards.escape_surrogates(reason)))
                continue
            yield member.name

    def find(self, name: str, shard: int | None) -> TarClip | None:
        """Return the clip that a line means, or None.

        Of clips with the same name, it is the one in the tar of its shard.
        """
        file_id = _file_id(name)
        clips = self.clips.get(file_id) or self.clips.get(_SUBSEGMENT.sub("", file_id)) or []
        of_shard = [clip for clip in clips if shard is None or tar_number(clip.tar) == shard]
        if of_shard:
            return of_shard[0]
        return clips[0] if len(clips) == 1 else None


def tar_number(tar: Path) -> int | None:
    """Return the number at the end of a tar's name, None if it has none."""
    numbered = _TAR.fullmatch(tar.name.lower())
    return int(numbered[1]) if numbered else None


def manifest_number(manifest: Path) -> int | None:
    """Return the number of the tar that a manifest belongs to, None if its name has none."""
    numbered = _SHARD_MANIFEST.fullmatch(manifest.stem)
    return int(numbered[1]) if numbered else None


def is_shard_manifest(name: str) -> bool:
    """Return whether NeMo wrote this manifest for one tar, beside that of all tars."""
    path = Path(name)
    return path.parent.name == _SHARD_FOLDER and manifest_number(path) is not None


def expand_braces(pattern: str) -> list[str]:
    """Return the paths that a pattern such as ``audio__OP_0..3_CL_.tar`` stands for.

    NeMo writes ``_OP_`` and ``_CL_`` for braces. Raise InputError for too many paths.
    """
    parts = _RANGE.split(pattern.replace("_OP_", "{").replace("_CL_", "}"))
    choices: list[Sequence[str]] = [[parts[0]]]
    total = 1
    for first, last, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        total *= max(int(last) - int(first) + 1, 0)
        if total > _MAX_FILES:
            raise InputError(f"{pattern}: stands for more than {_MAX_FILES:,} files")
        width = len(first) if first.startswith("0") else 0
        choices += [
            [f"{number:0{width}}" for number in range(int(first), int(last) + 1)],
            [text],
        ]
    return ["".join(choice) for choice in product(*choices)]


def tars_of_option(option: str, folder: Path) -> list[Path]:
    """Return the tars that ``--option tars=`` names: paths or patterns, separated by commas.

    Relative ones are looked for in the current folder, then in that of the manifest. Raise
    InputError if one is missing.
    """
    tars = []
    for name in (name for pattern in option.split(",") for name in expand_braces(pattern.strip())):
        places = [place for place in (Path(name), folder / name) if place.is_file()]
        if not places:
            raise InputError(f"option tars={option}: there is no file {name}")
        tars.append(places[0].absolute())
    return tars


def tars_beside(manifests: Iterable[Path]) -> list[Path]:
    """Return the numbered tars beside manifests; those of one tar each may be a folder below."""
    folders: dict[Path, None] = {}
    for manifest in manifests:
        folders[manifest.parent] = None
        if manifest.parent.name == _SHARD_FOLDER:
            folders[manifest.parent.parent] = None
    return [
        path
        for folder in folders
        for path in sorted(folder.iterdir())
        if tar_number(path) is not None and not path.name.startswith(".") and path.is_file()
    ]


def number_of_tar_beside(manifest: Path) -> str | None:
    """Return the number in a manifest's name if there is a tar of this number beside it."""
    number = manifest_number(manifest)
    if number is None:
        return None
    numbers = {tar_number(tar) for tar in tars_beside([manifest])}
    return str(number) if number in numbers else None


def tars_of_lines(transcripts: Transcripts, manifests: Iterable[Path]) -> list[Path]:
    """Return the tars beside manifests whose numbers are shards of lines."""
    shards = transcripts.rows.unique(SHARD)[SHARD]
    numbers = {shard_number(shard) for shard in shards}
    return [tar for tar in tars_beside(manifests) if tar_number(tar) in numbers]


def with_unpacked_clips(transcripts: Transcripts) -> Transcripts:
    """Give further segments of a recording its name, without the suffix ``-sub1`` and so on."""
    lines = _with_shards(transcripts.rows.unique("name", SHARD))
    names = set(lines["name"])
    bases = {name: _without_suffix(name) for name in names}
    paths = [bases[name] if bases[name] in names else name for name in lines["name"]]
    table = lines.with_columns(path=pl.Series(paths, dtype=pl.String))
    return replace(transcripts, rows=_named(transcripts.rows, table))


def _without_suffix(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return f"{_SUBSEGMENT.sub('', stem)}{dot}{ending}"


def with_clips_of_tars(transcripts: Transcripts, tars: Sequence[Path]) -> Transcripts:
    """Name the clips in tars as recordings, which ingest writes into the workspace.

    Segments of one clip get its name. What is damaged, missing or without a line is reported.
    """
    index = TarIndex()
    for tar in tars:
        index.add(tar)
    lines = _with_shards(transcripts.rows.unique("name", SHARD))
    clips = [index.find(name, shard_number(shard)) for name, shard in lines.iter_rows()]
    paths = _recording_paths({clip for clip in clips if clip})
    table = lines.with_columns(
        path=pl.Series([clip and paths[clip] for clip in clips], dtype=pl.String)
    )
    without_line = index.tar_clips - len(paths)
    problems = [*index.problems, *_missing_tars(lines, tars)]
    named = replace(
        transcripts,
        rows=_named(transcripts.rows, table),
        problems=pl.concat(
            [transcripts.problems, pl.DataFrame(problems, schema=PROBLEMS, orient="row")]
        ),
        embedded=_clip_bytes(paths),
    )
    return with_not_read(
        named,
        NotRead("recordings in tars without a line in the manifest", without_line),
        NotRead("files of tars with a damaged header", index.damaged_headers),
    )


def shard_number(text: str | None) -> int | None:
    """Return a shard as a number, None where there is none."""
    with suppress(TypeError, ValueError, OverflowError):
        return int(float(text or ""))
    return None


def _named(rows: Rows, table: pl.DataFrame) -> Rows:
    """Return rows with the paths of their clips as names, without the column of shards."""
    keys = ["name", SHARD]
    path = pl.coalesce("path", "name").alias("name")
    return Rows.collect(
        _with_shards(frame)
        .join(table, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(path)
        .drop("path", SHARD)
        for frame in rows.batches()
    )


def _with_shards(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with the column of shards, null where the source has none."""
    if SHARD in frame.columns:
        return frame
    return frame.with_columns(pl.lit(None, pl.String).alias(SHARD))


def _missing_tars(lines: pl.DataFrame, tars: Iterable[Path]) -> Iterator[Problem]:
    numbers = {tar_number(tar) for tar in tars}
    shards = {shard_number(shard) for shard in lines[SHARD].unique()}
    for shard in sorted(shard for shard in shards - numbers if shard is not None):
        yield Problem(f"audio_{shard}.tar", None, "there is no tar of this number")


def _recording_paths(clips: Iterable[TarClip]) -> dict[TarClip, str]:
    """Return a path for each clip, the same one for clips of one name with the same bytes."""
    by_name: dict[str, list[TarClip]] = defaultdict(list)
    for clip in sorted(clips, key=lambda clip: (str(clip.tar), clip.member)):
        by_name[clip.base].append(clip)
    repeated = [clip for same in by_name.values() if len(same) > 1 for clip in same]
    hashes = {clip: hashlib.sha256(content).digest() for clip, content in _contents(repeated)}
    paths: dict[TarClip, str] = {}
    for base, same in by_name.items():
        are_equal = len({hashes.get(clip) for clip in same}) == 1
        for clip in same:
            folder = clip.tar.name.partition(".")[0]
            is_single = len(same) == 1 or are_equal
            paths[clip] = base if is_single else f"{clip.tar.parent.name}/{folder}/{clip.member}"
    return paths


def _clip_bytes(paths: dict[TarClip, str]) -> Iterator[tuple[str, bytes]]:
    """Yield the paths and bytes of clips, each path once; those that are damaged are missing."""
    first = {path: clip for clip, path in reversed(paths.items())}
    for clip, content in _contents(first.values()):
        yield paths[clip], content


def _contents(clips: Iterable[TarClip]) -> Iterator[tuple[TarClip, bytes]]:
    """Yield clips with their bytes, up to the damage of each tar, which is a problem already."""
    by_tar: dict[Path, set[TarClip]] = defaultdict(set)
    for clip in clips:
        by_tar[clip.tar].add(clip)
    for tar, wanted in by_tar.items():
        with suppress(*archives.BROKEN):
            yield from _wanted_contents(tar, wanted)


def _wanted_contents(tar: Path, wanted: set[TarClip]) -> Iterator[tuple[TarClip, bytes]]:
    for member in archives.TarContents(tar):
        clip = TarClip(tar, member.name)
        if clip in wanted:
            wanted.remove(clip)
            yield clip, member.read()


def _file_id(name: str) -> str:
    """Return a name without folders and ending, by which NeMo finds a clip."""
    base = name.rpartition("/")[2]
    return base.rpartition(".")[0] or base


def _tar_problem(tar: Path, reason: str) -> Problem:
    return Problem(input_guards.escape_surrogates(tar.name), None, reason)
