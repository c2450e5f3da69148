"""The pencil filter of the examples, and the notebook that shows it."""

from __future__ import annotations

from pathlib import Path

import millstream as ms
import nbformat
import numpy as np
import pencil
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(pencil.__file__).with_name("photographs.ipynb")


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 9), (7, 1), (31, 45)])
def test_a_device_draws_as_numpy_does(device: ms.Device, stream: ms.Stream, height: int, width: int) -> None:
    rgb = np.random.default_rng(height).integers(0, 256, (height, width, 3)).astype(np.uint8)
    drawing = pencil.Pencil(device, height, width)(stream, rgb).wait()
    difference = np.abs(drawing.astype(int) - pencil.draw_by_numpy(rgb))
    assert drawing.dtype == np.uint8 and drawing.shape == (height, width) and difference.max() <= 1


def test_only_an_edge_has_ink() -> None:
    rgb = np.zeros((3, 40, 3), np.uint8)
    rgb[:, 20:] = 255
    drawing = pencil.draw_by_numpy(rgb)
    assert drawing[0, 19] < 128 and drawing[0, 20] < 128
    assert drawing[0, 0] == 204 and drawing[0, 39] == 255


def read_notebook() -> NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call, no-any-return]


def outputs_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def test_the_notebook_runs_and_has_the_pictures_of_a_run() -> None:
    notebook = read_notebook()
    pictures = sum("image/png" in output.get("data", {}) for output in outputs_of(notebook))
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
    client.execute()  # raises the error of a cell
    executed = outputs_of(notebook)
    assert pictures == sum("image/png" in output.get("data", {}) for output in executed) == 5
    assert "'failures': 0" in executed[-1].data["text/plain"] and "'violations': []" in executed[-1].data["text/plain"]
