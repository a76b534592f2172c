"""Judging by hand-made products: separation, events, false alarms, and what is left out."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from infrascope_core.anomalies.tables import ANOMALY_SCORES, BASELINES, LEVEL_OFFSETS, WINDOW_FEATURES
from infrascope_core.errors import InfraScopeError
from infrascope_core.evaluation import judgement
from infrascope_core.evaluation.data_set import DataSet, evaluate
from infrascope_core.evaluation.judged_run import ANY_FAULT
from infrascope_core.evaluation.judgement import METHODS, PLACEBO, POSITION, compare, judge
from infrascope_core.evaluation.split import find_labelled, split_healthy
from infrascope_core.quality.tables import METRIC_CATALOG
from infrascope_core.reports.tables import ANOMALY_EPISODES
from infrascope_core.run_files.tables import FAULTS, RUN_FILES, TELEMETRY
from infrascope_core.settings import Settings
from infrascope_core.store.folder import DataFolder

START = datetime(2026, 11, 1, 10, 0, 0)
SAMPLES = 60
SETTINGS = Settings.model_validate(
    {"features": {"samples": 3, "stride": 3}, "evaluation": {"max_buffer": 2, "peer_trees": 5}}
)
METRICS = ("CPU:busy[%]", "Memory:free[kB]")


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


class Folder:
    """A data folder filled by hand: one sample a second, windows of 3 s one after the other."""

    def __init__(self, path: Path) -> None:
        self.runs = path / "runs"
        self.runs.mkdir(parents=True)
        self.folder = DataFolder(path / "data", SETTINGS, (self.runs,))
        self.lake = self.folder.lake

    def add(self, minute: int, faults: list[tuple], version: str = "fitted", platform: str = "cpu") -> str:
        key = f"train_MLPforTask_Digits_2026-11-01T10-{minute:02d}-00_h1"
        (self.runs / f"{key}.txt").write_text("")
        lines = "".join(f"{at(a)}.000,{at(b)}.000,{name},{s},{';'.join(m)}\n" for a, b, name, s, m in faults)
        (self.runs / f"{key}.faults.csv").write_text("start,end,fault,subsystem,metrics\n" + lines)
        rows = [(key, at(a), at(b), name, subsystem, list(m)) for a, b, name, subsystem, m in faults]
        self.lake.write(pl.DataFrame(rows, schema=FAULTS.schema, orient="row"), FAULTS, key)
        run = dict.fromkeys(RUN_FILES.schema.names()) | {
            "run_key": key, "platform": platform, "phase": "train", "workload": "MLP__Task__Digits",
            "samples": SAMPLES, "interval_s": 1.0, "status": "accepted",
        }  # fmt: skip
        self.lake.write(pl.DataFrame([run], schema=RUN_FILES.schema), RUN_FILES, key)
        rng = np.random.default_rng(minute)
        values = {m: rng.normal(50, 1, SAMPLES) for m in METRICS}
        keys = {"run_key": key, "host": "h1", "sample": range(SAMPLES), "ts": [at(i) for i in range(SAMPLES)]}
        self.lake.write(pl.DataFrame({**keys, **values}), TELEMETRY, key)
        windows = SAMPLES // 3
        features = pl.DataFrame(
            {
                "run_key": key,
                "host": "h1",
                "window": np.tile(np.arange(windows), len(METRICS)),
                "metric": np.repeat(METRICS, windows),
                "start_ts": [at(3 * w) for w in range(windows)] * len(METRICS),
                "windows": 1,
                "samples": 3,
                "mean": np.concatenate([values[m].reshape(-1, 3).mean(axis=1) for m in METRICS]),
            }
        )
        nothing = [pl.lit(None, t).alias(n) for n, t in WINDOW_FEATURES.schema.items() if n not in features.columns]
        self.lake.write(features.with_columns(nothing), WINDOW_FEATURES, key)
        self.score(key, {}, version)
        return key

    def score(self, key: str, surprisal: dict[int, float], version: str = "fitted") -> None:
        """Windows with the given surprisal are anomalous; all others have 0."""
        windows = SAMPLES // 3
        values = [surprisal.get(w, 0.0) for w in range(windows)]
        rows = [
            dict.fromkeys(ANOMALY_SCORES.schema.names())
            | {"run_key": key, "host": "h1", "window": w, "start_ts": at(3 * w), "surprisal": s, "zscore": s,
               "anomalous": s > 0, "baseline_version": version}
            for w, s in enumerate(values)
        ]  # fmt: skip
        self.lake.write(pl.DataFrame(rows, schema=ANOMALY_SCORES.schema), ANOMALY_SCORES, key)

    def episodes(self, key: str, *episodes: tuple[float, float, float, str, list[str]]) -> None:
        rows = [
            dict.fromkeys(ANOMALY_EPISODES.schema.names())
            | {"run_key": key, "host": "h1", "episode": i, "start_ts": at(a), "end_ts": at(b), "surprisal": s,
               "subsystem": subsystem, "metrics": metrics}
            for i, (a, b, s, subsystem, metrics) in enumerate(episodes)
        ]  # fmt: skip
        self.lake.write(pl.DataFrame(rows, schema=ANOMALY_EPISODES.schema), ANOMALY_EPISODES, key)

    def compared(self, trusted: frozenset[str] = frozenset({"fitted"})):
        return compare("hand", split_healthy(find_labelled([self.runs])[0]), self.folder, trusted)


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path)
    folder.add(1, [])
    return folder


LEAK = (12, 29, "leak", "Memory", [METRICS[1]])  # windows 4 to 9


def test_an_event_is_found_by_an_episode_that_meets_it(folder):
    key = folder.add(2, [LEAK])
    folder.score(key, {5: 2.0, 6: 3.0})
    folder.episodes(key, (15, 21, 3.0, "Memory", [METRICS[0], METRICS[1]]))
    event = folder.compared().events.row(0, named=True)
    assert event["detected"] is True
    assert event["delay_s"] == 6.0  # the flagged window from 15 s ends at 18 s, the fault begins at 12 s
    assert event["blamed"] == "Memory"
    assert event["blamed_rightly"] is True
    assert [event[f"hit_{k}"] for k in (1, 3, 5)] == [False, True, True]
    assert [event[f"chance_{k}"] for k in (1, 3, 5)] == [0.5, 1.0, 1.0]  # one culprit of two metrics
    assert event["hit_rate"] == 0.0  # the first one alone is looked at, because there is one culprit


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (12, 29, True),
        (9, 20, True),  # one window ahead
        (8, 20, False),
        (29, 40, True),
        (15, 68, True),  # three times the 18 s
        (15, 70, False),  # an alarm from start to end finds nothing
    ],
)
def test_an_episode_finds_a_fault_that_it_begins_in_and_is_about(folder, start, end, found):
    key = folder.add(2, [LEAK])
    folder.episodes(key, (start, end, 3.0, "Memory", [METRICS[1]]))
    assert folder.compared().events["detected"].to_list() == [found]


def test_overlap_is_what_fault_and_episode_have_in_common_over_both(folder):
    key = folder.add(2, [LEAK])
    folder.episodes(key, (21, 39, 3.0, "Memory", []), (50, 55, 3.0, "CPU", []))
    # the fault is from 12 to 30 s: 9 of 27 s
    assert folder.compared().events["overlap"].to_list() == pytest.approx([1 / 3])


@pytest.mark.parametrize("differs", [True, False])
def test_what_lasts_as_long_as_its_run_is_found_as_a_difference_of_the_whole(folder, differs):
    key = folder.add(2, [(0, SAMPLES - 1, "pages", "Memory", [METRICS[1]])])
    folder.episodes(key, (0, SAMPLES, 9.0, "CPU", []))
    row = {"run_key": key, "host": "h1", "rank": 1, "subsystem": "Memory", "metric": METRICS[1], "differs": differs}
    row |= {"times": 20.0}
    offsets = pl.DataFrame([dict.fromkeys(LEVEL_OFFSETS.schema.names()) | row], schema=LEVEL_OFFSETS.schema)
    folder.lake.write(offsets, LEVEL_OFFSETS, key)
    judged = folder.compared()
    event = judged.events.row(0, named=True)
    # the episode begins with it and is as long, and blames another
    assert event["detected"]
    assert event["blamed"] == ("Memory" if differs else "CPU")
    assert judged.runs["differs"].to_list() == [differs]


def test_the_worst_of_several_episodes_is_the_one_that_is_held_to_the_label(folder):
    key = folder.add(2, [LEAK])
    folder.episodes(key, (12, 15, 9.0, "CPU", [METRICS[0]]), (18, 29, 3.0, "Memory", [METRICS[1]]))
    event = folder.compared().events.row(0, named=True)
    assert event["blamed"] == "CPU"
    assert event["blamed_rightly"] is False


def test_a_fault_that_no_episode_meets_is_missed_and_has_no_attribution_figures(folder):
    key = folder.add(2, [LEAK])
    folder.episodes(key, (40, 45, 9.0, "CPU", [METRICS[0]]))
    event = folder.compared().events.row(0, named=True)
    assert event["detected"] is False
    assert [event[name] for name in ("delay_s", "blamed", "blamed_rightly", "hit_1", "chance_1")] == [None] * 5


def test_without_the_table_of_episodes_nothing_is_claimed(folder):
    folder.add(2, [LEAK])
    judged = folder.compared()
    assert judged.events["detected"].to_list() == [None]
    assert judged.runs["false_episodes"].to_list() == [None]


def test_false_episodes_are_those_that_meet_no_fault(folder):
    key = folder.add(2, [LEAK])
    # before; within; trailing by less than a window of 3 s; and after that
    folder.episodes(key, *[(a, a + 2, 1.0, "CPU", []) for a in (5, 20, 31, 40)])
    run = folder.compared().runs.row(0, named=True)
    assert (run["episodes"], run["false_episodes"]) == (4, 2)
    # the fault lasts from 12 s to the end of the sample at 29 s, and one window of 3 s more is not held against it
    assert run["healthy_hours"] == pytest.approx((60 - 21) / 3600)
    assert run["hours"] == pytest.approx(60 / 3600)


def test_windows_of_which_nothing_is_known_are_no_alarms(folder):
    """A run that is judged by itself: anomalous where something stands out, and else not known."""
    key = folder.add(2, [LEAK])
    folder.score(key, dict.fromkeys((0, 15), 9.0))
    scores = folder.lake.read(ANOMALY_SCORES, key)
    folder.lake.write(scores.with_columns(anomalous=pl.when(pl.col("surprisal") > 1).then(True)), ANOMALY_SCORES, key)
    run = folder.compared().runs.row(0, named=True)
    assert (run["false_windows"], run["healthy_windows"]) == (2, 14)


def test_overlapping_faults_take_their_time_once(folder):
    folder.add(2, [LEAK, (20, 39, "hog", "CPU", [])])
    assert folder.compared().runs["healthy_hours"][0] == pytest.approx((60 - 31) / 3600)


def test_separation_is_per_fault_against_healthy_windows(folder):
    key = folder.add(2, [LEAK, (45, 50, "hog", "CPU", [])])  # windows 4 to 9, and 15 and 16
    folder.score(key, {**dict.fromkeys(range(4, 10), 2.0), 0: 1.0})
    separation = folder.compared().separation
    ours = separation.filter(pl.col("method") == "combination").rows_by_key("fault", named=True, unique=True)
    assert ours["leak"]["roc_auc"] == 1.0
    assert (ours["leak"]["faulty"], ours["leak"]["windows"]) == (6, 18)  # the two of the other fault are left out
    assert ours["hog"]["roc_auc"] == pytest.approx((11 / 12) / 2)  # 11 of 12 healthy windows tie with it
    assert ours[ANY_FAULT]["faulty"] == 8
    of_one_run = [method for method in METHODS if method not in {POSITION, PLACEBO}]
    assert separation["method"].unique(maintain_order=True).to_list() == of_one_run


def test_controls_know_where_other_runs_have_faults_and_what_is_true_of_them(folder):
    """Three runs with a fault at the same time and one with a later one."""
    _, second, _ = (folder.add(minute, [(12, 30, "leak", "Memory", [])]) for minute in (2, 3, 4))
    folder.add(5, [(39, 57, "leak", "Memory", [])])
    folder.score(second, dict.fromkeys(range(4, 10), 2.0))
    found = folder.compared().separation.filter(pl.col("fault") == ANY_FAULT, pl.col("run_key") == second)
    area = dict(found.select("method", "roc_auc").iter_rows())
    assert area["combination"] == 1.0
    assert area["position"] == 1.0  # two of the three others have it at the same time
    assert area["placebo"] == 1.0  # the run before has its fault at the same time
    late = folder.compared().separation.filter(pl.col("fault") == ANY_FAULT).sort("run_key")
    assert late.filter(method="position")["roc_auc"][-1] < 0.5


def test_windows_without_a_score_have_no_figure(folder):
    folder.add(2, [LEAK])
    separation = folder.compared().separation.filter(pl.col("method") == "mahalanobis")
    assert separation["roc_auc"].to_list() == [None, None]


def test_a_representative_of_a_culprit_counts_and_so_does_its_chance(folder):
    key = folder.add(2, [LEAK])
    row = {"platform": "cpu", "metric": METRICS[1], "represented_by": METRICS[0], "treatment": "as_is"}
    catalogue = pl.DataFrame([dict.fromkeys(METRIC_CATALOG.schema) | row], schema=METRIC_CATALOG.schema)
    folder.lake.write(catalogue, METRIC_CATALOG)
    folder.episodes(key, (15, 21, 3.0, "Memory", [METRICS[0]]))
    event = folder.compared().events.row(0, named=True)
    assert event["hit_1"] is True
    assert event["hit_rate"] == 1.0
    assert event["chance_1"] == 1.0  # either of the two metrics would do


def test_a_baseline_that_judged_runs_took_part_in_is_not_trusted(folder):
    key = folder.add(2, [LEAK])
    folder.score(key, {}, version="fitted later")
    judged = folder.compared()
    assert judged.runs.is_empty()
    assert f"1 runs are left out, because no baseline of reference runs could judge them; the first is {key}" in (
        judged.notes
    )


def test_references_are_of_the_same_platform(folder):
    folder.add(2, [LEAK], platform="gpu")
    assert folder.compared().runs.is_empty()


def test_labels_that_cannot_be_true_leave_the_run_out(folder):
    key = folder.add(2, [(12, 29, "leak", "Memory", ["nosuch"])])
    judged = folder.compared()
    assert judged.runs.is_empty()
    ((path, message),) = judged.problems
    assert path.name == f"{key}.txt"
    assert message == "the culprit 'nosuch' is no metric of the run (1 of its culprits are unknown)"


def test_the_folder_is_filled_with_the_references_first(tmp_path, monkeypatch):
    folder = Folder(tmp_path)
    healthy, faulty = folder.add(1, []), folder.add(2, [LEAK])
    seen = []

    def refresh(folder, refit, on_progress):
        assert not refit
        seen.append([path.name.removesuffix(".txt") for path in folder.sources])

    monkeypatch.setattr(judgement, "refresh", refresh)

    split = split_healthy(find_labelled([folder.runs])[0])
    judge("hand", split, tmp_path / "new", SETTINGS)
    assert seen == [[healthy], [healthy, faulty]]


def test_a_folder_that_holds_something_is_refused(tmp_path):
    folder = Folder(tmp_path)
    folder.add(1, [])
    folder.add(2, [LEAK])
    split = split_healthy(find_labelled([folder.runs])[0])
    with pytest.raises(InfraScopeError, match="an evaluation starts in an empty folder"):
        judge("hand", split, tmp_path, SETTINGS)


def test_runs_without_a_healthy_one_cannot_be_judged(tmp_path):
    folder = Folder(tmp_path)
    folder.add(2, [LEAK])
    split = split_healthy(find_labelled([folder.runs])[0])
    with pytest.raises(InfraScopeError, match="hand: no run can be judged; it takes a run, and a healthy run"):
        judge("hand", split, tmp_path / "new", SETTINGS)


def test_rejected_runs_are_reported_references_included(folder):
    key = folder.add(2, [LEAK])
    for rejected in (key, "train_MLPforTask_Digits_2026-11-01T10-01-00_h1"):
        row = folder.lake.read(RUN_FILES, rejected).with_columns(status=pl.lit("rejected"), reason=pl.lit("empty"))
        folder.lake.write(row, RUN_FILES, rejected)
    judged = folder.compared()
    assert judged.runs.is_empty()
    assert [message for _, message in judged.problems] == ["is rejected: empty", "is rejected: empty"]


def test_a_data_set_that_cannot_be_judged_is_reported_beside_one_that_can(tmp_path, monkeypatch):
    """The whole way, with products that were prepared instead of made."""
    prepared = Folder(tmp_path)
    prepared.add(1, [])
    key = prepared.add(2, [LEAK])
    prepared.score(key, {5: 2.0, 6: 3.0})
    prepared.episodes(key, (15, 21, 3.0, "Memory", [METRICS[1]]))
    fitted = dict.fromkeys(BASELINES.schema.names()) | {"platform": "cpu", "version": "fitted"}
    prepared.lake.write(pl.DataFrame([fitted], schema=BASELINES.schema), BASELINES)
    (tmp_path / "nothing").mkdir()
    sets = [DataSet(name="good", paths=(prepared.runs,)), DataSet(name="empty", paths=(tmp_path / "nothing",))]

    def refresh(folder, refit, on_progress):
        shutil.copytree(prepared.lake.root, folder.lake.root, dirs_exist_ok=True)

    monkeypatch.setattr(judgement, "refresh", refresh)
    result = evaluate(sets, tmp_path / "evaluation", SETTINGS)
    assert list(result.judgements) == ["good"]
    assert result.unjudged["empty"].startswith("empty: no run can be judged")
    recall = result.figures.filter((pl.col("figure") == "event_recall") & pl.col("fault").is_null())
    assert recall["value"].to_list() == [1.0] * recall.height
    content = json.loads(result.as_json())
    assert [run["run_key"] for run in content["data_sets"]["good"]["runs"]] == [key]
    assert content["data_sets"]["good"]["reference"] == ["train_MLPforTask_Digits_2026-11-01T10-01-00_h1"]
