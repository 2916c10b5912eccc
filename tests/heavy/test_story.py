"""docs/story.md: every command of the page runs, and every figure is what they print."""

import subprocess
import sys

from pages import TOP, text


def test_the_story_page_equals_the_output_of_its_commands(tmp_path):
    page = tmp_path / "story.md"
    subprocess.run([sys.executable, TOP / "docs/story.py", "--out", page], check=True)
    assert text(page).splitlines() == text(TOP / "docs/story.md").splitlines()
