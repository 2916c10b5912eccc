"""The statistics page: self-contained, markup and formulas escaped, the same for workspace and
corpus."""

import json
from base64 import b64decode
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from conftest import build_workspace
from hostile import CELLS, MARKUP

from nbaudio import review
from nbaudio.audio import decode_clip
from nbaudio.core.errors import InputError
from nbaudio.core.report import percent
from nbaudio.corpus.materialize import materialize
from nbaudio.proof.evidence import evidence, selection_claim
from nbaudio.review.state import ReviewState, Verdict, append_verdicts
from nbaudio.selection.select import select
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import plots, segment_rows, views
from nbaudio.ui.statistics import examples
from nbaudio.ui.statistics.page_html import Section, render_page
from nbaudio.ui.statistics.stats import stats
from nbaudio.ui.statistics.stats_page import write_workbook
from nbaudio.ui.widgets import static_html

WHEN = "2026-11-21T03:00:00Z"
HOSTILE = [*MARKUP[:5], *MARKUP[9:11], *CELLS[:5], *CELLS[13:17]]


class Reader(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.texts, self.inside = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        self.texts.append(data)


def read(html):
    reader = Reader()
    reader.feed(html)
    return reader


def make_hostile(folder, recorded):
    """A workspace of hostile texts and speakers, of which a few segments are out."""
    recordings = {"one.wav": (60.0, 16000), "two.flac": (30.0, 16000)}
    workspace = build_workspace(folder, recorded, recordings, channels=1)
    number = pl.int_range(pl.len())
    odd = pl.Series(HOSTILE).gather([i % len(HOSTILE) for i in range(workspace.segments.height)])
    workspace.save(
        segments=workspace.segments.with_columns(
            text=pl.lit(odd),
            speaker_id=pl.lit(odd),
            similarity=pl.when(number % 9 == 8).then(0.3).otherwise(0.9),
            wer=0.1,
        )
    )
    select(workspace, dev=2, test=2, group_by="")
    return workspace


@pytest.fixture
def workspace(tmp_path, recorded):
    return make_hostile(tmp_path, recorded)


@pytest.fixture
def corpus(workspace, tmp_path):
    materialize(workspace, out=tmp_path / "c", jobs=1, engine="threading", show_progress=False)
    return tmp_path / "c"


@dataclass(frozen=True)
class Pages:
    """A workspace, its corpus, and the pages and reports of both, which tests only read."""

    workspace: Workspace
    corpus: Path
    of_workspace: Path
    of_corpus: Path
    facts: dict[Path, dict]


@pytest.fixture(scope="module")
def pages(tmp_path_factory, recorded):
    folder = tmp_path_factory.mktemp("pages")
    workspace = make_hostile(folder, recorded)
    materialize(workspace, out=folder / "c", jobs=1, engine="threading", show_progress=False)
    pages = {folder / "w.html": workspace.path, folder / "c.html": folder / "c"}
    facts = {page: stats(path, out=page).facts for page, path in pages.items()}
    return Pages(workspace, folder / "c", *pages, facts)


@pytest.mark.slow
def test_a_statistics_page_is_self_contained_and_runs_no_script(pages):
    for page in (pages.of_workspace, pages.of_corpus):
        assert pages.facts[page]["page"] == str(page)
        found = read(page.read_text(encoding="utf8"))
        assert not {"script", "iframe", "link", "object", "form", "foreignobject", "animate"} & set(
            found.tags
        )
        assert not [name for _, name, _ in found.attributes if name.startswith("on")]
        sources = [value for _, name, value in found.attributes if name in ("src", "href")]
        assert all(
            value.startswith(("data:image/png;base64,", "data:audio/mpeg;base64,", "#"))
            for value in sources
        )
        assert found.tags.count("svg") >= 3
        names = [value for tag, name, value in found.attributes if name == "id"]
        assert len(names) == len(set(names))
        policy = [
            value for tag, name, value in found.attributes if tag == "meta" and name == "content"
        ]
        assert policy[0].startswith("default-src 'none'")
        assert str(page.parent) not in "".join(found.texts)


@pytest.mark.slow
def test_results_do_not_depend_on_the_rows_that_are_read_at_once(
    workspace, corpus, tmp_path, monkeypatch
):
    def results(path):
        facts = stats(
            path, out=None if path == workspace.path else tmp_path / "p.html", audio=False
        ).facts
        found = [
            getattr(views, name)(path)
            for name in ("segments", "threshold_curve", "speakers", "reasons", "error_rates")
        ]
        found += [
            views.error_rates(path, by=by, where="duration_s > 1.0 and duration_s < 9.0")
            for by in ("split", "duration")
        ]
        found += [
            views.words(path, where="similarity <= avg(similarity)"),
            views.segments(path, further=True),
        ]
        return facts, [repr((frame.schema, frame.rows())) for frame in found]

    def all_results():
        chosen = [
            views.examples(workspace, order, n=4, where="similarity < 0.5 or similarity > 0.8")
            for order in views.ORDERS
        ]
        few = views.examples(
            workspace,
            "random",
            ids=views.segments(workspace)["segment_id"][::5],
            where="wer >= avg(wer)",
        )
        odd = [views.characters(workspace), views.recordings(workspace), few, *chosen]
        return (
            *map(results, (workspace.path, corpus)),
            [frame.rows() for frame in odd],
            (tmp_path / "p.html").read_bytes(),
        )

    expected = all_results()
    monkeypatch.setattr(segment_rows, "ROWS", 3)
    assert all_results() == expected


def test_only_the_columns_that_are_needed_are_read(workspace):
    ids, number = views.segments(workspace)["segment_id"], len(workspace.segments)
    workspace.save(segments=workspace.segments.with_columns(similarity=pl.lit("none")))
    assert views.reasons(workspace)["segments"].sum() < number
    with pytest.raises(InputError, match="similarity is String"):
        views.threshold_curve(workspace)
    with pytest.raises(InputError, match="no segment 'absent'"):
        views.examples(workspace, "random", ids=[*ids[:2], "absent"])
    read = segment_rows.workspace_rows(workspace)
    assert read.where(" ").filter(pl.col("text").is_null()).read(
        "segment_id", "segment_id"
    ).shape == (0, 1)
    assert read.where("1 = 1").read("segment_id")["segment_id"].equals(ids)


@pytest.mark.slow
def test_hostile_names_are_shown_as_text(pages):
    texts = read(pages.of_workspace.read_text(encoding="utf8")).texts
    speakers = views.speakers(pages.workspace)["speaker_id"].to_list()
    assert set(speakers) == set(HOSTILE)
    assert set(HOSTILE) <= set(texts)


@pytest.mark.slow
def test_pages_that_are_made_together_equal_those_made_alone(pages, tmp_path):
    together = [tmp_path / "together.xlsx", tmp_path / "together.html"]
    report = stats(pages.corpus, out=together)
    assert report.facts["page"] == f"{together[0]}, {together[1]}"
    for path in together:
        alone = tmp_path / f"alone{path.suffix}"
        stats(pages.corpus, out=alone)
        assert path.read_bytes() == alone.read_bytes()
    with pytest.raises(InputError, match=r"p\.pdf: a page is written as \.html or \.xlsx"):
        stats(pages.corpus, out=[tmp_path / "p.html", tmp_path / "p.pdf"])
    assert not (tmp_path / "p.html").exists()


@pytest.mark.slow
def test_cells_of_the_workbook_are_texts_or_numbers(pages, tmp_path):
    for path in (pages.workspace.path, pages.corpus):
        stats(path, out=tmp_path / "p.xlsx")
        book = openpyxl.load_workbook(tmp_path / "p.xlsx")
        cells = [
            cell
            for sheet in book
            for row in sheet.iter_rows()
            for cell in row
            if cell.value is not None
        ]
        assert {cell.data_type for cell in cells} == {"s", "n"}
        assert not [cell for cell in cells if cell.hyperlink]
        texts = {cell.value for cell in cells if cell.data_type == "s"}
        assert set(HOSTILE) <= texts
        assert sum(len(sheet._images) for sheet in book) >= 3
        hours = next(cell for cell in book["Splits and speakers"][6] if cell.column == 3)
        assert hours.value == stats(path).facts["train"]["hours"]


@pytest.mark.slow
def test_equal_tables_make_equal_files(pages, tmp_path):
    for name in ("a.xlsx", "b.xlsx", "b.html"):
        stats(pages.workspace.path, out=tmp_path / name)
    assert (tmp_path / "a.xlsx").read_bytes() == (tmp_path / "b.xlsx").read_bytes()
    assert pages.of_workspace.read_bytes() == (tmp_path / "b.html").read_bytes()


def played(page):
    """Ids of the clips of a page with their samples, and all texts."""
    found = read(page.read_text(encoding="utf8"))
    labels = [
        value for tag, name, value in found.attributes if (tag, name) == ("audio", "aria-label")
    ]
    data = [
        value.partition(",")[2]
        for tag, name, value in found.attributes
        if (tag, name) == ("audio", "src")
    ]
    return list(
        zip(labels, (decode_clip(b64decode(text), "mp3") for text in data), strict=True)
    ), found.texts


@pytest.mark.slow
def test_the_page_plays_examples_of_each_finding(pages):
    workspace = pages.workspace
    clips, texts = played(pages.of_workspace)
    rejected = set(workspace.segments.filter(pl.col("decision") == "reject")["segment_id"])
    heard = {name for name, _ in clips}
    assert heard & rejected
    assert heard - rejected
    assert {
        "Kept, with the lowest similarity",
        "Lowest similarity of all",
        "One segment of each reason",
    } <= set(texts)
    assert "reason: below_similarity" in texts
    lengths = dict(views.segments(workspace).select("segment_id", "duration_s").iter_rows())
    for name, (samples, rate) in clips:
        assert len(samples) / rate == pytest.approx(lengths[name], abs=0.01)
    # What is not in the corpus has its words alone.
    clips, texts = played(pages.of_corpus)
    assert clips
    assert not {name for name, _ in clips} & rejected
    assert [text for text in texts if "no sound: it is not in the corpus" in text]


@pytest.mark.slow
def test_examples_without_audio_still_show_their_words(workspace, tmp_path, monkeypatch):
    page = tmp_path / "p.html"
    stats(workspace.path, out=page, audio=False)
    assert played(page)[0] == []
    monkeypatch.setattr(examples, "LONGEST_S", 1)
    monkeypatch.setattr(static_html, "MOST_BYTES", 20_000)
    stats(workspace.path, out=page)
    clips, texts = played(page)
    assert 0 < sum(len(samples) for _, (samples, _) in clips) < 16_000 * 6
    assert {"the first 1 s of it", "no sound: the page holds 0.02 MB of it already"} <= {
        text.lstrip("⚠ ") for text in texts
    }
    for path in workspace.recordings["path"]:
        (workspace.audio / path).local.unlink()
    stats(workspace.path, out=page)
    clips, texts = played(page)
    assert clips == []
    assert [text for text in texts if "no sound: " in text and "one.wav" in text]
    assert str(tmp_path) not in "".join(texts)


@pytest.mark.slow
def test_headline_figures_come_first_and_say_what_is_missing(pages):
    facts = pages.facts[pages.of_workspace]
    texts = [
        text for text in read(pages.of_workspace.read_text(encoding="utf8")).texts if text.strip()
    ]
    start = texts.index("Overview")
    figures = texts[start : texts.index("Durations and similarity")]
    assert [
        figures[figures.index(name) + 1] for name in ("segments", "speakers", "recordings")
    ] == [str(facts[name]) for name in ("segments_kept", "speakers", "recordings")]
    assert figures[figures.index("right labels") + 1] == "not known"
    assert "nbaudio review export W" in figures[figures.index("right labels") + 2]


@pytest.mark.slow
def test_the_section_on_audio_signals_is_there_once_they_are_measured(workspace, tmp_path):
    stats(workspace.path, out=tmp_path / "p.html", audio=False)
    assert "Audio signals" not in read((tmp_path / "p.html").read_text(encoding="utf8")).texts
    assert "signals" not in stats(workspace.path).facts
    number = pl.int_range(pl.len())
    snr = pl.when(number % 3 > 0).then(number * 1.5)
    workspace.save(segments=workspace.segments.with_columns(snr_db=snr, cut_end=number % 4 == 0))
    stats(workspace.path, out=tmp_path / "p.html", audio=False)
    texts = [text.strip() for text in read((tmp_path / "p.html").read_text(encoding="utf8")).texts]
    table = texts[texts.index("missing [%]") :]
    assert table[table.index("cut_end") + 1] == "0"
    assert table[table.index("snr_db") + 1].startswith("33.3")
    expected = workspace.segments["snr_db"].median()
    share = workspace.segments["cut_end"].mean()
    assert f"SNR: median {expected:.1f} dB; cut_end: {share:.1%}" in " ".join(texts)
    in_report = {
        row["signal"]: row
        for row in stats(workspace.path, out=tmp_path / "p.xlsx", audio=False).facts["signals"]
    }
    kept = workspace.segments.filter(pl.col("decision").ne_missing("reject"))
    assert in_report["snr_db"]["median"] == round(kept["snr_db"].median(), 4)
    assert in_report["cut_end"]["true"] == round(kept["cut_end"].mean(), 4)


def test_a_workspace_and_its_corpus_have_the_same_figures(workspace, corpus):
    ours, theirs = stats(workspace.path).facts, stats(corpus).facts
    assert ours | {"of": ""} == theirs | {"of": ""}
    assert ours["segments_kept"] + ours["segments_rejected"] == workspace.segments.height
    columns = [
        name
        for name in views.segments(corpus).columns
        if name not in ("decision", "reason", "split")
    ]
    left, right = (
        views.segments(path).select(columns).sort("segment_id") for path in (workspace, corpus)
    )
    assert left.drop("duration_s").equals(right.drop("duration_s"))
    assert views.reasons(workspace).drop("example").equals(views.reasons(corpus).drop("example"))
    assert views.speakers(workspace).equals(views.speakers(corpus))


@pytest.mark.slow
def test_the_page_shows_the_evidence_of_the_labels(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=12, seed=1)
    drawn = ReviewState.load(workspace).records["one"]
    said = [
        Verdict(*pair, "ok", "", None, "ana", WHEN, "one")
        for pair in zip(drawn.segment_ids, drawn.contents, strict=True)
    ]
    append_verdicts(workspace, said)
    evidence(workspace)
    # What was said since counts too.
    append_verdicts(
        workspace, [replace(said[0], verdict="noise"), replace(said[1], verdict="noise")]
    )
    facts = selection_claim(workspace)
    claim = facts["selection"]
    told = str(round(claim["precision"], 3))
    assert 0 < claim["precision"] < 1
    stats(workspace.path, out=tmp_path / "p.html", audio=False)
    texts = read((tmp_path / "p.html").read_text(encoding="utf8")).texts
    assert {told, claim["statement"]} <= set(texts)
    materialize(workspace, out=tmp_path / "c", jobs=1, engine="threading", show_progress=False)
    assert json.loads((tmp_path / "c/corpus.json").read_text(encoding="utf8"))["evidence"] == facts
    card = (tmp_path / "c/README.md").read_text(encoding="utf8")
    assert f"| right, estimated share | {percent(claim['precision'])} |" in card
    assert claim["statement"] in card
    drawn_points = (
        plots.claimed(pl.DataFrame(facts["curve"])).axes[0].lines[-1].get_ydata().tolist()
    )
    assert drawn_points == [row["precision"] for row in facts["curve"]]
    stats(tmp_path / "c", out=tmp_path / "p.xlsx", audio=False)
    sheet = openpyxl.load_workbook(tmp_path / "p.xlsx")["How right the labels are"]
    assert len(sheet._images) == 1
    assert {row["precision"] for row in facts["curve"]} <= {
        cell.value for line in sheet.iter_rows() for cell in line
    }


@pytest.mark.parametrize(
    "missing",
    [
        ["similarity", "wer", "cer", "asr_text"],
        *(
            pytest.param(names, marks=pytest.mark.slow)
            for names in (["text"], ["speaker_id"], ["split", "decision", "reason"])
        ),
    ],
)
@pytest.mark.slow
def test_a_page_of_an_unfinished_workspace_can_be_made(workspace, tmp_path, missing):
    empty = {
        name: pl.lit(None, dtype=workspace.segments.schema[name])
        for name in missing
        if name != "decision"
    }
    pending = {"decision": pl.lit("pending")} if "decision" in missing else {}
    workspace.save(segments=workspace.segments.with_columns(**empty, **pending))
    (workspace.path / "reports/select.json").unlink()
    stats(workspace.path, out=tmp_path / "p.html", audio=False)
    assert read((tmp_path / "p.html").read_text(encoding="utf8")).tags.count("svg") == 3


@pytest.mark.slow
def test_segments_without_a_decision_count_as_kept(workspace, tmp_path):
    workspace.save(segments=workspace.segments.with_columns(decision=None, reason=None))
    facts = stats(workspace.path, out=tmp_path / "p.html", audio=False).facts
    assert (facts["segments_kept"], facts["segments_rejected"]) == (workspace.segments.height, 0)


def test_a_page_of_an_empty_workspace_can_be_made(workspace, tmp_path):
    workspace.save(segments=workspace.segments.clear())
    assert stats(workspace.path, out=tmp_path / "p.html").facts["segments_kept"] == 0


@pytest.mark.parametrize("name", ["p.pdf", "p", "p.xls"])
def test_a_page_is_html_or_xlsx(workspace, tmp_path, name):
    with pytest.raises(InputError, match=r"a page is written as \.html or \.xlsx"):
        stats(workspace.path, out=tmp_path / name)
    assert not (tmp_path / name).exists()


def test_markup_in_titles_and_captions_is_escaped():
    part = Section(
        "[x]: a/b*?" * 9, "<b>", {"<i>": pl.DataFrame({"<u>": ["<s>"], "n": [float("nan")]})}
    )
    found = read(render_page("<title>", [part]))
    assert not {"b", "i", "u", "s"} & set(found.tags)
    book = openpyxl.load_workbook(BytesIO(write_workbook("=1+1", [part])))
    values = [
        cell.value
        for row in book.worksheets[0].iter_rows()
        for cell in row
        if cell.value is not None
    ]
    assert values[1:] == ["<b>", "<i>", "<u>", "n", "<s>", "nan"]
    assert values[0].startswith("=1+1: [x]")


@pytest.mark.slow
def test_error_rates_of_hypotheses_are_in_report_and_page(workspace, tmp_path):
    assert [row["hypothesis"] for row in stats(workspace.path).facts["model_against_label"]] == [
        "asr",
        "asr",
    ]
    texts = workspace.segments.with_columns(
        asr_text_big=pl.lit("sasvim krivo"), speaker_id=pl.concat_str("segment_id", pl.lit("'"))
    )
    workspace.save(segments=texts)
    rows = stats(workspace.path, out=tmp_path / "p.html", audio=False).facts["model_against_label"]
    assert [(row["group"], row["hypothesis"]) for row in rows] == [
        ("dev", "asr"),
        ("dev", "big"),
        ("test", "asr"),
        ("test", "big"),
    ]
    assert rows[1]["wer_difference"] == pytest.approx(rows[1]["wer"] - rows[0]["wer"], abs=1e-3)
    texts = read((tmp_path / "p.html").read_text(encoding="utf8")).texts
    assert {
        "Model against label",
        "Error rates [%]",
        "Speakers with the highest rates [%]",
        "By duration [%]",
    } <= set(texts)
    # A second hypothesis is compared without splits too; a single one of a source only in held-out
    # splits.
    nothing = workspace.segments.with_columns(split=pl.lit(None, pl.String))
    workspace.save(segments=nothing)
    assert [row["group"] for row in stats(workspace.path).facts["model_against_label"]] == [
        "out",
        "out",
    ]
    workspace.save(segments=nothing.drop("asr_text_big"))
    page = tmp_path / "q.html"
    assert "model_against_label" not in stats(workspace.path, out=page, audio=False).facts
    assert "Model against label" not in (tmp_path / "q.html").read_text(encoding="utf8")
