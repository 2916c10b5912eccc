"""What a page of a run shows of its notebook: parameters once, and no paths of the machine."""

from html import unescape

import pytest

from nbaudio.runs.page_notebook import fill_in, page_notebook, short_paths


def code(source, tags=(), outputs=()):
    """A code cell as nbformat stores it."""
    return {
        "cell_type": "code",
        "metadata": {"tags": list(tags)},
        "source": source.splitlines(keepends=True),
        "outputs": list(outputs),
    }


def shown_text(text):
    return {"output_type": "stream", "name": "stdout", "text": [text]}


@pytest.mark.parametrize(
    ("source", "filled"),
    [
        ('n = manifest.get("n", 4)  # clips', "n = 8  # clips"),
        ('where = manifest.get("where")', "where = \"a = 'b'\""),
        ('names = ["asr"]  # recognizers, č', 'names = ["asr", "large"]  # recognizers, č'),
        ("other = 3", "other = 3"),
        ("č = 3; n = 4", "č = 3; n = 4"),
        ("n = max(\n    1,\n    2,\n)", "n = max(\n    1,\n    2,\n)"),
    ],
)
def test_run_values_replace_the_defaults_of_parameters(source, filled):
    values = {"n": 8, "where": "a = 'b'", "names": ["asr", "large"]}
    assert fill_in(source, values).replace("'asr', 'large'", '"asr", "large"') == filled


def test_paths_are_shortened_in_sources_texts_and_html(tmp_path):
    out = tmp_path / 'a "quoted" & odd run'
    audio = tmp_path / "archive" / "sittings 2024" / "audio"
    values = {"workspace": str(out / "workspace"), "audio": str(audio)}
    printed = shown_text(f"{audio}/a.wav: not readable; {out}/workspace, {out}s")
    html = {
        "output_type": "display_data",
        "data": {
            "text/html": [f"<td>{out / 'x'}</td>".replace("&", "&amp;").replace('"', "&quot;")]
        },
        "metadata": {},
    }
    notebook = {
        "cells": [
            code('audio = manifest.get("audio")  # recordings', ["parameters"]),
            code(f"audio = {str(audio)!r}", ["injected-parameters"]),
            code("ingest(audio)", outputs=[printed, html]),
        ]
    }
    shown = page_notebook(notebook, values, out)
    assert ["".join(cell["source"]) for cell in shown["cells"]] == [
        'audio = "…/sittings 2024/audio"  # recordings',
        "ingest(audio)",
    ]
    first, second = shown["cells"][1]["outputs"]
    assert "".join(first["text"]) == (
        f"…/sittings 2024/audio/a.wav: not readable; {out.name}/workspace, {out}s"
    )
    assert unescape("".join(second["data"]["text/html"])) == f"<td>{out.name}/x</td>"


def test_short_paths_abbreviates_the_home_folder_and_keeps_urls(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    values = {"audio": "https://example.org/audio", "splits": "source", "source": "/data/a.json"}
    assert short_paths(values, tmp_path) == {
        str(tmp_path): tmp_path.name,
        "/home/somebody": "~",
        "/data/a.json": "…/data/a.json",
    }


def test_paths_are_shortened_for_users_without_a_home_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert short_paths({"source": "/data/a.json"}, tmp_path) == {
        str(tmp_path): tmp_path.name,
        "/data/a.json": "…/data/a.json",
    }


def test_short_paths_abbreviates_each_path_of_a_list(tmp_path):
    others = ["/data/sets/cv:test", "hf://datasets/a/b", "c.txt"]
    short = short_paths({"avoid": others}, tmp_path)
    assert short["/data/sets/cv:test"] == "…/sets/cv:test"
    assert not {"hf://datasets/a/b", "c.txt"} & short.keys()
