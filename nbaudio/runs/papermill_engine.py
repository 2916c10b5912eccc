"""The engine of papermill that executes notebooks in the kernels of a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines

from nbaudio.runs.kernels import RunKernels

ENGINE = "nbaudio"  # the name of the engine


class _Client(PapermillNotebookClient):  # type: ignore[misc]
    """Executes the cells of a notebook in the next kernel of a run."""

    def __init__(
        self, notebook: NotebookExecutionManager, kernels: RunKernels, **options: Any
    ) -> None:
        super().__init__(notebook, **options)
        self._kernels = kernels

    @contextmanager
    def setup_kernel(self, **_: Any) -> Iterator[None]:
        """Provide a kernel for all cells."""
        kernel = self._kernels.take()
        self.km = kernel.manager
        self.kc = kernel.client
        try:
            yield
        finally:
            self._kernels.release(kernel)


class _Engine(Engine):  # type: ignore[misc]
    """Executes notebooks in the kernels of a run, and saves a notebook once, when it has ended.

    Papermill saves it before and after each cell, which takes longer than most cells.
    """

    @classmethod
    def execute_managed_notebook(
        cls, notebook: NotebookExecutionManager, kernel_name: str, *, kernels: RunKernels, **_: Any
    ) -> None:
        """Execute a notebook; `Engine.execute_notebook` saves it, also when a cell fails."""
        path = notebook.output_path
        notebook.output_path = None
        try:
            _Client(
                notebook,
                kernels,
                kernel_name=kernel_name,
                timeout=None,
                store_widget_state=False,
                coalesce_streams=True,  # only the last state of a progress bar
            ).execute()
        finally:
            notebook.output_path = path


papermill_engines.register(ENGINE, _Engine)
