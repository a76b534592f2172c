"""Declared comparisons as tables and pages: what is made, what is kept, and that the order of files does not matter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infrascope_core.comparing.settings import ComparisonSettings, DeclaredComparison
from infrascope_core.comparing.tables import RUN_COMPARISONS
from infrascope_core.pages.products import comparison_file, index_file
from infrascope_core.pages.tables import COMPARISON_PAGE, FLEET_PAGE
from infrascope_core.pipeline import GRAPH
from infrascope_core.store.folder import DataFolder
from tests.core.comparing.test_figures import fill
from tests.core.handmade import HandMade

FASTER = DeclaredComparison(name="faster", before=("b*",), after=("a*",))
LATER = DeclaredComparison(name="later", before=("b*",), after=("z*",))


def declare(folder: DataFolder, *comparisons: DeclaredComparison) -> DataFolder:
    settings = folder.settings.model_copy(update={"comparisons": ComparisonSettings(declared=comparisons)})
    return replace(folder, settings=settings)


def make(folder: DataFolder) -> None:
    for table in (RUN_COMPARISONS, COMPARISON_PAGE, FLEET_PAGE):
        GRAPH.make_pooled(folder, table)


def write(handmade: HandMade, keys: list[str]) -> DataFolder:
    """Runs before of 100 s and more, runs after of 80 s and more, each a second longer than the one before it."""
    for key in keys:
        fill(handmade, key, samples=(1000 if key[0] == "b" else 800) + 10 * int(key[1]))
    return declare(handmade.folder, FASTER, LATER)


KEYS = [f"{side}{i}" for side in "ab" for i in range(5)]


def test_a_declared_comparison_is_a_table_and_a_page(handmade):
    folder = write(handmade, KEYS)
    make(folder)
    (row,) = folder.lake.read(RUN_COMPARISONS).rows(named=True)
    assert row == {
        "comparison": "faster", "kind": "run", "figure": "run time", "unit": "s", "runs_before": 5, "runs_after": 5,
        "before": 102.0, "after": 82.0, "effect": -20.0, "low": -23.0, "high": -17.0, "p_value": pytest.approx(2 / 252),
        "q_value": pytest.approx(2 / 252), "significant": True,
    }  # fmt: skip
    faster, later = folder.lake.read(COMPARISON_PAGE).rows(named=True)
    assert (faster["outcome"], faster["runs_before"], faster["runs_after"]) == ("better", 5, 5)
    assert faster["sentence"] == "The run is 19.61% shorter [16.7%, 22.5%]."
    assert "10 runs could not be judged at all." in faster["limits"]
    assert (later["outcome"], later["sentence"]) == ("not_judged", "There are no runs after the change yet.")
    page = folder.root / faster["page"]
    assert page == comparison_file(folder, "faster")
    assert page.stat().st_size == faster["bytes"]
    index = index_file(folder).read_text()
    assert '<a href="comparisons/faster.html">faster</a>: Better after. The run is 19.61% shorter' in index


def test_results_are_the_same_bytes_whatever_the_order_of_files(tmp_path):
    def made(name: str, keys: list[str]) -> list[bytes]:
        folder = write(HandMade(tmp_path / name), keys)
        make(folder)
        tables = [folder.lake.path(table) for table in (RUN_COMPARISONS, COMPARISON_PAGE)]
        pages = [comparison_file(folder, name) for name in ("faster", "later")]
        return [path.read_bytes() for path in (*tables, *pages)]

    assert made("one", KEYS) == made("other", KEYS[::-1])


def test_only_comparisons_whose_runs_change_are_made_again(handmade, monkeypatch):
    folder = write(handmade, KEYS)
    make(folder)
    assert all(GRAPH.is_current(folder, table) for table in (RUN_COMPARISONS, COMPARISON_PAGE, FLEET_PAGE))
    before = comparison_file(folder, "faster").stat().st_mtime_ns
    fill(handmade, "foreign")
    assert GRAPH.is_current(folder.fresh(), RUN_COMPARISONS)
    assert GRAPH.is_current(folder.fresh(), COMPARISON_PAGE)
    fill(handmade, "z0")
    assert not GRAPH.is_current(folder.fresh(), RUN_COMPARISONS)
    assert not GRAPH.is_current(folder.fresh(), COMPARISON_PAGE)
    make(folder.fresh())
    assert comparison_file(folder, "faster").stat().st_mtime_ns == before
    assert folder.lake.read(COMPARISON_PAGE)["runs_after"].to_list() == [5, 1]


def test_a_page_that_somebody_deleted_is_made_again(handmade):
    folder = write(handmade, KEYS)
    make(folder)
    comparison_file(folder, "faster").unlink()
    assert not GRAPH.is_current(folder, COMPARISON_PAGE)
    make(folder)
    assert comparison_file(folder, "faster").is_file()


def test_a_comparison_that_is_declared_no_more_is_gone(handmade):
    folder = write(handmade, KEYS)
    make(folder)
    changed = declare(folder, LATER)
    make(changed)
    assert changed.lake.read(RUN_COMPARISONS).height == 0
    assert changed.lake.read(COMPARISON_PAGE)["comparison"].to_list() == ["later"]
    assert not comparison_file(folder, "faster").exists()
    assert "faster" not in index_file(folder).read_text()


def test_without_declarations_there_is_nothing(handmade):
    folder = declare(write(handmade, KEYS[:2]))
    make(folder)
    assert folder.lake.read(RUN_COMPARISONS).height == folder.lake.read(COMPARISON_PAGE).height == 0
    assert "Comparisons" not in index_file(folder).read_text()
