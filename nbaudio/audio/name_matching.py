"""Find the audio files that messy names mean, with an audit of every decision.

Names are POSIX paths relative to the audio folder.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import polars as pl

DECISIONS = ("exact", "unicode", "extension", "blanks", "id", "ambiguous", "missing")

# fmt: off
AUDIO_EXTENSIONS = frozenset({
    "3g2", "3gp", "aac", "ac3", "aif", "aifc", "aiff", "amr", "ape", "asf", "au", "avi", "awb",
    "caf", "dsf", "dts", "eac3", "flac", "flv", "m2ts", "m4a", "m4b", "m4v", "mka", "mkv", "mov",
    "mp1", "mp2", "mp3", "mp4", "mpc", "mpeg", "mpg", "mpga", "mts", "nist", "oga", "ogg", "ogv",
    "opus", "ra", "rf64", "rm", "shn", "snd", "sph", "spx", "tak", "ts", "tta", "vob", "voc", "w64",
    "wav", "wave", "webm", "wma", "wmv", "wv", "wv1", "wv2",
})
# fmt: on

_TEXT = pl.String()
AUDIT = pl.Schema(
    {
        "name": _TEXT,
        "decision": pl.Enum(DECISIONS),
        "path": _TEXT,
        "candidates": pl.List(_TEXT),
        "recording_id": _TEXT,
    }
)

# A name, the decision on it, its file and the candidates.
_Match = tuple[str, str, str | None, list[str]]

# A plain name, which every comparison leaves unchanged: nothing to normalize, no id in brackets, no
# folder to skip.
_PLAIN = (
    r"^((?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*)"
    rf"\.(?i:{'|'.join(sorted(AUDIO_EXTENSIONS))})$"
)
# Zero-width blanks are blanks too, though str.isspace() does not know them.
_BLANKS = re.compile(r"[\s\u200b\u2060\ufeff]+")
_ID = re.compile(r"\[([A-Za-z0-9_-]{11})\]$")


def is_audio(name: str) -> bool:
    """Return whether a name ends in one of `AUDIO_EXTENSIONS`, in any case."""
    return bool(_split_extension(name)[1])


def composed(name: str) -> str:
    """Return an id or name in Unicode NFC, in which those of several files are compared."""
    return unicodedata.normalize("NFC", name)


def youtube_id(name: str) -> str | None:
    """Return the 11-character id in square brackets that ends a name, before its extension."""
    match = _ID.search(_tidy(_split_extension(name)[0]))
    return match[1] if match else None


def recording_id(name: str) -> str:
    """Return the id of a recording.

    It is the `youtube_id` in its name, else its `tidy_stem`.
    """
    return youtube_id(name) or tidy_stem(name)


def tidy_stem(name: str) -> str:
    """Return a relative path without its audio extension, in NFC, with blanks collapsed."""
    return "/".join((*_folders(name), _tidy(_split_extension(PurePosixPath(name).name)[0])))


def resolve(
    wanted: Sequence[str] | pl.Series,
    available: Sequence[str] | pl.Series,
    *,
    mapping: Mapping[str, str] | None = None,
) -> pl.DataFrame:
    """Find the file that each name means; return an `AUDIT`.

    It is a byte-exact match, else the only match by a looser comparison; of several, the only one
    in the same folder, if it differs by the extension or Unicode form alone. Names with different
    folders do not mean one file that has none of these: they are ambiguous.
    """
    if not mapping and (plain := _resolve_plain(wanted, available)) is not None:
        return plain
    find = _finder(available)
    mapping = mapping or {}
    values = defaultdict(set)
    for value in mapping.values():
        values[_spell(value).blanks[-1]].add(value)
    rows = [_matched(name, find, mapping, values) for name in sorted(set(wanted))]
    rows = _without_contradictions(rows, mapping)
    ids = _recording_ids({name: path for name, _, path, _ in rows}, mapping)
    return pl.DataFrame([(*row, ids[row[0]]) for row in rows], schema=AUDIT, orient="row")


def _matched(
    name: str,
    find: Callable[[str], tuple[str, list[str]]],
    mapping: Mapping[str, str],
    values: Mapping[str, Collection[str]],
) -> _Match:
    """Return the file that a name means; `values` are those of the mapping, by their stems."""
    decision, candidates = find(mapping.get(name, name))
    if decision == "ambiguous" and name not in mapping:
        # A single mapped value of that spelling settles which file is meant.
        spelling = _spell(name)
        mapped_values = [
            value
            for value in values.get(spelling.blanks[-1], ())
            if _agree(_spell(value).blanks, spelling.blanks)
        ]
        if len(mapped_values) == 1 and len(mapped_candidates := find(mapped_values[0])[1]) == 1:
            decision = _level(spelling, _spell(mapped_candidates[0])) or "id"
            candidates = mapped_candidates
    path = candidates[0] if len(candidates) == 1 else None
    return name, decision, path, candidates


def _without_contradictions(matches: Sequence[_Match], mapping: Mapping[str, str]) -> list[_Match]:
    """Return matches in which no file is that of names in different folders that it is not in.

    Of `x/1.wav` and `y/1.wav`, at most one is `1.wav`. Those that no mapping settles are ambiguous.
    """
    names_of = defaultdict(list)
    for name, _, path, _ in matches:
        if path is None or path == name:
            continue
        if len(_spell(name).exact) > len(_spell(path).exact):
            names_of[path].append(name)
    contradicted: set[str] = set()
    for names in names_of.values():
        spellings = [_spell(name).blanks for name in names]
        longest = max(spellings, key=len)
        if not all(_agree(spelling, longest) for spelling in spellings):
            contradicted.update(names)
    contradicted.difference_update(mapping)
    return [
        (name, "ambiguous", None, candidates)
        if name in contradicted and decision != "id"
        else (name, decision, path, candidates)
        for name, decision, path, candidates in matches
    ]


def _resolve_plain(
    wanted: Sequence[str] | pl.Series, available: Sequence[str] | pl.Series
) -> pl.DataFrame | None:
    """Return the result of `resolve`, computed on columns, or None where that is not possible.

    It is possible where all names are plain, ids are unique, and all files exist or there are none.
    """
    names = pl.DataFrame({"name": pl.Series(wanted, dtype=pl.String).unique().sort()})
    ids = names.select("name", id=pl.col("name").str.extract(_PLAIN, 1))
    is_available = names["name"].is_in(pl.Series(available, dtype=pl.String).implode())
    if (
        ids["id"].null_count()
        or ids["id"].is_duplicated().any()
        or not (is_available.all() or not len(available))
    ):
        return None
    path = pl.when(pl.lit(len(available) > 0)).then("name")
    decision = pl.lit("exact" if len(available) else "missing").cast(AUDIT["decision"])
    candidates = pl.concat_list(path).list.drop_nulls()
    return ids.select(
        "name", decision=decision, path=path, candidates=candidates, recording_id="id"
    )


def segment_keys(
    recording_ids: pl.Series,
    starts: pl.Series,
    ends: pl.Series,
    *,
    source_keys: pl.Series | None = None,
) -> pl.Series:
    """Return a key for each segment: that of `source_keys`, where it is not empty.

    Other keys are ``<recording_id>_<start>-<end>``, with the seconds as the source writes them.
    """
    parts = pl.DataFrame({"recording": recording_ids, "start": starts, "end": ends})
    keys = parts.select(
        key=pl.format("{}_{}-{}", *(pl.col(part).fill_null("") for part in parts.columns))
    )
    if source_keys is not None:
        keys = keys.select(key=pl.coalesce(source_keys.replace("", None), "key"))
    return keys["key"].alias("segment_id")


NUMBERED = "#[0-9]+$"
"""Ending of the ids that `segment_ids` gives, and of some keys of sources, which it keeps apart."""


def segment_ids(keys: pl.Series) -> pl.Series:
    """Make `segment_keys` unique: repeated ones get #2, #3 and so on.

    Keys that differ and end in no `NUMBERED` have no influence.
    """
    count = pl.col("segment_id").cum_count().over("segment_id")
    numbered = (
        pl.when(count == 1).then("segment_id").otherwise(pl.format("{}#{}", "segment_id", count))
    )
    unique = keys.alias("segment_id").to_frame().select(numbered).to_series()
    if unique.n_unique() == len(unique):
        return unique
    return _number_repeats(keys).alias("segment_id")


def _number_repeats(keys: pl.Series) -> pl.Series:
    """Number repeated keys one by one, for sources whose own keys end in ``#2``."""
    taken = set(keys)
    unique: dict[str, None] = {}
    for key in keys:
        candidate = key
        number = 1
        while candidate in unique or (number > 1 and candidate in taken):
            number += 1
            candidate = f"{key}#{number}"
        unique[candidate] = None
    return pl.Series(unique.keys(), dtype=pl.String)


