"""Write all pages of the documentation site into build/site-pages, as plain Markdown.

Any program that makes a site from Markdown files can follow; it needs no code of ours. mkdocs.yml
has the settings of MkDocs.

Pages are written for GitHub and for the site alike. At the comments named in `GENERATED` the site
adds what is generated from the package: the options of every command and the types of columns.
Notebooks become pages with their outputs, and api_pages.py makes those of the Python API. Links to
files that the site has under another name, such as notebooks, are rewritten; links to source code
other than recipes lose their target.
"""

import html
import inspect
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from api_pages import api_pages, link_names

from nbaudio.cli import app
from nbaudio.tables import schemas

TOP = Path(__file__).resolve().parents[1]
FOLDER = TOP / "build/site-pages"  # docs_dir of mkdocs.yml
# Pages from elsewhere in the repository, and the list of pages, which has another name on the site:
# the site's first page is the repository's.
OUTSIDE = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "data_manifests/demo/README.md": "demo-corpus.md",
}
FILES = ("img", "recipes")  # folders whose files pages show or link
FENCED = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_IMAGES = ("image/png", "image/jpeg")


# Pages


def main() -> None:
    """Write the site's pages, pictures, recipes and styles; the folder is made anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for files in ("assets", *FILES):
        shutil.copytree(TOP / "docs" / files, FOLDER / files)
    for page, markdown in site_pages().items():
        path = FOLDER / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown, encoding="utf8")


def site_pages() -> dict[str, str]:
    """The Markdown of every page, by its path on the site."""
    written = {path.name: path for path in sorted((TOP / "docs").glob("*.md"))}
    del written["README.md"]  # pages.md on the site
    written |= {page: TOP / source for source, page in OUTSIDE.items()}
    notebooks = {
        f"{folder}/{notebook.stem}.md": notebook
        for folder in ("notebooks", "examples")
        for notebook in sorted((TOP / "docs" / folder).glob("*.ipynb"))
    }
    generated = api_pages()
    files = {
        path.relative_to(TOP / "docs").as_posix()
        for folder in FILES
        for path in (TOP / "docs" / folder).iterdir()
    }
    targets = {*written, *notebooks, *generated, *files}
    pages = {}
    for page, path in written.items():
        markdown = path.read_text(encoding="utf8")
        for marker, generate in GENERATED.items():
            if marker in markdown:
                markdown = generate(markdown, marker)
        pages[page] = relink(markdown, page, targets)
    for page, path in notebooks.items():
        notebook = json.loads(path.read_text(encoding="utf8"))
        markdown = relink(notebook_markdown(notebook), page, targets)
        pages[page] = insert_outputs(markdown, notebook)
    return pages | generated


# Links


def relink(markdown: str, page: str, targets: set[str]) -> str:
    """Return a page with its links made relative to its place on the site.

    In the page they are relative to its place in the repository.

    Args:
        markdown: of the page.
        page: its path on the site.
        targets: paths of all pages, pictures and recipes of the site.
    """
    source = next((source for source, name in OUTSIDE.items() if name == page), f"docs/{page}")

    def relinked(link: re.Match[str]) -> str:
        picture, text, address = link.groups()
        file, _, anchor = address.partition("#")
        if not file or re.match(r"[a-z]+:", address):
            return link[0]
        path = os.path.normpath(Path(source).parent / file)
        target = OUTSIDE.get(path) or path.removeprefix("docs/").replace(".ipynb", ".md")
        if target not in targets or not (path.startswith("docs/") or path in OUTSIDE):
            return text
        if text == Path(file).name:
            text = title(TOP / path)
        relative = os.path.relpath(target, Path(page).parent)
        return f"{picture}[{text}]({relative}{'#' if anchor else ''}{anchor})"

    parts, end = [], 0
    for code in FENCED.finditer(markdown):
        parts += [_LINK.sub(relinked, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join((*parts, _LINK.sub(relinked, markdown[end:])))


def title(path: Path) -> str:
    """The first heading of a page."""
    return path.read_text(encoding="utf8").partition("\n")[0].lstrip("# ")


# Notebooks


def notebook_markdown(notebook: dict[str, Any]) -> str:
    """A notebook as Markdown, with a placeholder for each output."""
    parts, number = [], 0
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for _ in cell["outputs"]:
            parts.append(f'<div data-output="{number}"></div>')
            number += 1
    return "\n\n".join(parts) + "\n"


def insert_outputs(markdown: str, notebook: dict[str, Any]) -> str:
    """Put the outputs of a notebook in the place of their placeholders.

    In Markdown a block of HTML ends at an empty line, so outputs get none.
    """
    blocks = [re.sub(r"(\n[ \t]*)\n", r"\1&#10;", output) for output in outputs(notebook)]
    return re.sub(
        r'<div data-output="(\d+)"></div>',
        lambda placeholder: blocks[int(placeholder[1])],
        markdown,
    )


def outputs(notebook: dict[str, Any]) -> Iterator[str]:
    """The outputs of a notebook as HTML, in order; pictures and sound are part of it."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            image = next((kind for kind in _IMAGES if kind in data), None)
            if "text/html" in data:
                shown = "".join(data["text/html"])
            elif image:
                shown = (
                    '<img alt="plot" '
                    f'src="data:{image};base64,{"".join(data[image]).replace(chr(10), "")}">'
                )
            else:
                text = "".join(data.get("text/plain", output.get("text", "")))
                shown = f"<pre>{html.escape(text)}</pre>"
            yield f'<div class="notebook-output" data-search-exclude>{shown}</div>'


