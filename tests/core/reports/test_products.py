"""Episodes and reports over a lake that is written by hand: what makes them current, and the files they leave."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from infrascope_core.patterns.scopes import rules_of
from infrascope_core.pipeline import GRAPH
from infrascope_core.reports.products import report_files
from infrascope_core.reports.tables import ANOMALY_REPORT
from infrascope_core.store.folder import DataFolder
from tests.core.handmade import CALM, KEY, fill_with_two_runs, make_reports

RULE = {"confidence": 0.95, "lift": 2.0, "q_value": 0.0}


@pytest.fixture
def folder(handmade) -> DataFolder:
    return fill_with_two_runs(handmade)


def contents(folder: DataFolder) -> list[bytes]:
    files = chain.from_iterable(report_files(folder, key) for key in (KEY, CALM))
    return [file.read_bytes() for file in files]


def test_a_report_leaves_its_text_beside_the_lake(folder):
    make_reports(folder)
    row = folder.lake.read(ANOMALY_REPORT, KEY).row(0, named=True)
    assert (row["verdict"], row["episodes"], row["baseline"]) == ("anomalous", 1, "none")
    assert row["markdown"] == f"reports/{KEY}.md"
    assert (folder.root / row["markdown"]).read_text().startswith("# train")
    assert json.loads((folder.root / row["json"]).read_text())["run_key"] == KEY
    assert not [file for file in (folder.root / "reports").iterdir() if file.name.startswith(".")]


@pytest.mark.parametrize("which", [0, 1])
def test_a_report_whose_text_was_deleted_is_made_again_to_the_same_bytes(folder, which):
    make_reports(folder)
    before = contents(folder)
    assert GRAPH.is_current(folder, "anomaly_report", KEY)
    report_files(folder, KEY)[which].unlink()
    assert not GRAPH.is_current(folder, "anomaly_report", KEY)
    GRAPH.make(folder, "anomaly_report", KEY)
    assert GRAPH.is_current(folder, "anomaly_report", KEY)
    assert contents(folder) == before


def test_an_episode_keeps_the_rules_that_it_was_made_with_until_there_are_narrower_ones(folder, handmade):
    def current() -> list[bool]:
        return [GRAPH.is_current(folder, "anomaly_episodes", key) for key in (KEY, CALM)]

    make_reports(folder)
    sides = {"antecedent": ["a_LOW"], "consequent": ["b_LOW"]}
    handmade.put("association_rules", None, {"scope": "gpu"} | sides | RULE)
    assert current() == [False, False]  # there were none: whether or not the run has an alarm
    make_reports(folder)
    handmade.put("association_rules", None, {"scope": "gpu"} | sides | RULE | {"confidence": 0.99})
    assert current() == [True, True]
    handmade.put("association_rules", None, {"scope": "gpu"} | sides | RULE, {"scope": "gpu/infer"} | sides | RULE)
    assert current() == [True, True]  # narrower, but not theirs
    handmade.put("association_rules", None, {"scope": "gpu/train"} | sides | RULE)
    assert current() == [False, False]


def test_the_rules_of_a_run_are_those_of_its_narrowest_mined_scope(folder, handmade):
    sides = {"antecedent": ["a_LOW"], "consequent": ["b_LOW"]}
    assert rules_of(folder, KEY).is_empty()
    for scopes, expected in (
        (["cpu", "gpu"], ["gpu"]),
        (["gpu", "gpu/train", "gpu/infer"], ["gpu/train"]),
        (["gpu", "gpu/train", "gpu/train/W", "gpu/train/W2"], ["gpu/train/W"]),
    ):
        handmade.put("association_rules", None, *({"scope": scope} | sides | RULE for scope in scopes))
        assert rules_of(folder, KEY)["scope"].to_list() == expected
