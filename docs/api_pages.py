"""Pages of the Python API as plain Markdown, from the docstrings of the package.

griffe reads the source; nothing of the package is imported. docs/reference.md says which names are
public and how they are grouped: each group becomes a page.
"""

import ast
import io
import itertools
import re
import textwrap
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
WIDTH = 72  # characters; a longer signature has a line for each parameter
_ROW = re.compile(r"^\| ([\w ]+) \| (`[^|]+`) \|$", re.MULTILINE)  # a group and its names
_NAME = re.compile(r"`([\w.]+)`")


# Public names and where they are


def public_names() -> dict[str, list[str]]:
    """Public names, with `nbaudio.` before them, by their group."""
    page = (TOP / "docs/reference.md").read_text(encoding="utf8")
    return {
        row[1]: [f"nbaudio.{name}" for name in _NAME.findall(row[2])] for row in _ROW.finditer(page)
    }


def page_of_group(group: str) -> str:
    """The path of a group's page on the site."""
    return f"api/{group.lower().replace(' ', '-')}.md"


@cache
def exports() -> dict[str, str]:
    """Where the names that `nbaudio` exports are defined.

    They are imported lazily, so that they are only text in the source.
    """
    tree = ast.parse((TOP / "nbaudio/__init__.py").read_text(encoding="utf8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {
        f"nbaudio.{imported.asname}": f"{node.module}.{imported.name}"
        for node in imports
        for imported in node.names
        if imported.asname
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


def source_path(name: str) -> str:
    """The dotted path of a public name in the source; it is the anchor of its documentation."""
    parts = name.split(".")
    head = ".".join(parts[:2])
    path = ".".join((exports().get(head, head), *parts[2:]))
    # A module of the same name hides the function.
    if (TOP / path.replace(".", "/")).with_suffix(".py").exists():
        return f"{path}.{parts[-1]}"
    return path


@cache
def package() -> Any:
    """The package as griffe reads it from the source."""
    import griffe  # only the environment of `make docs` has it

    return griffe.load("nbaudio", search_paths=[TOP], docstring_parser="google")


def source_object(name: str) -> Any:
    """The function or class behind a public name."""
    return package()[source_path(name).removeprefix("nbaudio.")]


@cache
def addresses() -> dict[str, str]:
    """Page and anchor of each public name, by the path where it is defined."""
    return {
        source_object(name).canonical_path: f"{page_of_group(group)}#{source_path(name)}"
        for group, names in public_names().items()
        for name in names
    }


def link_names(markdown: str) -> str:
    """The table of names in docs/reference.md, each group and name linked to its documentation."""

    def linked(name: re.Match[str]) -> str:
        address = addresses()[source_object(f"nbaudio.{name[1]}").canonical_path]
        return f"[{name[0]}]({address})"

    return _ROW.sub(
        lambda row: f"| [{row[1]}]({page_of_group(row[1])}) | {_NAME.sub(linked, row[2])} |",
        markdown,
    )


# Pages


def api_pages() -> dict[str, str]:
    """The Markdown of each page of the API, by its path on the site."""
    pages = {}
    for group, names in public_names().items():
        parts = [f"# {group}"]
        for name in names:
            parts += object_parts(source_object(name), name, level=2)
        page = page_of_group(group)
        pages[page] = links_from(page, "\n\n".join(parts) + "\n")
    return pages


def links_from(page: str, markdown: str) -> str:
    """Markdown of a page with its links to pages of the API made relative to it."""

    def relative(link: re.Match[str]) -> str:
        return "](#" if link[1] == page else f"]({Path(link[1]).name}#"

    return re.sub(r"\]\((api/[\w-]+\.md)#", relative, markdown)


def object_parts(documented: Any, heading: str, level: int) -> Iterator[str]:
    """Paragraphs and blocks that document a function, a class with its members, or an attribute."""
    title = " ".join((heading, *(f"`{label}`" for label in sorted(documented.labels))))
    short = heading.rpartition(".")[2]  # in the table of contents
    yield f'{"#" * level} {title} {{#{documented.path} data-toc-label="{short}"}}'
    signature = signature_of(documented)
    if signature:
        yield f"```python\n{signature}\n```"
    yield from docstring_parts(documented)
    if documented.is_class:
        if "__init__" in documented.members:
            yield from docstring_parts(documented.members["__init__"])
        for member in public_members(documented):
            yield from object_parts(member, member.name, level + 1)


def docstring_parts(documented: Any) -> Iterator[str]:
    """The sections of a docstring."""
    if documented.docstring:
        for section in documented.docstring.parsed:
            yield from section_parts(section)


def public_members(documented: Any) -> list[Any]:
    """Documented members of a class: attributes, then methods, in the order of the source."""
    members = [
        member
        for member in documented.members.values()
        if member.has_docstring and not member.name.startswith("_")
    ]
    members.sort(key=lambda member: (not member.is_attribute, member.lineno or 0))
    return members


# Signatures


def signature_of(documented: Any) -> str:
    """The signature of a function or class, or an attribute with its type; "" if there is none."""
    if documented.is_attribute:
        annotation = f": {documented.annotation}" if documented.annotation else ""
        value = f" = {documented.value}" if documented.value is not None else ""
        return f"{documented.name}{annotation}{value}"
    return wrapped(double_quoted(documented.signature(return_type=documented.is_function)))


def double_quoted(code: str) -> str:
    """Code with double quotes around its texts, as in the source; griffe writes single ones."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', code)


def wrapped(signature: str) -> str:
    """A signature with a line for each parameter, if it does not fit into one line."""
    if len(signature) <= WIDTH:
        return signature
    columns = parameter_columns(signature)
    opening, closing = columns[0], columns[-1]
    parameters = [
        signature[start + 1 : stop].strip() for start, stop in itertools.pairwise(columns)
    ]
    lines = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{signature[: opening + 1]}\n{lines}{signature[closing:]}"


def parameter_columns(signature: str) -> list[int]:
    """Columns of the opening parenthesis, the commas between parameters, and the closing one."""
    columns, depth = [], 0
    for token in tokenize.generate_tokens(io.StringIO(signature).readline):
        if token.type != tokenize.OP:
            continue
        if token.string in ")]}":
            depth -= 1
        if (token.string in "()" and depth == 0) or (token.string == "," and depth == 1):
            columns.append(token.start[1])
            if token.string == ")":
                break
        if token.string in "([{":
            depth += 1
    return columns


# Sections of docstrings


def section_parts(section: Any) -> Iterator[str]:
    """A section of a docstring: text as it is, examples as code, anything else as a list."""
    kind = section.kind.value
    if kind == "text":
        yield section.value
        return
    yield f"**{section.title or kind.capitalize()}:**"
    if kind == "examples":
        for part, text in section.value:
            yield text if part.value == "text" else f"```pycon\n{text}\n```"
        return
    yield "\n".join(item(entry) for entry in section.value)


def item(entry: Any) -> str:
    """One parameter, attribute, exception or result as an item of a list."""
    name = getattr(entry, "name", "")
    default = getattr(entry, "default", None)
    notes = [type_of(entry.annotation)] if entry.annotation else []
    if default is not None:
        notes.append(f"default: `{double_quoted(str(default))}`")
    start = ", ".join(notes)
    if name:
        start = f"**`{name}`**" + (f" ({start})" if notes else "")
    description = textwrap.indent(entry.description, "    ").lstrip()
    return f"- {start} – {description}" if start else f"- {description}"


def type_of(annotation: Any) -> str:
    """A type as code; the names in it that this site documents are links."""
    names = [annotation] if isinstance(annotation, str) else annotation.iterate(flat=True)
    parts: list[str] = []
    for name in names:
        address = addresses().get(getattr(name, "canonical_path", ""))
        if address is not None:
            parts += [f"[`{name}`]({address})", ""]
        elif parts:
            parts[-1] += str(name)
        else:
            parts.append(str(name))
    return "".join(part if part.startswith("[`") else code_span(part) for part in parts if part)


def code_span(code: str) -> str:
    """Code between backticks; spaces at its ends stay outside."""
    text = code.strip()
    return code.replace(text, f"`{text}`", 1) if text else code
