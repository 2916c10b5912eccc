"""What mkdocs.yml cannot say.

The hooks make notebooks into pages, add files outside of docs/, and generate reference pages.

Pages are written for GitHub and for the site alike. At the comments named in `GENERATED` the site
adds what is generated from the package: the options of every command, the types of columns, the
docstrings of public names. Links to files that the site has under another name, such as notebooks,
are rewritten; links to source code lose their target.
"""

import ast
import html
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from nbaudio.cli import app
from nbaudio.tables import schemas

TOP = Path(__file__).resolve().parents[1]
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
FENCED = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_ROW = re.compile(r"^\| `(nbaudio[\w.]+)(\([^`]*\))?` \| (.*) \|$", re.MULTILINE)
_IMAGES = ("image/png", "image/jpeg")


# mkdocs calls these


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add notebooks, files from elsewhere and API pages to those of docs/."""
    for folder in ("notebooks", "examples"):
        for notebook in sorted((TOP / "docs" / folder).glob("*.ipynb")):
            files.append(
                File.generated(
                    config, f"{folder}/{notebook.stem}.md", content=notebook_page(notebook)
                )
            )
    for source, page in OUTSIDE.items():
        files.append(
            File.generated(config, page, content=(TOP / source).read_text(encoding="utf8"))
        )
    for page, content in api_pages().items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Insert what is generated, and point links to the site's own pages."""
    for marker, generate in GENERATED.items():
        if marker in markdown:
            markdown = generate(markdown, marker)
    return relink(
        markdown,
        page.file.src_uri,
        {file.src_uri for file in files if not file.inclusion.is_excluded()},
    )


def on_page_content(content: str, page: Page, **_: Any) -> str:
    """Put the outputs of notebooks where `notebook_page` left a placeholder.

    They are HTML, which Markdown might change.
    """
    notebook = TOP / "docs" / Path(page.file.src_uri).with_suffix(".ipynb")
    if not notebook.exists():
        return content
    shown = list(outputs(json.loads(notebook.read_text(encoding="utf8"))))
    return re.sub(r'<div data-output="(\d+)"></div>', lambda found: shown[int(found[1])], content)


# Links


