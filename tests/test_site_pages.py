"""The Markdown from which the documentation site is made: links, outputs of notebooks, signatures.

tests/heavy/test_site.py looks at the site itself.
"""

import sys

import pytest
from pages import TOP

sys.path.insert(0, str(TOP / "docs"))

import api_pages
import build_pages

TARGETS = {"index.md", "pages.md", "align.md", "notebooks/01_ingest.md", "img/listen.png"}


@pytest.mark.parametrize(
    ("page", "written", "on_the_site"),
    [
        ("index.md", "[a](docs/align.md#pairs)", "[a](align.md#pairs)"),
        ("index.md", "![a](docs/img/listen.png)", "![a](img/listen.png)"),
        ("align.md", "[a](../README.md)", "[a](index.md)"),
        ("align.md", "[a](notebooks/01_ingest.ipynb)", "[a](notebooks/01_ingest.md)"),
        ("notebooks/01_ingest.md", "[a](../align.md)", "[a](../align.md)"),
        ("align.md", "[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("align.md", "[the code](../nbaudio/cli/app.py)", "the code"),
        ("pages.md", "[align.md](align.md)", "[Align transcripts that are not cut](align.md)"),
        ("align.md", "```\n[a](../README.md)\n```", "```\n[a](../README.md)\n```"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(page, written, on_the_site):
    assert build_pages.relink(written, page, TARGETS) == on_the_site


def test_outputs_of_notebooks_are_html_without_empty_lines():
    notebook = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title"]},
            {
                "cell_type": "code",
                "source": ["print(text)"],
                "outputs": [{"text": ["a < b\n", "\n", "\n", "c"]}],
            },
        ]
    }
    markdown = build_pages.notebook_markdown(notebook)
    assert markdown.startswith("# Title\n\n```python\nprint(text)\n```\n\n<div data-output")
    block = build_pages.insert_outputs(markdown, notebook).split("\n\n")[-1]
    assert "<pre>a &lt; b\n&#10;\nc</pre>" in block


def test_a_long_signature_has_a_line_for_each_parameter():
    assert api_pages.wrapped("cut(start: int) -> Clip") == "cut(start: int) -> Clip"
    signature = (
        "cut(start: int, *, names: dict[str, int] | None = None, between: str = ', (', "
        "more: tuple[int, ...] = ()) -> tuple[Clip, int]"
    )
    assert api_pages.wrapped(signature).splitlines() == [
        "cut(",
        "    start: int,",
        "    *,",
        "    names: dict[str, int] | None = None,",
        "    between: str = ', (',",
        "    more: tuple[int, ...] = (),",
        ") -> tuple[Clip, int]",
    ]


def test_every_public_name_is_in_the_source_under_its_path():
    for names in api_pages.public_names().values():
        for name in names:
            module = api_pages.source_path(name).rpartition(".")[0].replace(".", "/")
            assert (TOP / f"{module}.py").exists() or (TOP / module).is_dir(), name
