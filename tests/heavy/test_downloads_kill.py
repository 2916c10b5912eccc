"""A download that is killed repeatedly at random gives the same folder as an undisturbed one."""

import hashlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

FILES = {f"/{i}.wav": random.Random(i).randbytes(40_000 * (i + 1)) for i in range(24)}


class Handler(BaseHTTPRequestHandler):
    """Serves slowly, in ranges, and breaks off now and then."""

    protocol_version = "HTTP/1.1"
    served = 0
    chance = random.Random(1)

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = FILES[self.path]
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        start = 0
        if self.headers.get("If-Range") == tag:
            start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        for at in range(start, len(body), 20_000):
            try:
                self.wfile.write(body[at : at + 20_000])
            except OSError:
                self.close_connection = True
                return
            type(self).served += len(body[at : at + 20_000])
            time.sleep(0.02)
            if self.chance.random() < 0.02:
                self.close_connection = True
                return


@pytest.mark.parametrize("checksums", [True, False])
def test_a_download_killed_at_random_is_finished_by_the_next_runs(tmp_path, checksums):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Handler.served = 0
        address, out = f"http://127.0.0.1:{server.server_address[1]}", tmp_path / "out"
        rows = [
            {
                "url": address + path,
                "checksum": hashlib.sha256(body).hexdigest() if checksums else None,
            }
            for path, body in FILES.items()
        ]
        (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = [
            sys.executable,
            "-m",
            "nbaudio",
            "download",
            str(tmp_path / "list.jsonl"),
            "--out",
            str(out),
            "--json",
        ]
        command += ["--per-second", "1000", "--per-host", "4"]
        chance, kills, code = random.Random(2), 0, None
        while code is None:
            until = Handler.served + chance.randrange(1_500_000)
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as process:
                while (code := process.poll()) is None and Handler.served <= until:
                    time.sleep(0.002)
                if code is None:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                printed = process.stdout.read()
            for path in out.glob("*.wav"):
                assert path.read_bytes() == FILES[f"/{path.name}"]
        server.shutdown()
    assert (code, json.loads(printed)["problems"]) == (0, [])
    assert kills > 5
    assert {path.name for path in out.iterdir() if not path.name.startswith(".")} == {
        *(name[1:] for name in FILES),
        "downloads.jsonl",
    }
    assert all((out / path[1:]).read_bytes() == body for path, body in FILES.items())
    assert list(out.glob(".*.partial")) == []
    # A kill costs what was on its way in each of the connections, not what had come.
    assert Handler.served < sum(map(len, FILES.values())) + kills * 4 * 150_000
