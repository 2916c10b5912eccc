"""A web server at the far end of a slow line.

It has ranges, kept connections, pages of folders, a delay for each answer and a limit for all
bytes.

    python benchmarks/delayed.py FOLDER [--delay 0.04] [--megabits 200]

A new connection costs the delay once more, as TCP's handshake does. Prints its address and serves
until it is killed.
"""

import argparse
import asyncio
import re
import sys
from pathlib import Path
from urllib.parse import unquote

PIECE = 1 << 17


class Link:
    """What all connections share."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s, self.free = bytes_per_s, 0.0

    async def carry(self, num_bytes: int) -> None:
        """Wait until so many bytes more have passed."""
        if self.bytes_per_s:
            now = asyncio.get_running_loop().time()
            self.free = max(self.free, now) + num_bytes / self.bytes_per_s
            await asyncio.sleep(self.free - now)


async def answer(head: str, root: Path, writer: asyncio.StreamWriter, link: Link) -> None:
    """Answer one request."""
    method, path, _ = head.split(" ", 2)
    file = root / unquote(path).lstrip("/")
    if file.is_dir():
        page = "".join(f'<a href="{inside.name}">' for inside in sorted(file.iterdir())).encode()
        heading = f"Content-Type: text/html\r\nContent-Length: {len(page)}\r\n\r\n"
        writer.write(f"HTTP/1.1 200 OK\r\n{heading}".encode())
        writer.write(b"" if method == "HEAD" else page)
        return
    if not file.is_file():
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return
    size = file.stat().st_size
    wanted = re.search(r"^range: *bytes=(\d+)-(\d*)", head, re.IGNORECASE | re.MULTILINE)
    start, stop = (int(wanted[1]), min(size, int(wanted[2] or size) + 1)) if wanted else (0, size)
    if wanted:
        status = f"206 Partial Content\r\nContent-Range: bytes {start}-{stop - 1}/{size}"
    else:
        status = "200 OK"
    writer.write(
        f'HTTP/1.1 {status}\r\nAccept-Ranges: bytes\r\nETag: "{size}"\r\nContent-Length: '
        f"{stop - start}\r\n\r\n".encode()
    )
    if method == "HEAD":
        return
    with file.open("rb") as body:
        body.seek(start)
        while start < stop:
            piece = body.read(min(PIECE, stop - start))
            start += len(piece)
            await link.carry(len(piece))
            writer.write(piece)
            await writer.drain()


async def serve(root: Path, delay: float, link: Link) -> None:
    """Serve until killed."""

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await asyncio.sleep(delay)
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                await asyncio.sleep(delay)
                await answer(head, root, writer, link)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve a folder."""
    parser = argparse.ArgumentParser(
        description=(sys.modules[__name__].__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--delay", type=float, default=0.04, help="seconds before each answer")
    parser.add_argument(
        "--megabits",
        type=float,
        default=0.0,
        help="per second, over all connections; 0 for no limit",
    )
    options = parser.parse_args()
    asyncio.run(serve(options.folder, options.delay, Link(options.megabits * 1e6 / 8)))


if __name__ == "__main__":
    main()
