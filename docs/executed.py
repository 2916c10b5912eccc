"""Make `docs/notebooks`: the notebooks as the demo ran them.

They are small enough to be read on GitHub and nbviewer.

The notebooks in `docs/examples` are run as well, and have their outputs in place.

    nbaudio demo --out demo-output
    python docs/executed.py demo-output            write the copies
    python docs/executed.py demo-output --compare  exit with 1 where the copies are not what the
                                                   demo shows

What differs from run to run (times, durations, paths, pictures) is masked before copies are
compared.
"""

import argparse
import base64
import difflib
import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import soundfile as sf
import soxr
from papermill import execute_notebook
from PIL import Image

from nbaudio.audio import encode_clip

COPIES = Path(__file__).resolve().parent / "notebooks"
EXAMPLES = COPIES.parent / "examples"
MOST_BYTES = 300_000
# What the clips of one notebook may take; further ones are named without their sound.
MOST_AUDIO = 30_000
_RATE = 16_000
_AUDIO = re.compile(r'<audio[^>]* src="data:audio/[\w-]+;base64,([A-Za-z0-9+/=]+)"></audio>')
# Durations, times of day, speeds, addresses of objects, and hashes of the corpus's path.
_VARYING = re.compile(
    r"\d+ min \d+ s|\d+(\.\d+)? "
    r"(s|ms|seconds|minutes|min)\b|\d\d:\d\d(:\d\d)?|\d{4}-\d\d-\d\d[ T][\d:.]+"
    r"|\d[\d,.]* x real time|\d[\d,.]* (MB|clips)/s|0x[0-9a-f]+|corpus-[0-9a-f]{8}"
)


def copy(notebook: Path, out: Path, *, tags: bool) -> dict[str, Any]:
    """Return an executed notebook without the traces of its run.

    Paths below `out` become relative, and clips are compressed.
    """
    text = notebook.read_text(encoding="utf8").replace(
        json.dumps(str(out.resolve()))[1:-1], "demo-output"
    )
    executed = json.loads(text)
    executed["metadata"] = {
        name: executed["metadata"][name] for name in ("kernelspec", "language_info")
    }
    executed["cells"] = [
        cell
        for cell in executed["cells"]
        if "injected-parameters" not in cell["metadata"].get("tags", [])
    ]
    left = MOST_AUDIO

    def smaller(found: re.Match[str]) -> str:
        nonlocal left
        samples, rate = sf.read(io.BytesIO(base64.b64decode(found[1])), dtype="int16")
        data = base64.b64encode(
            encode_clip(soxr.resample(samples, rate, _RATE), _RATE, "mp3")
        ).decode()
        if len(data) > left:
            return "<p>(this clip is in the notebook that you run)</p>"
        left -= len(data)
        return f'<audio controls preload="metadata" src="data:audio/mpeg;base64,{data}"></audio>'

    for number, cell in enumerate(executed["cells"], 1):
        cell["metadata"] = {
            name: value
            for name, value in cell["metadata"].items()
            if tags and name == "tags" and value
        }
        if cell["cell_type"] != "code":
            # Copies are in docs/notebooks, the notebooks beside docs.
            cell["source"] = [line.replace("](../docs/", "](../") for line in cell["source"]]
            continue
        cell["execution_count"] = number
        for output in cell["outputs"]:
            if "execution_count" in output:
                output["execution_count"] = number
            output.get("metadata", {}).clear()
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            if "image/png" in output.get("data", {}):
                # The same plot as SVG, which GitHub does not show.
                output["data"].pop("text/html", None)
                output["data"]["image/png"] = with_few_colors(output["data"]["image/png"])
            if html := output.get("data", {}).get("text/html"):
                output["data"]["text/html"] = _AUDIO.sub(smaller, "".join(html))
    return executed


def with_few_colors(picture: str) -> str:
    """A PNG in base64 with a palette of 64 colors, which is a third of the size; plots have few."""
    image, smaller = Image.open(io.BytesIO(base64.b64decode(picture))), io.BytesIO()
    image.quantize(64, method=Image.Quantize.FASTOCTREE).save(smaller, "PNG", optimize=True)
    return base64.b64encode(smaller.getvalue()).decode()


def comparable(notebook: dict[str, Any]) -> list[str]:
    """Sources and outputs as lines, with masks for what differs from run to run."""
    lines = []
    for cell in notebook["cells"]:
        lines += [cell["id"], *"".join(cell["source"]).splitlines()]
        for output in cell.get("outputs", []):
            for kind, value in sorted(
                output.get("data", {output.get("name"): output.get("text", "")}).items()
            ):
                shown = "picture" if kind.startswith("image/") else "".join(value)
                shown = re.sub(r"base64,[A-Za-z0-9+/=]+", "base64,", shown)
                masked = _VARYING.sub("TIME", shown)
                # A rate is shown only if there was time to measure it.
                masked = masked.replace(" in TIME, TIME", " in TIME")
                lines += [str(kind), *masked.splitlines()]
    return lines


def main() -> None:
    """Write or compare the copies."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("out", type=Path, help="what `nbaudio demo` has made")
    options.add_argument("--compare", action="store_true")
    asked = options.parse_args()
    wrong = []
    COPIES.mkdir(exist_ok=True)
    places = {
        COPIES / notebook.name: notebook
        for notebook in sorted((asked.out / "notebooks").glob("*.ipynb"))
    }
    for example in sorted(EXAMPLES.glob("*.ipynb")):
        places[example] = asked.out / "examples" / example.name
        shutil.rmtree(asked.out / "examples" / example.stem, ignore_errors=True)
        places[example].parent.mkdir(exist_ok=True)
        out = {"out": str((asked.out / "examples" / example.stem).resolve())}
        execute_notebook(
            example, places[example], out, cwd=EXAMPLES, kernel_name="python3", progress_bar=False
        )
    for place, notebook in places.items():
        made = copy(notebook, asked.out, tags=place.parent == EXAMPLES)
        text = json.dumps(made, ensure_ascii=False, indent=1) + "\n"
        if len(text.encode()) > MOST_BYTES:
            wrong.append(f"{notebook.name}: {len(text.encode())} bytes, more than {MOST_BYTES}")
        if not asked.compare:
            place.write_text(text, encoding="utf8")
            continue
        there = json.loads(place.read_text(encoding="utf8")) if place.exists() else {"cells": []}
        wrong += difflib.unified_diff(
            comparable(there),
            comparable(made),
            f"docs/{place.parent.name}/{place.name}",
            "run",
            n=0,
            lineterm="",
        )
    print("\n".join(line[:300] for line in wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
