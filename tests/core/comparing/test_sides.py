"""Which runs are before and after: by key, pattern and folder, and by the settings."""

from __future__ import annotations

import pytest

from infrascope_core.comparing.settings import DeclaredComparison
from infrascope_core.comparing.sides import chosen, compared, compared_as_declared, matching
from infrascope_core.errors import InfraScopeError
from tests.core.comparing.test_figures import fill
from tests.runs import run_name

KEYS = sorted(run_name(second).removesuffix(".txt") for second in (1, 2, 3))


def test_runs_are_named_by_key_and_by_pattern():
    assert chosen([KEYS[2], "*-02_h1"], KEYS) == [KEYS[2], KEYS[1]]
    assert chosen(["train_*", KEYS[0]], KEYS) == KEYS
    assert matching(["*-03_*", "nobody"], KEYS) == [KEYS[2]]


def test_a_folder_stands_for_its_run_files_under_any_of_their_endings(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / f"{KEYS[0]}.txt").touch()
    (tmp_path / "a" / "b" / f"{KEYS[1]}.TSV.gz").touch()
    (tmp_path / "a" / f"{KEYS[2]}.faults.csv").touch()  # labels are no run
    (tmp_path / "a" / "train_of_another_lake.txt").touch()
    assert chosen([str(tmp_path / "a")], KEYS) == KEYS[:2]


def test_a_run_key_may_have_dots(tmp_path):
    key = "train_MLPforCls_default_2026-11-01T10-00-01_node.example.org"
    (tmp_path / f"{key}.txt.gz").touch()
    (tmp_path / "train_MLPforCls_default_2026-11-01T10-00-01_node.txt").touch()
    assert chosen([str(tmp_path)], [key, "train_MLPforCls_default_2026-11-01T10-00-01_node.other.org"]) == [key]


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_name_is_not_the_folder_one_is_in(text):
    with pytest.raises(InfraScopeError, match=r"^an empty name; expected a run key, a pattern .* or a folder"):
        chosen([text], KEYS)


def test_a_name_that_is_too_long_for_a_file_is_shortened():
    with pytest.raises(InfraScopeError, match=r"^x{60}…: no accepted run is named so, nor is there a folder") as error:
        chosen(["x" * 5_000], KEYS)
    assert len(str(error.value)) < 150


@pytest.mark.parametrize("text", ["nobody*", "\0", "."])
def test_what_names_no_run_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InfraScopeError, match="no accepted run is named so"):
        chosen([KEYS[0], text], KEYS)


def test_no_run_is_on_both_sides(handmade):
    with pytest.raises(InfraScopeError, match=r"^r1: a run cannot be before and after the change$"):
        compared(handmade.folder, ["r1", "r2"], ["r1"])


def test_a_declaration_that_fits_no_runs_stops_nothing(handmade):
    for key in ("r1", "r2"):
        fill(handmade, key)
    both = compared_as_declared(handmade.folder, DeclaredComparison(name="x", before=("r*",), after=("r2",)))
    assert both.comparison.sentence == "Nothing is compared. r2: a run cannot be before and after the change."
    later = compared_as_declared(handmade.folder, DeclaredComparison(name="x", before=("r1",), after=("s*",)))
    assert later.comparison.sentence == "There are no runs after the change yet."
    assert [run.run_key for run in later.before] == ["r1"]
