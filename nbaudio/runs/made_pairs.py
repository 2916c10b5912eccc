"""The demo's second act: a proof on made pairs of texts.

Nine minutes of audio can prove little. This runs the same steps on 2,000 made pairs of a transcript
and a hypothesis, with the verdicts of two returned rounds.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbaudio.core.atomic import remove, sha256_file
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.proof.evidence import evidence, first_answer
from nbaudio.review import export, import_
from nbaudio.selection.select import select
from nbaudio.sources.ingest import ingest
from nbaudio.storage.run_log import step_lock
from nbaudio.tables.workspace import Workspace
from nbaudio.text.score import score

_MIN_SIMILARITY = 0.8
_REVIEWED_PAIRS = 150  # pairs that are reviewed in each round
_GROUPS = "session"  # the column whose groups get bounds of their own
_PLANTED = 40  # planted faults in the second round
_REPORT = "made_pairs"
_LOCK_WAIT_S = 600.0  # seconds to wait for another process that proves the same pairs
_FACTS = (
    "pairs",
    "rule",
    "verdicts",
    "after_round_1",
    "after_round_2",
    "target_proven",
    "worst_group",
    "reviewers",
    "word_errors",
)


@dataclass(frozen=True)
class MadePairs:
    """The files of made pairs in a folder: the pairs, and the returned sheets of two rounds."""

    pairs: Path
    rounds: tuple[Path, Path]

    @classmethod
    def of(cls, folder: Path) -> "MadePairs":
        """Return the files of a folder; raise InputError if one is missing."""
        files = cls(folder / "pairs.csv", (folder / "round-1.csv", folder / "round-2.csv"))
        for path in (files.pairs, *files.rounds):
            if not path.is_file():
                raise InputError(f"{path}: there is no such file of made pairs")
        return files

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file by its name."""
        return {path.name: sha256_file(path) for path in (self.pairs, *self.rounds)}


def prove_made_pairs(made_pairs: str | Path | None, out: str | Path) -> Report | None:
    """Run the steps from ingest to evidence on made pairs, and report what each round proves.

    The rule of the selection is fixed before the first verdict is seen: pairs of a similarity of
    0.8 or more. Each round draws 150 pairs, and a simulated reviewer returns their verdicts. The
    first round fixes the three sessions as groups, which get bounds of their own.

    A run begins this before its notebooks (`kernel_server`); the notebook then waits for it.

    Args:
        made_pairs: the folder of the made pairs; None: there are none, as with your own data.
        out: the folder to write, with ``workspace`` and ``sheets``. The workspace is made anew
            unless it was made of the same files.

    Returns:
        The number of pairs, what is proven after each round, whether the target is reached, and
        what is proven of the worst session.
        None if there are no made pairs.

    Raises:
        InputError: the folder lacks a file.
        ExistsError: another process does not end its proof of these pairs.
    """
    if made_pairs is None:
        return None
    files = MadePairs.of(Path(made_pairs))
    hashes = files.hashes()
    out = Path(out)
    workspace = out / "workspace"
    with step_lock(out / ".running", "the proof of made pairs", of=out, wait_s=_LOCK_WAIT_S):
        if _stored_facts(workspace).get("hashes") != hashes:
            remove(workspace)
            facts = _prove(files, workspace)
            report = Report("made pairs", facts | {"hashes": hashes})
            Workspace.open(workspace).save_report(_REPORT, report.to_dict())
    stored = _stored_facts(workspace)
    return Report("made pairs", {name: stored[name] for name in _FACTS})


def _stored_facts(workspace: Path) -> dict[str, Any]:
    """Return the facts of an earlier run that ended; empty if there was none."""
    if not workspace.is_dir():
        return {}
    facts: dict[str, Any] = Workspace.open(workspace).report(_REPORT).get("facts", {})
    return facts


def _prove(files: MadePairs, workspace: Path) -> dict[str, Any]:
    """Make a workspace of the pairs, and return the facts of each step."""
    ingested = ingest("table", files.pairs, out=workspace)
    score(workspace)
    select(workspace, min_similarity=_MIN_SIMILARITY)
    return {
        "pairs": ingested.facts["segments"],
        "rule": f"similarity of at least {_MIN_SIMILARITY}, fixed before the first verdict",
        "verdicts": "simulated: of a reviewer who knows which made pairs are wrong",
        **_import_round(workspace, files.rounds[0]),
        **_import_round(workspace, files.rounds[1], planted=_PLANTED),
        **_answers(evidence(workspace)),
    }


def _answers(report: Report) -> dict[str, str]:
    """Return what a report of `evidence` says of the target, groups, reviewers and words."""
    facts = report.facts
    [worst_group] = facts["worst_groups"]
    return {
        "target_proven": facts["target_proven"],
        "worst_group": worst_group,
        "reviewers": facts["reviewers"],
        "word_errors": facts["word_errors"],
    }


def _import_round(workspace: Path, returned: Path, *, planted: int = 0) -> dict[str, str]:
    """Draw a round, import its returned sheet, and return what all rounds so far prove."""
    sheet = workspace.parent / "sheets" / returned.name
    export(
        workspace,
        out=sheet,
        n=_REVIEWED_PAIRS,
        strategy="stratified",
        by=_GROUPS,
        planted=planted,
    )
    import_(workspace, returned)
    answer = first_answer(workspace)
    reviewed = answer.right + answer.wrong
    name = f"after_{returned.stem.replace('-', '_')}"
    return {name: f"{reviewed} reviewed, {answer.wrong} wrong. {answer.how_right}"}
