"""Recipes and settings as files: those that come with the package, and the errors for a wrong one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pydantic
import pytest
import yaml

from infrascope_core import recipes
from infrascope_core.anomalies.settings import DetectorSettings, FeatureSettings
from infrascope_core.errors import RecipeError, SettingsError
from infrascope_core.patterns.settings import MiningSettings
from infrascope_core.recipes import Recipe, load_recipe
from infrascope_core.section import fault_in_words
from infrascope_core.settings import Settings, load_settings
from infrascope_core.store.folder import DataFolder
from infrascope_core.symbols.settings import WindowSettings

EXACT = yaml.safe_load((Path(recipes.__file__).parent / "infrascope.recipe.yaml").read_text())
SIMPLE = {
    "name": "mine",
    "names": "metric",
    "constancy": "pooled_cv",
    "near_constant": 0.001,
    "method": "mode_aware",
    "population": "windows",
    "quantiles": [0.33, 0.67],
    "groups": [{"name": "Load", "unit": "%", "subsystem": "CPU", "patterns": ["busy"]}],
}


@pytest.fixture
def recipe_file(tmp_path):
    """A recipe file: SIMPLE with other values, or any text."""

    def write(text: str | bytes | None = None, group: dict | None = None, **changes) -> str:
        path = tmp_path / "mine.yaml"
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            groups = [SIMPLE["groups"][0] | (group or {})]
            path.write_text(text if text is not None else yaml.safe_dump(SIMPLE | {"groups": groups} | changes))
        return str(path)

    return write


# -- recipes


def test_a_folder_that_an_earlier_version_filled_is_opened_without_what_is_gone(tmp_path):
    content = Settings(mining=MiningSettings(min_support=0.05)).model_dump(mode="json")
    content["mining"]["min_confidence"] = 0.6
    (tmp_path / "settings.json").write_text(json.dumps(content))
    assert DataFolder.as_last_filled(tmp_path).settings.mining == MiningSettings(min_support=0.05)
    with pytest.raises(SettingsError, match=r"mining\.min_confidence: unknown"):
        load_settings(tmp_path / "settings.json")
    (tmp_path / "settings.json").write_text("[]")
    with pytest.raises(SettingsError, match=r"settings\.json"):
        DataFolder.as_last_filled(tmp_path)


def test_the_exact_recipe_is_design_section_4_to_the_letter():
    recipe = load_recipe("infrascope")
    assert {group.name: group.patterns for group in recipe.groups} == {
        "GPU_util": (r"utilization\.gpu\.\d+\.",),
        "GPU_mem_util": (r"utilization\.memory\.\d+\.",),
        "GPU_power": (r"power\.draw\.\d+\.",),
        "GPU_temp": (r"temperature\.gpu\.\d+\.",),
        "CPU_busy": (r"Turbostat:Busy%\.\-\.",),
        "CPU_ipc": (r"Perf:IPC\.[A-Za-z]",),
        "CPU_stall": (r"Perf:StallRatio\.",),
        "Mem_util": (r"Memory:MemoryUtilization\.",),
        "Mem_available": (r"MemAvailable\.",),
        "Net_rx_bytes": (r"rx_bytes\.",),
        "Net_tx_bytes": (r"tx_bytes\.",),
    }
    assert {(group.over_samples, group.over_metrics) for group in recipe.groups} == {("median", "median")}
    assert recipe.model_dump(exclude={"groups"}) == {
        "name": "infrascope",
        "names": "column",
        "constancy": "mean_cv",
        "near_constant": 0.01,
        "method": "terciles",
        "population": "samples",
        "values": "raw",
        "windows": "samples",
        "quantiles": (0.33, 0.67),
    }
    assert WindowSettings().samples == 10


def test_the_default_recipe_corrects_the_known_flaws_of_the_exact_one():
    recipe = load_recipe("default")
    assert (recipe.names, recipe.method) == ("metric", "mode_aware")
    assert (recipe.constancy, recipe.population) == ("pooled_cv", "windows")
    groups = {group.name: group for group in recipe.groups}
    assert set(groups) >= {group.name for group in load_recipe("infrascope").groups}
    assert groups["Net_rx_bytes"].over_metrics == groups["Net_tx_bytes"].over_metrics == "sum"
    assert not any("diff" in pattern for pattern in groups["Mem_available"].patterns)
    assert recipe.subsystem_of["Disk_write"] == "Storage"


def test_a_copy_of_a_packaged_recipe_loads_by_its_path(recipe_file):
    assert load_recipe(recipe_file(yaml.safe_dump(EXACT))) == load_recipe("infrascope")


def test_reducers_are_medians_by_default(recipe_file):
    (group,) = load_recipe(recipe_file(group={"over_metrics": "sum"})).groups
    assert (group.over_samples, group.over_metrics) == ("median", "sum")


def test_a_recipe_cannot_be_changed_by_accident():
    with pytest.raises(pydantic.ValidationError):
        load_recipe("default").near_constant = 1  # type: ignore[misc]  # the assignment is what must fail


def refused(name: str) -> str:
    """The one sentence that a wrong recipe gets, after the file's name."""
    with pytest.raises(RecipeError) as caught:
        load_recipe(name)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert "\n" not in message
    return message.removeprefix(f"{name}: ")


