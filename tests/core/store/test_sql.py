"""Statements: where lies what is larger than the memory that they may take."""

from __future__ import annotations

import tempfile
from pathlib import Path

from infrascope_core.store.sql import _MEMORY_LIMIT, _database


def test_what_does_not_fit_lies_with_temporary_files_and_not_in_the_folder_that_one_is_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with _database().cursor() as con:
        con.execute("SET memory_limit = '30MB'")
        ((place,),) = con.execute("SELECT current_setting('temp_directory')").fetchall()
        rows = "SELECT range AS a, md5(range::VARCHAR) AS b FROM range(300_000)"
        assert con.execute(f"SELECT count(*) FROM (SELECT DISTINCT a, b FROM ({rows}))").fetchall() == [(300_000,)]
        con.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'")
    assert Path(place).parent == Path(tempfile.gettempdir())
    assert not [*tmp_path.iterdir()]
