"""The recipes of docs/recipes, with other constants."""

import re
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[1] / "docs" / "recipes"


def write_recipe(folder: Path, name: str, **constants: str) -> None:
    """Write a recipe into a folder; a constant such as MODEL gets another value."""
    code = (RECIPES / name).read_text("utf8")
    for constant, value in constants.items():
        code, found = re.subn(
            rf'^{constant} = ".*"$', f"{constant} = {value!r}", code, flags=re.MULTILINE
        )
        assert found == 1
    (folder / name).write_text(code, "utf8")
