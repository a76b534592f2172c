"""Baselines of a data folder: whose windows a run is compared with, and when they are fitted anew."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.reference_runs import baseline_of, baseline_row, unmatched_patterns
from infrascope_core.anomalies.settings import DetectorSettings
from infrascope_core.anomalies.tables import BASELINES, STORED_FEATURES, WINDOW_FEATURES
from infrascope_core.errors import NotFittedError, SettingsError
from infrascope_core.pipeline import GRAPH
from infrascope_core.run_files.tables import FAULTS, RUN_FILES
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder

START = datetime(2025, 5, 7)


class Folder:
    """A data folder whose runs have two metrics at random; labels are `healthy`, `faulty` or none."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.seed = 0

    def under(self, **detectors) -> DataFolder:
        return DataFolder(self.data, Settings(detectors=DetectorSettings(trees=5, **detectors)))

    def add(
        self,
        key: str,
        workload: str = "W",
        *,
        windows: int = 40,
        phase: str = "train",
        platform: str = "cpu",
        label: str | None = None,
    ) -> None:
        lake = self.under().lake
        row: dict[str, object]
        row = {"run_key": key, "platform": platform, "phase": phase, "workload": workload, "status": "accepted"}
        row |= {"labelled": label is not None, "interval_s": 0.1, "started_at": START}
        run_file = dict.fromkeys(RUN_FILES.schema.names()) | row
        lake.write(pl.DataFrame([run_file], schema=RUN_FILES.schema), RUN_FILES, key)
        fault = {"run_key": key, "start": START, "end": START, "fault": "f", "subsystem": "CPU", "metrics": []}
        faults = pl.DataFrame([fault] if label == "faulty" else [], schema=FAULTS.schema)
        lake.write(faults, FAULTS, key)
        self.seed += 1
        rng = np.random.default_rng(self.seed)
        index = {"run_key": key, "host": "h", "window": np.arange(windows), "windows": 1, "samples": 30}
        index |= {"start_ts": [START + timedelta(seconds=i) for i in range(windows)]}
        frames = [
            pl.DataFrame(
                index | {"metric": metric} | {f: rng.normal(10, 2, windows) for f in STORED_FEATURES},
                schema=WINDOW_FEATURES.schema,
            )
            for metric in ("a", "b")
        ]
        lake.write(pl.concat(frames), WINDOW_FEATURES, key)


def fit_baselines(folder: DataFolder, refit: bool = False) -> pl.DataFrame:
    return GRAPH.make_pooled(folder, BASELINES, refit=refit)


@pytest.fixture
def folder(tmp_path) -> Folder:
    return Folder(tmp_path)


def what(fitted: pl.DataFrame) -> list[tuple]:
    """What each baseline is of, what it is compared with, its runs and its windows."""
    return fitted.select("platform", "phase", "workload", "compared_with", "runs", "windows").rows()


