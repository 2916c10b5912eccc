"""LibreOffice without a window; for tests and for docs/screenshots.py."""

import subprocess
import tempfile
from pathlib import Path

_COMMA_QUOTES_UTF8_FROM_THE_FIRST_LINE = "44,34,76,1"
_FILTERS = {"csv": f"csv:Text - txt - csv (StarCalc):{_COMMA_QUOTES_UTF8_FROM_THE_FIRST_LINE}"}


def convert(path: Path, kind: str, folder: Path) -> Path:
    """Open a file in LibreOffice and save it as another kind (``xlsx``, ``ods``, ``csv``, ``pdf``)
    under its name in a folder."""
    with tempfile.TemporaryDirectory() as profile:
        office = ["soffice", f"-env:UserInstallation=file://{profile}", "--headless"]
        if path.suffix == ".csv":
            office += [f"--infilter=CSV:{_COMMA_QUOTES_UTF8_FROM_THE_FIRST_LINE}"]
        command = [
            *office,
            "--convert-to",
            _FILTERS.get(kind, kind),
            "--outdir",
            str(folder),
            str(path),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=180)
    return folder / f"{path.stem}.{kind}"
