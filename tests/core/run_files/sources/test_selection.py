"""Which runs are wanted: by pattern, phase and number, and how that is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrascope_core.errors import InfraScopeError
from infrascope_core.run_files.sources.folder import LocalFile
from infrascope_core.run_files.sources.selection import EVERYTHING, Selection, select

RUNS = [
    LocalFile(Path(f"{phase}_separated/{prefix}_{model}forTask_default_2025-04-26T13-38-{i:02d}_h1.txt"))
    for i in range(4)
    for phase, prefix, model in (
        ("train", "train", "BERTBASE"),
        ("infer", "infer", "VGG16"),
        ("train", "data", "LLAMA"),
    )
]


def chosen(selection: Selection, **described: tuple[str, str]) -> set[str]:
    return {entry.path.name.split("for")[0] for entry in select(RUNS, selection, described, "x")}


def test_by_workload_and_phase():
    assert chosen(EVERYTHING) == {"train_BERTBASE", "infer_VGG16", "data_LLAMA"}
    assert chosen(Selection(workload="bert*")) == {"train_BERTBASE"}
    assert chosen(Selection(phase="fine-tuning")) == {"data_LLAMA"}
    assert chosen(Selection(workload="*__Task__default", phase="infer")) == {"infer_VGG16"}


def test_a_table_knows_better_than_the_name():
    key = RUNS[0].path.name.removesuffix(".txt")
    found = select(RUNS, Selection(workload="T5*"), {key: ("train", "T5__Task__default")}, "x")
    assert [entry.path.name for entry in found] == [RUNS[0].path.name]


def test_a_number_of_runs_is_a_part_of_a_larger_number_whatever_the_order():
    few, more = (set(select(RUNS, Selection(runs=n), {}, "x")) for n in (3, 7))
    assert (len(few), len(more)) == (3, 7) and few < more
    assert set(select(RUNS[::-1], Selection(runs=3), {}, "x")) == few


def test_a_choice_that_fits_nothing_is_said():
    with pytest.raises(InfraScopeError, match=r"^x: none of its 12 files is of phase train and workload GPT\*$"):
        select(RUNS, Selection("GPT*", "train", 3), {}, "x")


@pytest.mark.parametrize(
    "selection", [EVERYTHING, Selection("BERT*"), Selection("a b&c", "infer", 20), Selection(runs=1)]
)
def test_it_is_read_as_it_is_written(selection):
    assert Selection.parse(selection.query, "x") == selection


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("workload", "expected name=value after the question mark"),
        ("host=a", "unknown choice host; expected workload, phase or runs"),
        ("runs=0", "runs: expected a whole number of at least 1, found 0"),
        ("runs=-3", "runs: expected a whole number of at least 1, found -3"),
        ("runs=" + "9" * 5000, "runs: expected a whole number of at least 1, found 99"),
        ("phase=test", "phase: expected one of train, infer, fine-tuning, found test"),
    ],
)
def test_what_cannot_be_read(query, fault):
    with pytest.raises(InfraScopeError, match=fault):
        Selection.parse(query, "hub:a/b")
