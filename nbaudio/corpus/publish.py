"""Publish a corpus as a dataset on the Hugging Face Hub.

Only changed files are sent, and a new version is one commit.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbaudio.core.atomic import escapes_folder, trusted_root
from nbaudio.core.errors import AudioError, ExistsError, InputError, NbaudioError
from nbaudio.core.progress import progress
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.card import CARD
from nbaudio.corpus.layout import CORPUS_JSON, IDENTITY, read_corpus_info
from nbaudio.corpus.shard_names import SHARD_NAME
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
def publish(
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
    url = _dataset_url(url)
    folder = _finished_corpus(corpus)
    corpus_info = read_corpus_info(folder)
    uploads = _uploads(folder, corpus_info)
    permission = _Permission.of(corpus_info, consent)
    remedies = permission.remedies(folder)
    if remedies and not dry_run:
        raise InputError(remedies[0])
    with convert_error(AudioError, NbaudioError):
        dataset = HubDataset(remote(url))
        listing_notes = _look(dataset, dry_run=dry_run)
        if private and dataset.exists and not dataset.private:
            raise ExistsError(
                f"{url}: is public, not --private; make it private on its settings page, "
                "or choose another name"
            )
        changes = _changes(dataset, url, corpus_info, uploads)
        notes = [*remedies, *listing_notes, *changes.notes]
        facts = {
            "corpus": str(folder),
            "dataset": url,
            "private": dataset.private if dataset.exists else private,
            "license": permission.license,
            "consent": permission.consent or None,
            "dry_run": dry_run,
            **changes.facts(),
        }
        if dry_run:
            return Report("publish", {**facts, **changes.listing()}, notes)
        if not dataset.exists:
            dataset.create(private=private)
        _commit(dataset, changes, permission, show=show_progress)
    facts["private"] = dataset.private
    facts["commit"] = dataset.head
    facts["next"] = f"nbaudio verify {url}"
    return Report("publish", facts, notes)


def _dataset_url(url: str) -> str:
    """Return the URL of a dataset without a slash at its end; raise InputError for another URL."""
    url = url.rstrip("/")
    if not _DATASET.fullmatch(url):
        raise InputError(
            f"{redact_url(url)}: expected hf://datasets/OWNER/NAME, without a revision or folder"
        )
    return url


def _finished_corpus(corpus: str | Path) -> Folder:
    """Return the folder of a corpus.

    Raise InputError if it is not on this machine, unfinished, or not a corpus.
    """
    folder = folder_at(corpus)
    if folder.place.local is None:
        raise InputError(f"{folder}: is not on this machine; only a local corpus can be published")
    if folder.exists(IDENTITY):
        raise InputError(
            f"{folder}: cannot be published (an unfinished run: call materialize again)"
        )
    if not folder.exists(CORPUS_JSON):
        raise InputError(f"{folder}: cannot be published (no {CORPUS_JSON}: not a corpus)")
    return folder


@dataclass(frozen=True)
class _Permission:
    """The license of a corpus, and the consent of the people in it; empty where not stated."""

    license: str | None
    consent: str

    @classmethod
    def of(cls, corpus_info: Mapping[str, Any], consent: str | None) -> "_Permission":
        """Return the license in corpus.json, and the consent in one line."""
        license_ = (corpus_info.get("about") or {}).get("licence")
        return cls(license_, " ".join((consent or "").split()))

    def remedies(self, folder: Folder) -> list[str]:
        """Say how to state what is missing; empty if both are stated."""
        remedies = []
        if not self.license:
            remedies.append(
                f"{folder}/{CORPUS_JSON}: has no license; run materialize again with --license, "
                "such as cc-by-4.0"
            )
        if not self.consent:
            remedies.append(
                f"{folder}: recordings of people are personal data; state on which basis they may "
                "be published with --consent, such as "
                "--consent 'signed consent forms of all speakers'"
            )
        return remedies


@dataclass(frozen=True)
class _Changes:
    """How a dataset becomes the corpus.

    Attributes:
        uploads: files that it does not have, or has with other bytes.
        unchanged: how many files it has already.
        removals: files of an earlier version that the corpus does not have, in order of names.
        is_first: whether it holds no corpus yet.
        notes: what a reader of the report should know.
    """

    uploads: dict[str, Upload]
    unchanged: int
    removals: list[str]
    is_first: bool
    notes: list[str]

    def facts(self) -> dict[str, int]:
        """Return the counts of the report."""
        return {
            "files_uploaded": len(self.uploads),
            "files_unchanged": self.unchanged,
            "files_removed": len(self.removals),
            "bytes": sum(upload.num_bytes for upload in self.uploads.values()),
        }

    def listing(self) -> dict[str, Any]:
        """Return the files that the report of a dry run lists."""
        uploads = [
            {"file": name, "bytes": upload.num_bytes} for name, upload in self.uploads.items()
        ]
        return {"uploads": uploads, "removals": self.removals}


def _changes(
    dataset: HubDataset, url: str, corpus_info: dict[str, Any], uploads: dict[str, Upload]
) -> _Changes:
    """Compare a listed dataset with the files of a corpus.

    Raise ExistsError if the dataset holds other files than a corpus.
    """
    changed = dataset.changed(uploads)
    unchanged = len(uploads) - len(changed)
    if CORPUS_JSON not in dataset.files:
        own_files = _own_files(dataset.files, corpus_info)
        if strangers := dataset.files.keys() - own_files - _INITIAL:
            raise ExistsError(
                f"{url}: holds other files than a corpus ({min(strangers)}); "
                "publish into a new dataset"
            )
        removals = sorted(own_files - uploads.keys())
        return _Changes(changed, unchanged, removals, is_first=True, notes=[])
    earlier_folder = folder_at(f"{url}@{dataset.head}")
    earlier_info = read_corpus_info(earlier_folder)
    notes = []
    has_card = CARD in changed and CARD in dataset.files
    if has_card and not earlier_folder.holds(CARD, earlier_info.get("card", "")):
        notes.append(
            f"{CARD} of the dataset is not the card of its corpus: "
            "the new corpus's card replaces it"
        )
    removals = sorted(_own_files(dataset.files, earlier_info) - uploads.keys())
    return _Changes(changed, unchanged, removals, is_first=False, notes=notes)


def _commit(dataset: HubDataset, changes: _Changes, permission: _Permission, *, show: bool) -> None:
    """Upload the files of a corpus, and remove those of an earlier version with the last commit."""
    text = f"License: {permission.license}\nConsent: {permission.consent}"
    batches = list(_batches(changes.uploads, is_new=changes.is_first))
    with progress("publish", len(changes.uploads), "file", show=False) as advance:
        for number, batch in enumerate(batches, 1):
            removals = changes.removals if number == len(batches) else ()
            dataset.commit(batch, removals, title=_TITLE, text=text, show=show)
            advance(len(batch))


@dataclass(frozen=True)
class _ListedFile:
    """A file or folder of a corpus, with its bytes and SHA-256 where corpus.json has them."""

    name: str
    num_bytes: int | None = None
    sha256: str | None = None


def _listed_files(corpus_info: dict[str, Any]) -> list[_ListedFile]:
    """Return corpus.json, the card, and what corpus.json lists."""
    sizes = corpus_info.get("table_bytes", {})
    tables = [
        _ListedFile(name, sizes.get(name), sha256) for name, sha256 in corpus_info["tables"].items()
    ]
    shards = [
        _ListedFile(shard["name"], shard["bytes"], shard["sha256"])
        for shard in corpus_info["shards"]
    ]
    return [_ListedFile(CORPUS_JSON), _ListedFile(CARD), *tables, *shards]


def _uploads(folder: Folder, corpus_info: dict[str, Any]) -> dict[str, Upload]:
    """Return the files of a corpus.

    Raise InputError if one is missing, has another size, or is a link out of the folder.
    """
    uploads: dict[str, Upload] = {}
    for listed in _listed_files(corpus_info):
        uploads |= _uploads_of(folder, listed)
    return uploads


def _uploads_of(folder: Folder, listed: _ListedFile) -> dict[str, Upload]:
    """Return a listed file, or the files in a listed folder; see `_uploads`."""
    root = Path(str(folder))
    path = root / listed.name
    names = [listed.name]
    if path.is_dir():
        files = (file for file in path.rglob("*") if file.is_file())
        names = sorted(file.relative_to(root).as_posix() for file in files)
    sizes = {name: folder.size(name) for name in names}
    num_bytes = sum(sizes.values())
    if listed.num_bytes not in (None, num_bytes):
        raise InputError(
            f"{path}: {num_bytes:,} bytes instead of {listed.num_bytes:,}; "
            f"run 'nbaudio verify {folder}'"
        )
    home = trusted_root(root)
    if links := [name for name in names if escapes_folder(root / name, home)]:
        raise InputError(f"{root / links[0]}: a link that points outside the corpus")
    # The hash of a shard that is a folder is not the hash of a file.
    sha256 = listed.sha256 if names == [listed.name] else None
    return {name: Upload(root / name, size, sha256) for name, size in sizes.items()}


def _look(dataset: HubDataset, *, dry_run: bool) -> list[str]:
    """List the dataset, if it exists; a dry run without access to it returns why."""
    try:
        dataset.refresh()
    except RemoteNotFoundError:
        if not dry_run:
            return []
        return ["there is no such dataset yet: it is created"]
    except AudioError as error:
        if not dry_run:
            raise
        return [f"what the dataset holds is unknown, so that all files are listed ({error})"]
    return []


def _own_files(names: Collection[str], corpus_info: dict[str, Any]) -> set[str]:
    """Return the files that belong to the corpus with this corpus.json, and shards of others."""
    paths = {
        CORPUS_JSON,
        CARD,
        *corpus_info["tables"],
        *(shard["name"] for shard in corpus_info["shards"]),
    }
    return {
        name
        for name in names
        if name in paths or name.rpartition("/")[0] in paths or SHARD_NAME.fullmatch(name)
    }


def _batches(changed: dict[str, Upload], *, is_new: bool) -> Iterator[dict[str, Upload]]:
    """Yield the files of each commit.

    The shards of a first version come in several commits, the tables in the last one.
    """
    early = [name for name in changed if is_new and SHARD_NAME.fullmatch(name)]
    for start in range(0, len(early), _COMMIT_FILES):
        yield {name: changed[name] for name in early[start : start + _COMMIT_FILES]}
    early_names = set(early)
    yield {name: upload for name, upload in changed.items() if name not in early_names}
