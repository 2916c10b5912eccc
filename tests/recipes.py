"""The recipes of docs/recipes and docs/transcripts.md, as files."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def write_recipe(folder: Path, name: str, **constants: str) -> None:
    """Write a recipe into a folder; a constant such as MODEL gets another value."""
    code = _recipe(name)
    for constant, value in constants.items():
        code, found = re.subn(
            rf'^{constant} = ".*"$', f"{constant} = {value!r}", code, flags=re.MULTILINE
        )
        assert found == 1
    (folder / name).write_text(code, "utf8")


def _recipe(name: str) -> str:
    """The code of a recipe: a file, or the block of a page that begins with its name."""
    file = DOCS / "recipes" / name
    if file.exists():
        return file.read_text("utf8")
    (code,) = re.findall(
        rf"^```python\n(# {re.escape(name)}\n.*?)^```",
        (DOCS / "transcripts.md").read_text("utf8"),
        re.DOTALL | re.MULTILINE,
    )
    return code
