"""The recipes of docs/transcripts.md and docs/models.md, as files."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def write_recipe(folder: Path, name: str, page: str = "transcripts.md", **constants: str) -> None:
    """Write the code block that begins with the name of the file; a constant such as MODEL gets
    another value."""
    (code,) = re.findall(
        rf"^```python\n(# {re.escape(name)}\n.*?)^```",
        (DOCS / page).read_text("utf8"),
        re.DOTALL | re.MULTILINE,
    )
    for constant, value in constants.items():
        code, found = re.subn(
            rf'^{constant} = ".*"$', f"{constant} = {value!r}", code, flags=re.MULTILINE
        )
        assert found == 1
    (folder / name).write_text(code, "utf8")
