"""A stand-in for the Hugging Face Hub: the part of its HTTP interface that publishes and reads
datasets, failing as a test says.

Large files go to a storage of another host name (localhost) by signed URLs, as on the Hub; a token
must not get there.
"""

import base64
import hashlib
import http.server
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

TOKEN = "hf_geheimnisvollesTestTokenXyz"  # noqa: S105
SIGNATURE = "signiertUndGeheim"
NAME = "ana/govor"
URL = f"hf://datasets/{NAME}"
_COUNTED = threading.Lock()
_LFS = re.compile(r"\.(tar|parquet|zip|tfrecord|flac|wav|arrow)$")
_PAGE = 3


def blob_id(data: bytes) -> str:
    """The id of a small file on the Hub: the hash that git gives it."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 - as git does


@dataclass
class Dataset:
    """A repository: the files of each commit by path, as (kind, bytes), the newest last."""

    private: bool = False
    commits: list[tuple[str, dict[str, tuple[str, bytes]]]] = field(default_factory=list)

    @property
    def files(self) -> dict[str, bytes]:
        return {path: data for path, (_, data) in self.commits[-1][1].items()}

    def at(self, revision: str) -> dict[str, tuple[str, bytes]] | None:
        known = {"main": self.commits[-1][1], **dict(self.commits)}
        return known.get(revision)

    def add(self, files: dict[str, tuple[str, bytes]]) -> str:
        oid = hashlib.sha1(f"{len(self.commits)}{sorted(files)}".encode()).hexdigest()  # noqa: S324 - as git does
        self.commits.append((oid, files))
        return oid


class Hub:
    """What it holds, what it does, and what it was asked; its parts are the keys of `ROUTES`.

    Attributes:
        busy: how often a part still says 503.
        says: what a part says instead.
        lost: how often a part still hangs up after it has done what it was asked.
        hangs: parts that never answer.
        hold_after: PUTs after which the next one is read in half and never answered; `held` is set
            then.
        asked: requests to each part.
        received: bytes of each large file that came, by SHA-256.
        leaked: requests to the storage that had the token.
    """

    def __init__(self) -> None:
        self.datasets: dict[str, Dataset] = {}
        self.objects: dict[str, bytes] = {}
        self.busy: Counter[str] = Counter()
        self.says: dict[str, int] = {}
        self.lost: Counter[str] = Counter()
        self.hangs: set[str] = set()
        self.hold_after: int | None = None
        self.held = threading.Event()
        self.over = threading.Event()
        self.asked: Counter[str] = Counter()
        self.received: Counter[str] = Counter()
        self.ranges: list[str] = []
        self.created: list[dict[str, Any]] = []
        self.descriptions: list[str] = []
        self.leaked: list[str] = []
        self.url = ""


ROUTES = {
    "create": r"POST /api/repos/create",
    "validate": r"POST /api/validate-yaml",
    "info": r"GET /api/datasets/(?P<name>\w+/\w+)(/revision/(?P<revision>[^/]+))?",
    "tree": r"GET /api/datasets/(?P<name>\w+/\w+)/tree/(?P<revision>[^/]+)(/(?P<path>.+))?",
    "preupload": r"POST /api/datasets/(?P<name>\w+/\w+)/preupload/(?P<revision>[^/]+)",
    "commit": r"POST /api/datasets/(?P<name>\w+/\w+)/commit/(?P<revision>[^/]+)",
    "batch": r"POST /datasets/(?P<name>\w+/\w+)\.git/info/lfs/objects/batch",
    "verify": r"POST /datasets/(?P<name>\w+/\w+)\.git/info/lfs/objects/verify",
    "resolve": r"(GET|HEAD) /datasets/(?P<name>\w+/\w+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)",
    "put": r"PUT /storage/(?P<oid>\w+)",
    "storage": r"GET /storage/(?P<oid>\w+)",
}
_STORAGE = {"put", "storage"}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Responds to the requests of a client, or fails as the `Hub` says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    hub: Hub

    def log_message(self, *args) -> None:
        pass

    def _answer(self, status: int, body: bytes | dict | list = b"", **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        line = f"{self.command} {parts.path}"
        part, found = next(
            (name, match) for name, route in ROUTES.items() if (match := re.fullmatch(route, line))
        )
        hub = self.hub
        self.query = parse_qs(parts.query)
        length = int(self.headers.get("Content-Length") or 0)
        with _COUNTED:
            hub.asked[part] += 1
            held = (
                part == "put" and hub.hold_after is not None and hub.asked["put"] > hub.hold_after
            )
        if held or part in hub.hangs:
            self.rfile.read(length // 2)
            hub.held.set()
            hub.over.wait()
            self.close_connection = True
            return None
        self.body = (
            self.rfile.read(length)
            if self.headers.get("Transfer-Encoding") != "chunked"
            else self._chunks()
        )
        with _COUNTED:
            busy, lost = hub.busy[part] > 0, hub.lost[part] > 0
            hub.busy[part] -= busy
            hub.lost[part] -= lost and not busy
        if part in _STORAGE:
            if "Authorization" in self.headers:
                hub.leaked.append(line)
            if self.query.get("X-Amz-Signature") != [SIGNATURE]:
                return self._answer(403)
        if busy or part in hub.says:
            return self._answer(503 if busy else hub.says[part], {"error": "as the test wants it"})
        found = {
            name: unquote(value) for name, value in found.groupdict().items() if value is not None
        }
        if part not in _STORAGE and not self._may(part, found.get("name")):
            return None
        if lost:
            self._answer = lambda *_, **__: setattr(self, "close_connection", True)
        return getattr(self, f"_{part}")(**found)

    do_GET = do_HEAD = do_POST = do_PUT = _serve  # noqa: N815

    def _chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _may(self, part: str, name: str | None) -> bool:
        """Say 401 to a wrong token and to none, 404 to a dataset that is not there."""
        token = self.headers.get("Authorization")
        if token not in (None, f"Bearer {TOKEN}"):
            self._answer(401, {"error": "Invalid credentials in Authorization header"})
            return False
        dataset = self.hub.datasets.get(name) if name else None
        hidden = name is not None and (dataset is None or (dataset.private and not token))
        if hidden or (
            token is None and part in {"create", "preupload", "commit", "batch", "verify"}
        ):
            self._answer(
                404 if token else 401,
                {"error": "Repository not found"},
                X_Error_Code="RepoNotFound",
            )
            return False
        return True

    @property
    def _json(self) -> Any:
        return json.loads(self.body)

    def _create(self) -> None:
        wish = self._json
        self.hub.created.append(wish)
        name = f"{wish['organization']}/{wish['name']}"
        if name in self.hub.datasets:
            return self._answer(
                409,
                {
                    "error": "You already created this dataset repo",
                    "url": f"{self.hub.url}/datasets/{name}",
                },
            )
        self.hub.datasets[name] = dataset = Dataset(wish.get("visibility") == "private")
        dataset.add({".gitattributes": ("git", b"*.parquet filter=lfs\n")})
        return self._answer(200, {"url": f"{self.hub.url}/datasets/{name}"})

    def _validate(self) -> None:
        if not self._json["content"].startswith("---\n"):
            return self._answer(400, {"errors": [{"message": "no header"}]})
        return self._answer(200, {"errors": [], "warnings": []})

    def _tree_at(self, name: str, revision: str) -> dict[str, tuple[str, bytes]] | None:
        files = self.hub.datasets[name].at(revision)
        if files is None:
            self._answer(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        return files

    def _info(self, name: str, revision: str = "main") -> None:
        files = self._tree_at(name, revision)
        if files is not None:
            dataset = self.hub.datasets[name]
            oid = dataset.commits[-1][0] if revision == "main" else revision
            siblings = [{"rfilename": path} for path in files]
            self._answer(
                200,
                {
                    "id": name,
                    "sha": oid,
                    "private": dataset.private,
                    "siblings": siblings,
                    "tags": [],
                },
            )

    def _entry(self, path: str, kind: str, data: bytes) -> dict[str, Any]:
        entry = {"type": "file", "path": path, "size": len(data), "oid": blob_id(data)}
        if kind == "lfs":
            oid = hashlib.sha256(data).hexdigest()
            entry |= {
                "oid": blob_id(oid.encode()),
                "lfs": {"oid": oid, "size": len(data), "pointerSize": 133},
            }
        return entry

    def _tree(self, name: str, revision: str, path: str = "") -> None:
        files = self._tree_at(name, revision)
        if files is None:
            return None
        prefix = f"{path}/" if path else ""
        inside = {each: files[each] for each in sorted(files) if each.startswith(prefix)}
        if path and not inside:
            return self._answer(404, {"error": "not found"}, X_Error_Code="EntryNotFound")
        entries = []
        folders = {
            each[: match.start()]
            for each in inside
            for match in re.finditer("/", each)
            if match.start() >= len(prefix)
        }
        recursive = self.query.get("recursive") in (["True"], ["true"])
        for each in sorted({*inside, *folders}):
            if recursive or "/" not in each.removeprefix(prefix):
                folder = {
                    "type": "directory",
                    "path": each,
                    "size": 0,
                    "oid": blob_id(each.encode()),
                }
                entries.append(folder if each in folders else self._entry(each, *inside[each]))
        start = int(self.query.get("cursor", ["0"])[0])
        headers = {}
        if start + _PAGE < len(entries):
            here = (
                f"{self.hub.url}{urlsplit(self.path).path}"
                f"?recursive={recursive}&cursor={start + _PAGE}"
            )
            headers["Link"] = f'<{here}>; rel="next"'
        return self._answer(200, entries[start : start + _PAGE], **headers)

    def _preupload(self, name: str, revision: str) -> None:
        there = self.hub.datasets[name].at(revision)
        modes = []
        for file in self._json["files"]:
            mode = "lfs" if _LFS.search(file["path"]) else "regular"
            kind, data = there.get(file["path"], ("", b""))
            oid = (
                None
                if not kind
                else hashlib.sha256(data).hexdigest()
                if kind == "lfs"
                else blob_id(data)
            )
            modes.append(
                {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid}
            )
        self._answer(200, {"files": modes})

    def _batch(self, name: str) -> None:
        objects = []
        signed = (
            f"{self.hub.url.replace('127.0.0.1', 'localhost')}/storage/"
            f"{{}}?X-Amz-Signature={SIGNATURE}"
        )
        for each in self._json["objects"]:
            actions = {
                "upload": {"href": signed.format(each["oid"])},
                "verify": {"href": f"{self.hub.url}/datasets/{name}.git/info/lfs/objects/verify"},
            }
            objects.append(each | ({} if each["oid"] in self.hub.objects else {"actions": actions}))
        self._answer(200, {"transfer": "basic", "objects": objects})

    def _put(self, oid: str) -> None:
        assert hashlib.sha256(self.body).hexdigest() == oid
        with _COUNTED:
            self.hub.received[oid] += len(self.body)
            self.hub.objects[oid] = self.body
        self._answer(200)

    def _verify(self, name: str) -> None:
        self._answer(200 if self._json["oid"] in self.hub.objects else 404, {})

    def _commit(self, name: str, revision: str) -> None:
        dataset = self.hub.datasets[name]
        head, files = dataset.commits[-1]
        files = dict(files)
        for line in self.body.decode().splitlines():
            operation = json.loads(line)
            value = operation["value"]
            match operation["key"]:
                case "header":
                    if value.get("parentCommit", head) != head:
                        return self._answer(
                            412,
                            {"error": "A commit has happened since. Please refresh and try again."},
                        )
                    self.hub.descriptions.append(value["description"])
                case "file":
                    files[value["path"]] = ("git", base64.b64decode(value["content"]))
                case "lfsFile":
                    files[value["path"]] = ("lfs", self.hub.objects[value["oid"]])
                case "deletedFile":
                    del files[value["path"]]
        oid = dataset.add(files)
        return self._answer(
            200, {"commitUrl": f"{self.hub.url}/datasets/{name}/commit/{oid}", "commitOid": oid}
        )

    def _resolve(self, name: str, revision: str, path: str) -> None:
        files = self._tree_at(name, revision)
        if files is None:
            return None
        if path not in files:
            return self._answer(404, {"error": "Entry not found"}, X_Error_Code="EntryNotFound")
        kind, data = files[path]
        if kind == "lfs":
            oid = hashlib.sha256(data).hexdigest()
            self.hub.objects[oid] = data
            there = (
                f"{self.hub.url.replace('127.0.0.1', 'localhost')}/storage/"
                f"{quote(oid)}?X-Amz-Signature={SIGNATURE}"
            )
            return self._answer(
                302, Location=there, X_Linked_Size=str(len(data)), X_Linked_Etag=f'"{oid}"'
            )
        return self._ranged(data, ETag=f'"{blob_id(data)}"')

    def _storage(self, oid: str) -> None:
        self._ranged(self.hub.objects[oid])

    def _ranged(self, data: bytes, **headers: str) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted is None:
            return self._answer(200, data, **headers)
        self.hub.ranges.append(self.headers["Range"])
        start, stop = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
        return self._answer(
            206, data[start:stop], Content_Range=f"bytes {start}-{stop - 1}/{len(data)}", **headers
        )


class _Server(http.server.ThreadingHTTPServer):
    """A server with a thread for each request."""

    daemon_threads = True

    def handle_error(self, *args) -> None:
        """A client that was killed is no news."""


@contextmanager
def serving_hub() -> Iterator[Hub]:
    """Serve a Hub without datasets for as long as the context lasts."""
    hub = Hub()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        hub.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