class TestWhoseWindows:
    @pytest.fixture(autouse=True)
    def runs(self, folder):
        folder.add("train_1", label="healthy")
        folder.add("train_2", label="faulty")
        folder.add("train_3")
        folder.add("train_4", label="healthy")

    def test_of_the_runs_that_labels_know_to_be_healthy_where_there_are_any(self, folder):
        folder.add("other_1", "V", label="faulty")
        folder.add("other_2", "V")
        assert what(fit_baselines(folder.under())) == [
            ("cpu", "train", "V", "workload", 2, 80),
            ("cpu", "train", "W", "reference", 2, 80),
        ]
        references = baseline_of(folder.under(), "train_3").references
        assert references.runs == ("train_1", "train_4")

    def test_of_all_its_runs_whatever_the_labels(self, folder):
        assert what(fit_baselines(folder.under(compare_with="workload"))) == [("cpu", "train", "W", "workload", 4, 160)]

    def test_of_healthy_runs_or_of_none(self, folder):
        folder.add("gpu_1", "V", platform="gpu", label="faulty")
        folder = folder.under(compare_with="reference")
        assert what(fit_baselines(folder)) == [("cpu", "train", "W", "reference", 2, 80)]
        assert baseline_row(folder, "gpu_1") is None
        assert baseline_of(folder, "gpu_1") is None

    @pytest.mark.parametrize(
        ("patterns", "named"), [(("train_3",), 1), (("train_[23]", "train_4"), 3), (("*_1", "train_1"), 1)]
    )
    def test_of_named_runs_and_then_labels_do_not_count(self, folder, patterns, named):
        assert what(fit_baselines(folder.under(reference_runs=patterns))) == [
            ("cpu", "train", "W", "reference", named, 40 * named)
        ]

    def test_a_pattern_that_matches_no_run_is_refused_with_the_near_misses(self, folder):
        keys = ["train_HGBforTabularClassification_Covtype_2026-11-20T15-28-37_node01", "infer_B_2026-11-20_h1"]
        for pattern in ("trian_HGB*", "*node02"):
            with pytest.raises(SettingsError, match=r"matches none of 2 runs; near misses are .*train_HGB.*"):
                unmatched_patterns([pattern], keys)
        with pytest.raises(SettingsError, match=r"'trian_\*' matches none of 4 runs; near misses are train_"):
            fit_baselines(folder.under(reference_runs=("train_1", "trian_*")))

    def test_of_the_runs_own_past(self, folder):
        folder.add("short", windows=29)
        folder = folder.under(compare_with="past", past_windows=30)
        assert fit_baselines(folder).equals(BASELINES.empty())
        past = baseline_of(folder, "train_2")
        assert (past.identity.compared_with, past.identity.windows, past.identity.runs) == ("past", 30, 1)
        assert past.references.runs == ("train_2",)
        assert past.references.place.tolist() == [*range(30)]
        assert str(past.identity) == "the run's own past"
        assert baseline_of(folder, "short") is None

    def test_across_phases_one_baseline_serves_both(self, folder):
        folder.add("infer_1", phase="infer")
        together = folder.under(across_phases=True, compare_with="workload")
        assert what(fit_baselines(together)) == [("cpu", "any", "W", "workload", 5, 200)]
        assert baseline_row(together, "infer_1") == baseline_row(together, "train_1")
        assert baseline_of(together, "infer_1").references.band is None  # places mean nothing then
        apart = folder.under(compare_with="workload")
        assert [row[:3] for row in what(fit_baselines(apart))] == [("cpu", "infer", "W"), ("cpu", "train", "W")]
        assert baseline_of(apart, "infer_1").references.band == (10, 0.1)

    def test_no_more_windows_than_settings_allow(self, folder):
        (row,) = what(fit_baselines(folder.under(max_windows=60, compare_with="workload")))
        assert row[3:] == ("workload", 1, 40)  # one run of the four, whose 40 windows are one stretch


class TestThePlatformsBaseline:
    def test_it_judges_a_workload_with_too_few_windows(self, folder):
        folder.add("w1")
        folder.add("v1", "V", windows=29)
        folder = folder.under()
        assert what(fit_baselines(folder)) == [
            ("cpu", "any", "any", "workload", 2, 69),
            ("cpu", "train", "W", "workload", 1, 40),
        ]
        assert baseline_row(folder, "w1")["workload"] == "W"
        assert baseline_row(folder, "v1")["workload"] == "any"
        assert str(baseline_of(folder, "v1").identity) == "2 runs of all workloads on cpu"

    def test_it_is_of_healthy_runs_of_any_workload(self, folder):
        folder.add("w1", label="healthy")
        folder.add("w2", label="faulty")
        folder.add("v1", "V", windows=20)
        assert what(fit_baselines(folder.under())) == [
            ("cpu", "any", "any", "reference", 1, 40),
            ("cpu", "train", "W", "reference", 1, 40),
        ]

    def test_each_platform_has_its_own(self, folder):
        folder.add("c1", windows=20)
        folder.add("c2", "V", windows=20)
        folder.add("g1", platform="gpu", windows=20)
        folder.add("g2", "V", platform="gpu", windows=40)
        folder = folder.under()
        assert what(fit_baselines(folder)) == [
            ("cpu", "any", "any", "workload", 2, 40),
            ("gpu", "any", "any", "workload", 2, 60),
            ("gpu", "train", "V", "workload", 1, 40),
        ]

    def test_or_none_with_too_few_windows_on_it(self, folder):
        folder.add("c1", windows=20)
        folder.add("c2", "V", windows=20)
        folder.add("g1", platform="gpu", windows=20)
        folder = folder.under()
        assert what(fit_baselines(folder)) == [("cpu", "any", "any", "workload", 2, 40)]
        assert baseline_row(folder, "g1") is None
        assert baseline_of(folder, "g1") is None

    def test_too_few_healthy_windows_count_as_too_few(self, folder):
        folder.add("w1", label="healthy", windows=10)
        folder.add("w2", label="faulty")
        folder.add("v1", "V", label="healthy")
        folder = folder.under()
        assert what(fit_baselines(folder)) == [
            ("cpu", "any", "any", "reference", 2, 50),
            ("cpu", "train", "V", "reference", 1, 40),
        ]
        assert baseline_row(folder, "w2")["workload"] == "any"


