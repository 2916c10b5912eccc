"""A proxy before an S3 server that answers with errors and breaks large bodies, by a seed."""

import hashlib
import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

LARGE_BYTES = 32_000  # bodies of more bytes are broken


@dataclass
class Faults:
    """Which requests fail: the n-th one of a method and a path always or never does."""

    seed: int
    errors: float = 0.25  # share of requests that are answered by 500 or 503
    cuts: float = 0.3  # share of large bodies of which half comes
    counts: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def number_of(self, request: str) -> int:
        """How many requests of a method and a path there were, with this one."""
        with self.lock:
            self.requests[request] += 1
            return self.requests[request]

    def happens(self, kind: str, request: str, share: float) -> bool:
        """Whether a fault of a kind meets a request."""
        digest = hashlib.sha256(f"{self.seed} {kind} {request}".encode()).digest()
        is_hit = int.from_bytes(digest[:4], "big") < share * 2**32
        with self.lock:
            self.counts[kind] += is_hit
        return is_hit


class FaultyProxy(BaseHTTPRequestHandler):
    """Passes requests on to the server of `upstream`, but for those that fail."""

    protocol_version = "HTTP/1.1"
    upstream: str
    faults: Faults

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def pass_on(self) -> None:
        """Answer a request."""
        path = f"{self.command} {urlsplit(self.path).path}"
        request = f"{path} {self.faults.number_of(path)}"
        length = int(self.headers.get("Content-Length", 0))
        if length > LARGE_BYTES and self.faults.happens("cut upload", request, self.faults.cuts):
            self.rfile.read(length // 2)
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if self.faults.happens("error", request, self.faults.errors):
            self.send_error_of_store(503 if self.faults.happens("503", request, 0.5) else 500)
            return
        self.forward(request, body)

    def send_error_of_store(self, status: int) -> None:
        """Answer as a store that has too much to do."""
        code = "ServiceUnavailable" if status == 503 else "InternalError"
        content = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def forward(self, request: str, body: bytes) -> None:
        """Send the server's answer, or half of a large one."""
        connection = http.client.HTTPConnection(self.upstream)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        self.send_response(answer.status)
        is_head = self.command == "HEAD"
        for name, value in answer.getheaders():
            if name.lower() in ("content-length", "transfer-encoding", "connection", "date"):
                continue
            self.send_header(name, value)
        length = answer.getheader("Content-Length") if is_head else None
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        if is_head:
            return
        is_large = len(content) > LARGE_BYTES
        if is_large and self.faults.happens("cut download", request, self.faults.cuts):
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)

    do_GET = pass_on  # noqa: N815 - names of `BaseHTTPRequestHandler`
    do_HEAD = pass_on  # noqa: N815
    do_PUT = pass_on  # noqa: N815
    do_POST = pass_on  # noqa: N815
    do_DELETE = pass_on  # noqa: N815


@contextmanager
def faulty_proxy(upstream: str, faults: Faults) -> Iterator[str]:
    """Run a proxy before the server at ``host:port``; yield its URL."""
    handler = type("Handler", (FaultyProxy,), {"upstream": upstream, "faults": faults})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
