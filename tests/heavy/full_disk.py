"""Make a corpus on a disk that is full, again and again with more room: ``python full_disk.py
WORKSPACE DISK MODE``.

MODE ``mounted``: DISK is a file system in memory that this process may enlarge. ``limited``: files
can be no longer than so much. Prints as JSON how often it was full in each stage, and in how many
steps the corpus was made.
"""

import json
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from nbaudio import materialize, status
from nbaudio.core.errors import DiskFullError, NbaudioError
from nbaudio.corpus import plan

# Bytes more each time, by the stage that found the disk full.
STEPS = {"pack": 400_000, "publish": 65_536}


def give(disk: Path, room: int, mode: str) -> None:
    """Give the disk so many bytes of room: by its size, or by a limit on the length of files."""
    if mode == "mounted":
        subprocess.run(["mount", "-o", f"remount,size={room}", str(disk)], check=True)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))


def main(workspace: str, disk: str, mode: str) -> None:
    """Make a corpus with more room after each failure; print as JSON how often it was full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    plan._TASK_SECONDS = 8.0
    corpus, packs = Path(disk) / "corpus", Path(disk) / "packs"
    room, full = 8_000, Counter()
    publish = sys.modules["nbaudio.corpus.materialize"].publish

    def publish_on_a_full_disk(*args, **kwargs):
        """Publish with no room on the disk, and with one step more after each publication that
        failed."""
        nonlocal room
        if mode == "mounted":
            room = shutil.disk_usage(disk).used + STEPS["publish"] * full["publish"]
            give(Path(disk), room, mode)
        return publish(*args, **kwargs)

    sys.modules["nbaudio.corpus.materialize"].publish = publish_on_a_full_disk
    while True:
        give(Path(disk), room, mode)
        try:
            materialize(
                workspace,
                out=corpus,
                packs=packs,
                jobs=2,
                engine="threading",
                shard_size="60kB",
                show_progress=False,
            )
            break
        except DiskFullError as error:
            said = str(error)
        assert "free some space and run the command again" in said
        assert "\n" not in said
        left = [path for path in Path(disk).rglob("*") if path.name.endswith(".partial")]
        assert not left, left
        try:
            told = status(corpus).facts
        except NbaudioError:  # not even that it was begun could be noted
            told = {}
        last = told.get("stage") or "begins"
        full[last] += 1
        room += 50_000 if mode == "limited" else STEPS.get(last, 400_000)
    print(json.dumps(full))


if __name__ == "__main__":
    main(*sys.argv[1:])
