"""Review pages: what is in them and what is not, and the verdict files that they save."""

import base64
import hashlib
import json
import re
import zipfile
from html.parser import HTMLParser

import pytest
from hostile import NAMES, WORST
from sheets import make_workspace

from nbaudio import review
from nbaudio.core import input_guards
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.review import review_page


class Elements(HTMLParser):
    """The elements of a page, the text of scripts by id, and the attributes of the rest."""

    def __init__(self, html):
        super().__init__(convert_charrefs=False)
        self.tags, self.texts, self.policy, self.inside = [], {}, "", False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.inside = tag in {"script", "style"}
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            tag, attributes = self.tags[-1]
            key = attributes.get("id", tag)
            self.texts[key] = self.texts.get(key, "") + data


def elements(path):
    return Elements(path.read_bytes().decode())


def data_of(path):
    return json.loads(elements(path).texts["data"])


def verdict_file(
    page, said, *, to=None, reviewer="ana", saved="2001-01-01T00:00:00.000Z", **changes
):
    """Write the verdict file of a page: `said` has a verdict or a dict of fields by segment id."""
    data = data_of(page)
    rows = []
    for clip in data["clips"]:
        given = said.get(clip["segment_id"], "")
        given = {"verdict": given} if isinstance(given, str) else given
        row = {
            "segment_id": clip["segment_id"],
            "content": clip["content"],
            "verdict": "",
            "comment": "",
            "corrected_text": "",
        }
        rows.append({**row, "time": saved if given.get("verdict") else "", **given})
    file = {
        "format": "nbaudio verdicts 1",
        "review": data["review"],
        "corpus": data["corpus"],
        "reviewer": reviewer,
    }
    file |= {"saved": saved, "verdicts": rows, **changes}
    path = to or page.with_name(f"{page.stem}-verdicts.json")
    path.write_text(json.dumps(file))
    return path


def current_verdicts(workspace):
    """Verdicts by segment."""
    return dict(review.verdicts(workspace).select("segment_id", "verdict").iter_rows())


@pytest.fixture
def workspace(tmp_path):
    return make_workspace(tmp_path / "w", audio=tmp_path / "audio")


@pytest.fixture
def page(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "page.html", n=4)
    return tmp_path / "page.html"


# --- the page


def test_a_review_page_runs_only_its_own_script_and_fetches_nothing(page):
    found = elements(page)
    policy = dict(rule.strip().split(" ", 1) for rule in found.policy.split(";"))
    digests = {
        name: hashlib.sha256(found.texts[name].encode()).digest() for name in ("script", "style")
    }
    hashes = {
        name: f"'sha256-{base64.b64encode(digest).decode()}'" for name, digest in digests.items()
    }
    assert (
        policy["default-src"],
        policy["connect-src"],
        policy["form-action"],
        policy["base-uri"],
    ) == ("'none'",) * 4
    assert (policy["script-src"], policy["style-src"], policy["media-src"]) == (
        hashes["script"],
        hashes["style"],
        "blob:",
    )
    executed = [
        attributes for tag, attributes in found.tags if tag == "script" and "type" not in attributes
    ]
    assert executed == [{}]
    assert not [
        tag for tag, attributes in found.tags if {"src", "href", "style"} & attributes.keys()
    ]
    assert not re.search(rb"https?:|//[a-z]+\.", page.read_bytes().replace(b"// ", b""))


def test_a_page_has_the_same_bytes_each_time_and_no_local_paths(workspace, page, tmp_path):
    first = page.read_bytes()
    review.export(workspace, out=page, n=4)
    assert page.read_bytes() == first
    assert str(tmp_path).encode() not in first
    page.write_bytes(first + b" ")
    with pytest.raises(ExistsError, match="other content"):
        review.export(workspace, out=page, n=4)
    assert page.read_bytes() == first + b" "


def test_a_blind_page_holds_neither_hypotheses_nor_similarity(tmp_path):
    texts = ["jedan dva", "tri četiri"]
    workspace = make_workspace(
        tmp_path / "w", texts, ["tajna riječ", "skriveno čudo"], audio=tmp_path / "audio"
    )
    for name, blind in (("open", False), ("blind", True)):
        review.export(
            workspace, out=tmp_path / f"{name}.html", n=1, strategy="stratified", blind=blind
        )
    (tmp_path / "open.json").write_text(
        json.dumps(data_of(tmp_path / "open.html"), ensure_ascii=False)
    )
    open_, blind = (
        json.dumps(data_of(tmp_path / f"{name}.html"), ensure_ascii=False)
        for name in ("open", "blind")
    )
    secrets = [
        "tajna",
        "riječ",
        "skriveno",
        "čudo",
        "similarity",
        "stratum",
        "probabilit",
        "threshold",
        "0.5",
    ]
    assert [secret for secret in secrets if secret in open_][-2:] == ["similarity", "0.5"]
    assert [secret for secret in secrets if secret in blind] == []
    assert data_of(tmp_path / "blind.html")["blind"] is True
    escaped = [json.dumps(secret)[1:-1] for secret in ("tajna", "skriveno", "čudo")]
    assert not [
        secret for secret in escaped if secret.encode() in (tmp_path / "blind.html").read_bytes()
    ]
    # The choice is recorded with each verdict.
    for name in ("open", "blind"):
        file = verdict_file(
            tmp_path / f"{name}.html", dict.fromkeys(workspace.segments["segment_id"], "ok")
        )
        review.import_(workspace, file)
    assert dict(review.verdicts(workspace).select("review", "blind").iter_rows()) == {
        "open": False,
        "blind": True,
    }


