"""Reasons, claims and episodes."""

import datetime as dt
from importlib.resources import files

import numpy as np
import polars as pl
import pytest
import yaml

from infrascope_core.attribution import EPISODES, episodes, reasons
from infrascope_core.baselines import fit_baseline, score
from infrascope_core.settings import DetectorSettings
from infrascope_core.tables import ANOMALY_REASONS, ANOMALY_SCORES, FEATURES, WINDOW_FEATURES

SETTINGS = DetectorSettings(trees=20, reasons_per_window=4)
START = dt.datetime(2025, 5, 7)
SUBSYSTEM = {"AverageCPUUtilization[%]": "CPU", "Memory:Dirty[kB]": "Memory"}.__getitem__


def features(windows: int = 300, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frames = [
        pl.DataFrame(
            {
                "run_key": "run",
                "host": "h",
                "window": np.arange(windows),
                "metric": metric,
                "start_ts": [START + dt.timedelta(seconds=i) for i in range(windows)],
                **{f: rng.normal(50, 5, windows) for f in FEATURES},
            },
            schema=WINDOW_FEATURES.schema,
        )
        for metric in ("AverageCPUUtilization[%]", "Memory:Dirty[kB]")
    ]
    return pl.concat(frames)


@pytest.fixture(scope="module")
def judged():
    """A baseline, and a run whose window 20 has a mean CPU utilisation of 98.1 and a low minimum of Dirty."""
    baseline = fit_baseline(features(), "gpu", "train", "MLP__Classification__default", SETTINGS)
    new = features(60, seed=1)

    def planted(metric, feature, value):
        at = (pl.col("window") == 20) & (pl.col("metric") == metric)
        return pl.when(at).then(pl.lit(value)).otherwise(feature).alias(feature)

    new = new.with_columns(planted("AverageCPUUtilization[%]", "mean", 98.1))
    new = new.with_columns(planted("Memory:Dirty[kB]", "minimum", 10.0))
    scores = score(baseline, new)
    return baseline, new, scores, reasons(baseline, new, scores, SUBSYSTEM, SETTINGS)


def test_only_flagged_windows_have_reasons_ranked_from_one(judged):
    _, _, scores, found = judged
    assert found.schema == ANOMALY_REASONS.schema
    flagged = scores.filter(pl.col("agreement") > 0)["window"].to_list()
    assert 20 in flagged
    assert found["window"].unique().sort().to_list() == flagged
    for _, window in found.group_by("window", maintain_order=True):
        assert window["rank"].to_list() == list(range(1, window.height + 1))
        assert window["contribution"].is_sorted(descending=True)
        assert 0 < window["contribution"].sum() <= 1 + 1e-9
        assert window.height <= 4
    assert found.filter(window=20)["detectors"][0].to_list() == scores.filter(window=20)["flagged_by"][0].to_list()


def test_the_planted_features_are_named_in_a_sentence(judged):
    baseline, _, _, found = judged
    first, second = found.filter(pl.col("window") == 20).head(2).to_dicts()
    assert (first["subsystem"], first["metric"], first["feature"]) == (
        "CPU",
        "AverageCPUUtilization[%]",
        "mean",
    )
    assert (second["subsystem"], second["metric"], second["feature"]) == (
        "Memory",
        "Memory:Dirty[kB]",
        "minimum",
    )
    place = baseline.names.index(("AverageCPUUtilization[%]", "mean"))
    usual, scale = baseline.moments.location[place], baseline.moments.scale[place]
    assert (first["value"], first["expected"]) == (98.1, usual)
    assert first["claim"] == (
        f"AverageCPUUtilization[%]: mean 98.1 is {(98.1 - usual) / scale:.1f} standard deviations above the "
        f"baseline of {usual:.4g} (train MLP__Classification__default): a higher level."
    )
    assert "below the baseline" in second["claim"]
    assert second["claim"].endswith(": a deeper drop.")


def test_contributions_are_the_mean_share_over_the_detectors_that_flag(judged):
    baseline, new, scores, _ = judged
    only = scores.filter(pl.col("window") == 20).with_columns(
        flagged_by=pl.Series([["zscore"]]), agreement=pl.lit(1, pl.Int64)
    )
    (first, *_) = reasons(baseline, new, only, SUBSYSTEM, SETTINGS).to_dicts()
    row = np.concatenate(
        [
            new.filter(window=20, metric=m).select(FEATURES).to_numpy()[0]
            for m in ("AverageCPUUtilization[%]", "Memory:Dirty[kB]")
        ]
    )
    z = np.abs((row - baseline.moments.location) / baseline.moments.scale)
    assert first["contribution"] == pytest.approx(z[0] / z.sum())


def test_without_flags_there_are_no_reasons_and_no_episodes(judged):
    baseline, new, scores, _ = judged
    calm = scores.with_columns(agreement=pl.lit(0, pl.Int64))
    none = reasons(baseline, new, calm, SUBSYSTEM, SETTINGS)
    assert none.equals(ANOMALY_REASONS.empty())
    assert episodes(calm, none, dt.timedelta(seconds=3)).schema == EPISODES
    assert episodes(ANOMALY_SCORES.empty(), none, dt.timedelta(seconds=3)).is_empty()


def test_every_feature_has_words_for_both_directions():
    words = yaml.safe_load((files("infrascope_core") / "recipes" / "claims.yaml").read_text())
    assert set(words["features"]) == set(FEATURES)
    assert all(set(w) == {"noun", "above", "below"} for w in words["features"].values())


def flags(*windows: tuple[int, float, list[str]], run: str = "run", host: str = "h") -> pl.DataFrame:
    rows = [
        {
            "run_key": run, "host": host, "window": w, "start_ts": START + dt.timedelta(seconds=w),
            "severity": severity, "flagged_by": by, "agreement": len(by),
        }
        for w, severity, by in windows
    ]  # fmt: skip
    return pl.DataFrame(rows, schema={c: t for c, t in ANOMALY_SCORES.schema.items() if c in rows[0]})


def reason(window: int, rank: int, subsystem: str, contribution: float, **changed) -> dict:
    values = {
        "run_key": "run", "host": "h", "window": window, "rank": rank, "subsystem": subsystem,
        "metric": f"{subsystem}{window}", "feature": "mean", "contribution": contribution,
        "claim": f"{subsystem} {window}/{rank}",
    }  # fmt: skip
    return values | changed


def blamed(*rows: dict) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=ANOMALY_REASONS.schema)


