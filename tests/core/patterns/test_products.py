"""Mining a data folder: scopes, what is left out, and counts that agree with the baskets by hand."""

from __future__ import annotations

import shutil
from dataclasses import replace

import polars as pl
import pytest

from infrascope_core.patterns.scopes import rules_of, same_scopes, scopes
from infrascope_core.patterns.tables import ASSOCIATION_RULES, FREQUENT_ITEMSETS, MINED_SCOPES
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.runs import accepted
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.tables import BASKETS, THRESHOLDS
from tests.runs import write_run


def test_scopes_from_wide_to_narrow():
    runs = pl.DataFrame(
        [("b", "cpu", "train", "W"), ("a", "cpu", "infer", "W"), ("c", "gpu", "train", "V")],
        schema=["run_key", "platform", "phase", "workload"],
        orient="row",
    )
    assert scopes(runs) == {
        "cpu": ["a", "b"],
        "gpu": ["c"],
        "cpu/infer": ["a"],
        "cpu/train": ["b"],
        "gpu/train": ["c"],
        "cpu/infer/W": ["a"],
        "cpu/train/W": ["b"],
        "gpu/train/V": ["c"],
    }


def test_a_scope_with_the_runs_of_a_wider_one_is_that_one():
    runs_of = {"cpu": ["a", "b"], "gpu": ["c"], "cpu/infer": ["a"], "cpu/train": ["b"], "gpu/train": ["c"]}
    runs_of |= {"cpu/infer/W": ["a"], "cpu/train/W": ["b"], "gpu/train/V": ["c"]}
    assert same_scopes(runs_of) == {
        "gpu/train": "gpu",
        "gpu/train/V": "gpu",
        "cpu/infer/W": "cpu/infer",
        "cpu/train/W": "cpu/train",
    }


def test_what_is_mined_once_serves_all_scopes_of_the_same_runs(folder):
    mined = folder.lake.read(MINED_SCOPES)
    assert mined["scope"].to_list() == ["cpu", "cpu/train", "cpu/train/MLP__ImageClassification__Digits"]
    assert mined["same_as"].to_list() == [None, "cpu", "cpu"]
    assert mined.select("runs", "windows", "tested").unique().height == 1
    for table in MINED:
        assert set(folder.lake.read(table)["scope"]) <= {"cpu"}
    rules = folder.lake.read(ASSOCIATION_RULES)
    assert rules_of(folder, accepted(folder)["run_key"][0]).equals(rules)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_all):
    folder = tmp_path_factory.mktemp("mined")
    for second in (1, 2, 3):
        write_run(folder / "runs", second, burst=(200, 280) if second == 2 else None)
    return make_all(folder / "data", folder / "runs")


MINED = (FREQUENT_ITEMSETS, ASSOCIATION_RULES)


def mine(folder: DataFolder, table) -> pl.DataFrame:
    return GRAPH.make_pooled(folder, table)


def is_mined(folder: DataFolder) -> bool:
    return all(GRAPH.is_current(folder, table) for table in MINED)


def windows_with(folder, *items: str) -> set[tuple[str, int]]:
    found = None
    for item in items:
        having = {
            (key, window)
            for key in accepted(folder)["run_key"]
            for window in folder.lake.read(BASKETS, key).filter(item=item)["window"]
        }
        found = having if found is None else found & having
    return found or set()


def test_counts_agree_with_the_baskets(folder):
    itemsets = folder.lake.read(FREQUENT_ITEMSETS).filter(scope="cpu")
    assert itemsets.height > 20
    for items, count, support, runs in itemsets.select("items", "count", "support", "runs").head(60).iter_rows():
        windows = windows_with(folder, *items)
        assert (count, runs) == (len(windows), len({key for key, _ in windows}))
        assert support == pytest.approx(len(windows) / 120)
    rules = folder.lake.read(ASSOCIATION_RULES).filter(scope="cpu")
    for left, right, confidence, lift in (
        rules.select("antecedent", "consequent", "confidence", "lift").head(60).iter_rows()
    ):
        both = len(windows_with(folder, *left, *right))
        assert confidence == pytest.approx(both / len(windows_with(folder, *left)))
        assert lift == pytest.approx(confidence / (len(windows_with(folder, *right)) / 120))


def test_degenerate_groups_are_left_out_of_items_and_of_the_count(folder, tmp_path):
    """Windows that hold nothing but a degenerate group are no baskets, for itemsets and rules alike."""
    shutil.copytree(folder.root, tmp_path / "data")
    folder = replace(folder, root=tmp_path / "data")
    lake = folder.lake
    key = accepted(folder)["run_key"][0]
    baskets = lake.read(BASKETS, key)
    lake.write(
        baskets.filter((pl.col("window") >= 10) | (pl.col("metric_group") == "Disk_write")), BASKETS, key, "by hand"
    )
    thresholds = lake.read(THRESHOLDS).with_columns(degenerate=pl.col("metric_group") == "Disk_write")
    lake.write(thresholds, THRESHOLDS, made_from=lake.made_from(THRESHOLDS) or "")
    assert not is_mined(folder)
    itemsets, rules = (mine(folder, table).filter(scope="cpu") for table in MINED)
    assert is_mined(folder)
    assert not [items for items in itemsets["items"] if any("Disk_write" in item for item in items)]
    single = itemsets.filter(size=1).row(0, named=True)
    assert single["support"] == pytest.approx(single["count"] / 110)
    joint = {tuple(items): support for items, support in itemsets.select("items", "support").iter_rows()}
    for left, right, support in rules.select("antecedent", "consequent", "support").head(30).iter_rows():
        assert support == pytest.approx(joint[tuple(sorted([*left, *right]))])


def test_an_empty_folder_is_mined_to_empty_tables(tmp_path):
    folder = DataFolder(tmp_path)
    assert [mine(folder, table).is_empty() for table in MINED] == [True, True]
    assert is_mined(folder)
