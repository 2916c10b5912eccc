"""The files of an export: a sheet or page for each reviewer, its clips, and an archive of both."""

import io
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from nbaudio.core.atomic import read_json
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.review.cell_escaping import write_delimited
from nbaudio.review.control_rows import with_control_rows
from nbaudio.review.dataset_clips import audio_of_clips, drawn_clips
from nbaudio.review.review_page import MOST_EMBEDDED_BYTES, ReviewPage, write_page
from nbaudio.review.sheet_clips import MissingClip, clip_files, cut_clips, keep_clip
from nbaudio.review.sheet_reader import KINDS, read_sheet
from nbaudio.review.sheet_writer import FILLED_IN, check_size, column_places, row_key, write_sheet
from nbaudio.review.state import EXPORTS, ReviewRecord
from nbaudio.tables.workspace import Workspace
from nbaudio.text.score import compared

PAGE = ".html"
FORMATS = tuple(kind.removeprefix(".") for kind in (*KINDS, PAGE))
_NAME = re.compile(r"\w[\w.-]{0,39}")
_ONE_OF_EACH = "ana=xlsx,ben=html"


@dataclass(frozen=True)
class ReviewerFile:
    """What one reviewer is given."""

    reviewer: str  # the name; empty if there are no reviewers
    path: Path  # the path of the sheet or page
    encoding: str  # the encoding of its clips, one of `ENCODINGS`

    @property
    def is_page(self) -> bool:
        """Whether it is a page for a browser."""
        return self.path.suffix.lower() == PAGE


@dataclass(frozen=True)
class Outputs:
    """The files that an export is to write."""

    review: str  # the name of the review
    reviewers: list[str]  # names; empty for one file without a name
    files: list[ReviewerFile]

    @property
    def kind(self) -> str:
        """What messages call the files: ``page``, ``sheet`` or ``files``."""
        kinds = {"page" if file.is_page else "sheet" for file in self.files}
        return kinds.pop() if len(kinds) == 1 else "files"


@dataclass(frozen=True)
class ReviewRows:
    """The rows of a review, with the columns of segments and of their recordings.

    `content` is what identifies a row outside of the workspace, `duration_s` the length of its
    clip.
    """

    drawn: pl.DataFrame  # in the order of the draw
    control: pl.DataFrame  # with `reviewer` and `position`, see `control_frame`

    def of_reviewer(self, reviewer: str, segment_ids: Sequence[str]) -> pl.DataFrame:
        """Return the rows of a reviewer's sheet, of the drawn ones those of some segments."""
        drawn = self.drawn.filter(pl.col("segment_id").is_in(segment_ids))
        return with_control_rows(drawn, self.control, reviewer)


@dataclass
class MadeFiles:
    """The contents of sheets, pages and archives, before they are written."""

    contents: dict[Path, bytes] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # why a segment has no clip
    warnings: list[str] = field(default_factory=list)


def plan_outputs(
    out: Path, reviewers: Sequence[str] | Mapping[str, str], clips: str | None
) -> Outputs:
    """Return the files that an export is to write.

    Args:
        out: a sheet or page; a folder if the reviewers have formats.
        reviewers: names, all of them with a format (``ana=xlsx``, or a mapping) or none.
        clips: the encoding of clips; None for WAV beside sheets and MP3 in pages.

    Raises:
        InputError: a name or a format is not usable, or `out` is of the other kind.
    """
    if isinstance(reviewers, Mapping):
        reviewers = [f"{name}={kind}" for name, kind in reviewers.items()]
    pairs = [entry.partition("=") for entry in reviewers]
    names = [name for name, _, _ in pairs]
    kinds = [kind.lower() for _, separator, kind in pairs if separator]
    _check_names(names)
    if kinds:
        _check_formats(names, [separator for _, separator, _ in pairs], kinds)
        _check_folder(out)
        paths = [out / f"{out.name}-{name}.{kind}" for name, kind in zip(names, kinds, strict=True)]
    else:
        _check_file(out)
        paths = [out.with_name(f"{out.stem}-{name}{out.suffix}") for name in names] or [out]
    files = [
        ReviewerFile(name, path, clips or _usual_encoding(path))
        for name, path in zip(names or [""], paths, strict=True)
    ]
    return Outputs(out.name if kinds else out.stem, names, files)


def _usual_encoding(path: Path) -> str:
    return "mp3" if path.suffix.lower() == PAGE else "wav"


def _check_names(names: Sequence[str]) -> None:
    """Raise InputError for a name that no file can have, and for one that is given twice."""
    if odd := [name for name in names if not _NAME.fullmatch(name)]:
        raise InputError(f"reviewer {odd[0]!r}: letters, digits and . _ - are allowed, at most 40")
    if len({name.casefold() for name in names}) < len(names):
        raise InputError(f"reviewers {', '.join(names)}: one is given twice")


