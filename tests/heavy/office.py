"""LibreOffice without a window; for tests and for docs/screenshots.py."""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

_COMMA_QUOTES_UTF8_FROM_THE_FIRST_LINE = "44,34,76,1"
_FILTERS = {"csv": f"csv:Text - txt - csv (StarCalc):{_COMMA_QUOTES_UTF8_FROM_THE_FIRST_LINE}"}


def convert(path: Path, kind: str, folder: Path) -> Path:
    """Open a file in LibreOffice and save it as another kind (``xlsx``, ``ods``, ``csv``, ``pdf``)
    under its name in a folder."""
    office = ["soffice", f"-env:UserInstallation=file://{_profile()}", "--headless"]
    if path.suffix == ".csv":
        office += [f"--infilter=CSV:{_COMMA_QUOTES_UTF8_FROM_THE_FIRST_LINE}"]
    target = ["--convert-to", _FILTERS.get(kind, kind), "--outdir", str(folder)]
    subprocess.run([*office, *target, str(path)], check=True, capture_output=True, timeout=180)
    return folder / f"{path.stem}.{kind}"


@functools.cache
def _profile() -> str:
    """A profile of this process alone; LibreOffice fills it at its first start, which takes
    longer."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
