"""Steps that read tables batch by batch: five times the segments need no more memory."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from nbaudio.tables import parquet_files, schemas, workspace_tables
from nbaudio.tables.workspace import Workspace

FEW, MANY = 20_000, 100_000
RUN = f"""
import sys
from contextlib import suppress
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from memory import most_mb
from nbaudio.core.errors import InputError
place = Path(sys.argv[1])
{{step}}
print(most_mb())
"""
EXPORT = "from nbaudio.formats.export import export\nexport(place / 'W', {!r}, out=place / {!r})"
READ = """
from nbaudio.reading.corpora import Corpus
from nbaudio.reading.clip_table import ClipTable
from nbaudio.storage.folders import folder_at
folder = folder_at(place / "C")
with suppress(InputError):
    Corpus(folder, ClipTable(folder), {"parameters": {}}).read("unknown")
"""
# Where rows were held, 80,000 more took 140 MB in an export, and 28 MB to find a clip by its id.
STEPS = {
    "export nemo": (EXPORT.format("nemo", "nemo"), 60),
    "export lhotse": (EXPORT.format("lhotse", "lhotse"), 60),
    "id": (READ, 15),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A folder with a workspace and the table of a corpus for each number of segments."""
    return [_make_workspace(tmp_path_factory.mktemp("tables"), size) for size in (FEW, MANY)]


def _make_workspace(place: Path, size: int) -> Path:
    number = pl.int_range(size, eager=True)
    said = pl.select(
        pl.concat_str(
            [pl.format("riječ{}", number * 7919 % prime) for prime in range(9001, 9061)],
            separator=" ",
        )
    )
    made = said.to_series().alias("text").to_frame()
    segments = made.select(
        segment_id=pl.format("{}_{}", pl.lit("r" * 150), number),
        recording_id=pl.format("r{}", number // 600),
        start_sample=number % 600 * 10,
        end_sample=number % 600 * 10 + 10,
        text="text",
        asr_text="text",
        speaker_id=pl.format("{}", number % 400),
        split=pl.lit("train"),
        decision=pl.lit("accept"),
    )
    recordings = segments.select("recording_id").unique(maintain_order=True)
    facts = {
        "sampling_rate": 8000,
        "num_channels": 1,
        "num_samples": 6000,
        "codec": "flac",
        "sha256": "0",
    }
    workspace = Workspace.create(place / "W", audio=str(place))
    workspace.save(
        recordings=recordings.with_columns(
            path="recording_id", **{k: pl.lit(v) for k, v in facts.items()}
        )
    )
    workspace.save(segments=segments)
    (place / "C").mkdir()
    clips = segments.select(
        "segment_id",
        "recording_id",
        "start_sample",
        shard=pl.lit("train/a.tar"),
        split="split",
        offset=number * 10,
        length=pl.lit(10),
        audio_sha256=pl.lit("0" * 64),
    )
    clips.write_parquet(place / "C/segments.parquet", row_group_size=16_384)
    return place


@pytest.mark.parametrize("step", STEPS)
def test_memory_does_not_grow_with_the_segments(places: list[Path], step: str) -> None:
    code, most_growth_mb = STEPS[step]
    few, many = (_most_mb(place, code) for place in places)
    assert many - few < most_growth_mb


def _most_mb(place: Path, code: str) -> int:
    run = [sys.executable, "-c", RUN.replace("{step}", code), str(place)]
    return int(subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout)


def test_looking_up_rows_by_id_does_not_load_word_times_between_them(tmp_path: Path) -> None:
    """Where word times were kept with those of rows beside them, 249 more row groups took 450 MB
    more."""
    number = pl.int_range(parquet_files.ROWS_A_GROUP, eager=True)
    times = pl.select(
        pl.concat_list(
            [pl.struct(start=number.cast(pl.Float32) + word, end=word + 0.5) for word in range(12)]
        )
    )
    times = times.to_series().cast(schemas.WORD_TIMES).alias("word_times")
    Workspace.create(tmp_path / "W")
    parts = (
        pl.select(segment_id=pl.format("{}_{}", pl.lit(part), number)).with_columns(times)
        for part in range(250)
    )
    workspace_tables.write(tmp_path / "W", parts)
    lookup = """
import polars as pl
from nbaudio.tables import workspace_tables
ids = pl.Series([f"{part}_5000" for part in range(%d)])
assert len(workspace_tables.read(place / "W", where=workspace_tables.has_id(ids))) == len(ids)
"""
    few, many = (_most_mb(tmp_path, lookup % groups) for groups in (1, 250))
    assert many - few < 150