class TestWhenTheyAreFitted:
    def test_nothing_judges_before_a_fit(self, folder):
        folder.add("w1")
        with pytest.raises(NotFittedError, match="baselines is not fitted yet; it comes before the products of w1"):
            baseline_row(folder.under(), "w1")
        assert fit_baselines(folder.under()).height == 1

    def test_no_runs_raise_nothing(self, folder):
        assert fit_baselines(folder.under()).equals(BASELINES.empty())

    def test_a_workload_seen_later_joins_and_the_others_stay(self, folder):
        folder.add("w1")
        first = fit_baselines(folder.under())
        folder.add("w2")
        folder.add("v1", "V")
        second = fit_baselines(folder.under())
        assert second.filter(workload="W").equals(first)
        assert what(second) == [("cpu", "train", "V", "workload", 1, 40), ("cpu", "train", "W", "workload", 1, 40)]
        assert fit_baselines(folder.under()).equals(second)

    def test_one_that_had_too_few_windows_has_its_own_once_there_are_enough(self, folder):
        folder.add("w1")
        folder.add("v1", "V", windows=20)
        fit_baselines(folder.under())
        assert baseline_row(folder.under(), "v1")["workload"] == "any"
        folder.add("v2", "V", windows=20)
        assert ("cpu", "train", "V", "workload", 2, 40) in what(fit_baselines(folder.under()))
        assert baseline_row(folder.under(), "v1")["workload"] == "V"

    def test_a_refit_takes_what_has_come_and_drops_the_old_model(self, folder):
        folder.add("w1")
        first = fit_baselines(folder.under())
        folder.add("w2")
        second = fit_baselines(folder.under(), refit=True)
        assert what(second) == [("cpu", "train", "W", "workload", 2, 80)]
        assert second["version"][0] != first["version"][0]
        assert [str(p.relative_to(folder.data)) for p in (folder.data / "models").iterdir()] == second["file"].to_list()
        assert baseline_of(folder.under(), "w1").identity.version == second["version"][0]

    def test_models_of_an_older_format_are_removed_and_what_is_not_a_model_stays(self, folder):
        folder.add("w1")
        models = folder.data / "models"
        models.mkdir()
        for name in ("cpu_train_W_0123456789ab.npz", "notes.txt"):
            (models / name).write_bytes(b"")
        (file,) = fit_baselines(folder.under())["file"]
        assert sorted(path.name for path in models.iterdir()) == sorted([Path(file).name, "notes.txt"])

    def test_a_refit_on_the_same_runs_gives_the_same_model(self, folder):
        folder.add("w1")
        (path,) = (folder.data / fit_baselines(folder.under())["file"][0],)
        before = path.read_bytes()
        fit_baselines(folder.under(), refit=True)
        assert path.read_bytes() == before

    def test_other_settings_start_anew_and_a_lost_model_is_fitted_again(self, folder):
        folder.add("w1")
        first = fit_baselines(folder.under())
        assert fit_baselines(folder.under()).equals(first)
        assert fit_baselines(folder.under(allowance=0.5))["version"][0] != first["version"][0]
        again = fit_baselines(folder.under())
        assert again["version"][0] == first["version"][0]
        (folder.data / again["file"][0]).unlink()
        assert fit_baselines(folder.under())["version"][0] == first["version"][0]
        assert (folder.data / again["file"][0]).is_file()

    def test_a_model_file_of_another_version_is_refused(self, folder):
        folder.add("w1")
        fitted = fit_baselines(folder.under())
        other = fitted.with_columns(version=pl.lit("0123456789ab"))
        folder.under().lake.write(other, BASELINES)
        with pytest.raises(NotFittedError, match=re.escape(f"holds version {fitted['version'][0]}, expected 0123")):
            baseline_of(folder.under(), "w1")
