"""Publish a corpus as a dataset on the Hugging Face Hub.

Only changed files are sent, and a new version is one commit.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from nbaudio.core.atomic import escapes_folder, trusted_root
from nbaudio.core.errors import AudioError, ExistsError, InputError, NbaudioError
from nbaudio.core.progress import progress
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.card import CARD
from nbaudio.corpus.layout import CORPUS_JSON, IDENTITY, SHARD_NAME, read_corpus_info
from nbaudio.storage.folders import Folder, folder_at
from nbaudio.storage.hub import HubDataset, Upload
from nbaudio.storage.network import RemoteNotFoundError, convert_error
from nbaudio.storage.remote import remote
from nbaudio.storage.urls import redact_url

# So many shards of the first version are committed together; those of a killed upload are not sent
# again either.
_COMMIT_FILES = 100
_TITLE = "Publish a corpus of nbaudio"
_DATASET = re.compile(r"hf://datasets/[\w.-]+/[\w.-]+")
_INITIAL = {".gitattributes", CARD}  # what a new dataset may hold


@interruptible
def publish(  # noqa: PLR0914
    corpus: str | Path,
    url: str,
    *,
    consent: str | None = None,
    private: bool = False,
    dry_run: bool = False,
    show_progress: bool = True,
) -> Report:
    """Upload a finished corpus to a dataset on the Hugging Face Hub.

    The dataset is created if it does not exist. Files that it already has are not sent; those of an
    earlier version that the corpus no longer has are removed. The token is the one that
    huggingface_hub finds: HF_TOKEN, or that of ``hf auth login``. If it is killed, the same call
    resumes.

    Args:
        corpus: the folder, with a license (`materialize(license=...)`).
        url: such as ``hf://datasets/OWNER/NAME``.
        consent: on which basis the recordings of these people may be published, such as ``"signed
            consent forms"``; it is stored in the description of the commits. A private dataset
            needs it too.
        private: create a dataset that others cannot read; a public one is refused.
        dry_run: report what would be uploaded and removed, change nothing; needs neither license
            nor consent.
        show_progress: show progress on standard error.

    Returns:
        What was uploaded.

    Raises:
        InputError: the corpus is unfinished or damaged, license or consent are missing, or the URL
            is invalid.
        ExistsError: the dataset holds something else, or is public.
        NbaudioError: the Hub refuses, or does not respond after retries.
    """
    url = url.rstrip("/")
    if not _DATASET.fullmatch(url):
        raise InputError(
            f"{redact_url(url)}: expected hf://datasets/OWNER/NAME, without a revision or folder"
        )
    folder = folder_at(corpus)
    if folder.place.local is None:
        raise InputError(f"{folder}: is not on this machine; only a local corpus can be published")
    if folder.exists(IDENTITY) or not folder.exists(CORPUS_JSON):
        hint = (
            "an unfinished run: call materialize again"
            if folder.exists(IDENTITY)
            else f"no {CORPUS_JSON}: not a corpus"
        )
        raise InputError(f"{folder}: cannot be published ({hint})")
    info = read_corpus_info(folder)
    uploads = _uploads(folder, info)
    license_ = (info.get("about") or {}).get("licence")
    basis = " ".join((consent or "").split())
    no_license = (
        f"{folder}/{CORPUS_JSON}: has no license; run materialize again with --license, "
        "such as cc-by-4.0"
    )
    no_consent = (
        f"{folder}: recordings of people are personal data; state on which basis they may be "
        "published with --consent, "
    )
    no_consent += "such as --consent 'signed consent forms of all speakers'"
    notes = [remedy for remedy, given in ((no_license, license_), (no_consent, basis)) if not given]
    if notes and not dry_run:
        raise InputError(notes[0])
    with convert_error(AudioError, NbaudioError):
        dataset = HubDataset(remote(url))
        notes += _look(dataset, dry_run=dry_run)
        if private and dataset.exists and not dataset.private:
            raise ExistsError(
                f"{url}: is public, not --private; make it private on its settings page, "
                "or choose another name"
            )
        changed = dataset.changed(uploads)
        removed = sorted(
            _earlier_files(dataset, url, info, notes, replaces_card=CARD in changed)
            - uploads.keys()
        )
        facts = {
            "corpus": str(folder),
            "dataset": url,
            "private": dataset.private if dataset.exists else private,
        }
        facts |= {"license": license_, "consent": basis or None, "dry_run": dry_run}
        facts |= {
            "files_uploaded": len(changed),
            "files_unchanged": len(uploads) - len(changed),
            "files_removed": len(removed),
        }
        facts["bytes"] = sum(each.num_bytes for each in changed.values())
        if dry_run:
            planned = [{"file": name, "bytes": each.num_bytes} for name, each in changed.items()]
            return Report("publish", {**facts, "uploads": planned, "removals": removed}, notes)
        if not dataset.exists:
            dataset.create(private=private)
        text = f"License: {license_}\nConsent: {basis}"
        with progress("publish", len(changed), "file", show=False) as advance:
            for batch, is_last in _batches(changed, is_new=CORPUS_JSON not in dataset.files):
                dataset.commit(
                    batch, removed if is_last else (), title=_TITLE, text=text, show=show_progress
                )
                advance(len(batch))
    facts |= {"private": dataset.private, "commit": dataset.head, "next": f"nbaudio verify {url}"}
    return Report("publish", facts, notes)


def _uploads(folder: Folder, info: dict[str, Any]) -> dict[str, Upload]:
    """Return the files of a corpus.

    Raise InputError if one is missing, has another size, or is a link out of the folder.
    """
    sizes = info.get("table_bytes", {})
    listed = [(CORPUS_JSON, None, None), (CARD, None, None)]
    listed += [(name, sizes.get(name), sha256) for name, sha256 in info["tables"].items()]
    listed += [(shard["name"], shard["bytes"], shard["sha256"]) for shard in info["shards"]]
    root = Path(str(folder))
    home = trusted_root(root)
    uploads: dict[str, Upload] = {}
    for name, num_bytes, sha256 in listed:
        path = root / name
        inside = sorted(
            part.relative_to(root).as_posix() for part in path.rglob("*") if part.is_file()
        )
        parts = inside if path.is_dir() else [name]
        held = {part: folder.size(part) for part in parts}
        if num_bytes not in (None, sum(held.values())):
            raise InputError(
                f"{path}: {sum(held.values()):,} bytes instead of {num_bytes:,}; "
                f"run 'nbaudio verify {folder}'"
            )
        if links := [part for part in parts if escapes_folder(root / part, home)]:
            raise InputError(f"{root / links[0]}: a link that points outside the corpus")
        uploads |= {
            part: Upload(root / part, size, sha256 if parts == [name] else None)
            for part, size in held.items()
        }
    return uploads


def _look(dataset: HubDataset, *, dry_run: bool) -> list[str]:
    """List the dataset, if it exists; a dry run without access to it returns why."""
    try:
        dataset.refresh()
    except RemoteNotFoundError:
        return ["there is no such dataset yet: it is created"] if dry_run else []
    except AudioError as error:
        if not dry_run:
            raise
        return [f"what the dataset holds is unknown, so that all files are listed ({error})"]
    return []


def _earlier_files(
    dataset: HubDataset, url: str, info: dict[str, Any], notes: list[str], *, replaces_card: bool
) -> set[str]:
    """Return what the dataset has of a corpus.

    Raise ExistsError if it holds no corpus but other files.
    """
    if CORPUS_JSON not in dataset.files:
        own = _own_files(dataset.files, info)
        if strangers := dataset.files.keys() - own - _INITIAL:
            raise ExistsError(
                f"{url}: holds other files than a corpus ({min(strangers)}); "
                "publish into a new dataset"
            )
        return own
    earlier = folder_at(f"{url}@{dataset.head}")
    before = read_corpus_info(earlier)
    if replaces_card and CARD in dataset.files and not earlier.holds(CARD, before.get("card", "")):
        notes.append(
            f"{CARD} of the dataset is not the card of its corpus: "
            "the new corpus's card replaces it"
        )
    return _own_files(dataset.files, before)


def _own_files(names: Collection[str], info: dict[str, Any]) -> set[str]:
    """Return the files that belong to the corpus with this corpus.json, and shards of others."""
    own = {CORPUS_JSON, CARD, *info["tables"], *(shard["name"] for shard in info["shards"])}
    return {
        name
        for name in names
        if name in own or name.rpartition("/")[0] in own or SHARD_NAME.fullmatch(name)
    }


def _batches(
    changed: dict[str, Upload], *, is_new: bool
) -> Iterator[tuple[dict[str, Upload], bool]]:
    """Yield the files of each commit, and whether it is the last.

    The shards of a first version come in several commits, the tables in the last one.
    """
    early = {name: each for name, each in changed.items() if is_new and SHARD_NAME.fullmatch(name)}
    names = list(early)
    for start in range(0, len(names), _COMMIT_FILES):
        yield {name: early[name] for name in names[start : start + _COMMIT_FILES]}, False
    yield {name: each for name, each in changed.items() if name not in early}, True
