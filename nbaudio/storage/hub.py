"""Datasets on the Hugging Face Hub: contents, commits, timeouts, log.

Tokens are found by huggingface_hub and never read here.
"""

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from json import JSONDecodeError
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

from nbaudio.core.atomic import sha256_file
from nbaudio.core.errors import InputError, redact_urls, requires_extra
from nbaudio.core.home_folder import ensure_home
from nbaudio.storage import private_hosts
from nbaudio.storage.network import Network, Place, with_retries

Result = TypeVar("Result")

# Timeouts that a commit may take: the Hub needs longer for it than for other responses.
_COMMIT_TIMEOUTS = 4
_limits = {"timeout": 15.0}


def _prepare(seconds: float) -> None:
    """Set up huggingface_hub: timeouts, public hosts, and no signed URLs in its log.

    It sends most requests without a timeout of its own.
    """
    ensure_home()  # the library names its cache where it is imported
    with requires_extra("hub"):
        from huggingface_hub import get_session
    logging.getLogger("huggingface_hub.utils._http").addFilter(_redact_record)
    _limits["timeout"] = seconds
    hooks = get_session().event_hooks["request"]
    hooks += [hook for hook in (_limit_request, _refuse_private) if hook not in hooks]


def _limit_request(request: Any) -> None:
    timeouts = request.extensions.get("timeout", {})
    request.extensions["timeout"] = {
        name: _limits["timeout"] if value is None else value for name, value in timeouts.items()
    }


def _refuse_private(request: Any) -> None:
    """Raise RedirectError if a public Hub sends a request on to a private address."""
    from huggingface_hub.constants import ENDPOINT

    url = str(request.url)
    if urlsplit(url).netloc == urlsplit(ENDPOINT).netloc:
        return
    resolves = not {"http", "https", "all"} & getproxies().keys()  # a proxy does it itself
    if not private_hosts.is_private_url(ENDPOINT, resolves=resolves):
        private_hosts.check_redirect(url, resolves=resolves)


def _redact_record(record: logging.LogRecord) -> bool:
    record.msg = redact_urls(record.getMessage())
    record.args = ()
    return True


def hub_filesystem(network: Network) -> Any:
    """Return the filesystem of all datasets: each run lists a folder once, in whichever thread."""
    _prepare(network.timeout)
    return _filesystem(network.run)


@lru_cache(maxsize=8)
def _filesystem(run: str) -> Any:  # noqa: ARG001 - another run, another listing
    from huggingface_hub import HfFileSystem

    return HfFileSystem(skip_instance_cache=True)


@dataclass(frozen=True)
class Upload:
    """A local file, and the SHA-256 that it must have, if known."""

    path: Path
    num_bytes: int
    sha256: str | None = None

    def equals(self, hub_file: Any) -> bool:
        """Return whether a file on the Hub, a RepoFile, has the same bytes."""
        if hub_file.size != self.num_bytes:
            return False
        if hub_file.lfs:
            return bool(hub_file.lfs.sha256 == (self.sha256 or sha256_file(self.path)))
        content = self.path.read_bytes()  # small, as it is in git itself
        return bool(
            hub_file.blob_id
            == hashlib.sha1(
                b"blob %d\0" % len(content) + content, usedforsecurity=False
            ).hexdigest()
        )


class HubDataset:
    """A dataset at a URL without revision.

    It has its `files` by path and its last commit (`head`) when listed, and commits on top of that.
    """

    def __init__(self, place: Place) -> None:
        """Create the client of the dataset; it sends no request yet."""
        with requires_extra("hub"):
            from huggingface_hub import HfApi

        self._place = place
        self._api = HfApi()
        self._name = str(place).removeprefix("hf://datasets/")
        self.exists = False
        self.private = False
        self.head = ""
        self.files: dict[str, Any] = {}

    def refresh(self) -> None:
        """List the dataset.

        Raise RemoteNotFoundError if it does not exist, other AudioErrors as `with_retries` does.
        """
        self._send(self._list)

    def changed(self, uploads: Mapping[str, Upload]) -> dict[str, Upload]:
        """Return the files that the dataset does not have, or has with other bytes."""
        return {
            name: upload
            for name, upload in uploads.items()
            if name not in self.files or not upload.equals(self.files[name])
        }

    def create(self, *, private: bool) -> None:
        """Create the dataset, and list it."""
        create = self._api.create_repo
        self._send(
            lambda: create(self._name, repo_type="dataset", private=private or None, exist_ok=True),
            done="written",
        )
        self.refresh()

    def commit(
        self,
        uploads: Mapping[str, Upload],
        removed: Collection[str],
        *,
        title: str,
        text: str,
        show: bool,
    ) -> None:
        """Commit files that the Hub lacks, and removals, on top of `head`.

        Raise InputError for a file with other bytes.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete
        from huggingface_hub.utils import (
            are_progress_bars_disabled,
            disable_progress_bars,
            enable_progress_bars,
        )

        head = self.head
        tries = 0

        def send() -> None:
            """Commit once; a further try first looks at what the last one may have done."""
            nonlocal tries
            tries += 1
            missing = uploads
            if tries > 1:  # the last try may have been done although its response was lost
                self._list()
                missing = self.changed(uploads)
            additions = []
            for name, upload in missing.items():
                additions.append(CommitOperationAdd(name, upload.path))
                if upload.sha256 not in (None, additions[-1].upload_info.sha256.hex()):
                    raise InputError(
                        f"{upload.path}: its bytes are not those that were written; "
                        "run 'nbaudio verify'"
                    )
            deletions = [CommitOperationDelete(name) for name in removed if name in self.files]
            if additions or deletions:
                commit = {
                    "commit_message": title,
                    "commit_description": text,
                    "parent_commit": head,
                    "repo_type": "dataset",
                }
                self.head = self._api.create_commit(
                    self._name, [*additions, *deletions], **commit
                ).oid

        with ExitStack() as stack:
            if not show and not are_progress_bars_disabled():
                disable_progress_bars()
                stack.callback(enable_progress_bars)
            self._send(send, done="written")

    def _list(self) -> None:
        """Set `files`, `exists`, `private` and `head` to the state of the dataset."""
        from huggingface_hub import RepoFile

        repository = self._api.repo_info(self._name, repo_type="dataset")
        tree = self._api.list_repo_tree(
            self._name, recursive=True, revision=repository.sha, repo_type="dataset"
        )
        self.files = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
        self.exists = True
        self.private = bool(repository.private)
        self.head = str(repository.sha)

    def _send(self, request: Callable[[], Result], *, done: str = "read") -> Result:
        """Call the library with retries beyond its own."""

        def once() -> Result:
            """Send the request once, and raise the error of the response itself."""
            # Another session may have replaced it
            _prepare(_COMMIT_TIMEOUTS * self._place.network.timeout)
            try:
                return request()
            except JSONDecodeError:
                raise ConnectionError("a response that is not JSON") from None
            except RuntimeError as error:  # names the file of an upload; the cause is the response
                raise error.__cause__ or error from None

        return with_retries(self._place, once, done=done)
