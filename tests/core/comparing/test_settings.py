"""How comparisons are declared, and what is refused, in words."""

from __future__ import annotations

import pytest

from infrascope_core.errors import SettingsError
from infrascope_core.settings import load_settings

GOOD = "{name: new-disk, before: [train_*_node01], after: [train_*_node02, r7]}"


def declared(tmp_path, *comparisons: str):
    file = tmp_path / "settings.yaml"
    file.write_text(f"comparisons:\n  declared: [{', '.join(comparisons)}]\n")
    return load_settings(file).comparisons.declared


def test_a_comparison_names_two_sets_of_runs(tmp_path):
    (one,) = declared(tmp_path, GOOD)
    assert (one.name, one.before, one.after) == ("new-disk", ("train_*_node01",), ("train_*_node02", "r7"))


@pytest.mark.parametrize(
    ("comparisons", "fault"),
    [
        ((GOOD, GOOD.replace("new", "NEW")), "two comparisons have the name new-disk, upper and lower case apart"),
        (("{name: ../x, before: [a], after: [b]}",), "declared.0.name: expected a string that matches"),
        (("{name: x, before: [], after: [b]}",), "declared.0.before: expected a non-empty list of strings"),
        (("{name: x, before: [a]}",), "declared.0.after: expected a non-empty list of strings, found nothing"),
        (("{name: x, before: [a], after: [b], afer: []}",), "declared.0.afer: unknown; did you mean after?"),
        (("x",), "declared.0: expected a mapping of names to values, found 'x'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, comparisons, fault):
    with pytest.raises(SettingsError) as error:
        declared(tmp_path, *comparisons)
    assert f"comparisons.{fault}" in str(error.value) or f"comparisons.declared: {fault}" in str(error.value)