@pytest.mark.parametrize("name", ["nonsense", "", "claims", "default.recipe", "../recipes/default", "/", "a\0b"])
def test_the_error_for_an_unknown_recipe_names_the_known_ones(name):
    assert refused(name) == "no such recipe; expected default or infrascope, or a YAML file"


@pytest.mark.parametrize(
    "text", ["groups: [", "a: b: c", "\tx: 1", "{[1]: 2}", "%", "name: !!python/object:os.system {}", b"\xff\xfe\x00"]
)
def test_what_cannot_be_read_as_yaml_is_refused(recipe_file, text):
    assert refused(recipe_file(text)).startswith("cannot be read as YAML (")


@pytest.mark.parametrize("text", ["", "[]", "just text", "1"])
def test_yaml_that_is_not_a_recipe_is_refused(recipe_file, text):
    assert refused(recipe_file(text)).startswith("the file: ")


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"colour": "red"}, "colour: "),
        ({"names": "host"}, "names: "),
        ({"method": "magic"}, "method: "),
        ({"constancy": "cv"}, "constancy: "),
        ({"population": "people"}, "population: "),
        ({"near_constant": -0.1}, "near_constant: "),
        ({"near_constant": float("nan")}, "near_constant: "),
        ({"quantiles": [0.5]}, "quantiles"),
        ({"quantiles": ["low", 0.7]}, "quantiles.0: "),
        ({"groups": []}, "groups: "),
        ({"group": {"reducer": "sum"}}, "groups.0.reducer: "),
        ({"group": {"over_samples": "mode"}}, "groups.0.over_samples: "),
        ({"group": {"name": "net rx"}}, "groups.0.name: "),
        ({"group": {"name": "a\n"}}, "groups.0.name: "),
        ({"group": {"name": ""}}, "groups.0.name: "),
        ({"group": {"patterns": []}}, "groups.0.patterns: "),
        ({"group": {"patterns": "busy"}}, "groups.0.patterns: "),
        ({"group": {"subsystem": "Gpu"}}, "groups.0.subsystem: "),
    ],
)
def test_the_field_at_fault_is_named(recipe_file, changes, where):
    assert refused(recipe_file(**changes)).startswith(where)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"near_constant": -0.1}, "near_constant: expected a number of at least 0, found -0.1"),
        ({"names": "host"}, "names: expected one of column, metric, found 'host'"),
        ({"quantiles": [0.5]}, "quantiles.1: expected a number, found nothing"),
        ({"quantiles": ["low", 0.7]}, "quantiles.0: expected a number, found 'low'"),
        ({"quantiles": [0.7, 0.2]}, "quantiles: expected 0 < lower < upper < 1, found 0.7 and 0.2"),
        ({"groups": []}, "groups: expected a non-empty list of mappings, found []"),
        ({"groups": ["x"]}, "groups.0: expected a mapping of names to values, found 'x'"),
        ({"group": {"name": "net rx"}},
         "groups.0.name: expected a string that matches ^[A-Za-z][A-Za-z0-9_]*$, found 'net rx'"),
        ({"group": {"patterns": []}}, "groups.0.patterns: expected a non-empty list of strings, found []"),
        ({"group": {"reducers": "sum"}}, "groups.0.reducers: unknown; expected one of name, unit, subsystem, patterns, "
                                         "over_samples, over_metrics, words, plural, same_as, inverse"),
        ({"group": {"over_metric": "sum"}}, "groups.0.over_metric: unknown; did you mean over_metrics?"),
        ({"group": {"over_samples": "mode"}},
         "groups.0.over_samples: expected one of median, mean, sum, max, found 'mode'"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_explained_in_one_sentence(recipe_file, changes, fault):
    assert refused(recipe_file(**changes)) == fault


def test_a_missing_field_is_named(recipe_file):
    rest = {name: value for name, value in SIMPLE.items() if name != "method"}
    assert refused(recipe_file(yaml.safe_dump(rest))).startswith("method: ")


def test_an_invalid_pattern_is_shown(recipe_file):
    message = refused(recipe_file(group={"patterns": ["fine", "rx_bytes("]}))
    assert message.startswith("groups.0.patterns: ")
    assert "'rx_bytes(' is not a valid regular expression" in message


def test_the_error_for_an_unknown_subsystem_names_the_known_ones(recipe_file):
    message = refused(recipe_file(group={"subsystem": "Disk"}))
    assert "'Disk'; expected one of CPU, GPU, Memory, Network, Storage, Other" in message


@pytest.mark.parametrize("other", ["Load", "LOAD"])
def test_two_groups_of_one_name_are_refused(recipe_file, other):
    """Also those that differ by case alone: nothing else distinguishes their items."""
    twins = [SIMPLE["groups"][0], SIMPLE["groups"][0] | {"name": other}]
    message = refused(recipe_file(groups=twins))
    assert message.startswith("groups: ")
    assert "two groups have the same name" in message


@pytest.mark.parametrize("quantiles", [[0.67, 0.33], [-1, 0.5], [0.5, 7], [float("nan"), 0.5]])
def test_quantiles_are_shares_in_rising_order(recipe_file, quantiles):
    assert refused(recipe_file(quantiles=quantiles)).startswith("quantiles")


def test_a_pattern_that_is_too_much_for_the_regex_engine_is_refused(recipe_file):
    assert refused(recipe_file(group={"patterns": ["a{99999999999}"]})).startswith("groups.0.patterns: ")


@pytest.mark.parametrize("value", ["2025-13-45", "9" * 5000])
def test_yaml_values_that_cannot_be_read_are_refused(recipe_file, value):
    assert refused(recipe_file(f"name: {value}"))


# -- settings


def test_no_file_and_an_empty_file_give_the_defaults(tmp_path):
    (tmp_path / "s.yaml").write_text("# nothing differs\n")
    assert load_settings(None) == load_settings(tmp_path / "s.yaml") == Settings()


def test_a_file_names_only_what_differs(tmp_path):
    (tmp_path / "s.yaml").write_text("recipe: infrascope\nfeatures: {stride: 5}\n")
    loaded = load_settings(str(tmp_path / "s.yaml"))
    assert loaded == Settings(recipe="infrascope", features=FeatureSettings(stride=5))
    assert loaded.features.samples == 30


def test_the_defaults_are_those_of_the_works_they_come_from():
    """10 samples a window; 3 s every 1 s; detectors at the 99th percentile, 95 % of the variance."""
    defaults = Settings()
    assert (defaults.windows.samples, defaults.features.samples, defaults.features.stride) == (10, 30, 10)
    detectors = defaults.detectors
    assert (detectors.flag_quantile, detectors.pca_variance) == (0.99, 0.95)
    assert (detectors.compare_with, detectors.scale) == ("auto", "robust")  # where we leave the paper
    assert not defaults.selection.enabled
    assert defaults.mining.min_support == 0.01
    assert defaults.recipe == "default"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("colour: red", "colour: "),
        ("windows: {sample: 10}", "windows.sample: "),
        ("windows: {samples: 0}", "windows.samples: "),
        ("windows: {samples: 1.5}", "windows.samples: "),
        ("windows: {samples: many}", "windows.samples: "),
        ("windows: 10", "windows: "),
        ("features: {samples: 2}", "features.samples: "),
        ("features: {stride: 0}", "features.stride: "),
        ("reader: {min_fields_for_tabs: 1}", "reader.min_fields_for_tabs: "),
        ("reader: {max_bytes: 0}", "reader.max_bytes: "),
        ("reader: {max_columns: 1}", "reader.max_columns: "),
        ("mining: {min_support: 0}", "mining.min_support: "),
        ("mining: {min_support: 1.01}", "mining.min_support: "),
        ("mining: {max_size: 0}", "mining.max_size: "),
        ("mining: {min_gain: -0.1}", "mining.min_gain: "),
        ("mining: {max_antecedent: 4}", "mining.max_antecedent: "),
        ("mining: {min_baskets: 0}", "mining.min_baskets: "),
        ("detectors: {flag_quantile: 1}", "detectors.flag_quantile: "),
        ("detectors: {flag_quantile: .nan}", "detectors.flag_quantile: "),
        ("detectors: {pca_variance: 0}", "detectors.pca_variance: "),
        ("detectors: {contamination: 0.01}", "detectors.contamination: "),  # once a setting
        ("detectors: {alarm_probability: 0}", "detectors.alarm_probability: "),
        ("detectors: {compare_with: nobody}", "detectors.compare_with: "),
        ("detectors: {trees: 0}", "detectors.trees: "),
        ("detectors: {min_windows: 1}", "detectors.min_windows: "),
        ("detectors: {max_windows: 1}", "detectors.max_windows: "),
        ("detectors: {past_windows: 29}", "detectors.past_windows: "),
        ("detectors: {place_windows: -1}", "detectors.place_windows: "),
        ("detectors: {reasons_per_window: 0}", "detectors.reasons_per_window: "),
        ("recipe: [a]", "recipe: "),
        ("- recipe", "the file: "),
        ("nonsense", "the file: "),
        (
            "windows: " + "[" * 40 + "]" * 40,
            "windows: expected a mapping of names to values, found a list of lists or mappings",
        ),
        ("windows: {", "cannot be read as YAML ("),
        ("a: b: c", "cannot be read as YAML ("),
    ],
)
def test_the_setting_at_fault_is_named(tmp_path, text, where):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert str(caught.value).startswith(f"{path}: {where}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("windows: {samples: 0}", "windows.samples: expected a whole number of at least 1, found 0"),
        ("windows: {samples: 1.5}", "windows.samples: expected a whole number of at least 1, found 1.5"),
        ("windows: {samples: many}", "windows.samples: expected a whole number of at least 1, found 'many'"),
        ("windows: {samples: }", "windows.samples: expected a whole number of at least 1, found nothing"),
        ("windows: {samples: {a: 1}}", "windows.samples: expected a whole number of at least 1, found a mapping"),
        ("detectors: {random_state: x}", "detectors.random_state: expected a whole number, found 'x'"),
        ("mining: {min_support: 0}", "mining.min_support: expected a number above 0 and at most 1, found 0"),
        ("hosts: {least_relative: 2}", "hosts.least_relative: expected a number of at least 0 and at most 1, found 2"),
        ("episodes: {broken_share: 1}", "episodes.broken_share: expected a number of at least 0 and below 1, found 1"),
        ("evaluation: {level: .nan}", "evaluation.level: expected a number above 0 and below 1, found nan"),
        ("hosts: {limit: 0}", "hosts.limit: expected a number above 0, found 0"),
        ("classes: {static_cv: -1}", "classes.static_cv: expected a number of at least 0, found -1"),
        ("detectors: {scale: odd}", "detectors.scale: expected one of robust, plain, found 'odd'"),
        ("detectors: {reference_runs: x}", "detectors.reference_runs: expected a list of strings, found 'x'"),
        ("detectors: {reference_runs: [1]}", "detectors.reference_runs.0: expected a string, found 1"),
        ("latency: {batches: [1.5]}", "latency.batches.0: expected a whole number, found 1.5"),
        ("agreement: {finer: [1]}", "agreement.finer.1: expected a number, found nothing"),
        ("agreement: {finer: [1, 2, 3]}", "agreement.finer: expected a list of 2 numbers, found [1, 2, 3]"),
        ("selection: {enabled: maybe}", "selection.enabled: expected true or false, found 'maybe'"),
        ("recipe: [a]", "recipe: expected a string, found ['a']"),
        ("recipe: 2025-01-02", "recipe: expected a string, found 2025-01-02"),
        ("windows: 10", "windows: expected a mapping of names to values, found 10"),
        ("nonsense", "the file: expected a mapping of names to values, found 'nonsense'"),
        ("windows: {sample: 10}", "windows.sample: unknown; did you mean samples?"),
        ("windows: {colour: 10}", "windows.colour: unknown; expected one of samples, seconds"),
        ("windows: {1: 2}", "windows.1: unknown; expected one of samples, seconds"),
        ("hosts: {limit: " + "a" * 99 + "}", "hosts.limit: expected a number above 0, found '" + "a" * 58 + "…"),
        ("windows: {samples: -0x" + "f" * 9000 + "}",
         "windows.samples: expected a whole number of at least 1, found a number that is too long"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_explained_in_one_sentence(tmp_path, text, fault):
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert str(caught.value) == f"{path}: {fault}"


def test_every_constraint_of_the_settings_has_an_explanation():
    """A wrong value for every setting that there is: each message says what was expected, and is not pydantic's."""
    for section, field in Settings.model_fields.items():
        if section == "recipe":
            continue
        for name in field.annotation.model_fields:
            with pytest.raises(pydantic.ValidationError) as caught:
                Settings.model_validate({section: {name: {"wrong": "value"}}})
            sentence = fault_in_words(Settings, caught.value)
            assert re.fullmatch(rf"{section}\.{name}: expected (a |one of |true or false).*, found a mapping", sentence)
            assert caught.value.errors()[0]["msg"] not in sentence


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_settings_that_cannot_be_opened(tmp_path, name):
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path / name)


@pytest.mark.parametrize("text", ["recipe: 2025-13-45", "detectors: {random_state: " + "9" * 5000 + "}"])
def test_settings_that_yaml_itself_cannot_convert(tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SettingsError):
        load_settings(tmp_path / "s.yaml")


@pytest.mark.parametrize("text", ["[]", "0", "false", "''"])
def test_an_empty_value_that_is_not_a_mapping_is_not_a_settings_file(tmp_path, text):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SettingsError):
        load_settings(tmp_path / "s.yaml")


def test_a_digest_follows_the_values_and_nothing_else():
    assert WindowSettings().digest() == WindowSettings(samples=10).digest()
    assert WindowSettings().digest() != WindowSettings(samples=11).digest()
    assert DetectorSettings(trees=50).digest() != DetectorSettings().digest()
    assert Settings(windows=WindowSettings(samples=5)).digest() != Settings().digest()


def test_settings_cannot_be_changed_by_accident():
    with pytest.raises(pydantic.ValidationError):
        Settings().windows.samples = 5  # type: ignore[misc]  # the assignment is what must fail
    assert hash(Settings()) == hash(Settings())


def test_a_recipe_is_a_plain_value():
    assert Recipe.model_validate_json(load_recipe("default").model_dump_json()) == load_recipe("default")
