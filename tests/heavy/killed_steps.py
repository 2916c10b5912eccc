"""Steps that are killed at random and called again until they end, and what they then leave."""

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import boto3
from faults import SIZE

# The start of Python is no part of a step: kills fall after this share of a whole run.
EARLIEST_KILL = 0.3


@dataclass(frozen=True)
class Step:
    """A command and what it makes of a copy of a workspace."""

    name: str
    command: Sequence[str]  # arguments of nbaudio, "W" for the workspace
    outcome: Callable[[Path], Mapping[str, str]]  # hashes by name, of a copy
    environment: Mapping[str, str] = field(default_factory=dict)


def table_hashes(workspace: Path) -> dict[str, str]:
    """The tables of a workspace with their hashes; a file that a killed run left is an error."""
    hidden = [path.name for path in workspace.iterdir() if is_partial(path)]
    assert not hidden
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(workspace.glob("*.parquet"))
    }


def is_partial(path: Path) -> bool:
    """Whether a file or folder of a workspace is not finished."""
    return path.name.endswith(".partial") or (path.is_dir() and path.name.startswith("."))


def object_hashes(url: str, bucket: str) -> dict[str, str]:
    """The objects of a corpus in a bucket with their hashes."""
    client = boto3.client("s3", endpoint_url=url)
    listed = client.list_objects_v2(Bucket=bucket).get("Contents", [])
    names = [entry["Key"] for entry in listed if "/.work/" not in entry["Key"]]
    return {
        name: hashlib.sha256(client.get_object(Bucket=bucket, Key=name)["Body"].read()).hexdigest()
        for name in names
    }


def empty_bucket(url: str, bucket: str) -> None:
    """Delete all objects of a bucket."""
    client = boto3.client("s3", endpoint_url=url)
    for entry in client.list_objects_v2(Bucket=bucket).get("Contents", []):
        client.delete_object(Bucket=bucket, Key=entry["Key"])


def start(step: Step, workspace: Path) -> subprocess.Popen[str]:
    """Start a step on a copy of a workspace."""
    arguments = [str(workspace) if word == "W" else word for word in step.command]
    return subprocess.Popen(
        [sys.executable, "-m", "nbaudio", *arguments],
        env=os.environ | step.environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def soak_step(
    step: Step,
    template: Path,
    folder: Path,
    *,
    kills: int,
    chance: random.Random,
    begin: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """Kill a step so many times and compare each end with that of an undisturbed run.

    `begin` is called before each new copy of the workspace `template`.
    """
    copy = folder / step.name
    begin()
    shutil.copytree(template, copy)
    began = time.monotonic()
    undisturbed = start(step, copy)
    errors = undisturbed.communicate()[1]
    assert undisturbed.returncode == 0, errors
    span = time.monotonic() - began
    expected = step.outcome(copy)
    counts: Counter[str] = Counter()
    is_new = True
    while counts["kills"] < kills or not is_new:
        if is_new:
            begin()
            shutil.rmtree(copy)
            shutil.copytree(template, copy)
        run = start(step, copy)
        if counts["kills"] < kills:
            time.sleep(chance.uniform(EARLIEST_KILL, 1) * span)
            counts["kills"] += kill(run, chance)
        errors = run.communicate()[1]
        is_new = run.returncode != -signal.SIGKILL
        if is_new:
            assert run.returncode == 0, (step.name, dict(counts), errors)
            assert step.outcome(copy) == expected, (step.name, dict(counts))
            counts["finished"] += 1
    return counts


def kill(run: subprocess.Popen[str], chance: random.Random) -> bool:
    """Kill the driver, or all processes, of a run that has not ended."""
    if run.poll() is not None:
        return False
    if chance.random() < 0.5:
        run.kill()
    else:
        os.killpg(run.pid, signal.SIGKILL)
    return True


def recognize_lengths(clips: Sequence[object]) -> list[str]:
    """A recognizer that hears how many samples a clip has."""
    time.sleep(0.01)
    return [f"{len(clip)} samples" for clip in clips]  # type: ignore[arg-type]


def measure_step() -> Step:
    """`measure` of all segments."""
    return Step("measure", ("measure", "W", "--jobs", "2"), table_hashes)


def recognize_step() -> Step:
    """`recognize` by a function of this module."""
    here = str(Path(__file__).parent)
    path = os.pathsep.join((here, str(Path(__file__).parents[1])))
    function = "killed_steps:recognize_lengths"
    command = ("recognize", "W", "--with", function, "--as", "soak", "--jobs", "2")
    return Step("recognize", command, table_hashes, {"PYTHONPATH": path})


def withdraw_step() -> Step:
    """`withdraw` of a recording."""
    command = ("withdraw", "W", "--recording", "r1", "--why", "consent withdrawn")
    return Step("withdraw", command, table_hashes)


def s3_step(url: str, bucket: str) -> Step:
    """`materialize` to an S3 server."""
    command = ("materialize", "W", "--out", f"s3://{bucket}/c", "--shard-size", SIZE)
    environment = {"AWS_ENDPOINT_URL": url}
    return Step(
        "s3",
        (*command, "--jobs", "2"),
        lambda _: object_hashes(url, bucket),
        environment,
    )