# Reference


def command_reference(markdown: str, marker: str) -> str:
    """Every command with its arguments and options, from what `--help` prints."""

    def sections(command: Any, name: str) -> Iterator[str]:
        if hasattr(command, "commands"):
            for word, child in command.commands.items():
                yield from sections(child, f"{name} {word}")
            return
        yield f"### `{name}`\n\n{inspect.cleandoc(command.help or '')}\n"
        with command.context_class(command, info_name=name) as context:
            usage = " ".join(command.collect_usage_pieces(context))
            yield f"    {name} {usage}\n"
            yield "| option | meaning | default |\n|---|---|---|"
            yield from (
                option_row(parameter, context)
                for parameter in command.params
                if not getattr(parameter, "hidden", False)
            )
        if command.epilog:
            yield re.sub(r"Example: (.*)", r"\nExample: `\1`", command.epilog)
        yield ""

    everything = "\n".join(sections(typer.main.get_command(app), "nbaudio"))
    return markdown.replace(marker, f"## All options\n\n{everything}")


def option_row(parameter: Any, context: Any) -> str:
    """One argument or option as a row of a table: its names and value, its help, its default."""
    names, text = parameter.get_help_record(context) or (parameter.human_readable_name, "")
    brackets = re.search(r"  \[(?:(?!\[).)*\]$", text)
    notes = brackets[0].strip(" []") if brackets else ""
    default = re.search(r"default: ([^;]*)", notes)
    required = ", required" if "required" in notes else ""
    meaning = text[: brackets.start()] if brackets else text
    cells = (f"`{names}`", meaning + required, f"`{default[1]}`" if default else "")
    return "| " + " | ".join(re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in cells) + " |"


def column_types(markdown: str, marker: str) -> str:
    """The table of columns after the marker, with the type of each column."""
    schema = getattr(schemas, marker.split()[-2])
    before, _, after = markdown.partition(marker)

    def row(cell: re.Match[str]) -> str:
        dtype = schema.get(cell[1].strip("`"))
        return f"| {cell[1]} | {f'`{dtype}`' if dtype is not None else ''} |"

    table, gap, rest = after.lstrip("\n").partition("\n\n")
    table = table.replace("| column |", "| column | type |", 1).replace("|---|", "|---|---|", 1)
    return before + re.sub(r"^\| (`[^|]+) \|", row, table, flags=re.MULTILINE) + gap + rest


def api_links(markdown: str, marker: str) -> str:
    """The page of public names, with links to their documentation."""
    return link_names(markdown.replace(marker, ""))


GENERATED: dict[str, Callable[[str, str], str]] = {
    "<!-- generated: commands -->": command_reference,
    "<!-- types: RECORDINGS -->": column_types,
    "<!-- types: SEGMENTS -->": column_types,
    "<!-- generated: api -->": api_links,
}


if __name__ == "__main__":
    main()
