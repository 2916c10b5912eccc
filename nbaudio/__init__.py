"""Turn long recordings with transcripts into a training corpus whose label quality is known.

The hypotheses of a recognizer are the third input.

Each step is a function named as its command, tables in and tables out:

    ingest -> score -> measure -> review.export -> evidence -> select -> materialize -> verify

`open_corpus` reads the corpus. Names are imported on first use (SPEC 1, PEP 562).
"""

from typing import TYPE_CHECKING

from nbaudio.core import lazy_imports
from nbaudio.core.version import __version__ as __version__

if TYPE_CHECKING:
    from nbaudio import review as review
    from nbaudio.core.errors import NbaudioError as NbaudioError
    from nbaudio.core.report import Report as Report
    from nbaudio.corpus.convert import convert as convert
    from nbaudio.corpus.diff import diff as diff
    from nbaudio.corpus.materialize import materialize as materialize
    from nbaudio.corpus.publish import publish as publish
    from nbaudio.corpus.status import status as status
    from nbaudio.corpus.verify import verify as verify
    from nbaudio.corpus.withdraw import withdraw as withdraw
    from nbaudio.formats.export import export as export
    from nbaudio.proof.evidence import evidence as evidence
    from nbaudio.reading import open_corpus as open_corpus
    from nbaudio.reading.clips import clip as clip
    from nbaudio.recognition.measure import measure as measure
    from nbaudio.recognition.recognize import recognize as recognize
    from nbaudio.runs.demo import demo as demo
    from nbaudio.runs.run import run as run
    from nbaudio.runs.wheel import wheel as wheel
    from nbaudio.selection.select import select as select
    from nbaudio.sources.align import align as align
    from nbaudio.sources.download import download as download
    from nbaudio.sources.ingest import ingest as ingest
    from nbaudio.sources.join import join as join
    from nbaudio.tables.workspace import Workspace as Workspace
    from nbaudio.text.score import score as score
    from nbaudio.ui.statistics.audit import audit as audit
    from nbaudio.ui.statistics.stats import stats as stats

# Public names of nested modules.
lazy_imports.alias(
    __name__,
    {
        "adapters": "nbaudio.reading.adapters",
        "leakage": "nbaudio.selection.leakage",
        "plots": "nbaudio.ui.plots",
        "versions": "nbaudio.corpus.versions",
        "views": "nbaudio.ui.views",
        "widgets": "nbaudio.ui.widgets",
    },
)
__getattr__, __dir__, __all__ = lazy_imports.attach(__name__)