class _Spelling(NamedTuple):
    """A name as seen by each comparison, strict to loose: folders and base name, and the id."""

    exact: tuple[str, ...]
    unicode: tuple[str, ...]
    extension: tuple[str, ...]
    blanks: tuple[str, ...]
    id: str | None


def _spell(name: str) -> _Spelling:
    """Return the forms of a name that the comparisons use."""
    exact = tuple(part for part in PurePosixPath(name).parts if part not in ("/", "..")) or ("",)
    *folders, base = (unicodedata.normalize("NFC", part) for part in exact)
    stem, extension = _split_extension(base)
    bare = base
    if extension == extension.strip():
        bare = stem
    return _Spelling(
        exact,
        (*folders, base),
        (*folders, bare),
        (*map(_tidy, folders), _tidy(stem)),
        youtube_id(base),
    )


def _level(a: _Spelling, b: _Spelling) -> str | None:
    """Return the strictest comparison at which two names agree."""
    levels = ("exact", "unicode", "extension", "blanks")
    by_id = "id" if a.id and a.id == b.id else None
    return next((level for level in levels if _agree(getattr(a, level), getattr(b, level))), by_id)


def _agree(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Return whether two paths agree from the end; the shorter one may lack the outer folders."""
    return all(x == y for x, y in zip(reversed(a), reversed(b), strict=False))


def _by_stem_and_id(files: Mapping[str, _Spelling]) -> dict[str, set[str]]:
    """Return the paths of files by their stems, and by their ids in brackets."""
    paths = defaultdict(set)
    for path, spelling in files.items():
        paths[spelling.blanks[-1]].add(path)
        if spelling.id:
            paths[f"[{spelling.id}]"].add(path)
    return paths


def _finder(paths: Iterable[str]) -> Callable[[str], tuple[str, list[str]]]:
    """Return the function that finds decision and candidates for a name among files.

    The files are indexed by stem and id.
    """
    files = {path: _spell(path) for path in sorted(set(paths)) if is_audio(path)}
    alike = _by_stem_and_id(files)

    def find(name: str) -> tuple[str, list[str]]:
        """Return the decision on a name, as in `AUDIT`, and its candidates."""
        if name in files:
            return "exact", [name]
        spelling = _spell(name)
        near = alike.get(spelling.blanks[-1], set()) | alike.get(f"[{spelling.id}]", set())
        levels = {path: level for path in sorted(near) if (level := _level(spelling, files[path]))}
        exact = [path for path, level in levels.items() if level == "exact"]
        candidates = exact if len(exact) == 1 else list(levels)
        if not candidates:
            return "missing", candidates
        if len(candidates) > 1:
            depth = len(spelling.exact)
            whole = [path for path in candidates if len(files[path].exact) == depth]
            if len(whole) != 1 or levels[whole[0]] not in ("unicode", "extension"):
                return "ambiguous", candidates
            candidates = whole
        return levels[candidates[0]], candidates

    return find


def _recording_ids(paths: Mapping[str, str | None], mapping: Mapping[str, str]) -> dict[str, str]:
    """Return ids by name, one for each file.

    They come from the names, so that they stay the same when the audio arrives.
    """
    targets = {name: mapping.get(name, name) for name in paths}
    groups = defaultdict(list)
    for name, path in paths.items():
        if path is None:
            groups[f"name {recording_id(targets[name])}"].append(name)
        else:
            groups[f"file {path}"].append(name)
    choices = {}
    for group, names in groups.items():
        name = min(names, key=lambda name: (youtube_id(targets[name]) is None, name))
        target = targets[name]
        with_extension = "/".join((*_folders(target), _tidy(PurePosixPath(target).name)))
        choices[group] = [
            recording_id(target),
            with_extension,
            unicodedata.normalize("NFC", name),
            name,
        ]
    chosen = dict.fromkeys(choices, 0)
    while True:
        taken = Counter(choices[group][level] for group, level in chosen.items())
        clashing = [
            g
            for g, level in chosen.items()
            if taken[choices[g][level]] > 1 and level + 1 < len(choices[g])
        ]
        if not clashing:
            return {
                name: choices[group][chosen[group]]
                for group, names in groups.items()
                for name in names
            }
        for group in clashing:
            chosen[group] += 1


def _split_extension(name: str) -> tuple[str, str]:
    """Return stem and audio extension as spelled.

    A dot before any other ending belongs to the stem.
    """
    stem, dot, extension = name.rpartition(".")
    if dot and extension.strip().lower() in AUDIO_EXTENSIONS:
        return stem, extension
    return name, ""


def _tidy(text: str) -> str:
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", text)).strip(" ")


def _folders(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or "://" in name:
        return ()
    return tuple(_tidy(part) for part in path.parent.parts if part != "..")
