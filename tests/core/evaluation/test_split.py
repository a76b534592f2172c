"""Which runs are reference and which are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from infrascope_core.evaluation.split import find_labelled, split_by_phase, split_by_reference, split_healthy

HEADER = "start,end,fault,subsystem,metrics\n"
FAULT = "2026-11-01 10:00:10.000,2026-11-01 10:00:20.000,leak,Memory,\n"


def put(folder: Path, minute: int, faulty: bool = False, model: str = "MLP", phase: str = "train") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    key = f"{phase}_{model}forTask_Digits_2026-11-01T10-{minute:02d}-00_h1"
    (folder / f"{key}.txt").write_text("content is not looked at")
    (folder / f"{key}.faults.csv").write_text(HEADER + (FAULT if faulty else ""))
    return key


def test_the_earlier_half_of_the_healthy_runs_is_the_reference(tmp_path):
    healthy = [put(tmp_path, minute) for minute in (7, 1, 5)]
    faulty = put(tmp_path, 3, faulty=True)
    split = split_healthy(find_labelled([tmp_path])[0])
    assert [run.key for run in split.reference] == sorted([healthy[1], healthy[2]])
    assert [run.key for run in split.judged] == sorted([faulty, healthy[0]])
    assert split.reference_of == dict.fromkeys((faulty, healthy[0]), tuple(sorted([healthy[1], healthy[2]])))
    assert split.notes == ()


def test_each_workload_and_phase_has_its_own_references(tmp_path):
    mlp, sgd = put(tmp_path, 1), put(tmp_path, 2, model="SGD")
    judged = [put(tmp_path, 3, True), put(tmp_path, 4, True, model="SGD"), put(tmp_path, 5, True, phase="infer")]
    split = split_healthy(find_labelled([tmp_path])[0])
    assert split.reference_of == {judged[0]: (mlp,), judged[1]: (sgd,)}
    assert [note.split(":")[0] for note in split.notes] == [
        "train MLP__Task__Digits",  # its one healthy run is the reference
        "train SGD__Task__Digits",
        "infer MLP__Task__Digits",  # nothing to compare with
    ]


def test_no_run_is_both_reference_and_judged(tmp_path):
    for minute in range(9):
        put(tmp_path, minute, faulty=minute % 4 == 0)
    split = split_healthy(find_labelled([tmp_path])[0])
    assert not {run.key for run in split.reference} & {run.key for run in split.judged}
    assert len(split.reference) + len(split.judged) == 9


def test_a_reference_folder_within_the_judged_one_is_not_judged(tmp_path):
    reference = [put(tmp_path / "reference", 1), put(tmp_path / "reference", 2)]
    spoilt = put(tmp_path / "reference", 3, faulty=True)
    judged = put(tmp_path / "low", 4, faulty=True)
    runs, _ = find_labelled([tmp_path])
    split = split_by_reference(runs, find_labelled([tmp_path / "reference"])[0])
    assert split.reference_of == dict.fromkeys((spoilt, judged), tuple(reference))
    assert split.notes == ("1 of the reference runs are left out, because their labels hold faults",)
    assert {run.part for run in split.judged} == {"low", "reference"}


def test_a_run_that_is_named_as_reference_needs_no_labels(tmp_path):
    key = put(tmp_path, 1)
    drop_labels(tmp_path, key)
    assert [run.healthy for run in find_labelled([tmp_path], named_healthy=True)[0]] == [True]


def test_another_phase_is_presented_under_the_judged_one(tmp_path):
    put(tmp_path, 1, phase="train")
    judged = put(tmp_path, 2, True, phase="infer")
    assert not split_by_phase(find_labelled([tmp_path])[0], "train", tmp_path / "links").notes
    assert not list((tmp_path / "links").glob("*.metrics.csv"))
    (labels,) = tmp_path.glob("train_*.faults.csv")
    labels.with_name(labels.name.replace(".faults.csv", ".metrics.csv")).write_text("metric,type,origin\n")
    split = split_by_phase(find_labelled([tmp_path])[0], "train", tmp_path / "links")
    linked = "infer_MLPforTask_Digits_2026-11-01T10-01-00_h1"
    assert split.reference_of == {judged: (linked,)}
    assert split.reference[0].path.read_text() == "content is not looked at"
    assert (tmp_path / "links" / f"{linked}.faults.csv").read_text() == HEADER
    assert (tmp_path / "links" / f"{linked}.metrics.csv").read_text() == "metric,type,origin\n"


def test_parts_are_the_first_folders(tmp_path):
    put(tmp_path / "low" / "deeper", 1)
    put(tmp_path, 2)
    assert [run.part for run in find_labelled([tmp_path])[0]] == ["low", ""]


def spoil_labels(folder: Path, key: str) -> None:
    (folder / f"{key}.faults.csv").write_text("what,ever\n")


def drop_labels(folder: Path, key: str) -> None:
    (folder / f"{key}.faults.csv").unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop_labels, "has no labels; expected {key}.faults.csv beside it, with a header alone if the run is healthy"),
        (spoil_labels, "expected the header start,end,fault,subsystem,metrics, found what,ever"),
    ],
)
def test_runs_without_usable_labels_are_reported_and_left_out(tmp_path, spoil, message):
    key, good = put(tmp_path, 1), put(tmp_path, 2)
    spoil(tmp_path, key)
    runs, problems = find_labelled([tmp_path])
    assert [run.key for run in runs] == [good]
    assert [sentence for _, sentence in problems] == [message.format(key=key)]


def test_two_files_of_one_name_are_reported(tmp_path):
    put(tmp_path / "a", 1)
    put(tmp_path / "b", 1)
    runs, problems = find_labelled([tmp_path])
    assert len(runs) == 1
    assert "another file of the same name" in problems[0][1]