def _check_formats(names: Sequence[str], separators: Sequence[str], kinds: Sequence[str]) -> None:
    """Raise InputError unless each reviewer has a known format."""
    without = [name for name, separator in zip(names, separators, strict=True) if not separator]
    if without:
        raise InputError(
            f"reviewer {without[0]!r} has no format, others have one: "
            f"give one for each ({_ONE_OF_EACH}) or for none"
        )
    for name, kind in zip(names, kinds, strict=True):
        if kind not in FORMATS:
            raise InputError(
                f"reviewer {name!r}: format {kind!r} is unknown; known are {', '.join(FORMATS)}"
            )


def _check_folder(out: Path) -> None:
    """Raise InputError if a path cannot be the folder of sheets and pages of several formats."""
    is_named_as_file = out.suffix.lower() in {PAGE, *KINDS} and not out.is_dir()
    if is_named_as_file or (out.exists() and not out.is_dir()):
        raise InputError(
            f"{out}: reviewers with formats ({_ONE_OF_EACH}) need a folder, not a file"
        )
    if out.name in {"", "..", "."}:
        raise InputError(f"{out}: the folder needs a name, which the review gets too")


def _check_file(out: Path) -> None:
    """Raise InputError if a path cannot be a sheet or page."""
    if out.suffix.lower() not in {PAGE, *KINDS} or out.is_dir():
        raise InputError(
            f"{out}: the file must end in {', '.join(KINDS)} for a sheet, or in {PAGE} for a page"
        )


def make_files(
    rows: ReviewRows, record: ReviewRecord, workspace: Workspace, outputs: Outputs, *, zip: bool
) -> MadeFiles:
    """Write the clips that are not embedded, and return all other files.

    `rows` are those of all reviewers. Raise ExistsError if a clip exists with other content.
    """
    made = MadeFiles()
    shares = {reviewer: ids for reviewer, ids in record.shares().items() if ids}
    files = [file for file in outputs.files if file.reviewer in shares]
    parts = {
        file.reviewer: _with_clip_names(
            drawn_clips(rows.of_reviewer(file.reviewer, shares[file.reviewer]), workspace),
            record,
            file.encoding,
        )
        for file in files
    }
    sheets = [file for file in files if not file.is_page]
    _keep_clips_of_sheets(sheets, parts, workspace, made)
    for file in files:
        part = parts[file.reviewer]
        if file.is_page:
            page = _page(file, part, record, workspace, made)
            content = page.html
            clips = page.files
        else:
            part = without_missing_clips(part, workspace, made.failed)
            content = _sheet(file, part, record, workspace)
            clips = part["clip"].drop_nulls().sort().to_list()
        made.contents[file.path] = content
        if zip:
            archive = _archive({file.path: content}, clips, file.path)
            made.contents[file.path.with_suffix(".zip")] = archive
    return made


def _with_clip_names(rows: pl.DataFrame, record: ReviewRecord, encoding: str) -> pl.DataFrame:
    """Return rows with the file of each `clip`, relative to the sheet."""
    names = {file.row_hash: f"clips/{file.name}" for file in clip_files(record, encoding)}
    clips = pl.DataFrame(
        {"content": list(names), "clip": list(names.values())},
        schema={"content": pl.String, "clip": pl.String},
    )
    return rows.join(clips, on="content", how="left", maintain_order="left")


def _keep_clips_of_sheets(
    sheets: Sequence[ReviewerFile],
    parts: Mapping[str, pl.DataFrame],
    workspace: Workspace,
    made: MadeFiles,
) -> None:
    """Write the clips beside sheets, each once."""
    if not sheets:
        return
    root = audio_of_clips(workspace)
    most_rows = max(len(parts[sheet.reviewer]) for sheet in sheets)
    most_clips = 0 if root is None else most_rows
    check_size(most_rows, most_clips)
    rows = pl.concat([parts[sheet.reviewer] for sheet in sheets])
    rows = rows.unique("clip", keep="first", maintain_order=True)
    for clip in cut_clips(rows, root, encoding=sheets[0].encoding):
        if isinstance(clip, MissingClip):
            made.failed[clip.segment_id] = clip.reason
        else:
            keep_clip(sheets[0].path.parent / clip.row["clip"], clip.content)


def without_missing_clips(
    rows: pl.DataFrame, workspace: Workspace, failed: Mapping[str, str]
) -> pl.DataFrame:
    """Return rows with a null `clip` where there is none, and a `note` that says why."""
    if audio_of_clips(workspace) is None:
        return rows.with_columns(clip=pl.lit(None, pl.String), note=pl.lit("no audio yet"))
    has_clip = ~pl.col("segment_id").is_in(list(failed))
    return rows.with_columns(clip=pl.when(has_clip).then("clip"), note=pl.lit("not readable"))


