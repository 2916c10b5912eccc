"""Download the files of a list.

The output is a folder that `ingest` reads, with a ledger of all files.
"""

from pathlib import Path

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.sources.download_lists import read_list
from nbaudio.storage.download.download import Rate, download_files
from nbaudio.storage.network import Network


@interruptible
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
) -> Report:
    r"""Download the files of a list into a folder with a rate limit per host.

    After a kill, the same call does the rest.

    ``downloads.jsonl`` in the folder holds the state of each file: url, url_sha256, name, state,
    bytes, sha256, checksum, reason. URLs are stored without user and query. docs/network.md has the
    defaults of tries, timeout, max_wait and max_size, and their environment variables.

    Args:
        source: a .csv, .tsv or .jsonl with `url` and optionally `name` and `checksum` (sha256 or
            md5); or archives by name, such as ``openslr:librispeech:dev-clean,test-clean``.
        out: the folder, new or from an earlier download.
        connections: at once, in all.
        per_host: connections at once to a host.
        per_second: requests to a host.
        tries: consecutive requests without a new byte before a file fails.
        timeout: seconds without a byte before a request fails.
        max_wait: seconds; files of a host that requires a longer pause (Retry-After) fail.
        max_size: of the largest file, in bytes or a size such as ``"50GB"``.

    Returns:
        Counts and bytes; problems one line each.

    Raises:
        InputError: the list, the folder or a parameter is invalid.
        ExistsError: another download writes to the folder.
        DiskFullError: finished files are kept, and the same call resumes.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "list.csv").write_text("url,name\nftp://example.org/a.wav,a.wav\n")
        >>> download(folder / "list.csv", out=folder / "audio").problems
        ["a.wav: line 2: 'ftp://example.org/a.wav': only http:// and https:// URLs are allowed"]
    """
    network = Network.of(timeout=timeout, tries=tries, max_wait=max_wait, max_size=max_size)
    for name, value in (
        ("connections", connections),
        ("per_host", per_host),
        ("per_second", per_second),
    ):
        if not value > 0:
            raise InputError(f"{name} is {value}; it must be more than 0")
    listed = read_list(source)
    rate = Rate(connections, per_host, per_second)
    folder = Path(out).absolute()
    report = download_files(listed.wanted, listed.refused, out=folder, rate=rate, network=network)
    report.warnings[:0] = listed.notes
    return report
