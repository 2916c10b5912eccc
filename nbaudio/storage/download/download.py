"""Getting files from the web: a list in, a folder out that `ingest` reads, and a ledger of everything that was asked for.

Conventions: a file under its final name is whole, and its length and checksum are right. What is done is known by its hash, not
by being there. A file of another origin is never overwritten.
"""

import secrets
from pathlib import Path

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, first_lines
from nbaudio.storage.download.fetch import HttpClient
from nbaudio.storage.download.ledger import LEDGER, Row, open_ledger
from nbaudio.storage.download.lists import read_list
from nbaudio.storage.download.rate_limit import DownloadTask, RateLimitedQueue
from nbaudio.storage.download.run import Backoff, DownloadRun
from nbaudio.storage.network import Network

__all__ = ["LEDGER", "download", "read_list"]


def download(
    source: str | Path,
    *,
    out: str | Path,
    connections: int = 4,
    per_host: int = 2,
    per_second: float = 4.0,
    tries: int | None = None,
    timeout: float | None = None,
    max_wait: float | None = None,
    max_size: str | int | None = None,
    seed: int | None = None,
) -> Report:
    r"""Fetch the files of a list into a folder, politely; run again after a kill and it does only the rest.

    What is done and what failed and why is in ``downloads.jsonl`` there: url, url_sha256, name, state, bytes, sha256, checksum,
    reason. Addresses are stored without user and query. What tries, timeout, max_wait and max_size are unless given, and the
    environment variables that set them: `nbaudio.storage.network`.

    Args:
        source: a .csv, .tsv or .jsonl with `url` and, if wanted, `name` and `checksum` (sha256 or md5); or archives by name,
            such as ``openslr:librispeech:dev-clean,test-clean``.
        out: the folder, new or one to go on with.
        connections: at once, in all.
        per_host: connections at once to a host.
        per_second: requests to a host.
        tries: in a row without a new byte, before a file is given up.
        timeout: seconds without a byte, before a connection is given up.
        max_wait: seconds; a host that asks for a longer pause is given up.
        max_size: bytes, or a size such as ``"50GB"``, of the largest file.
        seed: of the random share of the pauses between tries; another one each time unless given.

    Returns:
        Counts and bytes; problems one line each.

    Raises:
        InputError: the list, the folder or a parameter cannot be used.
        ExistsError: another download is at work in the folder.
        DiskFullError: what is done is kept, and the same call goes on.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "list.csv").write_text("url,name\nftp://example.org/a.wav,a.wav\n")
        >>> download(folder / "list.csv", out=folder / "audio").problems
        ["a.wav: row 1: 'ftp://example.org/a.wav': only http:// and https:// addresses are allowed"]
    """
    network = Network.of(timeout=timeout, tries=tries, max_wait=max_wait, max_size=max_size)
    for name, value in (("connections", connections), ("per_host", per_host), ("per_second", per_second)):
        if not value > 0:
            raise InputError(f"{name} is {value}; more than 0 is wanted")
    wanted, refused = read_list(source)
    folder = Path(out).absolute()
    with open_ledger(folder) as ledger:
        ledger.forget({(one.url, one.name) for one in wanted})
        run = DownloadRun(folder, ledger, network, Backoff(secrets.randbits(64) if seed is None else seed))
        for bad in refused:
            ledger.add(Row(bad.url, bad.name, "failed", url_sha256=bad.url_sha256, reason=bad.reason))
        rest = run.look(wanted)
        web = HttpClient(connections=per_host, timeout=network.timeout)
        try:
            run.fetch(
                rest,
                web,
                RateLimitedQueue([DownloadTask(one, one.url) for one in rest], per_host=per_host, per_second=per_second),
                connections,
            )
        finally:
            web.close()
        rows = [row for one in wanted if (row := ledger.row(one.url, one.name))]
    done = [row for row in rows if row.state == "done"]
    problems = [f"{row.name}: {row.reason}" for row in rows if row.state == "failed"]
    problems += [f"{bad.name or bad.url or 'the list'}: {bad.reason}" for bad in refused]
    unproven = sum(row.checksum is None for row in done)
    return Report(
        "download",
        {
            "files": len(wanted) + len(refused),
            "there_before": len(wanted) - len(rest) - run.taken,
            "fetched": len(run.fetched),
            "failed": len(problems),
            "bytes": sum(row.bytes or 0 for row in done),
            "ledger": str(folder / LEDGER),
        },
        [
            *run.notes,
            *([f"{unproven:,} of the files came without a checksum; they are whole by their lengths alone"] if unproven else []),
        ],
        first_lines(problems, str(folder / LEDGER)),
    )
