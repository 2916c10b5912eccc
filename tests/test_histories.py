"""Random histories of a source, its workspace and the versions of its corpus: what is promised
holds after each version."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nbaudio import diff, evidence, ingest, materialize, review, score, select, verify, withdraw
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.reading import open_corpus
from nbaudio.review import Verdict, append_verdicts
from nbaudio.review.state import ReviewState
from nbaudio.tables.split_names import is_held_out, split_role
from nbaudio.tables.tombstones import WITHDRAWN, tombstone
from nbaudio.tables.workspace import Workspace
from nbaudio.text.near_duplicates import sentences

QUIET = {"jobs": 1, "engine": "threading", "show_progress": False}
LOCATION = ("audio_sha256", "shard", "offset", "length")
SHARED = [f"hvala lijepa {n}" for n in range(4)]
SPEAKERS = [f"speaker-{n}-" for n in range(7)]
GROUPINGS = ["auto", "speaker_id", "recording_id", "speaker_id,recording_id", "", "topic"]
TOLD = {
    "speaker": "speaker_id",
    "text": "text",
    "topic": "topic",
    "start": "source_start",
    "end": "source_end",
}


class Killed(BaseException):
    pass


@contextmanager
def killed_at(number: int) -> Iterator[None]:
    """Stop what is done inside where a file gets its name for the n-th time, if it comes so far."""
    real, calls = Path.replace, iter(range(number))

    def replace(path: Path, target: Path) -> Path:
        if next(calls, None) is None:
            raise Killed
        return real(path, target)

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(Path, "replace", replace)
        yield


class Archive:
    """A table of segments and the audio that it names, which change; and what a workspace of it has
    to hold."""

    def __init__(
        self,
        folder: Path,
        *,
        splits: tuple[str | None, ...] = (None,),
        endings: tuple[str, ...] = (".wav", ".flac"),
    ):
        self.folder, self.splits, self.endings = folder, splits, endings
        self.workspace = Workspace(folder / "W")
        self.rows: dict[str, dict] = {}  # the source
        # What the workspace has to hold: rows of the source when they were last there
        self.told: dict[str, dict] = {}
        self.replaced: set[str] = set()  # since the last ingest
        self.judged: dict[str, str] = {}  # the verdicts in force
        self.marks: set[tuple[str, str]] = set()  # withdrawn: kind and id
        self.gone: set[str] = set()  # ids of segments that were withdrawn
        self.recordings = self.reviews = self.sentences = 0
        self.kills: Random | None = None  # says which steps are killed, and when
        (folder / "audio").mkdir()

    def record(self, file: str, random: Random) -> None:
        """Write noise of a random rate, number of channels and length."""
        rate, channels = random.choice([8000, 8000, 11025]), random.choice([1, 2])
        noise = np.random.default_rng(random.getrandbits(32)).normal(
            size=(int(rate * 2.2), channels)
        )
        sf.write(self.folder / "audio" / file, 0.1 * noise, rate)

    def words(self, random: Random) -> str:
        self.sentences += 1
        return (
            random.choice(SHARED)
            if random.random() < 0.25
            else f"rečenica broj {self.sentences} {random.getrandbits(30):x}"
        )

    def add(self, random: Random) -> None:
        """Add a recording of three to six segments."""
        number = self.recordings
        self.recordings += 1
        file = f"rec-{number}-" + random.choice(self.endings)
        self.record(file, random)
        split, speaker = random.choice(self.splits), random.choice(SPEAKERS)
        for n in range(random.randint(3, 6)):
            text = self.words(random)
            row = {
                "id": f"seg-{number}-{n}-",
                "file": file,
                "start": f"{n * 0.3:.2f}",
                "end": f"{n * 0.3 + 0.25:.2f}",
            }
            row |= {
                "text": text,
                "asr": text if random.random() < 0.8 else text[::-1],
                "topic": f"t{n % 3}",
                "split": split,
            }
            self.rows[row["id"]] = row | {
                "speaker": random.choice(SPEAKERS) if random.random() < 0.1 else speaker
            }

    def some(self, random: Random, most: int = 2) -> list[str]:
        """Return ids of some segments of the source."""
        return random.sample(sorted(self.rows), min(len(self.rows), random.randint(1, most)))

    def change_text(self, random: Random) -> None:
        for key in self.some(random):
            text = self.words(random)
            self.rows[key] = self.rows[key] | {"text": text, "asr": text}

    def shift_bounds(self, random: Random) -> None:
        """Move ends of segments; sometimes past the end of the recording."""
        for key in self.some(random):
            start = float(self.rows[key]["start"])
            self.rows[key] = self.rows[key] | {
                "end": f"{start + random.choice([0.2, 0.21, 0.27, 9.0]):.2f}"
            }

    def change_metadata(self, random: Random) -> None:
        for key in self.some(random):
            self.rows[key] = self.rows[key] | {"topic": f"t{random.randint(3, 5)}"}

    def replace_audio(self, random: Random) -> None:
        """Record a file anew; the same seed may write the same samples, which changes nothing."""
        file = self.rows[self.some(random, 1)[0]]["file"]
        path = self.folder / "audio" / file
        earlier = path.read_bytes()
        self.record(file, random)
        if path.read_bytes() != earlier:
            self.replaced |= {
                key for key, row in (self.told | self.rows).items() if row["file"] == file
            }

    def remove_rows(self, random: Random) -> None:
        """Remove segments from the source, or a recording; the workspace keeps them."""
        keys = self.some(random)
        files = {self.rows[key]["file"] for key in keys[:1]} if random.random() < 0.3 else set()
        if len(self.rows) > 12:
            self.rows = {
                key: row
                for key, row in self.rows.items()
                if key not in keys and row["file"] not in files
            }

    # --- steps of nbaudio

    def run(self, step: Callable[..., Report], *given, **options) -> Report:
        """Run a step, sometimes after it was killed."""
        if self.kills and self.kills.random() < 0.5:
            with killed_at(self.kills.randint(0, 9)):
                step(*given, **options)
        return step(*given, **options)

    def write(self, path: Path, rows: dict[str, dict]) -> Path:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))
        return path

    def bring(self, path: Path, *, add: bool):
        options = {"segment_id": "id", "asr_text": "asr", "speaker_id": "speaker"}
        return self.run(
            ingest,
            "table",
            path,
            audio=self.folder / "audio",
            options=options,
            out=self.workspace.path,
            add=add,
        )

    def ingest(self) -> None:
        """Bring the source in, and check what the workspace holds then."""
        is_first = not self.told
        before = {} if is_first else _by_id(self.workspace.segments)
        report = self.bring(self.write(self.folder / "source.jsonl", self.rows), add=not is_first)
        now = {
            key: row
            for key, row in self.rows.items()
            if key not in self.gone and not self.is_marked(key, row)
        }
        unchanged = {
            key
            for key, row in self.told.items()
            if now.get(key, row) == row and key not in self.replaced
        }
        other = self.replaced | {
            key for key, row in self.told.items() if _judged(now.get(key, row)) != _judged(row)
        }
        self.judged = {key: word for key, word in self.judged.items() if key not in other}
        new = now.keys() - self.told.keys()
        self.told |= now
        self.replaced = set()
        after = _by_id(self.workspace.segments)
        assert list(after) == [*before, *sorted(new, key=list(self.rows).index)]
        assert all(after[key] == before[key] for key in unchanged)
        if not is_first and not self.kills:
            assert (report.facts["new"], report.facts["unchanged"]) == (
                len(new),
                len(unchanged & now.keys()),
            )
        self.run(score, self.workspace)

    def is_marked(self, key: str, row: dict) -> bool:
        ids = {
            ("segment", key),
            ("recording", row["file"].partition(".")[0]),
            ("speaker", row["speaker"]),
        }
        return not ids.isdisjoint(self.marks)

    def withdraw(self, random: Random) -> None:
        """Withdraw one or two segments, a recording or a speaker, unless few would be left."""
        key = random.choice(sorted(self.told))
        row = self.told[key]
        kind = random.choice(["speaker", "recording", "segment"])
        ids = {
            "speaker": row["speaker"],
            "recording": row["file"].partition(".")[0],
            "segment": key,
        }
        gone = {
            other for other, held in self.told.items() if _named(other, held)[kind] == ids[kind]
        }
        if len(self.told) - len(gone) < 8:
            return
        before = _by_id(self.workspace.segments)
        self.run(
            withdraw,
            self.workspace,
            **{"segments" if kind == "segment" else kind: [ids[kind]]},
            why="consent withdrawn",
        )
        self.marks.add((kind, ids[kind]))
        self.gone |= gone
        self.told = {other: held for other, held in self.told.items() if other not in gone}
        self.judged = {other: word for other, word in self.judged.items() if other not in gone}
        assert _by_id(self.workspace.segments) == {
            other: held for other, held in before.items() if other not in gone
        }

    def review(self, random: Random) -> None:
        """Draw a few segments and judge them."""
        self.reviews += 1
        name = f"round{self.reviews}"
        self.run(
            review.export,
            self.workspace,
            out=self.folder / f"sheets/{name}.csv",
            n=3,
            seed=random.randint(0, 99),
        )
        record = ReviewState.load(self.workspace).records[name]
        said = {key: random.choice(["ok", "ok", "wrong words"]) for key in record.segment_ids}
        time = f"2026-11-21T03:00:{self.reviews:02d}Z"
        rows = zip(record.segment_ids, record.contents, strict=True)
        append_verdicts(
            self.workspace,
            [
                Verdict(key, content, said[key], "", None, "ana", time, name)
                for key, content in rows
            ],
        )
        self.judged |= said

    def check_workspace(self) -> None:
        """Check that nothing withdrawn is left, and that verdicts on what is unchanged hold."""
        held = set(self.workspace.withdrawn.select("kind", "sha256").iter_rows())
        assert held == {(kind, tombstone(kind, key)) for kind, key in self.marks}
        for path in self.workspace.path.glob("*.parquet"):
            if path.stem != WITHDRAWN:
                self.check_nothing_withdrawn(pl.read_parquet(path))
        said = ReviewState.load(self.workspace).verdicts
        assert dict(said.select("segment_id", "verdict").iter_rows()) == self.judged
        if self.judged:
            warnings = evidence(self.workspace, precision=0.5).warnings
            assert not [line for line in warnings if "replaced" in line or "prove nothing" in line]

    def check_nothing_withdrawn(self, table: pl.DataFrame) -> None:
        names = self.gone | {key for _, key in self.marks}
        for column in table.select(pl.col(pl.String)):
            assert names.isdisjoint(column)


def _judged(row: dict) -> list[str]:
    return [row[name] for name in ("text", "asr", "start", "end")]


def _by_id(table: pl.DataFrame) -> dict[str, dict]:
    return {row["segment_id"]: row for row in table.iter_rows(named=True)}


def _named(key: str, row: dict) -> dict[str, str]:
    return {"segment": key, "recording": row["file"].partition(".")[0], "speaker": row["speaker"]}


def contents(folder: Path) -> dict[str, str]:
    files = (
        path for path in sorted(folder.rglob("*")) if path.is_file() and ".work" not in path.parts
    )
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def shards(folder: Path) -> dict[str, str]:
    return {
        shard["name"]: shard["sha256"]
        for shard in json.loads((folder / "corpus.json").read_text())["shards"]
    }


class Version:
    """A version of a corpus as it was when it was made."""

    def __init__(self, folder: Path):
        self.folder, self.shards, self.contents = folder, shards(folder), contents(folder)
        self.info = json.loads((folder / "corpus.json").read_text())
        self.table = pl.read_parquet(folder / "segments.parquet")
        self.rows = _by_id(self.table.with_columns(sentence=sentences(pl.col("text"))))
        self.rejected = _by_id(pl.read_parquet(folder / "rejected.parquet"))
        self.group_by = self.info["selection"]["parameters"]["group_by"]

    def metadata(self, key: str) -> dict:
        """The row of a segment without the location of its clip."""
        return {
            name: value
            for name, value in self.rows[key].items()
            if name not in LOCATION or name == "audio_sha256"
        }

    def clips(self) -> dict[str, bytes]:
        ids = sorted(self.rows)
        return dict(
            zip(
                ids,
                (clip.encoded for clip in open_corpus(self.folder).read_many(ids, give="encoded")),
                strict=True,
            )
        )


def does(action: Callable[[], object], *, unless: str | None) -> bool:
    """Return whether an action is done; an error that is not as `unless` is raised."""
    try:
        action()
    except InputError as error:
        if unless is None or not re.search(unless, str(error)):
            raise
        return False
    return True


class History:
    """Steps in random order, and versions of the corpus between them, each of which is checked."""

    def __init__(self, folder: Path, *, given_splits: bool, kills: bool, number: int):
        random = Random(number)
        self.given = given_splits
        splits = (
            ("train", "train", "dev-clean", "test", "validated", None) if given_splits else (None,)
        )
        self.archive = Archive(folder, splits=splits)
        self.archive.kills = Random(number) if kills else None
        self.versions: list[Version] = []
        self.container = random.choice(["webdataset", "parquet", "zip", "files"])
        self.size = random.choice(["30kB", "60kB"])
        self.is_stale = True  # the selection
        # With given splits, a coarser grouping of the same segments may share: `materialize` says
        # so.
        self.group_by = random.choice(GROUPINGS) if given_splits else None
        for _ in range(random.randint(3, 5)):
            self.archive.add(random)
        if given_splits:
            self.archive.rows["seg-0-0-"]["split"] = "test"
        self.archive.ingest()
        self.select(random)
        self.materialize(random)

    def run(self, name: str, number: int) -> None:
        random = Random(number)
        if name in ("select", "materialize"):
            getattr(self, name)(random)
            return
        getattr(self.archive, name)(random)
        if name not in ("withdraw", "review"):
            self.archive.ingest()
        self.is_stale |= name != "withdraw"
        self.archive.check_workspace()

    def select(self, random: Random) -> None:
        options = {
            "group_by": self.group_by or random.choice(GROUPINGS),
            "seed": random.randint(0, 9),
        }
        options |= {"min_similarity": random.choice([0.5, 0.8, 0.95])} | (
            {"splits": "source"} if self.given else {}
        )
        sizes = {name: random.choice([None, 0, 1, 2, 3]) for name in ("dev", "test")}
        workspace, run = self.archive.workspace, self.archive.run
        if not does(
            lambda: run(select, workspace, **options, **sizes),
            unless="are available|leave nothing for train",
        ):
            run(select, workspace, **options, dev=0, test=0)
        self.is_stale = False

    def materialize(self, random: Random) -> None:
        """Make the next version, and check it."""
        if self.is_stale:
            self.select(random)
        workspace, number = self.archive.workspace, len(self.versions) + 1
        base = self.versions[-1] if self.versions else None
        out, usual = (
            self.archive.folder / f"c{number}",
            {"container": self.container, "shard_size": self.size},
        )
        options = {"base": base.folder} if base else usual

        def make() -> None:
            self.archive.run(materialize, workspace, out=out, **options, **QUIET)

        # Refused is a selection without the splits of the base, made before the workspace grew:
        # what the message says helps, unless the workspace grew with such a selection, and has its
        # splits.
        if not does(make, unless="which is in|which has" if base else None):
            assert not (out / "corpus.json").exists()
            if not does(
                lambda: select(workspace, splits=base.folder), unless="in an earlier version"
            ):
                return
            make()
        report = workspace.report("materialize")
        whole = self.archive.folder / "whole"
        materialize(workspace, out=whole, **usual, **QUIET)
        version, rebuilt = Version(out), Version(whole)
        assert verify(out, **QUIET).problems == []
        assert report["facts"]["kept"] == len(version.rows)
        self.check_ledger(version)
        self.check_source(version)
        self.check_clips(version, rebuilt)
        if base:
            self.check_shards(base, version)
            self.check_diff(base, version)
        for earlier in self.versions:
            assert contents(earlier.folder) == earlier.contents
            self.check_held_out(earlier, version)
        shutil.rmtree(whole)
        self.versions.append(version)
        self.archive.check_workspace()

    def check_ledger(self, version: Version) -> None:
        """Every segment is in, or out with a reason; what was withdrawn is neither."""
        told = self.archive.told
        assert version.rows.keys() | version.rejected.keys() == told.keys()
        assert len(version.rows) + len(version.rejected) == len(told)
        assert all(row["reason"] for row in version.rejected.values())
        for name in ("segments", "rejected"):
            self.archive.check_nothing_withdrawn(
                pl.read_parquet(version.folder / f"{name}.parquet")
            )
        past = {key for key, row in told.items() if float(row["end"]) > 2.2}
        assert all(version.rejected[key]["reason"] == "past_the_end" for key in past)
        judged = self.archive.judged
        assert not [
            key for key in judged if key in version.rows and version.rows[key]["split"] == "train"
        ]

    def check_source(self, version: Version) -> None:
        """Guarantee 9: the columns of the source are what it said last."""
        for key, row in {**version.rejected, **version.rows}.items():
            told = self.archive.told[key]
            assert {name: row[column] for name, column in TOLD.items()} == {
                name: told[name] for name in TOLD
            }
            assert row.get("source_split") == told["split"]

    def check_clips(self, version: Version, rebuilt: Version) -> None:
        assert version.clips() == rebuilt.clips()
        columns = [
            name
            for name in version.table.columns
            if name not in (*LOCATION, "added_in") and name in rebuilt.table.columns
        ]
        assert (
            version.table.select(columns)
            .sort("segment_id")
            .equals(rebuilt.table.select(columns).sort("segment_id"))
        )

    def check_shards(self, base: Version, version: Version) -> None:
        """Shards of the base keep name and bytes if none of their clips changed."""
        columns = [name for name in base.table.columns if name not in ("shard", "offset", "length")]
        same = {
            key
            for key in base.rows.keys() & version.rows.keys()
            if all(base.rows[key][name] == version.rows[key][name] for name in columns)
        }
        for name, digest in base.shards.items():
            inside = {
                key
                for key, row in base.rows.items()
                if row["shard"] == name or row["shard"].startswith(f"{name}/")
            }
            assert inside
            if inside <= same:
                assert version.shards[name] == digest
            else:
                assert version.shards.get(name) != digest

    def check_diff(self, base: Version, version: Version) -> None:
        facts = diff(base.folder, version.folder).facts
        both = [
            (base.rows[key], version.rows[key]) for key in base.rows.keys() & version.rows.keys()
        ]
        assert facts["added"]["segments"] == len(version.rows.keys() - base.rows.keys())
        assert facts["removed"]["segments"] == len(base.rows.keys() - version.rows.keys())
        assert facts["moved"]["segments"] == sum(
            one["split"] != other["split"] for one, other in both
        )
        assert facts["changed"]["text"] == sum(one["text"] != other["text"] for one, other in both)
        assert facts["shards"]["equal"] == len(base.shards.items() & version.shards.items())

    def check_held_out(self, earlier: Version, version: Version) -> None:
        """Guarantee 10: what an earlier version held out is not in train, and nothing new of train
        shares with it."""
        held = {
            key: row
            for key, row in earlier.rows.items()
            if is_held_out(row["split"])
            and key not in self.archive.gone
            and self.archive.marks.isdisjoint(
                {
                    ("segment", key),
                    ("recording", row["recording_id"]),
                    ("speaker", row["speaker_id"]),
                }
            )
        }
        train = {key: row for key, row in version.rows.items() if not is_held_out(row["split"])}
        assert held.keys().isdisjoint(train)
        for key, row in train.items():
            if self.given and split_role(row["source_split"] or ""):
                continue
            before = earlier.rows.get(key)
            is_old = before is not None and not is_held_out(before["split"])
            if not is_old or before["sentence"] != row["sentence"]:
                assert row["sentence"] not in {other["sentence"] for other in held.values()}
            if not is_old:
                for column in earlier.group_by:
                    assert row[column] is None or row[column] not in {
                        other[column] for other in held.values()
                    }


STEPS = [
    "add",
    "change_text",
    "shift_bounds",
    "change_metadata",
    "replace_audio",
    "remove_rows",
    "withdraw",
    "review",
    "select",
    "materialize",
    "materialize",
]


def run_history(steps: list[tuple[str, int]], **options) -> int:
    """Return the number of versions."""
    with TemporaryDirectory() as folder:
        history = History(Path(folder), **options)
        for name, seed in steps:
            history.run(name, seed)
        history.materialize(Random(0))
        return len(history.versions)


@pytest.mark.slow
@pytest.mark.parametrize(("given_splits", "kills"), [(False, False), (True, True)])
def test_versions_keep_their_guarantees_over_a_history_of_all_steps(given_splits, kills):
    steps = [
        "review",
        "withdraw",
        "add",
        "change_text",
        "materialize",
        "replace_audio",
        "shift_bounds",
        "materialize",
        "add",
    ]
    steps = [(name, number) for number, name in enumerate(steps)]
    assert run_history(steps, given_splits=given_splits, kills=kills, number=1) == 4


@pytest.mark.slow
@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2**20)), min_size=6, max_size=8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_versions_keep_their_guarantees_over_random_histories(steps, given_splits, kills, number):
    assert run_history(steps, given_splits=given_splits, kills=kills, number=number)


# --- growth and its withdrawal


def tables(workspace: Workspace) -> dict[str, pl.DataFrame]:
    """The tables without those of the history: what was withdrawn, and when what was added."""
    history = ("withdrawn", "growth", "earlier_splits")
    return {
        path.stem: pl.read_parquet(path)
        for path in workspace.path.glob("*.parquet")
        if path.stem not in history
    }


def grow_and_withdraw(
    folder: Path, random: Random, *, way: str, further: bool, again: bool
) -> None:
    """Make a corpus, grow the workspace, make a version, withdraw what came; all is then as it was
    before.

    `again` selects after the withdrawal; only then may segments without a given split be divided
    among the others.
    """
    splits = ("train", "train", "train", "dev", "test", *((None,) if again else ()))
    archive = Archive(folder, splits=splits)
    for _ in range(random.randint(3, 4)):
        archive.add(random)
    archive.rows["seg-0-0-"]["split"] = "train"
    archive.rows["seg-1-0-"]["split"] = "test"
    mine = dict(archive.rows)
    for _ in range(random.randint(1, 3)):
        archive.add(random)
    new = {key: row for key, row in archive.rows.items() if key not in mine}
    workspace, source = archive.workspace, archive.write(folder / "source.jsonl", mine)
    named = [
        {"segment_id": key, "split": row["split"]}
        for key, row in archive.rows.items()
        if row["split"]
    ]
    pl.DataFrame(named).write_csv(folder / "splits.csv")
    grouping = random.choice(GROUPINGS)
    threshold = random.choice([0.5, 0.8])

    def choose() -> None:
        score(workspace)
        given_by = "source" if way == "source" else folder / "splits.csv"
        select(workspace, splits=given_by, group_by=grouping, min_similarity=threshold)

    def corpus(name: str, base: str | None = None) -> Version:
        kind = {"base": folder / base} if base else {"container": container, "shard_size": "30kB"}
        report = materialize(workspace, out=folder / name, **kind, **QUIET)
        assert verify(folder / name, **QUIET).problems == []
        assert not base or not name.startswith("after") or report.facts["clips_cut_now"] == 0
        return Version(folder / name)

    container = random.choice(["webdataset", "parquet", "zip", "files"])
    archive.bring(source, add=False)
    choose()
    alone, before = corpus("alone"), tables(workspace)
    if further:
        archive.bring(archive.write(folder / "more.jsonl", new), add=True)
    else:
        archive.bring(archive.write(source, archive.rows), add=True)
    choose()
    grown = corpus("grown", "alone")
    assert grown.rows.keys() - alone.rows.keys()
    withdraw(
        workspace,
        recording=sorted({row["file"].partition(".")[0] for row in new.values()}),
        why="consent withdrawn",
    )
    if again:
        choose()
    for name, base in (("again", None), ("after1", "alone"), ("after2", "grown")):
        version = corpus(name, base)
        assert version.shards == alone.shards or not alone.shards.items() <= grown.shards.items()
        assert version.clips() == alone.clips()
        place = [
            name
            for name in alone.table.columns
            if base != "grown" or name not in ("shard", "offset", "length")
        ]
        assert version.table.columns == alone.table.columns
        assert (
            version.table.select(place)
            .sort("segment_id")
            .equals(alone.table.select(place).sort("segment_id"))
        )
        assert version.rejected == alone.rejected
    after = tables(workspace)
    assert after.keys() == before.keys()
    for name, table in before.items():
        assert after[name].drop("source_number", strict=False).equals(table), name
    differences = diff(alone.folder, folder / "after2").facts
    assert [differences[name]["segments"] for name in ("added", "removed", "moved", "changed")] == [
        0,
        0,
        0,
        0,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "further", "again"), [("source", False, False), ("table", True, True)]
)
def test_adding_and_withdrawing_recordings_leaves_the_selection_unchanged(
    tmp_path, way, further, again
):
    grow_and_withdraw(tmp_path, Random(3), way=way, further=further, again=again)


@pytest.mark.slow
@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.integers(0, 2**20), st.sampled_from(["source", "table"]), st.booleans(), st.booleans())
def test_adding_and_withdrawing_random_recordings_leaves_the_selection_unchanged(
    number, way, further, again
):
    with TemporaryDirectory() as folder:
        grow_and_withdraw(Path(folder), Random(number), way=way, further=further, again=again)


@pytest.mark.slow
def test_segments_held_out_before_the_base_stay_out_of_train(tmp_path):
    archive = Archive(tmp_path)
    for number in range(4):
        archive.add(Random(number))
    archive.ingest()
    workspace = archive.workspace
    select(workspace, group_by="", dev=2, test=2, seed=1, min_similarity=-1)
    materialize(workspace, out=tmp_path / "c1", container="files", **QUIET)
    held_out = workspace.segments.filter(pl.col("split").is_in(["dev", "test"]))[
        "segment_id"
    ].to_list()
    decided = pl.DataFrame({"segment_id": held_out, "decision": "reject", "reason": "noise"})
    workspace.save(decisions=decided)
    select(workspace, splits=tmp_path / "c1", group_by="", min_similarity=-1)
    materialize(workspace, out=tmp_path / "c2", base=tmp_path / "c1", **QUIET)
    workspace.save(decisions=decided.clear())
    select(workspace, group_by="", min_similarity=-1)
    assert (
        workspace.segments.filter(pl.col("segment_id").is_in(held_out))["split"]
        .is_in(["dev", "test"])
        .all()
    )
    materialize(workspace, out=tmp_path / "c3", base=tmp_path / "c2", **QUIET)
    assert set(held_out) <= Version(tmp_path / "c3").rows.keys()