def relink(markdown: str, page: str, pages: set[str]) -> str:
    """Return a page with its links made relative to its place on the site.

    In the page they are relative to its place in the repository.

    Args:
        markdown: of the page.
        page: its path below docs/.
        pages: those of the site.
    """
    source = next((source for source, name in OUTSIDE.items() if name == page), f"docs/{page}")

    def target(found: re.Match[str]) -> str:
        picture, text, address = found.groups()
        file, _, anchor = address.partition("#")
        if not file or re.match(r"[a-z]+:", address) or page.startswith("api/"):
            return found[0]
        path = os.path.normpath(Path(source).parent / file)
        there = OUTSIDE.get(path) or path.removeprefix("docs/").replace(".ipynb", ".md")
        if there not in pages or not (path.startswith("docs/") or path in OUTSIDE):
            return text
        relative = os.path.relpath(there, Path(page).parent)
        if text == Path(file).name:
            text = title(TOP / path)
        return f"{picture}[{text}]({relative}{'#' if anchor else ''}{anchor})"

    parts, end = [], 0
    for code in FENCED.finditer(markdown):
        parts += [_LINK.sub(target, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join((*parts, _LINK.sub(target, markdown[end:])))


def title(path: Path) -> str:
    """The first heading of a page."""
    return path.read_text(encoding="utf8").partition("\n")[0].lstrip("# ")


# Notebooks


def notebook_page(path: Path) -> str:
    """A notebook as Markdown, with placeholders for its outputs."""
    notebook = json.loads(path.read_text(encoding="utf8"))
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
            for each, child in command.commands.items():
                yield from sections(child, f"{name} {each}")
            return
        yield f"### `{name}`\n\n{inspect.cleandoc(command.help or '')}\n"
        with command.context_class(command, info_name=name) as context:
            usage = " ".join(command.collect_usage_pieces(context))
            yield f"    {name} {usage}\n"
            yield "| option | meaning | default |\n|---|---|---|"
            yield from (
                option_row(each, context)
                for each in command.params
                if not getattr(each, "hidden", False)
            )
        if command.epilog:
            yield re.sub(r"Example: (.*)", r"\nExample: `\1`", command.epilog)
        yield ""

    everything = "\n".join(sections(typer.main.get_command(app), "nbaudio"))
    return markdown.replace(marker, f"## All options\n\n{everything}")


def option_row(parameter: Any, context: Any) -> str:
    """One argument or option as a row of a table: its names and value, its help, its default."""
    names, text = parameter.get_help_record(context) or (parameter.human_readable_name, "")
    found = re.search(r"  \[(?:(?!\[).)*\]$", text)
    notes = found[0].strip(" []") if found else ""
    default = re.search(r"default: ([^;]*)", notes)
    required = ", required" if "required" in notes else ""
    meaning = text[: found.start()] if found else text
    cells = (f"`{names}`", meaning + required, f"`{default[1]}`" if default else "")
    return "| " + " | ".join(re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in cells) + " |"


def column_types(markdown: str, marker: str) -> str:
    """The table of columns after the marker, with the type of each column."""
    schema = getattr(schemas, marker.split()[-2])
    before, _, after = markdown.partition(marker)

    def row(found: re.Match[str]) -> str:
        dtype = schema.get(found[1])
        return f"| `{found[1]}` | {f'`{dtype}`' if dtype is not None else ''} |"

    table, gap, rest = after.lstrip("\n").partition("\n\n")
    table = table.replace("| column |", "| column | type |", 1).replace("|---|", "|---|---|", 1)
    return before + re.sub(r"^\| `(\w+)` \|", row, table, flags=re.MULTILINE) + gap + rest


def api_names() -> dict[str, list[tuple[str, str]]]:
    """Public names of docs/api.md by the heading above them, each with what it is for."""
    page = (TOP / "docs/api.md").read_text(encoding="utf8")
    groups = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    return {
        group.partition("\n")[0]: [(row[1], row[3]) for row in _ROW.finditer(group)]
        for group in groups
    }


def api_pages() -> dict[str, str]:
    """Return one page for each group of names.

    It has directives from which mkdocstrings makes their documentation.
    """
    return {
        f"api/{group.lower().replace(' ', '-')}.md": f"# {group}\n\n"
        + "\n".join(directive(name) for name, _ in names)
        for group, names in api_names().items()
    }


def directive(name: str) -> str:
    """The documentation of a public name, under the name that users import."""
    return (
        f"::: {real_path(name)}\n    options:\n      heading: {name}\n      toc_label: "
        f"{name.rpartition('.')[2]}\n"
    )


@cache
def exports() -> dict[str, str]:
    """Return where the names that `nbaudio` exports really are.

    Mkdocstrings reads the source, where lazy names are only text.
    """
    tree = ast.parse((TOP / "nbaudio/__init__.py").read_text(encoding="utf8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {
        f"nbaudio.{one.asname}": f"{node.module}.{one.name}"
        for node in imports
        for one in node.names
        if one.asname
    }
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_imports.alias"
    ]
    modules = {
        f"nbaudio.{name}": module
        for call in calls
        for name, module in ast.literal_eval(call.args[1]).items()
    }
    return {
        name: path
        for name, path in (names | modules).items()
        if path != f"{name}.{name.rpartition('.')[2]}"
    }


def real_path(name: str) -> str:
    """The path of a public name by which mkdocstrings finds it."""
    parts = name.split(".")
    head = ".".join(parts[:2])
    path = ".".join((exports().get(head, head), *parts[2:]))
    # A module of the same name hides the function.
    return (
        f"{path}.{parts[-1]}"
        if (TOP / path.replace(".", "/")).with_suffix(".py").exists()
        else path
    )


def api_links(markdown: str, marker: str) -> str:
    """The tables of names, each linked to its documentation."""
    parts = re.split(r"^(?=## )", markdown.replace(marker, ""), flags=re.MULTILINE)

    def row(found: re.Match[str]) -> str:
        return f"| [`{found[1]}{found[2] or ''}`][{real_path(found[1])}] | {found[3]} |"

    return "".join(_ROW.sub(row, part) for part in parts)


GENERATED: dict[str, Callable[[str, str], str]] = {
    "<!-- generated: commands -->": command_reference,
    "<!-- types: RECORDINGS -->": column_types,
    "<!-- types: SEGMENTS -->": column_types,
    "<!-- generated: api -->": api_links,
}
