"""JupyterLab, Notebook 7 or Voila, and a headless Chromium in front of it; for tests, benchmarks
and docs/screenshots.py."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Route, expect, sync_playwright

TOP = Path(__file__).resolve().parents[2]
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
CHROMIUM_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_NOTIFICATIONS = '{"checkForUpdates": false, "fetchNews": "false"}'
_STARTS_S, _RUNS_S = 180, 180
_SHOWN_MS = 30_000  # until a page shows what it is asked for, on a busy machine
expect.set_options(timeout=_SHOWN_MS)


def copy_notebooks(folder: Path) -> list[str]:
    """The notebooks and the demo's manifests as in a checkout, with no workspace yet; gives the
    notebooks' names in order."""
    skip = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
    for name in ("notebooks", "data_manifests"):
        shutil.copytree(TOP / name, folder / name, ignore=skip)
    return sorted(path.name for path in (folder / "notebooks").glob("*.ipynb"))


@contextmanager
def jupyter_lab(root: Path, home: Path) -> Iterator[str]:
    """A JupyterLab server on `root` with settings of its own in `home`; gives its address."""
    arguments = ["-m", "jupyterlab", "--LabApp.expose_app_in_browser=True", "--LabApp.news_url="]
    with _jupyter(arguments, root, home) as address:
        yield address


@contextmanager
def notebook_7(root: Path, home: Path) -> Iterator[str]:
    """A Notebook 7 server on `root` with settings of its own in `home`; gives its address."""
    with _jupyter(
        ["-m", "notebook", "--JupyterNotebookApp.expose_app_in_browser=True"], root, home
    ) as address:
        yield address


@contextmanager
def voila(notebook: Path, home: Path) -> Iterator[str]:
    """A Voila server of one notebook, with settings of its own in `home`; gives its address."""
    port = _free_port()
    arguments = [
        "-m",
        "voila",
        str(notebook),
        "--no-browser",
        "--Voila.ip=127.0.0.1",
        f"--port={port}",
    ]
    with _server(
        arguments, notebook.parent, home, f"http://127.0.0.1:{port}", "/voila/static/voila.js"
    ) as address:
        yield address


@contextmanager
def _jupyter(arguments: list[str], root: Path, home: Path) -> Iterator[str]:
    """Start a server for a folder and yield its address; stop it in the end."""
    port = _free_port()
    settings = (
        home
        / "settings"
        / "@jupyterlab"
        / "apputils-extension"
        / "notification.jupyterlab-settings"
    )
    settings.parent.mkdir(parents=True)
    settings.write_text(_NOTIFICATIONS)
    options = [
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
    ]
    options += [
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        f"--ServerApp.root_dir={root}",
    ]
    with _server(
        [*arguments, *options], root, home, f"http://127.0.0.1:{port}", "/api/status"
    ) as address:
        yield address


def _free_port() -> int:
    """A TCP port that is free on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _server(
    arguments: list[str], folder: Path, home: Path, address: str, ready: str
) -> Iterator[str]:
    """Run a server until the end of the block; it has started once the path `ready` of its address
    responds."""
    # Of this tree, whatever is installed.
    shutil.copytree(
        TOP / "nbaudio/ui/widgets/labextension", home / "data_dir/labextensions/nbaudio"
    )
    folders = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
        **{f"JUPYTER_{name}": str(home / name.lower()) for name in folders},
        "HOME": str(home),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    log = home / "server.log"
    command = [sys.executable, *arguments]
    with (
        log.open("wb") as out,
        subprocess.Popen(command, env=environment, cwd=folder, stdout=out, stderr=out) as server,
    ):
        try:
            _wait_for(f"{address}{ready}", server, log)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(30)
            except (
                subprocess.TimeoutExpired
            ):  # JupyterLab may wait for a thread of its own for ever
                server.kill()


def _wait_for(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a server responds; raise with the end of its log if it does not start."""
    until = time.monotonic() + _STARTS_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - our own address
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.3)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


@contextmanager
def chromium(*, width: int = 1280, height: int = 900) -> Iterator[tuple[Page, list[str]]]:
    """A page that can reach nothing but this machine, and the addresses elsewhere that it tried."""
    tried: list[str] = []

    def guard(route: Route) -> None:
        if route.request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            tried.append(route.request.url)
            route.abort()

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(_RUNS_S * 1000)
            page.route("**/*", guard)
            yield page, tried
        finally:
            browser.close()


def open_notebook(page: Page, address: str, path: str, *, view: str = "doc/tree") -> None:
    """Open a notebook and wait for its kernel; views are `doc/tree` (alone), `lab/tree` and, in
    Notebook 7, `notebooks`."""
    page.goto(f"{address}/{view}/{path}?reset")
    _wait_for_kernel(page, path)


def open_beside(page: Page, path: str, *, kernel: str | None = None) -> None:
    """Open a notebook in JupyterLab that a page shows already, in place of what is open there, by a
    kernel that runs (its id) or by a new one; and wait for its kernel."""
    page.evaluate(
        """([path, id]) => {
            const {commands, shell} = window.jupyterapp;
            for (const widget of [...shell.widgets('main')]) widget.dispose();
            window.latencyMs = 0;
            return commands.execute('docmanager:open', {path, ...(id && {kernel: {id}})})
                .then(() => null);
        }""",
        [path, kernel],
    )
    _wait_for_kernel(page, path)


def _wait_for_kernel(page: Page, path: str) -> None:
    """Wait until a notebook is open and its kernel is idle."""
    page.wait_for_function(
        """path => {
            const panel = window.jupyterapp?.shell?.currentWidget;
            return panel?.context?.path === path
                && panel.sessionContext?.session?.kernel?.status === 'idle';
        }""",
        arg=path,
    )


def run_all(page: Page) -> list[dict[str, Any]]:
    """Run all cells; gives the cells of the model as notebooks store them."""
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status "
        "=== 'idle'"
    )
    cells: list[dict[str, Any]] = page.evaluate(
        "() => "
        "Array.from(window.jupyterapp.shell.currentWidget.content.model.cells).map(cell "
        "=> cell.toJSON())"
    )
    return cells
