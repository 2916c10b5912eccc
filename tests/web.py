"""A web server for tests that fails as real ones do."""

import functools
import http.server
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

_COUNTED = threading.Lock()


class Web:
    """What the server does, by the last part of a path; and what it was asked.

    Attributes:
        ranges: whether it serves ranges.
        lists: whether it lists folders.
        busy: how often it still says 503.
        after: what it says in Retry-After then, by name.
        cut: how often it still hangs up in the middle.
        gone: names that it says 404 to.
        says: what else it says to a name, whatever is asked.
        hangs: names that it never answers, as long as it serves.
        acts: what it does instead of serving a name (GET) or ``HEAD name``, as a function of its
            handler.
        asked: (method, name) of every request, counted.
        sent: bytes of every body.
        ports: the client's port of every request, in order.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ranges = self.lists = True
        self.busy: Counter[str] = Counter()
        self.after: dict[str, str] = {}
        self.cut: Counter[str] = Counter()
        self.gone: set[str] = set()
        self.says: dict[str, int] = {}
        self.hangs: set[str] = set()
        self.acts: dict[str, Callable[[http.server.BaseHTTPRequestHandler], None]] = {}
        self.over = threading.Event()
        self.asked: Counter[tuple[str, str]] = Counter()
        self.sent = 0
        self.ports: list[int] = []
        self.url = ""


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder, or fails as its `Web` says."""

    def __init__(self, *args, web: Web) -> None:
        self.web = web
        super().__init__(*args, directory=str(web.folder))

    def log_message(self, *args) -> None:
        pass

    def list_directory(self, path):
        if self.web.lists:
            return super().list_directory(path)
        self.send_error(403)
        return None

    def _refused(self) -> bool:
        name = unquote(self.path.partition("?")[0]).rstrip("/").rpartition("/")[2]
        with _COUNTED:
            self.web.asked[self.command, name] += 1
            self.web.ports.append(self.client_address[1])
            busy = self.web.busy[name] > 0
            self.web.busy[name] -= busy
        if name in self.web.hangs:
            self.web.over.wait()
            return True
        if act := self.web.acts.get(name if self.command == "GET" else f"{self.command} {name}"):
            self.close_connection = True
            act(self)
            return True
        if busy and name in self.web.after:
            self.send_response(503)
            self.send_header("Retry-After", self.web.after[name])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return True
        if busy or name in self.web.gone or name in self.web.says:
            self.send_error(503 if busy else self.web.says.get(name, 404))
            return True
        return False

    def do_HEAD(self) -> None:
        if not self._refused():
            super().do_HEAD()

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if self._refused():
            return
        if not path.is_file():
            super().do_GET()
            return
        data = path.read_bytes()
        found = (
            re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if self.web.ranges
            else None
        )
        start, stop = (int(found[1]), int(found[2]) + 1) if found else (0, len(data))
        body = data[start:stop]
        self.send_response(206 if found else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        if found:
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(data)}")
        self.end_headers()
        with _COUNTED:
            cut = self.web.cut[path.name] > 0
            self.web.cut[path.name] -= cut
        sent = body[: len(body) // 2] if cut else body
        self.web.sent += len(sent)
        self.wfile.write(sent)
        self.close_connection = True


class _Server(http.server.ThreadingHTTPServer):
    """A server with a thread for each request."""

    def handle_error(self, *args) -> None:
        """A client that goes away is no news."""


def answers(
    status: int, body: bytes = b"", *, pieces: int = 1, **headers: object
) -> Callable[..., None]:
    """An act: this answer, its body so many times; chunked unless ``Content_Length`` is given."""
    chunked = "Content_Length" not in headers

    def act(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(status)
        for name, value in (
            headers.items() if not chunked else {"Transfer_Encoding": "chunked", **headers}.items()
        ):
            handler.send_header(name.replace("_", "-"), str(value))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        for _ in range(pieces):
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(body), body) if chunked else body)
            handler.server.web.sent += len(body)
        handler.wfile.write(b"0\r\n\r\n" if chunked else b"")

    return act


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def refusing() -> str:
    """The address of a server that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def serving(folder: Path, *, host: str = "127.0.0.1") -> Iterator[Web]:
    """Serve a folder on this machine for as long as the context lasts, at an address of its own."""
    web = Web(folder)
    server = _Server((host, 0), functools.partial(_Handler, web=web))
    server.web = web
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    web.url = f"http://{host}:{server.server_port}"
    try:
        yield web
    finally:
        web.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
