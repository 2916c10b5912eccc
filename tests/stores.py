"""Object stores for tests: local folders behind fsspec, under the schemes of stores that tests
cannot reach.

`Bucket` shows an object when all of it has come, as object stores do; `Cluster` shows what is being
written, as HDFS does.
"""

import hashlib
import os
import signal
import sys
from pathlib import Path
from typing import ClassVar

import fsspec
from fsspec import AbstractFileSystem


class Bucket(AbstractFileSystem):
    """Buckets are folders in `root`.

    Attributes:
        root: of all.
        deadly: what kills this process: part of a name, and ``half`` of that file or all of it
            (``done``) that was put.
        broken: how many further puts break off in the middle.
        sent: names of what was put; fetched: of what was read.
    """

    protocol = "gs"
    cachable = False
    root = Path()
    deadly: tuple[str, str] | None = None
    broken = 0
    sent: ClassVar[list[str]] = []
    fetched: ClassVar[list[str]] = []

    def _local(self, path):
        return self.root / self._strip_protocol(path).strip("/")

    def info(self, path, **_):
        local = self._local(path)
        if local.is_dir():
            return {"name": self._strip_protocol(path).strip("/"), "size": 0, "type": "directory"}
        etag = hashlib.md5(local.read_bytes(), usedforsecurity=False).hexdigest()
        return {
            "name": self._strip_protocol(path).strip("/"),
            "size": local.stat().st_size,
            "type": "file",
            "etag": etag,
        }

    def ls(self, path, detail=True, **_):
        local = self._local(path)
        found = [
            self.info(entry.relative_to(self.root).as_posix()) for entry in sorted(local.iterdir())
        ]
        return found if detail else [info["name"] for info in found]

    def _open(self, path, mode="rb", **_):
        if mode == "rb":
            self.fetched.append(path)
        return self._local(path).open(mode)

    def makedirs(self, path, exist_ok=False):
        self._local(path).mkdir(parents=True, exist_ok=exist_ok)

    def cp_file(self, path1, path2, **_):
        self.put_file(self._local(path1), path2)

    def rm_file(self, path):
        self._local(path).unlink()

    def put_file(self, lpath, rpath, mode="overwrite", **_):
        target = self._local(rpath)
        upload = self.root / ".uploads" / f"{os.urandom(4).hex()}-{target.name}"
        self._write(lpath, upload)
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode == "create":
            os.link(upload, target)
            upload.unlink()
        else:
            upload.replace(target)
        self._die(target, "done")
        self.sent.append(rpath)

    def _write(self, source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        data = Path(source).read_bytes()
        with target.open("wb") as file:
            for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
                file.write(piece)
                file.flush()
                self._die(target, "half")
                if type(self).broken:
                    type(self).broken -= 1
                    raise ConnectionResetError("reset by peer at https://host/?key=geheim")

    def _die(self, target, when):
        if self.deadly and self.deadly[0] in target.name and self.deadly[1] == when:
            os.kill(os.getpid(), signal.SIGKILL)


class Cluster(Bucket):
    """A store that shows files while they are written and whose rename replaces nothing."""

    protocol = "hdfs"

    def put_file(self, lpath, rpath, **_):
        self._write(lpath, self._local(rpath))

    def mv(self, path1, path2, **_):
        try:  # as HDFS, which replaces nothing
            os.link(self._local(path1), self._local(path2))
        except FileExistsError:
            raise OSError(5, "HDFS Rename failed") from None
        self._local(path1).unlink()
        self.sent.append(path2)


def register(root: Path, *, deadly: tuple[str, str] | None = None) -> None:
    """Put `Bucket` behind gs:// and `Cluster` behind hdfs://, until `unregister`."""
    for store in (Bucket, Cluster):
        store.root, store.deadly, store.broken, store.sent, store.fetched = (
            Path(root),
            deadly,
            0,
            [],
            [],
        )
        fsspec.register_implementation(store.protocol, store, clobber=True)


def unregister() -> None:
    """Remove the stores of this module from the registry of fsspec."""
    for store in (Bucket, Cluster):
        sys.modules["fsspec.registry"]._registry.pop(store.protocol, None)
