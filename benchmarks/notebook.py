"""`make notebook`: run docs/notebooks/infrascope.ipynb and keep its outputs in it."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "infrascope.ipynb"


def executed(path: Path) -> nbformat.NotebookNode:
    """A notebook with the outputs that it has now, run where it lies.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=600, record_timing=False, resources={"metadata": {"path": path.parent}})
    found: nbformat.NotebookNode = client.execute()
    found.metadata.language_info = {"name": "python"}  # not the version of whoever ran it
    return found


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """What its cells print and return, as text."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            found.append("".join(text))
    return found


if __name__ == "__main__":
    nbformat.write(executed(NOTEBOOK), NOTEBOOK)
    sys.exit(0)
