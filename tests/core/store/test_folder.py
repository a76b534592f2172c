"""The data folder: its paths, what it remembers, and that it can be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrascope_core.errors import InfraScopeError
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder


def test_a_folder_is_opened_under_the_settings_that_it_was_last_filled_by(tmp_path):
    with pytest.raises(InfraScopeError, match=r"holds no lake yet; try `infrascope run PATH --data "):
        DataFolder.as_last_filled(tmp_path)
    settings = Settings(recipe="infrascope")
    DataFolder(tmp_path, settings, (tmp_path / "runs",)).remember_settings()
    assert DataFolder.as_last_filled(tmp_path) == DataFolder(tmp_path, settings)


def test_a_look_up_lasts_as_long_as_the_object(tmp_path):
    folder = DataFolder(tmp_path)
    assert [folder.once("a", lambda: 1), folder.once("a", lambda: 2), folder.once("b", lambda: 3)] == [1, 1, 3]
    assert folder.fresh() == folder
    assert folder.fresh().once("a", lambda: 2) == 2


def test_none_is_looked_up_once_as_well(tmp_path):
    folder = DataFolder(tmp_path)
    assert folder.once("a", lambda: None) is None
    assert folder.once("a", lambda: 1) is None


def test_checking_makes_the_folder_and_leaves_nothing_in_it(tmp_path):
    folder = DataFolder(tmp_path / "deep" / "data", sources=(tmp_path,))
    folder.check()
    assert [*folder.root.iterdir()] == []


def test_a_source_that_does_not_exist(tmp_path):
    folder = DataFolder(tmp_path / "data", sources=(tmp_path, tmp_path / "nowhere"))
    with pytest.raises(InfraScopeError, match="nowhere: no such file or folder"):
        folder.check()
    assert not folder.root.exists()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/infrascope")):
        with pytest.raises(InfraScopeError, match=f"{root}: nothing can be written there"):
            DataFolder(root).check()
