"""Data sets as data: suite files, settings, and the errors when nothing can be judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infrascope_core.errors import InfraScopeError, SettingsError
from infrascope_core.evaluation.data_set import DataSet, Reference, divide, evaluate, load_data_sets, settings_of
from infrascope_core.settings import Settings


def suite(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return path


def test_data_sets_lie_below_their_root_and_absent_ones_are_passed_over(tmp_path):
    (tmp_path / "there").mkdir()
    path = suite(
        tmp_path,
        """
data_sets:
  - {name: a, root: real, paths: [there], reference: {phase: train}}
  - {name: b, root: real, paths: [absent]}
  - {name: c, root: nobody gave it, paths: [there]}
""",
    )
    (found,) = load_data_sets(path, {"real": tmp_path})
    assert found.name == "a"
    assert found.paths == (tmp_path / "there",)
    assert found.reference.phase == "train"


def test_a_suite_says_who_is_the_reference_in_one_of_four_ways(tmp_path):
    (tmp_path / "x").mkdir()
    ways = ({"paths": ["y"]}, {"phase": "train"}, {"mode": "others"}, {"mode": "alone"})
    entries = [{"name": f"s{i}", "root": "r", "paths": ["x"], "reference": way} for i, way in enumerate(ways)]
    paths, phase, others, alone = load_data_sets(suite(tmp_path, json.dumps({"data_sets": entries})), {"r": tmp_path})
    assert paths.reference == Reference(paths=(tmp_path / "y",))
    assert phase.reference == Reference(phase="train")
    assert others.reference == Reference(mode="others")
    assert alone.reference == Reference(mode="alone")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data_sets: [{name: a, root: r, paths: [x], colour: red}]", "colour: Extra inputs are not permitted"),
        (
            "data_sets: [{name: a, root: r, paths: [x], reference: {phase: train, paths: [y]}}]",
            "reference: Value error, a reference is given by paths, by a phase or by a mode, not by several of them",
        ),
        ("sets: []", "no readable list of data sets"),
        ("data_sets: [", "no readable list of data sets"),
    ],
)
def test_a_bad_suite_file_is_refused_in_one_sentence(tmp_path, text, message):
    with pytest.raises(SettingsError, match=r"suite\.yaml") as error:
        load_data_sets(suite(tmp_path, text), {})
    assert message in str(error.value)


def test_settings_of_a_set_change_what_they_name_and_nothing_else():
    data_set = DataSet(name="a", paths=(Path("x"),), settings={"features": {"samples": 5}})
    changed = settings_of(data_set, Settings.model_validate({"features": {"stride": 7}}))
    assert (changed.features.samples, changed.features.stride) == (5, 7)
    assert changed.detectors == Settings().detectors
    with pytest.raises(SettingsError, match=r"a: features\.samplse: Extra inputs are not permitted"):
        settings_of(data_set.model_copy(update={"settings": {"features": {"samplse": 5}}}), Settings())


def test_a_set_that_cannot_be_judged_is_reported(tmp_path):
    (tmp_path / "train_MLPforTask_Digits_2026-11-01T10-00-00_h1.txt").write_text("")
    with pytest.raises(InfraScopeError, match=r"a: no run can be judged; .* has no labels; expected train_MLP"):
        evaluate([DataSet(name="a", paths=(tmp_path,))], tmp_path / "data", Settings())


def test_a_folder_that_does_not_exist_is_reported(tmp_path):
    with pytest.raises(InfraScopeError, match="nowhere: no such file or folder"):
        divide(DataSet(name="a", paths=(tmp_path / "nowhere",)), tmp_path / "links")


def test_a_data_set_is_named_as_a_folder_can_be():
    with pytest.raises(ValueError, match="should match pattern"):
        DataSet(name="../up", paths=(Path("x"),))
    json.dumps(DataSet(name="smd-1.0", paths=(Path("x"),)).model_dump(mode="json"))