Z, M, F = "zscore", "mahalanobis", "isolation_forest"


def test_flagged_windows_at_most_two_apart_are_one_episode():
    scores = flags((3, 1.5, [F]), (4, 0.5, []), (6, 2.0, [Z, F]), (10, 1.1, [M]))
    why = blamed(
        reason(3, 1, "CPU", 0.5),
        reason(3, 2, "Memory", 0.3),
        reason(6, 1, "CPU", 0.2),
        reason(6, 2, "Memory", 0.15),
        reason(10, 1, "Network", 0.9),
    )
    found = episodes(scores, why, dt.timedelta(seconds=3))
    assert found.schema == EPISODES
    at = {s: START + dt.timedelta(seconds=s) for s in (3, 9, 10, 13)}
    assert found.rows() == [
        ("run", "h", 3, 6, at[3], at[9], 2, [Z, F], 2, 2.0, "CPU", "CPU6", "mean", "CPU 6/1"),
        ("run", "h", 10, 10, at[10], at[13], 1, [M], 1, 1.1, "Network", "Network10", "mean", "Network 10/1"),
    ]


def test_the_subsystem_is_that_of_most_contribution_and_the_claim_is_its_own():
    scores = flags((0, 1.5, [Z]), (1, 3.0, [Z]))
    why = blamed(reason(0, 1, "Memory", 0.9), reason(1, 1, "CPU", 0.4), reason(1, 2, "Memory", 0.3))
    (episode,) = episodes(scores, why, dt.timedelta(seconds=3)).to_dicts()
    assert (episode["subsystem"], episode["claim"]) == ("Memory", "Memory 1/2")


def test_hosts_and_runs_are_never_merged_and_the_worst_comes_first():
    scores = pl.concat(
        [
            flags((0, 1.2, [Z]), host="h1"),
            flags((1, 9.0, [Z]), host="h2"),
            flags((0, 1.1, [Z, M]), run="other", host="h2"),
        ]
    )
    found = episodes(scores, ANOMALY_REASONS.empty(), dt.timedelta(seconds=3))
    assert found.select("run_key", "host", "agreement").rows() == [
        ("other", "h2", 2),
        ("run", "h2", 1),
        ("run", "h1", 1),
    ]
    assert found["claim"].null_count() == 3
