"""Measure what `audit` of remote WebDataset tars costs.

    python benchmarks/audit_tars.py [--clips 100000] [--shards 20] [--delay 0.04] [--pax]

Each clip has FLAC of 150 to 250 kB and a JSON with its text; with `--pax`, each member has an
extended header, as the webdataset library writes them. The audio is a hole of the file, so that a
clip takes 4 kB of the disk. `benchmarks/delayed.py` serves the tars and waits `--delay` seconds
before each answer. The audit runs in a process of its own; figures go to standard output as
Markdown.
"""

import argparse
import io
import json
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

WORDS = ("dobar", "hvala", "predsjedniče", "sabora", "zastupnici", "rasprava", "zakon", "mjera")


def write_shard(path: Path, numbers: range, tar_format: int) -> None:
    """Write a tar of clips without their audio."""
    chance = random.Random(numbers.start)
    with path.open("wb") as file:
        for number in numbers:
            size = chance.randrange(150_000, 250_000)
            facts = {
                "id": f"clip-{number:07}",
                "text": " ".join(chance.choices(WORDS, k=20)),
                "speaker_id": f"speaker-{number % 500}",
                "duration": round(size / 19_000, 3),
            }
            write_member(file, f"{facts['id']}.flac", size, tar_format)
            file.seek(size + -size % tarfile.BLOCKSIZE, io.SEEK_CUR)
            content = json.dumps(facts).encode()
            write_member(file, f"{facts['id']}.json", len(content), tar_format)
            file.write(content + bytes(-len(content) % tarfile.BLOCKSIZE))
        file.write(bytes(2 * tarfile.BLOCKSIZE))


def write_member(file: io.BufferedWriter, name: str, size: int, tar_format: int) -> None:
    """Write the header of a member."""
    member = tarfile.TarInfo(name)
    member.size = size
    member.mtime = 1.7e9 + 0.25  # type: ignore[assignment]  # as webdataset has it
    if tar_format != tarfile.PAX_FORMAT:
        member.mtime = int(member.mtime)
    file.write(member.tobuf(tar_format))


def audit(address: str) -> dict[str, float]:
    """Return figures of an audit of an address, which runs in a process of its own."""
    program = (
        "import json, resource, sys, nbaudio; "
        "facts = nbaudio.audit(sys.argv[1]).facts; "
        "usage = resource.getrusage(resource.RUSAGE_SELF); "
        "print(json.dumps({'rows': facts['rows'], 'bytes_read': facts['bytes_read'], "
        "'bytes_of_data': facts['bytes_of_data'], 'memory_mb': usage.ru_maxrss / 1024, "
        "'cpu_s': usage.ru_utime + usage.ru_stime}))"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, address], check=True, stdout=subprocess.PIPE
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures | {"seconds": time.monotonic() - began}


def main() -> None:
    """Write the tars, serve and audit them."""
    parser = argparse.ArgumentParser(
        description=(sys.modules[__name__].__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--clips", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--delay", type=float, default=0.04, help="seconds before each answer")
    parser.add_argument("--pax", action="store_true", help="extended headers")
    parser.add_argument("--folder", type=Path, help="where the tars are written, or are already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nbaudio-bench-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        tar_format = tarfile.PAX_FORMAT if options.pax else tarfile.USTAR_FORMAT
        for shard in range(options.shards):
            path = folder / f"train-{shard:05}.tar"
            numbers = range(options.clips)[shard :: options.shards]
            if not path.exists():
                write_shard(path, numbers, tar_format)
        server = subprocess.Popen(
            [
                *(sys.executable, str(Path(__file__).with_name("delayed.py")), str(folder)),
                *("--delay", str(options.delay)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            address = server.stdout.readline().strip()  # type: ignore[union-attr]
            figures = audit(address)
        finally:
            server.kill()
            server.wait()
    share = figures["bytes_read"] / figures["bytes_of_data"]
    print("| clips | shards | delay | time | CPU | a clip | of all bytes | memory |")
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {figures['rows']:,} | {options.shards} | {options.delay * 1000:.0f} ms "
        f"| {figures['seconds']:.0f} s | {figures['cpu_s']:.0f} s "
        f"| {figures['bytes_read'] / figures['rows']:,.0f} B | {share:.2%} "
        f"| {figures['memory_mb']:.0f} MB |"
    )


if __name__ == "__main__":
    main()
