"""Counts at several supports and rules with several lengths of windows, on the sample and on nothing."""

from __future__ import annotations

import polars as pl
import pytest

import infrascope_core as ic
from infrascope_core.errors import InfraScopeError
from infrascope_core.patterns.itemsets import BasketBits, count_itemsets, frequent_itemsets
from infrascope_core.patterns.tables import ASSOCIATION_RULES
from infrascope_core.pipeline import GRAPH
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.studies.mining_choices import compare_window_lengths, count_at_supports
from infrascope_core.studies.tables import MINING_FEASIBILITY, WINDOW_SENSITIVITY
from infrascope_core.symbols.tables import BASKETS
from tests.runs import write_run


def no_tick(done: int, total: int) -> None:
    """Progress is not looked at."""


def test_itemsets_are_counted_as_they_are_mined(sample):
    found = count_at_supports(sample, no_tick)
    assert found.schema == MINING_FEASIBILITY.schema
    keys = list(sample.lake.keys(BASKETS))
    assert found["items"].unique().to_list() == [48]
    mined = sample.settings.mining
    tables = sample.lake.read_all(BASKETS, sorted(keys))
    groups = {item.rpartition("_")[0] for item in sample.lake.read(ASSOCIATION_RULES)["consequent"].list.first()}
    some = tables.filter(pl.col("metric_group").is_in(sorted(groups)[:6]))
    for support in (0.05, 0.01):
        itemsets = frequent_itemsets(some, "cpu", mined.model_copy(update={"min_support": support}))
        by_size = dict(itemsets.group_by("size").len().iter_rows())
        assert count_itemsets(BasketBits.of_table(some, support), support, 4) == [
            by_size.get(size, 0) for size in (1, 2, 3, 4)
        ]
    lower = found.sort("min_support", descending=True).partition_by("size")
    for size in lower:
        assert size["itemsets"].to_list() == sorted(size["itemsets"])
        assert (size["itemsets"] <= size["possible"]).all()


@pytest.mark.slow
def test_rules_of_the_usual_length_are_the_rules(sample):
    found = compare_window_lengths(sample, no_tick)
    assert found.schema == WINDOW_SENSITIVITY.schema
    assert found["window_s"].to_list() == [1.0, 2.0, 5.0]
    first, *others = found.iter_rows(named=True)
    assert first["rules"] == sample.lake.read(ASSOCIATION_RULES).filter(scope="cpu").height
    assert (first["jaccard"], first["kept"], first["common"]) == (1.0, 1.0, first["rules"])
    for row in others:
        assert 0 < row["common"] < first["rules"]
        assert row["kept"] == row["common"] / first["rules"]
        assert row["jaccard"] == row["common"] / (first["rules"] + row["rules"] - row["common"])
        assert row["baskets"] < first["baskets"] / row["window_s"] + 18


def test_a_folder_without_runs_and_one_with_a_short_one(tmp_path, make_all):
    folder = DataFolder(tmp_path / "empty")
    for table in (MINING_FEASIBILITY, WINDOW_SENSITIVITY):
        assert GRAPH.make_pooled(folder, table).equals(table.empty())
    write_run(tmp_path / "runs", 1, samples=25)
    short = make_all(tmp_path / "data", tmp_path / "runs")
    assert GRAPH.make_pooled(short, MINING_FEASIBILITY).is_empty()
    found = GRAPH.make_pooled(short, WINDOW_SENSITIVITY)
    assert found["rules"].to_list() == [0, 0, 0]
    assert found["jaccard"].null_count() == 3


def test_a_study_is_made_when_it_is_asked_for(tmp_path):
    write_run(tmp_path / "runs", 1, samples=600)
    folder = ic.open(tmp_path / "data", sources=[tmp_path / "runs"], settings=Settings())
    folder.refresh()
    assert folder.table("mining_feasibility").pl().is_empty()
    assert folder.study("mining_feasibility").pl().columns == MINING_FEASIBILITY.schema.names()
    with pytest.raises(InfraScopeError, match="'baskets' is not a study; expected one of window_agreement"):
        folder.study("baskets")
