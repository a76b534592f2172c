"""The notebook runs on the sample, and shows what it shows now."""

from __future__ import annotations

import shutil

import nbformat
import pytest

from benchmarks.notebook import NOTEBOOK, executed, texts


@pytest.mark.slow
def test_the_notebook_shows_what_the_sample_holds(sample, tmp_path, monkeypatch):
    """Its folder is a copy of one that is filled already. Pictures are not compared."""
    shutil.copytree(sample.root, tmp_path / "data")
    monkeypatch.setenv("INFRASCOPE_NOTEBOOK_DATA", str(tmp_path / "data"))
    assert texts(executed(NOTEBOOK)) == texts(nbformat.read(NOTEBOOK, as_version=4))