def test_hostile_texts_in_a_review_page_stay_data(tmp_path):
    texts = [*WORST, "</script><script>window.hurt = 1</script>", "<!-- <script> \u2028 \u2029"]
    workspace = make_workspace(
        tmp_path / "w", texts, texts[::-1], ids=[*NAMES[: len(texts) - 1], "</script>"]
    )
    review.export(workspace, out=tmp_path / "<b>&amp;.html", n=len(texts))
    found = elements(tmp_path / "<b>&amp;.html")
    assert [attributes.get("id", "code") for tag, attributes in found.tags if tag == "script"] == [
        "data",
        "code",
    ]
    assert {tag for tag, _ in found.tags} == {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "noscript",
        "p",
        "main",
        "script",
    }
    clips = json.loads(found.texts["data"])["clips"]
    assert {clip["text"] for clip in clips} == set(workspace.segments["text"])
    assert not re.search(r"[<>&\u2028]", found.texts["data"])


def test_clips_beyond_the_limit_are_files_beside_the_page(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(review_page, "MOST_EMBEDDED_BYTES", 100)
    report = review.export(workspace, out=tmp_path / "page.html", n=4, zip=True)
    assert any("in the folder 'clips' beside it" in warning for warning in report.warnings)
    files = [clip["file"] for clip in data_of(tmp_path / "page.html")["clips"]]
    assert sorted(files) == [f"clips/s{number}.mp3" for number in range(4)]
    assert all((tmp_path / name).stat().st_size for name in files)
    found = elements(tmp_path / "page.html")
    assert "media-src file: 'self'" in found.policy
    assert not [name for name in found.texts if name.startswith("sound")]
    assert sorted(zipfile.ZipFile(tmp_path / "page.zip").namelist()) == sorted(
        f"page/{name}" for name in [*files, "page.html"]
    )


def test_each_reviewer_gets_a_page_of_their_own_clips(workspace, tmp_path):
    report = review.export(
        workspace, out=tmp_path / "page.html", n=4, reviewers=["ana", "ben"], overlap=2
    )
    clips = {
        name: {clip["segment_id"] for clip in data_of(tmp_path / f"page-{name}.html")["clips"]}
        for name in ("ana", "ben")
    }
    assert {name: len(ids) for name, ids in clips.items()} == {"ana": 3, "ben": 3}
    assert len(clips["ana"] & clips["ben"]) == 2
    assert not (tmp_path / "page.html").exists()
    assert report.facts["files"].count("page-") == 2
    shared = clips["ana"] & clips["ben"]
    files = [
        verdict_file(tmp_path / f"page-{name}.html", dict.fromkeys(shared, "ok"), reviewer=name)
        for name in ("ana", "ben")
    ]
    report = review.import_(workspace, files)
    assert (report.problems, report.facts["disagreements"]) == ([], 0)
    assert report.facts["agreement"][0]["segments"] == 2


def test_a_page_without_audio_says_so(tmp_path):
    workspace = make_workspace(tmp_path / "w")
    report = review.export(workspace, out=tmp_path / "page.html", n=4)
    assert "no audio yet: the page has no clips" in report.warnings
    assert data_of(tmp_path / "page.html")["silent"] == "no audio yet"


# --- the verdict file


def test_a_verdict_file_is_imported_with_reviewer_time_and_review(workspace, page):
    said = {
        "s0": "ok",
        "s1": {
            "verdict": "wrong words",
            "comment": "=1",
            "corrected_text": "drugi čas",
            "time": "2000-06-01T10:00:00.250Z",
        },
    }
    report = review.import_(workspace, verdict_file(page, said))
    assert (report.problems, report.facts["new"], report.facts["left_empty"]) == ([], 2, 2)
    row = next(
        row for row in review.verdicts(workspace).iter_rows(named=True) if row["segment_id"] == "s1"
    )
    assert (row["verdict"], row["comment"], row["corrected_text"]) == (
        "wrong words",
        "=1",
        "drugi čas",
    )
    assert (row["reviewer"], row["time"], row["review"]) == (
        "ana",
        "2000-06-01T10:00:00.250000Z",
        "page",
    )
    assert dict(workspace.segments.select("segment_id", "text").iter_rows())["s1"] == "drugi čas"


def test_a_later_verdict_file_replaces_verdicts_of_an_earlier_one(workspace, page, tmp_path):
    first = verdict_file(page, {"s0": "ok", "s1": "noise"}, to=tmp_path / "a.json")
    (tmp_path / "back").mkdir()
    second = verdict_file(
        page,
        {"s0": "cut off"},
        to=tmp_path / "back/page-ana-verdicts (1).json",
        saved="2001-01-02T00:00:00.000Z",
    )
    (tmp_path / "back/other.json").write_text("{}")
    review.import_(workspace, first)
    assert current_verdicts(workspace) == {"s0": "ok", "s1": "noise"}
    review.import_(workspace, tmp_path / "back")
    assert current_verdicts(workspace) == {"s0": "cut off", "s1": "noise"}
    log = (workspace.path / "reviews/verdicts.jsonl").read_bytes()
    assert "later than a.json was saved" in review.import_(workspace, [first, second]).problems[0]
    report = review.import_(workspace, second)
    assert (report.facts["new"], report.facts["changed"], report.facts["known_already"]) == (
        0,
        0,
        1,
    )
    assert (workspace.path / "reviews/verdicts.jsonl").read_bytes() == log


def test_verdicts_with_a_future_time_are_replaced_by_later_ones(workspace, page):
    never = {"verdict": "noise", "time": "9999-01-01T00:00:00Z"}
    review.import_(
        workspace, verdict_file(page, {"s0": never, "s1": {"verdict": "ok", "time": "yesterday"}})
    )
    assert set(review.verdicts(workspace)["time"]) == {"2001-01-01T00:00:00Z"}
    review.import_(workspace, verdict_file(page, {"s0": "ok"}, saved="2001-01-03T00:00:00.000Z"))
    assert current_verdicts(workspace)["s0"] == "ok"


@pytest.mark.parametrize(
    ("said", "changes", "problem"),
    [
        ({"s0": "fine"}, {}, "verdict 'fine' is not one of"),
        ({"s0": {"verdict": "ok", "corrected_text": "drugo"}}, {}, "but there is a corrected text"),
        ({"s0": {"comment": "hm"}}, {}, "but no verdict"),
        ({"s0": {"verdict": "ok", "content": "0" * 16}}, {}, "was not in review 'page'"),
        ({"s0": {"verdict": "ok", "segment_id": "s1"}}, {}, "its key belongs to s0"),
        ({"s0": "ok"}, {"corpus": "f" * 16}, "made from another corpus"),
        ({"s0": "ok"}, {"review": "other"}, "made from another corpus"),
    ],
)
def test_invalid_rows_of_a_verdict_file_are_problems(workspace, page, said, changes, problem):
    report = review.import_(workspace, verdict_file(page, said, **changes))
    assert any(problem in line for line in report.problems)
    assert current_verdicts(workspace) == {}


def test_rows_of_a_file_that_contradict_each_other_are_not_taken(workspace, page):
    path = verdict_file(page, {"s0": "ok"})
    file = json.loads(path.read_text())
    row = next(row for row in file["verdicts"] if row["segment_id"] == "s0")
    path.write_text(
        json.dumps({**file, "verdicts": [*file["verdicts"], {**row, "verdict": "noise"}]})
    )
    assert "contradict" in review.import_(workspace, path).problems[0]
    assert current_verdicts(workspace) == {}


def test_a_verdict_file_that_an_editor_saved_with_a_byte_order_mark_is_read(workspace, page):
    path = verdict_file(page, {"s0": "ok"})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert review.import_(workspace, path).problems == []
    assert current_verdicts(workspace) == {"s0": "ok"}


def test_files_that_are_no_verdict_files_are_refused(workspace, page, tmp_path, monkeypatch):
    path = verdict_file(page, {"s0": "ok"})
    whole = path.read_bytes()
    broken = [
        whole[:-20],
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"format": 1}',
        whole.replace(b"verdicts 1", b"verdicts 7"),
        b"\xff\xfe",
    ]
    for data in broken:
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"verdict file|only 'nbaudio verdicts 1'"):
            review.import_(workspace, path)
    with pytest.raises(InputError, match="save verdicts"):
        review.import_(workspace, page)
    with pytest.raises(InputError, match="no such file"):
        review.import_(workspace, tmp_path / "none.json")
    path.write_bytes(whole)
    monkeypatch.setattr(input_guards.read_all, "__kwdefaults__", {"most": 100})
    with pytest.raises(InputError, match="larger than"):
        review.import_(workspace, path)
    assert current_verdicts(workspace) == {}


def test_an_unchanged_text_of_any_content_is_no_correction(tmp_path):
    text = "a\x00b _x0041_ " + "riječ " * 8_000
    workspace = make_workspace(tmp_path / "w", [text, "da"])
    review.export(workspace, out=tmp_path / "page.html", n=2)
    said = {"s0": {"verdict": "noise", "corrected_text": text}}
    report = review.import_(workspace, verdict_file(tmp_path / "page.html", said))
    assert report.problems == []
    assert review.verdicts(workspace)["corrected_text"].to_list() == [None]
    longer = {
        "s0": {
            "verdict": "wrong words",
            "corrected_text": text + "kraj",
            "time": "2001-01-02T00:00:00Z",
        }
    }
    review.import_(
        workspace, verdict_file(tmp_path / "page.html", longer, saved="2001-01-02T00:00:00Z")
    )
    assert review.verdicts(workspace)["corrected_text"].to_list() == [text + "kraj"]