def _page(
    file: ReviewerFile,
    rows: pl.DataFrame,
    record: ReviewRecord,
    workspace: Workspace,
    made: MadeFiles,
) -> ReviewPage:
    """Return the page of a reviewer; note missing clips, and a warning if clips are files."""
    page = write_page(
        rows,
        record,
        file.reviewer,
        audio_root=audio_of_clips(workspace),
        folder=file.path.parent,
        encoding=file.encoding,
        compared=compared(workspace),
    )
    made.failed.update(page.failures)
    if page.files:
        made.warnings.append(
            f"{file.path}: its clips take more than {MOST_EMBEDDED_BYTES / 1e6:g} MB and are in "
            "the folder 'clips' beside it: send both (zip puts them into one file)"
        )
    return page


def _sheet(
    file: ReviewerFile, rows: pl.DataFrame, record: ReviewRecord, workspace: Workspace
) -> bytes:
    """Return the sheet of a reviewer."""
    kind = file.path.suffix.lower()
    if kind == ".xlsx":
        return write_sheet(rows, record, file.reviewer, **compared(workspace))
    plain = rows.select(
        "clip",
        "segment_id",
        transcript="text",
        hypothesis="asr_text",
        speaker="speaker_id",
        recording="source_name",
        similarity=pl.col("similarity").round(3),
        key=pl.Series(
            [row_key(content, file.reviewer, record.name) for content in rows["content"]],
            dtype=pl.String,
        ),
        **{"duration s": pl.col("duration_s").round(2), **dict.fromkeys(FILLED_IN, pl.lit(""))},
    ).select(*column_places(record))
    return write_delimited(plain, kind.removeprefix("."))


def _archive(files: Mapping[Path, bytes], clips: Iterable[str], sheet: Path) -> bytes:
    """Return an archive of files and their clips, in a folder of the sheet's name.

    Equal files give equal bytes.
    """
    members = {path.name: content for path, content in files.items()}
    members |= {name: (sheet.parent / name).read_bytes() for name in clips}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            # Dated 1980, as equal files must give equal bytes.
            entry = zipfile.ZipInfo(f"{sheet.stem}/{name}")
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def is_filled_in(
    path: Path, content: bytes, record: ReviewRecord, *, earlier: Sequence[ReviewRecord]
) -> bool:
    """Return whether a file of this review exists whose bytes are not `content`.

    `earlier` are reviews of the same name that were taken back. Raise ExistsError if the file is of
    no review, or of another one, which may be an earlier one.
    """
    if not path.exists() or path.read_bytes() == content:
        return False
    if path.suffix == ".zip":
        names = []
        if zipfile.is_zipfile(path):
            names = zipfile.ZipFile(path).namelist()
        is_packed = any(f"{path.stem}/{path.stem}{kind}" in names for kind in (*KINDS, PAGE))
        ours = is_packed and not earlier
    else:
        ours = _is_sheet_of(path, record, has_all_rows=bool(earlier))
    if not ours:
        if path.suffix == PAGE:
            what = "exists with other content"
        else:
            what = f"exists and is not a sheet of review {record.name}"
        if earlier:
            what += " (one of that name was taken back)"
        raise ExistsError(f"{path}: {what}; move it away or give another --out")
    return True


def _is_sheet_of(path: Path, record: ReviewRecord, *, has_all_rows: bool) -> bool:
    """Return whether a file is a sheet of a review; if asked, also whether it has its rows."""
    try:
        sheet = read_sheet(path)
    except InputError:
        return False
    if record.name not in sheet.reviews:
        return False
    if not has_all_rows:
        return True
    keys = {row.key[:2] for row in sheet.rows if row.key}
    hashes = dict(zip(record.segment_ids, record.row_hashes(), strict=True))
    reviewers = {reviewer for _, reviewer in keys}
    drawn = {
        (hashes[segment_id], reviewer)
        for reviewer, segment_ids in record.shares().items()
        for segment_id in segment_ids
        if reviewer in reviewers
    }
    control = {
        (row_hash, row.reviewer)
        for row, row_hash in zip(record.control_rows, record.control_hashes(), strict=True)
        if row.reviewer in reviewers
    }
    return keys == drawn | control


def exported_files(workspace: Workspace) -> dict[str, list[str]]:
    """Return the paths of the sheets, pages and archives of each review, by its name."""
    path = workspace.path / EXPORTS
    return read_json(path) if path.exists() else {}
